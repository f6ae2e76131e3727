//! Grouping sets of few groups: [`GROUPING_SETS`].
//!
//! For `GROUP BY ROLLUP (a, b, c)` the query engine deals out each row four times. Where there are
//! far fewer groups by all of `a, b, c` than rows, it is better to group by all of them first, and
//! to make the sets of what that gives: sums of sums, sums of counts, least of least.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::{Column, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit,
};
use swingdb_functions::aggregates::sum::checked_sum;

use crate::analyze::equality::groups::each_key;
use crate::optimize::aggregate_rewrite::{as_one, replace_aggregate};
use crate::optimize::estimate::{Estimate, estimate};
use crate::optimize::rule::OwnRule;

/// Holds every total of whole numbers.
const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
/// Rows that a group must have on average.
const ROWS_PER_GROUP: f64 = 4.0;

/// See the [module documentation](self).
pub(crate) const GROUPING_SETS: OwnRule =
    OwnRule::bottom_up("GroupingSets", |plan| replace_aggregate(plan, in_two_steps));

/// Grouping by everything first; `None`: it is not worth it, or there is an aggregate whose values
/// cannot be put together from those of parts.
fn in_two_steps(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() else { return Ok(None) };
    let keys: Vec<Expr> =
        grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    for key in &keys {
        // Those of one length are one in a plain group, and in sets each for itself.
        if matches!(key.get_type(aggregate.input.schema())?, DataType::Interval(_)) {
            return Ok(None);
        }
    }
    let mut parts = Vec::new();
    for expr in &aggregate.aggr_expr {
        let Some(part) = Parts::of(expr, aggregate)? else { return Ok(None) };
        parts.push(part);
    }
    if is_grouped(&aggregate.input) || !are_few(&estimate(&aggregate.input), &keys) {
        return Ok(None);
    }
    let mut names = (0..).map(|n| format!("__part_{n}"));
    // What each step computes, and what is made of the second one's.
    let (mut first, mut second, mut together) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let merged = part.steps.into_iter().zip(names.by_ref()).map(|((step, merge), name)| {
            first.push(step.alias(&name));
            let merged = merge.call(vec![Expr::Column(Column::from_name(name))]);
            let shown = Expr::Column(Column::from_name(merged.schema_name().to_string()));
            second.push(merged);
            shown
        });
        together.push((part.together)(merged.collect()));
    }
    let groups = LogicalPlanBuilder::from(Arc::clone(&aggregate.input));
    let groups = groups.aggregate(keys.clone(), first)?.build()?;
    let columns = keys.into_iter().zip(groups.schema().columns().into_iter().map(Expr::Column));
    let columns: HashMap<Expr, Expr> = columns.collect();
    let sets = Expr::GroupingSet(each_key(sets.clone(), &mut |key| columns[&key].clone()));
    let outer = Aggregate::try_new(Arc::new(groups), vec![sets], second)?;
    as_one(aggregate, outer, together).map(Some)
}

/// An aggregate, in steps.
struct Parts {
    /// What the first step computes, and the aggregate of that in the second.
    steps: Vec<(Expr, Arc<AggregateUDF>)>,
    together: fn(Vec<Expr>) -> Expr,
}

impl Parts {
    fn of(expr: &Expr, aggregate: &Aggregate) -> Result<Option<Self>> {
        let expr = expr.clone().unalias();
        let Expr::AggregateFunction(AggregateFunction { func, params }) = &expr else {
            return Ok(None);
        };
        let AggregateFunctionParams { args, distinct, order_by, null_treatment, .. } = params;
        let [arg] = args.as_slice() else { return Ok(None) };
        if *distinct || !order_by.is_empty() || null_treatment.is_some() {
            return Ok(None);
        }
        let sum = || Arc::new(checked_sum());
        let of_same =
            |func| Expr::AggregateFunction(AggregateFunction { func, params: params.clone() });
        let only: fn(Vec<Expr>) -> Expr = |mut parts| parts.remove(0);
        Ok(match func.name() {
            "sum" | "min" | "max" => {
                Some(Self { steps: vec![(expr.clone(), Arc::clone(func))], together: only })
            }
            // No group at all, and yet a row: it has counted nothing.
            "count" => Some(Self {
                steps: vec![(expr.clone(), sum())],
                together: |mut parts| coalesce(vec![parts.remove(0), lit(0_i64)]),
            }),
            "avg" => {
                let of = arg.get_type(aggregate.input.schema())?;
                // Of whole numbers exactly, which may leave their type.
                let summed = match of {
                    DataType::Float64 => arg.clone(),
                    whole if whole.is_integer() => cast(arg.clone(), WIDE),
                    _ => return Ok(None),
                };
                let mut total = params.clone();
                total.args = vec![summed];
                let total =
                    Expr::AggregateFunction(AggregateFunction { func: sum(), params: total });
                Some(Self {
                    steps: vec![(total, sum()), (of_same(count_udaf()), sum())],
                    together: |mut parts| {
                        let count = cast(parts.remove(1), DataType::Float64);
                        cast(parts.remove(0), DataType::Float64) / count
                    },
                })
            }
            _ => None,
        })
    }
}

/// Whether the rows are groups already.
fn is_grouped(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(list) => is_grouped(&list.input),
        LogicalPlan::SubqueryAlias(alias) => is_grouped(&alias.input),
        LogicalPlan::Aggregate(_) => true,
        _ => false,
    }
}

/// Whether there are few groups by `keys`. Columns of one table often say the same in different
/// detail, as countries and cities do: of these only the one with most values counts.
fn are_few(input: &Estimate, keys: &[Expr]) -> bool {
    let mut most: HashMap<Option<String>, f64> = HashMap::new();
    for key in keys {
        let of = key.column_refs().into_iter().next();
        let table = of.and_then(|column| column.relation.as_ref()).map(ToString::to_string);
        let known = most.entry(table).or_insert(1.0);
        *known = known.max(values(input, key));
    }
    most.values().product::<f64>() * ROWS_PER_GROUP <= input.rows
}

/// How many values a key has: a function of one value no more than that.
fn values(input: &Estimate, key: &Expr) -> f64 {
    match key {
        Expr::Alias(alias) => values(input, &alias.expr),
        Expr::ScalarFunction(call) if call.args.len() == 1 => {
            values(input, &call.args[0]).min(input.distinct_keys(key))
        }
        _ => input.distinct_keys(key),
    }
}
