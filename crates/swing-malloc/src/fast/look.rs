//! A look at an address before something is done with the block there, for callers who would rather
//! hear of a mistake than be fast: the C interface, checkers.

use super::Malloc;
use super::cache::find;
use super::class::{SLAB_CLASSES, granted, size_of, slab_blocks, slab_bytes};
use super::thread;
use crate::error::FreeError;
use crate::memory::Memory;
use swing::{AreaOffset, ByteLen};

impl<M: Memory + 'static> Malloc<M> {
    /// The length of the block that begins exactly at `offset`: what [`Malloc::free`] takes. Found
    /// out are addresses inside blocks and outside of slabs, and blocks that this thread has freed
    /// and still keeps; not those that another thread has freed. Takes some ten nanoseconds.
    ///
    /// # Errors
    /// [`FreeError::NotAllocated`].
    pub fn block_at(&self, offset: AreaOffset) -> Result<ByteLen, FreeError> {
        let missing = FreeError::NotAllocated { offset: offset.0 };
        let class = match self.inner.map.class(offset.0) {
            Some(class) => class,
            None => {
                let _central = self.inner.central.lock();
                self.inner.learn(offset.0).ok_or(missing)?
            }
        };
        let size = size_of(class);
        let missing = FreeError::NotAllocated { offset: offset.0 };
        let begins = if class < SLAB_CLASSES {
            // Slabs lie at multiples of their length.
            let inside = offset.0 % slab_bytes(class);
            inside.is_multiple_of(size) && inside / size < slab_blocks(class)
        } else {
            self.inner.heap.usable_size(offset)?.is_some()
        };
        debug_assert!(size.is_multiple_of(16), "blocks are as long as their class says");
        if !begins || self.keeps_here(class, offset.0) {
            return Err(missing);
        }
        Ok(ByteLen(granted(class)))
    }

    /// Whether this thread's cache holds the block.
    fn keeps_here(&self, class: usize, offset: u64) -> bool {
        let (gate, key) = (thread::gate(), self.key());
        let Some(cache) = gate.enter(key).or_else(|| gate.enter_heavily(key)) else {
            return false;
        };
        // SAFETY: the gate is open to this heap, so the cache is of sound shape and this thread's
        // until `leave` (INV-MALLOC-5); a class is below `CLASSES`.
        let found = unsafe { find(cache, class, offset) };
        gate.leave();
        found
    }
}
