//! Columns that are still in the store on a disk, read ahead of the morsels: [`DiskReads`].
//!
//! The segments of a scan are taken in windows of some 32 MiB on the disk. Each window
//! is read by one parallel scan of the log, with one single-domain scan a domain of the device
//! (Fan, Lai, Meng, Chinese Journal of Computers 2012), or as many requests in flight as suit it.
//! All partitions take part in it: who waits for his segment copies or decodes what arrives for
//! others. While
//! one window is worked on, the next one is begun.
//!
//! EXPLAIN ANALYZE shows it in the metrics of the scan: `disk_bytes`, `disk_requests`,
//! `disk_depth`, `disk_domains`, `disk_buffer_bytes` and `disk_mb_per_s` (of 10^6 bytes).
//! `disk_rows_beside` are the rows that the operators above have got while the disk was at work.
//! [`OnDisk`] is what the plan says of it before it runs.
//!
//! **Cycle.** A scan, its stream and what it reads ahead share the state of one scan.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use datafusion::common::Result;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use parking_lot::Mutex;
use swingdb_store::{ReadAhead, Segment};

use crate::scan::source::SwingSource;

/// Bytes on the disk that are read together.
const WINDOW_BYTES: u64 = 32 << 20;
/// Bytes in memory that are filled together: of columns that the disk has in few bytes.
const FILLED_BYTES: u64 = 128 << 20;

/// What of a scan is in the store on a disk and not in memory when the scan is planned.
#[derive(Debug, Clone)]
pub(crate) struct OnDisk {
    segments: usize,
    /// Bytes of the columns that the scan reads, as they lie on the disk.
    bytes: u64,
    /// The aggregates that are computed by the threads that take the rows from the disk.
    beside: Option<Beside>,
}

/// Aggregates beside a scan.
#[derive(Debug, Clone)]
pub(crate) struct Beside {
    /// Each aggregate, and what it is grouped by.
    pub(crate) text: String,
    /// Each partition has a partial result, which goes up to the final aggregate when the partition
    /// has ended; else nothing is left to be put together.
    pub(crate) is_partial: bool,
}

impl OnDisk {
    /// `None`: everything that the scan reads is in memory.
    pub(crate) fn of(source: &SwingSource, beside: Option<Beside>) -> Option<Self> {
        let columns = columns_read(source);
        let mut on_disk = Self { segments: 0, bytes: 0, beside };
        for (_, segment) in source.segments.iter() {
            let (stored, _) = segment.cold_bytes(&columns);
            on_disk.segments += usize::from(stored > 0);
            on_disk.bytes += stored;
        }
        (on_disk.segments > 0).then_some(on_disk)
    }
}

impl fmt::Display for OnDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on_disk={} segments of {} bytes", self.segments, self.bytes)?;
        let Some(beside) = &self.beside else { return Ok(()) };
        let last = if beside.is_partial { "push_up" } else { "none" };
        write!(f, ", aggregates_beside=[{}], final={last}", beside.text)
    }
}

/// Columns of the table that a scan reads.
fn columns_read(source: &SwingSource) -> Vec<usize> {
    let mut columns = source.projection.to_vec();
    let used = source.conditions.iter().chain(source.filters.iter());
    for condition in used {
        let found = datafusion::physical_expr::utils::collect_columns(condition);
        columns.extend(found.iter().map(|column| column.index()));
    }
    columns.sort_unstable();
    columns.dedup();
    columns.retain(|column| *column < source.table.columns().len());
    columns
}

/// What a scan reads from the store. See the [module documentation](self).
pub(crate) struct DiskReads {
    segments: Arc<[(u32, Arc<Segment>)]>,
    /// Columns of the table that are read.
    columns: Vec<usize>,
    /// Few rows are wanted: nothing is read before it is known to be needed.
    few: bool,
    metrics: ExecutionPlanMetricsSet,
    state: Mutex<State>,
    /// There are windows that may not have been read.
    reading: AtomicBool,
    /// Rows that were handed on meanwhile.
    beside: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The first segment that no window has.
    next: usize,
    windows: VecDeque<ReadAhead>,
    begun: Option<Instant>,
    bytes: u64,
}

