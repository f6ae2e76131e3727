//! Merges of spilled sorts share memory: [`MergeShares`].
//!
//! A sort whose rows do not fit writes sorted runs to temporary files and merges them at the end.
//! A merge reads as many runs at a time as memory can be had for; the more, the fewer passes. Left
//! alone, the merge of the partition that is ready first takes all that is free, and the other
//! partitions' sorts, and whatever reads them, find nothing. Here all merges together have a part
//! of the memory, in even shares. A merge with a small share reads fewer runs at a time.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};

/// How the engine names what a partition's merge reserves.
const MERGE: &str = "ExternalSorterMerge[";
/// The part of the memory, one in so many, that all merges may have together.
const PART: usize = 2;

/// A pool that gives operators that can spill even shares, and merges of sorts as well.
#[derive(Debug)]
pub(crate) struct MergeShares {
    pool: FairSpillPool,
    limit: usize,
    /// What a merge may have in any case: what a sort reserves for it while it begins.
    least: usize,
    merges: AtomicUsize,
}

impl MergeShares {
    /// A pool of so many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let least = ConfigOptions::default().execution.sort_spill_reservation_bytes;
        Self { pool: FairSpillPool::new(limit), limit, least, merges: AtomicUsize::new(0) }
    }

    /// What each merge may have.
    fn share(&self) -> usize {
        let merges = self.merges.load(Ordering::Relaxed).max(1);
        (self.limit / PART / merges).max(self.least)
    }
}

fn is_merge(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(MERGE)
}

impl MemoryPool for MergeShares {
    fn name(&self) -> &str {
        self.pool.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.merges.fetch_add(usize::from(is_merge(consumer)), Ordering::Relaxed);
        self.pool.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.merges.fetch_sub(usize::from(is_merge(consumer)), Ordering::Relaxed);
        self.pool.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, bytes: usize) {
        self.pool.shrink(reservation, bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (consumer, has) = (reservation.consumer(), reservation.size());
        if is_merge(consumer) && has.saturating_add(additional) > self.share() {
            let words = human_readable_size;
            return Err(resources_datafusion_err!(
                "Failed to allocate additional {} for {} with {} already allocated for this \
                 reservation - {} remain available for the total memory pool: {self}",
                words(additional),
                consumer.name(),
                words(has),
                words(self.share().saturating_sub(has))
            ));
        }
        self.pool.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

impl fmt::Display for MergeShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pool.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LIMIT: usize = 100 << 20;

    fn all(reservation: &MemoryReservation) -> usize {
        while reservation.try_grow(1 << 20).is_ok() {}
        reservation.size()
    }

    #[test]
    fn merges_leave_half_to_others_and_share_the_rest() {
        let pool: Arc<dyn MemoryPool> = Arc::new(MergeShares::new(LIMIT));
        let merge = |partition| {
            MemoryConsumer::new(format!("ExternalSorterMerge[{partition}]")).register(&pool)
        };
        let first = merge(0);
        assert_eq!(all(&first), 50 << 20);
        let second = merge(1);
        assert_eq!(all(&second), 25 << 20);
        first.free();
        assert_eq!(all(&first), 25 << 20);
        let refused = first.try_grow(1 << 20).unwrap_err().to_string();
        assert!(refused.contains("additional 1024.0 KB for ExternalSorterMerge[0]"), "{refused}");

        let sort = MemoryConsumer::new("ExternalSorter[0]").with_can_spill(true).register(&pool);
        assert_eq!(all(&sort), 50 << 20);
        sort.free();
        let other = MemoryConsumer::new("SortPreservingMergeExec[0]").register(&pool);
        assert_eq!(all(&other), 50 << 20);
        other.free();
        // However many there are, each has what its sort keeps for it.
        let many: Vec<_> = (2..20).map(merge).collect();
        assert_eq!(all(&many[0]), 10 << 20);
        drop(many);
        first.free();
        drop(second);
        assert_eq!(all(&first), 50 << 20, "those that ended do not count");
    }
}
