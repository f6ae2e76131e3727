//! Probing: one partition of the probe side streams through the table.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::UInt32Array;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use datafusion::common::{DataFusionError, JoinSide, JoinType, NullEquality, Result, internal_err};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::metrics::RecordOutput;
use futures::future::{BoxFuture, Shared};
use futures::{Stream, StreamExt};
use tokio::sync::Notify;

use super::build::BuildSide;
use super::equal::retain_equal;
use super::metrics::ProbeMetrics;
use super::output::{Output, Rows};
use super::pairs::{Cursor, Pairs, Span};

/// The build, which all probing partitions wait for.
pub(crate) type Building =
    Shared<BoxFuture<'static, std::result::Result<Arc<BuildSide>, Arc<DataFusionError>>>>;

/// One execution of a join, held by its probing partitions. The build ends with the last of them.
pub(crate) struct Running {
    building: Building,
    /// Probing partitions that have not been asked for rows.
    waiting: AtomicUsize,
    /// Probing partitions that have not seen all their rows.
    probing: AtomicUsize,
    /// A partition was dropped before it had: which build rows found a partner stays unknown.
    is_cut_off: AtomicBool,
    /// Wakes the partitions that wait for `probing` and `is_cut_off`.
    ended: Notify,
    /// The first build row that no partition gives out in the end.
    rest: AtomicUsize,
}

impl Running {
    pub(crate) fn new(building: Building, partitions: usize) -> Self {
        Self {
            building,
            waiting: AtomicUsize::new(partitions),
            probing: AtomicUsize::new(partitions),
            is_cut_off: AtomicBool::new(false),
            ended: Notify::new(),
            rest: AtomicUsize::new(0),
        }
    }

