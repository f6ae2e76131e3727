//! A STRUCT has no two fields of one name: `{'a': 1, 'A': 2}` is an error.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::Expr;

/// Whether this makes a STRUCT of names and values.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == "named_struct")
}

/// The call, if its names differ without regard to case.
pub(crate) fn check(expr: Expr) -> Result<Transformed<Expr>> {
    if let Expr::ScalarFunction(call) = &expr {
        let mut seen = Vec::with_capacity(call.args.len() / 2);
        for name in call.args.iter().step_by(2) {
            // The engine says what is wrong with a name that is no text.
            let Expr::Literal(name, _) = name else { continue };
            let Some(Some(name)) = name.try_as_str() else { continue };
            let key = name.to_ascii_lowercase();
            if seen.contains(&key) {
                return plan_err!("a STRUCT with two fields named {name:?}");
            }
            seen.push(key);
        }
    }
    Ok(Transformed::no(expr))
}
