//! Subqueries in the condition of a join: `a LEFT JOIN b ON a.x = b.x AND EXISTS (...)`.
//!
//! An inner join's are asked above it. Above others it is too late: an outer join keeps rows that
//! have no match, and a semi join one row of all that match. So what they give stands beside the
//! rows of the side that they refer to, before these are joined.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::logical_expr::Join;

use crate::analyze::decorrelate::attach::Rows;
use crate::analyze::decorrelate::by_engine::subquery_of;
use crate::analyze::decorrelate::outer_references::references;

/// A join, other than an inner one, whose condition holds no subqueries. It has columns besides.
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
        let is_of_join = |column: &Column| {
            [&left, &right].iter().any(|side| side.base().schema().has_column(column))
        };
        if !outer.iter().all(|(_, column)| is_of_join(column)) {
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
                 write an inner join, and beside it (UNION ALL) or instead (EXISTS, NOT EXISTS) \
                 what this join does",
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
