//! The first rows of a table stay the first: [`FirstRows`].
//!
//! `SELECT a + 1 FROM t LIMIT 20000` returns rows in the order of their insertion, as the scan
//! below does, which reads in one partition then. The query engine deals them out to several
//! threads to compute `a + 1`, and takes them back in any order.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use crate::sql::scan::as_scan;

/// See the [module documentation](self). To run when partitions and limits are in place.
#[derive(Debug, Default)]
pub(crate) struct FirstRows;

impl PhysicalOptimizerRule for FirstRows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(in_order(&plan)?.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        "FirstRows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan without the dealing out; `None` where there is none, or no order.
fn in_order(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>() {
        let input = dealt.input();
        let limited = as_scan(input.as_ref()).is_some_and(|scan| scan.is_limited());
        let ordered = limited && input.output_partitioning().partition_count() == 1;
        return Ok(ordered.then(|| Arc::clone(input)));
    }
    let keeps = plan.is::<ProjectionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>();
    let children = plan.children();
    let ([child], true) = (children.as_slice(), keeps) else { return Ok(None) };
    match in_order(child)? {
        Some(child) => replace_children_if_necessary(Arc::clone(plan), vec![child]).map(Some),
        None => Ok(None),
    }
}
