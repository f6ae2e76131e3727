//! A STRUCT has no two fields of one name: `{'a': 1, 'A': 2}` is an error. And `unnest(s)` of a
//! STRUCT that is NULL has NULL in all columns, also where values lie below it, as those that
//! `nullif` leaves there.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Unnest};
use swingdb_functions::nested::structs::null_throughout;

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

/// The columns of structs without what lies below their NULLs.
pub(crate) fn without_values_below(mut unnest: Unnest) -> Result<Transformed<LogicalPlan>> {
    if unnest.struct_type_columns.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Unnest(unnest)));
    }
    let structs = &unnest.struct_type_columns;
    let columns = unnest.input.schema().iter().enumerate().map(|(at, (relation, field))| {
        let column = Expr::from((relation, field));
        match structs.contains(&at) {
            true => null_throughout(column).alias_qualified(relation.cloned(), field.name()),
            false => column,
        }
    });
    let columns = columns.collect();
    let input = Projection::try_new(columns, Arc::clone(&unnest.input))?;
    unnest.input = Arc::new(LogicalPlan::Projection(input));
    Ok(Transformed::yes(LogicalPlan::Unnest(unnest)))
}
