//! `a = b COLLATE NOCASE`, `ORDER BY a COLLATE NOCASE`: without regard to case, by `lower(...)`.
//!
//! | written | becomes |
//! |---|---|
//! | `a = b COLLATE NOCASE`, also `<`, `IN`, `BETWEEN` | `lower(a) = lower(b)` |
//! | `ORDER BY a COLLATE NOCASE` | `ORDER BY lower(a)` |
//! | `a COLLATE "C"`, `BINARY`, `POSIX` | `a`, for text is compared by its bytes |
//!
//! What is left of COLLATE is refused with the other clauses that nobody carries out.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArgumentClause, FunctionArguments, ObjectName,
    OrderByExpr, OrderByKind, Query, VisitMut, VisitorMut, WindowType,
};

use crate::ast::build;
use crate::ast::walk::walk_mut;

/// Writes collations out.
pub(crate) fn rewrite<T: VisitMut>(tree: &mut T) {
    // Never breaks.
    let _ = walk_mut(tree, &mut Collations);
}

/// Whether a collation compares texts by their bytes, as they are compared without one.
pub(crate) fn is_by_bytes(collation: &ObjectName) -> bool {
    is_any(collation, &["c", "binary", "posix"])
}

struct Collations;

impl VisitorMut for Collations {
    type Break = ();

    fn post_visit_expr(&mut self, node: &mut Expr) -> ControlFlow<()> {
        match node {
            Expr::Collate { expr, collation } if is_by_bytes(collation) => {
                *node = std::mem::replace(expr, build::null());
            }
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                without_case([left.as_mut(), right.as_mut()]);
            }
            Expr::InList { expr, list, negated: _ } => {
                without_case(std::iter::once(expr.as_mut()).chain(list));
            }
            Expr::Between { expr, negated: _, low, high } => {
                without_case([expr.as_mut(), low.as_mut(), high.as_mut()]);
            }
            Expr::Function(function) => in_call(function),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let order = query.order_by.as_mut().map(|order| &mut order.kind);
        if let Some(OrderByKind::Expressions(all)) = order {
            in_order(all);
        }
        ControlFlow::Continue(())
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

fn is_any(collation: &ObjectName, names: &[&str]) -> bool {
    names.iter().any(|name| build::is_named(collation, name))
}

/// What NOCASE is written behind.
fn collated(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(inner) => collated(inner),
        Expr::Collate { expr, collation } if is_any(collation, &["nocase"]) => Some(expr),
        _ => None,
    }
}

/// Compares texts in lower case, where one of them says so.
fn without_case<'a>(all: impl IntoIterator<Item = &'a mut Expr>) {
    let all: Vec<&mut Expr> = all.into_iter().collect();
    if !all.iter().any(|expr| collated(expr).is_some()) {
        return;
    }
    for expr in all {
        let plain = collated(expr).unwrap_or(expr).clone();
        *expr = build::call("lower", [plain]);
    }
}

fn in_order(all: &mut [OrderByExpr]) {
    for one in all {
        if let Some(plain) = collated(&one.expr) {
            one.expr = build::call("lower", [plain.clone()]);
        }
    }
}

/// ORDER BY of an aggregate or a window.
fn in_call(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args {
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(order) = clause {
                in_order(order);
            }
        }
    }
    in_order(&mut function.within_group);
    if let Some(WindowType::WindowSpec(window)) = &mut function.over {
        in_order(&mut window.order_by);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::text::dialect::DIALECT;

    #[test]
    fn comparisons_and_orders_are_in_lower_case() {
        for (given, expected) in [
            ("SELECT a = b COLLATE NOCASE", "SELECT lower(a) = lower(b)"),
            ("SELECT a COLLATE nocase IN ('X', b)", "SELECT lower(a) IN (lower('X'), lower(b))"),
            ("SELECT a < (b COLLATE \"C\")", "SELECT a < (b)"),
            ("SELECT a FROM t ORDER BY a COLLATE NOCASE", "SELECT a FROM t ORDER BY lower(a)"),
            ("SELECT a COLLATE NOCASE", "SELECT a COLLATE NOCASE"),
            ("SELECT a = b COLLATE de", "SELECT a = b COLLATE de"),
        ] {
            let mut statements = Parser::parse_sql(&DIALECT, given).unwrap();
            rewrite(&mut statements[0]);
            assert_eq!(statements[0].to_string(), expected);
        }
    }
}