impl DiskReads {
    pub(crate) fn new(source: &SwingSource) -> Self {
        Self {
            segments: Arc::clone(&source.segments),
            columns: columns_read(source),
            few: source.limit.is_some(),
            metrics: source.metrics.clone(),
            state: Mutex::default(),
            reading: AtomicBool::new(false),
            beside: AtomicU64::new(0),
        }
    }

    /// Waits until the columns of a segment are in memory. `matters` tells which segments behind it
    /// are worth reading.
    pub(crate) fn prepare(
        &self,
        place: usize,
        mut matters: impl FnMut(&Arc<Segment>) -> bool,
    ) -> Result<()> {
        let (_, segment) = &self.segments[place];
        if segment.cold_bytes(&self.columns) == (0, 0) {
            return Ok(());
        }
        {
            let mut state = self.state.lock();
            self.retire(&mut state);
            state.begun.get_or_insert_with(Instant::now);
            while state.next <= place {
                self.begin(&mut state, place, &mut matters)?;
            }
            // The window behind the last one is begun when the last one is needed.
            if !self.few && state.windows.len() == 1 {
                self.begin(&mut state, place, &mut matters)?;
            }
        }
        Ok(segment.fetch(&self.columns)?)
    }

    /// Begins the next window.
    fn begin(
        &self,
        state: &mut State,
        place: usize,
        matters: &mut dyn FnMut(&Arc<Segment>) -> bool,
    ) -> Result<()> {
        let (mut bytes, mut filled, mut window) = (0, 0, Vec::new());
        while bytes < WINDOW_BYTES && filled < FILLED_BYTES && (!self.few || state.next <= place) {
            let Some((_, segment)) = self.segments.get(state.next) else { break };
            if state.next == place || matters(segment) {
                let (stored, memory) = segment.cold_bytes(&self.columns);
                (bytes, filled) = (bytes + stored, filled + memory);
                window.push(segment);
            }
            state.next += 1;
        }
        if bytes > 0 {
            let segments = window.into_iter().map(Arc::as_ref);
            state.windows.push_back(ReadAhead::begin(segments, &self.columns)?);
            self.reading.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Nothing is left to take: what was read shows in the metrics.
    pub(crate) fn note_done(&self) {
        let mut state = self.state.lock();
        self.retire(&mut state);
        let all = state.next >= self.segments.len() || self.few;
        if !all || !state.windows.is_empty() {
            return;
        }
        let Some(begun) = state.begun.take() else { return };
        let rate = state.bytes as f64 / 1e6 / begun.elapsed().as_secs_f64().max(1e-9);
        self.gauge("disk_mb_per_s", rate as usize);
        self.gauge("disk_rows_beside", self.beside.load(Ordering::Relaxed) as usize);
    }

    /// Rows are handed on.
    pub(crate) fn note_rows(&self, rows: usize) {
        if !self.reading.load(Ordering::Relaxed) {
            return;
        }
        // Where another partition has the lock it waits for what is being read, or begins more.
        if let Some(mut state) = self.state.try_lock() {
            self.retire(&mut state);
            if state.windows.is_empty() {
                return;
            }
        }
        self.beside.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Counts the windows that have been read.
    fn retire(&self, state: &mut State) {
        self.count_done(state);
        self.reading.store(!state.windows.is_empty(), Ordering::Relaxed);
    }

    fn count_done(&self, state: &mut State) {
        while let Some(window) = state.windows.pop_front_if(|window| window.is_done()) {
            let read = window.read();
            let first = state.bytes == 0;
            state.bytes += read.bytes;
            let count = |name, value: u64| {
                MetricBuilder::new(&self.metrics).counter(name, 0).add(value as usize);
            };
            count("disk_bytes", read.bytes);
            count("disk_requests", read.requests);
            if first && read.bytes > 0 {
                self.gauge("disk_depth", read.depth as usize);
                self.gauge("disk_domains", read.domains.unwrap_or(0) as usize);
                self.gauge("disk_buffer_bytes", read.buffer_bytes as usize);
            }
        }
    }

    fn gauge(&self, name: &'static str, value: usize) {
        MetricBuilder::new(&self.metrics).gauge(name, 0).set(value);
    }
}
