//! Persistent heaps: opening, and the flush that makes the present objects durable.
//!
//! A flush writes every object that has changed, then the entries of their groups, and commits
//! both. While it goes on others use the heap. Each entry in the commit names a copy of its object
//! as it was at the call or later, in a block that the commit keeps.
//!
//! **Why a crash finds the state of the newest flush.** The commit happens after the blocks that it
//! refers to are durable. No block that the newest commit refers to is written anew before a later
//! commit is durable (INV-OBJ-6). So until then the old state is whole, and afterwards the new one.
//!
//! **Cycle.** The files with methods of the heap call each other.

use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use swing_tier::storage::Storage;
use swing_tier::{Batch, CommitError, Directory, DirectoryOptions, RecordId};

use crate::chunk::NONE;
use crate::core::Core;
use crate::disk::NoRoom;
use crate::entry::{
    Changes, DIRTY, DiskPlace, EVICTED, FREE, GROUP_ENTRIES, HELD, Handle, MAX_GENERATION, PINS,
    READER, READERS, RESIDENT, STATE, Table, WINDOW, WRITER, address_and_len, evicted, generation,
    with_generation,
};
use crate::error::HeapError;
use crate::heap::ObjectHeap;
use crate::keeper::KEEPER_BYTES;
use crate::memory::Memory;
use crate::options::{HeapOptions, check_options};
use crate::patience::Patience;
use crate::shared::{Kind, Shared};
use crate::store::{Facts, GROUP_BYTES, MAX_IDS, Opened, Recovery, STORE_BYTES, Store};
use crate::window::Settled;

/// Generations that a commit reserves for the time until the next one.
const RESERVED_GENERATIONS: u32 = 4096;
/// The smallest budget of a persistent heap, which also needs memory for its log.
pub const MIN_PERSISTENT_BUDGET_BYTES: u64 = 8 << 20;
/// Rounds of emptying blocks and committing that one flush makes.
const MAX_COMPACTIONS: usize = 1000;

/// What to do with an entry.
enum Encoded {
    /// The words of a free or evicted entry.
    Words(u64, u64),
    /// The keeper has to write first.
    WaitForDisk,
    /// The object's page has to be taken back.
    WaitForWindow,
    /// Somebody writes or moves the object.
    WaitForUsers(Handle),
}

impl ObjectHeap {
    /// Opens the persistent heap of a directory, as its newest flush left it, or makes an empty
    /// one. One process at a time has it open.
    ///
    /// ```
    /// use swing_heap::{HeapOptions, ObjectHeap};
    /// # let temporary = tempfile::tempdir()?;
    /// # let path = temporary.path().join("heap");
    /// let options = HeapOptions { budget: 16 << 20, ..Default::default() };
    /// let heap = ObjectHeap::open_persistent(&path, options.clone())?;
    /// let handle = heap.alloc_from(b"kept")?;
    /// heap.set_root(Some(handle))?;
    /// heap.flush()?;
    /// drop(heap);
    ///
    /// let heap = ObjectHeap::open_persistent(&path, options)?;
    /// let root = heap.root()?.ok_or("no root")?;
    /// assert_eq!(*heap.read(root)?, *b"kept");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`HeapError::Open`] if another process has it open, or its files are damaged;
    /// [`HeapError::NoMemory`] if the object table alone exceeds the budget; and as
    /// [`ObjectHeap::open`].
    pub fn open_persistent(path: &Path, options: HeapOptions) -> Result<Self, HeapError> {
        let directory = DirectoryOptions { create: true, ..Default::default() };
        let storage = Arc::new(Directory::open(path, directory)?);
        Self::open_persistent_on(storage, options, &mut |_| ())
    }

