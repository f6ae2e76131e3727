//! Where queries write what does not fit into memory, and how much: the settings `temp_directory`
//! and `max_temp_directory_size`, in DuckDB's words.
//!
//! They travel with the engine's configuration. [`spill_files`](crate::spill_files) keeps to them.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::prelude::SessionConfig;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::temporary::Folder;

use crate::options::amounts::parse_bytes;

/// The variable of the environment that has the default of `max_temp_directory_size`.
const VARIABLE: &str = "SWINGDB_MAX_TEMP_DIRECTORY_SIZE";
/// Percent of the free space that may be used unless told otherwise.
const USUAL_PERCENT: u8 = 90;
/// What DuckDB shows behind them.
const OF_DISK: &str = "% of available disk space";

/// The settings of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemporaryFiles {
    /// The folder.
    pub directory: Directory,
    /// How many bytes may lie in it.
    pub most: Most,
}

/// Where temporary files lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Directory {
    /// In the folder that the environment names.
    #[default]
    Environment,
    /// In this one.
    Named(PathBuf),
    /// Queries write none.
    Nowhere,
}

/// How many bytes there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Most {
    /// So many.
    Bytes(u64),
    /// So many percent of the space that is free when the first file is made.
    OfDisk(u8),
}

impl Default for Most {
    fn default() -> Self {
        Self::OfDisk(USUAL_PERCENT)
    }
}

impl TemporaryFiles {
    /// The defaults, for which the environment is asked; an error when a variable is no amount.
    pub fn configured() -> Result<Self> {
        Ok(Self { directory: Directory::default(), most: Most::configured()? })
    }

    /// The settings that a configuration carries.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map(|files| Self::clone(&files)).unwrap_or_default()
    }

    /// Puts them into a configuration.
    pub fn carry(self, config: &mut SessionConfig) {
        config.set_extension(Arc::new(self));
    }
}

impl Directory {
    /// The directory that a setting names; no path means that there is none.
    pub fn parse(path: &str) -> Result<Self> {
        if path.is_empty() {
            return Ok(Self::Nowhere);
        }
        let wrong = |why: String| Error::plan(format!("temp_directory {path:?}: {why}"));
        // Statements may run when the program has changed its working directory.
        let full = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
        match std::fs::metadata(&full) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(wrong("is a file; name a directory".to_string())),
            // It is made when it is needed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let parent = full.parent().filter(|parent| parent.is_dir());
                parent.ok_or_else(|| {
                    wrong("is not there, nor is the directory above it; make that".to_string())
                })?;
            }
            Err(error) => return Err(wrong(error.to_string())),
        }
        Ok(Self::Named(full))
    }

    /// The folder of a session's own.
    pub fn named(&self) -> Option<Folder> {
        match self {
            Self::Named(path) => Some(Folder::named(path.clone())),
            Self::Environment | Self::Nowhere => None,
        }
    }

    /// How it is shown.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Environment => Folder::of_environment().path().display().to_string(),
            Self::Named(path) => path.display().to_string(),
            Self::Nowhere => String::new(),
        }
    }
}

impl Most {
    /// The default.
    fn configured() -> Result<Self> {
        match std::env::var_os(VARIABLE) {
            Some(value) => Self::parse(&value.to_string_lossy())
                .map_err(|error| Error::plan(format!("{VARIABLE}: {error}"))),
            None => Ok(Self::default()),
        }
    }

    /// `10GB`, or `50%` of the free space.
    pub fn parse(text: &str) -> Result<Self> {
        let Some(percent) = text.trim().strip_suffix(OF_DISK).or(text.trim().strip_suffix('%'))
        else {
            return Ok(Self::Bytes(parse_bytes(text)? as u64));
        };
        let percent = percent.trim().parse().ok().filter(|percent| *percent <= 100);
        percent.map(Self::OfDisk).ok_or_else(|| {
            Error::plan(format!("{text:?} is no part of the free space, as '50%' is one"))
        })
    }

    /// How it is shown.
    pub(crate) fn show(self) -> String {
        match self {
            Self::Bytes(bytes) => bytes.to_string(),
            Self::OfDisk(percent) => format!("{percent}{OF_DISK}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_space() {
        for (text, most) in [
            ("10GB", Most::Bytes(10_000_000_000)),
            ("0", Most::Bytes(0)),
            ("50%", Most::OfDisk(50)),
            (" 100 %", Most::OfDisk(100)),
            ("90% of available disk space", Most::default()),
        ] {
            assert_eq!(Most::parse(text).unwrap(), most, "{text}");
            assert_eq!(Most::parse(&most.show()).unwrap(), most, "{text}");
        }
        for wrong in ["", "much", "101%", "-1%", "5 parsec", "all of it"] {
            assert!(Most::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn directories_that_there_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("file"), b"").unwrap();
        for name in ["", "new"] {
            let directory = Directory::parse(&path(name)).unwrap();
            assert_eq!(directory, Directory::Named(path(name).into()));
            assert_eq!(Directory::parse(&directory.show()).unwrap(), directory);
        }
        assert_eq!(Directory::parse("").unwrap(), Directory::Nowhere);
        for (name, why) in [("file", "is a file"), ("a/b", "make that"), ("file/b", "Not a dir")] {
            let error = Directory::parse(&path(name)).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
    }
}
