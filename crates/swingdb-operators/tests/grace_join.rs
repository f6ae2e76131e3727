//! The join against nested loops over random rows, where memory ends at any batch, and again for
//! each part.

mod common;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::*;
use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned};
use datafusion::prelude::SessionConfig;
use fastrand::Rng;
use swingdb_operators::grace_join::GraceHashJoinExec;

/// Memory that ends after so many requests of consumers that can spill, for a while.
#[derive(Debug)]
struct Ending {
    requests: AtomicUsize,
    granted: usize,
    reserved: AtomicUsize,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ending")
    }
}

impl MemoryPool for Ending {
    fn name(&self) -> &str {
        "ending"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, _: &MemoryReservation, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if reservation.consumer().can_spill() {
            let request = self.requests.fetch_add(1, Ordering::Relaxed);
            if request % (2 * self.granted + 1) >= self.granted {
                return Err(resources_datafusion_err!("it ends"));
            }
        }
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }
}

fn environment(granted: usize) -> Result<Arc<RuntimeEnv>> {
    let (requests, reserved) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let pool = Arc::new(Ending { requests, granted, reserved });
    RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()
}

/// A random join, its rows by nested loops, and a description.
fn case(random: &mut Rng) -> Result<(Arc<GraceHashJoinExec>, Vec<Row>, String)> {
    let kinds = (0..random.usize(1..4)).map(|_| random.usize(..KEY_KINDS)).collect::<Vec<_>>();
    let mut rows = || [0, 1, 10, 300, 1000][random.usize(..5)];
    let sizes = (rows(), rows());
    let left = side("l", &kinds, sizes.0, random);
    let right = side("r", &kinds, sizes.1, random);
    let join_type = JOIN_TYPES[random.usize(..JOIN_TYPES.len())];
    let null_equality = null_equality(random);
    let filtered = random.bool();
    let (l, r) = (left.schema(), right.schema());
    let on = on_all(kinds.len(), &l, &r)?;
    let mut join = HashJoinExec::try_new(
        source(&partitions(&left, random), Arc::clone(&l)),
        source(&partitions(&right, random), Arc::clone(&r)),
        on,
        filtered.then(|| filter(&l, &r)),
        &join_type,
        None,
        PartitionMode::CollectLeft,
        null_equality,
        false,
    )?;
    if random.bool() {
        join = of_numbers(&join, random)?;
    }
    let expected = nested_loops(&left, &right, kinds.len(), join_type, null_equality, filtered);
    let mut rows = expected.of_probe.concat();
    rows.extend(expected.last);
    rows.sort_unstable();
    let described = format!("{join_type:?}, {kinds:?}, {sizes:?} rows, {null_equality:?}");
    let join = GraceHashJoinExec::try_new(&join)?.expect("a join it knows");
    Ok((Arc::new(join), rows, described))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_those_of_nested_loops_wherever_memory_ends() -> Result<()> {
    let mut random = Rng::with_seed(seed());
    let mut spilled = 0;
    for _ in 0..60 {
        let (join, expected, described) = case(&mut random)?;
        let environment = environment(random.usize(..6))?;
        let config = SessionConfig::new()
            .with_batch_size(BATCH_ROWS[random.usize(2..BATCH_ROWS.len())])
            .with_target_partitions(2);
        let context = TaskContext::default()
            .with_session_config(config)
            .with_runtime(Arc::clone(&environment));
        let context = Arc::new(context);
        let plan = Arc::clone(&join) as Arc<dyn ExecutionPlan>;
        // Both times, since a plan may be carried out again.
        for _ in 0..2 {
            let found = collect_partitioned(Arc::clone(&plan), Arc::clone(&context)).await?;
            let found = found.concat();
            assert!(found.iter().all(|batch| batch.schema() == join.schema()), "{described}");
            let mut found = rows_of(&found);
            found.sort_unstable();
            assert_eq!(found, expected, "{described}");
        }
        spilled += join.metrics().and_then(|metrics| metrics.spilled_rows()).unwrap_or(0);
        drop((plan, join, context));
        // Tasks that read ahead end soon after.
        for _ in 0..5000 {
            if environment.memory_pool.reserved() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        assert_eq!(environment.memory_pool.reserved(), 0, "{described}");
    }
    assert!(spilled > 0, "nothing was dealt out");
    Ok(())
}
