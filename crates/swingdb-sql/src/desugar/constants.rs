//! Constants as keys: of ORDER BY, of DISTINCT ON, of the order inside of an aggregate's brackets.
//!
//! A whole number is the place of a column of the result, and inside of an aggregate nothing but a
//! constant: the engine would take it for the place of a column of FROM. Any other constant orders
//! nothing. It is an error, as in DuckDB and PostgreSQL: mostly something else was meant, as in
//! `string_agg(x ORDER BY x, '_')`, whose second key is a text.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, OrderBy, OrderByKind, Query,
    UnaryOperator, Value,
};
use swingdb_common::error::{Error, Result};

use crate::ast::select_items;

/// The place of a column that a key of `clause` stands for; `None` where it is an expression.
pub(crate) fn place(key: &Expr, clause: &str) -> Result<Option<usize>> {
    match key {
        Expr::Nested(inner) => place(inner, clause),
        // Its value may be a number, and is never a place.
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => Ok(None),
        Expr::Value(_) => match select_items::number(key) {
            None => Err(Error::plan(format!(
                "{clause} {key}: a constant orders nothing; write a column, or its number"
            ))),
            number => Ok(number),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr }
            if select_items::number(expr).is_some() =>
        {
            Err(Error::plan(format!("{clause} {key}: columns are counted from 1")))
        }
        _ => Ok(None),
    }
}

/// Looks at the keys by which a query is ordered.
pub(crate) fn check(query: &Query) -> Result<()> {
    let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &query.order_by else {
        return Ok(());
    };
    keys.iter().try_for_each(|key| place(&key.expr, "ORDER BY").map(|_| ()))
}

/// Puts numbers by which an aggregate is ordered in brackets, where they are constants.
pub(crate) fn settle(call: &mut Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    for clause in &mut list.clauses {
        let FunctionArgumentClause::OrderBy(keys) = clause else { continue };
        for key in keys {
            let of_call = || format!("{}(... ORDER BY", call.name);
            if place(&key.expr, &of_call())?.is_some() {
                key.expr = Expr::Nested(Box::new(key.expr.clone()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn numbers_are_places_and_other_constants_are_errors() {
        for same in ["SELECT a, b FROM t ORDER BY 2, a + 1", "SELECT a FROM t ORDER BY lower('x')"]
        {
            assert_eq!(rewritten(same).unwrap(), same);
        }
        assert_eq!(
            rewritten("SELECT list(a ORDER BY 2 DESC, b) FROM t").unwrap(),
            "SELECT list(a ORDER BY (2) DESC, b) FROM t"
        );
        for wrong in [
            "SELECT a FROM t ORDER BY 'a'",
            "SELECT a FROM t ORDER BY NULL",
            "SELECT a FROM t ORDER BY -1",
            "SELECT a FROM t UNION SELECT b FROM t ORDER BY true",
            "SELECT string_agg(a ORDER BY a, '_') FROM t",
            "SELECT list(a ORDER BY 1.5) FROM t",
        ] {
            assert!(rewritten(wrong).is_err(), "{wrong}");
        }
    }
}
