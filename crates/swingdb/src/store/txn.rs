//! [`WriteTxn`]: the one write transaction of a process.
//!
//! A transaction makes new versions of the catalog, each sharing with the one before what is not
//! concerned. What it allocates is *fresh* and freed when dropped; what it makes unreachable is
//! noted and becomes *dead* with the commit (see [`super::space`]). So a rollback is nothing more
//! than dropping the versions, and a savepoint is an `Arc` and some positions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::BooleanBufferBuilder;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, take};

use super::catalog::{Catalog, SchemaNode, TableEntry};
use super::checks::Checker;
use super::edit;
use super::handle::{Store, Writer};
use super::patch;
use super::rowids::{RowId, RowIds};
use super::segment::{Deletion, SEGMENT_ROWS, Segment};
use super::space::{Blocks, Foreign, Ground};
use super::table::{Constraint, Table};
use super::unique;
use super::writer::{TableWriter, build_segment, conform_columns};
use crate::error::{Error, ObjectKind, Result};

/// How long [`Store::begin`] waits for another transaction of this process.
pub const WRITER_WAIT: Duration = Duration::from_secs(30);
/// A last segment of at most this many rows is always put together with the rows appended next.
const SMALL_SEGMENT_ROWS: usize = 1024;

/// What to do when the name to be created is taken. A name belongs to either a table or a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// [`Error::AlreadyExists`](crate::Error::AlreadyExists).
    Fail,
    /// Leave the existing one; the call returns `false`.
    Skip,
    /// Drop the existing one of the same kind first.
    Replace,
}

/// A point inside a transaction to which [`WriteTxn::rollback_to`] returns.
#[derive(Debug, Clone)]
pub struct Savepoint {
    serial: u64,
    current: Arc<Catalog>,
    marks: Marks,
}

/// Positions in a transaction's lists.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    created: usize,
    dropped: usize,
    shared: usize,
    ranges: usize,
    unique: usize,
}

/// What a transaction did to blocks so far.
#[derive(Default)]
pub(super) struct Effects {
    /// Blocks it made.
    pub created: Vec<Arc<Blocks>>,
    /// Blocks its catalog reaches no more.
    pub dropped: Vec<Arc<Blocks>>,
    /// Chunks that one more table uses.
    pub shared: Vec<Arc<Blocks>>,
    /// Foreign ranges it mapped.
    pub ranges: Vec<Arc<Foreign>>,
}

/// The one write transaction of a process. Dropped without [`WriteTxn::commit`], it is rolled back.
///
/// Every call is atomic by itself: on an error the transaction is as before the call.
pub struct WriteTxn {
    pub(super) store: Store,
    /// Taken from the store for the time of the transaction; `None` only after the end.
    pub(super) writer: Option<Box<Writer>>,
    pub(super) ground: Arc<Ground>,
    /// Announces stores into the area: a fork without one leaves the child a stable view.
    _session: swing::WriteSession,
    base: Arc<Catalog>,
    pub(super) current: Arc<Catalog>,
    pub(super) effects: Effects,
    /// Tables whose segments lost rows.
    thinned: BTreeSet<u64>,
    savepoints: Vec<u64>,
    next_savepoint: u64,
    /// Decides CHECK constraints.
    pub(super) checker: Option<&'static dyn Checker>,
}

impl WriteTxn {
    pub(super) fn new(store: Store, writer: Box<Writer>, ground: Arc<Ground>) -> Self {
        let base = store.latest();
        Self {
            store,
            writer: Some(writer),
            _session: ground.area().write_session(),
            ground,
            current: base.clone(),
            base,
            effects: Effects::default(),
            thinned: BTreeSet::new(),
            savepoints: Vec::new(),
            next_savepoint: 0,
            checker: None,
        }
    }

    pub(super) fn writer_mut(&mut self) -> Result<&mut Writer> {
        let ended = || Error::internal("the transaction has ended");
        self.writer.as_deref_mut().ok_or_else(ended)
    }

