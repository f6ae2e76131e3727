//! Reading the segments of a table: [`SwingSource`].
//!
//! The rows are cut into morsels (a part of a segment). The partitions of a scan take morsels from
//! one counter, so a partition whose morsels are cheap, or whose consumer is fast, takes more of
//! them. The counter only grows: every partition sees the rows in table order, which makes a
//! declared order hold in each.
//!
//! Before a morsel is read, the conditions that became known meanwhile decide whether its segment
//! can matter at all (see [`pruning`](crate::sql::pruning)). Batches are views of the segment's
//! memory, at most [`BATCH_ROWS`] long; only rows next to deleted ones are copied.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder,
};
use datafusion::physical_plan::projection::{all_alias_free_columns, new_projections_for_columns};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, SortOrderPushdownResult};
use futures::Stream;

use crate::sql::engine::BATCH_ROWS;
use crate::sql::pruning::DynamicPruner;
use crate::sql::statistics;
use crate::store::{RowId, SEGMENT_ROWS, Segment, Table};

/// Morsels a partition should find, so that the last ones even out.
const MORSELS_PER_PARTITION: usize = 8;

/// A scan of some segments of one version of a table.
#[derive(Clone, Debug)]
pub(crate) struct SwingSource {
    table: Arc<Table>,
    /// The table's columns, and the row id behind them when asked for.
    table_schema: SchemaRef,
    /// Segments to read, with their places in the table, in reading order.
    segments: Arc<[(u32, Arc<Segment>)]>,
    /// Columns of `table_schema` to emit.
    projection: Arc<[usize]>,
    schema: SchemaRef,
    partitions: usize,
    limit: Option<usize>,
    /// Conditions on `schema` that become known while the query runs.
    filters: Arc<[Arc<dyn PhysicalExpr>]>,
    orderings: Vec<LexOrdering>,
    /// Segments ruled out at planning.
    pruned: usize,
    /// Rows dealt with so far, for progress reports.
    done: Arc<AtomicU64>,
    metrics: ExecutionPlanMetricsSet,
}

