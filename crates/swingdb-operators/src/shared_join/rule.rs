//! Where the operator stands in plans: [`SharedJoins`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::exec::SharedHashJoinExec;
use super::table::MOST_ROWS;

/// Build rows for each thread that are worth starting tasks.
const ROWS_OF_THREAD: usize = 4096;
/// A few threads build most of the table before the others have started.
const MOST_THREADS: usize = 16;

/// Replaces the engine's hash joins by [`SharedHashJoinExec`] where several threads build a table
/// faster than one. Stands right behind the rule that chooses the build side, and before the rule
/// that collects or repartitions it.
#[derive(Debug, Default)]
pub struct SharedJoins;

impl PhysicalOptimizerRule for SharedJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(least) = least_build_rows(config.execution.target_partitions) else {
            return Ok(plan);
        };
        let replaced = plan.transform_up(|node| {
            let join = node.downcast_ref::<HashJoinExec>().filter(|join| pays(join, least));
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

/// From how many rows on a table is built by `threads` threads. `None` for a single thread.
pub fn least_build_rows(threads: usize) -> Option<usize> {
    (threads > 1).then(|| threads.min(MOST_THREADS) * ROWS_OF_THREAD)
}

/// Whether the build side is not known to have less than `least` rows.
fn pays(join: &HashJoinExec, least: usize) -> bool {
    let is_bounded = !join.left().boundedness().is_unbounded();
    let most = most_rows(join.left());
    is_bounded && most.is_none_or(|rows| (least..=MOST_ROWS).contains(&rows))
}

/// The most rows that a plan can have, if the statistics are exact.
fn most_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    if let Precision::Exact(rows) = known.num_rows {
        return Some(rows);
    }
    let only_fewer = matches!(
        plan.cardinality_effect(),
        CardinalityEffect::Equal | CardinalityEffect::LowerEqual
    );
    match plan.children().as_slice() {
        [input] if only_fewer => most_rows(input),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_depend_on_the_threads() {
        assert_eq!(least_build_rows(0), None);
        assert_eq!(least_build_rows(1), None);
        assert_eq!(least_build_rows(2), Some(8192));
        assert_eq!(least_build_rows(16), Some(65_536));
        assert_eq!(least_build_rows(256), Some(65_536));
    }
}
