//! `epoch` of a duration, as the difference of two times is one: its seconds with their fraction.
//!
//! The query engine's `date_part('epoch', duration)` cuts the fraction off.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};

/// Whether this asks for the epoch of something.
pub(super) fn is_concerned(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    call.name() == "date_part" && matches!(call.args.as_slice(), [part, _] if is_epoch(part))
}

fn is_epoch(part: &Expr) -> bool {
    let Expr::Literal(value, _) = part else { return false };
    let name = match value {
        ScalarValue::Utf8(name) | ScalarValue::LargeUtf8(name) | ScalarValue::Utf8View(name) => {
            name
        }
        _ => return false,
    };
    name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case("epoch"))
}

/// The seconds, where it is that of a duration.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::ScalarFunction(mut call) = expr else { return Transformed::no(expr) };
    let unit = match call.args.last().map(|of| of.get_type(schema)) {
        Some(Ok(DataType::Duration(unit))) => unit,
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
