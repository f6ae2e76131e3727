//! The cache of a thread: for each class a short stack of free blocks, in the area.
//!
//! ```text
//! cache (64 KiB, one small extent)    65 tops of 2 B | from 256 on the stacks, words of 8 B
//! stack of a class                    0 | offsets of blocks | free words | u64::MAX
//! ```
//!
//! A top is the number of its stack's last block, counted from the cache's start in words; without
//! blocks it is that of the stack's first word. The words at both ends are no blocks, so that an
//! operation finds out that a stack is empty or full from the word that it touches anyway, without
//! knowing where the stack begins or ends.
//!
//! # Concurrency
//! [`pop`] and [`push`] are for the thread whose gate is open, everything else is for whoever holds
//! the central lock while the gate is closed.
//!
//! # Hostile bytes
//! [`Cache::shape`] is asked before a cache that another process left is used: then every top
//! lies in its stack, and both ends are what they must be.

use super::class::{CLASSES, cached};
use super::record::Words;
use crate::memory::Memory;
use crate::tree::Corruption;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};
use swing::WriteError;

/// One small extent, so that no two threads copy the same one.
pub(crate) const CACHE_BYTES: u64 = 64 << 10;
const WORDS_AT: usize = 256;
/// No block begins there: the header does.
const FLOOR: u64 = 0;
const CEILING: u64 = u64::MAX;

/// For each class the number of its stack's lowest word; then the end of all.
const FLOORS: [u16; CLASSES + 1] = {
    let mut floors = [(WORDS_AT / 8) as u16; CLASSES + 1];
    let mut class = 0;
    while class < CLASSES {
        floors[class + 1] = floors[class] + cached(class) as u16 + 2;
        class += 1;
    }
    floors
};

const _: () = assert!(2 * CLASSES <= WORDS_AT);
const _: () = assert!(8 * FLOORS[CLASSES] as u64 <= CACHE_BYTES);

/// Takes the block off the stack of `class` that was put there last.
///
/// # Safety
/// `cache` is a cache of sound shape, writable, and no other thread's as long as this runs; `class`
/// is below [`CLASSES`].
#[inline(always)]
pub(crate) unsafe fn pop(cache: NonNull<u8>, class: usize) -> Option<u64> {
    debug_assert!(class < CLASSES);
    // SAFETY: a top is a word of its stack, and if it is not the lowest a block (INV-MALLOC-6).
    unsafe {
        let top_at = cache.cast::<u16>().add(class);
        let top = top_at.read();
        let block = cache.cast::<u64>().add(top as usize).read();
        if block == FLOOR {
            return None;
        }
        top_at.write(top - 1);
        Some(block)
    }
}

/// Puts a block on the stack of `class`; false when it is full, or when the block is the one that
/// was put there last: then it is freed twice.
///
/// # Safety
/// As for [`pop`].
#[inline(always)]
pub(crate) unsafe fn push(cache: NonNull<u8>, class: usize, block: u64) -> bool {
    debug_assert!(class < CLASSES && block != FLOOR && block != CEILING);
    // SAFETY: a top is below its stack's highest word (INV-MALLOC-6), which is never written. The
    // block is written before the top, so that at every instant what lies below the top are blocks.
    unsafe {
        let top_at = cache.cast::<u16>().add(class);
        let top = top_at.read();
        let free = cache.cast::<u64>().add(top as usize + 1);
        // One branch for both. The word below the lowest block is no block.
        if (free.read() == CEILING) | (free.sub(1).read() == block) {
            return false;
        }
        free.write(block);
        compiler_fence(Ordering::Release);
        top_at.write(top + 1);
        true
    }
}

/// Blocks on the stack of `class`.
///
/// # Safety
/// As for [`pop`].
pub(crate) unsafe fn held(cache: NonNull<u8>, class: usize) -> usize {
    debug_assert!(class < CLASSES);
    // SAFETY: the tops lie at the cache's start.
    let top = unsafe { cache.cast::<u16>().add(class).read() };
    (top - FLOORS[class]) as usize
}

/// Whether a block is on the stack of `class`.
///
/// # Safety
/// As for [`pop`].
pub(crate) unsafe fn find(cache: NonNull<u8>, class: usize, block: u64) -> bool {
    // SAFETY: as many words above the lowest are blocks (INV-MALLOC-6).
    let blocks = unsafe {
        let first = cache.cast::<u64>().add(FLOORS[class] as usize + 1);
        std::slice::from_raw_parts(first.as_ptr(), held(cache, class))
    };
    debug_assert!(blocks.len() <= cached(class), "a stack inside its bounds");
    blocks.contains(&block)
}

