//! Times of day of several units beside each other: that of the finer one goes for all.
//!
//! The engine compares none with another, and times in nanoseconds are what programs such as Polars
//! have, while a TIME of SQL is in microseconds.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{Between, Case, InList};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use swingdb_functions::nested::unified::common_time;

/// The comparison of times of one unit; what operators compare is settled when they are planned.
pub(crate) fn rewrite(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let mut sides = match &mut expr {
        Expr::Between(Between { expr, low, high, .. }) => {
            vec![expr.as_mut(), low.as_mut(), high.as_mut()]
        }
        Expr::InList(InList { expr, list, .. }) => {
            std::iter::once(expr.as_mut()).chain(list).collect()
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, .. }) => {
            let whens = when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
            std::iter::once(operand.as_mut()).chain(whens).collect()
        }
        _ => Vec::new(),
    };
    let changed = settle(&mut sides, schema);
    Transformed::new_transformed(expr, changed)
}

/// Makes the times among these of one unit, unless they are.
pub(crate) fn settle(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    // Long lists are of constants, which are alike.
    let first = sides.first().and_then(|side| side.get_type(schema).ok());
    if !matches!(first, Some(DataType::Time32(_) | DataType::Time64(_))) {
        return false;
    }
    let types = sides.iter().map(|side| side.get_type(schema).unwrap_or(DataType::Null));
    let types = types.collect::<Vec<_>>();
    let Some(common) = common_time(&types) else { return false };
    for (side, given) in sides.iter_mut().zip(types).filter(|(_, given)| *given != common) {
        if !given.is_null() {
            **side = cast(std::mem::take(*side), common.clone());
        }
    }
    true
}
