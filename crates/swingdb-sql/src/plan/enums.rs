//! ENUMs have the order of their lists: in ORDER BY, beside another value of the same type, in
//! `min` and `max`.
//!
//! The engine takes the values for texts. Where their order counts, the position of a value stands
//! in its place. What an expression makes of such values is text, unless it gives them as they are;
//! beside other texts they are texts too, as in DuckDB.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, Between, BinaryExpr, ScalarFunction, Sort,
};
use datafusion::logical_expr::{
    Cast, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Projection, TryCast, Union, cast,
    lit,
};
use swingdb_common::enums::EnumType;
use swingdb_functions::json::to_json::unmarked;
use swingdb_functions::text::enums::{AS_ENUM, ASKED, TRY_AS_ENUM, as_enum, position};

use crate::nodes::expressions::any_part;

/// Aggregates and functions of windows that give values of their first argument as they are.
const TAKE_FIRST: [&str; 8] = [
    "any_value",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "mode",
    "nth_value",
    "first_value_in_order",
];
/// Functions whose answer depends on an order that they do not know.
const ORDERED: [&str; 10] = [
    "array_max",
    "array_min",
    "greatest",
    "least",
    "max",
    "median",
    "min",
    "percentile_disc",
    "quantile_cont",
    "quantile_disc",
];

const COALESCE: &str = "coalesce";

/// Whether columns of a node are of an ENUM, or what it computes is.
pub(crate) fn are_in(node: &LogicalPlan) -> bool {
    let makes = |part: &Expr| match part {
        Expr::ScalarFunction(call) => {
            [AS_ENUM, TRY_AS_ENUM].contains(&call.name()) || ASKED.contains(&call.name())
        }
        _ => false,
    };
    node.schema().fields().iter().any(|field| EnumType::of_field(field).is_some())
        || any_part(node, makes)
}

/// Whether the order of values counts here, or their type is asked for.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_order(*op),
        Expr::Between(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::Case(_) => {
            true
        }
        Expr::ScalarFunction(call) => {
            call.name() == COALESCE
                || ASKED.contains(&call.name())
                || ORDERED.contains(&call.name())
        }
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            field.data_type().is_string()
        }
        _ => false,
    }
}

