//! [`TableWriter`]: bulk appends from many threads.
//!
//! Whoever pushes a batch keeps it until a whole segment is together, then copies the segment's
//! columns into the area himself: threads share only the allocator. Nothing is visible before
//! [`WriteTxn::adopt`](crate::WriteTxn::adopt); until then the new segments are in nobody's catalog
//! and are freed when the writer is dropped. Rows that wait for a whole segment take memory that is
//! not the area's; [`TableWriter::account`] says who is asked for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{Field, SchemaRef};
use parking_lot::Mutex;
use swingdb_common::enums::EnumType;
use swingdb_common::error::{ConstraintKind, Error, Result};
use swingdb_common::runtime::cancel::go_on;
use swingdb_common::runtime::held::value_bytes;
use swingdb_common::runtime::memory::Waiting;
use swingdb_common::uuid;

use crate::catalog::table::Table;
use crate::memory::space::Ground;
use crate::segments::columns;
use crate::segments::rowids::SEGMENT_ROWS;
use crate::segments::segment::Segment;
use crate::txn::checks::Tests;
use crate::txn::generated::Makers;

/// The rest of a part stays in memory up to this many rows, and this many bytes, to be put together
/// with the next part.
const MAX_REST_ROWS: usize = 16_384;
const MAX_KEPT_BYTES: usize = 4 << 20;

/// Rows become a segment when they take this many bytes, however few they are: until then they are
/// in memory twice.
const MAX_REST_BYTES: usize = 256 << 20;

/// Appends batches to one table from many threads; clones share the same append. Ends with
/// [`WriteTxn::adopt`](crate::WriteTxn::adopt); dropped without it, everything it wrote is freed.
///
/// Each part ([`TableWriter::part`]) is filled by one thread at a time. The rows of a part keep
/// their order, and parts are put into the table in the order of their numbers: for a file read by
/// row groups, part = row group keeps the order of the file.
#[derive(Clone)]
pub struct TableWriter {
    shared: Arc<Shared>,
}

struct Shared {
    ground: Arc<Ground>,
    table: Arc<Table>,
    tests: Tests,
    makers: Makers,
    rows: AtomicU64,
    closed: AtomicBool,
    /// Is asked for the memory of rows that wait for a whole segment.
    waiting: OnceLock<Waiting>,
    /// Ordered parts that are complete, and how many are not.
    parts: Mutex<Parts>,
    /// Parts without a number, one a thread.
    loose: Mutex<HashMap<ThreadId, Part>>,
}

#[derive(Default)]
struct Parts {
    done: BTreeMap<u64, Part>,
    open: usize,
}

/// Rows of one part: whole segments, then what is left.
#[derive(Default)]
struct Part {
    segments: Vec<Arc<Segment>>,
    rest: Vec<RecordBatch>,
    rest_rows: usize,
    rest_bytes: usize,
}

/// What an append consists of.
pub(crate) struct Appended {
    pub table: Arc<Table>,
    pub segments: Vec<Arc<Segment>>,
    /// Rows after the segments, not in the area yet; at most a segment.
    pub rest: Vec<RecordBatch>,
}

