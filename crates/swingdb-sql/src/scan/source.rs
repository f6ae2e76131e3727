//! Reading the segments of a table: [`SwingSource`].
//!
//! The rows are cut into morsels (a part of a segment). The partitions of a scan take morsels from
//! one counter, so a partition whose morsels are cheap, or whose consumer is fast, takes more of
//! them. The counter only grows: every partition sees the rows in table order, which makes a
//! declared order hold in each. Where the order of all rows matters, each morsel is a partition
//! instead ([`SwingSource::in_order`]). Where rows with one value of a column that the table is
//! sorted by must be in one partition, morsels end where the value changes, and what is left of a
//! value in the next segment is taken with them ([`SwingSource::with_whole_keys`]).
//!
//! Before a morsel is read, the conditions that became known meanwhile decide whether its segment
//! can matter at all (see [`pruning`](crate::scan::pruning)). What of the segment is still in
//! the store on a disk is read by parallel scans ahead of the morsels (see [`disk`](super::disk)).
//!
//! Of a segment that is sorted by a column, only the rows that conditions on it leave are looked at
//! (see [`narrow`](crate::scan::narrow)). Batches are views of the segment's memory, [`BATCH_ROWS`]
//! long, or longer where nothing works on them (see
//! [`result_batches`](crate::physical::result_batches)). Rows that a condition rules out are left
//! out (see [`filter`](super::filter)); only what is left of such batches is copied.
//!
//! **Cycle.** A scan, its stream and what it reads ahead share the state of one scan.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::make_comparator;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterTracking};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::projection::{all_alias_free_columns, new_projections_for_columns};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, SortOrderPushdownResult};
use swingdb_store::{SEGMENT_ROWS, Segment, Table};

use crate::options::BATCH_ROWS;
use crate::scan::disk::{Beside, DiskReads, OnDisk};
use crate::scan::hidden::HiddenColumns;
use crate::scan::statistics;
use crate::scan::stream::{ScanStream, Shared};

/// Morsels a partition should find, so that the last ones even out.
const MORSELS_PER_PARTITION: usize = 8;

/// A scan of some segments of one version of a table.
#[derive(Clone, Debug)]
pub(crate) struct SwingSource {
    pub(super) table: Arc<Table>,
    /// The table's columns, and behind them the hidden ones that were asked for.
    pub(super) table_schema: SchemaRef,
    /// Segments to read, with their places in the table, in reading order.
    pub(super) segments: Arc<[(u32, Arc<Segment>)]>,
    /// The rows of each segment to look at, where some can be left out.
    ranges: Option<Arc<[Range<usize>]>>,
    /// Columns of `table_schema` to emit.
    pub(super) projection: Arc<[usize]>,
    pub(crate) schema: SchemaRef,
    pub(super) partitions: usize,
    pub(super) limit: Option<usize>,
    /// Rows of a batch, at most.
    pub(super) batch_rows: usize,
    /// What holds for every row returned, in terms of `table_schema`, in the order to look at.
    pub(super) conditions: Arc<[Arc<dyn PhysicalExpr>]>,
    /// Share of the rows that are expected to fulfil them.
    pub(super) share: f64,
    /// Conditions on `table_schema` that become known while the query runs.
    pub(super) filters: Arc<[Arc<dyn PhysicalExpr>]>,
    pub(super) orderings: Vec<LexOrdering>,
    /// For each segment of the table, how many rows are stored before it; where places are asked
    /// for.
    pub(super) rows_before: Arc<[i64]>,
    /// What each partition reads, if that is settled before the scan runs.
    pub(super) parts: Option<Arc<[Morsel]>>,
    /// Morsels that are taken together, where a value of a column must be in one partition.
    pub(super) whole: Option<Whole>,
    /// Segments ruled out at planning.
    pub(super) pruned: usize,
    /// What of it is on a disk only, when planning has looked at that.
    on_disk: Arc<OnceLock<OnDisk>>,
    /// Rows dealt with so far, for progress reports.
    pub(super) done: Arc<AtomicU64>,
    pub(super) metrics: ExecutionPlanMetricsSet,
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
        let rows_before = match HiddenColumns::of_schema(&table_schema, &table).places {
            true => rows_before(&table)?,
            false => Vec::new(),
        };
        Ok(Self {
            rows_before: rows_before.into(),
            table,
            table_schema,
            segments: segments.into(),
            ranges: None,
            projection: projection.into(),
            schema,
            partitions: partitions.min(rows.div_ceil(BATCH_ROWS)).max(1),
            limit: None,
            batch_rows: BATCH_ROWS,
            conditions: Arc::new([]),
            share: 1.0,
            filters: Arc::new([]),
            orderings,
            parts: None,
            whole: None,
            pruned: 0,
            on_disk: Arc::default(),
            done: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Looks at these rows of each segment only: no other fulfils the conditions.
    pub(crate) fn with_ranges(mut self, ranges: Option<Vec<Range<usize>>>) -> Self {
        self.ranges = ranges.map(Arc::from);
        self.partitions = self.partitions.min(self.rows().div_ceil(BATCH_ROWS)).max(1);
        self
    }

    /// Bytes of a row, on average; 0 where all columns are of one width, which is small.
    pub(crate) fn bytes_of_row(&self) -> usize {
        if self.schema.fields().iter().all(|field| field.data_type().primitive_width().is_some()) {
            return 0;
        }
        let rows: usize = self.segments.iter().map(|(_, segment)| segment.rows()).sum();
        let bytes: u64 = self.segments.iter().map(|(_, segment)| segment.bytes()).sum();
        bytes as usize / rows.max(1)
    }

    /// Stops after about `limit` rows.
    pub(crate) fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }

    /// Gives batches of up to so many rows, where the settings of a run allow that.
    pub(crate) fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows;
        self
    }

