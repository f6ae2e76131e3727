//! Containers whose memory lies in an area: the trait of the standard library's allocators, by way
//! of `allocator-api2`, which has it on the stable compiler. `Vec` and `Box` of that crate, and
//! maps of `hashbrown`, take a [`Malloc`] or a reference to one.
//!
//! What a container holds are addresses: in another process they are valid where the area is mapped
//! at its origin's address. A container's own few words lie where the program has them; leave them
//! in the area's reserved part for whoever hooks it.
//!
//! Stores of a container are plain stores, so after a publish the area must be one whose stores are
//! tracked (`Area::track`).

use super::{AreaAlloc, Malloc};
use crate::memory::Memory;
use allocator_api2::alloc::{AllocError, Allocator};
use std::alloc::Layout;
use std::num::NonZero;
use std::ptr::NonNull;

/// No bytes: containers do not give back what they have of a layout without size.
fn nothing(layout: Layout) -> NonNull<[u8]> {
    debug_assert_eq!(layout.size(), 0);
    let address = NonZero::new(layout.align()).unwrap_or(NonZero::<usize>::MIN);
    NonNull::slice_from_raw_parts(NonNull::without_provenance(address), 0)
}

// SAFETY: blocks stay where they are until they are freed, as long as any clone lives: each holds
// the heap, the heap its area. Clones share one heap, so each frees what another gave (INV-HEAP-9).
unsafe impl<M: Memory + 'static> Allocator for Malloc<M> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(nothing(layout));
        }
        let block = self.alloc(layout).map_err(|_| AllocError)?;
        debug_assert!(block.len() >= layout.size(), "as long as was asked for");
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.dealloc(block, layout) }
        }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        debug_assert!(new.size() >= old.size(), "the caller's promise");
        // SAFETY: the caller's promise.
        unsafe { self.moved(block, old, new) }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        debug_assert!(new.size() <= old.size(), "the caller's promise");
        // SAFETY: the caller's promise.
        unsafe { self.moved(block, old, new) }
    }
}

impl<M: Memory + 'static> Malloc<M> {
    /// The block with another layout: where it is, if that can be.
    ///
    /// # Safety
    /// As [`AreaAlloc::realloc`].
    unsafe fn moved(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() == 0 || new.size() == 0 {
            let other = Allocator::allocate(self, new)?;
            // SAFETY: the caller's promise; one of the two has no bytes to keep.
            unsafe { self.deallocate(block, old) };
            return Ok(other);
        }
        if block.addr().get().is_multiple_of(new.align()) && new.align() <= old.align() {
            // SAFETY: the caller's promise.
            return unsafe { self.realloc(block, old, new.size()) }.map_err(|_| AllocError);
        }
        let other = self.alloc(new).map_err(|_| AllocError)?;
        assert!(other.cast() != block, "the old block is still allocated");
        let kept = old.size().min(new.size());
        // SAFETY: both blocks have `kept` bytes and are different; the old one is the caller's to
        // give up.
        unsafe {
            other.cast::<u8>().copy_from_nonoverlapping(block, kept);
            self.dealloc(block, old);
        }
        Ok(other)
    }
}
