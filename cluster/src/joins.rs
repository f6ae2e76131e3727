//! The database's own hash joins in plans for nodes: [`shared`], [`spilling`], and their bytes.
//!
//! The planner of stages knows the engine's hash joins only. So the database's own take their
//! places afterwards:
//!
//! - [`shared`], before the plan is cut: a join whose inputs are dealt out by its keys within a
//!   task builds one table with all threads of the node, and needs no dealing out. All rows with
//!   equal keys are in the task, whether by a cut or by a shuffle over the network.
//! - [`spilling`], behind the cut: a join whose table may not fit into a node's memory goes on in
//!   temporary files there.
//!
//! Rows of both come in other partitions than those of the engine's join. So a join is replaced
//! only where no operator above, in its task, counts on its partitions.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{Distribution, Partitioning};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::InterleaveExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{BroadcastExec, NetworkBoundaryExt};
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;
use swingdb_operators::grace_join::GraceHashJoinExec;
use swingdb_operators::shared_join::SharedJoins;
use swingdb_sql::engine::large_tables;

use crate::colocate::with_children;
use crate::local_shuffle::LocalShuffle;

type Plan = Arc<dyn ExecutionPlan>;

/// Where a plan, or a part of one, will run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tasks {
    /// In how many tasks at most. What one task alone deals out stays in it.
    pub(crate) count: usize,
    /// How many threads each has.
    pub(crate) threads: usize,
}

/// Another operator for a join, of which one in so many tasks has its part.
type Other<'a> = dyn Fn(&HashJoinExec, usize) -> Result<Option<Plan>> + 'a;

/// A plan that is not cut into stages yet, with joins whose tables all threads of a task build.
pub(crate) fn shared(plan: &Plan, tasks: Tasks, config: &ConfigOptions) -> Result<Plan> {
    let large = large_tables(plan, config)?;
    let other = |join: &HashJoinExec, count: usize| {
        // Those with large tables have to spill.
        match large.is_some_and(|large| large.is_one(join.left(), count)) {
            true => Ok(None),
            false => without_shuffles(join, tasks),
        }
    };
    replaced(plan, Above { is_counted: false, tasks: tasks.count }, &other)
}

/// A plan of stages, with joins that spill where their tables may not fit into a node's memory.
pub(crate) fn spilling(plan: Plan, config: &ConfigOptions) -> Result<Plan> {
    let Some(large) = large_tables(&plan, config)? else { return Ok(plan) };
    let other = |join: &HashJoinExec, tasks: usize| {
        let is_dealt_out = *join.partition_mode() == PartitionMode::Partitioned;
        let parts = if is_dealt_out { tasks } else { 1 };
        // The other join keeps no order.
        if join.properties().output_ordering().is_some() || !large.is_one(join.left(), parts) {
            return Ok(None);
        }
        let Some(other) = GraceHashJoinExec::try_new(join)? else { return Ok(None) };
        let left = collected(join.left()).unwrap_or(join.left());
        let inputs = vec![Arc::clone(left), Arc::clone(join.right())];
        let other: Plan = Arc::new(other);
        with_children(&other, inputs).map(Some)
    };
    replaced(&plan, Above { is_counted: false, tasks: 1 }, &other)
}

/// What is known of the operators above a plan.
#[derive(Clone, Copy)]
struct Above {
    /// Whether it matters to them which rows are in one partition.
    is_counted: bool,
    /// The tasks of their stage.
    tasks: usize,
}

/// The plan with other operators for its joins, where nobody counts on their partitions.
fn replaced(plan: &Plan, above: Above, other: &Other<'_>) -> Result<Plan> {
    let join = plan.downcast_ref::<HashJoinExec>().filter(|_| !above.is_counted);
    let own = join.map(|join| other(join, above.tasks)).transpose()?.flatten();
    let plan = own.as_ref().unwrap_or(plan);
    let tasks = plan.as_network_boundary().map_or(above.tasks, |b| b.input_stage().task_count());
    let children = plan.children().into_iter().enumerate();
    let children = children.map(|(nth, child)| {
        let is_counted = counts_on(plan, nth, above.is_counted);
        replaced(child, Above { is_counted, tasks }, other)
    });
    with_children(plan, children.collect::<Result<_>>()?)
}

