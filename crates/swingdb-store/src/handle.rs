//! [`Store`]: one open database.
//!
//! A store is the one writer of a named database, a private database, or a snapshot. A snapshot
//! becomes writable with its first transaction: an area is derived from it over the same addresses,
//! so everything that reads it goes on.
//!
//! What only a writer needs lies in a slot that a transaction takes out and puts back; whoever
//! finds it empty waits, for at most [`super::WRITER_WAIT`] (`slot.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use swing::{
    Area, AreaName, AreaOptions, CreateError, Namespace, OpenError, Publish, Snapshot, StateId,
};
use swing_malloc::{BlockTable, Heap, HeapOptions};
use swingdb_common::error::{Error, Result};

use super::catalog::Catalog;
pub(super) use super::commit::Writer;
use super::commit::{MAX_LEFT_BY_COMMITS, read_state};
use super::durable::{Disk, Loading};
use super::group::Ticket;
use super::info::{StoreInfo, TableInfo};
use super::slot::{Held, Slot};
use super::space::{Ground, Space, corrupt};
use super::translate::{create_error, derive_error, hook_error, open_error, suggest};
use super::txn::WriteTxn;

/// What SQLite and DuckDB call a database without a name.
pub const MEMORY: &str = ":memory:";

/// How often opening is tried while others create or drop the same name.
const MAX_OPEN_TRIES: u32 = 8;

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
    /// As [`Store::outlives_processes`].
    pub outlives_processes: bool,
}

/// One open database. Clones are handles to the same one.
#[derive(Clone)]
pub struct Store {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    namespace: Namespace,
    kind: StoreKind,
    name: Option<AreaName>,
    /// What it is a snapshot of.
    origin: Option<AreaName>,
    pub(super) latest: RwLock<Arc<Catalog>>,
    /// The store on a disk.
    pub(super) disk: Mutex<Option<Arc<Disk>>>,
    /// While its state is still read from there.
    pub(super) loading: Mutex<Option<Arc<Loading>>>,
    /// The snapshot, for cloning from it and as the place where an area is derived.
    snapshot: Mutex<Option<Snapshot>>,
    pub(super) slot: Mutex<Slot>,
    /// Wakes who waits for the writer.
    pub(super) free: Condvar,
    /// Wakes who waits for the publish of a group.
    pub(super) told: Condvar,
    /// The process that opened it: in a forked child only reading goes on.
    pub(super) pid: u32,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.finish_disk() {
            log::warn!("the last changes of a database are not in its store: {error}");
        }
    }
}

impl Store {
    /// Opens a named database as its one writer; it is created when missing, and stays from its
    /// first commit on.
    ///
    /// A store on a disk that it had when it was last open is opened again.
    pub fn open(namespace: &Namespace, name: &str) -> Result<Self> {
        let store = Self::open_alone(namespace, name)?;
        store.attach_again()?;
        Ok(store)
    }

    /// Opens the database in memory, whether or not it has a store.
    pub(super) fn open_alone(namespace: &Namespace, name: &str) -> Result<Self> {
        let area_name = area_name(name)?;
        for _ in 0..MAX_OPEN_TRIES {
            match namespace.open_area(&area_name) {
                Ok(area) => return Self::adopt(namespace, area_name, Arc::new(area)),
                Err(OpenError::NotFound { .. }) => {}
                Err(error) => return Err(open_error(error, name)),
            }
            match namespace.create(&area_name, &AreaOptions::default_database()) {
                Ok(area) => return Self::create(namespace, Some(area_name), Arc::new(area)),
                Err(CreateError::AlreadyExists { .. }) => {}
                Err(error) => return Err(create_error(error, name)),
            }
        }
        Err(Error::Busy { name: name.to_owned(), pid: None, command: None })
    }

    /// A new unnamed database that dies with the process.
    pub fn create_private(namespace: &Namespace) -> Result<Self> {
        let area = namespace.create_unnamed(&AreaOptions::default_database());
        let area = area.map_err(|e| create_error(e, "(unnamed)"))?;
        Self::create(namespace, None, Arc::new(area))
    }

    fn create(namespace: &Namespace, name: Option<AreaName>, area: Arc<Area>) -> Result<Self> {
        let space = Space::of_area(&area);
        let options = HeapOptions { blocks: BlockTable::None, ..HeapOptions::default() };
        let heap = Heap::create(area, options).map_err(super::translate::heap_error)?;
        let ground = Ground::new(space.clone(), heap);
        let catalog = Catalog::empty(space);
        let mut writer = Writer::new(None, 0, Vec::new());
        let kind = if name.is_some() { StoreKind::Writer } else { StoreKind::Private };
        // The first commit is what makes the name stay: a database that nothing was put into leaves
        // nothing behind, whether its handle is closed or its process killed.
        writer.published = name.is_some();
        writer.ground = Some(ground);
        Ok(Self::with(namespace, kind, (name, None), catalog, None, writer))
    }

