//! The heap itself: allocation, access, and how an object comes back from the disk.
//!
//! An access to an object in memory takes no lock: it counts itself into the object's entry. An
//! object on the disk is claimed by its first visitor (the entry becomes busy), read without the
//! lock, checked, and put into a cell. Other visitors of the same object wait for that.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use swing_tier::storage::{Direction, FileRef, Queue, QueueOptions, Request, Storage};
use swing_tier::{
    BufferClass, Directory, DirectoryOptions, IoError, ProcessMark, QueueGuard, QueueOwner,
    UNIT_BYTES, thread_queue,
};

use crate::chunk::{CHUNK_BYTES, CellRef, MAX_CHUNKS};
use crate::classes::{MAX_OBJECT_BYTES, class_of};
use crate::core::{Core, Take};
use crate::disk::{self, BLOCK_BYTES, Disk};
use crate::entry::{
    ALONE, BUSY, Changes, DIRTY, DiskPlace, EVICTED, Entry, FILL, FREE, Handle, KEEP, Mode, READ,
    RESIDENT, STATE, Table, USERS, WINDOW, WRITE, WRITER, address_and_len, checksum, evicted,
    generation,
};
use crate::error::HeapError;
use crate::guard::{PinGuard, Plain, ReadGuard, Remote, WriteGuard};
use crate::keeper;
use crate::memory::{MAX_AREA_IDS, Memory};
use crate::policy::PolicyKind;
use crate::share::InArea;
use crate::signal;
use crate::stats::{Counters, HeapStats};
use crate::store::Store;
use crate::window::Window;

/// The smallest budget of a heap.
pub const MIN_BUDGET_BYTES: u64 = 6 << 20;
/// The largest budget of a heap.
pub const MAX_BUDGET_BYTES: u64 = ((MAX_CHUNKS - 1) * CHUNK_BYTES) as u64;
/// Reads in flight of one call.
pub(crate) const DEPTH: u32 = 16;
/// Buffers of a thread's queue: small ones, and one for the longest object at any offset.
const SMALL_READ: u32 = 8 << 10;
/// Memory of one thread's queue.
const QUEUE_BYTES: u64 = DEPTH as u64 * SMALL_READ as u64 + LARGE_READ as u64;
const LARGE_READ: u32 = (64 << 10) + 2 * UNIT_BYTES as u32;

/// How a heap is opened.
#[derive(Clone, Debug, PartialEq)]
pub struct HeapOptions {
    /// Memory for objects, metadata and buffers together, in bytes.
    pub budget: u64,
    /// The most bytes of the heap's file.
    pub disk_limit: u64,
    /// What is evicted first.
    pub policy: PolicyKind,
    /// How long a call waits for an object in use, or for the disk, before it fails.
    pub max_wait: Duration,
    /// The part of the file's blocks that may be garbage before it is collected.
    pub dead_fraction: f64,
}

impl Default for HeapOptions {
    /// 64 MiB of memory, 1 TiB of disk, S3-FIFO, 10 seconds, a quarter.
    fn default() -> Self {
        HeapOptions {
            budget: 64 << 20,
            disk_limit: 1 << 40,
            policy: PolicyKind::default(),
            max_wait: Duration::from_secs(10),
            dead_fraction: 0.25,
        }
    }
}

/// What a heap is besides its objects.
pub(crate) enum Kind {
    Ephemeral,
    Persistent(Mutex<Store>),
    InArea(Box<InArea>),
}

/// What the heap's threads share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Buffers were written, or blocks were emptied.
    pub(crate) changed: Condvar,
    work: Condvar,
    pub(crate) table: Table,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) file: FileRef,
    counters: Counters,
    pub(crate) seed: u64,
    /// Threads that read from the disk at this moment.
    reading: AtomicU64,
    mark: ProcessMark,
    max_wait: Duration,
    pub(crate) dead_fraction: f64,
    /// What a persistent heap keeps beside its blocks.
    pub(crate) store: Option<Mutex<Store>>,
    /// Of a heap in an area.
    pub(crate) area: Option<Box<InArea>>,
    pub(crate) changes: Arc<Changes>,
    /// What plain pointers lead to.
    pub(crate) window: OnceLock<Window>,
    pub(crate) enabling: Mutex<()>,
}

impl Shared {
    pub(crate) fn max_wait(&self) -> Duration {
        self.max_wait
    }

    pub(crate) fn wake_keeper(&self) {
        self.work.notify_one();
    }

