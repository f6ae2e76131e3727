//! Numbers about the fast part.

use super::Malloc;
use super::cache::CACHE_BYTES;
use super::central::Central;
use super::class::{CLASSES, SLAB_CLASSES, size_of, slab_blocks, slab_bytes};
use super::gate::Gate;
use super::record::*;
use crate::heap::Heap;
use crate::memory::Memory;
use crate::stats::HeapStats;
use swing::AreaOffset;

/// Numbers about an allocator and the heap below it. Bytes unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MallocStats {
    /// The heap below: to it slabs, caches and their records are blocks like others.
    pub heap: HeapStats,
    /// In blocks that somebody holds, granted sizes; blocks of the heap's own users count, too.
    pub used: u64,
    /// In free blocks that caches of threads hold.
    pub cached: u64,
    /// Number of those.
    pub cached_blocks: u64,
    /// In free blocks of slabs.
    pub slab_free: u64,
    /// Number of slabs.
    pub slabs: u64,
    /// In slabs, used or free.
    pub slab_bytes: u64,
    /// Caches, whether a thread uses them or not.
    pub caches: u64,
    /// Caches that a thread of this process uses.
    pub threads: u64,
    /// Of the directory, the records of slabs, and caches.
    pub metadata: u64,
}

impl MallocStats {
    fn add_slabs<M: Memory>(&mut self, central: &Central, words: &Words<'_, M>) {
        for index in 0..words.get32(central.directory + DIR_RECORDS) {
            let record = central.record(index);
            let class = words.get32(record + REC_CLASS) as usize;
            if words.get64(record) == 0 || class >= SLAB_CLASSES {
                continue;
            }
            // What another process left may say anything; it is only a number.
            let free = u64::from(words.get32(record + REC_FREE)).min(slab_blocks(class));
            debug_assert!(slab_blocks(class) * size_of(class) <= slab_bytes(class));
            self.slabs += 1;
            self.slab_bytes += slab_bytes(class);
            self.slab_free += free * size_of(class);
            // What the blocks leave over at the slab's end is nobody's.
            self.used += (slab_blocks(class) - free) * size_of(class);
        }
    }

    fn add_caches<M: Memory>(&mut self, heap: &Heap<M>, central: &Central, words: &Words<'_, M>) {
        for (slot, gate) in central.gates.iter().enumerate() {
            let cache = central.cache(words, slot as u32);
            self.caches += 1;
            self.threads += u64::from(gate.is_some());
            if gate.is_none() && cache.shape().is_err() {
                continue;
            }
            for class in 0..CLASSES {
                let held = cache.held(class);
                self.cached_blocks += held as u64;
                if class < SLAB_CLASSES {
                    self.cached += held as u64 * size_of(class);
                    continue;
                }
                for at in (0..held).map(|i| cache.entry(class, i)) {
                    // Blocks of the user's table need not be powers of two.
                    let len = heap.usable_size(AreaOffset(at)).ok().flatten();
                    self.cached += len.map_or(size_of(class), |len| len.0);
                }
            }
        }
    }
}

impl<M: Memory + 'static> Malloc<M> {
    /// Numbers, from counters: the time it takes grows with the number of slabs, some nanoseconds
    /// each. Other threads wait meanwhile.
    pub fn stats(&self) -> MallocStats {
        let central = self.inner.central.lock();
        Gate::close_all(central.gates.iter().flatten().map(|gate| &**gate));
        let words = Words::new(&**self.inner.heap.area());
        let mut stats = MallocStats { heap: self.inner.heap.stats(), ..MallocStats::default() };
        stats.metadata = DIRECTORY_BYTES
            + central.chunks.len() as u64 * CHUNK_BYTES
            + central.gates.len() as u64 * CACHE_BYTES;
        stats.add_slabs(&central, &words);
        stats.add_caches(&self.inner.heap, &central, &words);
        let zones = stats.heap.small.used + stats.heap.data.used + stats.heap.large_bytes;
        let own = stats.slab_bytes + stats.metadata;
        stats.used = (stats.used + zones).saturating_sub(own + stats.cached);
        stats
    }
}
