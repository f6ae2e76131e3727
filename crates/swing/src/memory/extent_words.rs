//! The words of all extents of an area, as its threads compete for them.
//!
//! One atomic word an extent ([`crate::model::extent_word`]) says whether it may be written; it is
//! read without a lock, because every write asks. In a tracked area it also says where the extent's
//! next version goes, and threads that fault on the same extent compete and wait for it
//! ([`crate::tracked`]).

use std::ops::Range;

use crate::model::extent_word::{ABSENT, FAULTING, FROZEN, HOT, PRIVATE, WAITERS, state_of};
use crate::model::units::ExtentId;
use crate::sys::atomics::{AtomicU32, Ordering, fence, zeros};
use crate::sys::futex;
use crate::sys::strict::{fail, strict_assert};

/// One word an extent: its state, and in a tracked area what the fault handler must know to make a
/// new version without any lock. A zeroed
/// word means: absent, first version goes to plane 0.
///
/// How many extents of each group have memory is counted, so that looking at an unused range of
/// many gigabytes reads some words.
#[derive(Debug)]
pub(crate) struct ExtentWords {
    words: Box<[AtomicU32]>,
    /// A count a group of [`GROUP`] extents. It follows the words; between the two a thread that
    /// races may read one too few or, for a moment, wrapped below zero.
    present: Box<[AtomicU32]>,
}

/// Extents that are counted together.
const GROUP: u32 = 1024;
/// Extents that are looked at together.
const PIECE: usize = 16;

fn is_private(word: &AtomicU32) -> bool {
    state_of(word.load(Ordering::Relaxed)) == PRIVATE
}

/// How many of some words are private: without a branch, so that their loads overlap.
fn private_among(words: &[AtomicU32]) -> usize {
    words.iter().map(|word| usize::from(is_private(word))).sum()
}

impl ExtentWords {
    pub(crate) fn new(extents: u32) -> Self {
        assert!(extents > 0, "an area has at least one extent");
        ExtentWords { words: zeros(extents), present: zeros(extents.div_ceil(GROUP)) }
    }

    /// Freezes a range of absent extents, before anybody else can see them.
    pub(crate) fn freeze_first(&mut self, extents: Range<u32>) {
        for e in extents {
            let word = &self.words[e as usize];
            assert_eq!(word.load(Ordering::Relaxed), ABSENT, "each extent is shown once");
            word.store(FROZEN, Ordering::Relaxed);
            self.count(ExtentId(e), ABSENT, FROZEN);
        }
    }

    /// The word of an extent. The handler of faults asks for it: so nothing unwinds where there is
    /// none.
    #[inline]
    fn cell(&self, extent: ExtentId) -> &AtomicU32 {
        match self.words.get(extent.0 as usize) {
            Some(cell) => cell,
            None => fail("swing: not so: an extent lies in its area\n"),
        }
    }

    /// The count of a group of extents; as [`ExtentWords::cell`].
    #[inline]
    fn group(&self, group: u32) -> &AtomicU32 {
        match self.present.get(group as usize) {
            Some(count) => count,
            None => fail("swing: not so: a group of extents lies in its area\n"),
        }
    }

