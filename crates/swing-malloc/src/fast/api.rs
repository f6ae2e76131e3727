//! The interface of Rust's allocators, on the stable compiler, and blocks that grow.

use super::Malloc;
use super::class::{SLAB_LIMIT, class_of, large_class, size_of};
use crate::error::AllocError;
use crate::heap::Grant;
use crate::memory::{Changes, Memory};
use std::alloc::Layout;
use std::ptr::NonNull;
use swing::{AreaOffset, ByteLen};

/// Memory by layout, as `std::alloc::Allocator` has it: addresses in, addresses and granted sizes
/// out. Blocks are writable when they are handed out; after a publish stores need the area's write
/// barrier again, unless the area is tracked.
///
/// # Safety
/// A block stays valid and its own until it is freed or moved, and implementors hand out no block
/// twice.
pub unsafe trait AreaAlloc {
    /// A block for `layout`, at least as long as asked.
    ///
    /// # Errors
    /// See [`AllocError`].
    fn alloc(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError>;

    /// Frees a block.
    ///
    /// # Safety
    /// `block` came from this allocator with a layout that fits, and is not used afterwards.
    unsafe fn dealloc(&self, block: NonNull<u8>, layout: Layout);

    /// Makes a block longer or shorter, where it is if that can be, and keeps the bytes of the
    /// shorter length.
    ///
    /// # Safety
    /// As [`AreaAlloc::dealloc`], when it succeeds; on an error the block is what it was.
    unsafe fn realloc(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new_len: usize,
    ) -> Result<NonNull<[u8]>, AllocError>;
}

impl<M: Memory + 'static> Malloc<M> {
    /// A block of at least `len` bytes at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// [`AllocError::Alignment`] for an alignment above the data extent that the area's address
    /// does not have, else as [`Malloc::allocate`].
    pub fn allocate_aligned(&self, len: ByteLen, align: ByteLen) -> Result<Grant, AllocError> {
        let (len, align) = (len.0.max(1), align.0);
        let base = self.heap().area().base().as_ptr() as u64;
        if !align.is_power_of_two() || !base.is_multiple_of(align) {
            return Err(AllocError::Alignment { align });
        }
        if align <= 16 {
            return self.allocate(ByteLen(len));
        }
        let too_long = AllocError::Length { len };
        if len.max(align) > SLAB_LIMIT {
            let size = len.max(align).checked_next_power_of_two().ok_or(too_long)?;
            if align <= self.heap().area().space().data_extent.min(size) {
                // Buddy blocks lie at multiples of their size, large blocks at those of extents.
                return self.allocate(ByteLen(size));
            }
            return self.allocate_placed(size, align);
        }
        // Slabs lie at multiples of their size, so a block does of each power of two in its own.
        let mut class = class_of(len).ok_or(too_long)?;
        while !size_of(class).is_multiple_of(align) {
            class += 1;
        }
        assert!(size_of(class) <= SLAB_LIMIT, "the largest is a multiple of each alignment");
        self.allocate(ByteLen(size_of(class)))
    }

    /// A block of a power of two at an alignment that caches do not promise.
    fn allocate_placed(&self, size: u64, align: u64) -> Result<Grant, AllocError> {
        let class = class_of(size).ok_or(AllocError::Length { len: size })?;
        debug_assert!(size.is_power_of_two() && align.is_power_of_two());
        // Before the lock: in a forked child its holder may not exist.
        self.heap().area().check_writer()?;
        let _storing = self.heap().area().storing();
        let mut central = self.inner.central.lock();
        let _changes = Changes::begin(&**self.heap().area())?;
        let offset = self.inner.retry(&mut central, |_| {
            self.heap().allocate_exact(ByteLen(size_of(class)), ByteLen(align))
        })?;
        self.inner.map.add_block(offset.0, class);
        Ok(Grant { offset, len: ByteLen(size_of(class)) })
    }

    /// Makes a block at least `len` bytes long where it is; `None` if that cannot be. Free.
    pub fn grow(&self, offset: AreaOffset, len: ByteLen) -> Option<ByteLen> {
        let usable = self.usable_size(offset)?;
        if len <= usable {
            return Some(usable);
        }
        if usable.0 <= SLAB_LIMIT {
            return None;
        }
        // Before the lock: in a forked child its holder may not exist.
        self.heap().area().check_writer().ok()?;
        let _central = self.inner.central.lock();
        let _changes = Changes::begin(&**self.heap().area()).ok()?;
        let grown = self.heap().grow(offset, len).ok()??;
        assert!(grown >= len && grown >= usable, "it grows");
        // Of a table's block of another length the class below counts, which may be too short.
        let class = large_class(grown.0).filter(|class| size_of(*class) >= len.0)?;
        self.inner.map.add_block(offset.0, class);
        Some(ByteLen(size_of(class)))
    }

