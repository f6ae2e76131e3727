//! Orders that the query engine has found to be there, and does not find any more: [`LostOrder`].
//!
//! The rule that leaves out sorts asks operators in which order their rows come. Later rules merge
//! operators, `x + 1` over `CAST(y AS BIGINT) AS x`, and of what they make of them the engine knows
//! less: that `v + i` is in order where both columns are, but not that its cast is. The rows have
//! not changed, but its last rule, which checks plans, refuses the statement then. So where that
//! fails, what is asked for an order gets a sort, and is checked again.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

type Plan = Arc<dyn ExecutionPlan>;

/// The engine's rule that checks plans, and sorts where that fails. See the
/// [module documentation](self).
#[derive(Debug)]
pub(crate) struct LostOrder(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for LostOrder {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        match self.0.optimize(Arc::clone(&plan), config) {
            Ok(checked) => Ok(checked),
            Err(_) => self.0.optimize(sorted(plan)?, config),
        }
    }
}

/// The plan with a sort where an order is asked for that is not known to be there.
fn sorted(plan: Plan) -> Result<Plan> {
    let sorted = plan.transform_up(|node| {
        let asked = node.required_input_ordering();
        let mut children = Vec::with_capacity(asked.len());
        let mut changed = false;
        for (child, asked) in node.children().into_iter().zip(asked) {
            let order = asked.map(|asked| LexOrdering::from(asked.into_single()));
            let renewed = match &order {
                Some(order) => in_order(child, order)?,
                None => None,
            };
            changed |= renewed.is_some();
            children.push(renewed.unwrap_or_else(|| Arc::clone(child)));
        }
        Ok(match changed {
            true => Transformed::yes(replace_children_if_necessary(node, children)?),
            false => Transformed::no(node),
        })
    });
    Ok(sorted?.data)
}

/// A plan with the same partitions, each in an order; `None` where it is known to have it.
fn in_order(plan: &Plan, order: &LexOrdering) -> Result<Option<Plan>> {
    if plan.equivalence_properties().ordering_satisfy(order.clone())? {
        return Ok(None);
    }
    // Only the parts that lack it.
    if plan.is::<UnionExec>() {
        let mut parts = Vec::with_capacity(plan.children().len());
        for part in plan.children() {
            parts.push(in_order(part, order)?.unwrap_or_else(|| Arc::clone(part)));
        }
        return Ok(Some(replace_children_if_necessary(Arc::clone(plan), parts)?));
    }
    let partitions = plan.output_partitioning().partition_count();
    let sort = SortExec::new(order.clone(), Arc::clone(plan));
    Ok(Some(Arc::new(sort.with_preserve_partitioning(partitions > 1))))
}
