//! Groups that a node's own rows have whole: [`at_node`].
//!
//! A node aggregates its rows twice, by parts and then by key, as one process does; but where a
//! table is sorted by the key, and the cut keeps its values on one node, the scan can give each
//! group to one partition (see `whole_groups` of the crate `swingdb-sql`). A node sees that when a
//! part of a plan comes, which stays one of as many operators: the coordinator counts them.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse};
use swingdb_sql::engine::{WholeKeys, whole_groups};

use crate::local_shuffle::LocalShuffle;
use crate::scan::ShardScan;

type Plan = Arc<dyn ExecutionPlan>;

/// A part of a plan, as its node carries it out.
pub fn at_node(event: WorkerPlanRewriteEvent<'_>) -> Result<WorkerPlanRewriteEventResponse> {
    let plan = whole_groups(event.plan, &AtNode { config: event.session_config })?;
    Ok(WorkerPlanRewriteEventResponse::new(plan))
}

/// Parts of plans at their nodes.
struct AtNode<'a> {
    config: &'a SessionConfig,
}

impl WholeKeys for AtNode<'_> {
    fn dealt_out<'a>(&self, plan: &'a Plan) -> Option<&'a Plan> {
        let shuffle = plan.downcast_ref::<LocalShuffle>().map(LocalShuffle::input);
        shuffle.or_else(|| plan.downcast_ref::<RepartitionExec>().map(RepartitionExec::input))
    }

    fn of_scan(&self, scan: &Plan, column: usize) -> Result<Option<Plan>> {
        let Some(scan) = scan.downcast_ref::<ShardScan>() else { return Ok(None) };
        Ok(scan.with_whole_keys(column, self.config)?.map(|scan| Arc::new(scan) as Plan))
    }

    /// Three operators, with as many partitions as the three before.
    fn in_place(&self, of_parts: &Plan, at_once: Plan) -> Result<Option<Plan>> {
        let partitions = |plan: &Plan| plan.output_partitioning().partition_count();
        if partitions(of_parts) != partitions(&at_once) {
            return Ok(None);
        }
        as_it_is(Arc::new(InAnyOrder::of(at_once))).map(Some)
    }
}

/// Groups that come in an order which the operators above do not know of: they were planned without
/// it, and some would have to be other ones with it.
#[derive(Debug)]
struct InAnyOrder(Plan, Arc<PlanProperties>);

impl InAnyOrder {
    fn of(input: Plan) -> Self {
        let any = EquivalenceProperties::new(input.schema());
        let properties = input.properties().as_ref().clone().with_eq_properties(any);
        Self(input, Arc::new(properties))
    }
}

impl DisplayAs for InAnyOrder {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for InAnyOrder {
    fn name(&self) -> &str {
        "InAnyOrder"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.1
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.0]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        match children.into_iter().next() {
            Some(input) => Ok(Arc::new(Self::of(input))),
            None => Err(DataFusionError::Internal("groups of no input".to_string())),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

fn as_it_is(plan: Plan) -> Result<Plan> {
    let fields = plan.schema();
    let columns = fields.fields().iter().enumerate().map(|(place, field)| {
        (Arc::new(Column::new(field.name(), place)) as _, field.name().clone())
    });
    let columns = columns.collect::<Vec<_>>();
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::clone(&plan))?))
}
