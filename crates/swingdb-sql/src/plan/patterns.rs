//! The pattern `.*`, which every text has and NULL has not.
//!
//! The engine takes `x ~ '.*'` for `x IS NOT NULL`, which is false of NULL where the comparison is
//! NULL. So the pattern gets brackets, which mean nothing else and which the engine leaves alone.

use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, Operator, lit};

const EVERYTHING: &str = ".*";
const IN_BRACKETS: &str = "(?:.*)";

/// The pattern that a text is compared with.
fn pattern(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == "regexp_like" => call.args.get_mut(1),
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::RegexMatch | Operator::RegexIMatch,
            right,
            ..
        }) => Some(right.as_mut()),
        _ => None,
    }
}

/// Whether this compares a text with a pattern.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.name() == "regexp_like",
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            matches!(op, Operator::RegexMatch | Operator::RegexIMatch)
        }
        _ => false,
    }
}

/// The comparison with a pattern that the engine leaves alone.
pub(crate) fn rewrite(mut expr: Expr) -> Transformed<Expr> {
    let Some(pattern) = pattern(&mut expr) else { return Transformed::no(expr) };
    let is_everything = match &*pattern {
        Expr::Literal(value, _) => value.try_as_str().flatten() == Some(EVERYTHING),
        _ => false,
    };
    if is_everything {
        *pattern = lit(IN_BRACKETS);
    }
    Transformed::new_transformed(expr, is_everything)
}
