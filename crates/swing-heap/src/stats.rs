//! Counters of a heap.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 16;
const BUCKETS: usize = 64;

/// A counter that threads add to without sharing a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(AtomicU64);

/// Counters that are added to outside of the heap's lock.
#[derive(Debug)]
pub(crate) struct Counters {
    hits: [Shard; SHARDS],
    /// Durations of misses: bucket `4 * log2(ns) + next two bits`.
    misses: [AtomicU64; 4 * BUCKETS],
    pub(crate) bytes_read: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

static NEXT_SHARD: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SHARD: usize = NEXT_SHARD.fetch_add(1, Ordering::Relaxed) as usize % SHARDS;
}

impl Counters {
    pub(crate) fn new() -> Self {
        Counters {
            hits: Default::default(),
            misses: [const { AtomicU64::new(0) }; 4 * BUCKETS],
            bytes_read: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn hit(&self) {
        let shard = SHARD.try_with(|&s| s).unwrap_or(0);
        self.hits[shard].0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn miss(&self, took: Duration) {
        let ns = (took.as_nanos() as u64).max(4);
        let power = ns.ilog2();
        let bucket = 4 * power as usize + ((ns >> (power - 2)) & 3) as usize;
        self.misses[bucket].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }

    /// Number of misses, and the durations that 50, 99 and 99.9 % of them did not exceed.
    pub(crate) fn misses(&self) -> (u64, [Duration; 3]) {
        let counts: Vec<u64> = self.misses.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let at = |per_mille: u64| {
            let wanted = (all * per_mille).div_ceil(1000);
            let mut seen = 0;
            let bucket = counts.iter().position(|count| {
                seen += count;
                seen >= wanted && seen > 0
            });
            bucket.map_or(Duration::ZERO, |b| {
                let power = b as u32 / 4;
                Duration::from_nanos((1_u64 << power) / 4 * (5 + b as u64 % 4))
            })
        };
        (all, [at(500), at(990), at(999)])
    }
}

/// What a heap holds and has done.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HeapStats {
    /// Objects that exist.
    pub objects: u64,
    /// Their lengths together.
    pub object_bytes: u64,
    /// Objects in memory.
    pub resident_objects: u64,
    /// Their lengths together.
    pub resident_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// Chunks, metadata, buffers: what the heap takes of the budget.
    pub used_bytes: u64,
    /// The part of `used_bytes` that is neither a chunk nor in one.
    pub metadata_bytes: u64,
    /// Accesses that found the object in memory.
    pub hits: u64,
    /// Accesses that did not.
    pub misses: u64,
    /// Durations of misses that 50, 99 and 99.9 % did not exceed.
    pub miss_latencies: [Duration; 3],
    /// Objects that left memory.
    pub evicted_objects: u64,
    /// Those of them that were dropped without a write, because the disk had the same bytes.
    pub dropped_objects: u64,
    /// Lengths of objects that left memory with a write.
    pub evicted_bytes: u64,
    /// Lengths of objects that flushes wrote.
    pub flushed_bytes: u64,
    /// Lengths of objects that garbage collection wrote again.
    pub moved_bytes: u64,
    /// Bytes written to the disk.
    pub written_bytes: u64,
    /// Bytes read from the disk for objects.
    pub read_bytes: u64,
    /// Bytes of the heap's file.
    pub file_bytes: u64,
    /// Bytes of the file that objects need.
    pub live_bytes: u64,
    /// Bytes of the file that only snapshots of a heap in an area need.
    pub kept_bytes: u64,
    /// Reads that found damaged bytes.
    pub damaged: u64,
}

impl HeapStats {
    /// Hits by accesses; 1 before the first access.
    pub fn hit_rate(&self) -> f64 {
        ratio(self.hits, self.hits + self.misses)
    }

    /// Bytes written to the disk for each byte of evicted and flushed objects; 1 before the first
    /// write.
    pub fn write_amplification(&self) -> f64 {
        ratio(self.written_bytes, self.evicted_bytes + self.flushed_bytes)
    }

    /// The part of the memory in chunks that holds no object's bytes.
    pub fn fragmentation(&self) -> f64 {
        1.0 - ratio(self.resident_bytes, self.used_bytes - self.metadata_bytes)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
