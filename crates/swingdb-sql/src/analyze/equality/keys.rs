//! Puts [`same_bits`] around the floating point keys of a plan, and [`interval_length`] around
//! intervals.
//!
//! **Cycle.** Keys of groups are keys as others are, and are wrapped by their own rules.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, BinaryExpr, Case, Cast, InList, InSubquery, ScalarFunction,
    WindowFunction,
};
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, SortExpr,
    Subquery, cast,
};
use datafusion::optimizer::AnalyzerRule;
use swingdb_common::floats::has_floats;
use swingdb_functions::keys::intervals::{interval_length, is_interval};
use swingdb_functions::keys::order::{
    element_bytes, is_ordered_otherwise, is_sorted_by_bytes, order_bytes,
};
use swingdb_functions::keys::same_bits::{is_same_bits, same_bits};
use swingdb_functions::keys::{nested, order};

use crate::analyze::equality::signs::{Reads, is_extreme};
use crate::analyze::equality::{groups, lists};
use crate::nodes::expressions::rewrite_parts;

/// Elements up to which a list is looked through for a NaN.
const MAX_LOOKED_AT: usize = 10_000;
const NULLIF: &str = "nullif";
const APPROXIMATE: &str = "approx_distinct";
/// Functions that look for values among the elements of lists.
const LOOKING: &[&str] = &[
    "array_except",
    "array_has",
    "array_has_all",
    "array_has_any",
    "array_intersect",
    "array_position",
    "array_positions",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "array_union",
    "arrays_overlap",
    "map_of_lists",
];

/// Runs after types are settled; when subqueries have become joins, [`settle_again`] does.
#[derive(Debug, Default)]
pub(crate) struct Equality;

/// The same for the joins that subqueries have become.
pub(crate) fn settle_again(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|plan| settle(plan, Reads::default(), false))
}

impl AnalyzerRule for Equality {
    fn name(&self) -> &str {
        "equality"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let settle_first = |plan: LogicalPlan| {
            let reads = Reads::of(&plan, is_ordering)?;
            settle(plan, reads, true)
        };
        Ok(plan.transform_up_with_subqueries(settle_first)?.data)
    }
}

/// `ordering`: also what is left to do but for equality, once.
fn settle(plan: LogicalPlan, reads: Reads, ordering: bool) -> Result<Transformed<LogicalPlan>> {
    let settled = rewrite_parts(plan, is_concerned, |expr, schema| {
        let settled = settle_expression(expr, schema)?;
        match ordering {
            true => settled.transform_data(|expr| Ok(settle_order(expr, schema, &reads))),
            false => Ok(settled),
        }
    });
    settled?.transform_data(|plan| settle_node(plan, ordering))
}

// ---- expressions --------------------------------------------------------------------------------

fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => is_comparison(binary.op) || lists::are_lists(binary),
        Expr::InList(_) | Expr::InSubquery(_) | Expr::WindowFunction(_) => true,
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(call) if call.name() == NULLIF || is_looking(call) => true,
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

