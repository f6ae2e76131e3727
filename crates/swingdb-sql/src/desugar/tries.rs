//! `TRY(x::INT)`: NULL where the expression has an error.
//!
//! Only of casts, one inside another, of columns and constants: there it is the same as TRY_CAST.
//! An expression of other kinds is evaluated for many rows at a time, and the error of one row ends
//! the statement.

use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement,
};
use swingdb_common::error::{Error, Result};

use crate::ast::build;

/// Puts TRY_CAST in the place of TRY.
pub(crate) fn rewrite(statement: &mut Statement) -> Result<()> {
    let mut failed = None;
    build::rewrite_exprs(statement, |part| {
        let tried = match part {
            Expr::Function(function) if build::is_named(&function.name, "try") => {
                match &function.args {
                    FunctionArguments::List(list) => match list.args.as_slice() {
                        [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))] => Some(expr.clone()),
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => return,
        };
        match tried.and_then(forgiving) {
            Some(expr) => *part = expr,
            None => {
                failed.get_or_insert_with(|| {
                    Error::unsupported(format!(
                        "{part}; TRY takes casts of a column or a constant: TRY(CAST(a AS INT)); \
                         of others write what is to be NULL by CASE"
                    ))
                });
            }
        }
    });
    failed.map_or(Ok(()), Err)
}

/// The expression, if it is of such casts, with each one giving NULL where it fails.
fn forgiving(expr: Expr) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => forgiving(*inner),
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => Some(expr),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon | CastKind::TryCast, .. } => {
            let Expr::Cast { kind: _, expr, data_type, array, format } = expr else { return None };
            let expr = Box::new(forgiving(*expr)?);
            Some(Expr::Cast { kind: CastKind::TryCast, expr, data_type, array, format })
        }
        _ => None,
    }
}
