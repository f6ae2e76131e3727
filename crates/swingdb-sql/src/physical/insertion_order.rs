//! Rows without ORDER BY come in the order of their insertion: [`InOrder`].
//!
//! The query engine takes the rows of its partitions as they come. Where what gives the result of a
//! statement, the rows of a window or those of a limit works on one row after the other
//! (projections, conditions, limits, `unnest`, UNION ALL), each partition is made a part of the
//! table, or of the union, and the parts are computed side by side and given one after the other
//! ([`InOrderExec`]).
//!
//! So are the rows of an aggregate whose value depends on their order: `list(x)`, `first(x)`. Each
//! part is aggregated by itself, and what the parts gave is put together one after the other.
//!
//! What has one partition and was dealt out to several threads stays one: files are read by threads
//! of their own.

pub(crate) mod exec;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use crate::nodes::expressions::IN_ORDER;
use crate::physical::insertion_order::exec::InOrderExec;
use crate::scan::source::SwingSource;

type Plan = Arc<dyn ExecutionPlan>;

/// How files are divided: finely, so that no thread waits long for those before it.
const PART_BYTES: u64 = 4 << 20;
const MAX_PARTS: usize = 4096;

/// See the [module documentation](self). To run when partitions and limits are in place.
#[derive(Debug, Default)]
pub(crate) struct InOrder;

impl PhysicalOptimizerRule for InOrder {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> Result<Plan> {
        if !plan.is::<AnalyzeExec>() {
            return in_order(plan);
        }
        let measured = plan.children().into_iter().cloned().map(in_order);
        let measured = measured.collect::<Result<_>>()?;
        replace_children_if_necessary(plan, measured)
    }

    fn name(&self) -> &str {
        "InOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan of a query that gives its rows in order, as what depends on the order in it gets them.
fn in_order(plan: Plan) -> Result<Plan> {
    let plan = match ordered(&plan)? {
        Some(ordered) => one_after_the_other(ordered, None),
        None => plan,
    };
    within(plan)
}

/// A plan in which what depends on an order gets it.
fn within(plan: Plan) -> Result<Plan> {
    let within = plan.transform_down(|node| {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>()
            && is_in_order(aggregate)
        {
            return of_aggregate(node.clone(), aggregate);
        }
        let ordered = if depends_on_order(&node) { ordered(&node)? } else { None };
        Ok(ordered.map_or_else(|| Transformed::no(node), Transformed::yes))
    });
    within.data()
}

/// Whether the rows that an operator gets first make a difference, and it asks for no order: then
/// they come in the order of what is below it.
pub(crate) fn takes_rows_as_they_come(plan: &Plan) -> bool {
    match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => is_in_order(aggregate),
        None => {
            depends_on_order(plan) && plan.required_input_ordering().iter().all(Option::is_none)
        }
    }
}

/// Whether an aggregate has a value that depends on the order of the rows, which is not said.
fn is_in_order(aggregate: &AggregateExec) -> bool {
    let mut calls = aggregate.aggr_expr().iter();
    calls.any(|call| IN_ORDER.contains(&call.fun().name()) && call.order_bys().is_empty())
}

/// Gives an aggregate its rows in order: the parts of the rows, or what was made of the parts.
fn of_aggregate(node: Plan, aggregate: &AggregateExec) -> Result<Transformed<Plan>> {
    let input = aggregate.input();
    let dealt = input.downcast_ref::<RepartitionExec>();
    let dealt =
        dealt.filter(|dealt| !matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_)));
    let below = match (dealt, input.downcast_ref::<CoalescePartitionsExec>()) {
        (Some(dealt), _) => dealt.input(),
        (None, Some(gathered)) => gathered.input(),
        (None, None) => input,
    };
    let first = below.downcast_ref::<AggregateExec>();
    let first = first.filter(|first| *first.mode() == AggregateMode::Partial);
    let rows = match first {
        Some(first) if !is_first(aggregate) => ordered(first.input())?,
        _ => ordered(below)?,
    };
    let Some(rows) = rows else { return Ok(Transformed::no(node)) };
    let parts = match first {
        // What is below has been seen to; the partial aggregate must not be made one again.
        Some(_) if !is_first(aggregate) => {
            replace_children_if_necessary(Arc::clone(below), vec![within(rows)?])?
        }
        _ => within(rows)?,
    };
    let whole = one_after_the_other(parts, None);
    let whole = match dealt {
        Some(_) => replace_children_if_necessary(Arc::clone(input), vec![whole])?,
        None => whole,
    };
    let renewed = replace_children_if_necessary(node, vec![whole])?;
    Ok(Transformed::new(renewed, true, TreeNodeRecursion::Jump))
}