    /// Tells how many segments planning has ruled out.
    pub(crate) fn with_pruned(mut self, pruned: usize) -> Self {
        self.pruned = pruned;
        self
    }

    /// Returns only rows that fulfil all of `conditions`, which name columns of the table: a
    /// `share` of them, as far as can be told.
    pub(crate) fn with_conditions(
        mut self,
        conditions: Vec<Arc<dyn PhysicalExpr>>,
        share: f64,
    ) -> Self {
        self.conditions = conditions.into();
        self.share = share;
        self
    }

    /// The same scan with a partition for each morsel: their rows, one partition after the other,
    /// are in the order of the table.
    pub(crate) fn in_order(&self) -> Self {
        let mut source = self.clone();
        source.parts = Some(self.cut_into_morsels().into());
        source
    }

    /// The same scan, if no two of its partitions can have rows with one value of a column that it
    /// returns: for a column that the table is sorted by, and that is in memory.
    pub(crate) fn with_whole_keys(&self, returned: usize) -> Result<Option<Self>> {
        let column = self.projection[returned];
        let is_known = |of: &LexOrdering| {
            let first = of.first().expr.downcast_ref::<Column>();
            first.is_some_and(|first| first.index() == returned)
        };
        if self.whole.as_ref().is_some_and(|whole| whole.column == column) {
            return Ok(Some(self.clone()));
        }
        // Zeros of both signs are one group, but not one value.
        if column >= self.table.columns().len()
            || self.schema.field(returned).data_type().is_floating()
            || !self.orderings.iter().any(is_known)
            || self.limit.is_some()
            || self.parts.is_some()
            || self.whole.is_some()
            || self.segments.iter().any(|(_, segment)| segment.cold_bytes(&[column]) != (0, 0))
        {
            return Ok(None);
        }
        let mut source = self.clone();
        source.whole = Some(self.cut_between_values(column)?);
        Ok(Some(source))
    }

    /// Notes for those who read the plan what of it is on a disk only, and which aggregates its
    /// partitions compute.
    pub(crate) fn note_on_disk(&self, beside: Option<&Beside>) {
        if self.table.is_in_memory() {
            return;
        }
        if let Some(on_disk) = OnDisk::of(self, beside.cloned()) {
            // A scan that two operators share has the first note.
            let _ = self.on_disk.set(on_disk);
        }
    }

