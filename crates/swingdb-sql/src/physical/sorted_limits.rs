//! Sorted limits compare by the whole order: [`WholeOrder`].
//!
//! Where a column is one constant in each partition, as in `SELECT 1 AS x, a FROM t UNION ALL
//! SELECT 2, a FROM t ORDER BY a, x LIMIT 3`, the query engine sorts each partition without it.
//! With a limit the partitions tell each other how small a row must be to matter still, and then
//! leave out rows that are equal to another partition's in the shortened order, but come before it
//! in the whole one.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

/// See the [module documentation](self). To run when limits are in place, before conditions are
/// handed down.
#[derive(Debug, Default)]
pub(crate) struct WholeOrder;

impl PhysicalOptimizerRule for WholeOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| match whole(node.as_ref()) {
            Some(sort) => {
                let merge = replace_children_if_necessary(node, vec![Arc::new(sort)])?;
                Ok(Transformed::yes(merge))
            }
            None => Ok(Transformed::no(node)),
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "WholeOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The sort below a merge by its whole order, if it is a limited one by less.
fn whole(node: &dyn ExecutionPlan) -> Option<SortExec> {
    let merge = node.downcast_ref::<SortPreservingMergeExec>()?;
    let sort = merge.input().downcast_ref::<SortExec>()?;
    let shortened = sort.expr().len() < merge.expr().len();
    (shortened && sort.fetch().is_some() && sort.preserve_partitioning()).then(|| {
        SortExec::new(merge.expr().clone(), Arc::clone(sort.input()))
            .with_fetch(sort.fetch())
            .with_preserve_partitioning(true)
    })
}
