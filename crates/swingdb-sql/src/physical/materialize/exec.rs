//! The operator.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SpillFile, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::equivalence::EquivalenceProperties;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput, SpillMetrics,
};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    SendableRecordBatchStream,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use swingdb_common::runtime::held::Held;

use crate::nodes::materialize::PartId;
use crate::nodes::one_input::{one_input, rows_of_input};

/// One of the operators that give the rows of a part.
#[derive(Debug)]
pub(crate) struct MaterializeExec {
    part: PartId,
    /// How EXPLAIN tells the parts of a plan apart.
    number: usize,
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<Rows>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MaterializeExec {
    pub fn new(part: PartId, input: Arc<dyn ExecutionPlan>) -> Self {
        // The rows may be those of another operator, whose input has been given another order.
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            input.boundedness(),
        );
        Self {
            part,
            number: 0,
            input,
            rows: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub fn part(&self) -> PartId {
        self.part
    }

    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The operator with the place for its rows.
    pub fn with_rows(&self, number: usize, rows: Arc<Rows>) -> Self {
        Self { number, rows, ..Self::new(self.part, Arc::clone(&self.input)) }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let (number, rows) = (self.number, Arc::clone(&self.rows));
        Self { number, rows, ..Self::new(self.part, input) }
    }
}

impl DisplayAs for MaterializeExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MaterializeExec: part={}", self.number)
    }
}

impl ExecutionPlan for MaterializeExec {
    fn name(&self) -> &str {
        "MaterializeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// The next round of a recursive query: nothing in a part depends on the round.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    one_input!();
    rows_of_input!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (rows, input, schema) =
            (Arc::clone(&self.rows), Arc::clone(&self.input), self.schema());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let spills = SpillMetrics::new(&self.metrics, partition);
        let stream = futures::stream::once(async move {
            // Not before somebody wants rows: what the input needs, such as the results of
            // subqueries, is there then.
            let kept = rows.partition(partition, input, context, spills);
            kept.await.map_err(DataFusionError::Shared)?.stream(schema)
        });
        let stream = stream.try_flatten();
        let counted = stream.map(move |batch| batch.map(|batch| batch.record_output(&metrics)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }
}

/// The rows of a part: computed by whoever wants them first, kept as long as the plan.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// What computes them: the input of one of the operators, for all partitions.
    from: OnceLock<Arc<dyn ExecutionPlan>>,
    partitions: Mutex<Vec<Option<Computed>>>,
}

/// One partition. A task of its own computes it: whoever waits need not be asked again and again.
type Computed = Shared<BoxFuture<'static, std::result::Result<SharedRows, Arc<DataFusionError>>>>;

impl Rows {
    fn partition(
        &self,
        partition: usize,
        input: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        spills: SpillMetrics,
    ) -> Computed {
        let count = input.output_partitioning().partition_count();
        let from = Arc::clone(self.from.get_or_init(|| input));
        debug_assert_eq!(
            count,
            from.output_partitioning().partition_count(),
            "occurrences of a part are planned alike"
        );
        let mut partitions = self.partitions.lock();
        if partitions.len() <= partition {
            partitions.resize(partition + 1, None);
        }
        let start = || {
            let compute = async move {
                let task = SpawnedTask::spawn(keep(from, partition, context, spills));
                let joined =
                    task.join_unwind().await.map_err(|e| DataFusionError::External(e.into()));
                joined.flatten().map_err(Arc::new)
            };
            compute.boxed().shared()
        };
        partitions[partition].get_or_insert_with(start).clone()
    }
}

/// Rows that are read more than once.
#[derive(Clone)]
enum SharedRows {
    InMemory(Arc<Batches>),
    OnDisk(SpillManager, Arc<dyn SpillFile>),
}

struct Batches {
    batches: Vec<RecordBatch>,
    _memory: MemoryReservation,
}

impl SharedRows {
    fn stream(self, schema: SchemaRef) -> Result<SendableRecordBatchStream> {
        match self {
            Self::OnDisk(spills, file) => spills.read_spill_as_stream(file, None),
            Self::InMemory(kept) => {
                let batches = (0..kept.batches.len()).map(move |at| Ok(kept.batches[at].clone()));
                let stream = RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches));
                Ok(Box::pin(cooperative(stream)))
            }
        }
    }
}

/// Computes a partition. It goes to disk when it gets no more memory.
async fn keep(
    input: Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
    metrics: SpillMetrics,
) -> Result<SharedRows> {
    let consumer = MemoryConsumer::new(format!("MaterializeExec[{partition}]"));
    let memory = consumer.with_can_spill(true).register(context.memory_pool());
    let spills = SpillManager::new(context.runtime_env(), metrics, input.schema());
    let mut stream = input.execute(partition, context)?;
    let (mut batches, mut held, mut file) = (Vec::new(), Held::default(), None);
    while let Some(batch) = stream.try_next().await? {
        if batch.num_rows() == 0 {
            continue;
        }
        if file.is_none() && memory.try_grow(held.add(&batch)).is_err() {
            let mut begun = spills.create_in_progress_file("MaterializeExec")?;
            batches.drain(..).try_for_each(|kept| begun.append_batch(&kept).map(drop))?;
            memory.free();
            file = Some(begun);
        }
        match &mut file {
            Some(file) => drop(file.append_batch(&batch)?),
            None => batches.push(batch),
        }
    }
    let finished = file.map(|mut file| file.finish()).transpose()?.flatten();
    Ok(match finished {
        Some(file) => SharedRows::OnDisk(spills, file),
        None => SharedRows::InMemory(Arc::new(Batches { batches, _memory: memory })),
    })
}
