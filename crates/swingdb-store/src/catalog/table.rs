//! One version of a table: its definition, and its segments by pages.
//!
//! A table's segments are listed in pages of the catalog, so that a change of one segment writes
//! one page, not the whole list, and so that opening a large table reads only what is used. Pages,
//! like everything here, never change: a new version of a table shares all pages that are not
//! concerned with the old one.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::go_on;

use crate::catalog::definition::{ColumnDef, Constraint, Definition};
use crate::catalog::notes::TableNotes;
use crate::catalog::page::Page;
use crate::catalog::rules::Check;
use crate::codec::{Kind, Reader, Writer};
use crate::memory::record::{read_loc, record_bytes, write_loc};
use crate::memory::space::{Blocks, Ground, Space};
use crate::segments::column_stats::{ColumnStats, Merged};
use crate::segments::rowids::RowId;
use crate::segments::segment::Segment;

/// One immutable version of a table.
#[derive(Debug)]
pub struct Table {
    pub(crate) id: u64,
    pub(crate) schema_name: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) space: Arc<Space>,
    pub(crate) pages: Vec<Arc<Page>>,
    segments: OnceLock<Arc<[Arc<Segment>]>>,
    stats: OnceLock<Vec<OnceLock<ColumnStats>>>,
}

impl Table {
    pub(crate) fn new(
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
    pub(crate) fn with_pages(&self, pages: Vec<Arc<Page>>) -> Arc<Self> {
        let names = (self.schema_name.clone(), self.name.clone());
        Self::new(self.id, names, self.definition.clone(), self.space.clone(), pages)
    }

    /// Writes its record and those of its pages that have none.
    pub(crate) fn persist(
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
    pub(crate) fn read(
        id: u64,
        names: (Arc<str>, Arc<str>),
        space: &Arc<Space>,
        record: &Arc<Blocks>,
    ) -> Result<Arc<Self>> {
        let mut r = Reader::record(record_bytes(record)?, Kind::Table)?;
        let mut definition = Definition::read(&mut r)?;
        let pages = r.list(|r| {
            let record = Blocks::committed(space, vec![read_loc(r)?])?;
            Page::of_record(space, &definition.schema, record, r)
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

    /// Whether the values of a column are computed from others.
    pub fn is_generated(&self, column: usize) -> bool {
        self.notes().generated.contains_key(&column)
    }

    /// The columns that statements give values for: all that are not generated.
    pub fn given_columns(&self) -> Vec<usize> {
        (0..self.columns().len()).filter(|column| !self.is_generated(*column)).collect()
    }

    /// Whether nothing of it is in the store on a disk alone, as far as can be told at once.
    pub fn is_in_memory(&self) -> bool {
        !self.space.is_cold()
    }
}
