//! `FROM range(a, b, INTERVAL '1 day')` and `FROM generate_series(...)` of points in time.
//!
//! They are the elements of the list that the function of that name makes of a row. The engine's
//! function of tables knows no clock of a zone, and has nanoseconds, so no years after 2262.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};

const COLUMN: &str = "value";

/// The rows of a function of tables, if it is a series of points in time.
pub(crate) fn of_points(
    name: &str,
    args: &[Expr],
    state: &SessionState,
) -> Result<Option<LogicalPlan>> {
    if !matches!(name, "range" | "generate_series") {
        return Ok(None);
    }
    let Some(function) = state.scalar_functions().get(name) else { return Ok(None) };
    let mut given = Vec::with_capacity(args.len());
    let mut has_points = false;
    for arg in args {
        let Expr::Literal(value, _) = arg else {
            return plan_err!(
                "{name}(...) in FROM takes constants, not {arg}; unnest({name}(...)) takes columns"
            );
        };
        given.push(match value.data_type() {
            DataType::Date32 => cast(arg.clone(), DataType::Timestamp(TimeUnit::Microsecond, None)),
            _ => arg.clone(),
        });
        has_points |= matches!(value.data_type(), DataType::Date32 | DataType::Timestamp(..));
    }
    if !has_points {
        return Ok(None);
    }
    let list = function.call(given).alias(COLUMN);
    let rows = LogicalPlanBuilder::empty(true).project([list])?.unnest_column(COLUMN)?;
    Ok(Some(rows.build()?))
}