    /// One partition more has seen all its rows. Whether it was the last.
    fn end_one(&self) -> bool {
        // The last partition, and all that wait for it, see the notes of all others.
        let is_last = self.probing.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.ended.notify_waiters();
        }
        is_last
    }

    fn cut_off(&self) {
        self.is_cut_off.store(true, Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Waits until all partitions have seen all their rows; `false` where one never will.
    async fn all_ended(&self) -> bool {
        let mut told = pin!(self.ended.notified());
        told.as_mut().enable();
        let is_over = || self.probing.load(Ordering::Acquire) == 0;
        if !is_over() && !self.is_cut_off.load(Ordering::Acquire) {
            told.await;
        }
        is_over()
    }
}

/// The probing of one partition.
pub(crate) struct Probe {
    pub(crate) running: Arc<Running>,
    /// The probe side's rows; `None` when they are all seen.
    pub(crate) input: Option<SendableRecordBatchStream>,
    /// The keys, in the columns of the probe side.
    pub(crate) on: Vec<PhysicalExprRef>,
    pub(crate) filter: Option<JoinFilter>,
    pub(crate) join_type: JoinType,
    /// Whether a NULL of the build side may be equal to any row.
    pub(crate) null_aware: bool,
    pub(crate) null_equality: NullEquality,
    pub(crate) batch_rows: usize,
    pub(crate) output: Output,
    pub(crate) metrics: ProbeMetrics,
    pub(crate) state: State,
}

/// How far a partition has come.
pub(crate) enum State {
    /// It has not been asked for a row.
    New,
    /// The table is not built.
    Building,
    /// Between two batches of the probe side, or within one.
    Probing {
        side: Arc<BuildSide>,
        current: Option<Box<Current>>,
    },
    /// All its rows are seen. Build rows are given out when the other partitions have come as far.
    Seen {
        side: Arc<BuildSide>,
    },
    /// All partitions have seen all their rows: each gives out some build rows.
    Rest {
        side: Arc<BuildSide>,
    },
    Done,
}

/// A batch of the probe side under way.
pub(crate) struct Current {
    batch: RecordBatch,
    keys: Vec<ArrayRef>,
    /// The hash, or offset, of each row.
    values: Vec<u64>,
    spans: Vec<Span>,
    cursor: Cursor,
    pairs: Pairs,
    /// Which rows have found a partner, if the type of the join asks for it.
    matched: Vec<bool>,
    /// The first row that is not known to be unmatched or given out.
    given: usize,
}

impl Probe {
    /// The rows of the partition.
    pub(crate) fn stream(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        futures::stream::try_unfold(self, |mut probe| async move {
            let batch = probe.next().await?;
            let batch = batch.map(|batch| batch.record_output(&probe.metrics.baseline));
            Ok(batch.map(|batch| (batch, probe)))
        })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.output.next() {
                return Ok(Some(batch));
            }
            if self.output.is_full() && !matches!(self.state, State::Done) {
                self.leave();
                self.input = None;
                self.finish()?;
                continue;
            }
            match &mut self.state {
                State::New => {
                    self.running.waiting.fetch_sub(1, Ordering::AcqRel);
                    self.state = State::Building;
                }
                State::Building => {
                    let side = self.running.building.clone().await;
                    let side = side.map_err(DataFusionError::Shared)?;
                    let is_unknown = self.null_aware && side.has_null_key;
                    if is_unknown || (side.table.is_empty() && !self.gives_unmatched_probe_rows()) {
                        self.input = None;
                    }
                    self.state = State::Probing { side, current: None };
                }
                State::Probing { current: None, .. } => self.fetch().await?,
                State::Probing { side, current: Some(_) } => {
                    let side = Arc::clone(side);
                    self.step(&side)?;
                    tokio::task::consume_budget().await;
                }
                State::Seen { side } => {
                    let side = Arc::clone(side);
                    match self.running.all_ended().await {
                        true => self.state = State::Rest { side },
                        false => self.finish()?,
                    }
                }
                State::Rest { side } => {
                    let side = Arc::clone(side);
                    self.rest(&side)?;
                    tokio::task::consume_budget().await;
                }
                State::Done => return Ok(None),
            }
        }
    }

    fn gives_unmatched_probe_rows(&self) -> bool {
        use JoinType as J;
        matches!(self.join_type, J::Right | J::Full | J::RightAnti | J::RightMark)
    }

    fn gives_build_rows_last(&self) -> bool {
        use JoinType as J;
        let types = [J::Left, J::Full, J::LeftSemi, J::LeftAnti, J::LeftMark];
        types.contains(&self.join_type)
    }

    /// Whether a partition may wait for the others to see all their rows.
    ///
    /// A reader may take all rows of one partition before it asks the next one. And it may stop
    /// asking a partition that has given rows, until others have given theirs.
    fn may_wait(&self) -> bool {
        use JoinType as J;
        matches!(self.join_type, J::LeftSemi | J::LeftAnti | J::LeftMark)
            && self.running.waiting.load(Ordering::Acquire) == 0
    }

    /// Tells the others not to wait, if this partition has not seen all its rows.
    fn leave(&self) {
        if matches!(self.state, State::New | State::Building | State::Probing { .. }) {
            self.running.cut_off();
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.state = State::Done;
        self.output.finish()
    }

    /// Takes the next batch of the probe side, and looks it up.
    async fn fetch(&mut self) -> Result<()> {
        let batch = match &mut self.input {
            Some(input) => input.next().await.transpose()?,
            None => None,
        };
        let State::Probing { side, current } = &mut self.state else {
            return internal_err!("a join takes rows before its table is built");
        };
        let Some(batch) = batch else {
            self.input = None;
            let side = Arc::clone(side);
            let is_last = self.running.end_one();
            if self.gives_build_rows_last() && (is_last || self.may_wait()) {
                self.state = State::Seen { side };
                return Ok(());
            }
            return self.finish();
        };
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.metrics.input_batches.add(1);
        self.metrics.input_rows.add(batch.num_rows());
        let time = self.metrics.time.clone();
        let _timer = time.timer();
        let keys = evaluate_expressions_to_arrays(&self.on, &batch)?;
        let (mut values, mut spans) = (Vec::new(), Vec::new());
        let rows = batch.num_rows();
        side.table.find(&keys, rows, self.null_equality, &mut values, &mut spans)?;
        *current = Some(Box::new(Current {
            matched: vec![false; rows],
            batch,
            keys,
            values,
            spans,
            cursor: Cursor::default(),
            pairs: Pairs::default(),
            given: 0,
        }));
        Ok(())
    }

    /// Joins some rows of the batch under way.
    fn step(&mut self, side: &BuildSide) -> Result<()> {
        use JoinType as J;
        let State::Probing { current, .. } = &mut self.state else {
            return internal_err!("a join has no rows to look up");
        };
        let Some(mut now) = current.take() else { return Ok(()) };
        let time = self.metrics.time.clone();
        let _timer = time.timer();
        let is_done = match self.join_type {
            J::Inner | J::Left | J::Right | J::Full => self.give_pairs(side, &mut now)?,
            J::LeftSemi | J::LeftAnti | J::LeftMark => self.note_build_rows(side, &mut now)?,
            J::RightSemi | J::RightAnti | J::RightMark => self.match_probe_rows(side, &mut now)?,
        };
        if let (false, State::Probing { current, .. }) = (is_done, &mut self.state) {
            *current = Some(now);
        }
        Ok(())
    }

    /// Lists the next pairs that are partners.
    fn partners(&self, side: &BuildSide, now: &mut Current) -> Result<()> {
        now.pairs.clear();
        let limit = self.batch_rows;
        side.table.pairs(&now.values, &now.spans, &mut now.cursor, limit, &mut now.pairs);
        // A build row that found a partner needs no other, where only that is asked.
        if let (JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark, Some(visited)) =
            (self.join_type, &side.visited)
        {
            now.pairs.retain(|build, _| !visited.has(build as u32));
        }
        self.check(side, now)
    }

    /// Keeps the pairs whose keys are equal and that fulfil the filter.
    fn check(&self, side: &BuildSide, now: &mut Current) -> Result<()> {
        if !side.table.is_exact() {
            retain_equal(&side.keys, &now.keys, self.null_equality, &mut now.pairs)?;
        }
        match &self.filter {
            Some(filter) if now.pairs.len() > 0 => {
                retain_filtered(filter, &side.batch, &now.batch, &mut now.pairs)
            }
            _ => Ok(()),
        }
    }

    /// Inner and outer joins. Returns whether the batch is done.
    fn give_pairs(&mut self, side: &BuildSide, now: &mut Current) -> Result<bool> {
        self.partners(side, now)?;
        if let Some(visited) = &side.visited {
            now.pairs.build.iter().for_each(|&row| visited.set(row));
        }
        let is_done = now.cursor.span >= now.spans.len();
        let gives_unmatched = self.gives_unmatched_probe_rows();
        let (build, probe) = match gives_unmatched {
            true => with_unmatched(now, is_done),
            false => {
                let Pairs { build, probe } = std::mem::take(&mut now.pairs);
                (UInt32Array::from(build), UInt32Array::from(probe))
            }
        };
        let rows = now.batch.num_rows();
        let is_whole = probe.len() == rows
            && probe.values().iter().enumerate().all(|(at, &row)| at == row as usize);
        let probe = match is_whole {
            true => Rows::All(&now.batch),
            false => Rows::Numbered(&now.batch, probe),
        };
        self.output.push(&Rows::Numbered(&side.batch, build), &probe, None)?;
        Ok(is_done)
    }

    /// Joins that give rows of the build side only, in the end.
    fn note_build_rows(&mut self, side: &BuildSide, now: &mut Current) -> Result<bool> {
        self.partners(side, now)?;
        if let Some(visited) = &side.visited {
            now.pairs.build.iter().for_each(|&row| visited.set(row));
        }
        Ok(now.cursor.span >= now.spans.len())
    }

    /// Joins that give rows of the probe side only.
    fn match_probe_rows(&mut self, side: &BuildSide, now: &mut Current) -> Result<bool> {
        let is_done = match self.filter.is_some() {
            true => {
                self.partners(side, now)?;
                now.pairs.probe.iter().for_each(|&row| now.matched[row as usize] = true);
                // The other pairs of a row that has a partner do not matter.
                let next = |span: &Span| now.matched[span.probe as usize];
                while now.spans.get(now.cursor.span).is_some_and(next) {
                    now.cursor = Cursor { span: now.cursor.span + 1, done: 0 };
                }
                now.cursor.span >= now.spans.len()
            }
            false => {
                now.pairs.clear();
                side.table.first_pairs(&now.values, &mut now.spans, &mut now.pairs);
                self.check(side, now)?;
                now.pairs.probe.iter().for_each(|&row| now.matched[row as usize] = true);
                let matched = &now.matched;
                now.spans.retain(|s| s.start < s.end && !matched[s.probe as usize]);
                now.spans.is_empty()
            }
        };
        if !is_done {
            return Ok(false);
        }
        let wanted = self.join_type != JoinType::RightAnti;
        let mark = BooleanArray::from(std::mem::take(&mut now.matched));
        let build = Rows::Nulls(0);
        if self.join_type == JoinType::RightMark {
            self.output.push(&build, &Rows::All(&now.batch), Some(&mark))?;
            return Ok(true);
        }
        let mut found = match wanted {
            true => mark.values().clone(),
            false => !mark.values(),
        };
        // NULL may be equal to any element, if there is one.
        if let (true, Some(valid)) = (self.null_aware, now.keys[0].logical_nulls())
            && side.batch.num_rows() > 0
        {
            found = &found & valid.inner();
        }
        let rows = match found.count_set_bits() {
            0 => return Ok(true),
            all if all == found.len() => Rows::All(&now.batch),
            _ => {
                let numbers = found.set_indices().map(|row| row as u32);
                Rows::Numbered(&now.batch, UInt32Array::from_iter_values(numbers))
            }
        };
        self.output.push(&build, &rows, None)?;
        Ok(true)
    }

    /// Gives out the next rows of the build side that no partition has, as the type of the join
    /// asks for.
    fn rest(&mut self, side: &BuildSide) -> Result<()> {
        use JoinType as J;
        let time = self.metrics.time.clone();
        let _timer = time.timer();
        let Some(visited) = &side.visited else {
            return internal_err!("a join did not note the rows of its build side");
        };
        let from = self.running.rest.fetch_add(self.batch_rows, Ordering::Relaxed);
        if from >= side.batch.num_rows() {
            return self.finish();
        }
        let until = side.batch.num_rows().min(from + self.batch_rows);
        if self.join_type == J::LeftMark {
            let mark =
                BooleanBuffer::collect_bool(until - from, |at| visited.has((from + at) as u32));
            let rows = side.batch.slice(from, until - from);
            let mark = BooleanArray::new(mark, None);
            return self.output.push(&Rows::All(&rows), &Rows::Nulls(0), Some(&mark));
        }
        let wanted = self.join_type == J::LeftSemi;
        let rows = (from as u32..until as u32).filter(|&row| visited.has(row) == wanted);
        let rows = UInt32Array::from_iter_values(rows);
        let probe = Rows::Nulls(rows.len());
        self.output.push(&Rows::Numbered(&side.batch, rows), &probe, None)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The pairs found, and between them the probe rows that have no partner.
fn with_unmatched(now: &mut Current, is_done: bool) -> (UInt32Array, UInt32Array) {
    let until = match now.spans.get(now.cursor.span) {
        Some(next) if !is_done => next.probe as usize,
        _ => now.batch.num_rows(),
    };
    for &row in &now.pairs.probe {
        now.matched[row as usize] = true;
    }
    let capacity = now.pairs.len() + (until - now.given.min(until));
    let (mut build, mut probe) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity));
    let mut valid = Vec::with_capacity(capacity);
    let unmatched = |given: &mut usize, until: usize, out: &mut dyn FnMut(u32, u32, bool)| {
        while *given < until {
            if !now.matched[*given] {
                out(0, *given as u32, false);
            }
            *given += 1;
        }
    };
    let mut out = |b: u32, p: u32, is_valid: bool| {
        build.push(b);
        probe.push(p);
        valid.push(is_valid);
    };
    for (&b, &p) in now.pairs.build.iter().zip(&now.pairs.probe) {
        unmatched(&mut now.given, p as usize, &mut out);
        out(b, p, true);
    }
    unmatched(&mut now.given, until, &mut out);
    (UInt32Array::new(build.into(), Some(NullBuffer::from(valid))), UInt32Array::from(probe))
}

/// Keeps the pairs that fulfil a filter over columns of both sides.
fn retain_filtered(
    filter: &JoinFilter,
    build: &RecordBatch,
    probe: &RecordBatch,
    pairs: &mut Pairs,
) -> Result<()> {
    let rows = pairs.len();
    let left = UInt32Array::from(std::mem::take(&mut pairs.build));
    let right = UInt32Array::from(std::mem::take(&mut pairs.probe));
    let column = |column: &datafusion::physical_plan::joins::utils::ColumnIndex| {
        Ok(match column.side {
            JoinSide::Left => take(build.column(column.index).as_ref(), &left, None)?,
            JoinSide::Right => take(probe.column(column.index).as_ref(), &right, None)?,
            JoinSide::None => return internal_err!("a filter of a join asks for a mark"),
        })
    };
    let columns = filter.column_indices().iter().map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::clone(filter.schema());
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
    let found = filter.expression().evaluate(&batch)?.into_array(rows)?;
    let Some(found) = found.as_boolean_opt() else {
        return internal_err!("a filter of a join is of type {}", found.data_type());
    };
    let nulls = found.nulls();
    let holds = |at: usize| found.value(at) && nulls.is_none_or(|nulls| nulls.is_valid(at));
    for at in (0..rows).filter(|&at| holds(at)) {
        pairs.push(left.value(at), right.value(at));
    }
    Ok(())
}
