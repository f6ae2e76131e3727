//! Statements of a transaction that change rows: appending, updating, deleting.
//!
//! Segments are never changed: a statement makes new ones from the rows it is given, or from an old
//! segment and what is different (see [`update`] and [`Deletion`]), and puts a new version of the
//! table into the transaction's catalog. Keys and conditions are checked on the state after the
//! whole statement, before anything of it is in the catalog: a statement that fails has changed
//! nothing, and what it has made is dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use swingdb_common::error::{Error, Result};
use swingdb_common::uuid;

use crate::catalog::definition::Constraint;
use crate::catalog::edit;
use crate::catalog::table::Table;
use crate::keys::locate::Wanted;
use crate::keys::unique;
use crate::segments::parallel::{in_parallel, whole_column};
use crate::segments::rowids::{RowId, RowIds, SEGMENT_ROWS};
use crate::segments::segment::{Deletion, Segment};
use crate::segments::update;
use crate::txn::generated::Changed;
use crate::txn::transaction::WriteTxn;
use crate::txn::writer::{TableWriter, build_segment, conform_columns};

/// A last segment of at most this many rows is always put together with the rows appended next.
const SMALL_SEGMENT_ROWS: usize = 1024;

/// Changes of fewer rows are made by one thread: others would be woken for nothing.
const MANY_ROWS: usize = 4096;

impl WriteTxn {
    /// The live row with each of the keys (`None`: there is none, or the key has a NULL). `keys`
    /// have the columns of constraint `constraint` of the table, in its order. For ON CONFLICT.
    pub fn find_keys(
        &mut self,
        schema: &str,
        table: &str,
        constraint: usize,
        keys: &[RecordBatch],
    ) -> Result<Vec<Option<RowId>>> {
        let table = self.table_of(schema, table)?;
        let Some(key) = table.constraints().get(constraint) else {
            return Err(Error::internal("a key that the table does not have"));
        };
        // In the form that the table has them; a NULL is no key.
        let canonical = |(at, column): (&usize, &ArrayRef)| {
            let field = table.schema().field(*at);
            match uuid::is_marked(field) && column.data_type() == field.data_type() {
                true => uuid::canonical(column, false),
                false => Ok(column.clone()),
            }
        };
        let columns = |keys: &RecordBatch| {
            key.columns().iter().zip(keys.columns()).map(canonical).collect::<Result<Vec<_>>>()
        };
        let keys = &keys.iter().map(columns).collect::<Result<Vec<_>>>()?;
        let (columns, threads, memory) = (key.columns(), self.threads, &self.memory.clone());
        let wanted = Wanted { columns, keys, threads, memory };
        self.writer_mut()?.unique.find(&table, constraint, &wanted)
    }

    /// A writer for appending to a table from many threads. Nothing of it is in [`WriteTxn::view`]
    /// before [`WriteTxn::adopt`].
    pub fn writer(&self, schema: &str, table: &str) -> Result<TableWriter> {
        let table = self.table_of(schema, table)?;
        let (tests, makers) = (self.tests(&table)?, self.makers(&table)?);
        Ok(TableWriter::new(self.ground.clone(), table, tests, makers))
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
        let (segments_added, rest_added) = (segments.clone(), rest.clone());
        let mut removed = 0;
        if !rest.is_empty() {
            if segments.is_empty() {
                removed = merge_tail(&table, &mut rest, rest_rows)?;
            }
            let tail = build_segment(&self.ground, table.schema(), &rest)?;
            segments.push(tail.clone());
            new.push(tail);
        }
        let foreign = self.added_references(&table, &segments_added, &rest_added)?;
        let append = |txn: &mut Self| {
            txn.check_keys(&table, &RowIds::default(), added)?;
            let change = edit::append(&table, removed, segments)?;
            txn.created(&new)?;
            txn.put_table(change.table, change.dropped)?;
            Ok(rows)
        };
        if foreign.is_empty() {
            return append(self);
        }
        self.with_references(append, |txn| {
            foreign.iter().try_for_each(|columns| {
                let column = |c: usize| {
                    let found = columns.iter().find(|(known, _)| *known == c);
                    let missing = || Error::internal("a foreign key without its column");
                    found.map(|(_, values)| values.clone()).ok_or_else(missing)
                };
                txn.check_parents(&table, None, &column)
            })
        })
    }

