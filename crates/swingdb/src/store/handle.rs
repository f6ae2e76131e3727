//! [`Store`]: one open database.

use std::sync::Arc;
use std::time::Duration;

use super::Namespace;
use super::catalog::Catalog;
use super::info::StoreInfo;
use super::txn::WriteTxn;
use crate::error::Result;

/// What kind of handle a [`Store`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// The one writer of a named database.
    Writer,
    /// An unnamed database of this process.
    Private,
    /// A snapshot of another database, named or not.
    Snapshot,
}

/// What [`Store::share`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareInfo {
    /// The epoch that is now current for other processes.
    pub epoch: u64,
    /// How long it took.
    pub duration: Duration,
}

/// One open database. Clones are handles to the same one.
#[derive(Clone)]
pub struct Store {}

impl Store {
    /// Opens a named database as its one writer; it is created when missing.
    pub fn open(_namespace: &Namespace, _name: &str) -> Result<Self> {
        todo!()
    }

    /// A new unnamed database that dies with the process.
    pub fn create_private(_namespace: &Namespace) -> Result<Self> {
        todo!()
    }

    /// The newest shared state of `name` as an unnamed snapshot.
    pub fn hook(_namespace: &Namespace, _name: &str) -> Result<Self> {
        todo!()
    }

    /// The newest shared state of `proposed` as a snapshot called `target`, which can be shared on
    /// under that name.
    pub fn hook_named(_namespace: &Namespace, _proposed: &str, _target: &str) -> Result<Self> {
        todo!()
    }

    /// The last committed state.
    pub fn latest(&self) -> Arc<Catalog> {
        todo!()
    }

    /// Starts the write transaction; waits up to [`super::txn::WRITER_WAIT`] for another one of
    /// this process to end.
    pub fn begin(&self) -> Result<WriteTxn> {
        todo!()
    }

    /// Makes the last committed state the one other processes get.
    pub fn share(&self) -> Result<ShareInfo> {
        todo!()
    }

    /// Moves a snapshot without own changes to the newest shared state of its origin; `false`: it
    /// was the newest.
    pub fn refresh(&self) -> Result<bool> {
        todo!()
    }

    /// Waits until the origin of this snapshot has shared a newer state; `false` when the time is
    /// over.
    pub fn wait_newer(&self, _timeout: Duration) -> Result<bool> {
        todo!()
    }

    /// Name; `None` when it has none.
    pub fn name(&self) -> Option<&str> {
        todo!()
    }

    /// What kind of handle.
    pub fn kind(&self) -> StoreKind {
        todo!()
    }

    /// Epoch of the last publish of this store, or of the snapshot it was taken from.
    pub fn epoch(&self) -> Option<u64> {
        todo!()
    }

    /// Figures for listings.
    pub fn info(&self) -> Result<StoreInfo> {
        todo!()
    }

    /// Ends the use of this store: all handles become [`Error::Closed`](crate::Error::Closed) for
    /// new statements; catalogs and arrays that are still held stay readable. A named database
    /// stays in memory.
    pub fn close(self) -> Result<()> {
        todo!()
    }
}
