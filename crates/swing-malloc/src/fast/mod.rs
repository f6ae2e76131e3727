//! The fast part: an allocator for every size whose common case takes some nanoseconds, at any
//! number of threads.
//!
//! # How
//! Each thread has a *cache*: for each of 65 classes a short stack of free blocks. An allocation
//! takes one off, a free puts one on: no lock, no atomic read-modify-write, no touch of the block.
//! Behind the caches are *slabs* (blocks of one class up to 32 KiB with a bit each) and the buddy
//! part of the [`Heap`], under one lock that is taken once for many operations.
//!
//! # What a publish sees
//! Caches, slabs and their bits lie in the area. A block in a cache is allocated as far as its slab
//! or the heap knows, and free as far as its thread knows; whoever opens a published state finds
//! both and goes on: a thread that needs a cache takes over one that nobody uses, with what is in
//! it, and before an allocation fails all such caches are emptied. So nothing is lost with a
//! process, and [`Malloc::check`] holds in every published state. A publish must not fall into an
//! operation: hold [`Malloc::pause`], which stops every thread at the gate of its cache.
//!
//! # Cost after a publish
//! The first operation of a thread copies the 64 KiB extent of its cache. Only when the cache is
//! empty or full the records of a slab (64 KiB for about 20 MiB of blocks) and the heap's header
//! follow. Free blocks are never stored to.
//!
//! # Memory
//! A thread keeps at most 128 blocks of a class up to 1 KiB, 32 up to 32 KiB, 16 to 128
//! KiB, 8 to 1 MiB; of blocks of an extent or more it keeps only those that have no memory.
//!
//! # Limits
//! A free of an address that is no block is found out for most, not for all addresses: the fast
//! path looks at the class of the 16 KiB around it. The checker finds a block that was freed twice.

mod api;
mod central;
mod check;
mod class;
mod gate;
mod map;
mod record;
mod thread;

pub use api::AreaAlloc;
pub use check::MallocReport;

use crate::error::{AllocError, FreeError, HeapError};
use crate::heap::{Grant, Heap, Pause};
use crate::memory::Memory;
use central::{Central, Tools};
use class::{CACHED, CLASSES, FIRST, SLAB_CLASSES, class_of, size_of};
use gate::Gate;
use map::Map;
use parking_lot::{Mutex, MutexGuard};
use record::{CACHE_BYTES, ENTRIES_AT, Words};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use swing::{Area, AreaOffset, ByteLen};
use thread::{Local, Owner};

/// The fast allocator of one area; see the [module](self). Clones share it.
#[derive(Debug)]
pub struct Malloc<M: Memory + 'static = Area> {
    inner: Arc<Inner<M>>,
}

impl<M: Memory + 'static> Clone for Malloc<M> {
    fn clone(&self) -> Self {
        Malloc { inner: self.inner.clone() }
    }
}

#[derive(Debug)]
pub(crate) struct Inner<M: Memory + 'static> {
    id: u64,
    heap: Heap<M>,
    map: Map,
    central: Mutex<Central>,
}

/// While it lives no thread changes the heap or a cache.
#[derive(Debug)]
pub struct MallocPause<'a> {
    _heap: Pause<'a>,
    _central: MutexGuard<'a, Central>,
}

