//! Which operators share their rows: [`ShareRows`].

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::nodes::materialize::PartId;
use crate::physical::materialize::exec::{MaterializeExec, Rows};

/// Gives the operators of each part one place for their rows. An operator that was left alone,
/// because the optimizer found that the others give nothing, is its input. To run last.
#[derive(Debug, Default)]
pub(crate) struct ShareRows;

impl PhysicalOptimizerRule for ShareRows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut times: HashMap<PartId, usize> = HashMap::new();
        plan.apply(|node| {
            if let Some(node) = node.downcast_ref::<MaterializeExec>() {
                *times.entry(node.part()).or_default() += 1;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if times.is_empty() {
            return Ok(plan);
        }
        let mut places: HashMap<PartId, (usize, Arc<Rows>)> = HashMap::new();
        let settled = plan.transform_up(|node| {
            let Some(own) = node.downcast_ref::<MaterializeExec>() else {
                return Ok(Transformed::no(node));
            };
            if times.get(&own.part()) == Some(&1) {
                return Ok(Transformed::yes(Arc::clone(own.input())));
            }
            let next = places.len() + 1;
            let (number, rows) = places.entry(own.part()).or_insert((next, Arc::default()));
            Ok(Transformed::yes(Arc::new(own.with_rows(*number, Arc::clone(rows)))))
        });
        settled.data()
    }

    fn name(&self) -> &str {
        "ShareRows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
