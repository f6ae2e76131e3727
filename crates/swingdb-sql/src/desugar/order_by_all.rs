//! `ORDER BY ALL`: the columns of the result from left to right.
//!
//! The query engine knows it for one SELECT, and forgets it for UNION and the like: those are
//! sorted by the columns of the first SELECT, by number.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Statement, VisitorMut,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::walk::walk_mut;

/// Puts the numbers of the columns for ALL where they are known from the text; the engine expands
/// the `*` of one SELECT itself.
pub(crate) fn order_by_all(statement: &mut Statement) -> Result<()> {
    let mut expander = Expander { unknown: false };
    let _ = walk_mut(statement, &mut expander);
    match expander.unknown {
        true => Err(Error::unsupported("ORDER BY ALL of * in a set operation; name the columns")),
        false => Ok(()),
    }
}

struct Expander {
    unknown: bool,
}

impl VisitorMut for Expander {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let single = matches!(query.body.as_ref(), SetExpr::Select(_));
        let columns = columns(&query.body);
        let Some(OrderBy { kind, .. }) = &mut query.order_by else {
            return ControlFlow::Continue(());
        };
        if let OrderByKind::All(options) = kind {
            match columns {
                Some(count) => {
                    let number = |n| OrderByExpr {
                        expr: build::integer(n),
                        options: *options,
                        with_fill: None,
                    };
                    *kind = OrderByKind::Expressions((1..=count).map(number).collect());
                }
                None if single => {}
                None => {
                    self.unknown = true;
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// How many columns a query has, when the text says it.
fn columns(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let plain = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            let count = select.projection.len();
            select.projection.iter().all(plain).then_some(count)
        }
        SetExpr::SetOperation { left, .. } => columns(left),
        SetExpr::Query(query) => columns(&query.body),
        SetExpr::Values(values) => Some(values.rows.first()?.content.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    fn expanded(sql: &str) -> Result<String> {
        let mut statements = Parser::parse_sql(&DIALECT, sql).unwrap();
        order_by_all(&mut statements[0])?;
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
            ("SELECT * FROM t ORDER BY ALL", "SELECT * FROM t ORDER BY ALL"),
            ("SELECT a FROM t ORDER BY b", "SELECT a FROM t ORDER BY b"),
        ] {
            assert_eq!(expanded(sql).unwrap(), expected);
        }
        assert!(expanded("SELECT * FROM t UNION SELECT * FROM t ORDER BY ALL").is_err());
    }
}
