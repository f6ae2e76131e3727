//! How an object comes back from the disk: it is claimed, read without the lock, checked, and put
//! into a cell.
//!
//! **Cycle.** The files with methods of the heap call each other.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use swing_tier::storage::{Direction, Queue, QueueOptions, Request};
use swing_tier::{BufferClass, IoError, QueueGuard, UNIT_BYTES, thread_queue};

use crate::chunk::CellRef;
use crate::core::{Core, Take};
use crate::disk::{self, BLOCK_BYTES};
use crate::entry::{DiskPlace, EVICTED, Entry, FREE, Handle, STATE, checksum, evicted, generation};
use crate::error::HeapError;
use crate::heap::ObjectHeap;

/// Reads in flight of one call.
pub(crate) const DEPTH: u32 = 16;
/// Buffers of a thread's queue: small ones, and one for the longest object at any offset.
const SMALL_READ: u32 = 8 << 10;
/// Memory of one thread's queue.
const QUEUE_BYTES: u64 = DEPTH as u64 * SMALL_READ as u64 + LARGE_READ as u64;
const LARGE_READ: u32 = (64 << 10) + 2 * UNIT_BYTES as u32;

/// An evicted object that this thread has claimed.
pub(crate) struct Claim<'a> {
    entry: &'a Entry,
    pub(crate) handle: Handle,
    pub(crate) place: DiskPlace,
    pub(crate) sum: u32,
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

impl ObjectHeap {
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
    pub(crate) fn bring(&self, claims: Vec<Claim<'_>>, users: u64) -> Result<(), HeapError> {
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
    pub(crate) fn take_cell<'a>(
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