impl<M: Memory + 'static> Malloc<M> {
    /// The fast part of a heap: what an earlier owner left there, or a new one.
    ///
    /// # Errors
    /// [`HeapError::Corrupt`] if what is there is no directory; [`HeapError::ZoneTooSmall`] and
    /// [`HeapError::Write`] if there is no room for a new one.
    pub fn open(heap: Heap<M>) -> Result<Self, HeapError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let map = Map::new(heap.area().space().reserve);
        let root = heap.fast_root();
        let central = if root == 0 {
            Central::create(&heap)?
        } else {
            let words = Words::new(&**heap.area());
            Central::open(&Tools { heap: &heap, map: &map, words }, root)?
        };
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Malloc { inner: Arc::new(Inner { id, heap, map, central: Mutex::new(central) }) })
    }

    /// A block of at least `len` bytes (1 when it is 0) at a multiple of 16; the grant says how
    /// many there really are. As with [`Heap`], stores to it need the area's write barrier, or a
    /// tracked area.
    ///
    /// # Errors
    /// See [`AllocError`]; nothing is changed then.
    #[inline(always)]
    pub fn allocate(&self, len: ByteLen) -> Result<Grant, AllocError> {
        let Some(class) = class_of(len.0) else {
            return Err(AllocError::Length { len: len.0 });
        };
        let offset = match self.pop(class) {
            Some(offset) => offset,
            None => self.allocate_slowly(class)?,
        };
        Ok(Grant { offset: AreaOffset(offset), len: ByteLen(size_of(class)) })
    }

    /// Frees a block.
    ///
    /// # Errors
    /// [`FreeError::NotAllocated`] where it can be told that no block begins there.
    #[inline(always)]
    pub fn free(&self, offset: AreaOffset) -> Result<(), FreeError> {
        match self.inner.map.class(offset.0) {
            Some(class) if class < SLAB_CLASSES && self.push(class, offset.0) => Ok(()),
            _ => self.free_otherwise(offset.0),
        }
    }

    /// Large blocks, and whatever the fast path does not do.
    #[inline(never)]
    fn free_otherwise(&self, offset: u64) -> Result<(), FreeError> {
        if let Some(class) = self.inner.map.class(offset)
            && class >= SLAB_CLASSES
            && !self.has_memory(offset, class)
            && self.push(class, offset)
        {
            return Ok(());
        }
        self.free_slowly(offset)
    }

    /// Bytes that may be used at the block that begins at `offset`; `None` when no block can begin
    /// there.
    #[inline]
    pub fn usable_size(&self, offset: AreaOffset) -> Option<ByteLen> {
        match self.inner.map.class(offset.0) {
            Some(class) => Some(ByteLen(size_of(class))),
            None => {
                let _central = self.inner.central.lock();
                self.inner.learn(offset.0).map(|class| ByteLen(size_of(class)))
            }
        }
    }

    /// Takes a block off the thread's cache.
    #[inline(always)]
    fn pop(&self, class: usize) -> Option<u64> {
        let local = thread::current(self.inner.id)?;
        if !local.gate.enter() {
            return None;
        }
        // SAFETY: the gate is open, so the cache (32 KiB of this thread) is writable and no publish
        // falls in between until `leave`; `class` is below `CLASSES`, and the count was checked
        // against its capacity when the cache was taken over.
        let taken = unsafe {
            let count_at = local.cache.cast::<u16>().add(class);
            let count = *count_at;
            if count == 0 {
                None
            } else {
                *count_at = count - 1;
                let entries = local.cache.add(ENTRIES_AT as usize).cast::<u64>();
                Some(*entries.add(FIRST[class] as usize + count as usize - 1))
            }
        };
        local.gate.leave();
        taken
    }

    /// Puts a block on the thread's cache; false when it is full or closed.
    #[inline(always)]
    fn push(&self, class: usize, offset: u64) -> bool {
        let Some(local) = thread::current(self.inner.id) else { return false };
        if !local.gate.enter() {
            return false;
        }
        // SAFETY: as in `pop`. The entry is written before the count, so that at every instant the
        // entries below the count are blocks.
        let room = unsafe {
            let count_at = local.cache.cast::<u16>().add(class);
            let count = *count_at;
            let room = count < CACHED[class];
            if room {
                let entries = local.cache.add(ENTRIES_AT as usize).cast::<u64>();
                *entries.add(FIRST[class] as usize + count as usize) = offset;
                std::sync::atomic::compiler_fence(Ordering::Release);
                *count_at = count + 1;
            }
            room
        };
        local.gate.leave();
        room
    }

    /// Whether freeing a block gives memory back to the system.
    fn has_memory(&self, offset: u64, class: usize) -> bool {
        let mem = &**self.inner.heap.area();
        let (size, extent) = (size_of(class), mem.space().data_extent);
        size >= extent && mem.any_present(offset..offset + size)
    }

    #[cold]
    fn allocate_slowly(&self, class: usize) -> Result<u64, AllocError> {
        let inner = &*self.inner;
        inner.heap.area().check_writer()?;
        let _storing = inner.heap.area().storing();
        let local = self.local()?;
        let mut central = inner.central.lock();
        let tools = inner.tools();
        let Some((slot, gate)) = local else {
            return inner.retry(&mut central, |central| central.take_one(&tools, class));
        };
        let cache = central.cache(&tools.words, slot);
        inner.open_cache(&gate, cache)?;
        let count_at = cache + 2 * class as u64;
        if tools.words.get16(count_at) == 0 {
            inner.retry(&mut central, |central| central.refill(&tools, cache, class))?;
        }
        let count = tools.words.get16(count_at) - 1;
        tools.words.set16(count_at, count);
        let entry = ENTRIES_AT + 8 * (u64::from(FIRST[class]) + u64::from(count));
        Ok(tools.words.get64(cache + entry))
    }

    #[cold]
    fn free_slowly(&self, offset: u64) -> Result<(), FreeError> {
        let inner = &*self.inner;
        inner.heap.area().check_writer()?;
        let _storing = inner.heap.area().storing();
        // Without a cache the block goes straight back.
        let local = self.local().unwrap_or(None);
        let central = inner.central.lock();
        let tools = inner.tools();
        let class = inner.learn(offset).ok_or(FreeError::NotAllocated { offset })?;
        let Some((slot, gate)) = local else { return central.put_one(&tools, offset) };
        let cache = central.cache(&tools.words, slot);
        inner.open_cache(&gate, cache)?;
        if class >= SLAB_CLASSES && self.has_memory(offset, class) {
            return central.put_one(&tools, offset);
        }
        let count_at = cache + 2 * class as u64;
        if tools.words.get16(count_at) == CACHED[class] {
            central.flush(&tools, cache, class, CACHED[class] as usize / 2)?;
        }
        let count = tools.words.get16(count_at);
        let entry = ENTRIES_AT + 8 * (u64::from(FIRST[class]) + u64::from(count));
        tools.words.set64(cache + entry, offset);
        tools.words.set16(count_at, count + 1);
        Ok(())
    }

    /// The thread's cache, taken over or made when it has none.
    fn local(&self) -> Result<Option<(u32, Arc<Gate>)>, AllocError> {
        if let Some(found) = thread::known(self.inner.id) {
            return Ok(Some(found));
        }
        let inner = &self.inner;
        let mut central = inner.central.lock();
        let tools = inner.tools();
        let Some((slot, gate)) = central.attach(&tools)? else { return Ok(None) };
        let cache = central.cache(&tools.words, slot);
        drop(central);
        // SAFETY: the cache is a block of the area's small zone (checked when it was found).
        let cache = unsafe { inner.heap.area().base().as_ptr().add(cache as usize) };
        let owner: Arc<dyn Owner> = inner.clone();
        let local = Local { id: inner.id, slot, gate: gate.clone(), cache };
        Ok(thread::keep(local, Arc::downgrade(&owner)).then_some((slot, gate)))
    }

    /// Stops every thread's operations until the guard is dropped: to be held while the area is
    /// published, and while the process forks.
    pub fn pause(&self) -> MallocPause<'_> {
        let central = self.inner.central.lock();
        Gate::close_all(central.gates.iter().flatten().map(|gate| &**gate));
        MallocPause { _heap: self.inner.heap.pause(), _central: central }
    }

    /// Gives back what all caches hold, of this process's threads and of dead ones, to slabs and
    /// heap: nothing but blocks in use is allocated then.
    ///
    /// # Errors
    /// [`FreeError::Write`] if there is no memory for metadata.
    pub fn drain(&self) -> Result<(), FreeError> {
        let central = self.inner.central.lock();
        Gate::close_all(central.gates.iter().flatten().map(|gate| &**gate));
        let tools = self.inner.tools();
        for slot in 0..central.gates.len() as u32 {
            central.check_cache(&tools, slot)?;
            central.drain(&tools, slot)?;
        }
        Ok(())
    }

    /// The heap below, whose own calls may be used beside this.
    pub fn heap(&self) -> &Heap<M> {
        &self.inner.heap
    }
}

