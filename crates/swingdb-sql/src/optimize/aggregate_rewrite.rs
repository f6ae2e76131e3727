//! Putting other plans in the place of aggregates: [`replace_aggregate`], also in two steps:
//! [`TwoSteps`].

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Case};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit,
};
use swingdb_functions::aggregates::sum::checked_sum;

/// Holds every total of whole numbers.
const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// What a rule for aggregates makes of a node: another plan, if `instead` has one for it.
pub(crate) fn replace_aggregate(
    plan: LogicalPlan,
    instead: fn(&Aggregate) -> Result<Option<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    Ok(match instead(aggregate)? {
        Some(rewritten) => Transformed::yes(rewritten),
        None => Transformed::no(plan),
    })
}

/// The groups of `inner`, and what is made of its values, with the names and types of an aggregate.
pub(crate) fn as_one(
    aggregate: &Aggregate,
    inner: Aggregate,
    values: Vec<Expr>,
) -> Result<LogicalPlan> {
    let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let mut list: Vec<Expr> =
        inner.schema.columns().into_iter().take(keys).map(Expr::Column).collect();
    for (expr, (relation, field)) in values.into_iter().zip(aggregate.schema.iter().skip(keys)) {
        let typed = expr.cast_to(field.data_type(), &inner.schema)?;
        list.push(typed.alias_qualified(relation.cloned(), field.name()));
    }
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(inner)).project(list)?.build()
}

/// The aggregates of a node, of groups first, and then of what these gave: sums of sums, sums of
/// counts, least of least.
pub(crate) struct TwoSteps {
    /// The aggregates of the first step, each with a name of its own.
    pub(crate) first: Vec<Expr>,
    /// The aggregates of the second, of the columns that the first gave.
    pub(crate) second: Vec<Expr>,
    /// The node's values, of the columns that the second gave; see [`as_one`].
    pub(crate) together: Vec<Expr>,
}

impl TwoSteps {
    /// `None`: there is an aggregate whose values cannot be put together from those of parts.
    pub(crate) fn of(aggregate: &Aggregate) -> Result<Option<Self>> {
        let mut names = (0..).map(|n| format!("__part_{n}"));
        let (mut first, mut second, mut together) = (Vec::new(), Vec::new(), Vec::new());
        for expr in &aggregate.aggr_expr {
            let Some(parts) = Parts::of(expr, aggregate)? else { return Ok(None) };
            let merged = parts.steps.into_iter().zip(names.by_ref());
            let merged = merged.map(|((step, merge), name)| {
                first.push(step.alias(&name));
                let merged = merge.call(vec![Expr::Column(Column::from_name(name))]);
                let shown = Expr::Column(Column::from_name(merged.schema_name().to_string()));
                second.push(merged);
                shown
            });
            together.push((parts.together)(merged.collect()));
        }
        Ok(Some(Self { first, second, together }))
    }
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
                together: |mut parts| {
                    let counted = parts.remove(0);
                    let none = (Box::new(counted.clone().is_null()), Box::new(lit(0_i64)));
                    Expr::Case(Case::new(None, vec![none], Some(Box::new(counted))))
                },
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
pub(crate) fn is_grouped(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(list) => is_grouped(&list.input),
        LogicalPlan::SubqueryAlias(alias) => is_grouped(&alias.input),
        LogicalPlan::Aggregate(_) => true,
        _ => false,
    }
}
