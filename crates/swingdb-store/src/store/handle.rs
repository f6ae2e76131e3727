//! [`Store`]: one open database.
//!
//! A store is the one writer of a named database, a private database, or a snapshot. A snapshot
//! becomes writable with its first transaction: an area is derived from it over the same addresses,
//! so everything that reads it goes on.
//!
//! What only a writer needs lies in a slot that a transaction takes out and puts back; whoever
//! finds it empty waits, for at most [`crate::WRITER_WAIT`] (`slot.rs`).

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, RwLock};
use swing::{AreaName, Namespace, Snapshot, StateId};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::to_the_end;

use crate::catalog::link::Durability;
use crate::catalog::state::Catalog;
use crate::commit::writer::Writer;
use crate::durable::disk::Disk;
use crate::durable::loading::Loading;

/// What SQLite and DuckDB call a database without a name.
pub const MEMORY: &str = ":memory:";

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

/// One open database. Clones are handles to the same one.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub namespace: Namespace,
    pub kind: StoreKind,
    pub name: Option<AreaName>,
    /// What it is a snapshot of.
    pub origin: Option<AreaName>,
    pub latest: RwLock<Arc<Catalog>>,
    /// The store on a disk.
    pub disk: Mutex<Option<Arc<Disk>>>,
    /// While its state is still read from there.
    pub loading: Mutex<Option<Arc<Loading>>>,
    /// The snapshot, for cloning from it and as the place where an area is derived.
    pub snapshot: Mutex<Option<Snapshot>>,
    pub slot: Mutex<Slot>,
    /// Wakes who waits for the writer.
    pub free: Condvar,
    /// Wakes who waits for the publish of a group.
    pub told: Condvar,
    /// The process that opened it: in a forked child only reading goes on.
    pub pid: u32,
}

