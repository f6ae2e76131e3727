//! One partition of a running scan: [`ScanStream`].
//!
//! **Pauses.** A scan whose conditions drop all rows computes without end as far as its task is
//! concerned, and one that waited for the table of a join may be woken together with others. Tokio
//! puts the last task that is woken where no other thread takes it from, until the running one
//! pauses. So each partition pauses before its first morsel, and after some morsels that gave
//! nothing: others get the thread, and a query that was ended ends.
//!
//! **Cycle.** A scan, its stream and what it reads ahead share the state of one scan.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::RecordBatchStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, MetricBuilder};
use futures::Stream;
use swingdb_store::{RowId, Segment};

use crate::scan::disk::DiskReads;
use crate::scan::filter::RowFilter;
use crate::scan::hidden::PLACE_COLUMN;
use crate::scan::pruning::DynamicPruner;
use crate::scan::source::{Morsel, SwingSource};

/// So many morsels without a batch are read before the thread is offered to others.
const MORSELS_AT_A_TIME: usize = 8;

/// What the partitions of one run share.
pub(crate) struct Shared {
    pub(crate) morsels: Arc<[Morsel]>,
    /// Where the morsels that are taken together end; each is taken by itself if it is `None`.
    pub(crate) ends: Option<Arc<[usize]>>,
    /// How often morsels have been taken.
    pub(crate) next: AtomicUsize,
    pub(crate) emitted: AtomicUsize,
    pub(crate) disk: DiskReads,
}

impl Shared {
    /// The numbers of the morsels to take next; an empty range behind the last ones.
    fn take(&self) -> Range<usize> {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        match &self.ends {
            None => nth..self.morsels.len().min(nth + 1),
            Some(ends) => {
                let end = |nth: usize| ends.get(nth).copied().unwrap_or(self.morsels.len());
                nth.checked_sub(1).map_or(0, end)..end(nth)
            }
        }
    }
}

/// See the [module documentation](self).
pub(crate) struct ScanStream {
    source: SwingSource,
    shared: Arc<Shared>,
    pruner: DynamicPruner,
    filter: RowFilter,
    /// Gathers what is left of filtered batches.
    gathered: BatchCoalescer,
    /// Rows of a batch, at most.
    batch_rows: usize,
    /// Whether each partition has one morsel of its own.
    is_settled: bool,
    /// The numbers of the morsels taken that are not begun.
    taken: Range<usize>,
    /// What is left of the morsel in hand, or of a part of it.
    morsel: Morsel,
    /// The other parts of it.
    parts: std::vec::IntoIter<Range<usize>>,
    /// Rows this partition has emitted.
    emitted: usize,
    ended: bool,
    /// Morsels to take before the next pause.
    until_pause: usize,
    baseline: BaselineMetrics,
    /// Partitions that have read a morsel.
    readers: Count,
    morsels_read: Count,
    morsels_pruned: Count,
    rows_pruned: Count,
    rows_filtered: Count,
    bytes_scanned: Count,
}

impl ScanStream {
    pub(crate) fn new(
        source: SwingSource,
        shared: Arc<Shared>,
        partition: usize,
        batch_rows: usize,
    ) -> Result<Self> {
        let counter = |name| MetricBuilder::new(&source.metrics).counter(name, partition);
        let limit = source.limit.unwrap_or(usize::MAX).max(1);
        let batch_rows = batch_rows.min(source.batch_rows);
        let target = batch_rows.min(limit);
        let gathered = BatchCoalescer::new(Arc::clone(&source.schema), target);
        Ok(Self {
            pruner: DynamicPruner::new(&source.filters, Arc::clone(&source.table_schema)),
            filter: RowFilter::new(&source.conditions, &source.filters, &source.table_schema)?,
            gathered: gathered.with_biggest_coalesce_batch_size(Some(target / 2)),
            is_settled: source.parts.is_some(),
            batch_rows,
            taken: if source.parts.is_some() { partition..partition + 1 } else { 0..0 },
            morsel: Morsel { place: 0, rows: 0..0 },
            parts: Vec::new().into_iter(),
            emitted: 0,
            ended: false,
            // One morsel is soon read.
            until_pause: if shared.morsels.len() > 1 { 0 } else { MORSELS_AT_A_TIME },
            baseline: BaselineMetrics::new(&source.metrics, partition),
            readers: counter("readers"),
            morsels_read: counter("morsels_read"),
            morsels_pruned: counter("morsels_pruned"),
            rows_pruned: counter("rows_pruned"),
            rows_filtered: counter("rows_filtered"),
            bytes_scanned: counter("bytes_scanned"),
            source,
            shared,
        })
    }