/// Whether it matters which rows of an input are in one partition: to the operator, or to those
/// above.
fn counts_on(plan: &Plan, input: usize, is_counted: bool) -> bool {
    let asked = plan.input_distribution_requirements();
    let asked = asked.child_distribution(input);
    let asks = asked.is_some_and(|asked| !matches!(asked, Distribution::UnspecifiedDistribution));
    let deals_anew = plan.is::<RepartitionExec>()
        || plan.is::<LocalShuffle>()
        || plan.is::<BroadcastExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>();
    asks || plan.is::<InterleaveExec>() || (is_counted && !deals_anew)
}

/// The join with a table that all threads build, if it pays. Its inputs are not dealt out within
/// the task.
fn without_shuffles(join: &HashJoinExec, tasks: Tasks) -> Result<Option<Plan>> {
    let is_one = tasks.count == 1;
    let is_dealt_out = |side: &Plan| before_dealing(side, is_one).is_some();
    // The planner of stages has the table of another join broadcast, or knows its shuffles.
    if !is_one && !is_dealt_out(join.left()) && !is_dealt_out(join.right()) {
        return Ok(None);
    }
    let Some(shared) = SharedJoins::instead_of(join, tasks.threads)? else { return Ok(None) };
    let partitions = |plan: &Plan| plan.output_partitioning().partition_count();
    let mut inputs = shared.children().into_iter().cloned().collect::<Vec<_>>();
    for (nth, input) in inputs.iter_mut().enumerate() {
        let Some(before) = before_dealing(input, is_one).cloned() else { continue };
        // As many threads probe as the second input has partitions.
        if nth == 0 || partitions(&before) >= partitions(input) {
            *input = before;
        }
    }
    let shared: Plan = Arc::new(shared);
    with_children(&shared, inputs).map(Some)
}

/// The rows that are dealt out or collected within a task; `is_one`: there is no other task.
fn before_dealing(side: &Plan, is_one: bool) -> Option<&Plan> {
    if let Some(shuffle) = side.downcast_ref::<LocalShuffle>() {
        return Some(shuffle.input());
    }
    if !is_one {
        return None;
    }
    let shuffle = side.downcast_ref::<RepartitionExec>().filter(|shuffle| {
        matches!(shuffle.partitioning(), Partitioning::Hash(..)) && !shuffle.preserve_order()
    });
    shuffle.map(RepartitionExec::input).or_else(|| collected(side))
}

fn collected(side: &Plan) -> Option<&Plan> {
    let collect = side.downcast_ref::<CoalescePartitionsExec>();
    collect.filter(|collect| collect.fetch().is_none()).map(CoalescePartitionsExec::input)
}

/// A join as bytes, without its inputs: those of the engine's join over no rows.
pub(crate) fn to_bytes(
    join: &HashJoinExec,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Vec<u8>> {
    let none = join.children().into_iter().map(|input| {
        let none: Plan = Arc::new(EmptyExec::new(input.schema()));
        none
    });
    let alone = join.builder().recompute_properties().with_new_children(none.collect())?;
    Ok(converter.execution_plan_to_proto(&alone.build_exec()?, codec)?.encode_to_vec())
}

/// From bytes and the inputs.
pub(crate) fn from_bytes(
    bytes: &[u8],
    inputs: &[Plan],
    context: &TaskContext,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<HashJoinExec> {
    let read = PhysicalPlanNode::decode(bytes);
    let read = read.map_err(|error| DataFusionError::External(error.into()))?;
    let context = PhysicalPlanDecodeContext::new(context, codec);
    let alone = converter.proto_to_execution_plan(&read, &context)?;
    let Some(alone) = alone.downcast_ref::<HashJoinExec>() else {
        return Err(DataFusionError::Execution("a join that cannot be read".to_string()));
    };
    alone.builder().recompute_properties().with_new_children(inputs.to_vec())?.build()
}
