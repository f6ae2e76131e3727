//! Subqueries in the condition of an outer join: `a LEFT JOIN b ON a.x = b.x AND EXISTS (...)`.
//!
//! Above the join it is too late to ask them, since the join keeps rows that have no match. So what
//! they give stands beside the rows of the side that they refer to, before these are joined. So it
//! does in semi and anti joins, above which one side is gone.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::Join;

use crate::analyze::decorrelate::attach::Rows;
use crate::analyze::decorrelate::by_engine::subquery_of;
use crate::analyze::decorrelate::outer_references::references;

/// A join whose condition holds no subqueries. It has columns besides.
pub(crate) fn unnest(join: Join) -> Result<Join> {
    let Some(filter) = join.filter.clone() else { return Ok(join) };
    let mut left = Rows::new(join.left.as_ref().clone());
    let mut right = Rows::new(join.right.as_ref().clone());
    let filter = filter.transform_up(|part| {
        let Some(subquery) = subquery_of(&part) else { return Ok(Transformed::no(part)) };
        let outer = references(&subquery.subquery)?;
        let own = part.column_refs();
        let within = |side: &Rows| {
            let schema = side.base().schema();
            outer.iter().all(|(_, column)| schema.has_column(column))
                && own.iter().all(|column| schema.has_column(column))
        };
        let sides = [join.left.schema(), join.right.schema()];
        let is_own = |column| sides.iter().any(|side| side.has_column(column));
        if !outer.iter().all(|(_, column)| is_own(column)) {
            // Of a query around this one, which is unnested later.
            return Ok(Transformed::no(part));
        }
        let side = if within(&right) {
            &mut right
        } else if within(&left) {
            &mut left
        } else {
            return not_impl_err!(
                "a subquery that refers to rows of both sides, in the condition of a {} JOIN; \
                 write an inner join, and UNION ALL of the rows without a match",
                join.join_type
            );
        };
        side.result_of(part, false)
    });
    Join::try_new(
        Arc::new(left.plan),
        Arc::new(right.plan),
        join.on,
        Some(filter.data()?),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )
}
