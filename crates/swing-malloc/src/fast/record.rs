//! The metadata of the fast part, all of it in the small zone of the area.
//!
//! ```text
//! header of the heap, offset 544: offset of the directory, 0 when there is none
//! directory (8 KiB)   magic 8 | records 4 | chunks 4 | free record 4 | caches 4 | first chunk 8 |
//!                     last chunk 8 | at 64: for each class the head of its list
//!                     of slabs with room, 4 | at 512: offsets of the caches, 8 each
//! chunk (32 KiB)      next chunk 8 | reserved 8 | 170 records of 192 B from 64 on
//! record of a slab    offset 8 (0: unused) | class 4 | free blocks 4 | next 4 | previous 4 |
//!                     at 64: 1024 bits, 1 = free
//! cache (64 KiB)      see [`super::cache`]
//! ```
//!
//! Record numbers are stored plus one, zero is none. All numbers are little-endian.
//!
//! The bits lie away from the blocks on purpose. A list through the free blocks would store into an
//! extent of 2 MiB for each block that is freed, and the first frees after a publish would copy
//! them all; one chunk of records serves 10 MiB of blocks.

use super::class::SLAB_CLASSES;
use crate::memory::{Memory, barrier};
use std::ops::Range;
use std::ptr::NonNull;
use swing::{ExtentState, WriteError};

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"SWNGFAS3");
pub(crate) const DIRECTORY_BYTES: u64 = 8 << 10;
pub(crate) const CHUNK_BYTES: u64 = 32 << 10;
pub(crate) const RECORD_BYTES: u64 = 192;
const RECORDS_AT: u64 = 64;
pub(crate) const RECORDS: u32 = ((CHUNK_BYTES - RECORDS_AT) / RECORD_BYTES) as u32;
const HEADS_AT: u64 = 64;
const CACHES_AT: u64 = 512;
/// Most threads that have a cache at the same time; further ones share the central part.
pub(crate) const MAX_CACHES: u32 = ((DIRECTORY_BYTES - CACHES_AT) / 8) as u32;
pub(crate) const WORDS: u64 = 16;

const _: () = assert!(HEADS_AT + 4 * SLAB_CLASSES as u64 <= CACHES_AT);

/// Fields of the directory.
pub(crate) const DIR_RECORDS: u64 = 8;
pub(crate) const DIR_CHUNKS: u64 = 12;
pub(crate) const DIR_FREE_RECORD: u64 = 16;
pub(crate) const DIR_CACHES: u64 = 20;
pub(crate) const DIR_FIRST_CHUNK: u64 = 24;
pub(crate) const DIR_LAST_CHUNK: u64 = 32;

pub(crate) const fn dir_head(class: usize) -> u64 {
    assert!(class < SLAB_CLASSES);
    HEADS_AT + 4 * class as u64
}

pub(crate) const fn dir_cache(slot: u32) -> u64 {
    assert!(slot < MAX_CACHES);
    CACHES_AT + 8 * slot as u64
}

/// Fields of a record.
pub(crate) const REC_CLASS: u64 = 8;
pub(crate) const REC_FREE: u64 = 12;
pub(crate) const REC_NEXT: u64 = 16;
pub(crate) const REC_PREVIOUS: u64 = 20;
pub(crate) const REC_BITS: u64 = 64;

pub(crate) const fn record_in_chunk(index: u32) -> u64 {
    RECORDS_AT + (index % RECORDS) as u64 * RECORD_BYTES
}

/// Metadata of the fast part: numbers at offsets of the area.
pub(crate) struct Words<'a, M> {
    mem: &'a M,
    end: u64,
    extent: u64,
}

impl<'a, M: Memory> Words<'a, M> {
    pub(crate) fn new(mem: &'a M) -> Self {
        let space = mem.space();
        Words { mem, end: space.small_zone, extent: space.small_extent }
    }

    fn at(&self, offset: u64, len: u64) -> *mut u8 {
        assert!(offset + len <= self.end, "INV-HEAP-1: metadata lies in the small zone");
        // SAFETY: inside the reserved range.
        unsafe { self.mem.base().as_ptr().add(offset as usize) }
    }

    /// Where an offset is mapped.
    pub(crate) fn address(&self, offset: u64, len: u64) -> NonNull<u8> {
        // SAFETY: inside the reserved range, which is not at the null address.
        unsafe { NonNull::new_unchecked(self.at(offset, len)) }
    }

    pub(crate) fn get64(&self, offset: u64) -> u64 {
        debug_assert!(offset.is_multiple_of(8));
        // SAFETY: the caller looked that the extent has memory (`present`, or it was written in
        // this process); the central lock or the thread's gate makes this the only access.
        unsafe { self.at(offset, 8).cast::<u64>().read() }
    }

    pub(crate) fn get32(&self, offset: u64) -> u32 {
        debug_assert!(offset.is_multiple_of(4));
        // SAFETY: as in `get64`.
        unsafe { self.at(offset, 4).cast::<u32>().read() }
    }

    pub(crate) fn get16(&self, offset: u64) -> u16 {
        debug_assert!(offset.is_multiple_of(2));
        // SAFETY: as in `get64`.
        unsafe { self.at(offset, 2).cast::<u16>().read() }
    }

    pub(crate) fn set64(&self, offset: u64, value: u64) {
        debug_assert_eq!(self.mem.state(offset), ExtentState::Private, "INV-HEAP-2");
        // SAFETY: as in `get64`, and the write barrier was passed (INV-HEAP-2).
        unsafe { self.at(offset, 8).cast::<u64>().write(value) }
    }

    pub(crate) fn set32(&self, offset: u64, value: u32) {
        debug_assert_eq!(self.mem.state(offset), ExtentState::Private, "INV-HEAP-2");
        // SAFETY: as in `set64`.
        unsafe { self.at(offset, 4).cast::<u32>().write(value) }
    }

    pub(crate) fn set16(&self, offset: u64, value: u16) {
        debug_assert_eq!(self.mem.state(offset), ExtentState::Private, "INV-HEAP-2");
        // SAFETY: as in `set64`.
        unsafe { self.at(offset, 2).cast::<u16>().write(value) }
    }

    /// The write barrier, skipped when nothing is to be done.
    pub(crate) fn open(&self, range: Range<u64>) -> Result<(), WriteError> {
        assert!(range.start < range.end && range.end <= self.end, "INV-HEAP-1: metadata only");
        barrier(self.mem, self.extent, range)
    }

    pub(crate) fn zero(&self, offset: u64, len: u64) {
        // SAFETY: as in `set64`.
        unsafe { self.at(offset, len).write_bytes(0, len as usize) }
    }

    /// True if a stored place may be believed: aligned, in the small zone, with memory.
    pub(crate) fn sound(&self, offset: u64, len: u64) -> bool {
        let inside = offset.is_multiple_of(128)
            && offset >= crate::layout::HEADER_BYTES
            && offset.checked_add(len).is_some_and(|end| end <= self.end);
        let mut at = offset;
        while inside && at < offset + len {
            if self.mem.state(at) == ExtentState::Absent {
                return false;
            }
            at = (at / self.extent + 1) * self.extent;
        }
        inside
    }
}