    /// The store it belongs to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The state with this transaction's own changes.
    pub fn view(&self) -> Arc<Catalog> {
        self.current.clone()
    }

    /// The committed state this transaction started from.
    pub fn base(&self) -> Arc<Catalog> {
        self.base.clone()
    }

    /// The table of the present view.
    pub(super) fn table_of(&self, schema: &str, name: &str) -> Result<Arc<Table>> {
        if let Some(table) = self.current.table(schema, name)? {
            return Ok(table);
        }
        if !self.current.has_schema(schema) {
            let names = self.current.schema_names();
            return Err(Error::not_found(ObjectKind::Schema, schema, names));
        }
        Err(Error::not_found(ObjectKind::Table, name, self.current.table_names(schema)))
    }

    /// Replaces the catalog by a changed copy.
    pub(super) fn change_catalog(&mut self, change: impl FnOnce(&mut Catalog)) {
        let mut next = Catalog::clone(&self.current);
        next.version += 1;
        change(&mut next);
        self.current = Arc::new(next);
    }

    /// Replaces one schema's list by a changed copy.
    pub(super) fn change_schema(&mut self, schema: &str, change: impl FnOnce(&mut SchemaNode)) {
        self.change_catalog(|next| {
            if let Some(node) = next.schemas.get_mut(schema) {
                change(Arc::make_mut(node));
            }
        });
    }

    /// Puts a table into the catalog, in place of the one of its name.
    pub(super) fn put_table(&mut self, table: Arc<Table>, dropped: Vec<Arc<Blocks>>) {
        let (schema, name) = (table.schema_name.clone(), table.name.clone());
        let entry = TableEntry::new(table);
        let mut old = None;
        self.change_schema(&schema, |node| old = node.tables.insert(name, entry));
        let record = old.and_then(|old| old.record.get().cloned());
        self.effects.dropped.extend(record);
        self.effects.dropped.extend(dropped);
    }

    /// Notes segments that were just made.
    pub(super) fn created(&mut self, segments: &[Arc<Segment>]) -> Result<()> {
        for segment in segments {
            let blocks = segment.blocks()?;
            self.effects.created.extend(blocks);
        }
        Ok(())
    }

    /// The live row with each of the keys (`None`: there is none, or the key has a NULL). `keys`
    /// has the columns of constraint `constraint` of the table, in its order. For ON CONFLICT.
    pub fn find_keys(
        &mut self,
        schema: &str,
        table: &str,
        constraint: usize,
        keys: &RecordBatch,
    ) -> Result<Vec<Option<RowId>>> {
        let table = self.table_of(schema, table)?;
        self.writer_mut()?.unique.find(&table, constraint, keys)
    }

    /// A writer for appending to a table from many threads. Nothing of it is in [`WriteTxn::view`]
    /// before [`WriteTxn::adopt`].
    pub fn writer(&self, schema: &str, table: &str) -> Result<TableWriter> {
        let table = self.table_of(schema, table)?;
        let tests = self.tests(&table)?;
        Ok(TableWriter::new(self.ground.clone(), table, tests))
    }

    /// Ends `writer` and appends what it wrote to its table; keys are checked. Returns the rows.
    pub fn adopt(&mut self, writer: TableWriter) -> Result<u64> {
        let appended = writer.finish()?;
        let names = (appended.table.schema_name(), appended.table.name());
        let table = self.table_of(names.0, names.1)?;
        if table.id() != appended.table.id()
            || !Arc::ptr_eq(&table.definition, &appended.table.definition)
        {
            return Err(Error::transaction("the table was changed while rows were appended"));
        }
        let mut segments = appended.segments;
        let mut new = segments.clone();
        let mut rest = appended.rest;
        let rest_rows: usize = rest.iter().map(RecordBatch::num_rows).sum();
        let whole: usize = segments.iter().map(|s| s.rows()).sum();
        let rows = (whole + rest_rows) as u64;
        if rows == 0 {
            return Ok(0);
        }
        let added = self.added_keys(&table, &segments, &rest)?;
        let mut removed = 0;
        if !rest.is_empty() {
            if segments.is_empty() {
                removed = merge_tail(&table, &mut rest, rest_rows)?;
            }
            let tail = build_segment(&self.ground, table.schema(), &rest)?;
            segments.push(tail.clone());
            new.push(tail);
        }
        self.check_keys(&table, &RowIds::default(), added)?;
        let change = edit::append(&table, removed, segments)?;
        self.created(&new)?;
        self.put_table(change.table, change.dropped);
        Ok(rows)
    }