    fn adopt(namespace: &Namespace, name: AreaName, area: Arc<Area>) -> Result<Self> {
        let space = Space::of_area(&area);
        let (catalog, root, limbo) = read_state(&space, &area.payload())?;
        let heap = Heap::open(area).map_err(super::translate::heap_error)?;
        let ground = Ground::new(space.clone(), heap);
        space.inherit_limbo(limbo);
        let mut writer = Writer::new(Some(root), catalog.version, Vec::new());
        writer.ground = Some(ground);
        writer.published = true;
        let names = (Some(name), None);
        Ok(Self::with(namespace, StoreKind::Writer, names, catalog, None, writer))
    }

    fn with(
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

    /// The newest shared state of `name` as an unnamed snapshot.
    pub fn hook(namespace: &Namespace, name: &str) -> Result<Self> {
        Self::hook_as(namespace, name, None)
    }

    /// The newest shared state of `proposed` as a snapshot called `target`, which can be shared on
    /// under that name.
    pub fn hook_named(namespace: &Namespace, proposed: &str, target: &str) -> Result<Self> {
        Self::hook_as(namespace, proposed, Some(area_name(target)?))
    }

    fn hook_as(namespace: &Namespace, origin: &str, name: Option<AreaName>) -> Result<Self> {
        let origin = area_name(origin)?;
        let (snapshot, catalog, writer) = take_snapshot(namespace, &origin)?;
        let names = (name, Some(origin));
        let store =
            Self::with(namespace, StoreKind::Snapshot, names, catalog, Some(snapshot), writer);
        if store.inner.name.is_some() {
            store.with_writer(|writer, _| store.area(writer).map(drop))?;
        }
        Ok(store)
    }

    /// The last committed state.
    pub fn latest(&self) -> Arc<Catalog> {
        self.inner.latest.read().clone()
    }

    pub(super) fn install(&self, catalog: Arc<Catalog>) {
        let old = std::mem::replace(&mut *self.inner.latest.write(), catalog);
        // Dropped outside the lock: it may be the last holder of many blocks.
        drop(old);
    }

    /// Starts the write transaction; waits up to [`super::WRITER_WAIT`] for another one of this
    /// process to end.
    pub fn begin(&self) -> Result<WriteTxn> {
        self.check_process()?;
        self.takes_changes()?;
        let mut writer = self.take_slot()?;
        writer.give_back_dropped(&self.latest());
        let ground = self.drained(&mut writer);
        self.transaction(writer, ground, self.latest())
    }

    /// As [`Store::begin`], for a single short statement: its transaction ends without waiting for
    /// anybody. So others that have committed let it go first, and share its way to the disk.
    pub fn begin_short(&self) -> Result<WriteTxn> {
        self.check_process()?;
        self.takes_changes()?;
        let mut writer = self.take_slot_as_it_is()?;
        if !writer.group.has_room() {
            self.flush(&mut writer);
        }
        if writer.group.is_empty() {
            writer.give_back_dropped(&self.latest());
        }
        let ground = self.drained(&mut writer);
        let newest = writer.group.newest();
        let grouped = newest.is_some();
        let mut txn = self.transaction(writer, ground, newest.unwrap_or_else(|| self.latest()))?;
        txn.grouped = grouped;
        Ok(txn)
    }

    /// Whether each commit waits for a disk.
    pub fn waits_for_disk(&self) -> bool {
        self.disk().is_some_and(|disk| disk.with_each_commit())
    }

    /// Waits until a transaction that joined a group was published; publishes the group where
    /// nobody else is about to.
    pub(super) fn wait_for(&self, ticket: &Ticket) -> Result<u64> {
        let mut slot = self.inner.slot.lock();
        loop {
            if let Some(outcome) = ticket.outcome() {
                return outcome;
            }
            if slot.waiting == 0
                && let Some(mut writer) = slot.take(self)
            {
                drop(slot);
                self.flush(&mut writer);
                self.give_back(writer);
                slot = self.inner.slot.lock();
                continue;
            }
            self.inner.told.wait(&mut slot);
        }
    }

    fn drained(&self, writer: &mut Writer) -> Result<Arc<Ground>> {
        let ground = self.ground(writer)?;
        ground.drain()?;
        Ok(ground)
    }

    fn transaction(
        &self,
        writer: Held,
        ground: Result<Arc<Ground>>,
        base: Arc<Catalog>,
    ) -> Result<WriteTxn> {
        match ground {
            Ok(ground) => Ok(WriteTxn::new(self.clone(), writer, ground, base)),
            Err(error) => {
                self.give_back(writer);
                Err(error)
            }
        }
    }

    /// Gives memory back that statements have dropped, if it is much and nobody is writing. For the
    /// end of a statement, when nobody of it looks at the old state any more.
    pub fn give_back_dropped(&self) {
        let much = self.latest().space.queued_bytes() > MAX_LEFT_BY_COMMITS;
        if !much || self.inner.pid != std::process::id() || self.loading().is_some() {
            return;
        }
        let Some(mut writer) = self.inner.slot.lock().take(self) else { return };
        self.flush(&mut writer);
        writer.give_back_dropped(&self.latest());
        self.give_back(writer);
    }

    /// Area and heap of the store; derived from the snapshot with the first call.
    fn ground(&self, writer: &mut Writer) -> Result<Arc<Ground>> {
        if let Some(ground) = &writer.ground {
            return Ok(ground.clone());
        }
        let area = self.area(writer)?;
        let catalog = self.latest();
        let heap = Heap::open(area).map_err(super::translate::heap_error)?;
        let ground = Ground::new(catalog.space.clone(), heap);
        catalog.space.inherit_limbo(std::mem::take(&mut writer.inherited));
        writer.ground = Some(ground.clone());
        Ok(ground)
    }

    /// The area of a snapshot, under its name if it has one.
    fn area(&self, writer: &mut Writer) -> Result<Arc<Area>> {
        if let Some(area) = &writer.area {
            return Ok(area.clone());
        }
        let snapshot = self.inner.snapshot.lock().clone();
        let snapshot = snapshot.ok_or_else(|| Error::internal("no area and no snapshot"))?;
        let area = derive(&snapshot, self.inner.name.as_ref())?;
        self.latest().space.derived(&area);
        writer.area = Some(area.clone());
        Ok(area)
    }

    /// Makes the last committed state the one other processes get.
    pub fn share(&self) -> Result<ShareInfo> {
        let start = Instant::now();
        if self.inner.name.is_none() {
            let message = "it has no name under which others could find it; open a named database, \
                           or take the snapshot under a name";
            return Err(Error::unsupported(format!("sharing this database: {message}")));
        }
        let mut writer = self.take_writer()?;
        let catalog = self.latest();
        let shared = self.share_with(&mut writer, &catalog);
        let outlives_processes = self.outlives(&writer);
        self.give_back(writer);
        Ok(ShareInfo { epoch: shared?, duration: start.elapsed(), outlives_processes })
    }

    fn share_with(&self, writer: &mut Writer, catalog: &Catalog) -> Result<u64> {
        let epoch = if writer.ground.is_none() && !writer.changed {
            // A snapshot without own changes: the state it shows is shared on as it is.
            let area = self.area(writer)?;
            let epoch = area.publish(Publish::Shared, &area.payload());
            let epoch = epoch.map_err(super::commit::publish_error)?.0;
            writer.epoch = Some(epoch);
            epoch
        } else {
            let ground = self.ground(writer)?;
            let epoch = writer.publish(&ground, catalog, Publish::Shared)?;
            if catalog.has_no_tables() && catalog.space.queued_bytes() <= MAX_LEFT_BY_COMMITS {
                // Nothing is kept for the next writes: a database without tables takes no memory.
                // Much that was dropped just now is left to the next change, as always.
                let given_back = ground.area().reclaim();
                debug_assert!(given_back.is_ok(), "{given_back:?}");
            }
            epoch
        };
        writer.published = true;
        Ok(epoch)
    }

    /// Moves a snapshot without own changes to the newest shared state of its origin, or of the
    /// database that has been made anew under its name since; `false`: it was the newest.
    pub fn refresh(&self) -> Result<bool> {
        let origin = self.origin()?;
        let mut writer = self.take_writer()?;
        let result = self.refresh_with(&mut writer, origin);
        self.give_back(writer);
        result
    }

    fn refresh_with(&self, writer: &mut Writer, origin: &AreaName) -> Result<bool> {
        if writer.published || writer.changed || writer.ground.is_some() {
            return Err(Error::transaction(
                "this snapshot has changes of its own or was shared; take a new snapshot instead",
            ));
        }
        let newest = self.inner.namespace.shared_state(origin);
        let newest = newest.map_err(|e| hook_error(e, origin.as_str()))?;
        let seen = self.snapshot_state();
        let is_newer = newest.is_some_and(|newest| newest.is_news_to(seen));
        if is_newer {
            let (snapshot, catalog, fresh) = take_snapshot(&self.inner.namespace, origin)?;
            // With it goes the old area, which nothing was written to.
            *writer = *fresh;
            *self.inner.snapshot.lock() = Some(snapshot);
            self.install(Arc::new(catalog));
        }
        if self.inner.name.is_some() {
            // Only now is the name free. Where this fails, the next call tries again.
            self.area(writer)?;
        }
        Ok(is_newer)
    }

    fn origin(&self) -> Result<&AreaName> {
        let message = "only a snapshot can move to a newer state";
        self.inner.origin.as_ref().ok_or_else(|| Error::unsupported(message))
    }

    fn snapshot_state(&self) -> Option<StateId> {
        self.inner.snapshot.lock().as_ref().map(Snapshot::state)
    }

    /// Waits until the origin of this snapshot has shared a newer state, or another database of its
    /// name one; `false` when the time is over.
    pub fn wait_newer(&self, timeout: Duration) -> Result<bool> {
        let origin = self.origin()?;
        let newer = self.inner.namespace.wait_newer(origin, self.snapshot_state(), timeout);
        newer.map_err(|e| hook_error(e, origin.as_str()))
    }

    /// A snapshot of memory of this store, to clone from: of its present state, or what it was the
    /// snapshot of when `space` was read.
    pub(super) fn view(&self, space: &Space) -> Result<Snapshot> {
        if let Some(snapshot) = space.snapshot() {
            return Ok(snapshot);
        }
        self.with_writer(|writer, latest| {
            if !std::ptr::eq(&*latest.space, space) {
                return Err(Error::transaction(
                    "the snapshot was refreshed while the statement ran; run it again",
                ));
            }
            if let Some(ground) = &writer.ground {
                return ground.area().freeze_view().map_err(super::commit::publish_error);
            }
            let snapshot = self.inner.snapshot.lock().clone();
            snapshot.ok_or_else(|| Error::internal("no area and no snapshot"))
        })
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
    pub fn linked_store(&self) -> Option<(std::path::PathBuf, super::durable::Durability)> {
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

    fn outlives(&self, writer: &Writer) -> bool {
        let area = writer.ground.as_ref().map(|ground| ground.area()).or(writer.area.as_ref());
        self.inner.name.is_none()
            || self.inner.disk.lock().is_some()
            || area.is_none_or(|area| area.outlives_processes())
    }

    /// Figures for listings.
    pub fn info(&self) -> Result<StoreInfo> {
        let catalog = self.latest();
        let table = |(schema, name, entry): super::catalog::NamedEntry<'_>| TableInfo {
            schema: schema.clone(),
            name: name.clone(),
            rows: entry.rows,
            bytes: entry.bytes,
            segments: entry.segments,
        };
        let tables: Vec<TableInfo> = catalog.entries()?.into_iter().map(table).collect();
        let slot = self.inner.slot.lock();
        let changed = slot.writer.as_ref().is_none_or(|w| w.changed);
        drop(slot);
        Ok(StoreInfo {
            name: self.name().map(str::to_owned),
            kind: self.kind(),
            epoch: self.epoch(),
            changed,
            bytes: tables.iter().map(|t| t.bytes).sum(),
            tables,
            limbo_bytes: catalog.space.limbo_bytes(),
        })
    }

    /// Ends the use of this store: new transactions of all handles get
    /// [`Error::Closed`](crate::Error::Closed); catalogs and arrays that are still held stay
    /// readable. A named database stays in memory.
    pub fn close(self) -> Result<()> {
        let mut slot = self.inner.slot.lock();
        slot.closed = true;
        let mut writer = slot.writer.take();
        drop(slot);
        if let Some(writer) = &mut writer {
            self.flush(writer);
        }
        self.inner.free.notify_all();
        let finished = self.inner.finish_disk();
        drop(writer);
        finished
    }
}

fn area_name(name: &str) -> Result<AreaName> {
    if name == MEMORY {
        let message = "is that of private databases, which others cannot find; choose another name";
        return Err(Error::plan(format!("the name {name:?} {message}")));
    }
    AreaName::new(name).map_err(|e| Error::plan(format!("the name {name:?}: {e}")))
}

fn derive(snapshot: &Snapshot, name: Option<&AreaName>) -> Result<Arc<Area>> {
    let area = snapshot.derive(name).map_err(|e| derive_error(e, name))?;
    if area.base() != snapshot.base() {
        // Arrays in use have the snapshot's addresses; this happens only when it is derived from
        // twice.
        return Err(Error::internal("the snapshot was already made writable"));
    }
    Ok(Arc::new(area))
}

/// Hooks `origin` and reads its catalog.
fn take_snapshot(
    namespace: &Namespace,
    origin: &AreaName,
) -> Result<(Snapshot, Catalog, Box<Writer>)> {
    let snapshot = namespace.hook(origin);
    let snapshot = snapshot.map_err(|e| suggest(hook_error(e, origin.as_str()), namespace))?;
    let space = Space::of_snapshot(&snapshot);
    let (catalog, root, limbo) = read_state(&space, snapshot.payload())?;
    if catalog.schemas.is_empty() {
        return Err(space.named(corrupt("a catalog without schemas")));
    }
    let writer = Writer::new(Some(root), catalog.version, limbo);
    Ok((snapshot, catalog, writer))
}
