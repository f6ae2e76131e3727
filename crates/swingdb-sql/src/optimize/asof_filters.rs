//! Conditions above an ASOF JOIN that are about its left side go below it.
//!
//! The engine pushes them through its own joins only. What is said of keys holds for the right side
//! as well, whose rows with other keys find nobody.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};

use crate::nodes::asof::AsofJoin;
use crate::nodes::expressions::filtered;
use crate::optimize::rule::OwnRule;

/// Runs before what pushes conditions through the engine's own joins, and so further down.
pub(crate) const ASOF_FILTERS: OwnRule = OwnRule::top_down("asof_filters", conditions_below);

fn conditions_below(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
    let Some(join) = asof_join(&filter.input) else { return Ok(Transformed::no(plan)) };
    let parts = split_conjunction_owned(filter.predicate.clone());
    let (below, above): (Vec<Expr>, Vec<Expr>) =
        parts.into_iter().partition(|part| is_of_left(part, join));
    if below.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let keys = plain_keys(join);
    let of_right = below.iter().filter_map(|part| about_right(part, &keys));
    let right = filtered(Arc::clone(&join.right), of_right.collect())?;
    let left = filtered(Arc::clone(&join.left), below)?;
    let node = AsofJoin::try_new(left, right, join.condition.clone(), join.outer)?;
    let join = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    filtered(Arc::new(join), above).map(|plan| Transformed::yes(Arc::unwrap_or_clone(plan)))
}

fn asof_join(plan: &LogicalPlan) -> Option<&AsofJoin> {
    let LogicalPlan::Extension(extension) = plan else { return None };
    AsofJoin::of(extension.node.as_ref())
}

fn is_of_left(part: &Expr, join: &AsofJoin) -> bool {
    let schema = join.left.schema();
    let is_query = |part: &Expr| {
        matches!(part, Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_))
    };
    let has_query = part.exists(|part| Ok(is_query(part))).unwrap_or(true);
    !part.is_volatile()
        && !has_query
        && part.column_refs().into_iter().all(|column| schema.has_column(column))
}

/// The keys that are columns on both sides.
fn plain_keys(join: &AsofJoin) -> HashMap<&Column, &Column> {
    let keys = join.condition.keys.iter();
    keys.filter_map(|[left, right]| left.try_as_col().zip(right.try_as_col())).collect()
}

/// The condition said of the right side's keys, if it is about keys alone.
fn about_right(part: &Expr, keys: &HashMap<&Column, &Column>) -> Option<Expr> {
    let columns = part.column_refs();
    if columns.is_empty() || !columns.iter().all(|column| keys.contains_key(*column)) {
        return None;
    }
    let exchanged = part.clone().transform(|part| {
        let column = part.try_as_col().and_then(|column| keys.get(column)).copied();
        Ok(column
            .map_or_else(|| Transformed::no(part), |c| Transformed::yes(Expr::Column(c.clone()))))
    });
    exchanged.ok().map(|exchanged| exchanged.data)
}