    /// The key columns of rows that are appended, for each constraint.
    fn added_keys(
        &self,
        table: &Table,
        segments: &[Arc<Segment>],
        rest: &[RecordBatch],
    ) -> Result<Vec<(usize, Vec<Vec<ArrayRef>>)>> {
        let of = |(index, constraint): (usize, &Constraint)| {
            let mut keys = unique::keys_of(segments, constraint)?;
            for batch in rest {
                let columns = constraint.columns().iter().map(|c| batch.column(*c).clone());
                keys.push(columns.collect());
            }
            Ok((index, keys))
        };
        table.constraints().iter().enumerate().map(of).collect()
    }

    fn check_keys(
        &mut self,
        before: &Table,
        removed: &RowIds,
        added: Vec<(usize, Vec<Vec<ArrayRef>>)>,
    ) -> Result<()> {
        if added.is_empty() {
            return Ok(());
        }
        self.writer_mut()?.unique.apply(&unique::Change { before, removed, added })
    }

    /// Appends batches. Columns by position; types must be equal to the table's.
    pub fn append(&mut self, schema: &str, table: &str, batches: &[RecordBatch]) -> Result<u64> {
        let writer = self.writer(schema, table)?;
        let mut part = writer.part(0)?;
        batches.iter().try_for_each(|b| part.push(b.clone()))?;
        part.finish()?;
        self.adopt(writer)
    }

    /// Deletes rows of the present [`WriteTxn::view`] of a table. Returns how many were live. Row
    /// ids of other rows stay valid until rows are appended or the transaction ends.
    pub fn delete_rows(&mut self, schema: &str, table: &str, rows: &RowIds) -> Result<u64> {
        let table = self.table_of(schema, table)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let segments = table.segments()?;
        let mut changes = BTreeMap::new();
        let (mut deleted, mut new) = (0, Vec::new());
        for (at, ids) in rows.by_segment() {
            let segment = segment_at(&segments, at)?;
            let bits = with_deleted(segment, ids)?;
            let before = segment.rows() - segment.live_rows();
            let deletion = Deletion::store(&self.ground, &bits)?;
            deleted += (deletion.count - before) as u64;
            new.push(deletion.blocks.clone());
            let schema = table.schema().clone();
            let next = segment.with(schema, segment.chunks()?, Some(deletion));
            changes.insert(at as usize, Some(next));
        }
        let none = |index| (index, Vec::new());
        let added = (0..table.constraints().len()).map(none).collect();
        self.check_keys(&table, rows, added)?;
        let change = edit::replace(&table, changes)?;
        self.effects.created.extend(new);
        self.thinned.insert(table.id());
        self.put_table(change.table, change.dropped);
        Ok(deleted)
    }

    /// Deletes all rows at once. Returns how many there were.
    pub fn truncate(&mut self, schema: &str, table: &str) -> Result<u64> {
        let table = self.table_of(schema, table)?;
        let dropped = edit::all_blocks(&table)?;
        self.writer_mut()?.unique.forget(table.id());
        self.put_table(table.with_pages(Vec::new()), dropped);
        Ok(table.row_count())
    }

