//! The fast part: an allocator for every size whose common case takes some nanoseconds, at any
//! number of threads.
//!
//! # How
//! Each thread has a *cache*: for each of 65 classes a short stack of free blocks. An allocation
//! takes one off, a free puts one on: no lock, no atomic read-modify-write, no touch of the block,
//! some 20 instructions with a branch for the thread's gate and one for the stack's end, where a
//! free also compares with the last block.
//! Behind the caches are *slabs* (blocks of one class up to 32 KiB with a bit each) and the buddy
//! part of the [`Heap`], under one lock that is taken once for many operations.
//!
//! # What a publish sees
//! Caches, slabs and their bits lie in the area. A block in a cache is allocated as far as its slab
//! or the heap knows, and free as far as its thread knows; whoever opens a published state finds
//! both and goes on: a thread that needs a cache takes over one that nobody uses, with what is in
//! it, and before an allocation fails all caches are emptied, other threads' too. So nothing is
//! lost with a process, and [`Malloc::check`] holds in every published state. A publish must not
//! fall into an operation: hold [`Malloc::pause`], which stops every thread at the gate of its
//! cache.
//!
//! # Cost after a publish
//! The first operation of a thread copies the 64 KiB extent of its cache. Only when the cache is
//! empty or full the records of a slab (64 KiB for about 20 MiB of blocks) and the heap's header
//! follow. Free blocks are never stored to.
//!
//! # Memory
//! A thread keeps at most 128 blocks of a class up to 1 KiB, 32 of each larger class. Above 32 KiB
//! that is for blocks without memory, which cost address space only; of those that have some it
//! keeps 16 to 128 KiB, 8 to 1 MiB, and none that fills extents by itself.
//!
//! # Limits
//! A free of an address that is no block is found out for most, not for all addresses: the fast
//! path looks at the class of the 16 KiB around it and at the alignment, and notices a second free
//! if the thread has freed no other block of the class in between. Whatever takes the slow path is
//! looked at thoroughly. What passes is found when a cache gives blocks back, or by the checker.

mod api;
mod atomics;
mod cache;
mod caches;
mod central;
mod check;
mod class;
mod containers;
mod gate;
mod look;
mod map;
mod record;
mod stats;
mod thread;

pub use api::AreaAlloc;
pub use check::MallocReport;
pub use stats::MallocStats;

use crate::error::{AllocError, FreeError, HeapError};
use crate::heap::{Grant, Heap, Pause};
use crate::memory::{Changes, Memory};
use cache::{Cache, find, held, pop, push};
use central::{Central, Tools};
use class::{CLASSES, SLAB_CLASSES, cached, cached_warm, class_of, granted, large_class};
use gate::Gate;
use map::{Map, begins_large};
use parking_lot::{Mutex, MutexGuard};
use record::Words;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use swing::{Area, AreaOffset, ByteLen, WriteError};
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
    /// By class: [`cached_warm`].
    warm: [u8; CLASSES],
    central: Mutex<Central>,
}

/// While it lives no thread changes the heap or a cache.
#[derive(Debug)]
pub struct MallocPause<'a> {
    _heap: Pause<'a>,
    _central: MutexGuard<'a, Central>,
}

