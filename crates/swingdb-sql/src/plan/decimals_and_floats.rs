//! Decimals beside floating point numbers become floating point, as in DuckDB and PostgreSQL.
//!
//! For `x < 0.5` of a DOUBLE `x` the query engine turns both sides into decimals of 15 places: it
//! takes tiny numbers for zero, has no answer for large ones, infinities and NaN, and cannot rule
//! out segments by their bounds. The same where a value is one of several: in lists, `CASE`,
//! `coalesce`, UNION; and inside of lists, structs and maps. Dates beside numbers are
//! [refused](super::dates_and_numbers).

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList, InSubquery};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Union, cast,
};
use swingdb_functions::nested::unified::{common_time, first_of};

use crate::nodes::expressions::with_element;
use crate::plan::dates_and_numbers;
use crate::plan::moments::{self, MAX_LOOKED_AT};
use crate::plan::{struct_fields, written_texts};

/// Whether an expression brings values to a common type.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op),
        Expr::Between(_) | Expr::InList(_) | Expr::InSubquery(_) | Expr::Case(_) => true,
        Expr::ScalarFunction(call) => picks_one(call.name()) || is_span(call.name()),
        Expr::WindowFunction(call) => {
            matches!(call.fun.name(), "lag" | "lead") && call.params.args.len() == 3
        }
        _ => false,
    }
}