    /// The lock. Each holder leaves the tables whole, or panics: then nobody changes them any more
    /// ([`Shared::check_whole`]).
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// INV-OBJ-10: whether no thread has met a broken invariant of the tables, or of the window's.
    /// Asked with the lock held where they are changed, or written down.
    pub(crate) fn check_whole(&self) -> Result<(), HeapError> {
        let pages = self.window.get();
        match self.core.is_poisoned() || pages.is_some_and(Window::is_broken) {
            true => Err(HeapError::Broken),
            false => Ok(()),
        }
    }

    /// Waits a moment for others to let go of objects.
    pub(crate) fn wait_for_users(&self) {
        self.work.notify_one();
        drop(self.changed.wait_timeout(self.lock(), Duration::from_millis(1)));
    }

    pub(crate) fn count_damaged(&self) {
        self.counters.damaged.fetch_add(1, Relaxed);
    }

    pub(crate) fn wait_for_work<'a>(
        &self,
        core: MutexGuard<'a, Core>,
        most: Duration,
    ) -> MutexGuard<'a, Core> {
        let waited = self.work.wait_timeout(core, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A heap of small objects, more of them than memory holds. See the crate's documentation.
pub struct ObjectHeap {
    pub(crate) shared: Arc<Shared>,
    pub(crate) keeper: Option<JoinHandle<()>>,
    pub(crate) owner: QueueOwner,
}

impl std::fmt::Debug for ObjectHeap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ObjectHeap({})", self.shared.storage.path().display())
    }
}

/// An evicted object that this thread has claimed.
pub(crate) struct Claim<'a> {
    entry: &'a Entry,
    pub(crate) handle: Handle,
    pub(crate) place: DiskPlace,
    pub(crate) sum: u32,
}

impl ObjectHeap {
    /// Opens an empty heap whose file lies in a directory, which is made if need be. The file has
    /// no name: its room is free again when the heap, or the process, ends.
    ///
    /// # Errors
    /// [`HeapError::Options`], or the operating system's refusal.
    pub fn open(path: &Path, options: HeapOptions) -> Result<Self, HeapError> {
        let directory = DirectoryOptions { create: true, ..Default::default() };
        Self::open_on(Arc::new(Directory::open(path, directory)?), options)
    }

