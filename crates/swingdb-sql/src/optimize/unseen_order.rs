//! Sorts whose order nobody sees are left out: [`UNSEEN_ORDER`].
//!
//! The rows of a subquery keep its ORDER BY as far as somebody sees their order: the reader of the
//! result, a LIMIT, `list(x)`, `row_number() OVER ()`. A join, a sort above, or an aggregate like
//! `sum` do not, so nothing is sorted for them. That must be known before conditions move and joins
//! are put in order, for which a sort is in the way.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Window};

use crate::nodes::expressions::{IN_ORDER, any_node};
use crate::optimize::rule::OwnRule;

/// See the [module documentation](self). To run before all other rules.
pub(crate) const UNSEEN_ORDER: OwnRule = OwnRule::of_plan("unseen_order", without_unseen_sorts);

fn without_unseen_sorts(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match any_node(&plan, |node| matches!(node, LogicalPlan::Sort(_)))? {
        true => without_unseen(plan, true),
        false => Ok(Transformed::no(plan)),
    }
}

/// `seen`: whether the order of the plan's rows is.
fn without_unseen(plan: LogicalPlan, seen: bool) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Sort(sort) if !seen && sort.fetch.is_none() => {
            let input = without_unseen(Arc::unwrap_or_clone(sort.input), false)?;
            return Ok(Transformed::yes(input.data));
        }
        other => other,
    };
    let below = is_seen_below(&plan, seen);
    let plan = plan.map_subqueries(|subquery| without_unseen(subquery, false))?;
    plan.transform_data(|plan| plan.map_children(|child| without_unseen(child, below)))
}

/// Whether the order of the rows that an operator reads is seen, if its own is or not.
fn is_seen_below(plan: &LogicalPlan, seen: bool) -> bool {
    match plan {
        LogicalPlan::Sort(_) | LogicalPlan::Join(_) | LogicalPlan::Distinct(Distinct::All(_)) => {
            false
        }
        LogicalPlan::Aggregate(aggregate) => is_in_order(aggregate),
        LogicalPlan::Window(window) => has_no_order(window),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Unnest(_) => seen,
        // Limits, the statement itself, and what is not known.
        _ => true,
    }
}

fn is_in_order(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().any(|expr| {
        let found = expr.exists(|part| {
            Ok(matches!(part, Expr::AggregateFunction(call)
                if IN_ORDER.contains(&call.func.name()) && call.params.order_by.is_empty()))
        });
        found.unwrap_or(true)
    })
}

fn has_no_order(window: &Window) -> bool {
    window.window_expr.iter().any(|expr| {
        let found = expr.exists(|part| {
            Ok(matches!(part, Expr::WindowFunction(call) if call.params.order_by.is_empty()))
        });
        found.unwrap_or(true)
    })
}
