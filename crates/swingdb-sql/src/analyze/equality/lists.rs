//! `x IN (1, NULL)`, and two lists for one value: `x IN (1, 2) AND x IN (3, 4)`.
//!
//! The engine's simplifier makes one list of two (`inlist_intersection`, `inlist_except` of
//! `datafusion-optimizer` 55), by what the lists have. That is wrong for a list that has a NULL,
//! which answers NULL for what it has not, and where nothing is left: then the answer is false, or
//! true for NOT IN, but NULL where `x` is. So NULLs stand beside their lists here, and lists of
//! which nothing would be left become what they are.

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};

/// Whether a list has a NULL.
pub(super) fn has_nulls(list: &InList) -> bool {
    list.list.iter().any(is_null)
}

/// A list without its NULLs, and NULL beside it; `settle` does what else is to be done with lists.
pub(super) fn without_nulls(mut list: InList, settle: impl FnOnce(InList) -> Expr) -> Expr {
    list.list.retain(|value| !is_null(value));
    match (list.list.is_empty(), list.negated) {
        (true, _) => unknown(),
        (false, false) => settle(list).or(unknown()),
        (false, true) => settle(list).and(unknown()),
    }
}

/// Whether both sides are lists for one value.
pub(super) fn are_lists(binary: &BinaryExpr) -> bool {
    matches!(binary.op, Operator::And | Operator::Or)
        && matches!((binary.left.as_ref(), binary.right.as_ref()),
            (Expr::InList(left), Expr::InList(right)) if left.expr == right.expr)
}

/// What two lists are of which nothing is left, for a value that may be NULL; `None`: something is.
pub(super) fn without_common(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (Expr::InList(left), Expr::InList(right)) = (binary.left.as_ref(), binary.right.as_ref())
    else {
        return None;
    };
    let left_in = |other: &InList| left.list.iter().any(|value| other.list.contains(value));
    let all_in = |of: &InList, other: &InList| of.list.iter().all(|v| other.list.contains(v));
    let nothing_left = match (binary.op, left.negated, right.negated) {
        (Operator::And, false, false) | (Operator::Or, true, true) => !left_in(right),
        (Operator::And, false, true) => all_in(left, right),
        (Operator::And, true, false) => all_in(right, left),
        _ => false,
    };
    if !nothing_left || !left.expr.nullable(schema).unwrap_or(true) {
        return None;
    }
    let value = left.expr.as_ref().clone();
    Some(match binary.op {
        Operator::And => value.is_null().and(unknown()),
        _ => value.is_not_null().or(unknown()),
    })
}

/// Whether a value is NULL, of whatever type it was made.
fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

fn unknown() -> Expr {
    lit(ScalarValue::Boolean(None))
}
