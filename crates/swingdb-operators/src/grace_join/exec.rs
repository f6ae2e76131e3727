//! The operator: [`GraceHashJoinExec`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::JoinSet;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SpillFile, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::deal::{Dealer, PARTS};
use super::held_rows::{Held, HeldRowsExec};
use crate::join_display::write_as;
use crate::meeting::Meeting;

type Plan = Arc<dyn ExecutionPlan>;
type Files = Vec<Option<Arc<dyn SpillFile>>>;

/// How often rows are dealt out at most.
pub(super) const MOST_LEVELS: u64 = 3;
/// Bytes that a row takes in a table at most, besides its own: a hash and a number, twice as many
/// of them as rows, and the number of the next row with its hash.
const ENTRY_BYTES: usize = 48;

/// A hash join that goes on in temporary files. See the [module documentation](super).
#[derive(Debug)]
pub struct GraceHashJoinExec {
    /// The join as the engine describes it.
    join: Arc<HashJoinExec>,
    /// How often its rows were dealt out before.
    level: u64,
    properties: Arc<PlanProperties>,
    execution: Meeting<Running>,
    metrics: ExecutionPlanMetricsSet,
}

/// One execution.
struct Running(Shared<BoxFuture<'static, Result<Arc<Collected>, Arc<DataFusionError>>>>);

/// The build side, and if it did not fit into memory the probe side too.
enum Collected {
    /// The join, over rows in memory.
    Fits(Plan),
    /// The join of each part, until a partition carries it out.
    Parts(Vec<Mutex<Option<Plan>>>),
}

/// The rows of the build side that a task has.
enum Side {
    Memory(Vec<RecordBatch>, MemoryReservation),
    Dealt(Files),
}

impl GraceHashJoinExec {
    /// A join that gives the rows of `join`, in any order. `None` for `NOT IN`, which must know all
    /// rows of its list, and for the first rows of a join.
    pub fn try_new(join: &HashJoinExec) -> Result<Option<Self>> {
        match join.null_aware || join.fetch().is_some() {
            true => Ok(None),
            false => Self::of(join, 0).map(Some),
        }
    }

    /// The same join as the engine's operator.
    pub fn join(&self) -> &HashJoinExec {
        &self.join
    }

    fn of(join: &HashJoinExec, level: u64) -> Result<Self> {
        let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
        // Without the order of the probe side, and a condition for its scans.
        let join = Arc::new(over(join, left, right)?);
        let partitions = join.right().output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(join.schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let (properties, execution) = (Arc::new(properties), Meeting::default());
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { join, level, properties, execution, metrics })
    }

    fn begin(&self, context: &Arc<TaskContext>) -> Result<Running> {
        let left = self.join.left();
        let inputs = (0..left.output_partitioning().partition_count())
            .map(|partition| left.execute(partition, Arc::clone(context)))
            .collect::<Result<Vec<_>>>()?;
        let build = Build {
            join: Arc::clone(&self.join),
            level: self.level,
            context: Arc::clone(context),
            spills: SpillMetrics::new(&self.metrics, 0),
        };
        let collected = async move { build.run(inputs).await.map(Arc::new).map_err(Arc::new) };
        Ok(Running(collected.boxed().shared()))
    }
}

/// The join of other rows.
fn over(join: &HashJoinExec, left: Plan, right: Plan) -> Result<HashJoinExec> {
    HashJoinExec::try_new(
        left,
        right,
        join.on().to_vec(),
        join.filter().cloned(),
        join.join_type(),
        join.projection.as_deref().map(<[usize]>::to_vec),
        PartitionMode::CollectLeft,
        join.null_equality(),
        false,
    )
}

/// Collects both sides of a join.
struct Build {
    join: Arc<HashJoinExec>,
    level: u64,
    context: Arc<TaskContext>,
    spills: SpillMetrics,
}

impl Build {
    async fn run(self, inputs: Vec<SendableRecordBatchStream>) -> Result<Collected> {
        let (build_keys, probe_keys): (Vec<_>, Vec<_>) = self.join.on().iter().cloned().unzip();
        let (probe, schema) = (self.join.right(), self.join.left().schema());
        let with_dealer = |rows| (rows, self.dealer(&schema, &build_keys));
        let inputs = inputs.into_iter().map(with_dealer).collect();
        let sides = collect(inputs, &self.context).await?;
        if sides.iter().all(|side| matches!(side, Side::Memory(..))) {
            // The engine's operator asks for their memory from now on.
            let rows = sides.into_iter().flat_map(|side| match side {
                Side::Memory(rows, _) => rows,
                Side::Dealt(_) => Vec::new(),
            });
            let left = HeldRowsExec::plan(schema, Held::Memory(rows.collect()));
            let join = over(&self.join, left, Arc::clone(probe))?;
            return Ok(Collected::Fits(Arc::new(join)));
        }
        let dealt = sides.into_iter().map(|side| match side {
            Side::Dealt(files) => Ok(files),
            Side::Memory(rows, reservation) => {
                let mut dealer = self.dealer(&schema, &build_keys);
                rows.iter().try_for_each(|batch| dealer.deal(batch))?;
                drop((rows, reservation));
                dealer.finish()
            }
        });
        let build = dealt.collect::<Result<Vec<_>>>()?;
        let probe = self.deal_probe(&probe_keys).await?;
        self.parts(build, probe).map(Collected::Parts)
    }

    fn manager(&self, schema: &SchemaRef) -> SpillManager {
        let environment = self.context.runtime_env();
        let compression = self.context.session_config().spill_compression();
        SpillManager::new(environment, self.spills.clone(), Arc::clone(schema))
            .with_compression_type(compression)
    }

    fn dealer(&self, schema: &SchemaRef, keys: &[PhysicalExprRef]) -> Dealer {
        Dealer::new(self.manager(schema), keys.to_vec(), self.level)
    }

    /// Deals the probe side out, each of its partitions by a task.
    async fn deal_probe(&self, keys: &[PhysicalExprRef]) -> Result<Vec<Files>> {
        let (probe, mut tasks) = (self.join.right(), JoinSet::new());
        for partition in 0..probe.output_partitioning().partition_count() {
            let mut rows = probe.execute(partition, Arc::clone(&self.context))?;
            let mut dealer = self.dealer(&probe.schema(), keys);
            tasks.spawn(async move {
                while let Some(batch) = rows.next().await.transpose()? {
                    dealer.deal(&batch)?;
                }
                dealer.finish()
            });
        }
        all(tasks).await
    }

    /// The join of each part.
    fn parts(&self, build: Vec<Files>, probe: Vec<Files>) -> Result<Vec<Mutex<Option<Plan>>>> {
        let rows = |tasks: &[Files], part: usize, schema: &SchemaRef| {
            let files = tasks.iter().filter_map(|files| files[part].clone()).collect();
            HeldRowsExec::plan(Arc::clone(schema), Held::Files(files, self.manager(schema)))
        };
        let (left, right) = (self.join.left().schema(), self.join.right().schema());
        let parts = (0..PARTS).map(|part| {
            let sides = (rows(&build, part, &left), rows(&probe, part, &right));
            let join = over(&self.join, sides.0, sides.1)?;
            let plan: Plan = match self.level + 1 < MOST_LEVELS {
                true => Arc::new(GraceHashJoinExec::of(&join, self.level + 1)?),
                false => Arc::new(join),
            };
            Ok(Mutex::new(Some(plan)))
        });
        parts.collect()
    }
}

/// Collects each input by a task, in memory as long as there is enough for all.
async fn collect(
    inputs: Vec<(SendableRecordBatchStream, Dealer)>,
    context: &TaskContext,
) -> Result<Vec<Side>> {
    let is_full = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for (mut input, mut dealer) in inputs {
        // Pools count what each consumer has, not what several tasks of one have together.
        let consumer = MemoryConsumer::new("HashJoinInput").with_can_spill(true);
        let reservation = consumer.register(context.memory_pool());
        let is_full = Arc::clone(&is_full);
        tasks.spawn(async move {
            let (mut batches, mut held) = (Vec::new(), RecordBatchMemoryCounter::new());
            let mut deals = false;
            while let Some(batch) = input.next().await.transpose()? {
                let bytes = held.count_batch(&batch) + ENTRY_BYTES * batch.num_rows();
                if is_full.load(Ordering::Relaxed) || reservation.try_grow(bytes).is_err() {
                    is_full.store(true, Ordering::Relaxed);
                    deals = true;
                    for batch in std::mem::take(&mut batches).iter().chain([&batch]) {
                        dealer.deal(batch)?;
                    }
                    reservation.free();
                    held = RecordBatchMemoryCounter::new();
                } else {
                    batches.push(batch);
                }
            }
            match deals {
                true => dealer.finish().map(Side::Dealt),
                false => Ok(Side::Memory(batches, reservation)),
            }
        });
    }
    all(tasks).await
}

/// The outcomes of all tasks.
async fn all<T: Send + 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut outcomes = Vec::new();
    while let Some(outcome) = tasks.join_next().await {
        outcomes.push(outcome.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))??);
    }
    Ok(outcomes)
}

