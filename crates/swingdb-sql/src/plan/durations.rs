//! `epoch` of a duration, as the difference of two times is one: its seconds with their fraction.
//! And of an interval, whose years have 365.25 days, as in DuckDB and PostgreSQL.
//!
//! The query engine's `date_part('epoch', duration)` cuts the fraction off, and counts years as
//! twelve months of 30 days. It takes `'"epoch"'` for the same; there the years stay so.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};
use swingdb_functions::time::seconds::interval_seconds;

/// Whether this asks for the epoch of something.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    call.name() == "date_part" && matches!(call.args.as_slice(), [part, _] if is_epoch(part))
}

fn is_epoch(part: &Expr) -> bool {
    let Expr::Literal(value, _) = part else { return false };
    let name = value.try_as_str().flatten().unwrap_or_default();
    name.trim_matches('"').eq_ignore_ascii_case("epoch")
}

fn is_quoted(part: &Expr) -> bool {
    matches!(part, Expr::Literal(value, _)
        if value.try_as_str().flatten().is_some_and(|name| name.starts_with('"')))
}

/// The seconds, where it is that of a duration.
pub(crate) fn rewrite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::ScalarFunction(mut call) = expr else { return Transformed::no(expr) };
    let unit = match call.args.last().map(|of| of.get_type(schema)) {
        Some(Ok(DataType::Duration(unit))) => unit,
        Some(Ok(DataType::Interval(_))) if !call.args.first().is_some_and(is_quoted) => {
            let whole = DataType::Interval(IntervalUnit::MonthDayNano);
            let interval = call.args.pop().map(|interval| cast(interval, whole));
            return Transformed::yes(interval_seconds().call(interval.into_iter().collect()));
        }
        _ => return Transformed::no(Expr::ScalarFunction(call)),
    };
    let Some(duration) = call.args.pop() else {
        return Transformed::no(Expr::ScalarFunction(call));
    };
    let second = match unit {
        TimeUnit::Second => 1.0,
        TimeUnit::Millisecond => 1e3,
        TimeUnit::Microsecond => 1e6,
        TimeUnit::Nanosecond => 1e9,
    };
    Transformed::yes(cast(cast(duration, DataType::Int64), DataType::Float64) / lit(second))
}