    /// The columns of foreign keys of rows that are appended, one list for each piece of them.
    fn added_references(
        &self,
        table: &Table,
        segments: &[Arc<Segment>],
        rest: &[RecordBatch],
    ) -> Result<Vec<Vec<(usize, ArrayRef)>>> {
        let keys = &table.notes().foreign_keys;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let columns = || keys.iter().flat_map(|key| key.columns.iter().copied());
        let of_segment = |segment: &Arc<Segment>| {
            columns().map(|c| Ok((c, segment.array(c)?))).collect::<Result<Vec<_>>>()
        };
        let mut all = segments.iter().map(of_segment).collect::<Result<Vec<_>>>()?;
        for batch in rest {
            all.push(columns().map(|c| (c, batch.column(c).clone())).collect());
        }
        Ok(all)
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
        let (threads, memory) = (self.threads, &self.memory.clone());
        let change = unique::Change { before, removed, added, threads, memory };
        self.writer_mut()?.unique.apply(&change)
    }

    fn threads_for(&self, rows: usize) -> usize {
        if rows < MANY_ROWS { 1 } else { self.threads }
    }

    /// Deletes rows of the present [`WriteTxn::view`] of a table. Returns how many were live. Row
    /// ids of other rows stay valid until rows are appended or the transaction ends.
    pub fn delete_rows(&mut self, schema: &str, table: &str, rows: &RowIds) -> Result<u64> {
        let table = self.table_of(schema, table)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let segments = table.segments()?;
        let work: Vec<(u32, &[RowId])> = rows.by_segment().collect();
        let ground = &self.ground;
        let made = in_parallel(self.threads_for(rows.len()), &work, |(at, ids)| {
            let segment = segment_at(&segments, *at)?;
            let deletion = Deletion::store(ground, &with_deleted(segment, ids)?)?;
            let before = segment.rows() - segment.live_rows();
            let (deleted, blocks) = (deletion.count - before, deletion.blocks.clone());
            let schema = table.schema().clone();
            Ok((deleted, blocks, segment.with(schema, segment.chunks()?, Some(deletion))))
        })?;
        let mut changes = BTreeMap::new();
        let (mut deleted, mut new) = (0, Vec::new());
        for ((at, _), (count, blocks, next)) in work.iter().zip(made) {
            deleted += count as u64;
            new.push(blocks);
            changes.insert(*at as usize, Some(next));
        }
        let none = |index| (index, Vec::new());
        let added = (0..table.constraints().len()).map(none).collect();
        let delete = |txn: &mut Self| {
            txn.check_keys(&table, rows, added)?;
            let change = edit::replace(&table, changes)?;
            txn.effects.created.extend(new);
            txn.thinned.insert(table.id());
            txn.put_table(change.table, change.dropped)?;
            Ok(deleted)
        };
        if !self.has_references(&table)? {
            return delete(self);
        }
        self.with_references(delete, |txn| txn.check_children(&table, rows, None))
    }

