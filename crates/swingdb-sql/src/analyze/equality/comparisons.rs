//! Expressions that compare values for equality: operators, lists, subqueries, functions, and the
//! arguments of aggregates and windows.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, BinaryExpr, Case, InList, InSubquery, ScalarFunction,
    WindowFunction,
};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, cast};
use swingdb_common::floats::has_floats;
use swingdb_functions::keys::order;
use swingdb_functions::keys::order::{element_bytes, is_sorted_by_bytes, order_bytes};
use swingdb_functions::keys::same_bits::{is_same_bits, same_bits};

use crate::analyze::equality::keys::{
    is_interval_of, is_key, is_nested, is_plain_number, key, set_distinct_keys, set_key, set_keys,
    set_sort_keys,
};
use crate::analyze::equality::lists;
use crate::analyze::equality::signs::{is_choice, is_order, is_ordering};
use crate::nodes::expressions::with_element;
use crate::nodes::list_functions::SEARCH_FUNCTIONS;

/// Elements up to which a list is looked through for a NaN.
const MAX_LOOKED_AT: usize = 10_000;
const NULLIF: &str = "nullif";
const APPROXIMATE: &str = "approx_distinct";

pub(super) fn compares(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op) || lists::are_lists(binary),
        Expr::InList(_) | Expr::InSubquery(_) | Expr::WindowFunction(_) => true,
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(call) if call.name() == NULLIF || is_search(call) => true,
        Expr::AggregateFunction(call)
            if call.params.distinct
                || !call.params.order_by.is_empty()
                || call.func.name() == APPROXIMATE =>
        {
            true
        }
        other => is_ordering(other),
    }
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

pub(super) fn settle(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(compared) if is_comparison(compared.op) => comparison(compared, schema),
        Expr::BinaryExpr(both) if lists::are_lists(&both) => {
            match lists::without_common(&both, schema) {
                Some(answer) => Transformed::yes(answer),
                None => Transformed::no(Expr::BinaryExpr(both)),
            }
        }
        Expr::InList(list) if lists::has_nulls(&list) => {
            Transformed::yes(lists::without_nulls(list, |list| in_list(list, schema).data))
        }
        Expr::InList(list) => in_list(list, schema),
        Expr::InSubquery(membership) => in_subquery(membership, schema)?,
        Expr::AggregateFunction(call) => aggregate(call, schema),
        Expr::WindowFunction(call) => window(*call, schema),
        Expr::Case(case) => compared_case(case, schema),
        Expr::ScalarFunction(call) if call.name() == NULLIF => nullif(call, schema),
        Expr::ScalarFunction(call) if is_choice(&call) => choice(call, schema),
        Expr::ScalarFunction(call) if is_search(&call) => search(call, schema),
        Expr::Between(between) => nested_between(between, schema),
        other => Transformed::no(other),
    })
}

/// `x BETWEEN a AND b` of lists and the like.
fn nested_between(between: Between, schema: &DFSchema) -> Transformed<Expr> {
    let sides = [&between.expr, &between.low, &between.high];
    if sides.iter().any(|side| side.contains_outer() || !is_nested(side, schema)) {
        return Transformed::no(Expr::Between(between));
    }
    let Between { expr, negated, low, high } = between;
    let [expr, low, high] = [expr, low, high].map(|side| Box::new(order_bytes(*side)));
    Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
}

fn is_search(call: &ScalarFunction) -> bool {
    SEARCH_FUNCTIONS.contains(&call.name())
}

