//! Actions of MERGE in a syntax tree that name no columns.
//!
//! | written | in the tree |
//! |---|---|
//! | `INSERT *` | `INSERT ROW`, which the parser knows from BigQuery |
//! | `UPDATE SET *` | `UPDATE SET ROW = *`; the dialect reads this `*` |
//! | `DO NOTHING` | one of these two for no row: `WHERE FALSE` |

use datafusion::sql::sqlparser::ast::{
    Assignment, Expr, MergeAction, MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, Value,
    ValueWithSpan,
};

/// What an action does that names no columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeRow {
    /// DO NOTHING.
    Nothing,
    /// Each column of the source goes to the column of the target that has its name.
    All,
}

impl WholeRow {
    /// `None` of an action that names columns, or has another condition of its own.
    pub fn of(action: &MergeAction) -> Option<Self> {
        match action {
            MergeAction::Update(update) => Self::of_update(update),
            MergeAction::Insert(insert) => Self::of_insert(insert),
            MergeAction::Delete { .. } => None,
        }
    }

    fn of_update(update: &MergeUpdateExpr) -> Option<Self> {
        match update.assignments.as_slice() {
            [Assignment { value: Expr::Wildcard(_), .. }] if update.delete_predicate.is_none() => {
                Self::for_rows(update.update_predicate.as_ref())
            }
            _ => None,
        }
    }

    fn of_insert(insert: &MergeInsertExpr) -> Option<Self> {
        match insert.kind {
            MergeInsertKind::Row if insert.columns.is_empty() => {
                Self::for_rows(insert.insert_predicate.as_ref())
            }
            _ => None,
        }
    }

    fn for_rows(condition: Option<&Expr>) -> Option<Self> {
        match condition {
            None => Some(Self::All),
            Some(Expr::Value(ValueWithSpan { value: Value::Boolean(false), .. })) => {
                Some(Self::Nothing)
            }
            Some(_) => None,
        }
    }
}