    /// Opens a persistent heap on any storage, and says how far recovery is.
    ///
    /// # Errors
    /// As [`ObjectHeap::open_persistent`].
    pub fn open_persistent_on(
        storage: Arc<dyn Storage>,
        options: HeapOptions,
        progress: &mut dyn FnMut(Recovery),
    ) -> Result<Self, HeapError> {
        check_options(&options)?;
        if options.budget < MIN_PERSISTENT_BUDGET_BYTES {
            return Err(HeapError::Options("the budget of a persistent heap is at least 8 MiB"));
        }
        let Opened { store, disk, facts } = Store::open(&storage, options.disk_limit)?;
        let changes = Arc::new(Changes::new(true));
        let table = Table::new(Memory::Process);
        let outside = KEEPER_BYTES + STORE_BYTES;
        let mut core =
            Core::new(disk, (options.budget, options.policy), outside, changes, Memory::Process);
        core.most_objects = MAX_IDS;
        core.generations = crate::core::Generations::from(1);
        if let Some(facts) = &facts {
            store.recover(facts, &mut core, &table, progress)?;
            if facts.first_generation > MAX_GENERATION - 2 * RESERVED_GENERATIONS {
                return Err(HeapError::TooManyObjects);
            }
        }
        core.check_metadata()?;
        let heap =
            Self::start(storage, &options, core, table, Kind::Persistent(Mutex::new(store)))?;
        // Reserves the generations of this opening before a handle is given out.
        let mut store = heap.lock_store()?;
        heap.commit(&mut store, RESERVED_GENERATIONS)?;
        drop(store);
        Ok(heap)
    }

