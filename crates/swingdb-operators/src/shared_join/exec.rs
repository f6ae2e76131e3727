//! The operator: [`SharedHashJoinExec`].

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics, internal_datafusion_err, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::{Distribution, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, SendableRecordBatchStream,
};
use futures::FutureExt;

use super::build::{Build, Density};
use super::metrics::{BuildMetrics, ProbeMetrics};
use super::output::Output;
use super::probe::{Probe, Running, State};
use super::published::Published;
use crate::join_display::write_as;
use crate::meeting::Meeting;

type Plan = Arc<dyn ExecutionPlan>;

/// A hash join that builds its one table on all threads. See the
/// [module documentation](crate::shared_join).
#[derive(Debug)]
pub struct SharedHashJoinExec {
    /// The join as the engine describes it. It answers for everything but rows.
    join: HashJoinExec,
    /// Whether it is `x NOT IN (...)`: a NULL on the build side may be equal to any `x`.
    null_aware: bool,
    execution: Meeting<Running>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedHashJoinExec {
    /// A join that gives the rows of `join`. `None` for joins that this operator does not know:
    /// `NOT IN` that would build a table of the rows asked about ([`Self::not_in`] builds one of
    /// the list).
    pub fn try_new(join: &HashJoinExec) -> Result<Option<Self>> {
        match join.null_aware {
            true => Ok(None),
            false => Self::described_by(join, false).map(Some),
        }
    }

    /// `x NOT IN (...)` with a table of the list, from the engine's join with one of the rows that
    /// have `x`. `None` where it is another join.
    pub fn not_in(join: &HashJoinExec) -> Result<Option<Self>> {
        if !join.null_aware || join.filter().is_some() {
            return Ok(None);
        }
        // The output has the columns of the rows that have `x`, on whichever side they are.
        let swapped = HashJoinExec::try_new(
            Arc::clone(join.right()),
            Arc::clone(join.left()),
            join.on().iter().map(|(x, element)| (Arc::clone(element), Arc::clone(x))).collect(),
            None,
            &JoinType::RightAnti,
            join.projection.as_deref().map(<[usize]>::to_vec),
            PartitionMode::CollectLeft,
            join.null_equality(),
            false,
        )?;
        let swapped = swapped.builder().with_fetch(join.fetch()).build()?;
        Self::described_by(&swapped, true).map(Some)
    }

    /// The join that [`join`](Self::join) and [`null_aware`](Self::null_aware) say.
    pub fn described_by(join: &HashJoinExec, null_aware: bool) -> Result<Self> {
        let join = join.builder().with_partition_mode(PartitionMode::CollectLeft).build()?;
        let execution = Meeting::default();
        Ok(Self { join, null_aware, execution, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// The same join as the engine's operator. Its execution would give other rows: it expects
    /// one partition of the build side.
    pub fn join(&self) -> &HashJoinExec {
        &self.join
    }

    /// Whether it is `x NOT IN (...)` with a table of the list.
    pub fn null_aware(&self) -> bool {
        self.null_aware
    }

    /// The plan with this operator where the engine answered with its own: as the plan's root, or
    /// right below a projection.
    fn own(&self, plan: Plan) -> Result<Plan> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Ok(Arc::new(Self::described_by(join, self.null_aware)?));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let input = self.own(Arc::clone(projection.input()))?;
            let exprs = projection.expr().to_vec();
            return Ok(Arc::new(ProjectionExec::try_new(exprs, input)?));
        }
        internal_err!("a join became {}", plan.name())
    }

    /// The engine's operator on its own, for methods that take it by value.
    fn engines(&self) -> Result<Plan> {
        self.join.builder().build_exec()
    }

    /// The condition for the scans of the probe side, if one of them evaluates it.
    fn filter(&self) -> Result<Option<Arc<DynamicFilterPhysicalExpr>>> {
        for filter in self.join.dynamic_expressions_produced() {
            let Some(id) = filter.expression_id() else { continue };
            if is_asked_for(self.join.right(), id)? {
                return Ok(Arc::downcast::<DynamicFilterPhysicalExpr>(filter).ok());
            }
        }
        Ok(None)
    }

    fn begin(&self, context: &Arc<TaskContext>) -> Result<Running> {
        use JoinType as J;
        let options = context.session_config().options();
        let (left, right) = (self.join.left(), self.join.right());
        let inputs = (0..left.output_partitioning().partition_count())
            .map(|partition| left.execute(partition, Arc::clone(context)))
            .collect::<Result<Vec<_>>>()?;
        let on = self.join.on().iter();
        let published = self.filter()?.map(|filter| Published {
            filter,
            on: on.clone().map(|(_, probe)| Arc::clone(probe)).collect(),
            schema: right.schema(),
            list_rows: options.optimizer.hash_join_inlist_pushdown_max_distinct_values,
            list_bytes: options.optimizer.hash_join_inlist_pushdown_max_size,
            null_equality: self.join.null_equality(),
        });
        let build = Build {
            schema: left.schema(),
            on: on.map(|(build, _)| Arc::clone(build)).collect(),
            null_equality: self.join.null_equality(),
            notes_visited: matches!(
                self.join.join_type(),
                J::Left | J::Full | J::LeftSemi | J::LeftAnti | J::LeftMark
            ),
            workers: context.session_config().target_partitions(),
            density: Density {
                small_range: options.execution.perfect_hash_join_small_build_threshold,
                least_share: options.execution.perfect_hash_join_min_key_density,
            },
            published,
            reservation: MemoryConsumer::new("HashJoinInput").register(context.memory_pool()),
            metrics: BuildMetrics::new(&self.metrics),
        };
        let building = async move { build.run(inputs).await.map(Arc::new).map_err(Arc::new) };
        let probing = right.output_partitioning().partition_count();
        Ok(Running::new(building.boxed().shared(), probing))
    }
}

/// Whether an operator of a plan evaluates an expression.
fn is_asked_for(plan: &Plan, id: u64) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        node.apply_expressions(&mut |root| {
            root.apply(|part| {
                found |= part.expression_id() == Some(id);
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

impl DisplayAs for SharedHashJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_as(self.name(), &self.join, format, f)?;
        match self.null_aware && !matches!(format, DisplayFormatType::TreeRender) {
            true => f.write_str(", null_aware"),
            false => Ok(()),
        }
    }
}

impl ExecutionPlan for SharedHashJoinExec {
    fn name(&self) -> &str {
        "SharedHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![
            Distribution::UnspecifiedDistribution,
            Distribution::UnspecifiedDistribution,
        ])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // Dealing the build side out would lose its order, and gains little: only collecting it
        // is done by partition.
        vec![false, true]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.join.maintains_input_order()
    }

    fn children(&self) -> Vec<&Plan> {
        self.join.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.join.dynamic_expressions_produced()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Plan>,
        options: ReplaceChildrenOptions,
    ) -> Result<Plan> {
        self.own(self.engines()?.replace_children(children, options)?)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let renewed = self.join.builder().recompute_properties().with_new_children(children)?;
        self.own(renewed.build_exec()?)
    }

    fn reset_state(self: Arc<Self>) -> Result<Plan> {
        self.own(self.join.builder().reset_state().build_exec()?)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let join = &self.join;
        let partitions = join.right().output_partitioning().partition_count();
        let running = self.execution.join(partitions, || self.begin(&context))?;
        let batch_rows = context.session_config().batch_size().max(1);
        let input = join.right().execute(partition, context)?;
        let (left, right) = (join.left().schema(), join.right().schema());
        let (_, columns) = build_join_schema(&left, &right, join.join_type());
        let columns: Vec<ColumnIndex> = match &join.projection {
            Some(projection) => {
                let projected = projection.iter().map(|&at| columns.get(at).cloned());
                let projected = projected.collect::<Option<_>>();
                projected.ok_or_else(|| internal_datafusion_err!("a join lacks a column"))?
            }
            None => columns,
        };
        let probe = Probe {
            running,
            input: Some(input),
            on: join.on().iter().map(|(_, probe)| Arc::clone(probe)).collect(),
            filter: join.filter().cloned(),
            join_type: *join.join_type(),
            null_aware: self.null_aware,
            null_equality: join.null_equality(),
            batch_rows,
            output: Output::new(self.schema(), columns, batch_rows, join.fetch()),
            metrics: ProbeMetrics::new(&self.metrics, partition),
            state: State::New,
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), probe.stream())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(input_stats, args)
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Plan>> {
        let swapped = self.join.try_swapping_with_projection(projection)?;
        swapped.map(|plan| self.own(plan)).transpose()
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<PhysicalExprRef>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.join.gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
        let mut told = self.join.handle_child_pushdown_result(phase, result, config)?;
        told.updated_node = told.updated_node.map(|plan| self.own(plan)).transpose()?;
        Ok(told)
    }

    fn fetch(&self) -> Option<usize> {
        self.join.fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Plan> {
        self.own(self.join.with_fetch(limit)?).ok()
    }
}
