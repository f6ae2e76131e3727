//! Grouping sets that are computed from each other: [`GROUPING_SETS`].
//!
//! For `GROUP BY ROLLUP (a, b, c)` the query engine deals out each row four times. Where there are
//! far fewer groups by all of `a, b, c` than rows, it is better to group by all of them first, and
//! to make the sets of what that gives: sums of sums, sums of counts, least of least. Where there
//! are many groups, see [`rollups`](crate::optimize::rollups).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};

use crate::analyze::equality::groups::each_key;
use crate::optimize::aggregate_rewrite::{TwoSteps, as_one, is_grouped, replace_aggregate};
use crate::optimize::estimate::{Estimate, estimate};
use crate::optimize::rule::OwnRule;

/// Rows that a group must have on average.
const ROWS_PER_GROUP: f64 = 4.0;

/// See the [module documentation](self).
pub(crate) const GROUPING_SETS: OwnRule =
    OwnRule::bottom_up("GroupingSets", |plan| replace_aggregate(plan, in_two_steps));

/// Grouping by everything first; `None`: it is not worth it, or there is an aggregate whose values
/// cannot be put together from those of parts.
fn in_two_steps(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Some((sets, keys)) = sets_of(aggregate)? else { return Ok(None) };
    let Some(TwoSteps { first, second, together }) = TwoSteps::of(aggregate)? else {
        return Ok(None);
    };
    if is_grouped(&aggregate.input) || !are_few(&estimate(&aggregate.input), &keys) {
        return Ok(None);
    }
    let groups = LogicalPlanBuilder::from(Arc::clone(&aggregate.input));
    let groups = groups.aggregate(keys.clone(), first)?.build()?;
    let columns = keys.into_iter().zip(groups.schema().columns().into_iter().map(Expr::Column));
    let columns: HashMap<Expr, Expr> = columns.collect();
    let sets = Expr::GroupingSet(each_key(sets.clone(), &mut |key| columns[&key].clone()));
    let outer = Aggregate::try_new(Arc::new(groups), vec![sets], second)?;
    as_one(aggregate, outer, together).map(Some)
}

/// The sets of an aggregate that has some, and the keys in them, if these can be grouped by first.
pub(crate) fn sets_of(aggregate: &Aggregate) -> Result<Option<(&GroupingSet, Vec<Expr>)>> {
    let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() else { return Ok(None) };
    let keys: Vec<Expr> = sets.distinct_expr().into_iter().cloned().collect();
    for key in &keys {
        // Those of one length are one in a plain group, and in sets each for itself.
        if matches!(key.get_type(aggregate.input.schema())?, DataType::Interval(_)) {
            return Ok(None);
        }
    }
    Ok(Some((sets, keys)))
}

/// Whether there are few groups by `keys`.
fn are_few(input: &Estimate, keys: &[Expr]) -> bool {
    input.groups(keys) * ROWS_PER_GROUP <= input.rows
}