impl Inner {
    /// The end of a store's use: what an interval has not written yet is written now.
    pub fn finish_disk(&self) -> Result<()> {
        // Looked at before the locks, which another thread may have held when the process forked.
        if self.pid != std::process::id() {
            return Ok(());
        }
        let loading = self.loading.lock().take();
        if let Some(loading) = loading {
            loading.stop();
        }
        let Some(disk) = self.disk.lock().take() else { return Ok(()) };
        disk.stop();
        let latest = self.latest.read().clone();
        let interval = matches!(disk.durability(), Durability::Interval(_));
        to_the_end(|| {
            if interval && latest.version > 0 {
                disk.bring_to(&latest, false)?;
            }
            disk.finish()
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.finish_disk() {
            log::warn!("the last changes of a database are not in its store: {error}");
        }
    }
}

impl Store {
    pub(crate) fn with(
        namespace: &Namespace,
        kind: StoreKind,
        (name, origin): (Option<AreaName>, Option<AreaName>),
        catalog: Catalog,
        snapshot: Option<Snapshot>,
        writer: Box<Writer>,
    ) -> Self {
        let inner = Inner {
            namespace: namespace.clone(),
            kind,
            name,
            origin,
            latest: RwLock::new(Arc::new(catalog)),
            snapshot: Mutex::new(snapshot),
            slot: Mutex::new(Slot::new(writer)),
            free: Condvar::new(),
            told: Condvar::new(),
            disk: Mutex::new(None),
            loading: Mutex::new(None),
            pid: std::process::id(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The last committed state.
    pub fn latest(&self) -> Arc<Catalog> {
        self.inner.latest.read().clone()
    }

    pub(crate) fn install(&self, catalog: Arc<Catalog>) {
        let old = std::mem::replace(&mut *self.inner.latest.write(), catalog);
        // Dropped outside the lock: it may be the last holder of many blocks.
        drop(old);
    }

    /// Whether each commit waits for a disk.
    pub fn waits_for_disk(&self) -> bool {
        self.disk().is_some_and(|disk| disk.with_each_commit())
    }

    pub(crate) fn origin(&self) -> Result<&AreaName> {
        let message = "only a snapshot can move to a newer state";
        self.inner.origin.as_ref().ok_or_else(|| Error::unsupported(message))
    }

    pub(crate) fn snapshot_state(&self) -> Option<StateId> {
        self.inner.snapshot.lock().as_ref().map(Snapshot::state)
    }

    /// Whether both are handles to the same open database.
    pub fn same_as(&self, other: &Store) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Name; `None` when it has none.
    pub fn name(&self) -> Option<&str> {
        self.inner.name.as_ref().map(|n| n.as_str())
    }

    /// Name of the database that it is a snapshot of.
    pub fn origin_name(&self) -> Option<&str> {
        self.inner.origin.as_ref().map(|n| n.as_str())
    }

    /// The store that the database had when the state of this snapshot was committed.
    pub fn linked_store(&self) -> Option<(PathBuf, Durability)> {
        let area = self.snapshot_state()?.area.0;
        let link = self.latest().link.clone().filter(|link| link.area == area)?;
        Some((link.path.clone(), link.durability))
    }

    /// What kind of handle.
    pub fn kind(&self) -> StoreKind {
        self.inner.kind
    }

    /// Whether it is a named database that does not exist yet: nothing was committed in it.
    pub fn is_new(&self) -> bool {
        let slot = self.inner.slot.lock();
        let unpublished = slot.writer.as_ref().is_some_and(|w| w.is_fresh());
        drop(slot);
        self.inner.kind == StoreKind::Writer && unpublished && self.loading().is_none()
    }

    /// Epoch of the last publish of this store, or of the snapshot it was taken from.
    pub fn epoch(&self) -> Option<u64> {
        let slot = self.inner.slot.lock();
        let own = slot.writer.as_ref().and_then(|w| w.epoch);
        drop(slot);
        own.or_else(|| self.snapshot_state().map(|state| state.epoch.0))
    }

    /// Whether a named database stays when no process uses it any more. It does not where its
    /// memory is a memfd, as when the tmpfs has no room for it, and no store on a disk has it too.
    ///
    /// While another thread writes, what was true when it began is not known: `true`.
    pub fn outlives_processes(&self) -> bool {
        let slot = self.inner.slot.lock();
        slot.writer.as_ref().is_none_or(|writer| self.outlives(writer))
    }

    pub(crate) fn outlives(&self, writer: &Writer) -> bool {
        let area = writer.ground.as_ref().map(|ground| ground.area()).or(writer.area.as_ref());
        self.inner.name.is_none()
            || self.inner.disk.lock().is_some()
            || area.is_none_or(|area| area.outlives_processes())
    }

    /// Whether others wait for the writer.
    pub(crate) fn others_wait(&self) -> bool {
        self.inner.slot.lock().waiting > 0
    }

    /// Outcomes were written to tickets: those who wait for one look again. Takes the slot's lock,
    /// so that nobody is between looking and waiting.
    pub(crate) fn wake_told(&self) {
        drop(self.inner.slot.lock());
        self.inner.told.notify_all();
    }

    /// That it is not a forked child. Looked at before the locks, which another thread may have
    /// held when the process forked.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.inner.pid == std::process::id() { Ok(()) } else { Err(Error::Forked) }
    }

    pub(crate) fn disk(&self) -> Option<Arc<Disk>> {
        self.inner.disk.lock().clone()
    }

    /// How far opening from the store has come: bytes in memory, and bytes of all. `None`: it is
    /// done.
    pub fn loading(&self) -> Option<(u64, u64)> {
        // Before the lock, which another thread may have held when the process forked.
        if self.check_process().is_err() {
            return None;
        }
        Some(self.inner.loading.lock().as_ref()?.progress())
    }
}

/// Where the writer is when nobody has it.
pub(crate) struct Slot {
    pub writer: Option<Box<Writer>>,
    pub closed: bool,
    /// A thread has panicked while it held the writer.
    pub broken: bool,
    /// Threads that wait for the writer.
    pub waiting: usize,
}

impl Slot {
    pub fn new(writer: Box<Writer>) -> Self {
        Self { writer: Some(writer), closed: false, broken: false, waiting: 0 }
    }
}
