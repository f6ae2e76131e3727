//! Zero has two signs and is one number.
//!
//! `ceil(-0.5)` is `-0.0`. The query engine's `=`, joins and groups take it for `0.0`; long IN
//! lists, `nullif` and `CASE x WHEN` do not. [`rule`](super::rule) puts comparisons by `=` in their
//! place for floating point. Lists of any type become comparisons when there is a CASE in them.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Case, Cast, InList};
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, ExprSchemable};

/// Elements up to which an IN list of expressions becomes comparisons; each may be computed for
/// each row then as now.
const MAX_COMPARED: usize = 64;

/// Whether an expression tells equal values apart by other means than `=`.
pub fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(call) => call.name() == "nullif",
        _ => false,
    }
}

/// The expression with `=` where it compares floating point.
pub fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let compared = match &expr {
        Expr::InList(list) => list.expr.as_ref(),
        Expr::Case(Case { expr: Some(operand), .. }) => operand.as_ref(),
        Expr::ScalarFunction(call) if call.args.len() == 2 => &call.args[0],
        _ => return Ok(Transformed::no(expr)),
    };
    if compared.is_volatile() {
        return Ok(Transformed::no(expr));
    }
    if !compared.get_type(schema)?.is_floating() {
        return Ok(match expr {
            Expr::InList(list) if list.list.iter().any(is_taken_for_constant) => comparisons(list),
            other => Transformed::no(other),
        });
    }
    let floating = compared.get_type(schema)?;
    Ok(match expr {
        Expr::InList(list) => in_list(list, &floating),
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr }) => {
            let arms = when_then_expr.into_iter().map(|(when, then)| {
                let equal = operand.as_ref().clone().eq(*when);
                (Box::new(equal), then)
            });
            Transformed::yes(Expr::Case(Case::new(None, arms.collect(), else_expr)))
        }
        Expr::ScalarFunction(call) => {
            let [value, other] = [call.args[0].clone(), call.args[1].clone()];
            let null = Expr::Literal(ScalarValue::try_from(value.get_type(schema)?)?, None);
            let equal = Box::new(value.clone().eq(other));
            let arms = vec![(equal, Box::new(null))];
            Transformed::yes(Expr::Case(Case::new(None, arms, Some(Box::new(value)))))
        }
        other => Transformed::no(other),
    })
}

/// A list of constants gets the other zero too, one of expressions becomes comparisons.
fn in_list(mut list: InList, floating: &DataType) -> Transformed<Expr> {
    if list.list.iter().all(|element| constant(element).is_some()) {
        let other = list.list.iter().find_map(|element| other_zero(element, floating));
        let changed = other.is_some();
        list.list.extend(other);
        return Transformed::new_transformed(Expr::InList(list), changed);
    }
    match list.list.len() > MAX_COMPARED {
        true => Transformed::no(Expr::InList(list)),
        false => comparisons(list),
    }
}

/// Whether the engine takes an element for a constant that is none: it computes the list without
/// rows, and CASE leaves out what it cannot find then.
fn is_taken_for_constant(element: &Expr) -> bool {
    let case = |part: &Expr| Ok(matches!(part, Expr::Case(_)));
    element.any_column_refs() && element.exists(case).unwrap_or(true)
}

/// `x = a OR x = b`.
fn comparisons(list: InList) -> Transformed<Expr> {
    let compare = |element: Expr| match list.negated {
        true => list.expr.as_ref().clone().not_eq(element),
        false => list.expr.as_ref().clone().eq(element),
    };
    let elements = list.list.clone().into_iter().map(compare);
    let whole = if list.negated { conjunction(elements) } else { disjunction(elements) };
    match whole {
        Some(whole) => Transformed::yes(whole),
        None => Transformed::no(Expr::InList(list)),
    }
}

/// The value of a constant, which may not have been converted yet.
fn constant(element: &Expr) -> Option<&ScalarValue> {
    match element {
        Expr::Literal(value, _) => Some(value),
        Expr::Cast(Cast { expr, .. }) => constant(expr),
        _ => None,
    }
}

/// The zero of the other sign, of a zero.
fn other_zero(element: &Expr, floating: &DataType) -> Option<Expr> {
    let other = match constant(element)?.cast_to(floating).ok()? {
        ScalarValue::Float64(Some(zero)) if zero == 0.0 => ScalarValue::Float64(Some(-zero)),
        ScalarValue::Float32(Some(zero)) if zero == 0.0 => ScalarValue::Float32(Some(-zero)),
        _ => return None,
    };
    Some(Expr::Literal(other, None))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::{Field, Schema};
    use datafusion::prelude::{col, in_list as list_of, lit};

    use super::*;

    fn rewritten(expr: Expr) -> String {
        let fields = vec![
            Field::new("x", DataType::Float64, true),
            Field::new("y", DataType::Float64, true),
            Field::new("i", DataType::Int64, true),
        ];
        let schema = Schema::new_with_metadata(fields, HashMap::new());
        let schema = DFSchema::try_from(schema).unwrap();
        rewrite(expr, &schema).unwrap().data.to_string()
    }

    #[test]
    fn lists_hold_both_zeros() {
        let zeros = list_of(col("x"), vec![lit(1.0), lit(0.0)], false);
        assert_eq!(rewritten(zeros), "x IN ([Float64(1), Float64(0), Float64(-0)])");
        let cast = datafusion::logical_expr::cast(lit(0_i64), DataType::Float64);
        let converted = list_of(col("x"), vec![lit(1.0), cast], false);
        assert!(rewritten(converted).ends_with("Float64(-0)])"));
        let none = list_of(col("x"), vec![lit(1.0), lit(2.0)], true);
        assert_eq!(rewritten(none.clone()), none.to_string());
        let whole = list_of(col("i"), vec![lit(0_i64), col("i")], false);
        assert_eq!(rewritten(whole.clone()), whole.to_string());
    }

    #[test]
    fn expressions_are_compared() {
        let list = list_of(col("x"), vec![col("y"), lit(2.0)], false);
        assert_eq!(rewritten(list), "x = y OR x = Float64(2)");
        let list = list_of(col("x"), vec![col("y"), lit(2.0)], true);
        assert_eq!(rewritten(list), "x != y AND x != Float64(2)");
        let arms = vec![(Box::new(lit(1_i64)), Box::new(lit(2_i64)))];
        let case = |operand| Expr::Case(Case::new(Some(Box::new(operand)), arms.clone(), None));
        let list = list_of(lit(7_i64), vec![case(col("i")), lit(98_i64)], false);
        assert!(rewritten(list).starts_with("Int64(7) = CASE i "));
        let constant = list_of(col("i"), vec![case(lit(3_i64)), lit(98_i64)], false);
        assert_eq!(rewritten(constant.clone()), constant.to_string());
        let arms = vec![(Box::new(lit(0.0)), Box::new(lit("zero")))];
        let case = Expr::Case(Case::new(Some(Box::new(col("x"))), arms, None));
        assert!(rewritten(case).starts_with("CASE WHEN x = Float64(0)"));
    }
}