/// Functions of a unit and two points in time.
fn is_span(function: &str) -> bool {
    matches!(function, "date_diff" | "date_sub")
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn picks_one(function: &str) -> bool {
    matches!(function, "coalesce" | "greatest" | "least" | "make_array" | "nullif" | "nvl" | "nvl2")
}

/// The expression with its decimals as floating point where there is some beside them.
pub(crate) fn rewrite(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            compare(vec![left.as_mut(), right.as_mut()], schema)?
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            compare(vec![expr.as_mut(), low.as_mut(), high.as_mut()], schema)?
        }
        Expr::InList(InList { expr, list, .. }) => {
            compare(std::iter::once(expr.as_mut()).chain(list).collect(), schema)?
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (mut compared, mut results) = (Vec::new(), Vec::new());
            for (when, then) in when_then_expr {
                compared.push(when.as_mut());
                results.push(then.as_mut());
            }
            results.extend(else_expr.as_deref_mut());
            // Without an operand the arms are conditions.
            let settled = match expr.as_deref_mut() {
                Some(operand) => {
                    compared.push(operand);
                    unify(compared, schema)?
                }
                None => false,
            };
            pick(results, schema)? | settled
        }
        Expr::WindowFunction(call) => match call.params.args.as_mut_slice() {
            [value, _, default] => as_its_type(default, value, schema),
            _ => false,
        },
        Expr::ScalarFunction(call) if is_span(call.name()) => {
            dates_and_numbers::check(call.args.iter().filter_map(|arg| arg.get_type(schema).ok()))?;
            let mut points = call.args.iter_mut().skip(1).collect::<Vec<_>>();
            moments::read_texts(&mut points, schema) | moments::settle(&mut points, schema)
        }
        Expr::ScalarFunction(call) if picks_one(call.name()) => {
            // The first argument of `nvl2` is only asked whether it is NULL.
            let first = usize::from(call.name() == "nvl2").min(call.args.len());
            let picked = pick(call.args[first..].iter_mut().collect(), schema)?;
            // The engine's `nvl` makes texts of dates.
            let is_nvl = call.name() == "nvl";
            if is_nvl {
                call.func = first_of();
            }
            if matches!(call.name(), "coalesce" | "make_array") {
                written_texts::check(call.name(), &call.args, schema)?;
            }
            picked | is_nvl
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// `x IN (SELECT y ...)`, of types that compare.
pub(crate) fn in_rows(membership: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let element = membership.subquery.subquery.schema().field(0).data_type().clone();
    let types = [membership.expr.get_type(schema)?, element];
    let becomes = [0, 1].map(|side| settled(&types[side], &types));
    if becomes == types {
        return Ok(Transformed::no(Expr::InSubquery(membership)));
    }
    let InSubquery { mut expr, subquery, negated } = membership;
    let [asked, element] = &becomes;
    if *asked != types[0] {
        *expr = converted(*expr, asked);
    }
    let subquery = match *element == types[1] {
        true => subquery,
        false => with_element(subquery, |value, _| converted(value, element))?,
    };
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

/// Makes a value that stands for another one of its type, as a cast does: the engine would cut
/// fractions off, and leave the session's zone out.
fn as_its_type(other: &mut Expr, value: &Expr, schema: &DFSchema) -> bool {
    let (Ok(given), Ok(wanted)) = (other.get_type(schema), value.get_type(schema)) else {
        return false;
    };
    let differ = given != wanted && !given.is_null() && !wanted.is_null();
    if differ {
        *other = cast(std::mem::take(other), wanted);
    }
    differ
}

/// The keys of a join, such as INTERSECT and EXCEPT are.
pub(crate) fn rewrite_join(mut join: Join) -> Transformed<Join> {
    let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    let mut changed = false;
    for (one, other) in &mut join.on {
        let (Ok(given), Ok(beside)) = (one.get_type(&left), other.get_type(&right)) else {
            continue;
        };
        let types = [given, beside];
        for (side, given) in [one, other].into_iter().zip(&types) {
            let becomes = settled(given, &types);
            if becomes != *given {
                *side = converted(std::mem::take(side), &becomes);
                changed = true;
            }
        }
    }
    Transformed::new_transformed(join, changed)
}

/// The types of each column in the queries of a UNION. Queries that are matched by name say that
/// they have the types of the first; those with structs of other fields are told theirs.
fn with_types(union: Union) -> Result<(Union, Vec<Vec<DataType>>)> {
    let types_of = |inputs: &[Arc<LogicalPlan>]| {
        let types = (0..union.schema.fields().len()).map(|at| {
            let fields = inputs.iter().filter_map(|input| input.schema().fields().get(at));
            distinct(fields.map(|field| field.data_type().clone()))
        });
        let types = types.collect::<Vec<_>>();
        let structs = types.iter().map(|types| struct_fields::common(types));
        let differ = structs.collect::<Result<Vec<_>>>()?.iter().any(Option::is_some);
        Ok::<_, DataFusionError>((types, differ))
    };
    let has_structs = union.schema.fields().iter().any(|field| field.data_type().is_nested());
    if has_structs {
        let inputs = union.inputs.iter().map(|input| match input.as_ref() {
            LogicalPlan::Projection(_) => input.as_ref().clone().recompute_schema().map(Arc::new),
            _ => Ok(Arc::clone(input)),
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        if let (types, true) = types_of(&inputs)? {
            return Ok((Union { inputs, ..union }, types));
        }
    }
    let (types, _) = types_of(&union.inputs)?;
    Ok((union, types))
}

/// The inputs of a union, with decimals in the columns that are floating point in others.
pub(crate) fn rewrite_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let (union, types) = with_types(union)?;
    let stays = |types: &Vec<DataType>| types.iter().all(|given| settled(given, types) == *given);
    if types.iter().all(stays) {
        return match has_first_types(&union) {
            true => Ok(Transformed::no(LogicalPlan::Union(union))),
            false => {
                let union = Union::try_new_with_loose_types(union.inputs)?;
                Ok(Transformed::yes(LogicalPlan::Union(union)))
            }
        };
    }
    let convert = |input: Arc<LogicalPlan>| {
        let schema = Arc::clone(input.schema());
        let columns = schema.iter().zip(&types).map(|((relation, field), types)| {
            let column = Expr::Column((relation, field).into());
            let becomes = settled(field.data_type(), types);
            match becomes == *field.data_type() {
                true => column,
                false => cast(column, becomes).alias_qualified(relation.cloned(), field.name()),
            }
        });
        let changed = LogicalPlanBuilder::from(input).project(columns)?.build()?;
        Ok(Arc::new(changed))
    };
    let inputs = union.inputs.into_iter().map(convert).collect::<Result<_>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// Whether a UNION has the types of its first query. The engine looks for what these and those of
/// all queries have in common, so they must not be older than a change of that query.
fn has_first_types(union: &Union) -> bool {
    let Some(first) = union.inputs.first() else { return true };
    let pairs = union.schema.fields().iter().zip(first.schema().fields());
    pairs.into_iter().all(|(own, first)| own.data_type() == first.data_type())
}

/// Each of some types once.
pub(crate) fn distinct(types: impl Iterator<Item = DataType>) -> Vec<DataType> {
    let mut found = Vec::new();
    for given in types {
        if !found.contains(&given) {
            found.push(given);
        }
    }
    found
}

/// What values of a type become beside values of all these types, also inside of lists, structs and
/// maps. All else is left to the engine.
pub(crate) fn settled(given: &DataType, all: &[DataType]) -> DataType {
    if given.is_nested()
        && let Ok(Some(structs)) = struct_fields::common(all)
    {
        return structs;
    }
    if let Some(common) = common(all)
        && becomes(given, &common)
    {
        return common;
    }
    let inside = |field: &FieldRef, others: &dyn Fn(&DataType) -> Option<FieldRef>| {
        let others = all.iter().filter_map(others).map(|other| other.data_type().clone());
        let becomes = settled(field.data_type(), &distinct(others));
        Arc::new(field.as_ref().clone().with_data_type(becomes))
    };
    let element = |other: &DataType| match other {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => Some(Arc::clone(field)),
        _ => None,
    };
    match given {
        DataType::List(field) => DataType::List(inside(field, &element)),
        DataType::LargeList(field) => DataType::LargeList(inside(field, &element)),
        DataType::FixedSizeList(field, length) => {
            DataType::FixedSizeList(inside(field, &element), *length)
        }
        DataType::Map(field, sorted) => DataType::Map(inside(field, &element), *sorted),
        DataType::Struct(fields) => {
            let of_name = |field: &FieldRef| {
                inside(field, &|other| match other {
                    DataType::Struct(others) => {
                        let is_it =
                            |other: &&FieldRef| other.name().eq_ignore_ascii_case(field.name());
                        others.iter().find(is_it).cloned()
                    }
                    _ => None,
                })
            };
            DataType::Struct(fields.iter().map(of_name).collect())
        }
        other => other.clone(),
    }
}

/// What some of several values become: the widest floating point type, if there are decimals beside
/// it, a timestamp, if there are dates beside it, or the finest of times of several units.
fn common(types: &[DataType]) -> Option<DataType> {
    if let Some(timestamp) = moments::common(types) {
        return Some(timestamp);
    }
    if let Some(time) = common_time(types) {
        return Some(time);
    }
    let mut widest = None;
    for given in types {
        match given {
            DataType::Float64 => widest = Some(DataType::Float64),
            DataType::Float32 | DataType::Float16 if widest.is_none() => {
                widest = Some(DataType::Float32);
            }
            _ => {}
        }
    }
    // The engine finds a decimal for signed and unsigned numbers of 64 bits, and then one for all.
    let beside = |given: &DataType| {
        given.is_decimal()
            || *given == DataType::UInt64 && types.iter().any(DataType::is_signed_integer)
    };
    widest.filter(|_| types.iter().any(beside))
}

/// As [`unify`], of values that are compared.
fn compare(mut operands: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let read = moments::read_texts(&mut operands, schema);
    Ok(unify(operands, schema)? | read)
}

/// As [`unify`], of values of which one is taken.
fn pick(mut values: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let read = written_texts::read(&mut values, schema);
    Ok(unify(values, schema)? | read)
}

/// Turns decimals into the widest floating point type of the operands, if one has such a type.
fn unify(operands: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let looked_at = operands.iter().take(MAX_LOOKED_AT);
    // Where one has no type, the engine will say so.
    let types = looked_at.map(|operand| operand.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types.map(|types| distinct(types.into_iter())) else { return Ok(false) };
    if types.len() < 2 {
        return Ok(false);
    }
    dates_and_numbers::check(types.iter().cloned())?;
    struct_fields::common(&types)?;
    let mut changed = false;
    for operand in operands {
        let Ok(given) = operand.get_type(schema) else { continue };
        let becomes = settled(&given, &types);
        if becomes != given {
            *operand = converted(std::mem::take(operand), &becomes);
            changed = true;
        }
    }
    Ok(changed)
}

/// Whether values of a type become those of the [`common`] one.
fn becomes(given: &DataType, common: &DataType) -> bool {
    match common {
        DataType::Timestamp(..) => moments::is_date(given),
        DataType::Time32(_) | DataType::Time64(_) => {
            matches!(given, DataType::Time32(_) | DataType::Time64(_)) && given != common
        }
        _ => given.is_decimal() || *given == DataType::UInt64,
    }
}

pub(crate) fn converted(operand: Expr, floating: &DataType) -> Expr {
    // Which day begins when, a session says by its zone.
    let at_once = !floating.is_nested() && !matches!(floating, DataType::Timestamp(_, Some(_)));
    match operand {
        Expr::Literal(value, metadata) if at_once => match value.cast_to(floating) {
            Ok(number) => Expr::Literal(number, metadata),
            Err(_) => cast(Expr::Literal(value, metadata), floating.clone()),
        },
        Expr::Negative(inner) => Expr::Negative(Box::new(converted(*inner, floating))),
        other => cast(other, floating.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::{Field, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::functions::core::expr_fn::coalesce;
    use datafusion::prelude::{col, in_list, lit};

    use super::*;

    fn rewritten(expr: Expr) -> String {
        let fields = vec![
            Field::new("x", DataType::Float64, true),
            Field::new("r", DataType::Float32, true),
            Field::new("d", DataType::Decimal128(9, 2), true),
            Field::new("i", DataType::Int64, true),
        ];
        let schema = Schema::new_with_metadata(fields, HashMap::new());
        let schema = DFSchema::try_from(schema).unwrap();
        rewrite(expr, &schema).unwrap().data.to_string()
    }

    fn half() -> Expr {
        lit(ScalarValue::Decimal128(Some(5), 2, 1))
    }

    #[test]
    fn decimals_beside_floating_point() {
        assert_eq!(rewritten(col("x").lt(half())), "x < Float64(0.5)");
        assert_eq!(rewritten(half().eq(col("r"))), "Float32(0.5) = r");
        assert_eq!(rewritten(col("x").gt(-half())), "x > (- Float64(0.5))");
        assert_eq!(rewritten(col("x").gt(col("d"))), "x > CAST(d AS Float64)");
        assert_eq!(
            rewritten(col("x").between(lit(1_i64), half())),
            "x BETWEEN Int64(1) AND Float64(0.5)"
        );
        assert_eq!(
            rewritten(in_list(col("r"), vec![half(), col("x")], false)),
            "r IN ([Float64(0.5), x])"
        );
        assert_eq!(rewritten(coalesce(vec![col("x"), half()])), "coalesce(x, Float64(0.5))");
        let arms = vec![(Box::new(col("d").gt(half())), Box::new(col("d")))];
        let case = Expr::Case(Case::new(None, arms, Some(Box::new(col("x")))));
        assert!(rewritten(case).ends_with("THEN CAST(d AS Float64) ELSE x END"));
    }

    #[test]
    fn everything_else_stays() {
        for same in [
            col("d").lt(half()),
            col("x").lt(col("i")),
            col("x") + half(),
            in_list(col("d"), vec![half(), lit(1_i64)], true),
            coalesce(vec![col("d"), col("i")]),
            col("d").between(col("i"), half()),
        ] {
            assert_eq!(rewritten(same.clone()), same.to_string());
        }
    }
}
