//! Which expressions are keys that equal values have in several forms, and the one form of each.
//!
//! A key is what is compared, joined, grouped or sorted by. Numbers of floating point get
//! [`same_bits`] around them, intervals [`interval_length`], also those in lists, structs and maps,
//! and lists, structs and maps that are sorted by [`order_bytes`].

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Cast};
use datafusion::logical_expr::{Expr, ExprSchemable, SortExpr};
use swingdb_common::floats::has_floats;
use swingdb_functions::keys::intervals::{has_intervals, interval_length};
use swingdb_functions::keys::nested::{has_bytes, key_bytes};
use swingdb_functions::keys::order::{is_ordered_otherwise, order_bytes};
use swingdb_functions::keys::same_bits::{is_same_bits, same_bits};

/// Whether values of an expression can be equal and differ in bits. Lambda variables, which have no
/// type here, are left alone.
pub(crate) fn is_key(expr: &Expr, schema: &DFSchema) -> bool {
    let differ = |given: DataType| has_floats(&given) || has_intervals(&given);
    !is_same_bits(expr) && expr.get_type(schema).is_ok_and(differ)
}

pub(crate) fn key(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match is_key(&expr, schema) {
        true if is_interval_of(&expr, schema) => Transformed::yes(interval_length(expr)),
        true => Transformed::yes(same_bits(expr)),
        false => Transformed::no(expr),
    }
}

/// Whether values are intervals, or have some inside.
pub(crate) fn is_interval_of(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| has_intervals(&given))
}

pub(super) fn set_key(expr: &mut Expr, schema: &DFSchema) -> bool {
    let Transformed { data, transformed, .. } = key(std::mem::take(expr), schema);
    *expr = data;
    transformed
}

pub(super) fn set_keys(all: &mut [Expr], schema: &DFSchema) -> bool {
    all.iter_mut().fold(false, |changed, expr| set_key(expr, schema) | changed)
}

/// The arguments of an aggregate with DISTINCT, but for constants, as the fraction of a quantile.
/// Intervals it may have to show, unless it counts: then lists and structs are bytes.
pub(super) fn set_distinct_keys(function: &str, all: &mut [Expr], schema: &DFSchema) -> bool {
    let shows = |expr: &Expr| function != "count" && is_interval_of(expr, schema);
    let constant = |expr: &Expr| {
        expr.column_refs().is_empty() && !expr.contains_outer() && !expr.is_volatile()
    };
    let keys = all.iter_mut().filter(|expr| !shows(expr) && !constant(expr));
    keys.fold(false, |mut changed, expr| {
        changed |= set_key(expr, schema);
        if function == "count" && expr.get_type(schema).is_ok_and(|given| has_bytes(&given)) {
            *expr = key_bytes(std::mem::take(expr));
            changed = true;
        }
        changed
    })
}

pub(super) fn set_sort_keys(all: &mut [SortExpr], schema: &DFSchema) -> bool {
    all.iter_mut().fold(false, |changed, sort| set_sort_key(&mut sort.expr, schema) | changed)
}

/// What is sorted by an expression in place of it.
pub(super) fn set_sort_key(expr: &mut Expr, schema: &DFSchema) -> bool {
    if !is_nested(expr, schema) {
        return set_key(expr, schema);
    }
    *expr = order_bytes(std::mem::take(expr));
    true
}

/// Whether values are lists and the like, which the engine has in another order.
pub(super) fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| is_ordered_otherwise(&given))
}

/// Whether an expression is a number, written or computed from written ones, and no NaN.
pub(super) fn is_plain_number(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => match value {
            ScalarValue::Float64(Some(number)) => !number.is_nan(),
            ScalarValue::Float32(Some(number)) => !number.is_nan(),
            ScalarValue::Float16(Some(number)) => !number.is_nan(),
            other => other.is_null() || other.data_type().is_numeric(),
        },
        Expr::Cast(Cast { expr, field }) => match expr.as_ref() {
            Expr::Literal(text, _) if text.data_type().is_string() => text
                .cast_to(field.data_type())
                .is_ok_and(|value| is_plain_number(&Expr::Literal(value, None))),
            inner => is_plain_number(inner),
        },
        Expr::Negative(inner) => is_plain_number(inner),
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            is_plain_number(left) && is_plain_number(right)
        }
        _ => false,
    }
}
