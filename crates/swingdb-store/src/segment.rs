//! Segments: up to [`SEGMENT_ROWS`] rows of a table, immutable, one chunk of area memory a column.
//!
//! A segment of a published state begins as an entry of its page's [`Directory`]: its chunks are
//! decoded when somebody reads the column, and then shared by all versions of the table that have
//! the segment, so that whoever holds one pins the blocks (INV-DB-1).

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use swingdb_common::error::{Error, Result};

use super::codec::{Reader, Writer};
use super::directory::{Directory, Entry};
use super::patch::{MAX_PATCH_ROWS, Patch, patch_type};
use super::raw::{self, Loc};
use super::read::{Source, read_loc, write_loc};
use super::space::{Blocks, Ground, Space, corrupt};
use super::stats::{self, Bound, ChunkStats};

pub(super) use super::read::Node;

/// Most rows of a segment.
pub const SEGMENT_ROWS: usize = 131_072;
/// Most blocks a chunk may list: more than any type's buffers at the deepest nesting need.
const MAX_BLOCKS: u64 = 1 << 20;

/// Statistics of one column over a segment or a table. Deleted rows are included, so bounds may be
/// wider than the live rows and `null_count` larger when the segment has deleted rows; see `exact`.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnStats {
    /// Number of NULLs among the physical rows.
    pub null_count: u64,
    /// A lower bound of the values (total order for floats: -NaN < -inf < ... < inf < NaN); `None`
    /// for types without an order or when all values are NULL.
    pub min: Option<ScalarValue>,
    /// An upper bound of the values, as `min`.
    pub max: Option<ScalarValue>,
    /// `min` and `max` are values that really occur among the live rows and `null_count` counts
    /// live rows (no deleted rows, no truncated string).
    pub exact: bool,
    /// No NULLs and each value >= the one before it, in physical order.
    pub sorted: bool,
}

/// One column of a segment.
#[derive(Debug)]
pub(super) struct Chunk {
    pub blocks: Arc<Blocks>,
    pub data_type: DataType,
    pub node: Node,
    pub stats: ChunkStats,
    /// Rows that have other values than the array says.
    pub patch: Option<Arc<Patch>>,
    whole: OnceLock<ArrayRef>,
}

impl Chunk {
    pub fn new(blocks: Arc<Blocks>, data_type: DataType, node: Node, stats: ChunkStats) -> Self {
        Self { blocks, data_type, node, stats, patch: None, whole: OnceLock::new() }
    }

    /// The same array with a patch, in place of the one it has; `stats` are of both together.
    pub fn patched(&self, patch: Arc<Patch>, stats: ChunkStats) -> Self {
        assert!(patch.len() < self.node.len, "a patch of some rows");
        let (blocks, data_type) = (self.blocks.clone(), self.data_type.clone());
        Self::new(blocks, data_type, self.node.clone(), stats).with_patch(patch)
    }

    /// The same with a patch, whose rows its statistics take in.
    pub fn with_patch(self, patch: Arc<Patch>) -> Self {
        assert!(self.whole.get().is_none(), "nobody has read it without");
        Self { patch: Some(patch), ..self }
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.node.bytes() + self.patch.as_ref().map_or(0, |patch| patch.chunk().bytes())
    }

    /// Everything in the area that belongs to it.
    pub fn all_blocks(&self) -> impl Iterator<Item = &Arc<Blocks>> {
        std::iter::once(&self.blocks).chain(self.patch.iter().map(|patch| patch.blocks()))
    }

    fn source(&self) -> Source<'_> {
        Source { blocks: &self.blocks, data_type: &self.data_type, node: &self.node }
    }

    /// All rows.
    pub fn array(&self) -> Result<ArrayRef> {
        if let Some(array) = self.whole.get() {
            return Ok(array.clone());
        }
        let array = self.read(0..self.node.len)?;
        Ok(self.whole.get_or_init(|| array).clone())
    }

    /// What the array says of all rows, whatever the patch does.
    pub fn base(&self) -> Result<ArrayRef> {
        self.source().rows(0..self.node.len)
    }

    /// The rows `range`: without a copy, unless one of them is in the patch.
    pub fn read(&self, range: Range<usize>) -> Result<ArrayRef> {
        let base = self.source().rows(range.clone())?;
        match &self.patch {
            None => Ok(base),
            Some(patch) => patch.apply(base, &range),
        }
    }

    /// Its description: the statistics first, which are often all that is read.
    fn write(&self, w: &mut Writer) {
        self.stats.write(w);
        self.write_place(w);
        w.option(self.patch.as_ref(), |w, patch| patch.chunk().write_place(w));
    }

    fn write_place(&self, w: &mut Writer) {
        w.len(self.blocks.listed().len());
        self.blocks.listed().iter().for_each(|loc| write_loc(w, *loc));
        self.node.write(w);
    }

    fn decode(bytes: &[u8], space: &Arc<Space>, data_type: &DataType, rows: usize) -> Result<Self> {
        let mut r = Reader::part(bytes);
        let stats = ChunkStats::read(&mut r, rows as u64)?;
        let (blocks, node) = (read_blocks(&mut r, space)?, Node::read(&mut r, 0)?);
        let patch = r.option(|r| Ok((read_blocks(r, space)?, Node::read(r, 0)?)))?;
        r.finish()?;
        if node.len != rows {
            return Err(corrupt(format!("a column of {} rows in a segment of {rows}", node.len)));
        }
        let patch = patch.map(|(blocks, node)| {
            if node.len == 0 || node.len > MAX_PATCH_ROWS.min(rows) {
                return Err(corrupt(format!("a patch of {} of {rows} rows", node.len)));
            }
            let stats = ChunkStats { nulls: 0, bounds: None, exact: false, sorted: false };
            Ok(Patch::of_chunk(Self::new(blocks, patch_type(data_type), node, stats), rows))
        });
        let patch = patch.transpose()?;
        Ok(Self { patch, ..Self::new(blocks, data_type.clone(), node, stats) })
    }
}

