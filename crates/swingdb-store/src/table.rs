//! One version of a table: its definition, and its segments by pages.
//!
//! A table's segments are listed in pages of the catalog, so that a change of one segment writes
//! one page, not the whole list, and so that opening a large table reads only what is used. Pages,
//! like everything here, never change: a new version of a table shares all pages that are not
//! concerned with the old one.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parking_lot::Mutex;
use swing_tier::RecordId;
use swingdb_common::enums::EnumType;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::go_on;
use swingdb_common::uuid;

use super::checks::Check;
use super::codec::{Kind, Reader, Writer};
use super::directory::{self, Directory};
use super::notes::TableNotes;
use super::raw::{self, Loc};
use super::read::{read_loc, write_loc};
use super::rowids::RowId;
use super::segment::{ColumnStats, Merged, SEGMENT_ROWS, Segment};
use super::space::{Blocks, Ground, Space, corrupt};

/// Most segments of a page.
pub(super) const MAX_PAGE_SEGMENTS: usize = 64;
/// A page should stay below this, so that it lies in the zone of small extents.
const PAGE_TARGET_BYTES: usize = 24 << 10;
/// About what one column of one segment takes in a page.
const CHUNK_RECORD_BYTES: usize = 116;
/// Most columns of a table.
pub(super) const MAX_COLUMNS: usize = 4096;

/// A column's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name.
    pub name: String,
    /// Arrow type.
    pub data_type: DataType,
    /// Whether it may hold NULLs.
    pub nullable: bool,
    /// Whether its texts are UUIDs, which the store keeps in one form.
    pub is_uuid: bool,
    /// The ENUM of which its texts are values, which the store checks.
    pub enumeration: Option<EnumType>,
    /// The SQL expression of its default value.
    pub default_sql: Option<String>,
}

impl ColumnDef {
    /// The column as a field of a schema.
    pub fn field(&self) -> Field {
        let field = Field::new(&self.name, self.data_type.clone(), self.nullable);
        match &self.enumeration {
            Some(values) => values.marked(field),
            None if self.is_uuid => uuid::marked(field),
            None => field,
        }
    }
}

/// A rule over columns (indices into [`Table::columns`]). NULLs are distinct; the columns of a
/// primary key are NOT NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// The primary key.
    Primary(Vec<usize>),
    /// A UNIQUE constraint.
    Unique(Vec<usize>),
}

impl Constraint {
    /// The columns of the key.
    pub fn columns(&self) -> &[usize] {
        match self {
            Self::Primary(columns) | Self::Unique(columns) => columns,
        }
    }
}

/// What a table is made of, for `CREATE TABLE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDef {
    /// Schema it belongs to.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns in order.
    pub columns: Vec<ColumnDef>,
    /// Keys.
    pub constraints: Vec<Constraint>,
}

/// Columns, keys and checks, shared by all versions of a table that have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Definition {
    pub schema: SchemaRef,
    pub columns: Vec<ColumnDef>,
    pub constraints: Vec<Constraint>,
    pub checks: Vec<Check>,
    pub notes: TableNotes,
}

impl Definition {
    pub fn new(columns: Vec<ColumnDef>, constraints: Vec<Constraint>, checks: Vec<Check>) -> Self {
        let fields = columns.iter().map(ColumnDef::field).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        Self { schema, columns, constraints, checks, notes: TableNotes::default() }
    }

    /// That of a copy of the table.
    pub fn of_copy(self: &Arc<Self>) -> Arc<Self> {
        match self.notes.indexes.is_empty() && self.notes.foreign_keys.is_empty() {
            true => self.clone(),
            false => Arc::new(Self::clone(self).with_notes(self.notes.of_copy())),
        }
    }

    /// The same with other notes.
    pub fn with_notes(self, notes: TableNotes) -> Self {
        Self { notes, ..self }
    }

    /// Writes all but the notes.
    pub fn write(&self, w: &mut Writer) {
        w.len(self.columns.len());
        for column in &self.columns {
            w.field(&column.field());
            w.option(column.default_sql.as_deref(), |w, sql| w.text(sql));
        }
        w.len(self.constraints.len());
        for constraint in &self.constraints {
            w.bool(matches!(constraint, Constraint::Primary(_)));
            w.len(constraint.columns().len());
            constraint.columns().iter().for_each(|c| w.len(*c));
        }
        w.len(self.checks.len());
        for check in &self.checks {
            w.option(check.name.as_deref(), |w, name| w.text(name));
            w.text(&check.sql);
            w.len(check.columns.len());
            check.columns.iter().for_each(|c| w.len(*c));
        }
    }