    /// Opens an empty heap on any storage.
    ///
    /// # Errors
    /// As [`ObjectHeap::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: HeapOptions) -> Result<Self, HeapError> {
        check_options(&options)?;
        Self::open_empty(storage, &options, Memory::Process, Kind::Ephemeral)
    }

    /// An empty heap whose objects in memory lie in `memory`.
    pub(crate) fn open_empty(
        storage: Arc<dyn Storage>,
        options: &HeapOptions,
        memory: Memory,
        kind: Kind,
    ) -> Result<Self, HeapError> {
        let disk = Disk::create(&*storage, options.disk_limit, &memory)?;
        let (outside, changes) = (keeper::KEEPER_BYTES, Arc::new(Changes::new(false)));
        let limits = (options.budget, options.policy);
        let mut core = Core::new(disk, limits, outside, changes, memory.clone());
        if matches!(kind, Kind::InArea(_)) {
            core.most_objects = MAX_AREA_IDS;
        }
        Self::start(storage, options, core, Table::new(memory), kind)
    }

    /// Starts the keeper of a heap.
    pub(crate) fn start(
        storage: Arc<dyn Storage>,
        options: &HeapOptions,
        core: Core,
        table: Table,
        kind: Kind,
    ) -> Result<Self, HeapError> {
        let (store, area) = match kind {
            Kind::Ephemeral => (None, None),
            Kind::Persistent(store) => (Some(store), None),
            Kind::InArea(area) => (None, Some(area)),
        };
        let (file, seed) = (core.disk.file.clone(), core.disk.seed());
        let changes = core.changes.clone();
        let shared = Arc::new(Shared {
            core: Mutex::new(core),
            changed: Condvar::new(),
            work: Condvar::new(),
            table,
            storage,
            file,
            counters: Counters::new(),
            seed,
            reading: AtomicU64::new(0),
            mark: ProcessMark::current(),
            max_wait: options.max_wait,
            dead_fraction: options.dead_fraction,
            store,
            area,
            changes,
            window: OnceLock::new(),
            enabling: Mutex::new(()),
        });
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let of_thread = shared.clone();
        let keeper = std::thread::Builder::new()
            .name("swing-heap".to_owned())
            .spawn(move || keeper::run(&of_thread, &ready))
            .map_err(|e| IoError::from_os("start a thread for", shared.storage.path(), e))?;
        // A keeper that ended without a word is found when a buffer has to be written.
        started.recv().unwrap_or(Ok(()))?;
        Ok(ObjectHeap { shared, keeper: Some(keeper), owner: QueueOwner::default() })
    }

    pub(crate) fn check_process(&self) -> Result<(), HeapError> {
        if self.shared.mark.is_stale() { Err(HeapError::Forked) } else { Ok(()) }
    }

    /// A new object of `len` bytes, all zero.
    ///
    /// # Errors
    /// [`HeapError::Size`], [`HeapError::NoMemory`], [`HeapError::DiskFull`]: nothing has changed.
    pub fn alloc_zeroed(&self, len: usize) -> Result<Handle, HeapError> {
        self.allocate(len, None)
    }

    /// A new object of `len` bytes; what they are is not said, and is no object's data.
    ///
    /// # Errors
    /// As [`ObjectHeap::alloc_zeroed`].
    pub fn alloc(&self, len: usize) -> Result<Handle, HeapError> {
        self.allocate(len, None)
    }

    /// A new object with these bytes.
    ///
    /// # Errors
    /// As [`ObjectHeap::alloc_zeroed`].
    pub fn alloc_from(&self, bytes: &[u8]) -> Result<Handle, HeapError> {
        if signal::any() {
            // The bytes may be an object, and are copied under the lock.
            let copy = bytes.to_vec();
            return self.allocate(copy.len(), Some(&copy));
        }
        self.allocate(bytes.len(), Some(bytes))
    }

    fn allocate(&self, len: usize, bytes: Option<&[u8]>) -> Result<Handle, HeapError> {
        self.check_process()?;
        check_len(len)?;
        let core = self.shared.lock();
        self.shared.check_whole()?;
        if core.min_chunks > 0 {
            core.check_metadata()?;
        }
        let (mut core, cell) = self.take_cell(core, len)?;
        let handle = match core.take_id(&self.shared.table) {
            Ok(handle) => handle,
            Err(error) => {
                core.give_back(cell);
                return Err(error);
            }
        };
        let address = core.chunks.address(cell) as *mut u8;
        // SAFETY: the cell is detached, has room for `len` bytes, and is nobody else's.
        unsafe {
            match bytes {
                Some(bytes) => std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, len),
                None => std::ptr::write_bytes(address, 0, len),
            }
        }
        let entry = self.entry(handle)?;
        core.install(entry, handle, (cell, len), None, DIRTY);
        core.totals.objects += 1;
        core.totals.object_bytes += len as u64;
        Ok(handle)
    }

    /// Ends an object. Its handle is an error from now on.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] (also for a second time), [`HeapError::InUse`].
    pub fn free(&self, handle: Handle) -> Result<(), HeapError> {
        self.check_process()?;
        self.shared.check_whole()?;
        let (entry, state) = self.claim_alone(handle)?;
        let mut core = self.shared.lock();
        let place = entry.place.load(Relaxed);
        let len = if state & STATE == RESIDENT {
            let (address, len) = address_and_len(place);
            let cell = core.uninstall(address, len);
            core.give_back(cell);
            len
        } else {
            let place = DiskPlace::decode(place);
            core.disk.forget(place.block, place.len);
            place.len
        };
        core.totals.objects -= 1;
        core.totals.object_bytes -= len as u64;
        core.free_id(entry, handle);
        Ok(())
    }

    /// Makes an entry busy that nobody uses; returns its state before.
    pub(crate) fn claim_alone(&self, handle: Handle) -> Result<(&Entry, u64), HeapError> {
        let entry = self.entry(handle)?;
        let mut patience = Patience::new(self.shared.max_wait);
        loop {
            let state = entry.state.load(Acquire);
            if generation(state) != handle.generation() || state & STATE == FREE {
                return Err(HeapError::NoObject { handle });
            }
            let used = state & STATE == BUSY || state & STATE == RESIDENT && state & USERS != 0;
            if used && self.recall(entry, handle, state)? {
                continue;
            }
            if used {
                patience.wait(handle)?;
            } else if entry.claim(state) {
                return Ok((entry, state));
            }
        }
    }

    /// Changes an object's length; the handle stays. Bytes up to the shorter length stay, new
    /// ones are zero.
    ///
    /// # Errors
    /// As for allocation and access; the object is what it was.
    pub fn realloc(&self, handle: Handle, len: usize) -> Result<(), HeapError> {
        check_len(len)?;
        let started = Instant::now();
        while !self.try_realloc(handle, len, started)? {
            self.shared.wait_for_users();
        }
        Ok(())
    }

    /// False: there is no room as long as others, and this thread, use what they use.
    fn try_realloc(&self, handle: Handle, len: usize, started: Instant) -> Result<bool, HeapError> {
        let writers = self.enter_writers(handle)?;
        let (entry, address, old) = self.acquire(handle, ALONE)?;
        let guard = WriteGuard { entry, address, len: old, _writers: writers };
        if class_of(len) == class_of(old) {
            let mut core = self.shared.lock();
            self.shared.check_whole()?;
            let cell = core.uninstall(address, old);
            self.reinstall(&mut core, &guard, handle, (cell, len));
            return Ok(true);
        }
        let Some((mut core, cell)) = self.try_cell(self.shared.lock(), len, started)? else {
            return Ok(false);
        };
        let to = core.chunks.address(cell) as *mut u8;
        // SAFETY: the new cell is detached, and the guard has the old one alone.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, to, old.min(len)) };
        let old_cell = core.uninstall(address, old);
        core.give_back(old_cell);
        self.reinstall(&mut core, &guard, handle, (cell, len));
        Ok(true)
    }

    /// Puts an object of which the caller is the writer into a cell, with its new length.
    fn reinstall(
        &self,
        core: &mut Core,
        guard: &WriteGuard<'_>,
        handle: Handle,
        (cell, len): (CellRef, usize),
    ) {
        if len > guard.len {
            let start = (core.chunks.address(cell) + guard.len) as *mut u8;
            // SAFETY: the cell has room for `len` bytes, and the guard has it alone.
            unsafe { std::ptr::write_bytes(start, 0, len - guard.len) };
        }
        core.install(guard.entry, handle, (cell, len), None, WRITER | DIRTY);
        core.totals.object_bytes = core.totals.object_bytes + len as u64 - guard.len as u64;
    }

    /// Access for reading.
    ///
    /// # Errors
    /// [`HeapError::NoObject`], [`HeapError::InUse`] if somebody writes for too long (also the
    /// caller itself), [`HeapError::Damaged`] and others if the object has to come from the disk.
    #[inline]
    pub fn read(&self, handle: Handle) -> Result<ReadGuard<'_>, HeapError> {
        let (entry, address, len) = self.acquire(handle, READ)?;
        Ok(ReadGuard { entry, address, len })
    }

    /// Access for reading and writing.
    ///
    /// # Errors
    /// As [`ObjectHeap::read`].
    #[inline]
    pub fn write(&self, handle: Handle) -> Result<WriteGuard<'_>, HeapError> {
        let writers = self.enter_writers(handle)?;
        let (entry, address, len) = self.acquire(handle, WRITE)?;
        self.shared.changes.mark(handle.id());
        Ok(WriteGuard { entry, address, len, _writers: writers })
    }

    /// Keeps an object in memory. What is stored through the pin's address counts as a change.
    ///
    /// # Errors
    /// As [`ObjectHeap::read`].
    pub fn pin(&self, handle: Handle) -> Result<PinGuard<'_>, HeapError> {
        let (entry, address, len) = self.acquire(handle, KEEP)?;
        entry.state.fetch_or(DIRTY, Relaxed);
        self.shared.changes.mark(handle.id());
        Ok(PinGuard { entry, address, len })
    }

    /// A new object that holds a value.
    ///
    /// # Errors
    /// As [`ObjectHeap::alloc_zeroed`].
    pub fn put<T: Plain>(&self, value: T) -> Result<Remote<T>, HeapError> {
        Ok(Remote::of(self.alloc_from(bytes_of(&value))?))
    }

    /// The value of a typed handle.
    ///
    /// # Errors
    /// As [`ObjectHeap::read`]; [`HeapError::Type`] if the object has another length.
    pub fn get<T: Plain>(&self, remote: Remote<T>) -> Result<T, HeapError> {
        let guard = self.read(remote.handle())?;
        check_type::<T>(remote.handle(), guard.len)?;
        // SAFETY: the length is right, cells are aligned, and every bit pattern is a value.
        Ok(unsafe { *(guard.address as *const T) })
    }

    /// Stores a value.
    ///
    /// # Errors
    /// As [`ObjectHeap::get`].
    pub fn set<T: Plain>(&self, remote: Remote<T>, value: T) -> Result<(), HeapError> {
        let fits = |len| len == size_of::<T>();
        match self.replace_if(remote.handle(), bytes_of(&value), fits)? {
            Some(len) => check_type::<T>(remote.handle(), len),
            None => Ok(()),
        }
    }

    /// Brings objects into memory, several reads at a time. Nothing keeps them there.
    ///
    /// # Errors
    /// The first object's that cannot be read; all others have been brought in.
    pub fn prefetch(&self, handles: &[Handle]) -> Result<(), HeapError> {
        self.check_process()?;
        for part in handles.chunks(DEPTH as usize) {
            let mut claims = Vec::with_capacity(part.len());
            let mut first = Ok(());
            for &handle in part {
                match self.claim(handle) {
                    Ok(claim) => claims.extend(claim),
                    Err(error) => first = first.and(Err(error)),
                }
            }
            let brought = self.bring(claims, 0);
            first.and(brought)?;
        }
        Ok(())
    }

    /// Changes the budget. Objects leave memory at once if it is smaller.
    ///
    /// # Errors
    /// [`HeapError::Options`] for a budget out of range; failures to evict. The new budget holds
    /// in either case, and later calls go on to meet it.
    pub fn set_budget(&self, budget: u64) -> Result<(), HeapError> {
        self.check_process()?;
        check_budget(budget)?;
        let fitted = match self.shared.window.get() {
            Some(window) => window.fit(&self.shared, budget),
            None => Ok(()),
        };
        let mut core = self.shared.lock();
        core.budget = budget;
        while core.is_over_budget() && core.chunks.count > 1 {
            // Taking a cell first meets the budget.
            let (guard, cell) = self.take_cell(core, 1)?;
            core = guard;
            core.give_back(cell);
        }
        fitted
    }

    /// What the heap holds and has done.
    ///
    /// # Errors
    /// [`HeapError::Forked`].
    pub fn stats(&self) -> Result<HeapStats, HeapError> {
        self.check_process()?;
        let counters = &self.shared.counters;
        let (misses, miss_latencies) = counters.misses();
        let core = self.shared.lock();
        let totals = core.totals;
        Ok(HeapStats {
            objects: totals.objects,
            object_bytes: totals.object_bytes,
            resident_objects: totals.resident_objects,
            resident_bytes: totals.resident_bytes,
            budget_bytes: core.budget,
            used_bytes: core.metadata_bytes() + (core.chunks.count * CHUNK_BYTES) as u64,
            metadata_bytes: core.metadata_bytes(),
            hits: counters.hits(),
            misses,
            miss_latencies,
            evicted_objects: totals.evicted_objects,
            dropped_objects: totals.dropped_objects,
            evicted_bytes: totals.evicted_bytes,
            flushed_bytes: totals.flushed_bytes,
            moved_bytes: totals.moved_bytes,
            written_bytes: totals.written_bytes,
            read_bytes: counters.bytes_read.load(Relaxed),
            file_bytes: (core.disk.blocks() * BLOCK_BYTES) as u64,
            live_bytes: core.disk.live_bytes,
            kept_bytes: (core.disk.kept_for_states() * BLOCK_BYTES) as u64,
            damaged: counters.damaged.load(Relaxed),
        })
    }

    /// Checks the invariants of `docs/heap.md`, for tests: slow, and only while nobody else uses
    /// the heap.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.shared.lock().check(&self.shared.table)
    }

    #[inline]
    pub(crate) fn entry(&self, handle: Handle) -> Result<&Entry, HeapError> {
        self.shared.table.get(handle.id()).ok_or(HeapError::NoObject { handle })
    }

    #[inline]
    fn acquire(&self, handle: Handle, mode: Mode) -> Result<(&Entry, usize, usize), HeapError> {
        match self.acquire_resident(handle, mode)? {
            Some(found) => Ok(found),
            None => self.acquire_slowly(self.entry(handle)?, handle, mode),
        }
    }

    /// Access to an object in memory that nobody excludes from it; `None` for all others.
    #[inline]
    pub(crate) fn acquire_resident(
        &self,
        handle: Handle,
        mode: Mode,
    ) -> Result<Option<(&Entry, usize, usize)>, HeapError> {
        self.check_process()?;
        let entry = self.entry(handle)?;
        let state = entry.state.load(Acquire);
        let free = state & STATE == RESIDENT
            && generation(state) == handle.generation()
            && mode.fits(state);
        if free && entry.take(state, mode) {
            self.shared.counters.hit();
            let (address, len) = address_and_len(entry.place.load(Relaxed));
            return Ok(Some((entry, address, len)));
        }
        Ok(None)
    }

    #[cold]
    fn acquire_slowly<'a>(
        &'a self,
        entry: &'a Entry,
        handle: Handle,
        mode: Mode,
    ) -> Result<(&'a Entry, usize, usize), HeapError> {
        let mut patience = Patience::new(self.shared.max_wait);
        loop {
            let state = entry.state.load(Acquire);
            if generation(state) != handle.generation() {
                return Err(HeapError::NoObject { handle });
            }
            match state & STATE {
                FREE => return Err(HeapError::NoObject { handle }),
                EVICTED => {
                    if let Some(claim) = self.claim(handle)? {
                        self.bring(vec![claim], mode.adds)?;
                        break;
                    }
                }
                RESIDENT => {
                    let marked = state & mode.excludes & WINDOW != 0;
                    if marked && self.recall(entry, handle, state)? {
                        continue;
                    }
                    if !mode.fits(state) {
                        patience.wait(handle)?;
                    } else if entry.take(state, mode) {
                        self.shared.counters.hit();
                        break;
                    }
                }
                _ => patience.wait(handle)?,
            }
        }
        let (address, len) = address_and_len(entry.place.load(Relaxed));
        Ok((entry, address, len))
    }

    /// Takes the page of an object's address back, if it is filled. False: it is not, or has to
    /// stay for now.
    fn recall(&self, entry: &Entry, handle: Handle, state: u64) -> Result<bool, HeapError> {
        let filled = state & STATE == RESIDENT && state & WINDOW != 0;
        match self.shared.window.get().filter(|_| filled) {
            Some(window) => window.recall(&self.shared, handle.id(), entry),
            None => Ok(false),
        }
    }

    /// Counts a reader into an object for `window`, which ends that.
    pub(crate) fn acquire_for_window(&self, handle: Handle) -> Result<(), HeapError> {
        self.acquire(handle, FILL).map(|_| ())
    }

    /// Ends a view of the heap, see `pointers`.
    pub(crate) fn release_view(&mut self) {
        // SAFETY: a view is not used any more and never dropped; these are its only contents.
        unsafe {
            drop(std::ptr::read(&raw const self.shared));
            drop(std::ptr::read(&raw const self.owner));
        }
    }

    /// Claims an object if it is on the disk.
    pub(crate) fn claim(&self, handle: Handle) -> Result<Option<Claim<'_>>, HeapError> {
        let entry = self.entry(handle)?;
        let state = entry.state.load(Acquire);
        if generation(state) != handle.generation() || state & STATE == FREE {
            return Err(HeapError::NoObject { handle });
        }
        let taken = state & STATE == EVICTED && entry.claim(state);
        Ok(taken.then(|| {
            let place = DiskPlace::decode(entry.place.load(Relaxed));
            Claim { entry, handle, place, sum: checksum(state) }
        }))
    }

    /// Brings claimed objects into memory. Those that cannot come are evicted again.
    fn bring(&self, claims: Vec<Claim<'_>>, users: u64) -> Result<(), HeapError> {
        let started = Instant::now();
        let mut first = Ok(());
        let mut on_disk = Vec::new();
        for claim in claims {
            let buffered = self.shared.lock().disk.buffered(claim.place).map(<[u8]>::to_vec);
            match buffered {
                Some(bytes) => {
                    first = first.and(self.settle(&claim, Ok(&bytes), users, started));
                }
                None => on_disk.push(claim),
            }
        }
        if !on_disk.is_empty() {
            first = first.and(self.bring_from_disk(&on_disk, users, started));
        }
        first
    }

    /// This thread's queue.
    pub(crate) fn queue(&self) -> Result<QueueGuard, IoError> {
        let small = BufferClass { len: SMALL_READ, count: DEPTH };
        let large = BufferClass { len: LARGE_READ, count: 1 };
        let options = QueueOptions { depth: DEPTH, buffers: vec![small, large] };
        thread_queue(&*self.shared.storage, &options, &self.owner)
    }

    fn bring_from_disk(
        &self,
        claims: &[Claim<'_>],
        users: u64,
        started: Instant,
    ) -> Result<(), HeapError> {
        let made = self.queue();
        let mut queue = match made {
            Ok(queue) => queue,
            Err(error) => {
                let error = HeapError::from(error);
                claims.iter().for_each(|claim| claim.give_up());
                return Err(error);
            }
        };
        let reading = self.shared.reading.fetch_add(1, Relaxed) + 1;
        self.shared.lock().count_queues(reading * QUEUE_BYTES);
        let brought = self.read_all(&mut *queue, claims, users, started);
        self.shared.reading.fetch_sub(1, Relaxed);
        brought
    }

    fn read_all(
        &self,
        queue: &mut dyn Queue,
        claims: &[Claim<'_>],
        users: u64,
        started: Instant,
    ) -> Result<(), HeapError> {
        let mut first = Ok(());
        let mut next = 0;
        while next < claims.len() || queue.in_flight() > 0 {
            if next < claims.len() && self.submit(queue, claims, next) {
                next += 1;
                continue;
            }
            let Some(completion) = queue.wait() else { continue };
            let claim = &claims[completion.tag as usize];
            let (start, _) = claim.span();
            let result = completion.result.map(|()| {
                let skipped = (claim.offset() - start) as usize;
                &completion.buffer[skipped..skipped + claim.place.len]
            });
            let settled = self.settle(claim, result.map_err(HeapError::from), users, started);
            first = first.and(settled);
        }
        first
    }

    /// Asks for a claimed object's bytes; false while no buffer is free.
    pub(crate) fn submit(&self, queue: &mut dyn Queue, claims: &[Claim<'_>], index: usize) -> bool {
        if queue.in_flight() >= queue.depth() {
            return false;
        }
        let (offset, len) = claims[index].span();
        let Some(buffer) = queue.take_buffer(len as usize) else { return false };
        self.shared.counters.bytes_read.fetch_add(u64::from(len), Relaxed);
        let (file, tag) = (self.shared.file.clone(), index as u64);
        queue.submit(Request { file, direction: Direction::Read, offset, len, buffer, tag });
        true
    }

    /// Ends a claim: the object is in memory, or evicted as before.
    fn settle(
        &self,
        claim: &Claim<'_>,
        bytes: Result<&[u8], HeapError>,
        users: u64,
        started: Instant,
    ) -> Result<(), HeapError> {
        let settled = bytes.and_then(|bytes| self.fill_cell(claim, bytes, users));
        match &settled {
            Ok(()) => self.shared.counters.miss(started.elapsed()),
            Err(_) => claim.give_up(),
        }
        settled
    }

    fn fill_cell(&self, claim: &Claim<'_>, bytes: &[u8], users: u64) -> Result<(), HeapError> {
        let DiskPlace { block, offset, len, .. } = claim.place;
        let found = disk::checksum(self.shared.seed, claim.handle, block, offset, bytes);
        if found != claim.sum {
            self.shared.count_damaged();
            return Err(HeapError::Damaged { handle: claim.handle, block, offset, len });
        }
        let (mut core, cell) = self.take_cell(self.shared.lock(), len)?;
        let to = core.chunks.address(cell) as *mut u8;
        // SAFETY: the cell is detached, and has room for the object.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
        let from = Some((claim.place, claim.sum));
        core.install(claim.entry, claim.handle, (cell, len), from, users);
        Ok(())
    }

    /// Takes a cell, and waits for the keeper or for guards where need be. The caller has no object
    /// in memory for itself.
    fn take_cell<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        len: usize,
    ) -> Result<(MutexGuard<'a, Core>, CellRef), HeapError> {
        let started = Instant::now();
        loop {
            if let Some(taken) = self.try_cell(core, len, started)? {
                return Ok(taken);
            }
            self.shared.wait_for_users();
            core = self.shared.lock();
        }
    }

    /// Takes a cell, and waits for the keeper where need be, but not for guards: `None`. Who has an
    /// object in memory for itself lets go of it then, waits and tries again. Otherwise threads
    /// that each want a cell could keep the objects in memory that would have to leave for others.
    pub(crate) fn try_cell<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        len: usize,
        started: Instant,
    ) -> Result<Option<(MutexGuard<'a, Core>, CellRef)>, HeapError> {
        let shared = &self.shared;
        let mut waited_for_pages = false;
        loop {
            shared.check_whole()?;
            let taken = core.take_cell(&shared.table, len);
            if core.disk.next_full().is_some() {
                shared.work.notify_one();
            }
            let taken = match taken {
                // Snapshots that kept blocks may have gone.
                Err(HeapError::DiskFull(_)) if shared.look_at_states(&mut core) => continue,
                taken => taken?,
            };
            let for_disk = match taken {
                Take::Cell(cell) => return Ok(Some((core, cell))),
                Take::WaitForDisk => true,
                Take::WaitForUsers => false,
            };
            if started.elapsed() > shared.max_wait {
                let failed = core.disk.failed.clone().map(HeapError::from);
                let budget = core.budget;
                return Err(match (for_disk, failed) {
                    (true, Some(error)) => error,
                    (true, None) => HeapError::DiskFull("no block became free".to_owned()),
                    (false, _) => HeapError::NoMemory { budget, len },
                });
            }
            if for_disk {
                shared.work.notify_one();
                let waited = shared.changed.wait_timeout(core, Duration::from_millis(100));
                core = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let Some(window) = shared.window.get().filter(|_| !waited_for_pages) else {
                return Ok(None);
            };
            // Objects whose pages are filled do not leave memory.
            waited_for_pages = true;
            drop(core);
            window.recall_all(shared)?;
            core = shared.lock();
        }
    }
}

impl Drop for ObjectHeap {
    fn drop(&mut self) {
        let keeper = self.keeper.take();
        if self.shared.mark.is_stale() {
            // The thread and the file are the parent's; a lock may be held for ever.
            std::mem::forget(keeper);
            return;
        }
        if !std::thread::panicking() {
            let _ = self.flush_last();
        }
        if let Some(window) = self.shared.window.get() {
            signal::forget(self);
            window.close(&self.shared);
        }
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
        if let Some(keeper) = keeper {
            let _ = keeper.join();
        }
    }
}

impl Claim<'_> {
    /// Where the object begins in the file.
    pub(crate) fn offset(&self) -> u64 {
        u64::from(self.place.block) * BLOCK_BYTES as u64 + u64::from(self.place.offset)
    }

    /// The whole units around the object: offset and length.
    pub(crate) fn span(&self) -> (u64, u32) {
        let start = self.offset() / UNIT_BYTES * UNIT_BYTES;
        let end = (self.offset() + self.place.len as u64).next_multiple_of(UNIT_BYTES);
        (start, (end - start) as u32)
    }

    pub(crate) fn give_up(&self) {
        self.entry.state.store(evicted(self.handle.generation(), self.sum), Release);
    }
}

