//! Few groups are put together by one task: [`gathered`].
//!
//! Groups whose rows are on several nodes are aggregated there, and shuffled by their keys, for
//! each node to put some of them together. For few groups that costs more than it saves: a stage of
//! tasks, and a stream from each task to each. So where few groups are expected, one task gets all
//! parts, which is the coordinator's where nothing else needs another stage.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::colocate::{rows, with_children};
use crate::local_shuffle::LocalShuffle;

type Plan = Arc<dyn ExecutionPlan>;

/// Groups that one task puts together, at most. It gets as many parts from each node.
const MOST: f64 = 4096.0;

/// A plan that is not cut into stages yet, where one task puts few groups together.
pub(crate) fn gathered(plan: &Plan) -> Result<Plan> {
    below(plan, true)
}

/// `is_free`: no operator above, up to one that collects or deals out, counts on partitions of
/// several inputs.
fn below(plan: &Plan, is_free: bool) -> Result<Plan> {
    let own = if is_free { in_one_task(plan)? } else { None };
    let plan = own.as_ref().unwrap_or(plan);
    let children = plan.children();
    let moves = plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
        || shuffle(plan).is_some();
    let is_free = moves || is_free && children.len() == 1 && !plan.is::<LocalShuffle>();
    let children = children.into_iter().map(|child| below(child, is_free));
    with_children(plan, children.collect::<Result<_>>()?)
}

fn shuffle(plan: &Plan) -> Option<&RepartitionExec> {
    let shuffle = plan.downcast_ref::<RepartitionExec>()?;
    matches!(shuffle.partitioning(), Partitioning::Hash(..)).then_some(shuffle)
}

/// Groups whose parts are collected instead of shuffled; `None`: there may be many.
fn in_one_task(plan: &Plan) -> Result<Option<Plan>> {
    let Some(groups) = plan.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let shuffle = shuffle(groups.input()).filter(|shuffle| !shuffle.preserve_order());
    let (AggregateMode::FinalPartitioned, Some(shuffle)) = (groups.mode(), shuffle) else {
        return Ok(None);
    };
    if plan.output_ordering().is_some() || rows(plan) > MOST {
        return Ok(None);
    }
    let made = AggregateExec::try_new(
        AggregateMode::Final,
        groups.group_expr().clone(),
        groups.aggr_expr().to_vec(),
        groups.filter_expr().to_vec(),
        Arc::new(CoalescePartitionsExec::new(Arc::clone(shuffle.input()))),
        groups.input_schema(),
    )?;
    let made = made.with_limit_options(groups.limit_options());
    Ok((made.schema() == plan.schema()).then(|| Arc::new(made) as Plan))
}
