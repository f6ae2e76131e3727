//! Groups of which only the first are wanted, in the order of an extreme: [`FirstGroups`].
//!
//! Of `SELECT x, max(v) AS m ... GROUP BY x ORDER BY m DESC LIMIT 10` the query engine keeps ten
//! groups. It finds them by keys that are compared as the machine compares numbers: NaN is another
//! group in each row, and one that is to be given up is not found, which ends in a panic. Its
//! intervals are ordered by their months. Such groups are computed in full.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use swingdb_functions::keys::order::is_sorted_by_bytes;

/// The engine's rule, without aggregates that it would get wrong. See the
/// [module documentation](self).
#[derive(Debug)]
pub(crate) struct FirstGroups(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for FirstGroups {
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
        let limited = self.0.optimize(plan, config)?;
        let kept = limited.transform_up(|node| match node.downcast_ref::<AggregateExec>() {
            Some(groups) if is_ordered(groups) && !is_plain(groups) => {
                Ok(Transformed::yes(Arc::new(groups.with_new_limit_options(None)) as _))
            }
            _ => Ok(Transformed::no(node)),
        });
        kept.data()
    }
}

fn is_ordered(groups: &AggregateExec) -> bool {
    groups.limit_options().is_some_and(|limit| limit.descending().is_some())
}

/// Whether keys are equal where their bits are, and values are in the order of their bits.
fn is_plain(groups: &AggregateExec) -> bool {
    let fields = groups.schema();
    let keys = groups.group_expr().expr().len();
    fields.fields().iter().enumerate().all(|(place, field)| {
        let of = field.data_type();
        let is_float_key = place < keys && of.is_floating();
        !(is_float_key || is_sorted_by_bytes(of))
    })
}