/// A cache seen by whoever holds the central lock.
pub(crate) struct Cache<'a, M> {
    words: &'a Words<'a, M>,
    at: u64,
}

impl<'a, M: Memory> Cache<'a, M> {
    pub(crate) fn new(words: &'a Words<'a, M>, at: u64) -> Self {
        debug_assert!(at > 0 && at.is_multiple_of(CACHE_BYTES));
        Cache { words, at }
    }

    /// Whether a cache may lie at a stored place, and be read there.
    pub(crate) fn fits(words: &Words<'_, M>, at: u64) -> bool {
        words.sound(at, CACHE_BYTES) && at.is_multiple_of(CACHE_BYTES)
    }

    /// Passes the write barrier.
    pub(crate) fn open(&self) -> Result<(), WriteError> {
        self.words.open(self.at..self.at + CACHE_BYTES)
    }

    /// Makes all stacks empty; the barrier was passed.
    pub(crate) fn format(&self) {
        self.words.zero(self.at, CACHE_BYTES);
        for class in 0..CLASSES {
            self.set_held(class, 0);
            self.words.set64(self.word(FLOORS[class + 1] - 1), CEILING);
        }
    }

    /// Checks all that `pop` and `push` rely on (INV-MALLOC-6).
    pub(crate) fn shape(&self) -> Result<(), Corruption> {
        for class in 0..CLASSES {
            let (floor, ceiling) = (self.word(FLOORS[class]), self.word(FLOORS[class + 1] - 1));
            let top_at = self.at + 2 * class as u64;
            let top = self.words.get16(top_at);
            let rule = "a stack's top is inside, and its ends are no blocks";
            if top < FLOORS[class] || top >= FLOORS[class + 1] - 1 {
                return Err(Corruption { at: top_at, found: top.into(), rule });
            }
            for (at, expected) in [(floor, FLOOR), (ceiling, CEILING)] {
                let found = self.words.get64(at);
                if found != expected {
                    return Err(Corruption { at, found, rule });
                }
            }
        }
        Ok(())
    }

    /// Where a word of the cache is.
    fn word(&self, number: u16) -> u64 {
        debug_assert!(number < FLOORS[CLASSES]);
        self.at + 8 * u64::from(number)
    }

    /// Blocks on the stack of a class.
    pub(crate) fn held(&self, class: usize) -> usize {
        let top = self.words.get16(self.at + 2 * class as u64);
        let held = top.wrapping_sub(FLOORS[class]) as usize;
        debug_assert!(held <= cached(class), "INV-MALLOC-6: looked at after `shape`");
        held
    }

    pub(crate) fn set_held(&self, class: usize, held: usize) {
        debug_assert!(held <= cached(class));
        self.words.set16(self.at + 2 * class as u64, FLOORS[class] + held as u16);
    }

    /// Where the `i`-th block of a stack is noted, counted from the oldest.
    pub(crate) fn entry_at(&self, class: usize, i: usize) -> u64 {
        debug_assert!(i < cached(class), "the highest word is no block");
        self.word(FLOORS[class] + 1 + i as u16)
    }

    pub(crate) fn entry(&self, class: usize, i: usize) -> u64 {
        self.words.get64(self.entry_at(class, i))
    }

    pub(crate) fn set_entry(&self, class: usize, i: usize, block: u64) {
        debug_assert!(block != FLOOR && block != CEILING);
        self.words.set64(self.entry_at(class, i), block);
    }

    /// Whether a block is on the stack of a class.
    pub(crate) fn holds(&self, class: usize, block: u64) -> bool {
        (0..self.held(class)).any(|i| self.entry(class, i) == block)
    }

    /// Puts a block on a stack that has room.
    pub(crate) fn push(&self, class: usize, block: u64) {
        let held = self.held(class);
        self.set_entry(class, held, block);
        self.set_held(class, held + 1);
    }

    /// Takes the last block off a stack.
    pub(crate) fn pop(&self, class: usize) -> Option<u64> {
        let held = self.held(class).checked_sub(1)?;
        self.set_held(class, held);
        Some(self.entry(class, held))
    }
}
