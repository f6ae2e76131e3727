//! The operator.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{SortOptions, filter_record_batch, is_not_null, take_arrays};
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::equivalence::EquivalenceProperties;
use datafusion::physical_expr::{
    Distribution, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr, PhysicalExprRef,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{EmissionType, apply_expression_roots};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use swingdb_common::runtime::held::Held;
use tokio::sync::OnceCell;

use crate::nodes::asof_condition::Condition;
use crate::physical::asof::index::{Index, Search, values};

/// Collects the right side once, in order, and streams the left side by it.
#[derive(Debug)]
pub(crate) struct AsofJoinExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    condition: Condition<PhysicalExprRef>,
    outer: bool,
    index: Arc<OnceCell<Shared>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// What all partitions of the left side search, or why there is none.
type Shared = std::result::Result<Arc<Index>, Arc<DataFusionError>>;

impl AsofJoinExec {
    pub fn new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        condition: Condition<PhysicalExprRef>,
        outer: bool,
        schema: SchemaRef,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(left.output_partitioning().partition_count()),
            EmissionType::Incremental,
            left.boundedness(),
        );
        Self {
            left,
            right,
            condition,
            outer,
            index: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for AsofJoinExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Condition { keys, time: [left, right], nearest } = &self.condition;
        write!(f, "AsofJoinExec: type={}, on=[", if self.outer { "Left" } else { "Inner" })?;
        for (at, [left, right]) in keys.iter().enumerate() {
            write!(f, "{}{left} = {right}", if at == 0 { "" } else { ", " })?;
        }
        write!(f, "], nearest={left} {} {right}", nearest.operator())
    }
}

impl ExecutionPlan for AsofJoinExec {
    fn name(&self) -> &str {
        "AsofJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![
            Distribution::UnspecifiedDistribution,
            Distribution::SinglePartition,
        ])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        // As `Index` compares: ascending, NULLs first.
        let options = SortOptions::default();
        let by = |expr: &PhysicalExprRef| PhysicalSortExpr::new(Arc::clone(expr), options);
        let order = LexOrdering::new(self.condition.side(1).map(by));
        vec![None, order.map(OrderingRequirements::from)]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.condition.side(0).chain(self.condition.side(1)), f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([left, right]) = <[Arc<dyn ExecutionPlan>; 2]>::try_from(children) else {
            return internal_err!("an ASOF JOIN has two inputs");
        };
        let condition = self.condition.clone();
        Ok(Arc::new(Self::new(left, right, condition, self.outer, self.schema())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let left = self.left.execute(partition, Arc::clone(&context))?;
        let (right, condition) = (Arc::clone(&self.right), self.condition.clone());
        let shared = Arc::clone(&self.index);
        let index = async move {
            let built = async || build(&right, &condition, context).await.map_err(Arc::new);
            match shared.get_or_init(built).await {
                Ok(index) => Ok(Arc::clone(index)),
                Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            }
        };
        let joined = Joined {
            condition: self.condition.clone(),
            outer: self.outer,
            schema: self.schema(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = index.map_ok(move |index| {
            let mut search = Search::new(index);
            left.map(move |batch| joined.join(&mut search, &batch?))
        });
        let batches = batches.try_flatten_stream();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

async fn build(
    right: &Arc<dyn ExecutionPlan>,
    condition: &Condition<PhysicalExprRef>,
    context: Arc<TaskContext>,
) -> Result<Arc<Index>> {
    let memory = MemoryConsumer::new("AsofJoinExec").register(context.memory_pool());
    let mut stream = right.execute(0, context)?;
    let (schema, mut batches, mut held) = (right.schema(), Vec::new(), Held::default());
    while let Some(batch) = stream.try_next().await? {
        memory.try_grow(held.add(&batch))?;
        batches.push(batch);
    }
    Ok(Arc::new(Index::build(&schema, &batches, condition, memory)?))
}

/// What a partition of the left side makes of its batches.
struct Joined {
    condition: Condition<PhysicalExprRef>,
    outer: bool,
    schema: SchemaRef,
    metrics: BaselineMetrics,
}

impl Joined {
    fn join(&self, search: &mut Search, left: &RecordBatch) -> Result<RecordBatch> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let mut found = search.find(&values(&self.condition, 0, left)?)?;
        let mut left = left.clone();
        if !self.outer && found.null_count() > 0 {
            let kept = is_not_null(&found)?;
            left = filter_record_batch(&left, &kept)?;
            found = UInt64Array::from_iter_values(found.iter().flatten());
        }
        // A row without a partner has NULL in columns that the right side knows as never NULL.
        let right = take_arrays(search.index.rows.columns(), &found, None)?;
        let columns = [left.columns(), right.as_slice()].concat();
        self.metrics.output_rows().add(left.num_rows());
        let options = RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
