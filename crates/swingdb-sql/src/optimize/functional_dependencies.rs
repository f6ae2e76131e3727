//! What determines the rows of a relation is put right before the rules that rely on it:
//! [`DEPENDENCIES`], [`distinct_groups`]. [`nodes::dependencies`](crate::nodes::dependencies) says
//! what the query engine derives too much.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::nodes::dependencies::{corrected, with_sound};
use crate::nodes::expressions::any_node;
use crate::optimize::rule::OwnRule;

/// Takes back what the engine has derived wrongly, before the rules that rely on it.
pub(crate) const DEPENDENCIES: OwnRule = OwnRule::of_plan("dependencies", with_sound_dependencies);

fn with_sound_dependencies(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // The plan itself stays what it is.
    Ok(Transformed::no(corrected(plan)?))
}

/// The engine's rule that makes groups of DISTINCT, and drops a DISTINCT of what is distinct. It
/// goes from the innermost outwards, and derives something of each before it comes to the next, so
/// that is put right at once.
pub(crate) fn distinct_groups(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if !any_node(&plan, |node| matches!(node, LogicalPlan::Distinct(_)))? {
        return Ok(Transformed::no(plan));
    }
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Distinct(Distinct::All(_)) => {
            let groups = rule.rewrite(node, config)?.data;
            match groups {
                LogicalPlan::Aggregate(_) => with_sound(groups),
                already_distinct => Ok(Transformed::yes(already_distinct)),
            }
        }
        LogicalPlan::Distinct(Distinct::On(_)) => {
            let groups = rule.rewrite(node.recompute_schema()?, config)?.data;
            groups.transform_up(with_sound)
        }
        other => with_sound(other),
    })
}
