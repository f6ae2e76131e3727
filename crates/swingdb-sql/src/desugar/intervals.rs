//! `INTERVAL '1 decade 02:03:04.5'`: all units, and hours, minutes and seconds as a clock shows
//! them.
//!
//! The engine reads numbers with few units only: the text becomes months, days and nanoseconds.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Interval, Value, ValueWithSpan};
use swingdb_common::time::intervals::in_units;

/// Rewrites the text of an interval, or that is cast to one.
pub(crate) fn rewrite(expr: &mut Expr) {
    let text = match expr {
        Expr::Interval(Interval { value, leading_field: None, .. }) => value,
        Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => expr,
        _ => return,
    };
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &mut **text
        && let Some(new) = in_units(text)
    {
        *text = new;
    }
}
