//! Aggregates answered by statistics alone, where no FILTER is about: [`FromStatistics`].
//!
//! The query engine's rule looks below the last stage of an aggregate for its first one, to answer
//! it by exact statistics. It passes over one with a FILTER, goes on below, and takes the aggregate
//! of a subquery for it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// The engine's rule, but for plans that have an aggregate of all rows with a FILTER.
#[derive(Debug)]
pub(crate) struct FromStatistics(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for FromStatistics {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_filtered = |node: &Arc<dyn ExecutionPlan>| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            Ok(aggregate.is_some_and(|a| {
                a.group_expr().is_empty() && a.filter_expr().iter().any(Option::is_some)
            }))
        };
        match plan.exists(is_filtered)? {
            true => Ok(plan),
            false => self.0.optimize(plan, config),
        }
    }
}
