//! Items of a SELECT list that keys of GROUP BY, ORDER BY and DISTINCT ON mean by number or by
//! name.

use datafusion::sql::sqlparser::ast::{Expr, SelectItem, Value, ValueWithSpan};

/// The column of the result that a number stands for.
pub(crate) fn column(key: &Expr, columns: &[SelectItem]) -> Option<Expr> {
    let place = number(key)?.checked_sub(1)?;
    let plain = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(expr.clone())
        }
        _ => None,
    };
    // Behind a `*` numbers are not known.
    let plain = columns.iter().take(place + 1).map(plain).collect::<Option<Vec<_>>>()?;
    plain.into_iter().nth(place)
}

/// A number that is written as a key.
pub(crate) fn number(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.parse().ok(),
        _ => None,
    }
}
