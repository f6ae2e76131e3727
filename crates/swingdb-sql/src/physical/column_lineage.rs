//! Which column of an operator's input a column of its output is, by position, never by name.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use swingdb_operators::shared_join::SharedHashJoinExec;

type Expr = Arc<dyn PhysicalExpr>;

/// A condition on the output of `node` in terms of the output of its child at `place`; nothing when
/// that child does not have all its columns, or the operator is not known.
pub(crate) fn in_child(
    node: &dyn ExecutionPlan,
    place: usize,
    condition: &Expr,
) -> Result<Option<Expr>> {
    let mut complete = true;
    let moved = Arc::clone(condition).transform_down(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        match origin(node, place, column.index()) {
            // The expression found is in the child's columns already: do not look into it.
            Some(found) => Ok(Transformed::new(
                found,
                true,
                datafusion::common::tree_node::TreeNodeRecursion::Jump,
            )),
            None => {
                complete = false;
                Ok(Transformed::complete(part))
            }
        }
    })?;
    Ok(complete.then_some(moved.data))
}

/// The column of the child at `place` that is the column at `index` of the output.
pub(crate) fn column_in_child(
    node: &dyn ExecutionPlan,
    place: usize,
    index: usize,
) -> Option<usize> {
    Some(origin(node, place, index)?.downcast_ref::<Column>()?.index())
}

/// The expression on the child at `place` that makes the column at `index` of the output.
fn origin(node: &dyn ExecutionPlan, place: usize, index: usize) -> Option<Expr> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return projection.expr().get(index).map(|made| Arc::clone(&made.expr));
    }
    let child = Arc::clone(node.children().get(place)?);
    let shared = node.downcast_ref::<SharedHashJoinExec>().map(SharedHashJoinExec::join);
    if let Some(join) = shared.or_else(|| node.downcast_ref::<HashJoinExec>()) {
        let index = join.projection.as_ref().map_or(Some(index), |p| p.get(index).copied())?;
        return join_origin(join, place, index);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return aggregate.group_expr().expr().get(index).map(|(made, _)| Arc::clone(made));
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let index = filter.projection().as_ref().map_or(Some(index), |p| p.get(index).copied());
        return column(child.as_ref(), index?);
    }
    let (outer, inner) = (node.schema(), child.schema());
    let names = || outer.fields().iter().zip(inner.fields()).all(|(a, b)| a.name() == b.name());
    let same = outer.fields().len() == inner.fields().len();
    (same && (node.is::<UnionExec>() || names())).then(|| column(child.as_ref(), index)).flatten()
}

/// As [`origin`], before the projection the join ends with.
fn join_origin(join: &HashJoinExec, place: usize, index: usize) -> Option<Expr> {
    use JoinType as J;
    let left = join.left().schema().fields().len();
    let (side, index) = match join.join_type() {
        J::Inner | J::Left | J::Right | J::Full => {
            if index < left {
                (0, index)
            } else {
                (1, index - left)
            }
        }
        J::LeftSemi | J::LeftAnti => (0, index),
        J::RightSemi | J::RightAnti => (1, index),
        // Behind the columns of the one side comes a mark, which no child has.
        J::LeftMark => (0, index),
        J::RightMark => (1, index),
    };
    let child = join.children().get(side).map(|child| Arc::clone(child))?;
    if side == place {
        return column(child.as_ref(), index);
    }
    // Each row that leaves a semi join has a partner with an equal key.
    let is_key = |key: &Expr| key.downcast_ref::<Column>().is_some_and(|c| c.index() == index);
    match join.join_type() {
        J::LeftSemi => join.on().iter().find(|(l, _)| is_key(l)).map(|(_, r)| Arc::clone(r)),
        J::RightSemi => join.on().iter().find(|(_, r)| is_key(r)).map(|(l, _)| Arc::clone(l)),
        _ => None,
    }
}

fn column(child: &dyn ExecutionPlan, index: usize) -> Option<Expr> {
    let schema = child.schema();
    let name = schema.fields().get(index)?.name();
    Some(Arc::new(Column::new(name, index)))
}