impl SwingSource {
    /// Reads `projection` of `segments` on at most `partitions` partitions.
    pub(crate) fn try_new(
        table: Arc<Table>,
        table_schema: SchemaRef,
        segments: Vec<(u32, Arc<Segment>)>,
        projection: Vec<usize>,
        partitions: usize,
    ) -> Result<Self> {
        let rows = segments.iter().map(|(_, s)| s.rows()).sum::<usize>();
        let schema = Arc::new(statistics::project(&table_schema, &projection));
        let orderings = declared_orderings(&table, &schema, &projection)?;
        Ok(Self {
            table,
            table_schema,
            segments: segments.into(),
            projection: projection.into(),
            schema,
            partitions: partitions.min(rows.div_ceil(BATCH_ROWS)).max(1),
            limit: None,
            filters: Arc::new([]),
            orderings,
            pruned: 0,
            done: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Stops after about `limit` rows.
    pub(crate) fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    /// Tells how many segments planning has ruled out.
    pub(crate) fn with_pruned(mut self, pruned: usize) -> Self {
        self.pruned = pruned;
        self
    }

    fn rows(&self) -> usize {
        self.segments.iter().map(|(_, s)| s.rows()).sum()
    }

    /// The same scan with other columns. No conditions may be attached yet: they name columns.
    pub(crate) fn with_projection(&self, projection: Vec<usize>) -> Result<Self> {
        let schema = Arc::new(statistics::project(&self.table_schema, &projection));
        let keep_order = !self.orderings.is_empty();
        let orderings = match keep_order {
            true => declared_orderings(&self.table, &schema, &projection)?,
            false => Vec::new(),
        };
        let mut source = self.clone();
        source.projection = projection.into();
        source.schema = schema;
        source.orderings = orderings;
        Ok(source)
    }

    /// Whether conditions have been attached.
    pub(crate) fn has_filters(&self) -> bool {
        !self.filters.is_empty()
    }

    fn cut_into_morsels(&self) -> Vec<Morsel> {
        let share = self.rows() / (self.partitions * MORSELS_PER_PARTITION);
        let length = share.next_multiple_of(BATCH_ROWS).clamp(BATCH_ROWS, SEGMENT_ROWS);
        let mut morsels = Vec::new();
        for (place, (_, segment)) in self.segments.iter().enumerate() {
            for start in (0..segment.rows()).step_by(length) {
                let end = (start + length).min(segment.rows());
                morsels.push(Morsel { place, rows: start..end });
            }
        }
        morsels
    }
}

/// The orders a table is known to be in, as far as the projection shows them.
fn declared_orderings(
    table: &Table,
    schema: &SchemaRef,
    projection: &[usize],
) -> Result<Vec<LexOrdering>> {
    let mut orderings = Vec::new();
    for (out, &column) in projection.iter().enumerate() {
        if column < table.columns().len() && !table.stats(column)?.sorted {
            continue;
        }
        let column = Arc::new(Column::new(schema.field(out).name(), out));
        orderings.extend(LexOrdering::new([PhysicalSortExpr::new_default(column).nulls_last()]));
    }
    Ok(orderings)
}

/// Part of a segment.
#[derive(Clone, Debug)]
struct Morsel {
    /// Index into the scan's segments.
    place: usize,
    rows: Range<usize>,
}

/// What the partitions of one run share.
struct Shared {
    morsels: Vec<Morsel>,
    next: AtomicUsize,
    emitted: AtomicUsize,
}

impl DataSource for SwingSource {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let shared = self.create_sibling_state(context.session_config().options());
        self.open_with_args(OpenArgs::new(partition, context).with_shared_state(shared))
    }

    fn create_sibling_state(
        &self,
        _config: &ConfigOptions,
    ) -> Option<Arc<dyn std::any::Any + Send + Sync>> {
        Some(Arc::new(Shared {
            morsels: self.cut_into_morsels(),
            next: AtomicUsize::new(0),
            emitted: AtomicUsize::new(0),
        }))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let shared = args.sibling_state.and_then(|state| state.downcast::<Shared>().ok());
        let Some(shared) = shared else {
            return self.open(args.partition, args.context);
        };
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, args.partition);
        Ok(Box::pin(cooperative(ScanStream {
            source: self.clone(),
            shared,
            pruner: DynamicPruner::new(
                &self.filters,
                Arc::clone(&self.schema),
                Arc::clone(&self.table_schema),
            ),
            morsel: Morsel { place: 0, rows: 0..0 },
            emitted: 0,
            baseline: BaselineMetrics::new(&self.metrics, args.partition),
            morsels_read: counter("morsels_read"),
            morsels_pruned: counter("morsels_pruned"),
            bytes_scanned: counter("bytes_scanned"),
        })))
    }

    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = format!("{}.{}", self.table.schema_name(), self.table.name());
        let read = self.segments.len();
        let all = read + self.pruned;
        if matches!(t, DisplayFormatType::TreeRender) {
            writeln!(f, "table={table}")?;
            return writeln!(f, "segments={read} of {all}");
        }
        let names = self.schema.fields().iter().map(|field| field.name().as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        write!(f, "table={table}, segments={read} of {all}, projection=[{names}]")?;
        if let Some(limit) = self.limit {
            write!(f, ", fetch={limit}")?;
        }
        if let Some(ordering) = self.orderings.first() {
            write!(f, ", output_ordering=[{ordering}]")?;
        }
        for filter in self.filters.iter() {
            write!(f, ", filter={filter}")?;
        }
        Ok(())
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new_with_orderings(Arc::clone(&self.schema), self.orderings.clone())
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let whole = self.pruned == 0;
        let mut all = match whole {
            true => statistics::of_table(&self.table, &self.projection)?,
            false => statistics::of_segments(&self.table, &self.segments, &self.projection)?,
        };
        if let Some(limit) = self.limit
            && all.num_rows.get_value().is_some_and(|rows| *rows > limit)
        {
            all = all.to_inexact();
            all.num_rows = Precision::Inexact(limit);
        }
        if partition.is_some() {
            // Which rows a partition gets is decided while it runs.
            let rows = all.num_rows.get_value().copied().unwrap_or(0);
            all = all.to_inexact();
            all.num_rows = Precision::Inexact(rows / self.partitions);
        }
        if self.has_filters() {
            all = all.to_inexact();
        }
        Ok(Arc::new(all))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(self.clone().with_limit(limit)))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let exprs = projection.iter().cloned().collect::<Vec<_>>();
        if self.has_filters() || !all_alias_free_columns(&exprs) {
            return Ok(None);
        }
        let projection = new_projections_for_columns(&exprs, &self.projection);
        Ok(Some(Arc::new(self.with_projection(projection)?)))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        // The rows still pass a filter above: ours only decide what need not be read.
        let answer = vec![PushedDown::No; filters.len()];
        let mut kept = self.filters.to_vec();
        let known = kept.len();
        // Conditions known at planning have already ruled out what they can.
        kept.extend(
            filters
                .into_iter()
                .filter(|filter| DynamicFilterTracking::classify(filter).contains_dynamic_filter()),
        );
        let mut result = FilterPushdownPropagation::with_parent_pushdown_result(answer);
        if kept.len() > known {
            let mut source = self.clone();
            source.filters = kept.into();
            result.updated_node = Some(Arc::new(source) as Arc<dyn DataSource>);
        }
        Ok(result)
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn DataSource>>> {
        let first = order.first();
        let Some((first, column)) =
            first.and_then(|o| Some((o, o.expr.downcast_ref::<Column>()?.index())))
        else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let column = self.projection[column];
        if column >= self.table.columns().len() {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        // The most promising segments first: then the bound of the best rows so far soon rules out
        // all others.
        let mut segments = Vec::with_capacity(self.segments.len());
        for segment in self.segments.iter() {
            segments.push((segment.1.stats(column)?, segment.clone()));
        }
        segments.sort_by(|(a, _), (b, _)| {
            let order = match first.options.descending {
                true => b.max.partial_cmp(&a.max),
                false => a.min.partial_cmp(&b.min),
            };
            order.unwrap_or(std::cmp::Ordering::Equal)
        });
        let mut source = self.clone();
        source.segments = segments.into_iter().map(|(_, segment)| segment).collect();
        source.orderings = Vec::new();
        Ok(SortOrderPushdownResult::Inexact { inner: Arc::new(source) })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for filter in self.filters.iter() {
            recursion = f(filter)?;
            if recursion == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(recursion)
    }
}

/// One partition of a running scan.
struct ScanStream {
    source: SwingSource,
    shared: Arc<Shared>,
    pruner: DynamicPruner,
    /// What is left of the morsel in hand.
    morsel: Morsel,
    /// Rows this partition has emitted.
    emitted: usize,
    baseline: BaselineMetrics,
    morsels_read: Count,
    morsels_pruned: Count,
    bytes_scanned: Count,
}

impl ScanStream {
    /// Takes the next morsel that may matter; `false` when there is none.
    fn take_morsel(&mut self) -> bool {
        loop {
            let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(morsel) = self.shared.morsels.get(number) else { return false };
            self.source.done.fetch_add(morsel.rows.len() as u64, Ordering::Relaxed);
            let (_, segment) = &self.source.segments[morsel.place];
            if self.pruner.keeps(segment) {
                self.morsels_read.add(1);
                self.morsel = morsel.clone();
                return true;
            }
            self.morsels_pruned.add(1);
        }
    }

    fn limit_reached(&self) -> bool {
        let Some(limit) = self.source.limit else { return false };
        // Where an order is declared, somebody may merge the partitions and need the first rows of
        // each.
        let emitted = match self.source.orderings.is_empty() {
            true => self.shared.emitted.load(Ordering::Relaxed),
            false => self.emitted,
        };
        emitted >= limit
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.limit_reached() || (self.morsel.rows.is_empty() && !self.take_morsel()) {
                return Ok(None);
            }
            let start = self.morsel.rows.start;
            let mut end = (start + BATCH_ROWS).min(self.morsel.rows.end);
            if let Some(limit) = self.source.limit {
                end = end.min(start + limit - self.emitted.min(limit - 1));
            }
            self.morsel.rows.start = end;
            let batch = self.read(start..end)?;
            if batch.num_rows() > 0 {
                self.emitted += batch.num_rows();
                self.shared.emitted.fetch_add(batch.num_rows(), Ordering::Relaxed);
                return Ok(Some(batch));
            }
        }
    }

    fn read(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let (index, segment) = &self.source.segments[self.morsel.place];
        let columns = self.source.projection.iter().map(|&column| {
            if column < segment.columns() {
                Ok(segment.slice(column, rows.clone())?)
            } else {
                Ok(row_ids(*index, rows.clone()))
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let bytes = columns.iter().map(|c| c.get_buffer_memory_size()).sum();
        self.bytes_scanned.add(bytes);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let schema = Arc::clone(&self.source.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let Some(deleted) = segment.deleted() else { return Ok(batch) };
        let deleted = deleted.slice(rows.start, rows.len());
        match deleted.count_set_bits() {
            0 => Ok(batch),
            _ => Ok(filter_record_batch(&batch, &BooleanArray::new(!&deleted, None))?),
        }
    }
}

fn row_ids(segment: u32, rows: Range<usize>) -> ArrayRef {
    let ids = rows.map(|row| RowId::new(segment, row as u32).0);
    Arc::new(UInt64Array::from_iter_values(ids))
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let timer = this.baseline.elapsed_compute().clone();
        let timer = timer.timer();
        let next = this.next_batch().transpose();
        timer.done();
        this.baseline.record_poll(Poll::Ready(next))
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.source.schema)
    }
}

/// The table scan a plan node is, if it is one.
pub(crate) fn as_scan(plan: &dyn ExecutionPlan) -> Option<&SwingSource> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<SwingSource>()
}

/// Rows the table scans of a plan will deal with; `None` when it reads anything else.
pub(crate) fn rows_to_scan(plan: &dyn ExecutionPlan) -> Option<u64> {
    if let Some(source) = as_scan(plan) {
        return Some(source.rows() as u64);
    }
    if plan.is::<DataSourceExec>() {
        return None;
    }
    plan.children().into_iter().map(|child| rows_to_scan(child.as_ref())).sum()
}

/// Rows the table scans of a running plan have dealt with.
pub(crate) fn rows_scanned(plan: &dyn ExecutionPlan) -> u64 {
    let own = as_scan(plan).map_or(0, |source| source.done.load(Ordering::Relaxed));
    own + plan.children().into_iter().map(|c| rows_scanned(c.as_ref())).sum::<u64>()
}
