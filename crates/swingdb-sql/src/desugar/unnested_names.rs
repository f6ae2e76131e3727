//! `SELECT -a AS a, unnest(l) FROM t`: a computed value under the name of a column, beside
//! `unnest`.
//!
//! The engine computes such values below the lists that are unnested, beside the columns, where one
//! name would be two. So the query becomes `SELECT v AS a, "unnest(l)" FROM (SELECT -a AS v,
//! unnest(l) FROM t)`.

use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, SetExpr};
use swingdb_common::error::Result;
use swingdb_common::hidden;

use crate::ast::build;
use crate::ast::names::quoted;
use crate::desugar::unnested_order::{calls_unnest, names};

/// No user's column, and no relation, is called so.
const VALUE: &str = hidden!("value");

/// Rewrites a query, where it has such a value.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let Some(places) = places(select) else { return Ok(()) };
    let mut shown = Vec::with_capacity(select.projection.len());
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (expr, alias) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), alias.clone()),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                (Expr::Identifier(name.clone()), name.clone())
            }
            SelectItem::UnnamedExpr(expr) => (expr.clone(), quoted(&expr.to_string())),
            _ => return Ok(()),
        };
        let inner = match places.contains(&at) {
            true => quoted(&format!("{VALUE}{at}")),
            false => alias.clone(),
        };
        *item = SelectItem::ExprWithAlias { expr, alias: inner.clone() };
        shown.push(SelectItem::ExprWithAlias { expr: Expr::Identifier(inner), alias });
    }
    build::show_of(query, shown, &quoted(VALUE))
}

/// The places of values whose names are those of columns that the SELECT list has; `None` where
/// there are none, or where it is not known what the list shows.
fn places(select: &Select) -> Option<Vec<usize>> {
    let (mut columns, mut unnests) = (Vec::new(), false);
    for item in &select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return None;
        };
        if let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(_)) = item {
            return None;
        }
        unnests |= calls_unnest(expr);
        columns.extend(names(expr).into_iter().map(|name| name.name));
    }
    if !unnests {
        return None;
    }
    let is_clash = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            !is_column && !calls_unnest(expr) && columns.contains(&alias.value.to_lowercase())
        }
        _ => false,
    };
    let places = (0..select.projection.len()).filter(|at| is_clash(&select.projection[*at]));
    Some(places.collect::<Vec<_>>()).filter(|places| !places.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::desugar::tests::rewritten;

    #[test]
    fn a_value_under_the_name_of_a_column() {
        let found = rewritten("SELECT -a AS A, unnest(l) AS x FROM t ORDER BY a LIMIT 2");
        assert_eq!(
            found.unwrap().replace('\u{1}', ""),
            "SELECT \"value0\" AS A, x AS x FROM (SELECT -a AS \"value0\", unnest(l) AS x \
             FROM t) AS \"value\" ORDER BY a LIMIT 2"
        );
        for same in [
            "SELECT a AS b, unnest(l) AS x FROM t",
            "SELECT -a AS b, unnest(l) AS x FROM t",
            "SELECT -a AS a FROM t",
            "SELECT *, -a AS a, unnest(l) AS x FROM t",
        ] {
            assert_eq!(rewritten(same).unwrap(), same);
        }
    }
}
