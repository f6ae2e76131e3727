//! What a function stands for, with the arguments of a call in it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, OrderByExpr,
    Value, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use swingdb_common::error::{Error, Result};

use crate::ast::build;
use crate::ast::walk::walk_mut;
use crate::bind::functions::once::marked;
use crate::text::dialect::DIALECT;

/// The template with the arguments in it, for `$1`, `$2` ... FILTER, OVER, IGNORE NULLS, DISTINCT
/// and ORDER BY of the call it replaces go to the aggregates of the template, the last behind an
/// order that these have; those that no aggregate takes are an error.
pub(crate) fn instantiate(
    template: &str,
    args: &[Expr],
    call: &Function,
    known: Known<'_>,
) -> Result<Expr> {
    let parsed = Parser::new(&DIALECT).try_with_sql(template).and_then(|mut p| p.parse_expr());
    let mut expr = parsed.map_err(|e| Error::internal(format!("{template}: {e}")))?;
    let args: Vec<Expr> = args
        .iter()
        .enumerate()
        .map(|(at, arg)| {
            // What is drawn for one argument is drawn once, however often the template has it.
            let places = template.matches(&format!("${}", at + 1)).count();
            if places > 1 { marked(arg) } else { arg.clone() }
        })
        .collect();
    let args = args.as_slice();
    let mut filler = Filler { args, call, known, aggregates: 0, of_all: 0 };
    // Never breaks.
    let _ = walk_mut(&mut expr, &mut filler);
    let refuse = |what| Err(Error::plan(format!("{} takes no {what}", call.name)));
    if filler.aggregates == 0 && call.filter.is_some() {
        return refuse("FILTER");
    }
    if filler.aggregates == 0 && call.over.is_some() {
        return refuse("OVER");
    }
    if filler.aggregates == 0 && call.null_treatment.is_some() {
        return refuse("IGNORE NULLS or RESPECT NULLS");
    }
    if !call.within_group.is_empty() {
        return refuse("WITHIN GROUP; write ORDER BY in the brackets");
    }
    let inside = inside(&call.args);
    if filler.aggregates == 0 && inside.is_some_and(|list| !list.clauses.is_empty()) {
        return refuse("ORDER BY");
    }
    // Values that are the same are found by all arguments together.
    let all_see_all = filler.aggregates > 0 && filler.of_all == filler.aggregates;
    if inside.is_some_and(|list| list.duplicate_treatment.is_some()) && !all_see_all {
        return refuse("DISTINCT");
    }
    Ok(match expr {
        Expr::Function(_) | Expr::Cast { .. } => expr,
        _ => Expr::Nested(Box::new(expr)),
    })
}

/// Visits the template alone: what it puts in is not visited.
struct Filler<'a> {
    args: &'a [Expr],
    call: &'a Function,
    known: Known<'a>,
    /// How many the template has.
    aggregates: usize,
    /// How many of these have as many arguments as the call.
    of_all: usize,
}

fn inside(args: &FunctionArguments) -> Option<&FunctionArgumentList> {
    match args {
        FunctionArguments::List(list) => Some(list),
        _ => None,
    }
}

impl VisitorMut for Filler<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.is_aggregate(function) => self.restrict(function),
            Expr::Value(value) => {
                if let Value::Placeholder(text) = &value.value
                    && let Some(number) = text.strip_prefix('$').and_then(|n| n.parse().ok())
                    && let Some(argument) = usize::checked_sub(number, 1)
                    && let Some(argument) = self.args.get(argument)
                {
                    *expr = operand(argument);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Filler<'_> {
    fn is_aggregate(&self, function: &Function) -> bool {
        (self.known.aggregates)(&function.name.to_string().to_ascii_lowercase())
    }

    fn restrict(&mut self, function: &mut Function) {
        self.aggregates += 1;
        let count = inside(&function.args).map_or(0, |own| own.args.len());
        // One argument may stand in a list of several.
        self.of_all += usize::from(self.args.len() == 1 || count == self.args.len());
        if let FunctionArguments::List(own) = &mut function.args
            && let Some(list) = inside(&self.call.args)
        {
            let mut theirs = list.clauses.clone();
            for clause in &mut own.clauses {
                if let FunctionArgumentClause::OrderBy(order) = clause {
                    order.iter_mut().for_each(|by| never_a_place(&mut by.expr));
                    order.extend(theirs.iter_mut().flat_map(keys_of));
                }
            }
            own.duplicate_treatment = list.duplicate_treatment.or(own.duplicate_treatment);
            own.clauses.extend(theirs.into_iter().filter(|clause| !is_empty_order(clause)));
        }
        function.over.clone_from(&self.call.over);
        function.null_treatment = self.call.null_treatment;
        if let Some(condition) = &self.call.filter {
            let own = function.filter.take().map(|own| *own);
            let both = own.into_iter().chain([Expr::Nested(condition.clone())]);
            function.filter = Some(Box::new(build::all(both)));
        }
    }
}

/// Takes the keys out of an ORDER BY.
fn keys_of(clause: &mut FunctionArgumentClause) -> Vec<OrderByExpr> {
    match clause {
        FunctionArgumentClause::OrderBy(order) => std::mem::take(order),
        _ => Vec::new(),
    }
}

fn is_empty_order(clause: &FunctionArgumentClause) -> bool {
    matches!(clause, FunctionArgumentClause::OrderBy(order) if order.is_empty())
}

/// The engine takes a number in ORDER BY for the place of a column.
fn never_a_place(expr: &mut Expr) {
    if let Expr::Value(_) = expr {
        *expr = Expr::Nested(Box::new(expr.clone()));
    }
}

/// The argument as a part of an expression.
fn operand(argument: &Expr) -> Expr {
    match argument {
        simple @ (Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Value(_)
        | Expr::Function(_)) => simple.clone(),
        other => Expr::Nested(Box::new(other.clone())),
    }
}

/// Which names of functions the engine has.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) any: &'a dyn Fn(&str) -> bool,
    pub(crate) aggregates: &'a dyn Fn(&str) -> bool,
}
