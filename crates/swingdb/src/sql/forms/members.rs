//! `(expr).field`: a field of a STRUCT that is no plain column.
//!
//! The engine takes the name of the field as text only: `(expr)['field']`. This comes before names
//! are resolved, as the field is no column.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Select, SelectItem, Statement, Subscript, VisitorMut,
};

use super::text;
use crate::sql::visit::walk_mut;

/// Puts texts for the names of fields.
pub(crate) fn name_members(statement: &mut Statement) {
    // Never breaks.
    let _ = walk_mut(statement, &mut Namer);
}

struct Namer;

impl VisitorMut for Namer {
    type Break = ();

    /// An item keeps the name that its text gives it.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && is_member(expr)
            {
                let alias = Ident::with_quote('"', expr.to_string());
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
            for access in access_chain {
                if let AccessExpr::Dot(Expr::Identifier(name)) = access {
                    let index = text(&name.value);
                    *access = AccessExpr::Subscript(Subscript::Index { index });
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn is_member(expr: &Expr) -> bool {
    match expr {
        Expr::CompoundFieldAccess { access_chain, .. } => {
            access_chain.iter().any(|access| matches!(access, AccessExpr::Dot(Expr::Identifier(_))))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::sql::dialect::DIALECT;

    #[test]
    fn fields_are_texts() {
        for (given, expected) in [
            ("SELECT (s).a.b FROM t", "SELECT (s)['a']['b'] AS \"(s).a.b\" FROM t"),
            ("SELECT f(x).a + 1, l[1].b AS b", "SELECT f(x)['a'] + 1, l[1]['b'] AS b"),
            ("SELECT s.a FROM t", "SELECT s.a FROM t"),
        ] {
            let mut statements = Parser::parse_sql(&DIALECT, given).unwrap();
            name_members(&mut statements[0]);
            assert_eq!(statements[0].to_string(), expected);
        }
    }
}
