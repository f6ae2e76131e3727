//! Decimals beside floating point numbers become floating point, as in DuckDB and PostgreSQL.
//!
//! For `x < 0.5` of a DOUBLE `x` the query engine turns both sides into decimals of 15 places: it
//! takes tiny numbers for zero, has no answer for large ones, infinities and NaN, and cannot rule
//! out segments by their bounds. The same where a value is one of several: in lists, `CASE`,
//! `coalesce`, UNION.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Case, InList};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, LogicalPlan, LogicalPlanBuilder, Operator, Union, cast,
};

use crate::plan::moments;

/// Operands beyond which a list is left to the engine when the first ones are no decimals.
const MAX_LOOKED_AT: usize = 1_000;

/// Whether an expression brings values to a common type.
pub(crate) fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => is_comparison(*op),
        Expr::Between(_) | Expr::InList(_) | Expr::Case(_) => true,
        Expr::ScalarFunction(call) => picks_one(call.name()),
        _ => false,
    }
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn picks_one(function: &str) -> bool {
    matches!(function, "coalesce" | "greatest" | "least" | "nullif" | "nvl" | "nvl2")
}

/// The expression with its decimals as floating point where there is some beside them.
pub(crate) fn rewrite(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            compare(vec![left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            compare(vec![expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            compare(std::iter::once(expr.as_mut()).chain(list).collect(), schema)
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (mut compared, mut results) = (Vec::new(), Vec::new());
            for (when, then) in when_then_expr {
                compared.push(when.as_mut());
                results.push(then.as_mut());
            }
            results.extend(else_expr.as_deref_mut());
            // Without an operand the arms are conditions.
            let operand = expr.as_deref_mut();
            let settled = operand.is_some_and(|operand| {
                compared.push(operand);
                unify(compared, schema)
            });
            unify(results, schema) | settled
        }
        Expr::ScalarFunction(call) if picks_one(call.name()) => {
            // The first argument of `nvl2` is only asked whether it is NULL.
            let first = usize::from(call.name() == "nvl2").min(call.args.len());
            unify(call.args[first..].iter_mut().collect(), schema)
        }
        _ => false,
    };
    Transformed::new_transformed(expr, changed)
}

/// The keys of a join, such as INTERSECT and EXCEPT are.
pub(crate) fn rewrite_join(mut join: Join) -> Transformed<Join> {
    let (left, right) = (Arc::clone(join.left.schema()), Arc::clone(join.right.schema()));
    let mut changed = false;
    for (one, other) in &mut join.on {
        let types = [one.get_type(&left), other.get_type(&right)];
        let Ok(Some(floating)) = types.into_iter().collect::<Result<_>>().map(common) else {
            continue;
        };
        for (side, schema) in [(one, &left), (other, &right)] {
            if side.get_type(schema).is_ok_and(|given| becomes(&given, &floating)) {
                *side = converted(std::mem::take(side), &floating);
                changed = true;
            }
        }
    }
    Transformed::new_transformed(join, changed)
}

/// The inputs of a union, with decimals in the columns that are floating point in others.
pub(crate) fn rewrite_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let width = union.schema.fields().len();
    let common = (0..width)
        .map(|at| {
            let fields = union.inputs.iter().filter_map(|input| input.schema().fields().get(at));
            common(fields.map(|field| field.data_type().clone()).collect())
        })
        .collect::<Vec<_>>();
    if common.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let convert = |input: Arc<LogicalPlan>| {
        let schema = Arc::clone(input.schema());
        let columns = schema.iter().zip(&common).map(|((relation, field), floating)| {
            let column = Expr::Column((relation, field).into());
            match floating {
                Some(floating) if becomes(field.data_type(), floating) => {
                    cast(column, floating.clone()).alias_qualified(relation.cloned(), field.name())
                }
                _ => column,
            }
        });
        let changed = LogicalPlanBuilder::from(input).project(columns)?.build()?;
        Ok(Arc::new(changed))
    };
    let inputs = union.inputs.into_iter().map(convert).collect::<Result<_>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// What some of several values become: the widest floating point type, if there are decimals beside
/// it, or a timestamp, if there are dates beside it.
fn common(types: Vec<DataType>) -> Option<DataType> {
    if let Some(timestamp) = moments::common(&types) {
        return Some(timestamp);
    }
    let mut widest = None;
    for given in &types {
        match given {
            DataType::Float64 => widest = Some(DataType::Float64),
            DataType::Float32 | DataType::Float16 if widest.is_none() => {
                widest = Some(DataType::Float32);
            }
            _ => {}
        }
    }
    widest.filter(|_| types.iter().any(DataType::is_decimal))
}

/// As [`unify`], of values that are compared.
fn compare(mut operands: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    moments::read_texts(&mut operands, schema) | unify(operands, schema)
}

/// Turns decimals into the widest floating point type of the operands, if one has such a type.
fn unify(operands: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let looked_at = operands.iter().take(MAX_LOOKED_AT);
    // Where one has no type, the engine will say so.
    let types = looked_at.map(|operand| operand.get_type(schema)).collect::<Result<_>>();
    let Ok(Some(floating)) = types.map(common) else { return false };
    for operand in operands {
        if operand.get_type(schema).is_ok_and(|given| becomes(&given, &floating)) {
            *operand = converted(std::mem::take(operand), &floating);
        }
    }
    true
}

/// Whether values of a type become those of the [`common`] one.
fn becomes(given: &DataType, common: &DataType) -> bool {
    match common {
        DataType::Timestamp(..) => moments::is_date(given),
        _ => given.is_decimal(),
    }
}

fn converted(operand: Expr, floating: &DataType) -> Expr {
    match operand {
        // Which day begins when, a session says by its zone.
        Expr::Literal(value, metadata) if !matches!(floating, DataType::Timestamp(_, Some(_))) => {
            match value.cast_to(floating) {
                Ok(number) => Expr::Literal(number, metadata),
                Err(_) => cast(Expr::Literal(value, metadata), floating.clone()),
            }
        }
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
        rewrite(expr, &schema).data.to_string()
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
