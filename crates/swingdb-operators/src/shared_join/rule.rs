//! Where the operator stands in plans: [`SharedJoins`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::exec::SharedHashJoinExec;
use super::table::MOST_ROWS;

/// Fewer build rows are not worth starting tasks.
const LEAST_ROWS: usize = 256 * 1024;
/// From so many threads on also tables that one thread would build are built by all. With few, the
/// engine's own operator takes less time in all (`make bench-tpch` on two cores).
const MANY_THREADS: usize = 8;

/// Replaces the engine's hash joins by [`SharedHashJoinExec`] where the build side is large, or
/// where it is not small and there are many threads. Stands right behind the rule that chooses the
/// build side, and before the rule that collects or repartitions it.
#[derive(Debug, Default)]
pub struct SharedJoins;

impl PhysicalOptimizerRule for SharedJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let threads = config.execution.target_partitions;
        let replaced = plan.transform_up(|node| {
            let join = node.downcast_ref::<HashJoinExec>().filter(|join| pays(join, threads));
            Ok(match join.map(SharedHashJoinExec::try_new).transpose()?.flatten() {
                Some(shared) => Transformed::yes(Arc::new(shared)),
                None => Transformed::no(node),
            })
        });
        replaced.data()
    }

    fn name(&self) -> &str {
        "SharedJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether all of `threads` threads build tables that are large enough; `repartitioned`: the engine
/// would cut both sides into partitions instead.
fn are_enough(threads: usize, repartitioned: bool) -> bool {
    match repartitioned {
        true => threads > 1,
        false => threads >= MANY_THREADS,
    }
}

fn pays(join: &HashJoinExec, threads: usize) -> bool {
    let repartitioned = *join.partition_mode() != PartitionMode::CollectLeft;
    // Statistics are asked for last: they are computed for the whole plan below.
    are_enough(threads, repartitioned)
        && !join.left().boundedness().is_unbounded()
        && likely_rows(join.left()).is_some_and(is_worth_it)
}

fn is_worth_it(rows: usize) -> bool {
    (LEAST_ROWS..=MOST_ROWS).contains(&rows)
}

/// The rows that a plan is likely to have, if it is known.
fn likely_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    known.num_rows.get_value().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_rows_and_threads() {
        for (rows, threads, repartitioned, expected) in [
            (5_000_000, 1, true, false),
            (5_000_000, 2, true, true),
            (5_000_000, 2, false, false),
            (1_000_000, 7, false, false),
            (1_000_000, 8, false, true),
            (100_000, 64, false, false),
            (100_000, 64, true, false),
            (MOST_ROWS + 1, 64, true, false),
        ] {
            let found = are_enough(threads, repartitioned) && is_worth_it(rows);
            assert_eq!(found, expected, "{rows} rows, {threads} threads, {repartitioned}");
        }
    }
}