impl TableWriter {
    pub(crate) fn new(
        ground: Arc<Ground>,
        table: Arc<Table>,
        tests: Tests,
        makers: Makers,
    ) -> Self {
        let shared = Shared {
            ground,
            table,
            tests,
            makers,
            rows: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            waiting: OnceLock::new(),
            parts: Mutex::default(),
            loose: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Asks `waiting` for the memory of rows that are not in the area yet. Call it once, before
    /// rows are pushed.
    pub fn account(&self, waiting: Waiting) {
        let is_first = self.shared.waiting.set(waiting).is_ok();
        debug_assert!(is_first, "the memory of an append is asked for by two");
    }

    /// The columns a batch must have: by position, of equal types.
    pub fn schema(&self) -> &SchemaRef {
        self.shared.table.schema()
    }

    /// Appends to a part of this thread's own, in no particular order relative to other threads.
    pub fn push(&self, batch: RecordBatch) -> Result<()> {
        let thread = std::thread::current().id();
        let mut part = self.shared.loose.lock().remove(&thread).unwrap_or_default();
        let result = self.shared.push(&mut part, batch);
        self.shared.loose.lock().insert(thread, part);
        result
    }

    /// A part: rows pushed to it stay together and in order. Parts are put in the order of `order`;
    /// each number can be used once.
    pub fn part(&self, order: u64) -> Result<PartWriter> {
        self.shared.check_open()?;
        self.shared.parts.lock().open += 1;
        let shared = self.shared.clone();
        Ok(PartWriter { shared, order, part: Part::default(), finished: false })
    }

    /// Rows pushed so far, by all threads.
    pub fn rows(&self) -> u64 {
        self.shared.rows.load(Ordering::Relaxed)
    }

    /// Ends the append and puts its parts in order.
    pub(crate) fn finish(self) -> Result<Appended> {
        let shared = &self.shared;
        shared.closed.store(true, Ordering::Release);
        let parts = std::mem::take(&mut *shared.parts.lock());
        if parts.open > 0 {
            return Err(Error::transaction(format!("{} parts were not finished", parts.open)));
        }
        let mut all = Part::default();
        for part in parts.done.into_values() {
            go_on()?;
            if !part.segments.is_empty() {
                shared.flush(&mut all)?;
            }
            all.segments.extend(part.segments);
            shared.let_go(part.rest_bytes);
            shared.collect(&mut all, part.rest)?;
        }
        let loose = std::mem::take(&mut *shared.loose.lock());
        let mut rests = Vec::new();
        let has_whole = loose.values().any(|p| !p.segments.is_empty());
        if has_whole {
            shared.flush(&mut all)?;
        }
        for part in loose.into_values() {
            all.segments.extend(part.segments);
            shared.let_go(part.rest_bytes);
            rests.extend(part.rest);
        }
        shared.collect(&mut all, rests)?;
        Ok(Appended { table: shared.table.clone(), segments: all.segments, rest: all.rest })
    }
}

impl Shared {
    fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::Closed { what: "append" }),
            false => Ok(()),
        }
    }

    fn push(&self, part: &mut Part, batch: RecordBatch) -> Result<()> {
        self.check_open()?;
        let rows = batch.num_rows() as u64;
        let batch = self.makers.rows(&self.table, conform(&self.table, batch)?)?;
        self.tests.rows(&self.table, &batch)?;
        self.collect(part, [batch])?;
        self.rows.fetch_add(rows, Ordering::Relaxed);
        Ok(())
    }

    /// Adds batches of the table's schema; whole segments go into the area.
    fn collect(
        &self,
        part: &mut Part,
        batches: impl IntoIterator<Item = RecordBatch>,
    ) -> Result<()> {
        for mut batch in batches {
            while part.rest_rows + batch.num_rows() >= SEGMENT_ROWS {
                let fits = SEGMENT_ROWS - part.rest_rows;
                part.rest.push(batch.slice(0, fits));
                batch = batch.slice(fits, batch.num_rows() - fits);
                self.flush(part)?;
            }
            if batch.num_rows() > 0 {
                let bytes = value_bytes(&batch);
                if let Some(waiting) = self.waiting.get()
                    && !waiting.may_grow(bytes)
                {
                    // Those that wait become a segment before there are enough of them.
                    self.flush(part)?;
                    waiting.grow(bytes)?;
                }
                part.rest_rows += batch.num_rows();
                part.rest_bytes += bytes;
                part.rest.push(batch);
            }
            if part.rest_bytes >= MAX_REST_BYTES {
                self.flush(part)?;
            }
        }
        Ok(())
    }

    /// Rows that have waited are in the area, or are counted anew.
    fn let_go(&self, bytes: usize) {
        if let Some(waiting) = self.waiting.get() {
            waiting.shrink(bytes);
        }
    }

    /// Makes a segment of the rest.
    fn flush(&self, part: &mut Part) -> Result<()> {
        let rest = std::mem::take(&mut part.rest);
        part.rest_rows = 0;
        if !rest.is_empty() {
            part.segments.push(build_segment(&self.ground, self.table.schema(), &rest)?);
        }
        self.let_go(std::mem::take(&mut part.rest_bytes));
        Ok(())
    }
}

