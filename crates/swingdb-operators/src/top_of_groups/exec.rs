//! The operator: [`TopOfGroupsExec`].

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};

use super::leaders::Leaders;

type Plan = Arc<dyn ExecutionPlan>;

/// Rows after which it is asked again whether leaving rows out pays.
const TRIAL_ROWS: usize = 1 << 18;
/// Rows after which groups must have more than they may keep. Before that no row can be left out.
const PATIENCE_ROWS: usize = 1 << 22;

/// Leaves out rows that are not among the first of their group. See the
/// [module documentation](crate::top_of_groups).
#[derive(Debug)]
pub struct TopOfGroupsExec {
    input: Plan,
    groups: Vec<PhysicalExprRef>,
    order: Vec<PhysicalSortExpr>,
    fetch: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl TopOfGroupsExec {
    /// Keeps at least the first `fetch` rows, by `order`, of each group that has equal `groups`.
    pub fn new(
        input: Plan,
        groups: Vec<PhysicalExprRef>,
        order: Vec<PhysicalSortExpr>,
        fetch: usize,
    ) -> Self {
        Self { input, groups, order, fetch, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// What rows of one group have in common.
    pub fn groups(&self) -> &[PhysicalExprRef] {
        &self.groups
    }

    /// By which rows of a group are the first.
    pub fn order(&self) -> &[PhysicalSortExpr] {
        &self.order
    }

    /// How many rows of each group are asked for.
    pub fn rows_of_group(&self) -> usize {
        self.fetch
    }
}

impl DisplayAs for TopOfGroupsExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |parts: Vec<String>| parts.join(", ");
        let groups = list(self.groups.iter().map(ToString::to_string).collect());
        let order = list(self.order.iter().map(ToString::to_string).collect());
        write!(f, "TopOfGroupsExec: fetch={}, groups=[{groups}], order=[{order}]", self.fetch)
    }
}

impl ExecutionPlan for TopOfGroupsExec {
    fn name(&self) -> &str {
        "TopOfGroupsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for part in self.groups.iter().chain(self.order.iter().map(|order| &order.expr)) {
            recursion = f(part)?;
            if recursion == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(recursion)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let [input] = <[Plan; 1]>::try_from(children).or_else(|children| {
            internal_err!("{} has one input, not {}", self.name(), children.len())
        })?;
        Ok(Arc::new(Self::new(input, self.groups.clone(), self.order.clone(), self.fetch)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let rows = self.input.execute(partition, Arc::clone(&context))?;
        let sieve = Sieve::try_new(self, &schema, &context)?;
        let batch_rows = context.session_config().batch_size().max(1);
        let stream = Thinned {
            rows,
            sieve: Some(sieve),
            gathered: BatchCoalescer::new(Arc::clone(&schema), batch_rows)
                .with_biggest_coalesce_batch_size(Some(batch_rows / 2)),
            ended: false,
            baseline: BaselineMetrics::new(&self.metrics, partition),
            left_out: MetricBuilder::new(&self.metrics).counter("rows_left_out", partition),
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.batches())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::clone(&inputs[0]).to_inexact()))
    }
}

/// Decides which rows may be among the first of their groups.
struct Sieve {
    groups: Vec<PhysicalExprRef>,
    order: Vec<PhysicalExprRef>,
    values: Box<dyn GroupValues>,
    converter: RowConverter,
    fetch: usize,
    /// Made when the length of a key is known.
    leaders: Option<Leaders>,
    numbers: Vec<usize>,
    /// Rows since it was asked last whether it pays, and how many of them were kept.
    seen: usize,
    kept: usize,
    all: usize,
    reservation: MemoryReservation,
}

impl Sieve {
    fn try_new(of: &TopOfGroupsExec, input: &SchemaRef, context: &TaskContext) -> Result<Self> {
        let field = |(at, part): (usize, &PhysicalExprRef)| {
            Ok(Field::new(format!("{at}"), part.data_type(input)?, part.nullable(input)?))
        };
        let fields = of.groups.iter().enumerate().map(field).collect::<Result<Vec<_>>>()?;
        let key = |order: &PhysicalSortExpr| {
            Ok(SortField::new_with_options(order.expr.data_type(input)?, order.options))
        };
        let keys = of.order.iter().map(key).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            groups: of.groups.clone(),
            order: of.order.iter().map(|order| Arc::clone(&order.expr)).collect(),
            values: new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)?,
            converter: RowConverter::new(keys)?,
            fetch: of.fetch,
            leaders: None,
            numbers: Vec::new(),
            seen: 0,
            kept: 0,
            all: 0,
            reservation: MemoryConsumer::new("TopOfGroups").register(context.memory_pool()),
        })
    }

    /// The rows of a batch to keep; `None` when it is not worth asking any more.
    fn keep(&mut self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let groups = evaluate_expressions_to_arrays(&self.groups, batch)?;
        let order: Vec<ArrayRef> = evaluate_expressions_to_arrays(&self.order, batch)?;
        self.values.intern(&groups, &mut self.numbers)?;
        let keys = self.converter.convert_columns(&order)?;
        let width = keys.row(0).as_ref().len();
        let leaders = self.leaders.get_or_insert_with(|| Leaders::new(self.fetch, width));
        leaders.reserve(self.values.len());
        let bytes = leaders.bytes() + self.values.size();
        if self.reservation.try_resize(bytes).is_err() {
            return Ok(None);
        }
        let numbers = &self.numbers;
        let found = BooleanBuffer::collect_bool(batch.num_rows(), |row| {
            leaders.offer(numbers[row], keys.row(row).as_ref())
        });
        self.seen += batch.num_rows();
        self.kept += found.count_set_bits();
        if self.seen >= TRIAL_ROWS {
            self.all += self.seen;
            let is_full = self.all > 2 * self.fetch * self.values.len();
            let pays = match is_full {
                true => self.kept < self.seen / 4 * 3,
                false => self.all < PATIENCE_ROWS,
            };
            (self.seen, self.kept) = (0, 0);
            if !pays {
                return Ok(None);
            }
        }
        Ok(Some(BooleanArray::new(found, None)))
    }
}

/// The rows of one partition.
struct Thinned {
    rows: SendableRecordBatchStream,
    /// `None`: all rows are let through.
    sieve: Option<Sieve>,
    gathered: BatchCoalescer,
    ended: bool,
    baseline: BaselineMetrics,
    left_out: Count,
}

impl Thinned {
    fn batches(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        futures::stream::try_unfold(self, |mut thinned| async move {
            let batch = thinned.next().await?;
            let batch = batch.map(|batch| batch.record_output(&thinned.baseline));
            Ok(batch.map(|batch| (batch, thinned)))
        })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.gathered.next_completed_batch() {
                return Ok(Some(batch));
            }
            if self.ended {
                return Ok(None);
            }
            let Some(batch) = self.rows.next().await.transpose()? else {
                self.ended = true;
                self.sieve = None;
                self.gathered.finish_buffered_batch()?;
                continue;
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let time = self.baseline.elapsed_compute().clone();
            let _timer = time.timer();
            let kept = match &mut self.sieve {
                Some(sieve) => sieve.keep(&batch)?,
                None => None,
            };
            match kept {
                Some(kept) => {
                    self.left_out.add(kept.len() - kept.true_count());
                    self.gathered.push_batch_with_filter(batch, &kept)?;
                }
                None => {
                    self.sieve = None;
                    self.gathered.push_batch(batch)?;
                }
            }
        }
    }
}