/// `list_contains(l, x)` of floating point: equal numbers have equal bits there, too. The place of
/// a list or a STRUCT is that of its bytes: the engine finds no NULL there, and no STRUCT.
fn search(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if matches!(call.name(), "array_position" | "array_positions")
        && let [list, element, ..] = call.args.as_mut_slice()
        && is_nested(element, schema)
        && list.get_type(schema).is_ok_and(|given| matches!(given, DataType::List(_)))
    {
        *list = element_bytes(std::mem::take(list));
        *element = order_bytes(std::mem::take(element));
        return Transformed::yes(Expr::ScalarFunction(call));
    }
    // What gives elements back gives them as they are.
    let only_finds = matches!(
        call.name(),
        "array_has" | "array_has_all" | "array_has_any" | "array_position" | "array_positions"
    );
    if only_finds && call.args.iter().any(|arg| is_interval_of(arg, schema)) {
        changed |= set_keys(&mut call.args, schema);
        return Transformed::new_transformed(Expr::ScalarFunction(call), changed);
    }
    for arg in &mut call.args {
        let floats = arg.get_type(schema).is_ok_and(|given| has_floats(&given));
        if floats && !is_same_bits(arg) {
            *arg = same_bits(std::mem::take(arg));
            changed = true;
        }
    }
    Transformed::new_transformed(Expr::ScalarFunction(call), changed)
}

/// `greatest(x, y)` of lists and the like, and of intervals.
fn choice(call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let by_bytes = |arg: &Expr| arg.get_type(schema).is_ok_and(|given| is_sorted_by_bytes(&given));
    match call.args.iter().all(by_bytes) {
        true => Transformed::yes(order::chosen(call.name() == "greatest", call.args)),
        false => Transformed::no(Expr::ScalarFunction(call)),
    }
}

pub(super) fn comparison(compared: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let BinaryExpr { left, op, right } = compared;
    if is_order(op) && is_nested(&left, schema) && is_nested(&right, schema) {
        let outer = left.contains_outer() || right.contains_outer();
        let [left, right] = [left, right].map(|side| match outer {
            true => side,
            false => Box::new(order_bytes(*side)),
        });
        return Transformed::new_transformed(
            Expr::BinaryExpr(BinaryExpr { left, op, right }),
            !outer,
        );
    }
    // The engine makes joins of subqueries that compare columns; the comparison is settled then.
    let stays = |side: &Expr| is_plain_number(side) || side.contains_outer();
    if !is_key(&left, schema) || stays(&left) || stays(&right) {
        return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }));
    }
    let [left, right] = [left, right].map(|side| Box::new(key(*side, schema).data));
    Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
}

/// The engine's lists of numbers are made right elsewhere but for NaNs, and long ones of
/// expressions.
fn in_list(mut list: InList, schema: &DFSchema) -> Transformed<Expr> {
    let plain = list.list.iter().take(MAX_LOOKED_AT).all(is_plain_number);
    if plain || !is_key(&list.expr, schema) {
        return Transformed::no(Expr::InList(list));
    }
    list.expr = Box::new(key(*list.expr, schema).data);
    list.list = list.list.into_iter().map(|element| key(element, schema).data).collect();
    Transformed::yes(Expr::InList(list))
}

/// Whether a value is compared by its bits, or its parts are, in CASE and `nullif`: of numbers
/// alone the engine's are right.
fn is_compared_by_bits(expr: &Expr, schema: &DFSchema) -> bool {
    is_interval_of(expr, schema) || is_nested(expr, schema) && is_key(expr, schema)
}

/// `CASE x WHEN y THEN ...` of intervals, and of lists and the like with numbers in them.
fn compared_case(mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    let operand = case.expr.as_deref_mut();
    if let Some(operand) = operand.filter(|expr| is_compared_by_bits(expr, schema)) {
        let whens = case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
        for side in std::iter::once(operand).chain(whens) {
            changed |= set_key(side, schema);
        }
    }
    Transformed::new_transformed(Expr::Case(case), changed)
}

/// `nullif(x, y)` of the same.
fn nullif(call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    match call.args.as_slice() {
        [one, other] if [one, other].iter().all(|side| is_compared_by_bits(side, schema)) => {
            let [left, right] = [one, other].map(|side| key(side.clone(), schema).data);
            let Ok(none) = one.get_type(schema).and_then(|given| ScalarValue::try_new_null(&given))
            else {
                return Transformed::no(Expr::ScalarFunction(call));
            };
            let none = Expr::Literal(none, None);
            let equal = (Box::new(left.eq(right)), Box::new(none));
            let case = Case::new(None, vec![equal], Some(Box::new(one.clone())));
            Transformed::yes(Expr::Case(case))
        }
        _ => Transformed::no(Expr::ScalarFunction(call)),
    }
}