/// Asks the kernel for what publishes need of it, which the first [`Malloc`] does otherwise: that
/// takes a microsecond while the process has one thread, and ten thousand later. So with several
/// threads it is left to whoever makes a heap.
pub fn prepare_process() {
    /// Links to the folder of a process's threads when it has one: one of each, and two.
    const ALONE: u64 = 3;
    if std::fs::metadata("/proc/self/task").is_ok_and(|folder| folder.nlink() == ALONE) {
        gate::asymmetric();
    }
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
        let extent = heap.area().space().data_extent;
        let warm = std::array::from_fn(|class| cached_warm(class, extent) as u8);
        let central = Mutex::new(central);
        Ok(Malloc { inner: Arc::new(Inner { id, heap, map, warm, central }) })
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
        match self.pop(class) {
            Some(offset) => Ok(grant(class, offset)),
            None => self.allocate_slowly(class),
        }
    }

    /// As [`Malloc::allocate`], from this thread's cache only: takes no lock, calls nothing, and
    /// may be used where a call of an allocator from inside this one would be wrong. `None` says
    /// nothing about what [`Malloc::allocate`] would find.
    #[inline(always)]
    pub fn allocate_cached(&self, len: ByteLen) -> Option<Grant> {
        let class = class_of(len.0)?;
        let offset = self.pop(class).or_else(|| self.pop_heavily(class))?;
        Some(grant(class, offset))
    }

    /// Frees a block into this thread's cache if that is all there is to do; see
    /// [`Malloc::allocate_cached`].
    #[inline(always)]
    pub fn free_cached(&self, offset: AreaOffset) -> bool {
        let Some(class) = self.inner.map.small_class(offset.0) else { return false };
        offset.0.is_multiple_of(16)
            && (self.push(class, offset.0) || self.push_heavily(class, offset.0))
    }

    /// Frees a block.
    ///
    /// # Errors
    /// [`FreeError::NotAllocated`] where it can be told that no block begins there.
    #[inline(always)]
    pub fn free(&self, offset: AreaOffset) -> Result<(), FreeError> {
        if let Some(class) = self.inner.map.small_class(offset.0)
            && offset.0.is_multiple_of(16)
            && self.push(class, offset.0)
        {
            return Ok(());
        }
        self.free_otherwise(offset.0)
    }

    /// Large blocks, and whatever the fast path does not do.
    #[inline(never)]
    fn free_otherwise(&self, offset: u64) -> Result<(), FreeError> {
        if let Some(class) = self.inner.map.class(offset)
            && class >= SLAB_CLASSES
            && self.push_large(class, offset)
        {
            return Ok(());
        }
        // The thread may have used another heap meanwhile.
        if thread::known(self.inner.id).is_some() && self.free_cached(AreaOffset(offset)) {
            return Ok(());
        }
        self.free_slowly(offset)
    }

    /// Bytes that may be used at the block that begins at `offset`; `None` when no block can begin
    /// there.
    #[inline]
    pub fn usable_size(&self, offset: AreaOffset) -> Option<ByteLen> {
        match self.inner.map.class(offset.0) {
            Some(class) => Some(ByteLen(granted(class))),
            None => {
                let _central = self.inner.central.lock();
                self.inner.learn(offset.0).map(|class| ByteLen(granted(class)))
            }
        }
    }

    /// Takes a block off the thread's cache; `None` also where each operation needs a barrier of
    /// its own ([`Malloc::pop_heavily`]).
    #[inline(always)]
    fn pop(&self, class: usize) -> Option<u64> {
        let gate = thread::gate();
        let cache = gate.enter(self.key())?;
        // SAFETY: the gate is open to this heap, so the cache, whose shape was checked when it was
        // taken over, is writable and this thread's until `leave` (INV-MALLOC-5); `class` came from
        // `class_of` or the map, which hold nothing above `CLASSES`.
        let taken = unsafe { pop(cache, class) };
        gate.leave();
        taken
    }

    /// Puts a block on the thread's cache; false when it is full or closed, and as for `pop`.
    #[inline(always)]
    fn push(&self, class: usize, offset: u64) -> bool {
        let gate = thread::gate();
        let Some(cache) = gate.enter(self.key()) else { return false };
        // SAFETY: as in `pop`.
        let done = unsafe { push(cache, class, offset) };
        gate.leave();
        done
    }

    /// `pop` where nobody passes a barrier for us.
    #[cold]
    #[inline(never)]
    fn pop_heavily(&self, class: usize) -> Option<u64> {
        let gate = thread::gate();
        let cache = gate.enter_heavily(self.key())?;
        // SAFETY: as in `pop`.
        let taken = unsafe { pop(cache, class) };
        gate.leave();
        taken
    }

    /// `push` where nobody passes a barrier for us.
    #[cold]
    #[inline(never)]
    fn push_heavily(&self, class: usize, offset: u64) -> bool {
        let gate = thread::gate();
        let Some(cache) = gate.enter_heavily(self.key()) else { return false };
        // SAFETY: as in `pop`.
        let done = unsafe { push(cache, class, offset) };
        gate.leave();
        done
    }

    /// As `push`, when the cache holds fewer blocks of the class than it keeps of this kind.
    fn push_large(&self, class: usize, offset: u64) -> bool {
        debug_assert!((SLAB_CLASSES..CLASSES).contains(&class));
        if !begins_large(offset) {
            return false;
        }
        let (gate, key) = (thread::gate(), self.key());
        let Some(cache) = gate.enter(key).or_else(|| gate.enter_heavily(key)) else {
            return false;
        };
        // Up to so many are kept whether they have memory or not.
        let warm = usize::from(self.inner.warm[class]);
        // SAFETY: as in `pop`.
        let done = unsafe {
            let held = held(cache, class);
            (held < warm || (held < cached(class) && !self.inner.has_memory(offset, class)))
                && push(cache, class, offset)
        };
        gate.leave();
        done
    }

    /// Whether this thread holds the large block at `offset` for its next allocation, since it was
    /// freed. Says nothing about other blocks.
    pub fn holds_freed(&self, offset: AreaOffset) -> bool {
        let class = self.inner.map.class(offset.0).filter(|class| *class >= SLAB_CLASSES);
        let Some(class) = class else { return false };
        let (gate, key) = (thread::gate(), self.key());
        let Some(cache) = gate.enter(key).or_else(|| gate.enter_heavily(key)) else {
            return false;
        };
        // SAFETY: as in `pop`.
        let found = unsafe { find(cache, class, offset.0) };
        gate.leave();
        found
    }

    /// What this heap's gates open to: an address that nothing else has while it lives.
    #[inline(always)]
    fn key(&self) -> usize {
        self.inner.key()
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(&self, class: usize) -> Result<Grant, AllocError> {
        // The thread may have used another heap meanwhile.
        let local = thread::known(self.inner.id);
        if local.is_some()
            && let Some(offset) = self.pop(class).or_else(|| self.pop_heavily(class))
        {
            return Ok(grant(class, offset));
        }
        let offset = self.allocate_locked(class, local)?;
        assert!(offset != 0 && offset.is_multiple_of(16), "the header is no block");
        // A request for a large block may have got a larger one.
        Ok(grant(self.inner.map.class(offset).unwrap_or(class), offset))
    }

    /// With a cache that is empty, or closed, or not there yet.
    fn allocate_locked(&self, class: usize, known: Option<Local>) -> Result<u64, AllocError> {
        let (inner, mut local) = (&*self.inner, known);
        assert!(class < CLASSES);
        inner.heap.area().check_writer()?;
        let _storing = inner.heap.area().storing();
        if local.is_none() {
            local = self.attach()?;
        }
        let mut central = inner.central.lock();
        let _changes = Changes::begin(&**inner.heap.area())?;
        let tools = inner.tools();
        let Some(local) = local else {
            return inner.retry(&mut central, |central| central.take_one(&tools, class));
        };
        let slot = local.slot;
        let cache = inner.closed_cache(&tools, &central, &local)?;
        assert!(local.gate.is_closed(), "nothing is served from it meanwhile");
        let block = match cache.pop(class) {
            Some(block) => Ok(block),
            None if class >= SLAB_CLASSES => {
                inner.retry(&mut central, |central| central.take_one(&tools, class))
            }
            None => inner.retry(&mut central, |central| {
                let cache = central.cache(&tools.words, slot);
                central.refill(&tools, &cache, class)?;
                let none = || AllocError::Exhausted { len: granted(class), largest: 0 };
                cache.pop(class).ok_or_else(none)
            }),
        };
        local.gate.open(inner.key());
        block
    }

    #[cold]
    fn free_slowly(&self, offset: u64) -> Result<(), FreeError> {
        let inner = &*self.inner;
        let mut local = thread::known(inner.id);
        inner.heap.area().check_writer()?;
        let _storing = inner.heap.area().storing();
        if local.is_none() {
            // Without a cache the block goes straight back.
            local = self.attach().unwrap_or(None);
        }
        let central = inner.central.lock();
        let _changes = Changes::begin(&**inner.heap.area())?;
        let tools = inner.tools();
        let class = inner
            .learn(offset)
            .filter(|class| inner.is_in_use(&tools, &central, local.as_ref(), offset, *class))
            .ok_or(FreeError::NotAllocated { offset })?;
        let Some(local) = local else { return central.put_one(&tools, offset) };
        let cache = inner.closed_cache(&tools, &central, &local)?;
        let most = inner.keeps(offset, class);
        assert!(class < CLASSES && most <= cached(class));
        let freed = if most == 0 {
            central.put_one(&tools, offset)
        } else {
            let over = cache.held(class) + 1;
            let flushed = if over > most {
                central.flush(&tools, &cache, class, over - most.div_ceil(2))
            } else {
                Ok(())
            };
            flushed.map(|()| cache.push(class, offset))
        };
        local.gate.open(inner.key());
        freed
    }

    /// A cache for this thread, which has none; `None` when there are too many.
    fn attach(&self) -> Result<Option<Local>, AllocError> {
        let inner = &self.inner;
        let mut central = inner.central.lock();
        let changes = Changes::begin(&**inner.heap.area())?;
        let (slot, gate) = match central.attach(&inner.tools()) {
            Ok(Some(attached)) => attached,
            // A short area may have room for blocks and none for a cache.
            Ok(None) | Err(AllocError::Exhausted { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        drop(changes);
        drop(central);
        let owner: Arc<dyn Owner> = inner.clone();
        let local = Local { id: inner.id, slot, gate };
        Ok(thread::keep(local.clone(), Arc::downgrade(&owner)).then_some(local))
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
        // Before the lock: in a forked child its holder may not exist.
        self.inner.heap.area().check_writer()?;
        let central = self.inner.central.lock();
        let _changes = Changes::begin(&**self.inner.heap.area())?;
        Gate::close_all(central.gates.iter().flatten().map(|gate| &**gate));
        let tools = self.inner.tools();
        for slot in 0..central.gates.len() as u32 {
            central.check_cache(&tools, slot)?;
            central.drain(&tools, slot)?;
            let cache = central.cache(&tools.words, slot);
            assert!((0..CLASSES).all(|class| cache.held(class) == 0), "a drained cache is empty");
        }
        Ok(())
    }

    /// The heap below, whose own calls may be used beside this.
    pub fn heap(&self) -> &Heap<M> {
        &self.inner.heap
    }
}

#[inline(always)]
fn grant(class: usize, offset: u64) -> Grant {
    Grant { offset: AreaOffset(offset), len: ByteLen(granted(class)) }
}

impl<M: Memory + 'static> Inner<M> {
    fn tools(&self) -> Tools<'_, M> {
        Tools { heap: &self.heap, map: &self.map, words: Words::new(&**self.heap.area()) }
    }

    #[inline(always)]
    fn key(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// A thread's cache, writable, its gate closed: what the work on it asks the system for is not
    /// served from it meanwhile. Under the central lock; the caller opens the gate again.
    fn closed_cache<'a>(
        &self,
        tools: &'a Tools<'a, M>,
        central: &Central,
        local: &Local,
    ) -> Result<Cache<'a, M>, WriteError> {
        let cache = central.cache(&tools.words, local.slot);
        debug_assert!(central.gates[local.slot as usize].is_some(), "the slot is taken");
        if local.gate.is_closed() {
            cache.open()?;
        }
        local.gate.close();
        Ok(cache)
    }

    /// Whether a block of this class begins at `offset` and is in use, as far as its slab and the
    /// thread's own cache know.
    fn is_in_use(
        &self,
        tools: &Tools<'_, M>,
        central: &Central,
        local: Option<&Local>,
        offset: u64,
        class: usize,
    ) -> bool {
        let is_block = match class < SLAB_CLASSES {
            true => central.is_allocated(tools, offset),
            false => begins_large(offset),
        };
        let kept = |local: &Local| central.cache(&tools.words, local.slot).holds(class, offset);
        is_block && !local.is_some_and(kept)
    }

    /// How many blocks of this block's kind a thread keeps.
    fn keeps(&self, offset: u64, class: usize) -> usize {
        if class < SLAB_CLASSES {
            return cached(class);
        }
        if self.has_memory(offset, class) { self.warm[class].into() } else { cached(class) }
    }

    fn has_memory(&self, offset: u64, class: usize) -> bool {
        debug_assert!(class < CLASSES);
        self.heap.area().any_present(offset..offset + granted(class))
    }

    /// The class of the block at `offset`, also of one that an earlier process allocated.
    fn learn(&self, offset: u64) -> Option<usize> {
        if let Some(class) = self.map.class(offset) {
            return Some(class);
        }
        if !self.tools().is_place_of_large(offset) {
            return None;
        }
        let usable = self.heap.usable_size(AreaOffset(offset)).ok()??;
        // What is smaller belongs to somebody who uses the heap itself.
        let class = large_class(usable.0)?;
        self.map.add_block(offset, class);
        Some(class)
    }

    /// Tries, and tries again after emptying all caches, of other threads and of nobody.
    fn retry<R>(
        &self,
        central: &mut Central,
        mut work: impl FnMut(&mut Central) -> Result<R, AllocError>,
    ) -> Result<R, AllocError> {
        match work(central) {
            Err(AllocError::Exhausted { .. }) => {}
            other => return other,
        }
        let tools = self.tools();
        Gate::close_all(central.gates.iter().flatten().map(|gate| &**gate));
        for slot in 0..central.gates.len() as u32 {
            // One that is not sound, or cannot be given back, does not keep the others from it.
            if central.check_cache(&tools, slot).is_ok() {
                let _ = central.drain(&tools, slot);
            }
        }
        work(central)
    }
}

impl<M: Memory + 'static> Drop for Inner<M> {
    fn drop(&mut self) {
        // Threads may still have a gate of it at hand, and the next heap may get the same address.
        for gate in self.central.get_mut().gates.iter().flatten() {
            gate.close();
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
        // What is half changed is left as it is.
        let Ok(_changes) = Changes::begin(&**self.heap.area()) else { return };
        assert!(central.gates[slot as usize].is_some(), "a cache is left once");
        // What cannot be given back stays in the cache for the next thread.
        let _ = central.drain(&self.tools(), slot);
        central.gates[slot as usize] = None;
    }
}
