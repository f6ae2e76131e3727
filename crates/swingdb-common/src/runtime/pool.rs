//! How much of `memory_limit` each operator may hold: [`OperatorPool`].
//!
//! Operators that can spill (sorts, aggregates) share three quarters of the memory. The engine's
//! own fair pool divides it by all of a plan's operators, most of which hold nothing while others
//! work. Here those that hold something share what is there, and the others only keep back a small
//! part for when they begin. The last quarter is for what cannot spill, as the merge of spilled
//! runs, which else finds that sorts have taken everything; what of it is not wanted by sorts may
//! be more.

use std::collections::HashMap;
use std::fmt;

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};
use parking_lot::Mutex;

/// The part of the memory, one in so many, that operators which can spill leave to others.
const UNSPILLABLE_SHARE: usize = 4;
/// The part, one in so many, of an even share that is kept back for an operator that holds nothing.
const IDLE_SHARE: usize = 2;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct OperatorPool {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What each consumer that can spill holds.
    spillable: HashMap<usize, usize>,
    /// How many of them hold something.
    busy: usize,
    spillable_sum: usize,
    unspillable_sum: usize,
}

impl OperatorPool {
    /// A pool of so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }
}

impl State {
    /// What nobody has taken.
    fn free(&self, limit: usize) -> usize {
        limit.saturating_sub(self.spillable_sum + self.unspillable_sum)
    }

    /// How much more a consumer that can spill may take.
    fn left_for(&self, limit: usize, consumer: &MemoryConsumer) -> usize {
        let of_all = limit - self.unspillable_sum.max(limit / UNSPILLABLE_SHARE).min(limit);
        let own = self.spillable.get(&consumer.id()).copied().unwrap_or(0);
        let known = self.spillable.len().max(1);
        let busy = self.busy + usize::from(own == 0);
        let kept_back = of_all / known / IDLE_SHARE;
        let of_idle = known.saturating_sub(busy) * kept_back;
        let share = (of_all - of_idle) / busy;
        let left = of_all.saturating_sub(self.spillable_sum + of_idle);
        // What was kept back for it is there however much others hold.
        let mine = share.saturating_sub(own).min(left).max(kept_back.saturating_sub(own));
        mine.min(self.free(limit))
    }

    fn take(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        if !consumer.can_spill() {
            self.unspillable_sum += bytes;
            return;
        }
        let held = self.spillable.entry(consumer.id()).or_default();
        self.busy += usize::from(*held == 0 && bytes > 0);
        *held += bytes;
        self.spillable_sum += bytes;
    }

    fn give_back(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        if !consumer.can_spill() {
            self.unspillable_sum -= bytes;
            return;
        }
        self.spillable_sum -= bytes;
        if let Some(held) = self.spillable.get_mut(&consumer.id()) {
            *held -= bytes;
            self.busy -= usize::from(*held == 0 && bytes > 0);
        }
    }
}

impl MemoryPool for OperatorPool {
    fn name(&self) -> &str {
        "operators"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            self.state.lock().spillable.insert(consumer.id(), 0);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            let held = self.state.lock().spillable.remove(&consumer.id());
            debug_assert_eq!(held.unwrap_or(0), 0, "{} has given all back", consumer.name());
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.state.lock().take(reservation.consumer(), additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, bytes: usize) {
        self.state.lock().give_back(reservation.consumer(), bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut state = self.state.lock();
        let consumer = reservation.consumer();
        let left = match consumer.can_spill() {
            true => state.left_for(self.limit, consumer),
            false => state.free(self.limit),
        };
        if additional > left {
            drop(state);
            return Err(resources_datafusion_err!(
                "Failed to allocate additional {} for {} with {} already allocated for this \
                 reservation - {} remain available for the total memory pool: {self}",
                human_readable_size(additional),
                consumer.name(),
                human_readable_size(reservation.size()),
                human_readable_size(left)
            ));
        }
        state.take(consumer, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        let state = self.state.lock();
        state.spillable_sum + state.unspillable_sum
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for OperatorPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(pool_size: {})", self.name(), human_readable_size(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LIMIT: usize = 4000;

    fn pool() -> Arc<dyn MemoryPool> {
        Arc::new(OperatorPool::new(LIMIT))
    }

    fn spilling(pool: &Arc<dyn MemoryPool>) -> MemoryReservation {
        MemoryConsumer::new("sort").with_can_spill(true).register(pool)
    }

    /// How many bytes one gets, a few at a time.
    fn all(reservation: &MemoryReservation) -> usize {
        while reservation.try_grow(10).is_ok() {}
        reservation.size()
    }

    #[test]
    fn those_that_hold_nothing_keep_back_half_of_an_even_share() {
        let pool = pool();
        let first = spilling(&pool);
        assert_eq!(all(&first), 3000, "all but what is for the others");
        first.free();
        let others: Vec<_> = (0..4).map(|_| spilling(&pool)).collect();
        assert_eq!(all(&first), 3000 - 4 * 300);
        // What was kept back for each is there, and no more until the first one spills.
        assert!(others.iter().all(|other| all(other) == 300));
        first.free();
        assert!(others.iter().all(|other| all(other) >= 670), "a quarter, less 300 of the first");
        drop(others);
        assert_eq!(all(&first), 3000);
        assert_eq!(pool.reserved(), 3000);
    }

    #[test]
    fn what_cannot_spill_finds_a_quarter_and_all_that_is_free() {
        let pool = pool();
        let (sort, join) = (spilling(&pool), MemoryConsumer::new("join").register(&pool));
        assert_eq!(all(&sort), 3000);
        assert_eq!(all(&join), 1000);
        sort.free();
        assert_eq!(all(&join), LIMIT);
        let refused = sort.try_grow(1).unwrap_err().to_string();
        assert!(refused.contains("additional 1.0 B for sort"), "{refused}");
        join.shrink(2500);
        assert_eq!(all(&sort), 2500);
        assert_eq!(pool.reserved(), LIMIT);
        // Growing that may not fail counts, too.
        join.grow(LIMIT);
        assert!(sort.try_grow(1).is_err() && join.try_grow(1).is_err());
        drop((sort, join));
        assert_eq!(pool.reserved(), 0);
    }
}