fn is_order(operator: Operator) -> bool {
    matches!(operator, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

fn of(expr: &Expr, schema: &DFSchema) -> Option<EnumType> {
    EnumType::of_field(expr.to_field(schema).ok()?.1.as_ref())
}

/// Puts positions in the place of values that are all of one ENUM.
fn settle(operands: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let Some(first) = operands.first().and_then(|operand| of(operand, schema)) else {
        return false;
    };
    if !operands.iter().all(|operand| of(operand, schema).as_ref() == Some(&first)) {
        return false;
    }
    for operand in operands {
        **operand = position(std::mem::take(*operand), &first);
    }
    true
}

fn settle_sorts(sorts: &mut [Sort], schema: &DFSchema) -> bool {
    let mut changed = false;
    for sort in sorts {
        changed |= settle(&mut [&mut sort.expr], schema);
    }
    changed
}

/// The expression with the order that ENUMs have.
pub(crate) fn rewrite(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            settle(&mut [left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            settle(&mut [expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            match of(expr, schema) {
                // The engine keeps the mark.
                Some(_) => {
                    **expr = unmarked(std::mem::take(expr));
                    true
                }
                None => false,
            }
        }
        Expr::ScalarFunction(call) if ASKED.contains(&call.name()) => {
            return told(call, schema).map(Transformed::yes);
        }
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            let found = one_of(results.chain(case.else_expr.as_deref()), schema);
            return Ok(marked(expr, found));
        }
        Expr::ScalarFunction(call) if call.name() == COALESCE => {
            let found = one_of(call.args.iter(), schema);
            return Ok(marked(expr, found));
        }
        Expr::ScalarFunction(call) => {
            refuse_order(call.name(), &call.args, schema)?;
            false
        }
        Expr::AggregateFunction(call) => of_aggregate(call, schema)?,
        Expr::WindowFunction(call) => {
            refuse_order(call.fun.name(), &call.params.args, schema)?;
            settle_sorts(&mut call.params.order_by, schema)
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// The ENUM that all of some values are of, but for NULL.
fn one_of<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<EnumType> {
    let mut found = None;
    for value in values {
        if value.get_type(schema).is_ok_and(|given| given.is_null()) {
            continue;
        }
        let of = of(value, schema)?;
        if found.as_ref().is_some_and(|found| *found != of) {
            return None;
        }
        found = Some(of);
    }
    found
}

/// An expression that gives values of an ENUM, which the engine takes for texts.
fn marked(expr: Expr, values: Option<EnumType>) -> Transformed<Expr> {
    match values {
        Some(values) => Transformed::yes(as_enum(expr, &values)),
        None => Transformed::no(expr),
    }
}

/// `min(x)` and `max(x)`: the first value by its position. Orders of their own are by positions.
fn of_aggregate(call: &mut AggregateFunction, schema: &DFSchema) -> Result<bool> {
    let ordered = settle_sorts(&mut call.params.order_by, schema);
    let least = match call.func.name() {
        "min" => true,
        "max" => false,
        name => {
            refuse_order(name, &call.params.args, schema)?;
            return Ok(ordered);
        }
    };
    let [value] = call.params.args.as_slice() else { return Ok(ordered) };
    let Some(values) = of(value, schema) else { return Ok(ordered) };
    let is_there = value.clone().is_not_null();
    let filter = match call.params.filter.take() {
        Some(filter) => filter.and(is_there),
        None => is_there,
    };
    let order_by = vec![Sort::new(position(value.clone(), &values), least, false)];
    let params = AggregateFunctionParams {
        args: call.params.args.clone(),
        distinct: false,
        filter: Some(Box::new(filter)),
        order_by,
        null_treatment: None,
    };
    *call = AggregateFunction { func: first_value_udaf(), params };
    Ok(true)
}

/// Refuses what would go by the order of texts.
fn refuse_order(name: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let Some(first) = args.first().filter(|_| ORDERED.contains(&name)) else { return Ok(()) };
    let Some(values) = of(first, schema) else { return Ok(()) };
    let is_text = |arg: &Expr| arg.get_type(schema).is_ok_and(|given| given.is_string());
    let fits = |arg: &Expr| !is_text(arg) || of(arg, schema).as_ref() == Some(&values);
    match args.iter().all(fits) {
        true => plan_err!(
            "{name} of an ENUM in this place; write {name}(enum_code(x)), or cast it to VARCHAR"
        ),
        // Beside other texts they are texts.
        false => Ok(()),
    }
}

/// What is asked of an ENUM, by the value alone.
fn told(call: &ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let name = call.name();
    let count = if name == "enum_range_boundary" { 2 } else { 1 };
    let found = call.args.iter().find_map(|arg| of(arg, schema));
    let (Some(values), true) = (found, call.args.len() == count) else {
        return plan_err!("{name} takes {count} value(s) of an ENUM");
    };
    let texts = values.values();
    let text = |value: Option<&String>| lit(ScalarValue::Utf8View(value.cloned()));
    let list = |texts: &[String]| {
        let texts = texts.iter().map(|text| ScalarValue::Utf8View(Some(text.clone())));
        let texts = texts.collect::<Vec<_>>();
        lit(ScalarValue::List(ScalarValue::new_list_nullable(&texts, &DataType::Utf8View)))
    };
    Ok(match name {
        "enum_code" => cast(position(call.args[0].clone(), &values), values.code_type()),
        "enum_first" => text(texts.first()),
        "enum_last" => text(texts.last()),
        "enum_range" => list(texts),
        _ => {
            let (from, to) = (bound(&call.args[0], &values)?, bound(&call.args[1], &values)?);
            let from = from.unwrap_or_default();
            let end = to.map_or(texts.len(), |to| to + 1);
            list(texts.get(from..end.max(from)).unwrap_or_default())
        }
    })
}

/// Where a constant is in the list; `None` for NULL.
fn bound(value: &Expr, of: &EnumType) -> Result<Option<usize>> {
    let constant = match value {
        Expr::ScalarFunction(call) if call.name() == AS_ENUM => call.args.first(),
        other => Some(other),
    };
    match constant {
        Some(Expr::Literal(value, _)) if value.is_null() => Ok(None),
        Some(Expr::Literal(value, _)) => {
            let text = value.try_as_str().flatten().unwrap_or_default();
            match of.values().iter().position(|known| known == text) {
                Some(at) => Ok(Some(at)),
                None => plan_err!("'{text}' is no value of {of}"),
            }
        }
        _ => plan_err!("enum_range_boundary takes constants"),
    }
}

/// A node with the order of ENUMs in ORDER BY, and with columns that say of which ENUM they are.
pub(crate) fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Sort(mut sort) => {
            let schema = Arc::clone(sort.input.schema());
            let changed = settle_sorts(&mut sort.expr, &schema);
            Transformed::new_transformed(LogicalPlan::Sort(sort), changed)
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            let keys = on.on_expr.iter_mut();
            let mut changed =
                keys.fold(false, |changed, key| settle(&mut [key], &schema) | changed);
            changed |= on.sort_expr.as_mut().is_some_and(|sorts| settle_sorts(sorts, &schema));
            Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed)
        }
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => of_groups(plan)?,
        LogicalPlan::Union(union) => of_union(union)?,
        other => Transformed::no(other),
    })
}

/// A UNION whose queries give values of an ENUM and other texts: all are texts.
fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let of = |input: &LogicalPlan, at: usize| EnumType::of_field(input.schema().field(at));
    let mixed = (0..union.schema.fields().len()).filter(|at| {
        let mut all = union.inputs.iter().map(|input| of(input, *at));
        let first = all.next().flatten();
        all.any(|other| other != first)
    });
    let mixed = mixed.collect::<Vec<_>>();
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for input in union.inputs {
        let schema = Arc::clone(input.schema());
        let columns = schema.iter().enumerate().map(|(at, (relation, field))| {
            let value = Expr::Column((relation, field).into());
            match mixed.contains(&at) && of(&input, at).is_some() {
                true => unmarked(value).alias_qualified(relation.cloned(), field.name()),
                false => value,
            }
        });
        let columns = columns.collect::<Vec<_>>();
        inputs.push(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?)));
    }
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// What aggregates and windows take from values of an ENUM, as such values.
fn of_groups(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let (computed, given) = match &plan {
        LogicalPlan::Aggregate(node) => (&node.aggr_expr, node.input.schema()),
        LogicalPlan::Window(node) => (&node.window_expr, node.input.schema()),
        _ => return Ok(Transformed::no(plan)),
    };
    let schema = plan.schema();
    let before = schema.fields().len().saturating_sub(computed.len());
    let mut changed = false;
    let columns = schema.iter().enumerate().map(|(at, (relation, field))| {
        let value = Expr::Column((relation, field).into());
        let computed = at.checked_sub(before).and_then(|at| computed.get(at));
        let silent = field.data_type().is_string() && EnumType::of_field(field).is_none();
        match computed.filter(|_| silent).and_then(|computed| taken(computed, given)) {
            Some(values) => {
                changed = true;
                as_enum(value, &values).alias_qualified(relation.cloned(), field.name())
            }
            None => value,
        }
    });
    let columns = columns.collect::<Vec<_>>();
    if !changed {
        return Ok(Transformed::no(plan));
    }
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?)))
}

/// The ENUM of what an aggregate, or a function of windows, takes from its rows.
fn taken(computed: &Expr, schema: &DFSchema) -> Option<EnumType> {
    let (name, args) = match computed {
        Expr::Alias(alias) => return taken(&alias.expr, schema),
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => (call.fun.name(), &call.params.args),
        _ => return None,
    };
    let first = args.first().filter(|_| TAKE_FIRST.contains(&name))?;
    of(first, schema)
}
