//! The word that says what may be done with an extent.
//!
//! One 32-bit number an extent: its state in the low bits, flags above them, and in a tracked area
//! the plane of the extent's next version. A zeroed word means: absent, first version goes to plane
//! 0. Where the words lie, and how threads change them, is in [`crate::memory::extent_words`].

use std::collections::HashSet;
use std::ops::Range;

use crate::model::geometry::MAX_PLANES;
use crate::model::units::ExtentId;

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

/// What the low bits of an extent's word say. `BUSY`: one thread works on it outside the lock;
/// `FAULTING`: the fault handler copies it.
pub(crate) const ABSENT: u32 = 0;
pub(crate) const FROZEN: u32 = 1;
pub(crate) const PRIVATE: u32 = 2;
pub(crate) const BUSY: u32 = 3;
pub(crate) const FAULTING: u32 = 4;
const STATE: u32 = 7;

/// Somebody sleeps until the word changes.
pub(crate) const WAITERS: u32 = 8;
/// The next version's plane has memory with old bytes in it.
pub(crate) const SPARE: u32 = 16;
/// No live manifest shows the present version: it may be written in place.
pub(crate) const IN_PLACE: u32 = 32;
/// It is not decided yet where the next version goes: wait.
pub(crate) const UNARMED: u32 = 64;
/// All planes are in use.
pub(crate) const NO_PLANE: u32 = 128;
/// Made private by the fault handler, and not yet written down in the tables.
pub(crate) const LOGGED: u32 = 256;
/// A private extent whose word says already where the version after the next publish goes.
pub(crate) const PLANNED: u32 = 512;
/// A private extent that stays so until the next publish, because somebody has asked for it.
pub(crate) const HOT: u32 = 1024;
/// A private extent that was stored to again after it had been protected early.
pub(crate) const AGAIN: u32 = 2048;
const PLANE_SHIFT: u32 = 12;
const _: () = assert!(MAX_PLANES - 1 <= u32::MAX >> PLANE_SHIFT);

/// A list up to this length is not looked through for repetitions.
const SHORT_LIST: usize = 1 << 12;

/// Adds to a list of extents to look at later, in which one may come again and again. When the list
/// would have to grow, all but the first of each are dropped: it has room for a few times as many
/// as there are different ones, however long nobody looks.
pub(crate) fn note(list: &mut Vec<ExtentId>, extent: ExtentId) {
    if list.len() == list.capacity() && list.len() >= SHORT_LIST {
        let mut seen = HashSet::with_capacity(list.len());
        list.retain(|e| seen.insert(*e));
        // As many more before the next time.
        list.reserve(list.len().max(SHORT_LIST));
    }
    list.push(extent);
}

/// The state in a word.
#[inline]
pub(crate) fn state_of(word: u32) -> u32 {
    word & STATE
}

/// The plane in a word: where the next version goes, or (`LOGGED`) where the handler has put it.
#[inline]
pub(crate) fn plane_of(word: u32) -> u32 {
    word >> PLANE_SHIFT
}

/// What a word says of the next version: its plane, and what is known of that.
#[inline]
pub(crate) fn plan_of(word: u32) -> u32 {
    word & (!0 << PLANE_SHIFT | SPARE | NO_PLANE)
}

/// The bits of a word that name a plane.
#[inline]
pub(crate) fn plane_bits(plane: u32) -> u32 {
    debug_assert!(plane < MAX_PLANES);
    plane << PLANE_SHIFT
}

/// The extents of some stretches.
pub(crate) fn each(stretches: &[Range<u32>]) -> impl Iterator<Item = ExtentId> {
    stretches.iter().flat_map(|stretch| stretch.clone().map(ExtentId))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "millions of steps")]
    fn lists_do_not_grow_with_repetitions() {
        let mut few = Vec::new();
        (0..1_000_000).for_each(|i| note(&mut few, ExtentId(i % 5)));
        assert!(few.capacity() <= 4 * SHORT_LIST, "{}", few.capacity());
        assert!(few.iter().copied().take(5).eq((0..5).map(ExtentId)));
        let mut many = Vec::new();
        for round in 0..20 {
            (0..50_000).for_each(|i| note(&mut many, ExtentId(i * (1 + round % 2))));
        }
        assert!(many.capacity() <= 4 * 75_000, "{}", many.capacity());
        let all: HashSet<_> = many.iter().copied().collect();
        assert!(all.len() == 75_000 && many.starts_with(&[ExtentId(0), ExtentId(1)]));
    }
}