    fn lock_store(&self) -> Result<MutexGuard<'_, Store>, HeapError> {
        let Some(store) = &self.shared.store else {
            return Err(HeapError::Options(
                "an ephemeral heap has no flush, and a root only in an area",
            ));
        };
        let whole = !store.is_poisoned();
        let store = store.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.check_whole()?;
        match &store.broken {
            Some(error) => Err(error.clone()),
            None if whole => Ok(store),
            None => Err(HeapError::Broken),
        }
    }

    /// Makes all changes so far durable: what was changed before the call is there after a crash.
    /// Of what other threads change meanwhile each object is there as before or as after its
    /// change. Waits for write guards.
    ///
    /// # Errors
    /// [`HeapError::InUse`] if a write guard stays for longer than `max_wait`, also one of the
    /// caller; [`HeapError::DiskFull`]; [`HeapError::Flush`], [`HeapError::Io`]. The state of the
    /// flush before stays, and a later flush may succeed, except after a failed sync.
    pub fn flush(&self) -> Result<(), HeapError> {
        self.check_process()?;
        let mut store = self.lock_store()?;
        self.commit(&mut store, RESERVED_GENERATIONS)?;
        self.compact(&mut store)
    }

    /// Flushes and closes the heap. Dropping it does the same, but says nothing about a failure.
    ///
    /// # Errors
    /// As [`ObjectHeap::flush`]; the heap is closed in any case.
    pub fn close(self) -> Result<(), HeapError> {
        self.check_process()?;
        self.flush_last()
    }

    /// The flush of a close: nobody allocates after it.
    pub(crate) fn flush_last(&self) -> Result<(), HeapError> {
        if self.shared.store.is_none() || self.shared.lock().flushed {
            return Ok(());
        }
        self.shared.lock().flushed = true;
        let mut store = self.lock_store()?;
        self.commit(&mut store, 0)
    }

    /// The object by which the program finds all others; as the newest flush left it after opening.
    ///
    /// # Errors
    /// [`HeapError::Forked`].
    pub fn root(&self) -> Result<Option<Handle>, HeapError> {
        self.check_process()?;
        Ok(self.shared.lock().root)
    }

    /// Sets the root object. Durable with the next flush; of a heap in an area: in the next state
    /// that is shared.
    ///
    /// # Errors
    /// [`HeapError::NoObject`]; [`HeapError::Options`] for an ephemeral heap that is in no area.
    pub fn set_root(&self, root: Option<Handle>) -> Result<(), HeapError> {
        self.check_process()?;
        if self.shared.area.is_none() {
            drop(self.lock_store()?);
        }
        if let Some(handle) = root {
            self.len_of(handle)?;
        }
        let mut core = self.shared.lock();
        self.shared.check_whole()?;
        core.root = root;
        Ok(())
    }

    /// Makes the present state durable. On a full disk the log gets its spare room.
    fn commit(&self, store: &mut Store, reserved: u32) -> Result<(), HeapError> {
        let mut made = self.try_commit(store, reserved);
        let is_full = matches!(&made, Err(HeapError::Flush(CommitError::Full(_))));
        if is_full && store.give_spare() {
            made = self.try_commit(store, reserved);
        }
        store.keep_spare();
        made
    }

    fn try_commit(&self, store: &mut Store, reserved: u32) -> Result<(), HeapError> {
        let shared = &*self.shared;
        if let Some(window) = shared.window.get() {
            // What was stored through pointers becomes a change that the groups show.
            let mut patience = Patience::new(shared.max_wait());
            while let Settled::Stays(id) = window.settle(shared)? {
                patience.wait(shared.handle_of_id(id))?;
            }
        }
        let (groups, root) = {
            let mut core = shared.lock();
            core.disk.begin_commit();
            let groups = core.next_id.div_ceil(GROUP_ENTRIES as u32);
            (core.changes.take(groups), core.root)
        };
        let made = self.commit_groups(store, &groups, root, reserved);
        let mut core = shared.lock();
        core.disk.end_commit(made.is_ok());
        match &made {
            Ok(last) => {
                core.generations.last = *last;
                for id in std::mem::take(&mut core.generations.parked) {
                    core.unpark(&shared.table, id);
                }
            }
            Err(error) => {
                groups.iter().for_each(|&group| core.changes.mark_group(group));
                if is_final(error) {
                    store.broken = Some(error.clone());
                }
            }
        }
        drop(core);
        shared.changed.notify_all();
        made?;
        // Room of old commits. A failure is that of a later flush.
        let _ = store.log.collect();
        Ok(())
    }

    /// Returns the last generation that the commit reserves.
    fn commit_groups(
        &self,
        store: &mut Store,
        groups: &[u32],
        root: Option<Handle>,
        reserved: u32,
    ) -> Result<u32, HeapError> {
        let shared = &*self.shared;
        let log = store.log.clone();
        let mut batch = log.batch()?;
        let mut written = Vec::with_capacity(groups.len());
        for &group in groups {
            written.push((group, self.write_group(&mut batch, group)?));
        }
        self.write_blocks()?;
        let facts = {
            let core = shared.lock();
            shared.check_whole()?;
            let known = store.groups().max(groups.last().map_or(0, |&last| last as usize + 1));
            let ids = (core.next_id as usize).min(known * GROUP_ENTRIES) as u32;
            let last = core.generations.highest.saturating_add(reserved).min(MAX_GENERATION - 1);
            Facts { first_generation: last + 1, root, ids, blocks: core.disk.blocks() as u32 }
        };
        store.commit(batch, &written, &facts)?;
        Ok(facts.first_generation - 1)
    }

    /// Writes a group's entries into the batch, and its changed objects into buffers.
    fn write_group(&self, batch: &mut Batch<'_>, group: u32) -> Result<RecordId, HeapError> {
        let shared = &*self.shared;
        let mut bytes = vec![0; GROUP_BYTES];
        let mut patience = Patience::new(shared.max_wait());
        let started = Instant::now();
        let mut core = shared.lock();
        let mut index = 0;
        while index < GROUP_ENTRIES {
            let id = group * GROUP_ENTRIES as u32 + index as u32;
            match core.encode(&shared.table, id)? {
                Encoded::Words(state, place) => {
                    let at = index * 16;
                    bytes[at..at + 8].copy_from_slice(&state.to_le_bytes());
                    bytes[at + 8..at + 16].copy_from_slice(&place.to_le_bytes());
                    index += 1;
                }
                Encoded::WaitForDisk => core = self.wait_for_disk(core, started)?,
                Encoded::WaitForWindow => {
                    drop(core);
                    if !shared.recall_page(id)? {
                        patience.wait(shared.handle_of_id(id))?;
                    }
                    core = shared.lock();
                }
                Encoded::WaitForUsers(handle) => {
                    drop(core);
                    patience.wait(handle)?;
                    core = shared.lock();
                }
            }
        }
        drop(core);
        Ok(batch.put(&bytes)?)
    }

    /// Lets the keeper write, at most until `max_wait` is over.
    fn wait_for_disk<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        started: Instant,
    ) -> Result<MutexGuard<'a, Core>, HeapError> {
        if started.elapsed() > self.shared.max_wait() {
            let failed = core.disk.failed.clone().map(HeapError::from);
            return Err(failed.unwrap_or(HeapError::DiskFull("no block became free".to_owned())));
        }
        self.shared.wake_keeper();
        let waited = self.shared.changed.wait_timeout(core, Duration::from_millis(100));
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Writes all buffers, and makes the blocks durable.
    fn write_blocks(&self) -> Result<(), HeapError> {
        let started = Instant::now();
        let mut core = self.shared.lock();
        let blocks = core.disk.close_buffers();
        while core.disk.is_waiting(&blocks) {
            if let Some(error) = &core.disk.failed {
                return Err(crate::disk::write_error(error.clone()));
            }
            core = self.wait_for_disk(core, started)?;
        }
        drop(core);
        self.shared.file.sync().map_err(HeapError::Sync)
    }

    /// Empties blocks that commits keep, if the file runs short of blocks: each round frees what
    /// the one before has moved away.
    fn compact(&self, store: &mut Store) -> Result<(), HeapError> {
        for _ in 0..MAX_COMPACTIONS {
            let started = Instant::now();
            let mut core = self.shared.lock();
            let room = core.disk.room();
            if room < 2 || !core.disk.wants_compaction() {
                return Ok(());
            }
            core.compacting = true;
            while core.compacting {
                if core.disk.failed.is_some() || started.elapsed() > self.shared.max_wait() {
                    core.compacting = false;
                    return Ok(());
                }
                core = self.wait_for_disk(core, started)?;
            }
            drop(core);
            self.commit(store, RESERVED_GENERATIONS)?;
            if self.shared.lock().disk.room() <= room {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Shared {
    /// The handle that an id's object has now, for messages.
    pub(crate) fn handle_of_id(&self, id: u32) -> Handle {
        Handle::new(id, self.table.get(id).map_or(0, |entry| generation(entry.state.load(Relaxed))))
    }

    /// Takes an object's page back; false: it has to stay for now.
    fn recall_page(&self, id: u32) -> Result<bool, HeapError> {
        match (self.window.get(), self.table.get(id)) {
            (Some(window), Some(entry)) => window.recall(self, id, entry),
            _ => Ok(true),
        }
    }
}

/// Whether later commits cannot succeed.
fn is_final(error: &HeapError) -> bool {
    let flush = |e: &CommitError| matches!(e, CommitError::Unknown(_) | CommitError::Broken);
    match error {
        // What was not written is reported once: a later sync would succeed without it.
        HeapError::Sync(_) => true,
        HeapError::Flush(error) => flush(error),
        _ => false,
    }
}

impl Core {
    /// The words of an entry for a commit. Writes its object into a buffer if the disk has not the
    /// present bytes.
    fn encode(&mut self, table: &Table, id: u32) -> Result<Encoded, HeapError> {
        let Some(entry) = table.get(id).filter(|_| id < self.next_id) else {
            return Ok(Encoded::Words(0, 0));
        };
        loop {
            let state = entry.state.load(Acquire);
            let handle = Handle::new(id, generation(state));
            match state & STATE {
                FREE => return Ok(Encoded::Words(with_generation(generation(state), FREE), 0)),
                EVICTED => {
                    let place =
                        DiskPlace { era: 0, ..DiskPlace::decode(entry.place.load(Relaxed)) };
                    self.disk.keep(place.block);
                    return Ok(Encoded::Words(state, place.encode()));
                }
                RESIDENT => {}
                _ => return Ok(Encoded::WaitForUsers(handle)),
            }
            let (address, len) = address_and_len(entry.place.load(Relaxed));
            let cell = self.chunks.cell_at(address);
            if state & (DIRTY | WRITER) == 0 && self.chunks.cell(cell).block != NONE {
                return Ok(self.encode_copy(handle, cell, len));
            }
            if state & (WINDOW | HELD) == WINDOW {
                return Ok(Encoded::WaitForWindow);
            }
            if state & WRITER != 0 || state & READERS == READERS {
                return Ok(Encoded::WaitForUsers(handle));
            }
            match self.disk.make_room(len, false) {
                Ok(()) => {}
                Err(NoRoom::Wait) => return Ok(Encoded::WaitForDisk),
                Err(NoRoom::Failed(error)) => return Err(error),
            }
            // Clean before it is copied: a pin that comes meanwhile makes it dirty again. One that
            // is there may store at any time, so the object is written by the next flush as well.
            // So may a system call with a held page; its bytes are in the cell since the begin.
            let is_pinned = state & (PINS | HELD) != 0;
            let clean = if is_pinned { state } else { state & !DIRTY };
            if entry.state.compare_exchange(state, clean + READER, AcqRel, Relaxed).is_err() {
                continue;
            }
            if is_pinned {
                self.changes.mark(id);
            }
            // SAFETY: this thread is a reader of the object, so nobody writes or moves it. Stores
            // through a pin at the same time are the program's to avoid.
            let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, len) };
            let (place, sum) = self.disk.append(handle, bytes);
            let old = self.chunks.cell(cell).block;
            if old != NONE {
                self.disk.forget(old, len);
            }
            let facts = self.chunks.cell(cell);
            (facts.block, facts.checksum) = (place.block, sum);
            facts.offset8 = (place.offset / 8) as u16;
            self.totals.flushed_bytes += len as u64;
            entry.state.fetch_sub(READER, Release);
            return Ok(self.encode_copy(handle, cell, len));
        }
    }

    /// The words of a resident object whose copy is on the disk, or on its way there.
    fn encode_copy(&mut self, handle: Handle, cell: u32, len: usize) -> Encoded {
        let facts = *self.chunks.cell(cell);
        let offset = u32::from(facts.offset8) * 8;
        let place = DiskPlace { block: facts.block, offset, len, era: 0 };
        self.disk.keep(place.block);
        Encoded::Words(evicted(handle.generation(), facts.checksum), place.encode())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::error::HeapError;
    use crate::heap::ObjectHeap;
    use crate::options::HeapOptions;

    #[test]
    fn after_a_panic_nothing_is_changed_or_flushed_and_the_flush_before_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let options = || HeapOptions { budget: 8 << 20, ..HeapOptions::default() };
        let heap = ObjectHeap::open_persistent(folder.path(), options()).unwrap();
        let handle = heap.alloc_from(b"flushed").unwrap();
        heap.set_root(Some(handle)).unwrap();
        heap.flush().unwrap();
        heap.write(handle).unwrap().fill(b'x');
        let shared = heap.shared.clone();
        let panics = std::thread::spawn(move || {
            let _core = shared.lock();
            panic!("what a broken invariant does");
        });
        assert!(panics.join().is_err());
        assert_eq!(heap.alloc(1), Err(HeapError::Broken));
        assert_eq!(heap.free(handle), Err(HeapError::Broken));
        assert_eq!(heap.realloc(handle, 100), Err(HeapError::Broken));
        assert_eq!(heap.set_root(None), Err(HeapError::Broken));
        assert_eq!(heap.flush(), Err(HeapError::Broken));
        assert_eq!(heap.close(), Err(HeapError::Broken));
        let heap = ObjectHeap::open_persistent(folder.path(), options()).unwrap();
        assert_eq!(*heap.read(heap.root().unwrap().unwrap()).unwrap(), *b"flushed");
    }
}
