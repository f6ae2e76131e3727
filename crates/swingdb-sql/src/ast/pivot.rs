//! `PIVOT` in a syntax tree.
//!
//! The parser's node, [`TableFactor::Pivot`], has one list of values for all columns, calls
//! without anything around them for its aggregates, and no groups. Here the call is `pivot()`, the
//! values are `ANY`, and the clauses stand in the place of the columns: a tuple of what is spread
//! out, a tuple of aggregates, and a tuple of groups. Names that are given are [`Expr::Named`], and
//! `column IN (values)` is what it is elsewhere. The dialect reads the clauses
//! ([`text::pivot_clauses`](crate::text::pivot_clauses)).

use datafusion::sql::sqlparser::ast::{Expr, Ident, TableFactor};

/// The clauses of a PIVOT.
#[derive(Default)]
pub(crate) struct Clauses {
    pub on: Vec<Expr>,
    pub using: Vec<Expr>,
    pub groups: Vec<Expr>,
}

impl Clauses {
    /// As they stand in the tree.
    pub(crate) fn into_expr(self) -> Expr {
        Expr::Tuple([self.on, self.using, self.groups].map(Expr::Tuple).to_vec())
    }

    /// The clauses of a relation; `None` of one that the dialect has not read.
    pub(crate) fn of(factor: &TableFactor) -> Option<Self> {
        let TableFactor::Pivot { value_column, .. } = factor else { return None };
        let [Expr::Tuple(clauses)] = value_column.as_slice() else { return None };
        match clauses.as_slice() {
            [Expr::Tuple(on), Expr::Tuple(using), Expr::Tuple(groups)] => {
                Some(Self { on: on.clone(), using: using.clone(), groups: groups.clone() })
            }
            _ => None,
        }
    }
}

/// An expression with the name that is given to it, if there is one.
pub(crate) fn with_name(expr: Expr, name: Option<Ident>) -> Expr {
    match name {
        Some(name) => Expr::Named { expr: Box::new(expr), name },
        None => expr,
    }
}

/// The opposite of [`with_name`].
pub(crate) fn name_of(expr: &Expr) -> (Expr, Option<String>) {
    match expr {
        Expr::Named { expr, name } => (expr.as_ref().clone(), Some(name.value.clone())),
        other => (other.clone(), None),
    }
}