fn read_blocks(r: &mut Reader<'_>, space: &Arc<Space>) -> Result<Arc<Blocks>> {
    let count = r.bounded(MAX_BLOCKS, "a count of blocks")?;
    let listed = (0..count).map(|_| read_loc(r)).collect::<Result<Vec<_>>>()?;
    Blocks::committed(space, listed)
}

/// Which rows of a segment are deleted.
#[derive(Debug)]
pub(super) struct Deletion {
    pub blocks: Arc<Blocks>,
    pub bits: BooleanBuffer,
    pub count: usize,
}

impl Deletion {
    /// Stores a bitmap.
    pub fn store(ground: &Ground, bits: &BooleanBuffer) -> Result<Arc<Self>> {
        let packed = bits.sliced();
        let bytes = &packed.as_slice()[..bits.len().div_ceil(8)];
        let blocks = ground.store(bytes)?;
        Self::over(blocks, bits.len(), bits.count_set_bits())
    }

    /// A bitmap with `count` bits set. The count is believed, as values are: reading every bitmap
    /// to count them would make opening a table as slow as reading it.
    pub fn over(blocks: Arc<Blocks>, rows: usize, count: usize) -> Result<Arc<Self>> {
        if count == 0 || count > rows {
            return Err(corrupt(format!("{count} of {rows} rows deleted")));
        }
        let [block] = blocks.listed() else { return Err(corrupt("a bitmap in several blocks")) };
        let len = rows.div_ceil(8) as u64;
        if block.len != len {
            return Err(corrupt(format!("a bitmap of {} bytes for {rows} rows", block.len)));
        }
        let buffer: Buffer = raw::buffer(&blocks, Loc { offset: block.offset, len })?;
        let bits = BooleanBuffer::new(buffer, 0, rows);
        Ok(Arc::new(Self { blocks, bits, count }))
    }
}

/// Up to [`SEGMENT_ROWS`] rows. Immutable; arrays made from it keep its memory.
#[derive(Debug)]
pub struct Segment {
    schema: SchemaRef,
    rows: usize,
    bytes: u64,
    deletion: Option<Arc<Deletion>>,
    chunks: Box<[OnceLock<Arc<Chunk>>]>,
    /// Where chunks that were not needed yet are described.
    origin: Option<(Arc<Directory>, usize)>,
}

impl Segment {
    pub(super) fn new(
        schema: SchemaRef,
        rows: usize,
        deletion: Option<Arc<Deletion>>,
        chunks: Vec<Arc<Chunk>>,
    ) -> Arc<Self> {
        assert!(rows > 0 && rows <= SEGMENT_ROWS, "a segment of {rows} rows");
        assert_eq!(schema.fields().len(), chunks.len(), "one chunk a column");
        let bytes = chunks.iter().map(|c| c.bytes()).sum();
        let chunks = chunks.into_iter().map(OnceLock::from).collect();
        Arc::new(Self { schema, rows, bytes, deletion, chunks, origin: None })
    }

    /// The segments of a page in the area.
    pub(super) fn of_page(
        schema: &SchemaRef,
        directory: &Arc<Directory>,
    ) -> Result<Vec<Arc<Segment>>> {
        let columns = schema.fields().len();
        let segment = |(index, entry): (usize, Entry)| {
            let deletion = |loc| {
                let blocks = Blocks::committed(&directory.space, vec![loc])?;
                Deletion::over(blocks, entry.rows, entry.deleted)
            };
            Ok(Arc::new(Self {
                schema: schema.clone(),
                rows: entry.rows,
                bytes: entry.bytes,
                deletion: entry.bitmap.map(deletion).transpose()?,
                chunks: (0..columns).map(|_| OnceLock::new()).collect(),
                origin: Some((directory.clone(), index)),
            }))
        };
        directory.entries()?.into_iter().enumerate().map(segment).collect()
    }

