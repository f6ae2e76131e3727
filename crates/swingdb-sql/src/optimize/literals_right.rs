//! Comparisons with the column on the left: [`LITERALS_RIGHT`].
//!
//! Of `k >= 0 AND 0 < k` the engine's rule that moves conditions down keeps the stricter one. Of
//! two with equal bounds it takes the one that is written with `<` or `>`. With the literal
//! on the left this is the wrong one, and rows come that must not (datafusion-optimizer 55.2,
//! `simplify_predicates`). The engine's simplifier puts literals to the right, but not the ones
//! that casts become only later.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

use crate::optimize::rule::OwnRule;

/// See the [module documentation](self). To run before conditions are moved down.
pub(crate) const LITERALS_RIGHT: OwnRule = OwnRule::top_down("literals_right", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(mut filter) if has_any(&filter.predicate)? => {
            filter.predicate = filter.predicate.transform_down(turned)?.data;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Join(mut join) => match join.filter.take() {
            Some(filter) if has_any(&filter)? => {
                join.filter = Some(filter.transform_down(turned)?.data);
                Ok(Transformed::yes(LogicalPlan::Join(join)))
            }
            filter => {
                join.filter = filter;
                Ok(Transformed::no(LogicalPlan::Join(join)))
            }
        },
        other => Ok(Transformed::no(other)),
    }
}

fn has_any(condition: &Expr) -> Result<bool> {
    condition.exists(|part| Ok(is_turnable(part)))
}

/// Whether it compares a literal with what is none.
fn is_turnable(part: &Expr) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return false };
    matches!(op, Eq | NotEq | Gt | GtEq | Lt | LtEq)
        && left.as_literal().is_some()
        && right.as_literal().is_none()
}

fn turned(part: Expr) -> Result<Transformed<Expr>> {
    if !is_turnable(&part) {
        return Ok(Transformed::no(part));
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else {
        return Ok(Transformed::no(part));
    };
    let op_turned = op.swap().unwrap_or(op);
    let turned = BinaryExpr { left: right, op: op_turned, right: left };
    Ok(Transformed::yes(Expr::BinaryExpr(turned)))
}