/// Whether it is rows that an aggregate gets, not values of parts of them.
fn is_first(aggregate: &AggregateExec) -> bool {
    use AggregateMode::{Partial, Single, SinglePartitioned};
    matches!(aggregate.mode(), Partial | Single | SinglePartitioned)
}

/// A plan whose partitions, one after the other, are the rows in order; `None` where they have
/// none, or are not known to.
fn ordered(plan: &Plan) -> Result<Option<Plan>> {
    if let Some(gathered) = plan.downcast_ref::<CoalescePartitionsExec>() {
        let input = ordered(gathered.input())?;
        return Ok(input.map(|input| one_after_the_other(input, gathered.fetch())));
    }
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>() {
        let in_turn = matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_));
        return if in_turn { ordered(dealt.input()) } else { Ok(None) };
    }
    if plan.is::<UnionExec>() {
        let inputs = plan.children().into_iter().map(|input| {
            Ok(ordered(input)?.unwrap_or_else(|| match partitions(input) {
                1 => Arc::clone(input),
                _ => Arc::new(CoalescePartitionsExec::new(Arc::clone(input))),
            }))
        });
        let inputs = inputs.collect::<Result<_>>()?;
        return replace_children_if_necessary(Arc::clone(plan), inputs).map(Some);
    }
    if let Some(read) = plan.downcast_ref::<DataSourceExec>()
        && partitions(plan) > 1
    {
        let source = in_parts(read.data_source())?;
        return Ok(source.map(|source| Arc::new(DataSourceExec::new(source)) as _));
    }
    if keeps_order(plan) || plan.is::<ScalarSubqueryExec>() {
        // Behind the rows come the subqueries whose values they need.
        let children = plan.children();
        let [input, rest @ ..] = children.as_slice() else { return Ok(None) };
        return match ordered(input)? {
            Some(input) => {
                let rest = rest.iter().copied().map(Arc::clone);
                let children = std::iter::once(input).chain(rest).collect();
                replace_children_if_necessary(Arc::clone(plan), children).map(Some)
            }
            None => Ok((partitions(plan) == 1).then(|| Arc::clone(plan))),
        };
    }
    Ok((partitions(plan) == 1).then(|| Arc::clone(plan)))
}

/// A source whose partitions follow each other.
fn in_parts(source: &Arc<dyn DataSource>) -> Result<Option<Arc<dyn DataSource>>> {
    if let Some(table) = source.downcast_ref::<SwingSource>() {
        return Ok(Some(Arc::new(table.in_order())));
    }
    // Batches in memory are those of a `GivenTable`, which cuts them in their order.
    if source.is::<MemorySourceConfig>() {
        return Ok(Some(Arc::clone(source)));
    }
    let Some(files) = source.downcast_ref::<FileScanConfig>() else { return Ok(None) };
    let sizes = files.file_groups.iter().flat_map(|group| group.iter());
    let bytes = sizes.map(|file| file.effective_size()).sum::<u64>();
    let parts = usize::try_from(bytes / PART_BYTES).unwrap_or(MAX_PARTS).min(MAX_PARTS);
    let parts = parts.max(files.file_groups.len());
    let divided = source.repartitioned(parts, 0, None)?;
    Ok(divided.as_ref().unwrap_or(source).with_preserve_order(true))
}

fn partitions(plan: &Plan) -> usize {
    plan.output_partitioning().partition_count()
}

fn keeps_order(plan: &Plan) -> bool {
    plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<LocalLimitExec>()
        || depends_on_order(plan)
}

/// Whether what it gives is decided by the order of the rows it gets.
fn depends_on_order(plan: &Plan) -> bool {
    let gathered = plan.downcast_ref::<CoalescePartitionsExec>();
    plan.is::<GlobalLimitExec>()
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
        || gathered.is_some_and(|gathered| gathered.fetch().is_some())
}

/// All partitions as one.
fn one_after_the_other(plan: Plan, fetch: Option<usize>) -> Plan {
    match (partitions(&plan), fetch) {
        (1, None) => plan,
        (1, Some(_)) => Arc::new(GlobalLimitExec::new(plan, 0, fetch)),
        _ => Arc::new(InOrderExec::new(plan, fetch)),
    }
}
