//! `ASOF JOIN` in a syntax tree.
//!
//! The parser's node, [`JoinOperator::AsOf`], has a condition that compares times, and a
//! constraint for the keys. Here both stand in one ON or USING, the node's constraint, and so the
//! match condition is `*`: whatever the constraint says. The node has no place for LEFT. In an
//! `ASOF LEFT JOIN` the match condition is `* (+)`, Oracle's sign of an outer join. The dialect
//! reads both behind the word MATCH_CONDITION ([`text::asof`](crate::text::asof)).

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{Expr, JoinConstraint, JoinOperator};

/// Whether rows of the left side stay that find none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Inner,
    Left,
}

/// What stands in the place of the match condition.
pub(crate) fn match_condition(kind: Kind) -> Expr {
    let all = Expr::Wildcard(AttachedToken::empty());
    match kind {
        Kind::Inner => all,
        Kind::Left => Expr::OuterJoin(Box::new(all)),
    }
}

/// The kind of a join with this match condition; `None` of one that is written out.
pub(crate) fn kind(match_condition: &Expr) -> Option<Kind> {
    match match_condition {
        Expr::Wildcard(_) => Some(Kind::Inner),
        Expr::OuterJoin(all) if matches!(all.as_ref(), Expr::Wildcard(_)) => Some(Kind::Left),
        _ => None,
    }
}

/// The node of a join.
pub(crate) fn join(kind: Kind, constraint: JoinConstraint) -> JoinOperator {
    JoinOperator::AsOf { match_condition: match_condition(kind), constraint }
}
