//! A sort of rows without columns is left out: [`EMPTY_SORTS`].
//!
//! Under a `count(*)` the engine drops all columns of the rows. An order by what is drawn for each
//! row, as in `USING SAMPLE 50 ROWS`, needs none, so the sort stays; the engine's operator for it
//! cannot hold rows without columns. All such rows are the same, so any of them will do.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Limit, LogicalPlan, lit};

use crate::optimize::rule::OwnRule;

/// See the [module documentation](self). To run after columns are dropped.
pub(crate) const EMPTY_SORTS: OwnRule = OwnRule::bottom_up("empty_sorts", without_sort);

fn without_sort(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let sort = match plan {
        LogicalPlan::Sort(sort) if sort.input.schema().fields().is_empty() => sort,
        other => return Ok(Transformed::no(other)),
    };
    let Some(fetch) = sort.fetch else {
        return Ok(Transformed::yes(LogicalPlan::clone(&sort.input)));
    };
    let rows = i64::try_from(fetch).unwrap_or(i64::MAX);
    let limit = Limit { skip: None, fetch: Some(Box::new(lit(rows))), input: sort.input };
    Ok(Transformed::yes(LogicalPlan::Limit(limit)))
}
