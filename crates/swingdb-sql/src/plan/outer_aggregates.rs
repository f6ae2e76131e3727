//! Aggregates of the rows outside a subquery, which SQL computes outside.
//!
//! In `SELECT (SELECT max(t.x)) FROM t` all columns of the aggregate are of the query outside: it
//! is that query's, which then gives one row. The query engine takes it for one of the subquery,
//! and would answer for each row of `t`.

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// A node, unless it computes such an aggregate.
pub(crate) fn check(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(node) };
    for expr in &aggregate.aggr_expr {
        if expr.exists(|part| Ok(is_outside(part)))? {
            let expr = expr.to_string().replace("outer_ref", "");
            return not_impl_err!(
                "{expr}, an aggregate of the rows outside the subquery it is in; write it beside \
                 the subquery, or in one of its own: (SELECT max(x) FROM t)"
            );
        }
    }
    Ok(node)
}

/// Whether all columns of an aggregate are of the query outside. `array(SELECT t.x FROM u)` is a
/// list of the subquery's rows all the same; it says that it respects NULLs.
fn is_outside(expr: &Expr) -> bool {
    let Expr::AggregateFunction(AggregateFunction { params, .. }) = expr else { return false };
    let is_array = params.null_treatment == Some(NullTreatment::RespectNulls);
    let (mut outside, mut inside) = (false, is_array);
    for arg in &params.args {
        outside |= arg.contains_outer();
        inside |= !arg.column_refs().is_empty();
    }
    outside && !inside
}