    pub fn read(r: &mut Reader<'_>) -> Result<Self> {
        let columns = r.list(|r| {
            let field = r.field(0)?;
            let default_sql = r.option(|r| Ok(r.text()?.to_owned()))?;
            let (data_type, nullable) = (field.data_type().clone(), field.is_nullable());
            let (is_uuid, enumeration) = (uuid::is_marked(&field), EnumType::of_field(&field));
            let name = field.name().clone();
            Ok(ColumnDef { name, data_type, nullable, is_uuid, enumeration, default_sql })
        })?;
        if columns.is_empty() || columns.len() > MAX_COLUMNS {
            return Err(corrupt(format!("a table of {} columns", columns.len())));
        }
        let last = columns.len() as u64 - 1;
        let constraints = r.list(|r| {
            let primary = r.bool()?;
            let columns = r.list(|r| r.bounded(last, "a column"))?;
            Ok(if primary { Constraint::Primary(columns) } else { Constraint::Unique(columns) })
        })?;
        let checks = r.list(|r| {
            let name = r.option(|r| Ok(r.text()?.to_owned()))?;
            let sql = r.text()?.to_owned();
            let columns = r.list(|r| r.bounded(last, "a column"))?;
            Ok(Check { name, sql, columns })
        })?;
        Ok(Self::new(columns, constraints, checks))
    }
}

/// Some neighbouring segments of a table; shared by all versions of the table that have them.
#[derive(Debug)]
pub struct Page {
    /// How many segments.
    pub segments: usize,
    /// Their rows, with those that are deleted.
    pub rows: u64,
    /// Their rows that are not deleted.
    pub live: u64,
    /// Bytes of memory.
    pub bytes: u64,
    space: Arc<Space>,
    schema: SchemaRef,
    record: OnceLock<Arc<Blocks>>,
    decoded: OnceLock<Arc<[Arc<Segment>]>>,
    /// The record in the store on a disk.
    stored: Mutex<Option<RecordId>>,
    /// Statistics of each column over the page.
    stats: Box<[OnceLock<Merged>]>,
}

fn no_stats(schema: &SchemaRef) -> Box<[OnceLock<Merged>]> {
    schema.fields().iter().map(|_| OnceLock::new()).collect()
}

impl Page {
    /// A page that is not in the area yet.
    pub(super) fn new(
        space: &Arc<Space>,
        schema: &SchemaRef,
        segments: Vec<Arc<Segment>>,
    ) -> Arc<Self> {
        let sum = |f: fn(&Segment) -> u64| segments.iter().map(|s| f(s)).sum();
        Arc::new(Self {
            segments: segments.len(),
            rows: sum(|s| s.rows() as u64),
            live: sum(|s| s.live_rows() as u64),
            bytes: sum(|s| s.bytes()),
            space: space.clone(),
            schema: schema.clone(),
            record: OnceLock::new(),
            decoded: OnceLock::from(Arc::from(segments)),
            stored: Mutex::default(),
            stats: no_stats(schema),
        })
    }

    /// Its segments, read with the first use.
    pub(super) fn segments(&self) -> Result<&Arc<[Arc<Segment>]>> {
        if let Some(decoded) = self.decoded.get() {
            return Ok(decoded);
        }
        let record = self.record.get();
        let record = record.ok_or_else(|| Error::internal("a page that is nowhere"))?;
        let directory = Directory::open(&self.space, record, self.schema.fields().len())?;
        if directory.segments() != self.segments {
            return Err(corrupt("a page with other segments than its table says"));
        }
        let segments = Segment::of_page(&self.schema, &directory)?;
        let (rows, live): (u64, u64) = segments
            .iter()
            .fold((0, 0), |(r, l), s| (r + s.rows() as u64, l + s.live_rows() as u64));
        if (segments.len(), rows, live) != (self.segments, self.rows, self.live) {
            return Err(corrupt("a page with other rows than its table says"));
        }
        // Whoever comes first wins; the copy of the other is dropped here, unused.
        Ok(self.decoded.get_or_init(|| segments.into()))
    }

    /// Statistics of a column, read with the first use.
    fn merged(&self, column: usize) -> Result<&Merged> {
        let slot = self.stats.get(column).ok_or_else(|| Error::internal("no such column"))?;
        if let Some(stats) = slot.get() {
            return Ok(stats);
        }
        let stats = Merged::of(self.segments()?, column)?;
        Ok(slot.get_or_init(|| stats))
    }

    /// Statistics of a column over all its segments.
    pub fn column_stats(&self, column: usize) -> Result<ColumnStats> {
        let stats = self.merged(column).map_err(|e| self.space.named(e))?.clone();
        Ok(stats.finish(self.schema.field(column).data_type()))
    }