    /// What a directory says of it.
    pub(super) fn entry(&self) -> Result<Entry> {
        let bitmap = match self.deletion.as_ref().map(|d| d.blocks.listed()) {
            None => None,
            Some([loc]) => Some(*loc),
            Some(_) => return Err(Error::internal("a bitmap in several blocks")),
        };
        let deleted = self.rows - self.live_rows();
        Ok(Entry { rows: self.rows, deleted, bytes: self.bytes, bitmap })
    }

    /// Writes the description of a chunk.
    pub(super) fn describe(&self, column: usize, w: &mut Writer) -> Result<()> {
        match (self.slot(column)?.get(), &self.origin) {
            (Some(chunk), _) => chunk.write(w),
            // It says the same wherever it stands.
            (None, Some((directory, index))) => directory.chunk(*index, column, |bytes| {
                w.fixed(bytes);
                Ok(())
            })?,
            (None, None) => return Err(Error::internal("a chunk that is nowhere")),
        }
        Ok(())
    }

    fn slot(&self, column: usize) -> Result<&OnceLock<Arc<Chunk>>> {
        let missing = || Error::internal(format!("column {column} of {}", self.chunks.len()));
        self.chunks.get(column).ok_or_else(missing)
    }

    fn chunk(&self, column: usize) -> Result<&Arc<Chunk>> {
        let slot = self.slot(column)?;
        if let Some(chunk) = slot.get() {
            return Ok(chunk);
        }
        let (directory, index) =
            self.origin.as_ref().ok_or_else(|| Error::internal("a chunk that is nowhere"))?;
        let data_type = self.schema.field(column).data_type();
        let chunk = directory.chunk(*index, column, |bytes| {
            Chunk::decode(bytes, &directory.space, data_type, self.rows).map(Arc::new)
        });
        let chunk = chunk.map_err(|e| directory.space.named(e))?;
        // Whoever comes first wins; the copy of the other is dropped here, unused.
        Ok(slot.get_or_init(|| chunk))
    }

    /// All columns.
    pub(super) fn chunks(&self) -> Result<Vec<Arc<Chunk>>> {
        (0..self.chunks.len()).map(|column| self.chunk(column).cloned()).collect()
    }

    pub(super) fn deletion(&self) -> Option<&Arc<Deletion>> {
        self.deletion.as_ref()
    }

    /// Everything in the area that belongs to it.
    pub(super) fn blocks(&self) -> Result<Vec<Arc<Blocks>>> {
        let mut all = Vec::with_capacity(self.chunks.len() + 1);
        for column in 0..self.chunks.len() {
            all.extend(self.chunk(column)?.all_blocks().cloned());
        }
        all.extend(self.deletion.iter().map(|d| d.blocks.clone()));
        Ok(all)
    }

    /// Those blocks of some columns that are in the store on a disk still, and not in memory.
    pub(super) fn cold_blocks(&self, columns: &[usize]) -> Vec<Arc<Blocks>> {
        // What was opened from a store has all its chunks.
        let chunks = columns.iter().filter_map(|c| self.chunks.get(*c)?.get());
        let blocks = chunks.flat_map(|chunk| chunk.all_blocks());
        blocks.filter(|blocks| !blocks.in_memory()).cloned().collect()
    }

    /// The page it was read from is about to go: it keeps a copy of what it has not decoded yet.
    pub(super) fn detach(&self) -> Result<()> {
        self.origin.as_ref().map_or(Ok(()), |(directory, _)| directory.detach())
    }

    /// Statistics of a column as stored; the column itself is not decoded.
    pub(super) fn chunk_stats(&self, column: usize) -> Result<ChunkStats> {
        match (self.slot(column)?.get(), &self.origin) {
            (None, Some((directory, index))) => {
                let read =
                    |bytes: &[u8]| ChunkStats::read(&mut Reader::part(bytes), self.rows as u64);
                directory.chunk(*index, column, read).map_err(|e| directory.space.named(e))
            }
            _ => Ok(self.chunk(column)?.stats.clone()),
        }
    }

