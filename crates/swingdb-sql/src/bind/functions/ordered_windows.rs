//! `list(x ORDER BY y) OVER (...)` as a call of a function that takes the keys as arguments, see
//! [`swingdb_functions::aggregates::ordered_windows`].

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    OrderByExpr, Value, VisitMut, VisitorMut,
};
use swingdb_functions::aggregates::ordered_windows::FUNCTIONS;

use crate::ast::walk::walk_mut;

/// Makes arguments of the keys of aggregates over windows.
pub(crate) fn order_windows<T: VisitMut>(tree: &mut T) {
    struct Rewriter;
    impl VisitorMut for Rewriter {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && function.over.is_some()
            {
                order_window(function);
            }
            ControlFlow::Continue(())
        }
    }
    // Never breaks.
    let _ = walk_mut(tree, &mut Rewriter);
}

/// Aggregates that are the same in any order of the rows.
const UNORDERED: &[&str] = &[
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "max",
    "mean",
    "min",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

fn order_window(function: &mut Function) {
    let name = function.name.to_string().to_ascii_lowercase();
    if UNORDERED.contains(&name.as_str())
        && let FunctionArguments::List(list) = &mut function.args
    {
        list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_)));
        return;
    }
    let Some((_, in_order, constants)) = FUNCTIONS.iter().find(|(plain, ..)| *plain == name) else {
        return;
    };
    let FunctionArguments::List(list) = &mut function.args else { return };
    let mut keys = Vec::new();
    for clause in &mut list.clauses {
        if let FunctionArgumentClause::OrderBy(order) = clause {
            keys.append(order);
        }
    }
    if keys.is_empty() || list.args.len() != constants + 1 {
        return;
    }
    list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_)));
    let options = keys.iter().map(options_of).collect::<Vec<_>>().join(",");
    let options = Expr::Value(Value::SingleQuotedString(options).with_empty_span());
    let more = std::iter::once(options).chain(keys.into_iter().map(|key| key.expr));
    list.args.extend(more.map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))));
    function.name = vec![Ident::new(*in_order)].into();
}

/// NULLs come last where nothing is said of them.
fn options_of(key: &OrderByExpr) -> String {
    let direction = if key.options.asc == Some(false) { "desc" } else { "asc" };
    let nulls = if key.options.nulls_first == Some(true) { "first" } else { "last" };
    format!("{direction} {nulls}")
}
