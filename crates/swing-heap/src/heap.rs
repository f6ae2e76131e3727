//! The heap itself: allocation, access, and how an object comes back from the disk.
//!
//! An access to an object in memory takes no lock: it counts itself into the object's entry. An
//! object on the disk is claimed by its first visitor (the entry becomes busy), read without the
//! lock, checked, and put into a cell. Other visitors of the same object wait for that
//! (`access.rs`, `bring.rs`).
//!
//! **Cycle.** A heap starts its keeper, and its methods are in several files, by what they do.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use swing_tier::storage::Storage;
use swing_tier::{Directory, DirectoryOptions, IoError, ProcessMark, QueueOwner};

use crate::chunk::{CHUNK_BYTES, CellRef};
use crate::classes::{MAX_OBJECT_BYTES, class_of};
use crate::core::Core;
use crate::disk::{BLOCK_BYTES, Disk};
use crate::entry::{
    ALONE, BUSY, Changes, DIRTY, DiskPlace, Entry, FREE, Handle, KEEP, READ, RESIDENT, STATE,
    Table, USERS, WRITE, WRITER, address_and_len, generation,
};
use crate::error::HeapError;
use crate::guard::{PinGuard, Plain, ReadGuard, Remote, WriteGuard};
use crate::keeper;
use crate::memory::{MAX_AREA_IDS, Memory};
use crate::options::{HeapOptions, check_budget, check_options};
use crate::patience::Patience;
use crate::shared::{Kind, Shared};
use crate::signal;
use crate::stats::{Counters, HeapStats};

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

    /// Ends a view of the heap, see `pointers`.
    pub(crate) fn release_view(&mut self) {
        // SAFETY: a view is not used any more and never dropped; these are its only contents.
        unsafe {
            drop(std::ptr::read(&raw const self.shared));
            drop(std::ptr::read(&raw const self.owner));
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

pub(crate) fn check_len(len: usize) -> Result<(), HeapError> {
    if (1..=MAX_OBJECT_BYTES).contains(&len) { Ok(()) } else { Err(HeapError::Size { len }) }
}

fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain data has no padding, so all its bytes are initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn check_type<T>(handle: Handle, len: usize) -> Result<(), HeapError> {
    let expected = size_of::<T>();
    if len == expected { Ok(()) } else { Err(HeapError::Type { handle, len, expected }) }
}
