//! Conditions of which only truth counts, without their NULLs: [`WHERE_TRUE`].
//!
//! A filter keeps no row for which its condition is NULL, just as for false. So `x = 1 OR NULL`,
//! which `x IN (1, NULL)` is by now, keeps the rows of `x = 1`, which statistics, pruning and
//! look-ups in sorted segments know.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Operator, lit};

use crate::optimize::rule::OwnRule;

/// See the [module documentation](self). To run before conditions are moved down.
pub(crate) const WHERE_TRUE: OwnRule = OwnRule::top_down("where_true", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(mut filter) if has_null(&filter.predicate) => {
            filter.predicate = where_true(filter.predicate);
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Join(mut join) if only_truth_counts(&join) => {
            join.filter = join.filter.map(where_true);
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether the condition has a NULL, and nothing but its truth counts: a mark join gives it on.
fn only_truth_counts(join: &Join) -> bool {
    !matches!(join.join_type, JoinType::LeftMark | JoinType::RightMark)
        && join.filter.as_ref().is_some_and(has_null)
}

/// Whether NULL is one of what AND and OR connect.
fn has_null(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            has_null(left) || has_null(right)
        }
        Expr::Literal(value, _) => value.is_null(),
        _ => false,
    }
}

/// A condition that is true where the given one is, and false where that is NULL for a NULL in it.
fn where_true(condition: Expr) -> Expr {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (where_true(*left), where_true(*right));
            let decides = lit(op == Operator::Or);
            let passes = lit(op == Operator::And);
            if left == decides || right == decides {
                decides
            } else if left == passes {
                right
            } else if right == passes {
                left
            } else {
                Expr::BinaryExpr(BinaryExpr { left: left.into(), op, right: right.into() })
            }
        }
        Expr::Literal(value, _) if value.is_null() => lit(false),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Not;

    use datafusion::common::ScalarValue;
    use datafusion::prelude::col;

    use super::*;

    #[test]
    fn only_truth_counts() {
        let null = || lit(ScalarValue::Boolean(None));
        let (a, b) = (|| col("a").eq(lit(1)), || col("b").eq(lit(2)));
        for (condition, expected) in [
            (a().or(null()), a()),
            (null().or(a()), a()),
            (a().and(null()), lit(false)),
            (a().and(b().or(null())), a().and(b())),
            (a().or(b().and(null())), a()),
            (null(), lit(false)),
        ] {
            assert!(has_null(&condition));
            assert_eq!(where_true(condition.clone()), expected, "{condition}");
        }
        // Below NOT, falsehood counts, too.
        assert!(!has_null(&a().or(null()).not()) && !has_null(&a().and(b())));
    }
}
