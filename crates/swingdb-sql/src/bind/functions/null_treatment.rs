//! `lag(f(x) IGNORE NULLS)`: the clause is of the function that is called with the others' value.
//!
//! The parser takes IGNORE NULLS behind a call for that call's own, also where the call is the last
//! argument of another one (`lag(x IGNORE NULLS)` it reads as it should).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, NullTreatment,
    Statement, VisitorMut,
};
use swingdb_common::error::Result;

use crate::ast::walk::walk_mut;
use crate::bind::lookahead::Lookahead;

/// Gives each IGNORE NULLS and RESPECT NULLS to the call in whose parentheses it stands.
pub(crate) fn hand_out(_: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let _ = walk_mut(statement, &mut Outwards);
    Ok(())
}

struct Outwards;

impl VisitorMut for Outwards {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && let FunctionArguments::List(list) = &mut call.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(last))) = list.args.last_mut()
            && let Some(treatment) = at_the_end(last)
        {
            list.clauses.push(FunctionArgumentClause::IgnoreOrRespectNulls(treatment));
        }
        ControlFlow::Continue(())
    }
}

/// Takes the clause off the call that an expression ends with.
fn at_the_end(expr: &mut Expr) -> Option<NullTreatment> {
    match expr {
        Expr::Function(call) if call.over.is_none() => call.null_treatment.take(),
        Expr::BinaryOp { right, .. } => at_the_end(right),
        Expr::UnaryOp { expr, .. } => at_the_end(expr),
        _ => None,
    }
}