impl<M: Memory + 'static> Inner<M> {
    fn tools(&self) -> Tools<'_, M> {
        Tools { heap: &self.heap, map: &self.map, words: Words::new(&**self.heap.area()) }
    }

    /// Makes a cache writable and opens its thread's gate; under the central lock.
    fn open_cache(&self, gate: &Gate, cache: u64) -> Result<(), swing::WriteError> {
        if gate.is_closed() {
            self.tools().words.open(cache..cache + CACHE_BYTES)?;
            gate.open();
        }
        Ok(())
    }

    /// The class of the block at `offset`, also of one that an earlier process allocated.
    fn learn(&self, offset: u64) -> Option<usize> {
        if let Some(class) = self.map.class(offset) {
            return Some(class);
        }
        let usable = self.heap.usable_size(AreaOffset(offset)).ok()??;
        // What is smaller belongs to somebody who uses the heap itself.
        let power = usable.0.checked_ilog2().filter(|power| *power >= 16)?;
        let class = SLAB_CLASSES + power as usize - 16;
        (class < CLASSES).then(|| self.map.add_block(offset, class))?;
        Some(class)
    }

    /// Tries, and tries again after emptying the caches that no thread uses.
    fn retry<R>(
        &self,
        central: &mut Central,
        mut work: impl FnMut(&mut Central) -> Result<R, AllocError>,
    ) -> Result<R, AllocError> {
        match work(central) {
            Err(AllocError::Exhausted { len, largest }) => {
                let unused = |slot: &u32| central.gates[*slot as usize].is_none();
                for slot in (0..central.gates.len() as u32).filter(unused) {
                    let tools = self.tools();
                    let drained = central
                        .check_cache(&tools, slot)
                        .is_ok()
                        .then(|| central.drain(&tools, slot));
                    if !matches!(drained, Some(Ok(()))) {
                        return Err(AllocError::Exhausted { len, largest });
                    }
                }
                work(central)
            }
            other => other,
        }
    }
}

impl<M: Memory + 'static> Owner for Inner<M> {
    fn leave(&self, slot: u32) {
        if self.heap.area().check_writer().is_err() {
            return;
        }
        let _storing = self.heap.area().storing();
        let mut central = self.central.lock();
        // What cannot be given back stays in the cache for the next thread.
        let _ = central.drain(&self.tools(), slot);
        central.gates[slot as usize] = None;
    }
}