    /// As [`Page::segments`], with the name of the database in an error.
    pub fn named_segments(&self) -> Result<&Arc<[Arc<Segment>]>> {
        self.segments().map_err(|e| self.space.named(e))
    }

    /// Its record in the area, when it has one.
    pub(super) fn record(&self) -> Option<&Arc<Blocks>> {
        self.record.get()
    }

    /// Its record in the store on a disk, when it is there.
    pub(super) fn stored(&self) -> Option<RecordId> {
        *self.stored.lock()
    }

    /// Notes its record in the store.
    pub(super) fn set_stored(&self, record: Option<RecordId>) {
        *self.stored.lock() = record;
    }

    /// Writes its record when it has none.
    fn persist(&self, ground: &Ground, written: &mut Vec<Arc<Blocks>>) -> Result<Loc> {
        if self.record.get().is_none() {
            go_on()?;
            let record = directory::encode(self.schema.fields().len(), self.segments()?)?;
            let blocks = ground.store(&record)?;
            written.push(blocks.clone());
            // Only the holder of the writer's slot persists: nobody else can have set it.
            let _ = self.record.set(blocks);
        }
        record_loc(self.record.get())
    }
}

/// How many segments a page of a table with this many columns has.
pub(super) fn page_segments(columns: usize) -> usize {
    (PAGE_TARGET_BYTES / (columns.max(1) * CHUNK_RECORD_BYTES)).clamp(1, MAX_PAGE_SEGMENTS)
}

/// The bytes of a record.
pub(super) fn record_bytes(record: &Arc<Blocks>) -> Result<&[u8]> {
    match record.listed() {
        [loc] => raw::bytes(record, *loc),
        _ => Err(corrupt("a record in several blocks")),
    }
}

/// Where a record is.
pub(super) fn record_loc(record: Option<&Arc<Blocks>>) -> Result<Loc> {
    match record.map(|r| r.listed()) {
        Some([loc]) => Ok(*loc),
        _ => Err(Error::internal("a record without a place")),
    }
}

/// One immutable version of a table.
#[derive(Debug)]
pub struct Table {
    pub(super) id: u64,
    pub(super) schema_name: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) definition: Arc<Definition>,
    pub(super) space: Arc<Space>,
    pub(super) pages: Vec<Arc<Page>>,
    segments: OnceLock<Arc<[Arc<Segment>]>>,
    stats: OnceLock<Vec<OnceLock<ColumnStats>>>,
}