    /// Gives the rows `rows` of the present view new values: `values` has one column for each of
    /// `columns`, its rows in the order of `rows` (ascending), in any number of batches. Row order
    /// and row ids stay. Keys are checked on the state after the whole call.
    pub fn update_rows(
        &mut self,
        schema: &str,
        table: &str,
        rows: &RowIds,
        columns: &[usize],
        values: &[RecordBatch],
    ) -> Result<u64> {
        let table = self.table_of(schema, table)?;
        if rows.is_empty() || columns.is_empty() {
            return Ok(rows.len() as u64);
        }
        let values = update_values(&table, rows, columns, values)?;
        self.tests(&table)?.changed(&table, rows, columns, &values)?;
        let segments = table.segments()?;
        let mut work = Vec::new();
        let mut rest = values.as_slice();
        let mut first = 0;
        for (at, ids) in rows.by_segment() {
            let segment = segment_at(&segments, at)?;
            work.push((at, segment, ids, next_rows(&mut rest, &mut first, ids.len())));
        }
        let ground = &self.ground;
        let changed = in_parallel(&work, |(at, segment, ids, new)| {
            let mut chunks = segment.chunks()?;
            let mut made = Vec::new();
            let places: UInt32Array = ids.iter().map(|id| id.row()).collect::<Vec<_>>().into();
            if ids.last().is_some_and(|id| id.row() as usize >= segment.rows()) {
                return Err(Error::internal("a row outside its segment"));
            }
            for (column, new) in columns.iter().zip(new) {
                let (chunk, blocks) = patch::changed(ground, &chunks[*column], &places, new)?;
                made.push(blocks);
                chunks[*column] = Arc::new(chunk);
            }
            let deletion = segment.deletion().cloned();
            let next = segment.with(table.schema().clone(), chunks, deletion);
            Ok((*at as usize, next, made))
        })?;
        let touched =
            |(_, c): &(usize, &Constraint)| c.columns().iter().any(|c| columns.contains(c));
        let constraints = table.constraints().iter().enumerate().filter(touched);
        let mut added = Vec::new();
        for (index, constraint) in constraints {
            added.push((index, self.updated_keys(&table, constraint, rows, columns, &values)?));
        }
        self.check_keys(&table, rows, added)?;
        let (mut changes, mut created) = (BTreeMap::new(), Vec::new());
        for (at, segment, made) in changed {
            changes.insert(at, Some(segment));
            created.extend(made);
        }
        let change = edit::replace(&table, changes)?;
        self.effects.created.extend(created);
        self.put_table(change.table, change.dropped);
        Ok(rows.len() as u64)
    }

    /// The keys that updated rows have afterwards.
    fn updated_keys(
        &self,
        table: &Table,
        constraint: &Constraint,
        rows: &RowIds,
        columns: &[usize],
        values: &[Vec<ArrayRef>],
    ) -> Result<Vec<Vec<ArrayRef>>> {
        let old = table.take(rows.as_slice(), constraint.columns())?;
        let key = constraint.columns().iter().enumerate().map(|(i, column)| {
            match columns.iter().position(|c| c == column) {
                Some(new) => whole_column(values, new),
                None => Ok(old.column(i).clone()),
            }
        });
        Ok(vec![key.collect::<Result<_>>()?])
    }

    /// Remembers the present state.
    pub fn savepoint(&mut self) -> Savepoint {
        let serial = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push(serial);
        let marks = Marks {
            created: self.effects.created.len(),
            dropped: self.effects.dropped.len(),
            shared: self.effects.shared.len(),
            ranges: self.effects.ranges.len(),
            unique: self.writer.as_ref().map_or(0, |w| w.unique.mark()),
        };
        Savepoint { serial, current: self.current.clone(), marks }
    }

