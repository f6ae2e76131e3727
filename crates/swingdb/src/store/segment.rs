//! Segments: up to [`SEGMENT_ROWS`] rows of a table, immutable, one chunk of area memory a column.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;

use super::codec::{Reader, Writer};
use super::raw::{self, Loc};
use super::read::{Source, read_loc, write_loc};
use super::space::{Blocks, Ground, Space, corrupt};
use super::stats::{self, ChunkStats};
use crate::error::{Error, Result};

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
    whole: OnceLock<ArrayRef>,
}

impl Chunk {
    pub fn new(blocks: Arc<Blocks>, data_type: DataType, node: Node, stats: ChunkStats) -> Self {
        Self { blocks, data_type, node, stats, whole: OnceLock::new() }
    }

    fn source(&self) -> Source<'_> {
        Source { blocks: &self.blocks, data_type: &self.data_type, node: &self.node }
    }

    /// All rows.
    pub fn array(&self) -> Result<ArrayRef> {
        if let Some(array) = self.whole.get() {
            return Ok(array.clone());
        }
        let array = self.source().rows(0..self.node.len)?;
        Ok(self.whole.get_or_init(|| array).clone())
    }

    fn column_stats(&self, deleted: bool) -> ColumnStats {
        let scalar = |bound| stats::scalar(&self.data_type, bound);
        let bounds = self.stats.bounds.as_ref();
        ColumnStats {
            null_count: self.stats.nulls,
            min: bounds.and_then(|(min, _)| scalar(min)),
            max: bounds.and_then(|(_, max)| scalar(max)),
            exact: self.stats.exact && !deleted,
            sorted: self.stats.sorted,
        }
    }

    fn write(&self, w: &mut Writer) {
        w.len(self.blocks.listed().len());
        self.blocks.listed().iter().for_each(|loc| write_loc(w, *loc));
        self.node.write(w);
        self.stats.write(w);
    }

    fn read(
        r: &mut Reader<'_>,
        space: &Arc<Space>,
        data_type: &DataType,
        rows: usize,
    ) -> Result<Self> {
        let blocks = read_blocks(r, space)?;
        let node = Node::read(r, 0)?;
        if node.len != rows {
            return Err(corrupt(format!("a column of {} rows in a segment of {rows}", node.len)));
        }
        let stats = ChunkStats::read(r, rows as u64)?;
        Ok(Self::new(blocks, data_type.clone(), node, stats))
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
        Self::over(blocks, bits.len())
    }

    fn over(blocks: Arc<Blocks>, rows: usize) -> Result<Arc<Self>> {
        let [block] = blocks.listed() else { return Err(corrupt("a bitmap in several blocks")) };
        let len = rows.div_ceil(8) as u64;
        if block.len != len {
            return Err(corrupt(format!("a bitmap of {} bytes for {rows} rows", block.len)));
        }
        let buffer: Buffer = raw::buffer(&blocks, Loc { offset: block.offset, len })?;
        let bits = BooleanBuffer::new(buffer, 0, rows);
        let count = bits.count_set_bits();
        Ok(Arc::new(Self { blocks, bits, count }))
    }
}

/// Up to [`SEGMENT_ROWS`] rows. Immutable; arrays made from it keep its memory.
#[derive(Debug)]
pub struct Segment {
    schema: SchemaRef,
    rows: usize,
    deletion: Option<Arc<Deletion>>,
    chunks: Vec<Arc<Chunk>>,
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
        Arc::new(Self { schema, rows, deletion, chunks })
    }

    pub(super) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    pub(super) fn deletion(&self) -> Option<&Arc<Deletion>> {
        self.deletion.as_ref()
    }

    /// Everything in the area that belongs to it.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Arc<Blocks>> {
        let deletion = self.deletion.iter().map(|d| &d.blocks);
        self.chunks.iter().map(|c| &c.blocks).chain(deletion)
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
    pub fn stats(&self, column: usize) -> ColumnStats {
        self.chunks[column].column_stats(self.deletion.is_some())
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes of column data.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|c| c.node.bytes()).sum()
    }

    /// The whole column without copying (deleted rows included).
    pub fn array(&self, column: usize) -> Result<ArrayRef> {
        let chunk = self.chunk(column)?;
        chunk.array().map_err(|e| chunk.blocks.named(e))
    }

    fn chunk(&self, column: usize) -> Result<&Arc<Chunk>> {
        let missing = || Error::internal(format!("column {column} of {}", self.chunks.len()));
        self.chunks.get(column).ok_or_else(missing)
    }

    /// Column `column` of the physical rows `range`: without copying, one buffer of just that
    /// range.
    pub fn slice(&self, column: usize, range: Range<usize>) -> Result<ArrayRef> {
        let chunk = self.chunk(column)?;
        let array = match range == (0..self.rows) {
            true => chunk.array(),
            false => chunk.source().rows(range),
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

    pub(super) fn write(&self, w: &mut Writer) {
        w.len(self.rows);
        w.option(self.deletion.as_ref(), |w, d| {
            w.len(d.blocks.listed().len());
            d.blocks.listed().iter().for_each(|loc| write_loc(w, *loc));
        });
        self.chunks.iter().for_each(|chunk| chunk.write(w));
    }

    pub(super) fn read(
        r: &mut Reader<'_>,
        space: &Arc<Space>,
        schema: &SchemaRef,
    ) -> Result<Arc<Self>> {
        let rows = r.bounded(SEGMENT_ROWS as u64, "a count of rows")?;
        if rows == 0 {
            return Err(corrupt("a segment without rows"));
        }
        let deletion = r.option(|r| Deletion::over(read_blocks(r, space)?, rows))?;
        let chunk = |f: &Arc<arrow::datatypes::Field>| {
            Chunk::read(r, space, f.data_type(), rows).map(Arc::new)
        };
        let chunks = schema.fields().iter().map(chunk).collect::<Result<Vec<_>>>()?;
        Ok(Self::new(schema.clone(), rows, deletion, chunks))
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

/// Statistics of several segments, one after the other.
pub(super) fn merge_stats(segments: &[Arc<Segment>], column: usize) -> ColumnStats {
    let mut merged = ColumnStats { null_count: 0, min: None, max: None, exact: true, sorted: true };
    for segment in segments {
        let next = segment.stats(column);
        merged.null_count += next.null_count;
        merged.sorted &= next.sorted
            && !merged.max.as_ref().is_some_and(|max| {
                next.min.as_ref().is_none_or(|min| max.partial_cmp(min).is_none_or(|o| o.is_gt()))
            });
        let all_null = next.null_count == segment.rows() as u64;
        merged.exact &= next.exact;
        if next.min.is_none() && !all_null {
            merged.min = None;
            merged.max = None;
            merged.exact = false;
            merged.sorted = false;
            // No order: bounds are unknown from here on, only NULLs are still counted.
            merged.null_count = segments.iter().map(|s| s.stats(column).null_count).sum();
            return merged;
        }
        if let (Some(min), Some(max)) = (next.min, next.max) {
            merged.min = Some(smaller(merged.min.take(), min));
            merged.max = Some(larger(merged.max.take(), max));
        }
    }
    merged
}

fn smaller(a: Option<ScalarValue>, b: ScalarValue) -> ScalarValue {
    match a {
        Some(a) if a.partial_cmp(&b).is_some_and(|o| o.is_le()) => a,
        _ => b,
    }
}

fn larger(a: Option<ScalarValue>, b: ScalarValue) -> ScalarValue {
    match a {
        Some(a) if a.partial_cmp(&b).is_some_and(|o| o.is_ge()) => a,
        _ => b,
    }
}