    /// A block of at least `len` bytes with the bytes of the block at `offset`: the same block when
    /// it is large enough and not twice too large, or can grow where it is; else a new one, and
    /// the old one is freed. The bytes must be readable; the first `len` bytes of a new block are
    /// writable.
    ///
    /// # Errors
    /// See [`AllocError`]; the block is what it was then.
    pub fn reallocate(&self, offset: AreaOffset, len: ByteLen) -> Result<Grant, AllocError> {
        let Some(usable) = self.usable_size(offset) else {
            return Err(AllocError::Length { len: len.0 });
        };
        if len.0 <= usable.0 && len.0 >= usable.0 / 2 {
            return Ok(Grant { offset, len: usable });
        }
        if len > usable
            && let Some(grown) = self.grow(offset, len)
        {
            return Ok(Grant { offset, len: grown });
        }
        let grant = self.allocate(len)?;
        assert_ne!(grant.offset, offset, "the old block is still allocated");
        let kept = len.0.min(usable.0);
        if let Err(error) = self.copy(offset.0, grant.offset.0, kept) {
            let _ = self.free(grant.offset);
            return Err(error);
        }
        let _ = self.free(offset);
        Ok(grant)
    }

    /// Copies the parts of a block that have memory; the others are zeros that nobody stored.
    fn copy(&self, from: u64, to: u64, len: u64) -> Result<(), AllocError> {
        let mem = &**self.heap().area();
        let space = mem.space();
        let mut done = 0;
        while done < len {
            let at = from + done;
            let extent = if at < space.small_zone { space.small_extent } else { space.data_extent };
            let piece = (len - done).min((at / extent + 1) * extent - at);
            debug_assert!(piece > 0 && piece <= extent);
            if mem.any_present(at..at + 1) {
                mem.make_writable(to + done..to + done + piece)?;
                // SAFETY: both ranges lie in blocks of this area that the caller owns; the source
                // has memory, the target was just made writable, and blocks do not overlap.
                unsafe {
                    let base = mem.base().as_ptr();
                    let (from, to) = (base.add(at as usize), base.add((to + done) as usize));
                    std::ptr::copy_nonoverlapping(from, to, piece as usize);
                }
            }
            done += piece;
        }
        Ok(())
    }

    /// Makes a block writable; where stores are trapped, memory comes with them.
    fn opened(&self, grant: Grant) -> Result<(), AllocError> {
        let area = self.heap().area();
        debug_assert!(grant.offset.0 + grant.len.0 <= area.space().reserve);
        if area.is_tracked() {
            return Ok(());
        }
        Ok(area.make_writable(grant.offset.0..grant.offset.0 + grant.len.0)?)
    }

    fn slice(&self, grant: Grant) -> NonNull<[u8]> {
        // SAFETY: the block lies in the area's reserved range.
        let at = unsafe { self.heap().area().base().add(grant.offset.0 as usize) };
        NonNull::slice_from_raw_parts(at, grant.len.0 as usize)
    }

    fn offset(&self, block: NonNull<u8>) -> AreaOffset {
        let base = self.heap().area().base().as_ptr() as usize;
        AreaOffset((block.as_ptr() as usize).wrapping_sub(base) as u64)
    }
}

// SAFETY: blocks come from `allocate_aligned`, which gives none twice (INV-HEAP-9), and stay until
// they are freed.
unsafe impl<M: Memory + 'static> AreaAlloc for Malloc<M> {
    fn alloc(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let (len, align) = (ByteLen(layout.size() as u64), ByteLen(layout.align() as u64));
        let grant = self.allocate_aligned(len, align)?;
        if let Err(error) = self.opened(grant) {
            let _ = self.free(grant.offset);
            return Err(error);
        }
        Ok(self.slice(grant))
    }

    unsafe fn dealloc(&self, block: NonNull<u8>, layout: Layout) {
        let offset = self.offset(block);
        debug_assert!(self.usable_size(offset).is_some_and(|len| len.0 >= layout.size() as u64));
        // A block that cannot be freed for lack of memory for metadata stays allocated.
        let _ = self.free(offset);
    }

    unsafe fn realloc(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new_len: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let wrong = AllocError::Length { len: new_len as u64 };
        let new = Layout::from_size_align(new_len, old.align()).map_err(|_| wrong)?;
        let offset = self.offset(block);
        let usable = self.usable_size(offset).map_or(0, |len| len.0);
        let stays = new_len as u64 <= usable && new_len as u64 >= usable / 2;
        if stays
            || (new_len as u64 > usable && self.grow(offset, ByteLen(new_len as u64)).is_some())
        {
            let len = self.usable_size(offset).unwrap_or(ByteLen(usable));
            self.opened(Grant { offset, len })?;
            return Ok(self.slice(Grant { offset, len }));
        }
        let moved = self.alloc(new)?;
        let to = self.offset(moved.cast());
        let kept = old.size().min(new_len) as u64;
        if let Err(error) = self.copy(offset.0, to.0, kept) {
            let _ = self.free(to);
            return Err(error);
        }
        let _ = self.free(offset);
        Ok(moved)
    }
}
