//! A written text beside values of another type is read as such a value, as DuckDB and PostgreSQL
//! do: `CASE WHEN a THEN 1 ELSE '2' END` and `2 * '3'` are numbers, `[d, '2024-01-01']` a list of
//! dates. The engine makes texts of all, or finds no operator.
//!
//! Only what stands between quotes is read, and parameters: texts that are columns, or cast to
//! VARCHAR, stay texts, or are refused.

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::binary::type_union_resolution;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{Expr, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use swingdb_functions::arithmetic::types::type_of;
use swingdb_functions::nested::elements::{element, places, reads};
use swingdb_functions::nested::unified::{beside, beside_texts, is_read};

use crate::plan::moments::MAX_LOOKED_AT;

/// Reads the texts among values of which one is taken, or which are elements of one list.
pub(crate) fn read(values: &mut [&mut Expr], schema: &DFSchema) -> bool {
    if !values.iter().any(|value| is_written(value)) {
        return false;
    }
    let mut types = Vec::new();
    let others = values.iter().filter(|value| !is_written(value));
    for value in others.take(MAX_LOOKED_AT) {
        match type_of(value, schema) {
            Ok(DataType::Null) => {}
            Ok(given) if types.contains(&given) => {}
            Ok(given) if given.is_numeric() || is_read(&given) => types.push(given),
            _ => return false,
        }
    }
    let wanted = match types.as_slice() {
        [one] => Some(one.clone()),
        several if several.iter().all(DataType::is_numeric) => type_union_resolution(several),
        _ => None,
    };
    let Some(wanted) = wanted else { return false };
    for value in values.iter_mut().filter(|value| is_written(value)) {
        **value = cast(std::mem::take(*value), wanted.clone());
    }
    true
}

/// Whether this is a text between quotes, or one that is given for a parameter.
pub(crate) fn is_written(value: &Expr) -> bool {
    match value {
        Expr::Literal(text, _) => text.data_type().is_string(),
        Expr::Placeholder(Placeholder { field: Some(field), .. }) => field.data_type().is_string(),
        _ => false,
    }
}

/// Refuses texts that have not been [`read`] among the arguments of a function.
pub(crate) fn check(function: &str, values: &[Expr], schema: &DFSchema) -> Result<()> {
    let types = values.iter().take(MAX_LOOKED_AT).filter_map(|value| type_of(value, schema).ok());
    match beside_texts(&types.collect::<Vec<_>>()) {
        Some(other) => beside(function, &other),
        None => Ok(()),
    }
}

/// Whether a call takes a list, and values that could be its elements.
pub(crate) fn is_of_elements(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if places(call.name()).is_some())
}

/// Reads the texts that such a call has beside a list of others, and refuses columns of texts.
pub(crate) fn read_elements(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let Some((list, values)) = places(call.name()) else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let of = call.args.get(list).and_then(|list| type_of(list, schema).ok());
    let Some(of) = of.as_ref().and_then(element).filter(|of| reads(of)).cloned() else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let mut changed = false;
    for at in values {
        let Some(value) = call.args.get_mut(*at) else { continue };
        if is_written(value) {
            *value = cast(std::mem::take(value), of.clone());
            changed = true;
        } else if type_of(value, schema).is_ok_and(|given| given.is_string()) {
            return beside(call.name(), &DataType::new_list(of, true));
        }
    }
    Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
}

/// Reads a text that an operator of numbers has on one side, and what is added to a timestamp.
pub(crate) fn read_operand(expr: &mut RawBinaryExpr, schema: &DFSchema) {
    if operand(&expr.op, DataType::Int64).is_some() {
        settle(&mut expr.left, schema);
        settle(&mut expr.right, schema);
    }
    let (text, beside) = match (is_written(&expr.left), is_written(&expr.right)) {
        (true, false) => (&mut expr.left, &expr.right),
        (false, true) => (&mut expr.right, &expr.left),
        _ => return,
    };
    let Ok(beside) = type_of(beside, schema) else { return };
    if let Some(wanted) = operand(&expr.op, beside) {
        *text = cast(std::mem::take(text), wanted);
    }
}

/// Reads the texts among what a CASE or `coalesce` gives: an operator beside it is planned before
/// the plan is [rewritten](crate::plan::rewrite).
fn settle(expr: &mut Expr, schema: &DFSchema) {
    let mut values = match expr {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            results.chain(case.else_expr.as_deref_mut()).collect::<Vec<_>>()
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "coalesce" | "nvl") => {
            call.args.iter_mut().collect()
        }
        _ => return,
    };
    for value in &mut values {
        settle(value, schema);
    }
    read(&mut values, schema);
}

/// What a text is for an operator, beside a value of a type.
fn operand(operator: &BinaryOperator, beside: DataType) -> Option<DataType> {
    use BinaryOperator::{
        BitwiseAnd, BitwiseOr, Divide, DuckIntegerDivide, Minus, Modulo, Multiply,
        PGBitwiseShiftLeft, PGBitwiseShiftRight, Plus,
    };
    match (operator, beside) {
        (Plus, DataType::Timestamp(..)) => Some(DataType::Interval(IntervalUnit::MonthDayNano)),
        // A text may have more digits than the type beside it.
        (Plus | Minus | Multiply | Divide | Modulo, given) if given.is_decimal() => {
            Some(DataType::Float64)
        }
        (Plus | Minus | Multiply | Divide | Modulo | DuckIntegerDivide, given)
            if given.is_integer() || given.is_floating() =>
        {
            Some(given)
        }
        (BitwiseAnd | BitwiseOr | PGBitwiseShiftLeft | PGBitwiseShiftRight, given)
            if given.is_integer() =>
        {
            Some(given)
        }
        _ => None,
    }
}
