//! `SELECT DISTINCT ON (a) ... ORDER BY b`: of the rows with the same `a` the first in the order of
//! the result.
//!
//! The query engine knows it where the order begins with `a`. Else it becomes a condition on the
//! number of a row among those: `QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1`.
//! `DISTINCT ON (2)` means the second column of the result; the engine would take the 2 for a
//! value, which all rows have.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableWithJoins, WindowSpec, WindowType,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::build::call;
use crate::ast::select_items;
use crate::ast::select_items::column;
use crate::desugar::constants;

/// Gives the columns that a star in a SELECT list stands for, if they are known.
pub(crate) type StarsOf<'a> = dyn Fn(&SelectItem, &[TableWithJoins]) -> Option<Vec<Expr>> + 'a;

/// Rewrites a query, unless the engine knows it as it is.
pub(crate) fn rewrite(query: &mut Query, stars: &StarsOf<'_>) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    name_numbers(select, stars)?;
    if let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &query.order_by {
        first_in_order(select, order);
    }
    Ok(())
}

/// Puts columns of the result in the place of their numbers.
fn name_numbers(select: &mut Select, stars: &StarsOf<'_>) -> Result<()> {
    let Some(Distinct::On(keys)) = &select.distinct else { return Ok(()) };
    let column = |key: &Expr| -> Result<Expr> {
        let Some(place) = constants::place(key, "DISTINCT ON")? else { return Ok(key.clone()) };
        nth(place, select, stars).ok_or_else(|| {
            Error::plan(format!(
                "DISTINCT ON ({place}): there is no column of this number whose name is known; \
                 write the column"
            ))
        })
    };
    let keys = keys.iter().map(column).collect::<Result<Vec<_>>>()?;
    select.distinct = Some(Distinct::On(keys));
    Ok(())
}

/// The column of the result that a number stands for.
fn nth(place: usize, select: &Select, stars: &StarsOf<'_>) -> Option<Expr> {
    let mut before = place.checked_sub(1)?;
    for item in &select.projection {
        let columns = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                vec![expr.clone()]
            }
            // Columns that it changes or leaves out are not what the relation's are.
            star if star.to_string().ends_with('*') => stars(star, &select.from)?,
            _ => return None,
        };
        match columns.get(before) {
            Some(column) => return Some(column.clone()),
            None => before -= columns.len(),
        }
    }
    None
}

/// Makes a condition of the clause, unless the engine knows it in this order.
fn first_in_order(select: &mut Select, order: &[OrderByExpr]) {
    let Some(Distinct::On(on)) = &select.distinct else { return };
    if select.qualify.is_some() || order.is_empty() || is_known(on, order) {
        return;
    }
    let Some(on) = on.iter().map(|key| meant(key, select)).collect::<Option<Vec<_>>>() else {
        return;
    };
    let order =
        order.iter().map(|by| Some(OrderByExpr { expr: meant(&by.expr, select)?, ..by.clone() }));
    let Some(order) = order.collect::<Option<Vec<_>>>() else { return };
    let mut number = call("row_number", []);
    if let Expr::Function(function) = &mut number {
        function.over = Some(WindowType::WindowSpec(WindowSpec {
            window_name: None,
            partition_by: on,
            order_by: order,
            window_frame: None,
        }));
    }
    select.distinct = None;
    select.qualify = Some(build::binary(number, BinaryOperator::Eq, build::integer(1)));
}

/// Whether the order begins with what is to be distinct, by name.
fn is_known(on: &[Expr], order: &[OrderByExpr]) -> bool {
    let begins = on.len() <= order.len() && on.iter().zip(order).all(|(on, by)| *on == by.expr);
    begins && on.iter().all(|key| select_items::number(key).is_none())
}

/// An expression that may be the number or the name of a column of the result.
fn meant(key: &Expr, select: &Select) -> Option<Expr> {
    if select_items::number(key).is_some() {
        return column(key, &select.projection);
    }
    let named = select.projection.iter().find_map(|item| match (item, key) {
        (SelectItem::ExprWithAlias { expr, alias }, Expr::Identifier(name))
            if alias.value == name.value =>
        {
            Some(expr.clone())
        }
        _ => None,
    });
    Some(named.unwrap_or_else(|| key.clone()))
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn the_first_row_in_the_order_of_the_result() {
        for (given, expected) in [
            (
                "SELECT DISTINCT ON (a) a, b FROM t ORDER BY b DESC LIMIT 1",
                "SELECT a, b FROM t QUALIFY \
                 (row_number() OVER (PARTITION BY a ORDER BY b DESC)) = 1 ORDER BY b DESC LIMIT 1",
            ),
            (
                "SELECT DISTINCT ON (1) a + 1, b FROM t",
                "SELECT DISTINCT ON (a + 1) a + 1, b FROM t",
            ),
            (
                "SELECT DISTINCT ON (1) a + 1 AS x, b FROM t ORDER BY 2, x",
                "SELECT a + 1 AS x, b FROM t QUALIFY \
                 (row_number() OVER (PARTITION BY a + 1 ORDER BY b, a + 1)) = 1 ORDER BY 2, x",
            ),
        ] {
            assert_eq!(rewritten(given).unwrap(), expected);
        }
        for same in [
            "SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b",
            "SELECT DISTINCT ON (a) a, b FROM t",
            "SELECT DISTINCT a FROM t ORDER BY b",
        ] {
            assert_eq!(rewritten(same).unwrap(), same);
        }
        for wrong in [
            "SELECT DISTINCT ON (3) a, b FROM t",
            "SELECT DISTINCT ON (0) a, b FROM t",
            "SELECT DISTINCT ON (-1) a, b FROM t",
            "SELECT DISTINCT ON ('a') a, b FROM t",
            "SELECT DISTINCT ON (1) * FROM t",
        ] {
            assert!(rewritten(wrong).is_err(), "{wrong}");
        }
    }
}
