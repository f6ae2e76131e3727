//! `ORDER BY ALL`: the columns of the result from left to right, by number.
//!
//! The query engine knows it for one SELECT whose columns have different names, and forgets it for
//! UNION and the like: those are sorted by the columns of the first SELECT, with BY NAME by those
//! of all.

use datafusion::sql::sqlparser::ast::{
    OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, TableWithJoins,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::shown_names::{is_by_name, name_of, shown_names};
use crate::desugar::distinct_on::StarsOf;

/// Puts the numbers of the columns for ALL. Where it is not known what a `*` stands for, the engine
/// expands that of one SELECT itself.
pub(crate) fn rewrite(query: &mut Query, stars: &StarsOf<'_>) -> Result<()> {
    let Some(OrderBy { kind, .. }) = &mut query.order_by else { return Ok(()) };
    let OrderByKind::All(options) = kind else { return Ok(()) };
    match columns(&query.body, stars) {
        Some(count) => {
            let options = *options;
            let by =
                |number| OrderByExpr { expr: build::integer(number), options, with_fill: None };
            *kind = OrderByKind::Expressions((1..=count).map(by).collect());
            Ok(())
        }
        None if matches!(query.body.as_ref(), SetExpr::Select(_)) => Ok(()),
        None => {
            Err(Error::unsupported("ORDER BY ALL of this * in a set operation; name the columns"))
        }
    }
}

/// How many columns a query has, if it is known.
fn columns(body: &SetExpr, stars: &StarsOf<'_>) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let counts = select.projection.iter().map(|item| match item {
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => Some(1),
                star => Some(stars(star, &select.from)?.len()),
            });
            counts.sum()
        }
        SetExpr::SetOperation { left, set_quantifier, .. } => match is_by_name(*set_quantifier) {
            true => {
                let names = |star: &SelectItem, from: &[TableWithJoins]| {
                    Some(stars(star, from)?.iter().map(name_of).collect())
                };
                Some(shown_names(body, &names)?.len())
            }
            false => columns(left, stars),
        },
        SetExpr::Query(query) => columns(&query.body, stars),
        SetExpr::Values(values) => Some(values.rows.first()?.content.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{Expr, Ident, Statement};
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn expanded(sql: &str) -> Result<String> {
        let mut statements = Parser::parse_sql(&DIALECT, sql).unwrap();
        let Statement::Query(query) = &mut statements[0] else { panic!("{sql} is no query") };
        // The relation `t` has three columns, others are not known.
        let stars = |_: &SelectItem, from: &[TableWithJoins]| {
            let column = |name: &str| Expr::Identifier(Ident::new(name));
            (from[0].to_string() == "t").then(|| ["a", "b", "a"].map(column).to_vec())
        };
        rewrite(query, &stars)?;
        Ok(statements[0].to_string())
    }

    #[test]
    fn columns_are_counted() {
        for (sql, expected) in [
            (
                "SELECT a, b + 1 FROM t ORDER BY ALL DESC",
                "SELECT a, b + 1 FROM t ORDER BY 1 DESC, 2 DESC",
            ),
            (
                "SELECT a FROM t UNION SELECT b FROM t ORDER BY ALL NULLS FIRST",
                "SELECT a FROM t UNION SELECT b FROM t ORDER BY 1 NULLS FIRST",
            ),
            (
                "SELECT a FROM t UNION BY NAME SELECT b, A FROM t ORDER BY ALL",
                "SELECT a FROM t UNION BY NAME SELECT b, A FROM t ORDER BY 1, 2",
            ),
            ("SELECT *, 1 FROM t ORDER BY ALL", "SELECT *, 1 FROM t ORDER BY 1, 2, 3, 4"),
            ("SELECT * FROM u ORDER BY ALL", "SELECT * FROM u ORDER BY ALL"),
            ("SELECT a FROM t ORDER BY b", "SELECT a FROM t ORDER BY b"),
            (
                "SELECT * FROM t UNION SELECT * FROM u ORDER BY ALL",
                "SELECT * FROM t UNION SELECT * FROM u ORDER BY 1, 2, 3",
            ),
        ] {
            assert_eq!(expanded(sql).unwrap(), expected);
        }
        assert!(expanded("SELECT * FROM u UNION SELECT * FROM t ORDER BY ALL").is_err());
    }
}
