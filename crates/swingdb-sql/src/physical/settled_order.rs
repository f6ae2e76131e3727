//! Orders and limits that later rules must leave where they are: [`SettledOrder`].
//!
//! The query engine's rule that sees to it that operators get their rows in order takes other
//! orders away, and moves sorts down. But
//!
//! - a sort below `LIMIT`, `OFFSET`, `list(x)`, `row_number() OVER ()` or the end of a query says
//!   which rows these get first, although none of them asks for an order
//!   (apache/datafusion#23534),
//! - a sort above a LIMIT orders the rows that it leaves; below it, it would make others of them
//!   (apache/datafusion#24958, #25408),
//! - a sort with a LIMIT whose rows come in its order already is taken away with its limit,
//! - or its limit comes to where the partitions of a table in that order are merged, below an
//!   operator that has to see all rows: `SELECT i, count(*) OVER () FROM t ORDER BY i LIMIT 3`.
//!
//! So while that rule runs, a [`FenceExec`] stands above each of them. It asks for the order of
//! what is below it, and nothing moves through it. Where the limit is gone afterwards, it comes
//! back in its place.

pub(crate) mod fence;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::{Distribution, OrderingRequirements};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;

use crate::physical::insertion_order::takes_rows_as_they_come;
use crate::physical::settled_order::fence::FenceExec;

type Plan = Arc<dyn ExecutionPlan>;

/// The engine's rule that enforces orders and distributions, between fences. See the
/// [module documentation](self).
#[derive(Debug)]
pub(crate) struct SettledOrder(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for SettledOrder {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let top = OrderContext { seen: true, sorted: false, limited: false };
        let fenced = fenced(&plan, top)?;
        unfenced(self.0.optimize(fenced, config)?)
    }
}

/// Where an operator stands.
#[derive(Clone, Copy)]
struct OrderContext {
    /// Whether somebody sees in which order its rows come.
    seen: bool,
    /// Whether something above asks for an order, which might move down.
    sorted: bool,
    /// Whether the order of its rows reaches a sort with a LIMIT, whose limit might move down.
    limited: bool,
}

fn fenced(plan: &Plan, place: OrderContext) -> Result<Plan> {
    let children = plan.children();
    let mut renewed = Vec::with_capacity(children.len());
    let merges = place.limited && merges_in_order(plan);
    let is_limited = plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some());
    for (at, child) in children.into_iter().enumerate() {
        let sorted = place.sorted || plan.is::<SortExec>() || asks(plan, at);
        let seen = is_seen(plan, at, place.seen);
        let limited = is_limited || (place.limited && !merges && keeps_order(plan, at));
        renewed.push(fenced(child, OrderContext { seen, sorted, limited })?);
    }
    let changed = plan.children().into_iter().zip(&renewed).any(|(a, b)| !Arc::ptr_eq(a, b));
    let renewed = match changed {
        true => replace_children_if_necessary(Arc::clone(plan), renewed)?,
        false => Arc::clone(plan),
    };
    if let Some(sort) = renewed.downcast_ref::<SortExec>() {
        let order = OrderingRequirements::from(sort.expr().clone());
        // Of a sort that keeps its partitions the fetch is one for each of them.
        let fetch = sort.fetch().filter(|_| !sort.preserve_partitioning());
        return Ok(match place.seen || fetch.is_some() {
            true => Arc::new(FenceExec::new(renewed, Some(order)).with_fetch(fetch)),
            false => renewed,
        });
    }
    Ok(match merges || (is_limit(&renewed) && place.sorted) {
        true => Arc::new(FenceExec::new(renewed, None)),
        false => renewed,
    })
}

fn is_limit(plan: &Plan) -> bool {
    plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>()
}

fn keeps_order(plan: &Plan, at: usize) -> bool {
    plan.maintains_input_order().get(at) == Some(&true)
}

/// Whether an operator whose rows come in the order of an input wants that in one partition.
fn merges_in_order(plan: &Plan) -> bool {
    let wanted = plan.input_distribution_requirements().into_per_child();
    let is_single = |wanted: &Distribution| matches!(wanted, Distribution::SinglePartition);
    wanted.iter().enumerate().any(|(at, wanted)| is_single(wanted) && keeps_order(plan, at))
}

/// Whether an operator asks for an order of its child at a place.
fn asks(plan: &Plan, at: usize) -> bool {
    plan.required_input_ordering().get(at).is_some_and(Option::is_some)
}

/// Whether the order of the rows of a child at a place can be seen: `seen` says that of the
/// operator's own rows.
fn is_seen(plan: &Plan, at: usize, seen: bool) -> bool {
    if is_limit(plan) || plan.is::<AnalyzeExec>() {
        return true;
    }
    if plan.is::<AggregateExec>() {
        return takes_rows_as_they_come(plan);
    }
    // What it asks for is kept without a fence.
    if asks(plan, at) || plan.is::<SortExec>() {
        return false;
    }
    if takes_rows_as_they_come(plan) {
        return true;
    }
    if plan.is::<UnionExec>() {
        return seen;
    }
    let is_alone = plan.children().len() == 1 || plan.is::<ScalarSubqueryExec>();
    seen && is_alone && keeps_order(plan, at)
}

fn unfenced(plan: Plan) -> Result<Plan> {
    let opened = plan.transform_up(|node| match node.downcast_ref::<FenceExec>() {
        Some(fence) => Ok(Transformed::yes(fence.opened())),
        None => Ok(Transformed::no(node)),
    });
    opened.data()
}
