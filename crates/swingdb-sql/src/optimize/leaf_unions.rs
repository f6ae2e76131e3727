//! Parts of structs that must not be computed elsewhere: [`leaf_unions`].

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::nodes::expressions::any_node;

/// What the engine calls the parts that it takes out.
const TAKEN_OUT: &str = "__datafusion_extracted";

/// The engine's rule that computes parts of structs, as `s.a`, close to the scans. Below a UNION it
/// puts them behind the columns of an input that is a projection, and before those of another one,
/// although the columns of a UNION go by position: columns of one type changed places unseen. So
/// parts are computed above the UNION where that would happen. They also stay where the rule fails,
/// as it does where a column and what is computed from it have one name.
pub(crate) fn leaf_unions(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Projection(_)) {
        return rule.rewrite(plan, config);
    }
    let before = plan.clone();
    let Ok(after) = rule.rewrite(plan, config) else { return Ok(Transformed::no(before)) };
    let mixed_up = after.transformed && any_node(&after.data, is_mixed_up)?;
    Ok(if mixed_up { Transformed::no(before) } else { after })
}

/// Whether the inputs of a UNION do not have the same parts at the same places.
fn is_mixed_up(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Union(union) => {
            let mut inputs = union.inputs.iter().map(|input| input.schema());
            let first = inputs.next();
            first.is_some_and(|first| inputs.any(|other| !have_same_parts(first, other)))
        }
        LogicalPlan::RecursiveQuery(query) => {
            !have_same_parts(query.static_term.schema(), query.recursive_term.schema())
        }
        _ => false,
    }
}

fn have_same_parts(left: &DFSchema, right: &DFSchema) -> bool {
    let are_parts = |name: &str| name.starts_with(TAKEN_OUT);
    left.fields().len() == right.fields().len()
        && left.fields().iter().zip(right.fields()).all(|(left, right)| {
            left.name() == right.name() || !are_parts(left.name()) && !are_parts(right.name())
        })
}
