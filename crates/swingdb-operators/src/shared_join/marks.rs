//! Bits that several tasks set at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each row or number.
#[derive(Debug)]
pub(crate) struct Marks(Vec<AtomicU64>);

impl Marks {
    pub(crate) fn new(bits: usize) -> Self {
        Self((0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Bytes that so many bits take.
    pub(crate) fn bytes(bits: usize) -> usize {
        bits.div_ceil(64) * size_of::<u64>()
    }

    /// Whether a bit is set. Exact once all tasks that set some have ended.
    pub(crate) fn has(&self, bit: u32) -> bool {
        let word = self.0[bit as usize / 64].load(Ordering::Relaxed);
        word >> (bit % 64) & 1 == 1
    }

    pub(crate) fn set(&self, bit: u32) {
        // Most words are read only: a bit that is set already is not written.
        if !self.has(bit) {
            self.0[bit as usize / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
    }
}
