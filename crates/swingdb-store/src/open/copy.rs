//! Copies of a state in a directory of their own, and reading one back under a name.
//!
//! Any open database can be copied, a snapshot too. A copy is a store like others, with a history
//! that begins with it: it is nobody's store until a database is opened with it.

use std::path::Path;
use std::sync::Arc;

use swing::Namespace;
use swing_tier::storage::Storage;
use swing_tier::{Directory, DirectoryOptions, Log, LogOptions, OpenError as LogError};
use swingdb_common::error::{Error, ObjectKind, Result, StoreProblem};
use swingdb_common::progress::Progress;

use crate::durable::copy::write_copy;
use crate::durable::disk::CheckpointInfo;
use crate::durable::load::{StoredCatalog, load};
use crate::errors::log::{absolute, open_error, problem};
use crate::open::attach::{open_log, open_or_create};
use crate::store::handle::Store;

impl Store {
    /// Writes the last committed state into a directory of its own, missing or empty, as database
    /// `name`.
    pub fn copy_to(&self, directory: &Path, name: &str) -> Result<CheckpointInfo> {
        let path = absolute(directory)?;
        let log = open_log(&path)?;
        write_copy(&self.latest(), &log, &path, name)
    }

    /// As [`Store::copy_to`], on a storage of the caller's: for tests of what happens when it
    /// fails.
    #[doc(hidden)]
    pub fn copy_on(
        &self,
        (storage, options): (Arc<dyn Storage>, LogOptions),
        name: &str,
    ) -> Result<CheckpointInfo> {
        let path = storage.path().to_owned();
        let log = open_or_create(&path, storage, options, || Ok(()))?;
        write_copy(&self.latest(), &log, &path, name)
    }

    /// Reads the state in a store into memory, as the new database `name`, else under the name that
    /// it has in the store. The database has no store then; the one that was read stays as it is.
    pub fn restore(
        namespace: &Namespace,
        directory: &Path,
        name: Option<&str>,
        progress: Option<&dyn Progress>,
    ) -> Result<Self> {
        let path = absolute(directory)?;
        let options = DirectoryOptions { create: false, ..DirectoryOptions::default() };
        let storage = Directory::open(&path, options);
        let storage = storage.map_err(|e| open_error(&path, LogError::Io(e)))?;
        let log = (Arc::new(storage) as Arc<dyn Storage>, LogOptions::default());
        Self::restore_from(namespace, (&path, log), name, progress)
    }

    /// As [`Store::restore`], from a storage of the caller's: for tests of what happens when it
    /// fails.
    #[doc(hidden)]
    pub fn restore_on(
        namespace: &Namespace,
        (storage, options): (Arc<dyn Storage>, LogOptions),
        name: Option<&str>,
    ) -> Result<Self> {
        let path = storage.path().to_owned();
        Self::restore_from(namespace, (&path, (storage, options)), name, None)
    }

    fn restore_from(
        namespace: &Namespace,
        (path, (storage, options)): (&Path, (Arc<dyn Storage>, LogOptions)),
        name: Option<&str>,
        progress: Option<&dyn Progress>,
    ) -> Result<Self> {
        let log = Log::open_read_only(storage, options).map_err(|e| open_error(path, e))?;
        let lease = log.lease();
        let Some(stored) = StoredCatalog::read(&lease, path)? else {
            let message = "no state of a database was stored in it yet";
            return Err(problem(path, StoreProblem::NotAStore, message));
        };
        let name = name.unwrap_or(stored.name());
        let store = Self::open_alone(namespace, name)?;
        if !store.is_new() {
            let kind = ObjectKind::Database;
            return Err(Error::AlreadyExists { kind, name: name.to_owned() });
        }
        let mut txn = store.begin()?;
        let loaded = load(&stored, &lease, path, &txn.ground)?;
        loaded.fetch_all(progress)?;
        txn.replace_all(loaded.catalog, loaded.created, loaded.shared)?;
        // The records are those of another database's store.
        txn.forget_stored()?;
        txn.ground.space.set_cold(false);
        txn.commit()?;
        Ok(store)
    }
}
