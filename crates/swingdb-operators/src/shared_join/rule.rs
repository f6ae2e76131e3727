//! Where the operator stands in plans: [`SharedJoins`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
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

/// Replaces the engine's hash joins by [`SharedHashJoinExec`] where the build side is large.
///
/// With many threads it does so wherever the build side is not known to be small. Filters and joins
/// often leave more rows than was estimated. While one thread builds a table of millions, all
/// others wait.
///
/// `x NOT IN (...)` gets a table of the list, if that is no longer than the rows that have `x`.
///
/// The rule stands behind the engine's choice of the build side, and before sides are collected or
/// repartitioned.
#[derive(Debug, Default)]
pub struct SharedJoins;

impl SharedJoins {
    /// The join that takes the place of one of the engine's; `None`: the engine's is better.
    pub fn instead_of(join: &HashJoinExec, threads: usize) -> Result<Option<SharedHashJoinExec>> {
        match join.null_aware {
            true if list_is_shorter(join) => SharedHashJoinExec::not_in(join),
            false if pays(join, threads) => SharedHashJoinExec::try_new(join),
            _ => Ok(None),
        }
    }
}

impl PhysicalOptimizerRule for SharedJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let threads = config.execution.target_partitions;
        let replaced = plan.transform_up(|node| {
            let join = node.downcast_ref::<HashJoinExec>();
            let own = join.map(|join| Self::instead_of(join, threads)).transpose()?.flatten();
            Ok(match own {
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
        && is_worth_it(likely_rows(join.left()), threads)
}

fn is_worth_it(rows: Precision<usize>, threads: usize) -> bool {
    let may_be_more = threads >= MANY_THREADS && !matches!(rows, Precision::Exact(_));
    match rows.get_value() {
        Some(&rows) => rows <= MOST_ROWS && (may_be_more || rows >= LEAST_ROWS),
        None => may_be_more,
    }
}

/// Whether the list of `x NOT IN (list)` is no longer than the rows that have `x`.
fn list_is_shorter(join: &HashJoinExec) -> bool {
    let [rows, list] = [join.left(), join.right()].map(likely_rows);
    match (rows.get_value(), list.get_value()) {
        (Some(rows), Some(list)) => list <= rows,
        _ => false,
    }
}

/// The rows that a plan is likely to have, if it is known.
fn likely_rows(plan: &Arc<dyn ExecutionPlan>) -> Precision<usize> {
    match StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()) {
        Ok(known) => known.num_rows,
        Err(_) => Precision::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_rows_and_threads() {
        use Precision::{Absent, Exact, Inexact};
        for (rows, threads, repartitioned, expected) in [
            (Inexact(5_000_000), 1, true, false),
            (Inexact(5_000_000), 2, true, true),
            (Inexact(5_000_000), 2, false, false),
            (Inexact(1_000_000), 7, false, false),
            (Inexact(1_000_000), 8, false, true),
            (Inexact(100_000), 7, true, false),
            (Inexact(100), 8, false, true),
            (Exact(100_000), 64, false, false),
            (Exact(100_000), 64, true, false),
            (Absent, 7, true, false),
            (Absent, 8, false, true),
            (Inexact(MOST_ROWS + 1), 64, true, false),
        ] {
            let found = are_enough(threads, repartitioned) && is_worth_it(rows, threads);
            assert_eq!(found, expected, "{rows:?} rows, {threads} threads, {repartitioned}");
        }
    }
}
