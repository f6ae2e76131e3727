//! Limits of memory of sessions at a node: [`Budgets`].
//!
//! `SET memory_limit` of a session on a cluster holds at each node for all that runs there for the
//! session, together: parts of plans, scans, and steps of changes. They share one pool, which lives
//! as long as one of them. What they hold counts for the node too, whose own limit comes on top.
//!
//! Sorts, aggregates and exchanges that need more go to a disk. What cannot do so fails.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use parking_lot::Mutex;
use swingdb_functions::bounded::MemoryLeft;
use swingdb_sql::engine::builder_of;

use crate::wire::Budget;

/// See the [module documentation](self).
#[derive(Default)]
pub struct Budgets {
    pools: Mutex<HashMap<Budget, Weak<SessionPool>>>,
}

impl Budgets {
    /// What runs with a limit, beside all else that has the same.
    pub fn environment(&self, budget: &Budget) -> Result<Arc<RuntimeEnv>> {
        let base = base()?;
        let mut pools = self.pools.lock();
        let pool = match pools.get(budget).and_then(Weak::upgrade) {
            Some(pool) => pool,
            None => {
                // Those of sessions that have ended.
                pools.retain(|_, pool| pool.strong_count() > 0);
                let pool = Arc::new(SessionPool::new(budget, &base.memory_pool));
                pools.insert(budget.clone(), Arc::downgrade(&pool));
                pool
            }
        };
        RuntimeEnvBuilder::from_runtime_env(&base).with_memory_pool(pool).build_arc()
    }

    /// A session's state with a limit; `None`: with the node's own.
    pub fn limited(&self, state: &SessionState, budget: Option<&Budget>) -> Result<SessionState> {
        let environment = match budget {
            Some(budget) => self.environment(budget)?,
            None => base()?,
        };
        let mut config = state.config().clone();
        let pool = Arc::clone(&environment.memory_pool);
        config.options_mut().extensions.insert(MemoryLeft(pool));
        let builder = builder_of(state);
        Ok(builder.with_config(config).with_runtime_env(environment).build())
    }
}

/// What all that runs at the node shares.
fn base() -> Result<Arc<RuntimeEnv>> {
    let base = swingdb_sql::engine::base_state()
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
    Ok(Arc::clone(base.runtime_env()))
}

/// What all that runs at the node may hold; `None`: there is no limit.
pub fn of_node() -> Result<Option<u64>> {
    Ok(match base()?.memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => Some(bytes as u64),
        _ => None,
    })
}

/// The memory that one session may hold at a node; it is a part of the node's.
#[derive(Debug)]
struct SessionPool {
    own: GreedyMemoryPool,
    bytes: u64,
    /// What it holds of the node's.
    of_node: MemoryReservation,
}

impl SessionPool {
    fn new(budget: &Budget, node: &Arc<dyn MemoryPool>) -> Self {
        let own = GreedyMemoryPool::new(usize::try_from(budget.bytes).unwrap_or(usize::MAX));
        let name = format!("session {}", budget.session);
        Self { own, bytes: budget.bytes, of_node: MemoryConsumer::new(name).register(node) }
    }
}

impl fmt::Display for SessionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of a session with {} bytes", self.name(), self.bytes)
    }
}

impl MemoryPool for SessionPool {
    fn name(&self) -> &str {
        "session"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.of_node.grow(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.of_node.shrink(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.own.try_grow(reservation, additional)?;
        let done = self.of_node.try_grow(additional);
        if done.is_err() {
            self.own.shrink(reservation, additional);
        }
        done
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(session: &str, bytes: u64) -> Budget {
        Budget { session: session.to_string(), bytes }
    }

    fn taken(budgets: &Budgets, budget: &Budget, bytes: usize) -> Result<MemoryReservation> {
        let environment = budgets.environment(budget)?;
        let taken = MemoryConsumer::new("test").register(&environment.memory_pool);
        taken.try_grow(bytes)?;
        Ok(taken)
    }

    #[test]
    fn all_that_runs_for_a_session_shares_its_limit() {
        let (budgets, one, other) = (Budgets::default(), budget("one", 1000), budget("two", 1000));
        let node = base().unwrap();
        let before = node.memory_pool.reserved();
        let first = taken(&budgets, &one, 600).unwrap();
        let second = taken(&budgets, &one, 400).unwrap();
        let refused = taken(&budgets, &one, 1).unwrap_err();
        assert!(matches!(refused, DataFusionError::ResourcesExhausted(_)), "{refused}");
        // Sessions have limits of their own, and all of them count for the node.
        let others = taken(&budgets, &other, 1000).unwrap();
        assert_eq!(node.memory_pool.reserved() - before, 2000);
        drop(first);
        assert!(taken(&budgets, &one, 601).is_err());
        drop(taken(&budgets, &one, 600).unwrap());
        drop((second, others));
        assert_eq!(node.memory_pool.reserved(), before);
        // Nothing stays of a session that has ended.
        drop(taken(&budgets, &budget("three", 1000), 1000).unwrap());
        assert_eq!(budgets.pools.lock().len(), 1);
    }

    #[test]
    fn a_session_has_no_more_than_its_node() {
        let (budgets, node) = (Budgets::default(), base().unwrap());
        let MemoryLimit::Finite(limit) = node.memory_pool.memory_limit() else {
            panic!("a node without a limit");
        };
        let large = budget("one", u64::MAX);
        let refused = taken(&budgets, &large, limit + 1).unwrap_err();
        assert!(matches!(refused, DataFusionError::ResourcesExhausted(_)), "{refused}");
        assert_eq!(budgets.environment(&large).unwrap().memory_pool.reserved(), 0);
    }
}
