//! `INTERVAL '1 day 02:03:04.5'`: hours, minutes and seconds as a clock shows them.
//!
//! The engine reads numbers with units only: such a part becomes `2 hours 3 minutes 4.5 seconds`.

use datafusion::sql::sqlparser::ast::{DataType, Expr, Interval, Value, ValueWithSpan};

use crate::interval_text::with_units;

/// Rewrites the text of an interval, or that is cast to one.
pub(super) fn rewrite(expr: &mut Expr) {
    let text = match expr {
        Expr::Interval(Interval { value, leading_field: None, .. }) => value,
        Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => expr,
        _ => return,
    };
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &mut **text
        && let Some(new) = with_units(text)
    {
        *text = new;
    }
}