impl Table {
    pub(super) fn new(
        id: u64,
        names: (Arc<str>, Arc<str>),
        definition: Arc<Definition>,
        space: Arc<Space>,
        pages: Vec<Arc<Page>>,
    ) -> Arc<Self> {
        let (schema_name, name) = names;
        let (segments, stats) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { id, schema_name, name, definition, space, pages, segments, stats })
    }

    /// Another version with these pages.
    pub(super) fn with_pages(&self, pages: Vec<Arc<Page>>) -> Arc<Self> {
        let names = (self.schema_name.clone(), self.name.clone());
        Self::new(self.id, names, self.definition.clone(), self.space.clone(), pages)
    }

    /// Writes its record and those of its pages that have none.
    pub(super) fn persist(
        &self,
        ground: &Ground,
        written: &mut Vec<Arc<Blocks>>,
    ) -> Result<Arc<Blocks>> {
        let mut w = Writer::record();
        self.definition.write(&mut w);
        w.len(self.pages.len());
        for page in &self.pages {
            write_loc(&mut w, page.persist(ground, written)?);
            w.len(page.segments);
            w.u64(page.rows);
            w.u64(page.live);
            w.u64(page.bytes);
        }
        self.definition.notes.write(&mut w);
        let blocks = ground.store(&w.finish(Kind::Table))?;
        written.push(blocks.clone());
        Ok(blocks)
    }

    /// Reads a table's record.
    pub(super) fn read(
        id: u64,
        names: (Arc<str>, Arc<str>),
        space: &Arc<Space>,
        record: &Arc<Blocks>,
    ) -> Result<Arc<Self>> {
        let mut r = Reader::record(record_bytes(record)?, Kind::Table)?;
        let mut definition = Definition::read(&mut r)?;
        let pages = r.list(|r| {
            let record = Blocks::committed(space, vec![read_loc(r)?])?;
            let segments = r.bounded(MAX_PAGE_SEGMENTS as u64, "segments of a page")?;
            let rows = r.bounded((segments * SEGMENT_ROWS) as u64, "rows of a page")? as u64;
            Ok(Arc::new(Page {
                segments,
                rows,
                live: r.bounded(rows, "live rows of a page")? as u64,
                bytes: r.u64()?,
                space: space.clone(),
                schema: definition.schema.clone(),
                record: OnceLock::from(record),
                decoded: OnceLock::new(),
                stored: Mutex::default(),
                stats: no_stats(&definition.schema),
            }))
        })?;
        definition.notes = TableNotes::read(&mut r, definition.columns.len())?;
        r.finish()?;
        Ok(Self::new(id, names, Arc::new(definition), space.clone(), pages))
    }

    /// Stays the same while the table exists, whatever its name.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Name of the schema it belongs to.
    pub fn schema_name(&self) -> &str {
        &self.schema_name
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Arrow schema of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.definition.schema
    }

    /// Column definitions.
    pub fn columns(&self) -> &[ColumnDef] {
        &self.definition.columns
    }

    /// Keys.
    pub fn constraints(&self) -> &[Constraint] {
        &self.definition.constraints
    }

    /// CHECK constraints.
    pub fn checks(&self) -> &[Check] {
        &self.definition.checks
    }

    /// Comments and indexes.
    pub fn notes(&self) -> &TableNotes {
        &self.definition.notes
    }

    /// Live rows, exactly.
    pub fn row_count(&self) -> u64 {
        self.pages.iter().map(|p| p.live).sum()
    }

    /// Bytes of column data.
    pub fn bytes(&self) -> u64 {
        self.pages.iter().fold(0, |sum, p| sum.saturating_add(p.bytes))
    }

    /// Number of segments.
    pub fn segment_count(&self) -> usize {
        self.pages.iter().map(|p| p.segments).sum()
    }

    /// The segments in row order.
    pub fn segments(&self) -> Result<Arc<[Arc<Segment>]>> {
        if let Some(segments) = self.segments.get() {
            return Ok(segments.clone());
        }
        let mut all = Vec::with_capacity(self.segment_count());
        for page in &self.pages {
            all.extend_from_slice(page.named_segments()?);
        }
        Ok(self.segments.get_or_init(|| all.into()).clone())
    }

    /// The pages in row order, each with the index of its first segment.
    pub fn pages(&self) -> impl Iterator<Item = (usize, &Arc<Page>)> {
        self.pages.iter().scan(0, |next, page| {
            let first = *next;
            *next += page.segments;
            Some((first, page))
        })
    }

    /// Page number `index`.
    pub fn page(&self, index: usize) -> Option<&Arc<Page>> {
        self.pages.get(index)
    }

    /// Index of a column.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns().iter().position(|c| c.name == name)
    }

    /// The rows `ids` in the given order, columns `projection`, copied into one batch.
    pub fn take(&self, ids: &[RowId], projection: &[usize]) -> Result<RecordBatch> {
        let segments = self.segments()?;
        let schema = Arc::new(self.schema().project(projection)?);
        let mut parts = Vec::new();
        for run in ids.chunk_by(|a, b| a.segment() == b.segment()) {
            go_on()?;
            let segment = segments.get(run[0].segment() as usize);
            let segment = segment.ok_or_else(|| Error::internal("a row of no segment"))?;
            if let Some(id) = run.iter().find(|id| id.row() as usize >= segment.rows()) {
                return Err(Error::internal(format!("row {id:?} of {}", segment.rows())));
            }
            let rows: UInt32Array = run.iter().map(|id| id.row()).collect::<Vec<_>>().into();
            let columns = projection.iter().map(|c| segment.array(*c));
            let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
            let options = arrow::array::RecordBatchOptions::new();
            let options = options.with_row_count(Some(segment.rows()));
            let all = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
            parts.push(take_record_batch(&all, &rows)?);
        }
        Ok(concat_batches(&schema, &parts)?)
    }

    /// Statistics of a column over all segments (computed once for a version). `sorted`: the whole
    /// table is in ascending order of this column.
    pub fn stats(&self, column: usize) -> Result<ColumnStats> {
        let columns = self.columns().len();
        let all = self.stats.get_or_init(|| (0..columns).map(|_| OnceLock::new()).collect());
        let slot = all.get(column).ok_or_else(|| Error::internal("no such column"))?;
        if let Some(stats) = slot.get() {
            return Ok(stats.clone());
        }
        let mut merged = Merged::default();
        for page in &self.pages {
            let part = page.merged(column).map_err(|e| self.space.named(e))?;
            merged.append(part.clone());
        }
        let stats = merged.finish(self.schema().field(column).data_type());
        Ok(slot.get_or_init(|| stats).clone())
    }
}