fn in_subquery(membership: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !is_key(&membership.expr, schema) {
        return Ok(Transformed::no(Expr::InSubquery(membership)));
    }
    let InSubquery { expr, subquery, negated } = membership;
    let subquery = with_element(subquery, |element, columns| key(element, columns).data)?;
    let expr = Box::new(key(*expr, schema).data);
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

fn aggregate(mut call: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if call.func.name() == APPROXIMATE {
        changed |= as_texts(&mut call.params.args, schema);
    }
    if call.params.distinct {
        changed |= set_distinct_keys(call.func.name(), &mut call.params.args, schema);
    }
    changed |= set_sort_keys(&mut call.params.order_by, schema);
    Transformed::new_transformed(Expr::AggregateFunction(call), changed)
}

/// The engine counts no numbers of floating point, but their texts.
fn as_texts(args: &mut [Expr], schema: &DFSchema) -> bool {
    let floats = |expr: &Expr| expr.get_type(schema).is_ok_and(|given| given.is_floating());
    args.iter_mut().filter(|expr| floats(expr)).fold(false, |_, expr| {
        *expr = cast(same_bits(std::mem::take(expr)), DataType::Utf8);
        true
    })
}

fn window(mut call: WindowFunction, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = set_keys(&mut call.params.partition_by, schema);
    if call.fun.name() == APPROXIMATE {
        changed |= as_texts(&mut call.params.args, schema);
    }
    if call.params.distinct {
        changed |= set_distinct_keys(call.fun.name(), &mut call.params.args, schema);
    }
    changed |= set_sort_keys(&mut call.params.order_by, schema);
    Transformed::new_transformed(Expr::WindowFunction(Box::new(call)), changed)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::tree_node::TreeNode;
    use datafusion::prelude::{col, in_list as list_of, lit};

    use super::*;

    fn settled(expr: Expr) -> String {
        let fields = vec![
            Field::new("x", DataType::Float64, true),
            Field::new("y", DataType::Float64, true),
            Field::new("i", DataType::Int64, true),
        ];
        let schema = Schema::new_with_metadata(fields, HashMap::new());
        let schema = DFSchema::try_from(schema).unwrap();
        let settled = |part| settle(part, &schema);
        expr.transform_up(settled).unwrap().data.to_string()
    }

    #[test]
    fn both_sides_of_a_comparison_or_none() {
        assert_eq!(settled(col("x").eq(col("y"))), "same_bits(x) = same_bits(y)");
        assert_eq!(
            settled(col("x").lt(col("y") * lit(2.0))),
            "same_bits(x) < same_bits(y * Float64(2))"
        );
        for same in [
            col("i").eq(col("i")),
            col("x").gt(lit(0.5)),
            lit(0.0).eq(col("x")),
            col("x").lt_eq(lit(1.0) + lit(2.0)),
            col("x") + col("y"),
        ] {
            assert_eq!(settled(same.clone()), same.to_string());
        }
        assert!(settled(col("x").eq(lit(f64::NAN))).starts_with("same_bits(x) ="));
    }

    #[test]
    fn lists_with_a_nan_and_no_others() {
        let plain = list_of(col("x"), vec![lit(1.0), lit(0.0)], false);
        assert_eq!(settled(plain.clone()), plain.to_string());
        let nan = list_of(col("x"), vec![lit(1.0), lit(f64::NAN)], true);
        assert!(settled(nan).starts_with("same_bits(x) NOT IN ([same_bits("));
        let whole = list_of(col("i"), vec![col("i"), lit(1_i64)], false);
        assert_eq!(settled(whole.clone()), whole.to_string());
    }
}
