//! Clauses of a call that only some functions take.
//!
//! FILTER, OVER, DISTINCT, ORDER BY, WITHIN GROUP and IGNORE NULLS say something about the rows
//! that an aggregate or a window function sees. The engine drops them where a function of single
//! rows is called, and some of them at window functions. They are refused here, behind the rewrites
//! that give calls the names of the engine's functions. A name before an argument of a function in
//! FROM is dropped as well, and refused too.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    Statement, TableFactor, VisitorMut,
};
use swingdb_common::error::{Error, Result};

use crate::ast::walk::walk_mut;
use crate::bind::functions;
use crate::bind::lookahead::Lookahead;

/// Window functions that look at values, and so can leave out NULLs.
const OF_VALUES: [&str; 5] = ["first_value", "lag", "last_value", "lead", "nth_value"];

/// Functions of the engine that are in none of its lists.
const OF_LISTS: [&str; 4] = ["make_map", "map", "unnest", "unnest_outer"];

/// Refuses clauses that the called functions do not take. Functions have the engine's names.
pub(crate) fn check(planner: &dyn Lookahead, statement: &mut Statement) -> Result<()> {
    let mut checker = Checker { planner, failed: None };
    // Breaks only with an error, which the checker keeps.
    let _ = walk_mut(statement, &mut checker);
    checker.failed.map_or(Ok(()), Err)
}

struct Checker<'a> {
    planner: &'a dyn Lookahead,
    failed: Option<Error>,
}

impl Checker<'_> {
    fn keep(&mut self, result: Result<()>) -> ControlFlow<()> {
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn call(&self, call: &Function) -> Result<()> {
        let [part] = call.name.0.as_slice() else { return Ok(()) };
        let Some(ident) = part.as_ident() else { return Ok(()) };
        let name = match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_ascii_lowercase(),
        };
        stars(&name, call)?;
        let clauses = Clauses::of(call);
        let refuse = |clause: &str| {
            let kind = match self.planner.is_window(&name) {
                true => "window function",
                false => "function of single rows",
            };
            Err(Error::plan(format!("{name}(...) is a {kind}, which takes no {clause}")))
        };
        if OF_LISTS.contains(&name.as_str()) || self.planner.is_of_rows(&name) {
            return clauses.first_but(&[]).map_or(Ok(()), refuse);
        }
        if let Some(keeps_nulls) = self.planner.aggregate_keeps_nulls(&name) {
            if name == NTH && clauses.distinct && (clauses.over || !clauses.order) {
                return Err(Error::plan(format!(
                    "{name}(DISTINCT ...) has an ORDER BY behind its arguments, and no OVER"
                )));
            }
            if clauses.over && clauses.nulls && !keeps_nulls && !self.planner.is_window(&name) {
                return Err(Error::plan(format!(
                    "{name}(...) leaves NULLs out anyway, and takes no IGNORE or RESPECT NULLS"
                )));
            }
            return Ok(());
        }
        if self.planner.is_window(&name) {
            let taken: &[&str] = match OF_VALUES.contains(&name.as_str()) {
                true => &[OVER, NULLS, ORDER],
                false => &[OVER, ORDER],
            };
            return clauses.first_but(taken).map_or(Ok(()), refuse);
        }
        functions::unknown_count(&name, &call.args).map_or(Ok(()), Err)
    }
}

/// `*` stands for all rows in `count(*)`, and for columns in `COLUMNS(*)`, which has been replaced.
fn stars(name: &str, call: &Function) -> Result<()> {
    let FunctionArguments::List(list) = &call.args else { return Ok(()) };
    for arg in &list.args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" => {}
            FunctionArg::Unnamed(
                FunctionArgExpr::Wildcard
                | FunctionArgExpr::QualifiedWildcard(_)
                | FunctionArgExpr::WildcardWithOptions(_),
            ) => {
                return Err(Error::plan(format!("{name}({arg}); write {name}(COLUMNS({arg}))")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Counts all rows as they come.
const NTH: &str = "nth_value";
const OVER: &str = "OVER";
const FILTER: &str = "FILTER";
const DISTINCT: &str = "DISTINCT";
const ORDER: &str = "ORDER BY";
const WITHIN: &str = "WITHIN GROUP";
const NULLS: &str = "IGNORE NULLS or RESPECT NULLS";

/// Which clauses a call has.
struct Clauses {
    over: bool,
    filter: bool,
    distinct: bool,
    order: bool,
    within: bool,
    nulls: bool,
}

impl Clauses {
    fn of(call: &Function) -> Self {
        let list = match &call.args {
            FunctionArguments::List(list) => Some(list),
            FunctionArguments::None | FunctionArguments::Subquery(_) => None,
        };
        let has = |is: fn(&FunctionArgumentClause) -> bool| {
            list.is_some_and(|list| list.clauses.iter().any(is))
        };
        Self {
            over: call.over.is_some(),
            filter: call.filter.is_some(),
            distinct: list.is_some_and(|list| list.duplicate_treatment.is_some()),
            order: has(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_))),
            within: !call.within_group.is_empty(),
            nulls: call.null_treatment.is_some()
                || has(|clause| matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_))),
        }
    }

    /// The first clause but those that are taken.
    fn first_but(&self, taken: &[&str]) -> Option<&'static str> {
        let all = [
            (self.over, OVER),
            (self.filter, FILTER),
            (self.distinct, DISTINCT),
            (self.order, ORDER),
            (self.within, WITHIN),
            (self.nulls, NULLS),
        ];
        all.into_iter().find(|(is, name)| *is && !taken.contains(name)).map(|(_, name)| name)
    }
}

impl VisitorMut for Checker<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call) => {
                let result = self.call(call);
                self.keep(result)
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let (name, args) = match factor {
            TableFactor::Function { name, args, .. } => (&*name, args.as_slice()),
            TableFactor::Table { name, args: Some(args), .. } => (&*name, args.args.as_slice()),
            _ => return ControlFlow::Continue(()),
        };
        let named = args.iter().find(|arg| !matches!(arg, FunctionArg::Unnamed(_)));
        self.keep(match named {
            None => Ok(()),
            Some(arg) => Err(Error::plan(format!(
                "{name}(... {arg}): a function in FROM takes its arguments by their places; \
                 options of files are written name = value"
            ))),
        })
    }
}