    /// Takes the next part of a morsel that may matter, with its columns in memory; `false` when
    /// there is none.
    fn take_part(&mut self) -> Result<bool> {
        loop {
            if let Some(rows) = self.parts.next() {
                self.morsel.rows = rows;
                return Ok(true);
            }
            if !self.take_morsel()? {
                return Ok(false);
            }
            let (_, segment) = &self.source.segments[self.morsel.place];
            self.filter.enter(segment)?;
            let rows = self.morsel.rows.clone();
            let Some(parts) = self.filter.parts(segment, &rows, self.batch_rows)? else {
                return Ok(true);
            };
            self.rows_pruned.add(rows.len() - parts.iter().map(Range::len).sum::<usize>());
            self.parts = parts.into_iter();
        }
    }

    /// Takes the next morsel that may matter, with its columns in memory; `false` when there is
    /// none.
    fn take_morsel(&mut self) -> Result<bool> {
        loop {
            if self.taken.is_empty() && !self.is_settled {
                self.taken = self.shared.take();
            }
            let number = self.taken.next();
            let Some(morsel) = number.and_then(|number| self.shared.morsels.get(number)) else {
                self.shared.disk.note_done();
                return Ok(false);
            };
            self.source.done.fetch_add(morsel.rows.len() as u64, Ordering::Relaxed);
            let (_, segment) = &self.source.segments[morsel.place];
            if self.pruner.keeps(segment) {
                self.readers.add(usize::from(self.morsels_read.value() == 0));
                self.morsels_read.add(1);
                self.until_pause = self.until_pause.saturating_sub(1);
                self.morsel = morsel.clone();
                let matters = |segment: &Arc<Segment>| self.pruner.keeps(segment);
                self.shared.disk.prepare(morsel.place, matters)?;
                return Ok(true);
            }
            self.morsels_pruned.add(1);
        }
    }

    fn limit_reached(&self) -> bool {
        let Some(limit) = self.source.limit else { return false };
        // Where there is an order, somebody may need the first rows of each partition.
        let emitted = match self.source.orderings.is_empty() && !self.is_settled {
            true => self.shared.emitted.load(Ordering::Relaxed),
            false => self.emitted,
        };
        emitted >= limit
    }

    fn count(&mut self, rows: usize) {
        self.emitted += rows;
        self.shared.emitted.fetch_add(rows, Ordering::Relaxed);
        self.shared.disk.note_rows(rows);
    }

    /// The next batch, `None` behind the last one; pending for a pause.
    fn next_batch(&mut self) -> Result<Poll<Option<RecordBatch>>> {
        loop {
            if let Some(batch) = self.gathered.next_completed_batch() {
                return Ok(Poll::Ready(Some(batch)));
            }
            if self.ended {
                return Ok(Poll::Ready(None));
            }
            if self.until_pause == 0 {
                return Ok(Poll::Pending);
            }
            if self.limit_reached() || (self.morsel.rows.is_empty() && !self.take_part()?) {
                self.ended = true;
                self.gathered.finish_buffered_batch()?;
                continue;
            }
            let start = self.morsel.rows.start;
            let mut end = (start + self.batch_rows).min(self.morsel.rows.end);
            if let Some(limit) = self.source.limit
                && self.source.conditions.is_empty()
            {
                end = end.min(start + limit - self.emitted.min(limit - 1));
            }
            self.morsel.rows.start = end;
            if let Some(batch) = self.read(start..end)? {
                return Ok(Poll::Ready(Some(batch)));
            }
        }
    }