    /// Undoes everything since `savepoint`, which stays usable; later savepoints do not.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let position = self.savepoints.binary_search(&savepoint.serial);
        let Ok(position) = position else {
            return Err(Error::transaction("the savepoint does not exist any more"));
        };
        self.savepoints.truncate(position + 1);
        let marks = savepoint.marks;
        self.writer_mut()?.unique.rollback(marks.unique);
        self.current = savepoint.current.clone();
        self.effects.created.truncate(marks.created);
        self.effects.dropped.truncate(marks.dropped);
        self.effects.shared.truncate(marks.shared);
        for range in self.effects.ranges.drain(marks.ranges..) {
            self.ground.space.forget_foreign(range.loc.offset);
        }
        Ok(())
    }

    /// Makes the changes the latest state of the store, and for named databases lasting (a crash of
    /// this process does not lose them). Returns the epoch when something was published.
    pub fn commit(mut self) -> Result<Option<u64>> {
        if Arc::ptr_eq(&self.base, &self.current) {
            return Ok(None);
        }
        self.tidy()?;
        let ended = || Error::internal("the transaction has ended");
        let mut writer = self.writer.take().ok_or_else(ended)?;
        let result = writer.commit(&self.ground, &self.base, self.current.clone(), &self.effects);
        match result {
            Ok((catalog, epoch)) => {
                writer.unique.commit();
                self.base = catalog.clone();
                self.current = catalog.clone();
                self.store.install(catalog);
                // Nobody else holds what was dropped: it can be freed.
                self.effects = Effects::default();
                writer.prepare_share(&self.ground, &self.current);
                self.store.give_back(writer);
                Ok(epoch)
            }
            Err(error) => {
                self.writer = Some(writer);
                Err(error)
            }
        }
    }

    /// Removes segments without live rows, and rewrites those with few.
    fn tidy(&mut self) -> Result<()> {
        let thinned = std::mem::take(&mut self.thinned);
        let all: Vec<(Arc<str>, Arc<str>)> = self
            .current
            .entries()
            .filter(|(_, _, entry)| thinned.contains(&entry.id))
            .map(|(schema, name, _)| (schema.clone(), name.clone()))
            .collect();
        for (schema, name) in all {
            let table = self.table_of(&schema, &name)?;
            self.compact(&table, |s| Ok(s.live_rows() * 4 <= s.rows()))?;
        }
        Ok(())
    }

    /// Rewrites the segments that `choose` picks without their deleted rows; empty ones go.
    pub(super) fn compact(
        &mut self,
        table: &Table,
        choose: impl Fn(&Segment) -> Result<bool>,
    ) -> Result<()> {
        let (mut changes, mut new) = (BTreeMap::new(), Vec::new());
        for (at, segment) in table.segments()?.iter().enumerate() {
            if segment.live_rows() == 0 {
                changes.insert(at, None);
            } else if segment.deletion().is_some() && choose(segment)? {
                let batch = segment.live_batch()?;
                let small = build_segment(&self.ground, table.schema(), &[batch])?;
                new.push(small.clone());
                changes.insert(at, Some(small));
            }
        }
        if !changes.is_empty() {
            let change = edit::replace(table, changes)?;
            self.created(&new)?;
            self.put_table(change.table, change.dropped);
        }
        Ok(())
    }

    /// Forgets the changes.
    pub fn rollback(self) {
        drop(self);
    }
}

impl Drop for WriteTxn {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        writer.unique.rollback(0);
        for range in self.effects.ranges.drain(..) {
            self.ground.space.forget_foreign(range.loc.offset);
        }
        self.store.give_back(writer);
    }
}

/// The columns of the batches of new values, checked.
fn update_values(
    table: &Table,
    rows: &RowIds,
    columns: &[usize],
    values: &[RecordBatch],
) -> Result<Vec<Vec<ArrayRef>>> {
    if columns.iter().any(|c| *c >= table.columns().len())
        || values.iter().any(|batch| batch.num_columns() != columns.len())
    {
        return Err(Error::internal("values for other columns than those to update"));
    }
    let given: usize = values.iter().map(RecordBatch::num_rows).sum();
    if given != rows.len() {
        return Err(Error::internal(format!("{given} values for {} rows", rows.len())));
    }
    let batches = values.iter().filter(|batch| batch.num_rows() > 0);
    batches.map(|batch| conform_columns(table, columns, batch.columns())).collect()
}

