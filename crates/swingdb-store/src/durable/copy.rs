//! Copies of a state in a directory of their own, and reading one back under a name.
//!
//! Any open database can be copied, a snapshot too. A copy is a store like others, with a history
//! that begins with it: it is nobody's store until a database is opened with it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use swing::Namespace;
use swing_tier::storage::Storage;
use swing_tier::{Directory, DirectoryOptions, Log, LogOptions, OpenError as LogError};
use swingdb_common::error::{Error, ObjectKind, Result, StoreProblem};
use swingdb_common::progress::Progress;

use super::super::handle::Store;
use super::attach::{open_log, open_or_create};
use super::disk::CheckpointInfo;
use super::format::Head;
use super::history::History;
use super::ledger::Ledger;
use super::load::{StoredCatalog, load};
use super::tier::{absolute, commit_error, open_error, problem};
use super::write::{Checkpoint, Written, root_of};

impl Store {
    /// Writes the last committed state into a directory of its own, missing or empty, as database
    /// `name`.
    pub fn copy_to(&self, directory: &Path, name: &str) -> Result<CheckpointInfo> {
        let path = absolute(directory)?;
        self.copy_into(&path, &open_log(&path)?, name)
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
        self.copy_into(&path, &log, name)
    }

    fn copy_into(&self, path: &Path, log: &Log, name: &str) -> Result<CheckpointInfo> {
        let start = Instant::now();
        if !log.lease().root().is_empty() {
            let message = "it holds a database already; choose an empty directory";
            return Err(problem(path, StoreProblem::NotAStore, message));
        }
        let catalog = self.latest();
        let failed = |error| commit_error(path, error);
        let mut batch = log.batch().map_err(failed)?;
        let mut written = Written::default();
        let mut checkpoint = Checkpoint {
            batch: &mut batch,
            ledger: &Ledger::default(),
            known: &Mutex::default(),
            written: &mut written,
            path,
            notes: false,
            copied: HashMap::new(),
            prepared: HashMap::new(),
        };
        let root = checkpoint.write(&catalog, &root_of(&catalog, name, &History::new()))?;
        let head = Head::new(catalog.version, root);
        batch.set_root(&head.encode()).and_then(|()| batch.commit()).map_err(failed)?;
        let (version, written_bytes) = (catalog.version, written.bytes);
        Ok(CheckpointInfo { version, written_bytes, duration: start.elapsed() })
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
        let name = name.unwrap_or(&stored.root.name);
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
