//! The folder for temporary files: for what does not fit into memory, and for streams that are read
//! more than once.
//!
//! The files have no names ([`NamelessFile`]), so nothing of them outlives the process, and what
//! others have in the folder does not matter. Errors of files are [`Error::TemporaryFile`]: they
//! name the folder, and say how to get another one.
//!
//! ```
//! use swingdb_common::runtime::temporary::Folder;
//! # let temporary = tempfile::tempdir().unwrap();
//! # let path = temporary.path();
//! let folder = Folder::named(path.join("for-queries"));
//! folder.nameless_file()?;
//! assert!(path.join("for-queries").is_dir());
//! # Ok::<(), swingdb_common::error::Error>(())
//! ```

use std::fs::{DirBuilder, File};
use std::io::{Error as IoError, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

pub use swing_tier::{NamelessFile, longest_file};
use swing_tier::{open_nameless, sweep_nameless};

use crate::error::{Error, Result};

/// The variable of the environment that names the folder. Without it that is the system's
/// (`TMPDIR`, else `/tmp`).
pub const VARIABLE: &str = "SWINGDB_TEMP_DIRECTORY";
/// How to get another folder.
const OTHER_FOLDER: &str = "name another folder (SET temp_directory, or the variables \
                            SWINGDB_TEMP_DIRECTORY and TMPDIR)";

/// A folder for temporary files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    /// Somebody has named it for this purpose, so it is made where it is missing.
    is_made: bool,
}

impl Folder {
    /// The one that the environment names now.
    pub fn of_environment() -> Self {
        match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            Some(path) => Self::named(PathBuf::from(path)),
            None => Self { path: std::env::temp_dir(), is_made: false },
        }
    }

    /// One that a setting names.
    pub fn named(path: PathBuf) -> Self {
        Self { path, is_made: true }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new file that is read and written block by block, and that forked children do not keep.
    pub fn nameless_file(&self) -> Result<NamelessFile> {
        self.made(|| NamelessFile::create(&self.path))
    }

    /// A new file without a name as an ordinary one.
    pub fn plain_file(&self) -> Result<File> {
        self.made(|| open_nameless(&self.path))
    }

    fn made<T>(&self, open: impl Fn() -> std::io::Result<T>) -> Result<T> {
        let opened = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound && self.is_made => {
                // Another thread may have made it; else opening says what is missing.
                let _ = DirBuilder::new().mode(0o700).create(&self.path);
                open()
            }
            opened => opened,
        };
        opened.map_err(|error| self.failed("make", &error))
    }

    /// The error of a temporary file in it that could not be made, written or read.
    pub fn failed(&self, action: &str, error: &IoError) -> Error {
        let errno = error.raw_os_error();
        let (is_full, advice) = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                (true, format!("free space in it, {OTHER_FOLDER}, or raise memory_limit"))
            }
            ErrorKind::FileTooLarge => {
                (true, "raise the limit on lengths of files (ulimit -f), or memory_limit".into())
            }
            ErrorKind::NotFound => (false, format!("make it, or {OTHER_FOLDER}")),
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                (false, format!("look after the disk, or {OTHER_FOLDER}"))
            }
            // EMFILE, ENFILE
            _ if matches!(errno, Some(23 | 24)) => {
                (false, "close some, or raise the limit (ulimit -n)".into())
            }
            _ => (false, OTHER_FOLDER.into()),
        };
        let message = format!("could not {action} a temporary file: {error}; {advice}");
        let folder = Some(self.path.clone());
        Error::TemporaryFile { folder, is_full, errno, message }
    }

    /// Removes what processes of this user that were killed have left in it; how many files.
    pub fn sweep(&self) -> usize {
        sweep_nameless(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_somebody_named_is_made() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::named(parent.path().join("a"));
        let block = folder.nameless_file().unwrap();
        block.write(b"1", 0).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        folder.plain_file().unwrap();
        assert_eq!(folder.sweep(), 0);
        // Its parents are not.
        let Err(error) = Folder::named(parent.path().join("b/c")).plain_file() else { panic!() };
        let text = error.to_string();
        assert!(text.contains("b/c: could not make a temporary file: No such file"), "{text}");
        assert!(text.contains("SET temp_directory"), "{text}");
        assert!(!parent.path().join("b").exists());
    }

    #[test]
    fn an_error_says_what_to_do() {
        let folder = Folder::named("/scratch".into());
        let of = |errno| folder.failed("write", &IoError::from_raw_os_error(errno));
        for (errno, full, words) in [
            (28, true, "raise memory_limit"),
            (122, true, "free space in it"),
            (27, true, "ulimit -f"),
            (24, false, "ulimit -n"),
            (2, false, "make it"),
            (13, false, "SWINGDB_TEMP_DIRECTORY"),
            (30, false, "TMPDIR"),
        ] {
            let error = of(errno);
            let text = error.to_string();
            assert!(text.starts_with("/scratch: could not write"), "{text}");
            assert!(text.contains(words), "{text}");
            let Error::TemporaryFile { is_full, errno: known, .. } = error else { panic!() };
            assert_eq!((is_full, known), (full, Some(errno)), "{text}");
        }
    }
}
