//! Joins that must not be taken apart by the query engine: [`cross_joins`].

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::nodes::expressions::any_node;

/// The engine's rule that turns cross joins into inner joins. It takes whole trees of inner joins
/// apart into relations and equations, and loses an equation of which one side is of two relations,
/// as in `a.x = b.y + c.z`; and it compares NULLs in all joins of a tree as in the topmost. So it
/// is not asked about plans with such joins: [`JoinOrder`](super::join_order::JoinOrder) does the
/// same.
pub(crate) fn cross_joins(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let is_it = |node: &LogicalPlan| matches!(node, LogicalPlan::Join(join) if is_mistaken(join));
    let mistaken = any_node(&plan, is_it)?;
    if mistaken { Ok(Transformed::no(plan)) } else { rule.rewrite(plan, config) }
}

fn is_mistaken(join: &Join) -> bool {
    let mut sides = join.on.iter().flat_map(|(left, right)| [left, right]);
    join.join_type == JoinType::Inner
        && !join.on.is_empty()
        && (join.null_equality == NullEquality::NullEqualsNull || sides.any(is_of_several))
}

/// Whether the columns of an expression may be of more than one relation.
fn is_of_several(side: &Expr) -> bool {
    let columns = side.column_refs();
    let mut relations = columns.iter().map(|column| column.relation.as_ref());
    let first = relations.next();
    columns.len() > 1 && (first == Some(None) || relations.any(|relation| Some(relation) != first))
}