    fn partitions(&self) -> usize {
        self.parts.as_ref().map_or(self.partitions, |parts| parts.len())
    }

    fn rows(&self) -> usize {
        (0..self.segments.len()).map(|place| self.range(place).len()).sum()
    }

    /// The rows of a segment to look at.
    fn range(&self, place: usize) -> Range<usize> {
        match &self.ranges {
            Some(ranges) => ranges[place].clone(),
            None => 0..self.segments[place].1.rows(),
        }
    }

    /// The same scan with other columns.
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

    /// A condition on what the scan returns as one on the table.
    fn in_table(&self, filter: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let translated = filter.transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            let index = self.projection[column.index()];
            let name = self.table_schema.field(index).name();
            Ok(Transformed::yes(Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>))
        });
        Ok(translated?.data)
    }

    fn cut_into_morsels(&self) -> Vec<Morsel> {
        let share = self.rows() / (self.partitions * MORSELS_PER_PARTITION);
        let length = share.next_multiple_of(BATCH_ROWS).clamp(BATCH_ROWS, SEGMENT_ROWS);
        let mut morsels = Vec::new();
        for place in 0..self.segments.len() {
            let rows = self.range(place);
            for start in rows.clone().step_by(length) {
                let end = (start + length).min(rows.end);
                morsels.push(Morsel { place, rows: start..end });
            }
        }
        morsels
    }
}

impl SwingSource {
    /// Morsels that end where the value of a column changes.
    fn cut_between_values(&self, column: usize) -> Result<Whole> {
        let mut morsels: Vec<Morsel> = Vec::new();
        let mut ends = Vec::new();
        for Morsel { place, rows } in self.cut_into_morsels() {
            let same = match morsels.last() {
                Some(before) => self.rows_like_last(before, place, &rows, column)?,
                None => 0,
            };
            let middle = rows.start + same;
            if same > 0 {
                morsels.push(Morsel { place, rows: rows.start..middle });
            }
            if middle < rows.end {
                ends.push(morsels.len());
                morsels.push(Morsel { place, rows: middle..rows.end });
            }
        }
        ends.push(morsels.len());
        // The first one ends where the second begins.
        ends.remove(0);
        Ok(Whole { column, morsels: morsels.into(), ends: ends.into() })
    }

    /// How many of the first of some rows have the value of the last row of a morsel.
    fn rows_like_last(
        &self,
        before: &Morsel,
        place: usize,
        rows: &Range<usize>,
        column: usize,
    ) -> Result<usize> {
        let last = before.rows.end - 1;
        let value = self.segments[before.place].1.slice(column, last..before.rows.end)?;
        let (mut from, mut length) = (rows.start, 16);
        while from < rows.end {
            let until = rows.end.min(from + length);
            let next = self.segments[place].1.slice(column, from..until)?;
            let compare = make_comparator(&value, &next, SortOptions::default())?;
            if let Some(other) = (0..next.len()).find(|&at| compare(0, at).is_ne()) {
                return Ok(from + other - rows.start);
            }
            (from, length) = (until, length * 4);
        }
        Ok(rows.len())
    }
}

