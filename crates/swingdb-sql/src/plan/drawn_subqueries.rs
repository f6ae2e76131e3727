//! Subqueries that draw random numbers, or take those of a sequence, and are used as a value.
//!
//! The engine runs subqueries once that are written the same: `(SELECT random()) = (SELECT
//! random())` would be true. So each gets a name of its own. It runs once all the same wherever its
//! value is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, Subquery};

use swingdb_common::hidden;

use crate::nodes::expressions::{any_node, any_part};
use crate::plan::drawn_once;

/// Whether this is such a subquery. Correlated ones become joins, each of its own.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, .. }) => {
            let draws = any_node(subquery, |node| any_part(node, drawn_once::is_draw));
            outer_ref_columns.is_empty() && draws.unwrap_or(true)
        }
        _ => false,
    }
}

/// How such names begin.
const DRAWN: &str = hidden!("drawn ");

/// A name that no other subquery has.
fn name() -> TableReference {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    TableReference::bare(format!("{DRAWN}{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// Another name for a copy of such a subquery; the same for all else.
pub(crate) fn name_anew(known: TableReference) -> TableReference {
    if known.table().starts_with(DRAWN) { name() } else { known }
}

/// The subquery under a name that no other has.
pub(crate) fn rewrite(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let plan = LogicalPlanBuilder::from(subquery).alias(name())?.build()?;
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans };
    Ok(Transformed::yes(Expr::ScalarSubquery(subquery)))
}