    /// The batch of these rows when all of them count; else what counts is gathered.
    fn read(&mut self, rows: Range<usize>) -> Result<Option<RecordBatch>> {
        let (index, segment) = &self.source.segments[self.morsel.place];
        let (index, segment) = (*index, Arc::clone(segment));
        let mut selected = live_rows(&segment, &rows);
        if !self.filter.is_empty() {
            self.filter.refresh()?;
            let source = &self.source;
            let column = |column: usize| column_of(source, &segment, index, column, rows.clone());
            selected = self.filter.select(selected, rows.len(), &column)?;
        }
        let mut count = selected.as_ref().map_or(rows.len(), BooleanBuffer::count_set_bits);
        self.rows_filtered.add(rows.len() - count);
        // Nobody above cuts off what is beyond the limit.
        let room = self.source.limit.map_or(usize::MAX, |limit| limit.saturating_sub(self.emitted));
        if count > room {
            selected = Some(first(selected, rows.len(), room));
            count = room;
        }
        if count == 0 {
            return Ok(None);
        }
        let columns = self.source.projection.iter();
        let columns = columns.map(|&c| column_of(&self.source, &segment, index, c, rows.clone()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let bytes = columns.iter().map(|c| c.get_buffer_memory_size()).sum();
        self.bytes_scanned.add(bytes);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let schema = Arc::clone(&self.source.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        self.count(count);
        match selected.filter(|_| count < rows.len()) {
            // The order of rows: nothing may overtake what has been gathered.
            None if self.gathered.is_empty() => return Ok(Some(batch)),
            None => self.gathered.push_batch(batch)?,
            Some(selected) => {
                let selected = BooleanArray::new(selected, None);
                self.gathered.push_batch_with_filter(batch, &selected)?;
            }
        }
        Ok(None)
    }
}

/// The first `count` of the selected rows.
fn first(selected: Option<BooleanBuffer>, rows: usize, count: usize) -> BooleanBuffer {
    let selected = selected.unwrap_or_else(|| BooleanBuffer::new_set(rows));
    let mut kept = vec![false; rows];
    selected.set_indices().take(count).for_each(|row| kept[row] = true);
    BooleanBuffer::from(kept)
}

/// The rows that are not deleted; `None` when none is.
fn live_rows(segment: &Segment, rows: &Range<usize>) -> Option<BooleanBuffer> {
    let deleted = segment.deleted()?.slice(rows.start, rows.len());
    (deleted.count_set_bits() > 0).then(|| !&deleted)
}

/// Rows of a column of a segment, which may be a hidden one.
fn column_of(
    source: &SwingSource,
    segment: &Segment,
    index: u32,
    column: usize,
    rows: Range<usize>,
) -> Result<ArrayRef> {
    if column < segment.columns() {
        return Ok(segment.slice(column, rows)?);
    }
    if source.table_schema.field(column).name() == PLACE_COLUMN {
        let before = source.rows_before[index as usize];
        let places = rows.map(|row| before + row as i64);
        return Ok(Arc::new(Int64Array::from_iter_values(places)));
    }
    let ids = rows.map(|row| RowId::new(index, row as u32).0);
    Ok(Arc::new(UInt64Array::from_iter_values(ids)))
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let timer = this.baseline.elapsed_compute().clone();
        let timer = timer.timer();
        let next = match this.next_batch() {
            Ok(next) => next.map(|batch| batch.map(Ok)),
            Err(error) => Poll::Ready(Some(Err(error))),
        };
        timer.done();
        this.until_pause = MORSELS_AT_A_TIME;
        if next.is_pending() {
            cx.waker().wake_by_ref();
        }
        this.baseline.record_poll(next)
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.source.schema)
    }
}