    /// Physical rows, deleted ones included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        self.rows - self.deletion.as_ref().map_or(0, |d| d.count)
    }

    /// A set bit is a deleted row; `None` when no row is deleted. `rows()` bits.
    pub fn deleted(&self) -> Option<&BooleanBuffer> {
        self.deletion.as_ref().map(|d| &d.bits)
    }

    /// Statistics of column `column`.
    pub fn stats(&self, column: usize) -> Result<ColumnStats> {
        let mut stats = Merged::default();
        stats.add(self.chunk_stats(column)?, self.rows, self.deletion.is_some());
        Ok(stats.finish(self.schema.field(column).data_type()))
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of column data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The whole column without copying (deleted rows included).
    pub fn array(&self, column: usize) -> Result<ArrayRef> {
        let chunk = self.chunk(column)?;
        chunk.array().map_err(|e| chunk.blocks.named(e))
    }

    /// Column `column` of the physical rows `range`: without copying, one buffer of just that
    /// range.
    pub fn slice(&self, column: usize, range: Range<usize>) -> Result<ArrayRef> {
        let chunk = self.chunk(column)?;
        let array = match range == (0..self.rows) {
            true => chunk.array(),
            false => chunk.read(range),
        };
        array.map_err(|e| chunk.blocks.named(e))
    }

    /// The physical rows `range` (deleted rows included) of the columns `projection` (`None`: all),
    /// without copying.
    pub fn batch(&self, range: Range<usize>, projection: Option<&[usize]>) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(range.len()));
        let (schema, columns) = match projection {
            None => {
                let all = 0..self.chunks.len();
                let columns = all.map(|c| self.slice(c, range.clone())).collect::<Result<_>>()?;
                (self.schema.clone(), columns)
            }
            Some(some) => {
                let columns = some.iter().map(|&c| self.slice(c, range.clone()));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                (Arc::new(self.schema.project(some)?), columns)
            }
        };
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// The same rows with other column definitions (names, nullability) and chunks.
    pub(super) fn with(
        &self,
        schema: SchemaRef,
        chunks: Vec<Arc<Chunk>>,
        deletion: Option<Arc<Deletion>>,
    ) -> Arc<Self> {
        Self::new(schema, self.rows, deletion, chunks)
    }

    /// The live rows of all columns, in order.
    pub(super) fn live_batch(&self) -> Result<RecordBatch> {
        let all = self.batch(0..self.rows, None)?;
        match self.deleted() {
            None => Ok(all),
            Some(deleted) => {
                let live = arrow::array::BooleanArray::new(!deleted, None);
                Ok(arrow::compute::filter_record_batch(&all, &live)?)
            }
        }
    }
}

/// Statistics of several chunks of one column, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Merged {
    nulls: u64,
    bounds: Option<(Bound, Bound)>,
    exact: bool,
    sorted: bool,
    /// Some chunk has values but no bounds.
    unknown: bool,
}

impl Default for Merged {
    fn default() -> Self {
        Self { nulls: 0, bounds: None, exact: true, sorted: true, unknown: false }
    }
}

impl Merged {
    /// Adds a chunk of `rows` rows, some of them perhaps deleted.
    fn add(&mut self, next: ChunkStats, rows: usize, deleted: bool) {
        let unknown = next.bounds.is_none() && next.nulls != rows as u64;
        self.append(Self {
            nulls: next.nulls,
            bounds: next.bounds,
            exact: next.exact && !deleted,
            sorted: next.sorted,
            unknown,
        });
    }

    /// Adds what comes after it.
    pub fn append(&mut self, next: Self) {
        self.nulls = self.nulls.saturating_add(next.nulls);
        self.exact &= next.exact && !next.unknown;
        self.unknown |= next.unknown;
        let descends = match (&self.bounds, &next.bounds) {
            (Some((_, max)), Some((min, _))) => min.is_less(max),
            (Some(_), None) => true,
            (None, _) => false,
        };
        self.sorted &= next.sorted && !next.unknown && !descends;
        self.bounds = match (self.bounds.take(), next.bounds) {
            (Some((min, max)), Some((low, high))) => Some((
                if low.is_less(&min) { low } else { min },
                if max.is_less(&high) { high } else { max },
            )),
            (one, other) => one.or(other),
        };
    }

    /// Of some neighbouring segments.
    pub fn of(segments: &[Arc<Segment>], column: usize) -> Result<Self> {
        let mut merged = Self::default();
        for segment in segments {
            let stats = segment.chunk_stats(column)?;
            merged.add(stats, segment.rows, segment.deletion.is_some());
        }
        Ok(merged)
    }

    /// In the terms of the column's type.
    pub fn finish(self, data_type: &DataType) -> ColumnStats {
        let bounds = self.bounds.as_ref().filter(|_| !self.unknown);
        let value = |bound| stats::scalar(data_type, bound);
        let (min, max) = match bounds.map(|(min, max)| (value(min), value(max))) {
            Some((Some(min), Some(max))) => (Some(min), Some(max)),
            _ => (None, None),
        };
        // Bounds that mean nothing for the type say nothing about the rows either.
        let meant = self.bounds.is_none() || min.is_some();
        ColumnStats {
            null_count: self.nulls,
            min,
            max,
            exact: self.exact && !self.unknown && meant,
            sorted: self.sorted && !self.unknown && meant,
        }
    }
}
