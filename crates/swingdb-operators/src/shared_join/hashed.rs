//! A hash table of any keys: a directory of buckets over one array of rows.
//!
//! After "Simple, Efficient, and Robust Hash Tables for Join Processing" (Birler, Schmidt, Fent,
//! Neumann; DaMoN 2024). The rows of a bucket lie beside each other, in the order of their numbers,
//! each with 32 bits of its hash. The directory's word of a bucket has the place where its rows end
//! and a Bloom filter of 32 bits. A probe row without partner mostly ends there, after one access.
//!
//! Bits of the hash, from the top: the part, the bucket; from the bottom: the tag of 32 bits. The
//! bits for the Bloom filter are the tag's highest five.

use arrow::buffer::NullBuffer;

use super::pairs::{Pairs, Span};
use super::scattered::Scattered;

/// Bits of a word of the directory, and of an entry, below the number.
const LOW_BITS: u32 = 32;

/// The table. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Hashed {
    parts: Vec<HashedPart>,
    /// How far to shift a hash to get its part; 64 for a single part.
    shift: u32,
}

/// The buckets of one part.
#[derive(Debug)]
pub(crate) struct HashedPart {
    /// For each bucket, behind a zero: the end of its entries, and its Bloom filter.
    directory: Vec<u64>,
    /// The number of each row, and the tag of its hash.
    entries: Vec<u64>,
    /// How far to shift a hash without the bits of its part to get its bucket.
    shift: u32,
}

/// The bit of a hash in the Bloom filter of its bucket.
fn bloom(hash: u64) -> u64 {
    1 << (hash >> 27 & 31)
}

fn tag(hash: u64) -> u64 {
    hash & u64::from(u32::MAX)
}

/// How far to shift a hash to get one of `1 << bits` parts.
pub(crate) fn part_shift(bits: u32) -> u32 {
    u64::BITS - bits
}

impl HashedPart {
    /// The part numbered `part` of the rows scattered.
    pub(crate) fn new(scattered: &[Scattered], part: usize, part_bits: u32) -> Self {
        let rows = scattered.iter().map(|rows| rows.len_of_part(part)).sum::<usize>();
        let buckets = rows.max(2).next_power_of_two();
        let shift = u64::BITS - buckets.trailing_zeros();
        let bucket = |hash: u64| ((hash << part_bits) >> shift) as usize;
        let all = || scattered.iter().flat_map(|rows| rows.of_part(part));
        let mut directory = vec![0u64; buckets + 1];
        for (hash, _) in all() {
            let word = &mut directory[bucket(hash) + 1];
            *word = (*word + (1 << LOW_BITS)) | bloom(hash);
        }
        let mut start = 0;
        for word in &mut directory[1..] {
            let count = *word >> LOW_BITS;
            *word = start << LOW_BITS | tag(*word);
            start += count;
        }
        let mut entries = vec![0; rows];
        for (hash, row) in all() {
            let word = &mut directory[bucket(hash) + 1];
            entries[(*word >> LOW_BITS) as usize] = u64::from(row) << LOW_BITS | tag(hash);
            *word += 1 << LOW_BITS;
        }
        Self { directory, entries, shift }
    }

    /// Bytes that a part of so many rows takes.
    pub(crate) fn bytes_of(rows: usize) -> usize {
        (rows.max(2).next_power_of_two() + 1 + rows) * size_of::<u64>()
    }
}

impl Hashed {
    pub(crate) fn new(parts: Vec<HashedPart>, part_bits: u32) -> Self {
        debug_assert_eq!(parts.len(), 1 << part_bits);
        Self { parts, shift: part_shift(part_bits) }
    }

    pub(crate) fn bytes(&self) -> usize {
        let words = self.parts.iter().map(|part| part.directory.len() + part.entries.len());
        words.sum::<usize>() * size_of::<u64>()
    }

    /// The buckets of the valid rows that may hold their keys.
    pub(crate) fn find(&self, hashes: &[u64], valid: Option<&NullBuffer>, spans: &mut Vec<Span>) {
        let part_bits = u64::BITS - self.shift;
        for (row, &hash) in hashes.iter().enumerate() {
            let number = hash.checked_shr(self.shift).unwrap_or(0) as usize;
            let part = &self.parts[number];
            let bucket = ((hash << part_bits) >> part.shift) as usize;
            let word = part.directory[bucket + 1];
            if word & bloom(hash) != 0 && valid.is_none_or(|valid| valid.is_valid(row)) {
                let start = (part.directory[bucket] >> LOW_BITS) as u32;
                let end = (word >> LOW_BITS) as u32;
                spans.push(Span { probe: row as u32, part: number as u32, start, end });
            }
        }
    }

    /// The rows of a span whose hash has the tag of `hash`.
    pub(crate) fn list(&self, hash: u64, span: &Span, pairs: &mut Pairs) {
        let entries = &self.parts[span.part as usize].entries;
        for entry in &entries[span.start as usize..span.end as usize] {
            if tag(*entry) == tag(hash) {
                pairs.push((*entry >> LOW_BITS) as u32, span.probe);
            }
        }
    }

    /// Whether a span has a row whose hash has the tag of `hash`.
    pub(crate) fn may_have(&self, hash: u64, span: &Span) -> bool {
        let entries = &self.parts[span.part as usize].entries;
        let span = &entries[span.start as usize..span.end as usize];
        span.iter().any(|entry| tag(*entry) == tag(hash))
    }
}
