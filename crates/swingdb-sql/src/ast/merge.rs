//! Actions of MERGE in a syntax tree that name no columns.
//!
//! | written | in the tree |
//! |---|---|
//! | `INSERT *` | `INSERT ROW`, which the parser knows from BigQuery |
//! | `UPDATE SET *` | `UPDATE SET ROW = *`; the dialect reads this `*` |
//! | `DO NOTHING` | one of these two for no row: `WHERE FALSE` |
//! | `ERROR 'text'`, `ERROR` | one of these two with no condition: `WHERE 'text'`, `WHERE NULL` |
//! | `USING (a, b)` in place of `ON` | `ON ROW(a, b)`, which is no condition otherwise |

use datafusion::sql::sqlparser::ast::{
    Assignment, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, MergeAction,
    MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, Value, ValueWithSpan,
};

/// What an action does that names no columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WholeRow {
    /// DO NOTHING.
    Nothing,
    /// ERROR, which may have a text.
    Fail(Option<String>),
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
        let Some(condition) = condition else { return Some(Self::All) };
        let Expr::Value(ValueWithSpan { value, .. }) = condition else { return None };
        match value {
            Value::Boolean(false) => Some(Self::Nothing),
            Value::Null => Some(Self::Fail(None)),
            Value::SingleQuotedString(text) => Some(Self::Fail(Some(text.clone()))),
            _ => None,
        }
    }
}

/// The columns of `USING (...)`; `None` of a condition.
pub fn keys(on: &Expr) -> Option<Vec<&Ident>> {
    let Expr::Function(call) = on else { return None };
    let [name] = call.name.0.as_slice() else { return None };
    let name = name.as_ident()?;
    let FunctionArguments::List(list) = &call.args else { return None };
    if name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("row") {
        return None;
    }
    let column = |arg| match arg {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(ref column))) => Some(column),
        _ => None,
    };
    list.args.iter().map(column).collect()
}