    /// Deletes all rows at once. Returns how many there were.
    pub fn truncate_table(&mut self, schema: &str, table: &str) -> Result<u64> {
        let table = self.table_of(schema, table)?;
        self.check_emptied(&table)?;
        let dropped = edit::all_blocks(&table)?;
        self.writer_mut()?.unique.forget(table.id());
        self.put_table(table.with_pages(Vec::new()), dropped)?;
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
        let Changed { columns, values } =
            self.makers(&table)?.changed(&table, rows, columns, values)?;
        let columns = columns.as_slice();
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
        let changed =
            in_parallel(self.threads_for(rows.len()), &work, |(at, segment, ids, new)| {
                let mut chunks = segment.chunks()?;
                let mut made = Vec::new();
                let places: UInt32Array = ids.iter().map(|id| id.row()).collect::<Vec<_>>().into();
                if ids.last().is_some_and(|id| id.row() as usize >= segment.rows()) {
                    return Err(Error::internal("a row outside its segment"));
                }
                for (column, new) in columns.iter().zip(new) {
                    let (chunk, blocks) = update::changed(ground, &chunks[*column], &places, new)?;
                    made.push(blocks);
                    chunks[*column] = Arc::new(chunk);
                }
                let deletion = segment.deletion().cloned();
                let next = segment.with(table.schema().clone(), chunks, deletion);
                Ok((*at as usize, next, made))
            })?;
        let added = self.all_updated_keys(&table, rows, columns, &values)?;
        let keys = added.iter().flat_map(|(_, batches)| batches).flatten();
        let _keys = self.memory.part(keys.map(|keys| keys.get_array_memory_size()).sum())?;
        let update = |txn: &mut Self| {
            txn.check_keys(&table, rows, added)?;
            let (mut changes, mut created) = (BTreeMap::new(), Vec::new());
            for (at, segment, made) in changed {
                changes.insert(at, Some(segment));
                created.extend(made);
            }
            let change = edit::replace(&table, changes)?;
            txn.effects.created.extend(created);
            txn.put_table(change.table, change.dropped)?;
            Ok(rows.len() as u64)
        };
        if !self.has_references(&table)? {
            return update(self);
        }
        self.with_references(update, |txn| {
            let column = |column: usize| match columns.iter().position(|c| *c == column) {
                Some(new) => whole_column(&values, new),
                None => Ok(table.take(rows.as_slice(), &[column])?.column(0).clone()),
            };
            txn.check_parents(&table, Some(columns), &column)?;
            txn.check_children(&table, rows, Some(columns))
        })
    }

    /// The keys that updated rows have afterwards, of each constraint that is concerned.
    fn all_updated_keys(
        &self,
        table: &Table,
        rows: &RowIds,
        columns: &[usize],
        values: &[Vec<ArrayRef>],
    ) -> Result<Vec<(usize, Vec<Vec<ArrayRef>>)>> {
        let touched =
            |(_, c): &(usize, &Constraint)| c.columns().iter().any(|c| columns.contains(c));
        let constraints = table.constraints().iter().enumerate().filter(touched);
        let of = |(index, constraint): (usize, &Constraint)| {
            Ok((index, self.updated_keys(table, constraint, rows, columns, values)?))
        };
        constraints.map(of).collect()
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

    /// Rewrites the segments that `choose` picks without their deleted rows; empty ones go.
    pub(crate) fn compact(
        &mut self,
        table: &Table,
        choose: impl Fn(&Segment) -> Result<bool>,
    ) -> Result<()> {
        let segments = table.segments()?;
        let (mut changes, mut chosen) = (BTreeMap::new(), Vec::new());
        for (at, segment) in segments.iter().enumerate() {
            if segment.live_rows() == 0 {
                changes.insert(at, None);
            } else if segment.deletion().is_some() && choose(segment)? {
                chosen.push((at, segment));
            }
        }
        let ground = &self.ground;
        let new = in_parallel(self.threads, &chosen, |(_, segment)| {
            build_segment(ground, table.schema(), &[segment.live_batch()?])
        })?;
        for ((at, _), small) in chosen.iter().zip(&new) {
            changes.insert(*at, Some(small.clone()));
        }
        if !changes.is_empty() {
            let change = edit::replace(table, changes)?;
            self.created(&new)?;
            self.put_table(change.table, change.dropped)?;
        }
        Ok(())
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
