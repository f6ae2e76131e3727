//! `(expr).field`: a field of a STRUCT that is no plain column.
//!
//! The engine takes the name of the field as text only: `(expr)['field']`. This comes before names
//! are resolved, as the field is no column.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Select, SelectItem, Statement, Subscript, VisitorMut,
};

use crate::ast::build::text;
use crate::ast::walk::walk_mut;

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
        if let Expr::CompoundFieldAccess { root, access_chain } = expr {
            let names = names_before(root, access_chain);
            for access in access_chain.iter_mut().skip(names) {
                if let AccessExpr::Dot(Expr::Identifier(name)) = access {
                    let index = text(&name.value);
                    *access = AccessExpr::Subscript(Subscript::Index { index });
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// How many names after the first may be those of a table and its column, as in `t.l[1]`.
fn names_before(root: &Expr, chain: &[AccessExpr]) -> usize {
    match root {
        Expr::Identifier(_) => chain.iter().take_while(|access| is_name(access)).count(),
        _ => 0,
    }
}

fn is_name(access: &AccessExpr) -> bool {
    matches!(access, AccessExpr::Dot(Expr::Identifier(_)))
}

fn is_member(expr: &Expr) -> bool {
    match expr {
        Expr::CompoundFieldAccess { root, access_chain } => {
            access_chain.iter().skip(names_before(root, access_chain)).any(is_name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    #[test]
    fn fields_are_texts() {
        for (given, expected) in [
            ("SELECT (s).a.b FROM t", "SELECT (s)['a']['b'] AS \"(s).a.b\" FROM t"),
            ("SELECT f(x).a + 1, l[1].b AS b", "SELECT f(x)['a'] + 1, l[1]['b'] AS b"),
            ("SELECT s.a FROM t", "SELECT s.a FROM t"),
            ("SELECT t.l[1], t.b['c'].d AS d", "SELECT t.l[1], t.b['c']['d'] AS d"),
        ] {
            let mut statements = Parser::parse_sql(&DIALECT, given).unwrap();
            name_members(&mut statements[0]);
            assert_eq!(statements[0].to_string(), expected);
        }
    }
}
