//! From an address to its block's class and slab, without a look at the area: two tables of this
//! process with one entry for 16 KiB, built from the records when a heap is opened.

use super::class::SLAB_CLASSES;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

const GRANULE_SHIFT: u32 = 14;

/// Whether a block without a slab can begin there: of each such block only the first entry is set.
#[inline(always)]
pub(crate) fn begins_large(offset: u64) -> bool {
    offset.is_multiple_of(1 << GRANULE_SHIFT)
}

#[derive(Debug)]
pub(crate) struct Map {
    /// Class plus one; zero: nothing known. Of a block of a class without slabs only the first
    /// entry is set.
    classes: Box<[AtomicU8]>,
    records: Box<[AtomicU32]>,
}

impl Map {
    pub(crate) fn new(reserve: u64) -> Self {
        assert!(reserve > 0 && reserve.is_multiple_of(1 << GRANULE_SHIFT));
        let len = (reserve >> GRANULE_SHIFT) as usize;
        let (bytes, numbers) = (vec![0_u8; len].into_boxed_slice(), vec![0_u32; len]);
        // SAFETY: the atomics have size, alignment and validity of the plain numbers; zeroed
        // pages stay untouched this way.
        unsafe {
            Map {
                classes: Box::from_raw(Box::into_raw(bytes) as *mut [AtomicU8]),
                records: Box::from_raw(
                    Box::into_raw(numbers.into_boxed_slice()) as *mut [AtomicU32]
                ),
            }
        }
    }

    /// The class of the block at `offset`.
    #[inline(always)]
    pub(crate) fn class(&self, offset: u64) -> Option<usize> {
        let entry = self.classes.get((offset >> GRANULE_SHIFT) as usize)?;
        (entry.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// The class of the block at `offset`, if it is one with slabs.
    #[inline(always)]
    pub(crate) fn small_class(&self, offset: u64) -> Option<usize> {
        let entry = self.classes.get((offset >> GRANULE_SHIFT) as usize)?;
        // One comparison: nothing known becomes the largest number.
        let class = entry.load(Ordering::Relaxed).wrapping_sub(1) as usize;
        (class < SLAB_CLASSES).then_some(class)
    }

    /// The record of the slab that contains `offset`.
    pub(crate) fn record(&self, offset: u64) -> Option<u32> {
        let class = self.class(offset)?;
        let entry = self.records.get((offset >> GRANULE_SHIFT) as usize)?;
        (class < SLAB_CLASSES).then(|| entry.load(Ordering::Relaxed))
    }

    pub(crate) fn add_slab(&self, offset: u64, len: u64, class: usize, record: u32) {
        assert!(class < SLAB_CLASSES && len >= 1 << GRANULE_SHIFT);
        for i in offset >> GRANULE_SHIFT..(offset + len) >> GRANULE_SHIFT {
            self.records[i as usize].store(record, Ordering::Relaxed);
            self.classes[i as usize].store(class as u8 + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_block(&self, offset: u64, class: usize) {
        debug_assert!(class >= SLAB_CLASSES);
        self.classes[(offset >> GRANULE_SHIFT) as usize].store(class as u8 + 1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, offset: u64, len: u64) {
        debug_assert!(len > 0);
        let end = ((offset + len - 1) >> GRANULE_SHIFT) + 1;
        for i in offset >> GRANULE_SHIFT..end {
            self.classes[i as usize].store(0, Ordering::Relaxed);
        }
    }
}