/// A column of all batches.
pub(super) fn whole_column(values: &[Vec<ArrayRef>], column: usize) -> Result<ArrayRef> {
    let pieces: Vec<&dyn Array> = values.iter().map(|batch| batch[column].as_ref()).collect();
    Ok(concat(&pieces)?)
}

/// The next `count` rows of batches, `first` rows of the first of which are used up: for each
/// column the pieces.
fn next_rows(rest: &mut &[Vec<ArrayRef>], first: &mut usize, count: usize) -> Vec<Vec<ArrayRef>> {
    let width = rest.first().map_or(0, Vec::len);
    let mut pieces = vec![Vec::new(); width];
    let mut left = count;
    while left > 0
        && let Some(batch) = rest.first()
    {
        let rows = batch.first().map_or(0, |column| column.len());
        let taken = left.min(rows - *first);
        for (pieces, column) in pieces.iter_mut().zip(batch) {
            pieces.push(column.slice(*first, taken));
        }
        (left, *first) = (left - taken, *first + taken);
        if *first == rows {
            (*rest, *first) = (&rest[1..], 0);
        }
    }
    assert_eq!(left, 0, "a value for each row");
    pieces
}

fn segment_at(segments: &[Arc<Segment>], at: u32) -> Result<&Arc<Segment>> {
    segments.get(at as usize).ok_or_else(|| Error::internal(format!("no segment {at}")))
}

/// The deletion bitmap of a segment after deleting `ids` too.
fn with_deleted(segment: &Segment, ids: &[RowId]) -> Result<BooleanBuffer> {
    let mut bits = BooleanBufferBuilder::new(segment.rows());
    match segment.deleted() {
        Some(old) => bits.append_buffer(old),
        None => bits.append_n(segment.rows(), false),
    }
    for id in ids {
        let row = id.row() as usize;
        if row >= segment.rows() {
            return Err(Error::internal(format!("row {row} of a segment of {}", segment.rows())));
        }
        bits.set_bit(row, true);
    }
    Ok(bits.finish())
}

/// Takes small segments at the end of a table into `rest`, so that small appends do not make many
/// segments: the rows copied are at most twice those that are new, or few. Returns how many
/// segments are to be removed.
fn merge_tail(table: &Table, rest: &mut Vec<RecordBatch>, rest_rows: usize) -> Result<usize> {
    let Some(page) = table.pages.last() else { return Ok(0) };
    let (mut removed, mut rows) = (0, rest_rows);
    for segment in page.segments()?.iter().rev() {
        let small = segment.live_rows() <= SMALL_SEGMENT_ROWS.max(2 * rows);
        if !small || rows + segment.live_rows() > SEGMENT_ROWS {
            break;
        }
        rows += segment.live_rows();
        rest.insert(0, segment.live_batch()?);
        removed += 1;
    }
    rest.retain(|batch| batch.num_rows() > 0);
    Ok(removed)
}

/// Applies `f` to all items on as many threads as there are processors; the results in order.
pub(super) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    f: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    // Asking for the number of processors reads files of the control group.
    if items.len() <= 1 {
        return items.iter().map(f).collect();
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(items.len());
    let (next, f) = (std::sync::atomic::AtomicUsize::new(0), &f);
    let run = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(item) = items.get(at) else { return Ok(done) };
            done.push((at, f(item)?));
        }
    };
    let parts: Vec<Result<Vec<(usize, R)>>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let join = |h: std::thread::ScopedJoinHandle<'_, _>| {
            h.join().unwrap_or_else(|_| Err(Error::internal("a thread panicked")))
        };
        handles.into_iter().map(join).collect()
    });
    let mut all = Vec::with_capacity(items.len());
    for part in parts {
        all.extend(part?);
    }
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, r)| r).collect())
}

/// `rows` copies of the one value in `value`.
pub(super) fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    Ok(take(value.as_ref(), &UInt32Array::from(vec![0; rows]), None)?)
}

/// How many tables use each chunk that more than one uses, by its key.
pub(super) type SharedCounts = HashMap<u64, u32>;
