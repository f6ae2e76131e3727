//! Scans with conditions that hold for no row, or for all: [`CONSTANT_CONDITIONS`].
//!
//! A condition on a column that is a constant becomes one without columns on its way down to the
//! scan: of `SELECT 's' AS kind, ... UNION ALL SELECT 'c', ...` where `kind = 's'`, the second part
//! reads a table where `'c' = 's'`. The engine's rules find that such a part is empty above a
//! filter, and not above a scan.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;

use crate::optimize::rule::OwnRule;

/// See the [module documentation](self). To run before empty relations are handed up.
pub(crate) const CONSTANT_CONDITIONS: OwnRule = OwnRule::top_down("constant_conditions", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::TableScan(mut scan) = plan else { return Ok(Transformed::no(plan)) };
    if !scan.filters.iter().any(|filter| constant(filter).is_some()) {
        return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
    }
    if scan.filters.iter().any(|filter| constant(filter) == Some(false)) {
        let schema = scan.projected_schema;
        let empty = EmptyRelation { produce_one_row: false, schema };
        return Ok(Transformed::yes(LogicalPlan::EmptyRelation(empty)));
    }
    scan.filters.retain(|filter| constant(filter).is_none());
    Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
}

/// Whether a condition that is a constant holds.
fn constant(condition: &Expr) -> Option<bool> {
    match condition {
        Expr::Literal(ScalarValue::Boolean(holds), _) => Some(holds.unwrap_or(false)),
        Expr::Literal(value, _) if value.is_null() => Some(false),
        _ => None,
    }
}
