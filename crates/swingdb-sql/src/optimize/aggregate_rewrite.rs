//! Putting other plans in the place of aggregates: [`replace_aggregate`].

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};

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