impl DisplayAs for GraceHashJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_as(self.name(), &self.join, format, f)
    }
}

impl ExecutionPlan for GraceHashJoinExec {
    fn name(&self) -> &str {
        "GraceHashJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![
            Distribution::UnspecifiedDistribution,
            Distribution::UnspecifiedDistribution,
        ])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
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

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let [left, right] = children.as_slice() else {
            return internal_err!("a join has two inputs, not {}", children.len());
        };
        let join = over(&self.join, Arc::clone(left), Arc::clone(right))?;
        Ok(Arc::new(Self::of(&join, self.level)?))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        let running = self.execution.join(partitions, || self.begin(&context))?;
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let join_schema = self.schema();
        let rows = async move {
            let collected = running.0.clone().await.map_err(DataFusionError::Shared)?;
            match collected.as_ref() {
                Collected::Fits(join) => join.execute(partition, context),
                Collected::Parts(parts) => {
                    // One after the other.
                    let mine = parts.iter().skip(partition).step_by(partitions);
                    let mine: Vec<Plan> = mine.filter_map(|part| part.lock().take()).collect();
                    let schema = join_schema;
                    let joined = stream::iter(mine)
                        .map(move |join| join.execute(0, Arc::clone(&context)))
                        .try_flatten();
                    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, joined)) as _)
                }
            }
        };
        let rows = stream::once(rows).try_flatten().inspect_ok(move |batch| {
            baseline.record_output(batch.num_rows());
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
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
}