fn settle_expression(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
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
        Expr::ScalarFunction(call) if is_looking(&call) => looking(call, schema),
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

fn is_looking(call: &ScalarFunction) -> bool {
    LOOKING.contains(&call.name())
}

/// `list_contains(l, x)` of floating point: equal numbers have equal bits there, too. The place of
/// a list or a STRUCT is that of its bytes: the engine finds no NULL there, and no STRUCT.
fn looking(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
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
    for arg in &mut call.args {
        let floats = arg.get_type(schema).is_ok_and(|given| has_floats(&given));
        if floats && !is_same_bits(arg) {
            *arg = same_bits(std::mem::take(arg));
            changed = true;
        }
    }
    Transformed::new_transformed(Expr::ScalarFunction(call), changed)
}

fn is_choice(call: &ScalarFunction) -> bool {
    matches!(call.name(), "greatest" | "least")
}

/// `greatest(x, y)` of lists and the like, and of intervals.
fn choice(call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let by_bytes = |arg: &Expr| arg.get_type(schema).is_ok_and(|given| is_sorted_by_bytes(&given));
    match call.args.iter().all(by_bytes) {
        true => Transformed::yes(order::chosen(call.name() == "greatest", call.args)),
        false => Transformed::no(Expr::ScalarFunction(call)),
    }
}

fn comparison(compared: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
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

/// `CASE x WHEN y THEN ...` of intervals; of numbers the engine's is right.
fn compared_case(mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let Some(operand) = case.expr.as_deref_mut().filter(|expr| is_interval_of(expr, schema)) {
        let whens = case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
        for side in std::iter::once(operand).chain(whens) {
            changed |= set_key(side, schema);
        }
    }
    Transformed::new_transformed(Expr::Case(case), changed)
}

/// `nullif(x, y)` of intervals.
fn nullif(call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    match call.args.as_slice() {
        [one, other] if is_interval_of(one, schema) && is_interval_of(other, schema) => {
            let [left, right] = [one, other].map(|side| key(side.clone(), schema).data);
            let none = Expr::Literal(ScalarValue::IntervalMonthDayNano(None), None);
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
    let Subquery { subquery, outer_ref_columns, spans } = subquery;
    let (relation, field) = subquery.schema().qualified_field(0);
    let (relation, name) = (relation.cloned(), field.name().clone());
    // What selects the elements stays one projection: correlated subqueries are looked into.
    let (element, input) = match subquery.as_ref() {
        LogicalPlan::Projection(list) if list.expr.len() == 1 => {
            (list.expr[0].clone().unalias(), Arc::clone(&list.input))
        }
        _ => (Expr::Column(subquery.schema().qualified_field(0).into()), subquery),
    };
    let element = key(element, input.schema()).data.alias_qualified(relation, name);
    let list = LogicalPlan::Projection(Projection::try_new(vec![element], input)?);
    let subquery = Subquery { subquery: Arc::new(list), outer_ref_columns, spans };
    let expr = Box::new(key(*expr, schema).data);
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

fn aggregate(mut call: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if call.func.name() == APPROXIMATE {
        changed |= as_texts(&mut call.params.args, schema);
    }
    if call.params.distinct {
        changed |= distinct_keys(call.func.name(), &mut call.params.args, schema);
    }
    changed |= sort_keys(&mut call.params.order_by, schema);
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
    let mut changed = keys(&mut call.params.partition_by, schema);
    if call.fun.name() == APPROXIMATE {
        changed |= as_texts(&mut call.params.args, schema);
    }
    if call.params.distinct {
        changed |= distinct_keys(call.fun.name(), &mut call.params.args, schema);
    }
    changed |= sort_keys(&mut call.params.order_by, schema);
    Transformed::new_transformed(Expr::WindowFunction(Box::new(call)), changed)
}

// ---- order --------------------------------------------------------------------------------------

/// Whether an expression's value depends on which of two numbers is greater.
fn is_ordering(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_order(*op),
        Expr::Between(_) => true,
        Expr::AggregateFunction(call) => is_extreme(call.func.name()),
        Expr::WindowFunction(call) => is_extreme(call.fun.name()),
        Expr::ScalarFunction(call) => is_choice(call),
        _ => false,
    }
}

fn is_order(operator: Operator) -> bool {
    matches!(operator, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// What tells a NaN with a sign from the others though it does not compare two keys.
fn settle_order(expr: Expr, schema: &DFSchema, reads: &Reads) -> Transformed<Expr> {
    let signed = |expr: &Expr| {
        let number = expr.get_type(schema).is_ok_and(|given| given.is_floating());
        number && reads.may_be_signed(expr, schema)
    };
    match expr {
        Expr::BinaryExpr(compared) if is_order(compared.op) => {
            against_number(compared, schema, &signed)
        }
        Expr::Between(between) => self::between(between, schema, &signed),
        Expr::AggregateFunction(mut call) if is_extreme(call.func.name()) => {
            let changed = without_signs(&mut call.params.args, &signed);
            Transformed::new_transformed(Expr::AggregateFunction(call), changed)
        }
        Expr::WindowFunction(mut call) if is_extreme(call.fun.name()) => {
            let changed = without_signs(&mut call.params.args, &signed);
            Transformed::new_transformed(Expr::WindowFunction(call), changed)
        }
        Expr::ScalarFunction(mut call) if is_choice(&call) => {
            let changed = without_signs(&mut call.args, &signed);
            Transformed::new_transformed(Expr::ScalarFunction(call), changed)
        }
        other => Transformed::no(other),
    }
}

fn without_signs(all: &mut [Expr], signed: &dyn Fn(&Expr) -> bool) -> bool {
    all.iter_mut().filter(|expr| signed(expr)).fold(false, |_, expr| {
        *expr = same_bits(std::mem::take(expr));
        true
    })
}

/// `x < 1` of what may be a NaN with a sign.
fn against_number(
    compared: BinaryExpr,
    schema: &DFSchema,
    signed: &dyn Fn(&Expr) -> bool,
) -> Transformed<Expr> {
    let BinaryExpr { left, op, right } = &compared;
    let (value, below) = match (is_plain_number(left), is_plain_number(right)) {
        (false, true) => (left, matches!(op, Operator::Lt | Operator::LtEq)),
        (true, false) => (right, matches!(op, Operator::Gt | Operator::GtEq)),
        _ => return Transformed::no(Expr::BinaryExpr(compared)),
    };
    if value.contains_outer() || !is_key(value, schema) || !signed(value) {
        return Transformed::no(Expr::BinaryExpr(compared));
    }
    // What is below by the engine's order may be so in SQL: segments and files can be ruled out.
    let ruling = (below && matches!(value.as_ref(), Expr::Column(_)))
        .then(|| Expr::BinaryExpr(compared.clone()));
    let [left, right] = [compared.left, compared.right].map(|side| match is_plain_number(&side) {
        true => side,
        false => Box::new(same_bits(*side)),
    });
    let settled = Expr::BinaryExpr(BinaryExpr { left, op: compared.op, right });
    Transformed::yes(match ruling {
        Some(ruling) => ruling.and(settled),
        None => settled,
    })
}

/// `x BETWEEN a AND b` as two comparisons, if one of them is not right as it is.
fn between(
    between: Between,
    schema: &DFSchema,
    signed: &dyn Fn(&Expr) -> bool,
) -> Transformed<Expr> {
    if !is_key(&between.expr, schema) || between.expr.is_volatile() {
        return Transformed::no(Expr::Between(between));
    }
    let side = |op, bound: &Expr| {
        let (left, right) = (between.expr.clone(), Box::new(bound.clone()));
        let compared = comparison(BinaryExpr { left, op, right }, schema);
        match compared {
            Transformed { data: Expr::BinaryExpr(same), transformed: false, .. } => {
                against_number(same, schema, signed)
            }
            settled => settled,
        }
    };
    let low = side(Operator::GtEq, &between.low);
    let high = side(Operator::LtEq, &between.high);
    if !low.transformed && !high.transformed {
        return Transformed::no(Expr::Between(between));
    }
    let both = low.data.and(high.data);
    Transformed::yes(if between.negated { Expr::Not(Box::new(both)) } else { both })
}

// ---- plan nodes ---------------------------------------------------------------------------------

fn settle_node(plan: LogicalPlan, first: bool) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Aggregate(aggregate) => groups::group(aggregate, first)?,
        LogicalPlan::Distinct(Distinct::All(input)) => groups::distinct(input)?,
        LogicalPlan::Distinct(Distinct::On(on)) => distinct_on(on),
        LogicalPlan::Join(join) => joined(join),
        LogicalPlan::Sort(mut sort) => {
            let changed = sort_keys(&mut sort.expr, sort.input.schema());
            Transformed::new_transformed(LogicalPlan::Sort(sort), changed)
        }
        other => Transformed::no(other),
    })
}

fn distinct_on(mut on: DistinctOn) -> Transformed<LogicalPlan> {
    let schema = Arc::clone(on.input.schema());
    let mut changed =
        on.on_expr.iter_mut().fold(false, |changed, expr| set_sort_key(expr, &schema) | changed);
    if let Some(sort) = &mut on.sort_expr {
        changed |= sort_keys(sort, &schema);
        changed |= without_repeats(sort, |sort| &sort.expr);
    }
    changed |= without_repeats(&mut on.on_expr, |key| key);
    Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed)
}

/// Removes repeated keys, which change nothing: the engine panics where they are in
/// DISTINCT ON. Whether there were any.
fn without_repeats<T>(keys: &mut Vec<T>, of: impl Fn(&T) -> &Expr) -> bool {
    let mut seen = HashSet::new();
    let all = keys.len();
    keys.retain(|key| seen.insert(of(key).clone()));
    keys.len() < all
}

fn joined(mut join: Join) -> Transformed<LogicalPlan> {
    let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    let mut changed = false;
    for (one, other) in &mut join.on {
        changed |= set_key(one, &left);
        changed |= set_key(other, &right);
        changed |= nested::settle((one, &left), (other, &right));
        // The engine's joins find no NULL in columns of nothing but NULL, not even where NULLs are
        // equal.
        if is_nothing(one, &left) && is_nothing(other, &right) {
            *one = cast(std::mem::take(one), DataType::Boolean);
            *other = cast(std::mem::take(other), DataType::Boolean);
            changed = true;
        }
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}

fn is_nothing(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| given.is_null())
}

// ---- keys ---------------------------------------------------------------------------------------

/// Whether values of an expression can be equal and differ in bits. Lambda variables, which have no
/// type here, are left alone.
pub(crate) fn is_key(expr: &Expr, schema: &DFSchema) -> bool {
    let differ = |given: DataType| has_floats(&given) || is_interval(&given);
    !is_same_bits(expr) && expr.get_type(schema).is_ok_and(differ)
}

pub(crate) fn key(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match is_key(&expr, schema) {
        true if is_interval_of(&expr, schema) => Transformed::yes(interval_length(expr)),
        true => Transformed::yes(same_bits(expr)),
        false => Transformed::no(expr),
    }
}

pub(crate) fn is_interval_of(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| is_interval(&given))
}

fn set_key(expr: &mut Expr, schema: &DFSchema) -> bool {
    let Transformed { data, transformed, .. } = key(std::mem::take(expr), schema);
    *expr = data;
    transformed
}

fn keys(all: &mut [Expr], schema: &DFSchema) -> bool {
    all.iter_mut().fold(false, |changed, expr| set_key(expr, schema) | changed)
}

/// The arguments of an aggregate with DISTINCT, but for constants, as the fraction of a quantile.
/// Intervals it may have to show, unless it counts.
fn distinct_keys(function: &str, all: &mut [Expr], schema: &DFSchema) -> bool {
    let shows = |expr: &Expr| function != "count" && is_interval_of(expr, schema);
    let constant = |expr: &Expr| {
        expr.column_refs().is_empty() && !expr.contains_outer() && !expr.is_volatile()
    };
    let keys = all.iter_mut().filter(|expr| !shows(expr) && !constant(expr));
    keys.fold(false, |changed, expr| set_key(expr, schema) | changed)
}

fn sort_keys(all: &mut [SortExpr], schema: &DFSchema) -> bool {
    all.iter_mut().fold(false, |changed, sort| set_sort_key(&mut sort.expr, schema) | changed)
}

/// What is sorted by an expression in place of it.
fn set_sort_key(expr: &mut Expr, schema: &DFSchema) -> bool {
    if !is_nested(expr, schema) {
        return set_key(expr, schema);
    }
    *expr = order_bytes(std::mem::take(expr));
    true
}

/// Whether values are lists and the like, which the engine has in another order.
fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| is_ordered_otherwise(&given))
}

/// Whether an expression is a number, written or computed from written ones, and no NaN.
fn is_plain_number(expr: &Expr) -> bool {
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
        let settle = |part| settle_expression(part, &schema);
        expr.transform_up(settle).unwrap().data.to_string()
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
