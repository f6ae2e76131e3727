//! Moving conditions down, but for those that must stay where they are: [`conditions_down`].
//!
//! The query engine moves a condition below whatever has its columns unchanged, and a condition
//! without any column meets that always. It must stay
//!
//! - above an aggregate of all rows: `SELECT count(*) FROM t HAVING (SELECT false)` has no rows,
//!   but the count of none is one,
//! - above an operator of our own: what a query of WITH gives under one name is not what it gives
//!   under the others,
//! - where it draws random numbers: above a window it keeps some of the numbered rows, below some
//!   of the rows to be numbered, and at one side of a join all or none of the pairs of a row.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::nodes::expressions::filtered;
use crate::optimize::rewritten;

/// The engine's rule that moves conditions down, but for those that must stay.
pub(crate) fn conditions_down(
    rule: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(filter) if holds_conditions(&filter.input) => {
            Ok(Transformed::no(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Filter(filter) if is_volatile(&filter) => divided(filter),
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(Expr::is_volatile) => {
            of_join(rule, join, config)
        }
        _ => rule.rewrite(plan, config),
    }
}

/// A join whose condition draws random numbers for each pair of rows.
fn of_join(
    rule: &dyn OptimizerRule,
    mut join: Join,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let condition = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (volatile, lasting): (Vec<_>, Vec<_>) = condition.into_iter().partition(Expr::is_volatile);
    join.filter = conjunction(lasting);
    if join.join_type == JoinType::Inner {
        let above = filtered(Arc::new(LogicalPlan::Join(join)), volatile)?;
        return Ok(Transformed::yes(Arc::unwrap_or_clone(above)));
    }
    rewritten(rule, join, config, |join| {
        join.filter = conjunction(join.filter.take().into_iter().chain(volatile));
        Ok(())
    })
}

/// Whether below any filters comes what conditions stay above. With grouping sets, one of them may
/// be of all rows; no condition on their columns moves down anyway.
fn holds_conditions(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => holds_conditions(&filter.input),
        LogicalPlan::Aggregate(aggregate) => {
            let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
            aggregate.group_expr.is_empty() || aggregate.group_expr.iter().any(is_set)
        }
        LogicalPlan::Extension(_) => true,
        _ => false,
    }
}

/// Whether it, or one of the filters right below it, which the engine makes one with it, draws
/// random numbers.
fn is_volatile(filter: &Filter) -> bool {
    filter.predicate.is_volatile()
        || matches!(filter.input.as_ref(), LogicalPlan::Filter(below) if is_volatile(below))
}

/// What draws random numbers above what does not, which may move on.
fn divided(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let is_done = split_conjunction(&filter.predicate).into_iter().all(Expr::is_volatile)
        && !matches!(filter.input.as_ref(), LogicalPlan::Filter(below) if is_volatile(below));
    if is_done {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let mut conditions = Vec::new();
    let mut plan = Arc::new(LogicalPlan::Filter(filter));
    while let LogicalPlan::Filter(filter) = plan.as_ref() {
        conditions.extend(split_conjunction(&filter.predicate).into_iter().cloned());
        plan = Arc::clone(&filter.input);
    }
    let (volatile, lasting): (Vec<_>, Vec<_>) = conditions.into_iter().partition(Expr::is_volatile);
    let rest = filtered(plan, lasting)?;
    filtered(rest, volatile).map(|plan| Transformed::yes(Arc::unwrap_or_clone(plan)))
}