/// One ordered part of an append; see [`TableWriter::part`].
pub struct PartWriter {
    shared: Arc<Shared>,
    order: u64,
    part: Part,
    finished: bool,
}

impl PartWriter {
    /// Appends a batch; copies whole segments into the area as they become full.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.shared.push(&mut self.part, batch)
    }

    /// Ends the part. A part dropped without it makes the append fail.
    pub fn finish(mut self) -> Result<()> {
        if self.part.rest_rows > MAX_REST_ROWS || self.part.rest_bytes > MAX_KEPT_BYTES {
            self.shared.flush(&mut self.part)?;
        }
        let mut parts = self.shared.parts.lock();
        if parts.done.contains_key(&self.order) {
            return Err(Error::internal(format!("part {} was written twice", self.order)));
        }
        parts.done.insert(self.order, std::mem::take(&mut self.part));
        parts.open -= 1;
        self.finished = true;
        Ok(())
    }
}

/// Copies the rows of `batches` (1 to [`SEGMENT_ROWS`]) into the area as one segment.
pub(crate) fn build_segment(
    ground: &Ground,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<Arc<Segment>> {
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let chunk = |(index, field): (usize, &Arc<Field>)| {
        go_on()?;
        let pieces: Vec<ArrayRef> = batches.iter().map(|b| b.column(index).clone()).collect();
        columns::write(ground, field.data_type(), &pieces).map(Arc::new)
    };
    let chunks = schema.fields().iter().enumerate().map(chunk).collect::<Result<Vec<_>>>()?;
    Ok(Segment::new(schema.clone(), rows, None, chunks))
}

/// Gives a batch the schema of the table: columns by position, of equal types, no NULLs where they
/// are forbidden.
pub(crate) fn conform(table: &Table, batch: RecordBatch) -> Result<RecordBatch> {
    let schema = table.schema();
    let is_enum = |field: &Arc<Field>| EnumType::of_field(field).is_some();
    if batch.schema_ref() == schema && !schema.fields().iter().any(is_enum) {
        return Ok(batch);
    }
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::plan(format!(
            "table {:?} has {} columns, but the rows have {}",
            table.name(),
            schema.fields().len(),
            batch.num_columns()
        )));
    }
    let all: Vec<usize> = (0..batch.num_columns()).collect();
    let columns = conform_columns(table, &all, batch.columns())?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

/// Whether the texts of a column are those of a type that not every text has.
pub(crate) fn is_checked(field: &Field) -> bool {
    uuid::is_marked(field) || EnumType::of_field(field).is_some()
}

/// The texts of such a column in the form that they are stored in.
pub(crate) fn checked(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    match EnumType::of_field(field) {
        Some(values) => values.check(array, false),
        None => uuid::canonical(array, false),
    }
}

/// Checks types and NULLs of arrays for the columns `indices` of the table.
pub(crate) fn conform_columns(
    table: &Table,
    indices: &[usize],
    arrays: &[ArrayRef],
) -> Result<Vec<ArrayRef>> {
    let fit = |(&index, array): (&usize, &ArrayRef)| {
        let field = table.schema().field(index);
        if !field.is_nullable() && array.logical_null_count() > 0 {
            return Err(Error::Constraint {
                table: table.name().to_owned(),
                kind: ConstraintKind::NotNull,
                columns: vec![field.name().clone()],
                detail: "a row has NULL there".to_owned(),
            });
        }
        let (have, want) = (array.data_type(), field.data_type());
        if have == want && is_checked(field) {
            return checked(field, array).map_err(|error| match error {
                Error::Conversion { message, .. } => {
                    Error::Conversion { message, column: Some(field.name().clone()) }
                }
                other => other,
            });
        }
        if have == want {
            return Ok(array.clone());
        }
        if have.equals_datatype(want) {
            // Only names or nullability of nested fields differ.
            return Ok(cast(array, want)?);
        }
        Err(Error::Conversion {
            message: format!("expected {want}, got {have}"),
            column: Some(field.name().clone()),
        })
    };
    indices.iter().zip(arrays).map(fit).collect()
}