    /// Counts a change of an extent's word.
    #[inline]
    fn count(&self, extent: ExtentId, old: u32, new: u32) {
        let group = self.group(extent.0 / GROUP);
        match (state_of(old) == ABSENT, state_of(new) == ABSENT) {
            (true, false) => drop(group.fetch_add(1, Ordering::Relaxed)),
            (false, true) => drop(group.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn get(&self, extent: ExtentId) -> u32 {
        state_of(self.cell(extent).load(Ordering::Acquire))
    }

    /// Stretches of neighbours that are private, in order.
    pub(crate) fn private_stretches(&self) -> Vec<Range<u32>> {
        const { assert!((GROUP as usize).is_multiple_of(PIECE)) };
        let mut stretches: Vec<Range<u32>> = Vec::new();
        let mut add = |from: u32, to: u32| match stretches.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => stretches.push(from..to),
        };
        let groups = self.words.chunks(GROUP as usize).zip(&self.present);
        for (group, (words, present)) in (0..).zip(groups) {
            if present.load(Ordering::Relaxed) == 0 {
                continue;
            }
            for (piece, words) in (0..).zip(words.chunks(PIECE)) {
                let first = group * GROUP + piece * PIECE as u32;
                match private_among(words) {
                    0 => {}
                    all if all == words.len() => add(first, first + words.len() as u32),
                    _ => (first..)
                        .zip(words)
                        .filter(|(_, word)| is_private(word))
                        .for_each(|(extent, _)| add(extent, extent + 1)),
                }
            }
        }
        fence(Ordering::Acquire);
        stretches
    }

    /// The whole word.
    #[inline]
    pub(crate) fn word(&self, extent: ExtentId) -> u32 {
        self.cell(extent).load(Ordering::Acquire)
    }

    /// Sets the word and wakes who waits for a change of it.
    #[inline]
    pub(crate) fn set(&self, extent: ExtentId, word: u32) {
        debug_assert!(state_of(word) <= FAULTING && word & WAITERS == 0);
        let cell = self.cell(extent);
        let old = cell.swap(word, Ordering::AcqRel);
        self.count(extent, old, word);
        if old & WAITERS != 0 {
            futex::wake_all(cell);
        }
    }

    /// As [`ExtentWords::set`], for an extent that nobody can claim meanwhile, with a version
    /// before and after: many of these in a row take half of the time.
    #[inline]
    pub(crate) fn set_unclaimed(&self, extent: ExtentId, word: u32) {
        let cell = self.cell(extent);
        let old = cell.load(Ordering::Acquire);
        strict_assert!(state_of(word) == FROZEN, "INV-AREA-1: an extent may not be written now");
        debug_assert!([PRIVATE, FROZEN].contains(&state_of(old)));
        match old & WAITERS {
            // At most `keep_hot` comes in between, and what it says ends here in any case.
            0 => cell.store(word, Ordering::Release),
            _ => self.set(extent, word),
        }
    }

    /// Replaces the word if it is still `seen`; who waits goes on waiting.
    #[inline]
    pub(crate) fn replace(&self, extent: ExtentId, seen: u32, word: u32) -> bool {
        debug_assert!(state_of(word) <= FAULTING);
        let word = word & !WAITERS | seen & WAITERS;
        let cell = self.cell(extent);
        let done = cell.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if done {
            self.count(extent, seen, word);
        }
        done
    }

    /// Keeps a private extent writable until the next publish; `false` when it is not private.
    pub(crate) fn keep_hot(&self, extent: ExtentId) -> bool {
        let cell = self.cell(extent);
        let mut word = cell.load(Ordering::Acquire);
        while state_of(word) == PRIVATE {
            if word & HOT != 0 {
                return true;
            }
            match cell.compare_exchange(word, word | HOT, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// As `replace`, and wakes who waits.
    pub(crate) fn exchange(&self, extent: ExtentId, seen: u32, word: u32) -> bool {
        let word = word & !WAITERS;
        let cell = self.cell(extent);
        let done = cell.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if done {
            self.count(extent, seen, word);
        }
        if done && seen & WAITERS != 0 {
            futex::wake_all(cell);
        }
        done
    }

    /// Sleeps until the word is no longer `seen`; may return early.
    pub(crate) fn wait(&self, extent: ExtentId, seen: u32) {
        let cell = self.cell(extent);
        let marked = seen | WAITERS;
        let unchanged = seen == marked
            || cell.compare_exchange(seen, marked, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if unchanged {
            futex::wait(cell, marked, None);
        }
    }

    /// Whether all of a range of extents may be written; the write barrier's fast path.
    #[inline]
    pub(crate) fn all_private(&self, extents: std::ops::Range<u32>) -> bool {
        debug_assert!(extents.start <= extents.end && extents.end <= self.len());
        self.words[extents.start as usize..extents.end as usize]
            .iter()
            .all(|s| state_of(s.load(Ordering::Acquire)) == PRIVATE)
    }

    /// Whether any of a range of extents has memory.
    #[inline]
    pub(crate) fn any_present(&self, extents: std::ops::Range<u32>) -> bool {
        strict_assert!(extents.start <= extents.end && extents.end <= self.len(), "extents exist");
        let mut at = extents.start;
        while at < extents.end {
            let end = (at / GROUP + 1).saturating_mul(GROUP).min(extents.end);
            if self.group(at / GROUP).load(Ordering::Relaxed) != 0 && self.any_of(at..end) {
                return true;
            }
            at = end;
        }
        false
    }

    /// As `any_present`, without a look at the counts.
    fn any_of(&self, extents: std::ops::Range<u32>) -> bool {
        let states = &self.words[extents.start as usize..extents.end as usize];
        const { assert!(ABSENT == 0) };
        // Each word is only ever accessed as a whole. Without a branch inside a piece its loads
        // overlap.
        let any = |piece: &[AtomicU32]| {
            state_of(piece.iter().fold(0, |all, word| all | word.load(Ordering::Relaxed))) != ABSENT
        };
        states.chunks(PIECE).any(any)
    }

    pub(crate) fn len(&self) -> u32 {
        self.words.len() as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::model::extent_word::{SPARE, plane_bits, plane_of};

    #[test]
    fn states_start_absent() {
        let s = ExtentWords::new(10);
        assert_eq!(s.len(), 10);
        assert!((0..10).all(|i| s.get(ExtentId(i)) == ABSENT));
        s.set(ExtentId(3), PRIVATE);
        s.set(ExtentId(4), PRIVATE);
        assert!(s.all_private(3..5) && !s.all_private(3..6) && s.all_private(7..7));
        s.set(ExtentId(4), FROZEN);
        assert!(!s.all_private(3..5));
    }

    #[test]
    fn extents_frozen_first_are_counted() {
        let mut s = ExtentWords::new(3 * GROUP);
        s.freeze_first(GROUP - 2..2 * GROUP + 1);
        s.freeze_first(5..5);
        let frozen = |e: &u32| s.word(ExtentId(*e)) == FROZEN;
        assert_eq!((0..3 * GROUP).filter(frozen).count(), GROUP as usize + 3);
        let counts: Vec<u32> = s.present.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [2, GROUP, 1]);
        assert!(!s.any_present(0..GROUP - 2) && s.any_present(GROUP - 2..GROUP - 1));
    }

    #[test]
    fn counts_of_groups_follow_the_words() {
        let len = 3 * GROUP + 100;
        let (s, mut model) = (ExtentWords::new(len), vec![ABSENT; len as usize]);
        let mut seed = 88_172_645_463_325_252_u64;
        let mut random = |below: u32| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % u64::from(below)) as u32
        };
        for step in 0..if cfg!(miri) { 12 } else { 4000 } {
            // Few of them, so that whole groups become absent again.
            let e = ExtentId(random(8) * (len / 8) + random(2));
            let (old, new) = (s.word(e), random(FAULTING + 1) * (step % 2));
            match step % 3 {
                0 => s.set(e, new),
                1 => assert!(s.replace(e, old, new)),
                _ => assert!(s.exchange(e, old, new) && !s.exchange(e, new ^ SPARE, FROZEN)),
            }
            model[e.0 as usize] = new;
            let (a, b) = (random(len), random(len));
            let range = a.min(b)..a.max(b) + 1;
            let expected = model[range.start as usize..range.end as usize].iter().any(|w| *w != 0);
            assert_eq!(s.any_present(range.clone()), expected, "{step} {range:?}");
        }
        (0..len).for_each(|e| s.set(ExtentId(e), ABSENT | SPARE));
        assert!(s.present.iter().all(|count| count.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn a_word_keeps_plane_and_flags_and_wakes_who_waits() {
        let s = ExtentWords::new(1);
        let e = ExtentId(0);
        let word = FROZEN | SPARE | plane_bits(crate::model::geometry::MAX_PLANES - 1);
        s.set(e, word);
        assert_eq!((state_of(s.word(e)), plane_of(s.word(e))), (FROZEN, 65_535));
        assert!(!s.replace(e, FROZEN, PRIVATE) && s.replace(e, word, FAULTING));
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let word = s.word(e);
                            if state_of(word) != FAULTING {
                                return state_of(word);
                            }
                            s.wait(e, word);
                        }
                    })
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(5));
            s.set(e, PRIVATE);
            waiters.into_iter().for_each(|w| assert_eq!(w.join().unwrap(), PRIVATE));
        });
        assert_eq!(s.word(e), PRIVATE);
    }
}
