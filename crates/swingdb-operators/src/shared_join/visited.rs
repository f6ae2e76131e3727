//! Which build rows found a partner, noted by all probing partitions at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each row.
#[derive(Debug)]
pub(crate) struct Visited(Vec<AtomicU64>);

impl Visited {
    pub(crate) fn new(rows: usize) -> Self {
        Self((0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Bytes that it takes for so many rows.
    pub(crate) fn bytes(rows: usize) -> usize {
        rows.div_ceil(64) * size_of::<u64>()
    }

    /// Whether a row found a partner. Exact once all partitions have ended.
    pub(crate) fn has(&self, row: u32) -> bool {
        let word = self.0[row as usize / 64].load(Ordering::Relaxed);
        word >> (row % 64) & 1 == 1
    }

    pub(crate) fn note(&self, row: u32) {
        // Most words are read only: the second partner of a row writes nothing.
        if !self.has(row) {
            self.0[row as usize / 64].fetch_or(1 << (row % 64), Ordering::Relaxed);
        }
    }
}
