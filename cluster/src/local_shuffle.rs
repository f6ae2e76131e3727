//! A shuffle that moves no rows to other nodes: [`LocalShuffle`].
//!
//! The planner of stages cuts a plan at each `RepartitionExec` by hash. Where rows with equal keys
//! are on the same node already, they only have to come to the same partition there. This operator
//! does that: it is a `RepartitionExec` under another name.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use datafusion_proto::physical_plan::from_proto::parse_protobuf_partitioning;
use datafusion_proto::physical_plan::to_proto::serialize_partitioning;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf;
use prost::Message;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct LocalShuffle {
    inner: RepartitionExec,
    /// Whether it is one of a pair that only keeps the sides of a join in one stage; nobody above
    /// needs its partitions.
    is_scaffold: bool,
}

impl LocalShuffle {
    /// A shuffle of a node's own rows.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, partitioning: Partitioning) -> Result<Self> {
        Ok(Self { inner: RepartitionExec::try_new(input, partitioning)?, is_scaffold: false })
    }

    /// One that is taken away again, once the plan is cut into stages.
    pub fn scaffold(input: Arc<dyn ExecutionPlan>, partitioning: Partitioning) -> Result<Self> {
        Ok(Self { is_scaffold: true, ..Self::try_new(input, partitioning)? })
    }

    /// See [`scaffold`](Self::scaffold).
    pub fn is_scaffold(&self) -> bool {
        self.is_scaffold
    }

    /// What comes in.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        self.inner.input()
    }

    /// As bytes, without the input.
    pub fn to_bytes(
        &self,
        codec: &dyn PhysicalExtensionCodec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Vec<u8>> {
        Ok(serialize_partitioning(self.inner.partitioning(), codec, converter)?.encode_to_vec())
    }

    /// From bytes and the input.
    pub fn from_bytes(
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        codec: &dyn PhysicalExtensionCodec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Self> {
        let wrong = || DataFusionError::Execution("a shuffle that cannot be read".to_string());
        let [input] = inputs else { return Err(wrong()) };
        let read = protobuf::Partitioning::decode(bytes).map_err(|_| wrong())?;
        let context = PhysicalPlanDecodeContext::new(context, codec);
        let schema = input.schema();
        let read = parse_protobuf_partitioning(Some(&read), &context, &schema, converter)?;
        Self::try_new(Arc::clone(input), read.ok_or_else(wrong)?)
    }
}

impl DisplayAs for LocalShuffle {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalShuffle: partitioning={}", self.inner.partitioning())
    }
}

impl ExecutionPlan for LocalShuffle {
    fn name(&self) -> &str {
        "LocalShuffle"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        ExecutionPlan::properties(&self.inner)
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.inner.input()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = children.as_slice() else {
            return Err(DataFusionError::Internal("a shuffle of several inputs".to_string()));
        };
        let partitioning = self.inner.partitioning().clone();
        let made = Self::try_new(Arc::clone(input), partitioning)?;
        Ok(Arc::new(Self { is_scaffold: self.is_scaffold, ..made }))
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.inner.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.inner.statistics_from_inputs(inputs, args)
    }
}