pub(crate) fn check_len(len: usize) -> Result<(), HeapError> {
    if (1..=MAX_OBJECT_BYTES).contains(&len) { Ok(()) } else { Err(HeapError::Size { len }) }
}

/// Whether options make sense.
pub(crate) fn check_options(options: &HeapOptions) -> Result<(), HeapError> {
    check_budget(options.budget)?;
    if options.disk_limit < 8 * BLOCK_BYTES as u64 {
        return Err(HeapError::Options("disk_limit must be at least 2 MiB"));
    }
    if !(options.dead_fraction > 0.0 && options.dead_fraction < 1.0) {
        return Err(HeapError::Options("dead_fraction must lie between 0 and 1"));
    }
    Ok(())
}

fn check_budget(budget: u64) -> Result<(), HeapError> {
    if !(MIN_BUDGET_BYTES..=MAX_BUDGET_BYTES).contains(&budget) {
        return Err(HeapError::Options("a budget is 6 MiB to 64 GiB"));
    }
    Ok(())
}

fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain data has no padding, so all its bytes are initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn check_type<T>(handle: Handle, len: usize) -> Result<(), HeapError> {
    let expected = size_of::<T>();
    if len == expected { Ok(()) } else { Err(HeapError::Type { handle, len, expected }) }
}

/// Waits a little longer each time, and not for ever.
pub(crate) struct Patience {
    started: Option<Instant>,
    most: Duration,
    rounds: u32,
}

impl Patience {
    pub(crate) fn new(most: Duration) -> Self {
        Patience { started: None, most, rounds: 0 }
    }

    pub(crate) fn wait(&mut self, handle: Handle) -> Result<(), HeapError> {
        let waited = self.started.get_or_insert_with(Instant::now).elapsed();
        if waited > self.most {
            return Err(HeapError::InUse { handle, waited_ms: waited.as_millis() as u64 });
        }
        self.rounds += 1;
        match self.rounds {
            0..16 => std::hint::spin_loop(),
            16..64 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
        Ok(())
    }
}