/// For each segment of a table, the rows of those before it. Deleted rows count: a deletion does
/// not change the places of the rows behind it.
fn rows_before(table: &Table) -> Result<Vec<i64>> {
    let mut before = 0;
    let segments = table.segments()?;
    let starts = segments.iter().map(|segment| {
        let start = before;
        before += segment.rows() as i64;
        start
    });
    Ok(starts.collect())
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
pub(crate) struct Morsel {
    /// Index into the scan's segments.
    pub(super) place: usize,
    pub(super) rows: Range<usize>,
}

/// Morsels of which some are taken together, so that each value of a column is in one partition.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// The column of the table.
    column: usize,
    morsels: Arc<[Morsel]>,
    /// Where those that are taken together end.
    pub(super) ends: Arc<[usize]>,
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
            morsels: match (&self.parts, &self.whole) {
                (Some(parts), _) => Arc::clone(parts),
                (None, Some(whole)) => Arc::clone(&whole.morsels),
                (None, None) => self.cut_into_morsels().into(),
            },
            ends: self.whole.as_ref().map(|whole| Arc::clone(&whole.ends)),
            next: AtomicUsize::new(0),
            emitted: AtomicUsize::new(0),
            disk: DiskReads::new(self),
        }))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let shared = args.sibling_state.and_then(|state| state.downcast::<Shared>().ok());
        let Some(shared) = shared else {
            return self.open(args.partition, args.context);
        };
        Ok(Box::pin(cooperative(ScanStream::new(
            self.clone(),
            shared,
            args.partition,
            args.context.session_config().batch_size(),
        )?)))
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
        if self.ranges.is_some() {
            write!(f, ", rows={}", self.rows())?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", fetch={limit}")?;
        }
        if let Some(ordering) = self.orderings.first() {
            write!(f, ", output_ordering=[{ordering}]")?;
        }
        if let Some(whole) = &self.whole {
            let name = self.table_schema.field(whole.column).name();
            write!(f, ", whole_groups_of=[{name}]")?;
        }
        for (nth, condition) in self.conditions.iter().enumerate() {
            write!(f, "{}{condition}", if nth == 0 { ", predicate=" } else { " AND " })?;
        }
        for filter in self.filters.iter() {
            write!(f, ", filter={filter}")?;
        }
        self.on_disk.get().map_or(Ok(()), |on_disk| write!(f, ", {on_disk}"))
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions())
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
        if !self.conditions.is_empty() {
            all = statistics::scaled(all, self.share);
        }
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
            all.num_rows = Precision::Inexact(rows / self.partitions());
        }
        if !self.filters.is_empty() {
            all = all.to_inexact();
        }
        Ok(Arc::new(all))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        // The first rows of the table, not the first that fulfil what becomes known later.
        if limit.is_some() && !self.filters.is_empty() {
            return None;
        }
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
        if !all_alias_free_columns(&exprs) {
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
        // Of the first rows none may be left out: rows behind them would take their places.
        if self.limit.is_some() {
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(answer));
        }
        let mut kept = self.filters.to_vec();
        let known = kept.len();
        // Conditions known at planning have already ruled out what they can.
        for filter in filters {
            if DynamicFilterTracking::classify(&filter).contains_dynamic_filter() {
                kept.push(self.in_table(filter)?);
            }
        }
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
        // Which rows are the first ones is a matter of the table's order.
        if column >= self.table.columns().len() || self.limit.is_some() || self.whole.is_some() {
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
        source.ranges = None;
        source.orderings = Vec::new();
        Ok(SortOrderPushdownResult::Inexact { inner: Arc::new(source) })
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for filter in self.conditions.iter().chain(self.filters.iter()) {
            recursion = f(filter)?;
            if recursion == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(recursion)
    }
}

/// The table scan a plan node is, if it is one.
pub(crate) fn as_scan(plan: &dyn ExecutionPlan) -> Option<&SwingSource> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<SwingSource>()
}

/// Rows the table scans of a plan will deal with; `None` when it reads anything else.
pub fn rows_to_scan(plan: &dyn ExecutionPlan) -> Option<u64> {
    if let Some(source) = as_scan(plan) {
        return Some(source.rows() as u64);
    }
    if plan.is::<DataSourceExec>() {
        return None;
    }
    plan.children().into_iter().map(|child| rows_to_scan(child.as_ref())).sum()
}

/// Rows the table scans of a running plan have dealt with.
pub fn rows_scanned(plan: &dyn ExecutionPlan) -> u64 {
    let own = as_scan(plan).map_or(0, |source| source.done.load(Ordering::Relaxed));
    own + plan.children().into_iter().map(|c| rows_scanned(c.as_ref())).sum::<u64>()
}
