//! The rule that gives the keys of a plan one form for equal values, expression by expression and
//! node by node.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

use crate::analyze::equality::signs::{Reads, is_ordering};
use crate::analyze::equality::{comparisons, nodes, order};
use crate::nodes::expressions::rewrite_parts;

/// Runs after types are settled; when subqueries have become joins, [`settle_again`] does.
#[derive(Debug, Default)]
pub(crate) struct Equality;

/// The same for the joins that subqueries have become.
pub(crate) fn settle_again(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|plan| settle(plan, Reads::default(), false))
}

impl AnalyzerRule for Equality {
    fn name(&self) -> &str {
        "equality"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let settle_first = |plan: LogicalPlan| {
            let reads = Reads::of(&plan, is_ordering)?;
            settle(plan, reads, true)
        };
        Ok(plan.transform_up_with_subqueries(settle_first)?.data)
    }
}

/// `ordering`: also what is left to do but for equality, once.
fn settle(plan: LogicalPlan, reads: Reads, ordering: bool) -> Result<Transformed<LogicalPlan>> {
    let settled = rewrite_parts(plan, comparisons::compares, |expr, schema| {
        let settled = comparisons::settle(expr, schema)?;
        match ordering {
            true => settled.transform_data(|expr| Ok(order::settle(expr, schema, &reads))),
            false => Ok(settled),
        }
    });
    settled?.transform_data(|plan| nodes::settle(plan, ordering))
}
