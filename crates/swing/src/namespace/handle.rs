//! A handle to the directory that holds areas.
//!
//! Each area is a folder under its (encoded) name. Folders whose names begin with a dot are areas
//! without a name, areas in the making, and the remains of removed ones.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::backing::Backing;
use crate::model::error::{Context, Fault, NamespaceError, Result};
use crate::policy::switches::{Switches, WITHOUT_VARIABLE};
use crate::sys::file::{self, Folder};
use crate::sys::process;

/// The environment variable that names the namespace directory.
pub const HOME_VARIABLE: &str = "SWINGDB_HOME";

/// A directory of areas. Clones are the same directory.
#[derive(Clone, Debug)]
pub struct Namespace {
    folder: Arc<Folder>,
    backing: Backing,
    switches: Switches,
}

impl Namespace {
    /// `$SWINGDB_HOME`, else `/dev/shm/swingdb-<uid>`.
    pub fn default_path() -> PathBuf {
        match std::env::var_os(HOME_VARIABLE) {
            Some(path) if !path.is_empty() => PathBuf::from(path),
            _ => PathBuf::from(format!("/dev/shm/swingdb-{}", process::user_id())),
        }
    }

    /// Opens the default namespace, making its directory if need be.
    pub fn open_default() -> Result<Self, NamespaceError> {
        Self::open(Self::default_path())
    }

    /// Opens a namespace directory, making it (mode 0700) if need be. One that belongs to another
    /// user, or that others may write to, is refused: they could exchange files under our feet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NamespaceError> {
        let path = path.as_ref();
        Self::open_inner(path).map_err(|f| NamespaceError::from_fault(f, &Context::path(path)))
    }

    fn open_inner(path: &Path) -> Result<Self> {
        let switches = switches(path)?;
        let folder = match Folder::open_itself(path) {
            Ok(folder) => folder,
            // It is not there, or a link.
            Err(_) => make_or_follow(path)?,
        };
        let folder = folder.kept()?;
        let (uid, mode) = file::owner_and_mode(&folder)?;
        if uid != process::user_id() {
            let why = "it belongs to another user; set SWINGDB_HOME to a directory of your own";
            return Err(refused(path, why));
        }
        if mode & 0o022 != 0 {
            return Err(refused(path, "other users may write to it; chmod 700 it"));
        }
        Ok(Self { folder: Arc::new(folder), backing: Backing::Auto, switches })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The same directory; areas made or derived through this handle, whose options leave it open,
    /// are made of `backing`.
    #[must_use]
    pub fn with_backing(mut self, backing: Backing) -> Self {
        self.backing = backing;
        self
    }

    /// What areas are to be made of whose options leave it open.
    pub(crate) fn wished_backing(&self) -> Backing {
        self.backing
    }

    /// Choices that only buy speed.
    pub(crate) fn switches(&self) -> Switches {
        self.switches
    }

    #[cfg(test)]
    pub(crate) fn with_switches(mut self, switches: Switches) -> Self {
        self.switches = switches;
        self
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Whether a folder that was opened and then locked has its name still. Between the two another
    /// process may have removed it and made a new one: what is done by name would then befall that.
    pub(crate) fn still_named(&self, name: &str, folder: &Folder) -> Result<bool> {
        Ok(self.folder.identity_of(name) == Some(folder.identity()))
    }
}

/// As the environment says.
fn switches(path: &Path) -> Result<Switches> {
    let without = std::env::var_os(WITHOUT_VARIABLE).unwrap_or_default();
    Switches::without(&without.to_string_lossy()).map_err(|text| {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, text);
        Fault::io("choose how to use", path, source)
    })
}

/// Makes a directory that is not there; opens what a link leads to.
fn make_or_follow(path: &Path) -> Result<Folder> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| Fault::io("create", path, e))?;
    // Where anybody may make links (`/dev/shm`), somebody else's could lead to any folder of this
    // user's.
    let link = std::fs::symlink_metadata(path).map_err(|e| Fault::io("look at", path, e))?;
    if link.is_symlink() && ![0, process::user_id()].contains(&link.uid()) {
        return Err(refused(path, "it is a symbolic link of another user; set SWINGDB_HOME"));
    }
    Folder::open_path(path)
}

fn refused(path: &Path, why: &str) -> Fault {
    Fault::io("use", path, std::io::Error::new(std::io::ErrorKind::PermissionDenied, why))
}
