//! What the owner knows about each extent of its area.
//!
//! One atomic byte an extent says whether it may be written; it is read without a lock, because
//! every write asks. Where the area's own versions lie and since when is kept in a sparse table
//! behind the area's lock.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::units::{Epoch, ExtentId};

/// The state of an extent as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// No memory: reading or writing it faults.
    Absent,
    /// Writable now.
    Private,
    /// Readable; a write needs `make_writable`, which may copy.
    Frozen,
}

/// The byte of an extent; `BUSY` while one thread works on it outside the lock.
pub(crate) const ABSENT: u8 = 0;
pub(crate) const FROZEN: u8 = 1;
pub(crate) const PRIVATE: u8 = 2;
pub(crate) const BUSY: u8 = 3;

/// One byte an extent.
#[derive(Debug)]
pub(crate) struct States(Box<[AtomicU8]>);

impl States {
    pub(crate) fn new(extents: u32) -> Self {
        let zeros = vec![ABSENT; extents as usize].into_boxed_slice();
        // SAFETY: `AtomicU8` has the size, alignment and validity of `u8`; zeroed pages stay
        // untouched this way, which matters for areas that reserve hundreds of gigabytes.
        Self(unsafe { Box::from_raw(Box::into_raw(zeros) as *mut [AtomicU8]) })
    }

    #[inline]
    pub(crate) fn get(&self, extent: ExtentId) -> u8 {
        self.0[extent.0 as usize].load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn set(&self, extent: ExtentId, state: u8) {
        debug_assert!(state <= BUSY);
        self.0[extent.0 as usize].store(state, Ordering::Release);
    }

    /// Whether all of a range of extents may be written; the write barrier's fast path.
    #[inline]
    pub(crate) fn all_private(&self, extents: std::ops::Range<u32>) -> bool {
        debug_assert!(extents.start <= extents.end && extents.end <= self.len());
        self.0[extents.start as usize..extents.end as usize]
            .iter()
            .all(|s| s.load(Ordering::Acquire) == PRIVATE)
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.len() as u32
    }
}

/// The current version of an extent that lies in the area's own memory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub plane: u32,
    /// The first epoch whose manifest shows it.
    pub born: Epoch,
}

/// Entries of one chunk.
const CHUNK: usize = 512;
type Chunk = Box<[Option<Own>; CHUNK]>;

/// A sparse table of the extents that have a version of their own.
#[derive(Debug, Default)]
pub(crate) struct OwnTable(Vec<Option<Chunk>>);

impl OwnTable {
    pub(crate) fn get(&self, extent: ExtentId) -> Option<Own> {
        let i = extent.0 as usize;
        self.0.get(i / CHUNK)?.as_ref()?[i % CHUNK]
    }

    /// Sets or forgets an entry; returns the one before.
    pub(crate) fn set(&mut self, extent: ExtentId, own: Option<Own>) -> Option<Own> {
        let i = extent.0 as usize;
        if self.0.len() <= i / CHUNK {
            own?;
            self.0.resize_with(i / CHUNK + 1, || None);
        }
        let chunk = self.0[i / CHUNK].get_or_insert_with(|| Box::new([None; CHUNK]));
        std::mem::replace(&mut chunk[i % CHUNK], own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_start_absent() {
        let s = States::new(10);
        assert_eq!(s.len(), 10);
        assert!((0..10).all(|i| s.get(ExtentId(i)) == ABSENT));
        s.set(ExtentId(3), PRIVATE);
        s.set(ExtentId(4), PRIVATE);
        assert!(s.all_private(3..5) && !s.all_private(3..6) && s.all_private(7..7));
        s.set(ExtentId(4), FROZEN);
        assert!(!s.all_private(3..5));
    }

    #[test]
    fn table_is_sparse() {
        let mut t = OwnTable::default();
        assert_eq!(t.set(ExtentId(1 << 20), None), None);
        assert!(t.0.is_empty());
        let own = Own { plane: 2, born: Epoch(3) };
        assert_eq!(t.set(ExtentId(5000), Some(own)), None);
        assert_eq!(t.get(ExtentId(5000)), Some(own));
        assert_eq!(t.get(ExtentId(5001)), None);
        assert_eq!(t.set(ExtentId(5000), None), Some(own));
        assert_eq!(t.get(ExtentId(5000)), None);
    }
}
