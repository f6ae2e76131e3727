//! Segments: up to [`SEGMENT_ROWS`] rows of a table, immutable, one chunk of area memory a column.
//!
//! A segment of a published state begins as an entry of its page's [`Directory`]: its chunks are
//! decoded when somebody reads the column, and then shared by all versions of the table that have
//! the segment, so that whoever holds one pins the blocks (INV-DB-1).

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::{BooleanBuffer, Buffer};
use arrow::datatypes::SchemaRef;
use swingdb_common::error::{Error, Result};

use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;
use crate::memory::raw::{self, Loc};
use crate::memory::space::{Blocks, Ground};
use crate::segments::chunk::Chunk;
use crate::segments::column_stats::{ColumnStats, Merged};
use crate::segments::directory::{Directory, Entry};
use crate::segments::rowids::SEGMENT_ROWS;
use crate::segments::stats::ChunkStats;

/// Which rows of a segment are deleted.
#[derive(Debug)]
pub(crate) struct Deletion {
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
    pub(crate) fn new(
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
    pub(crate) fn of_page(
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
    pub(crate) fn entry(&self) -> Result<Entry> {
        let bitmap = match self.deletion.as_ref().map(|d| d.blocks.listed()) {
            None => None,
            Some([loc]) => Some(*loc),
            Some(_) => return Err(Error::internal("a bitmap in several blocks")),
        };
        let deleted = self.rows - self.live_rows();
        Ok(Entry { rows: self.rows, deleted, bytes: self.bytes, bitmap })
    }

    /// Writes the description of a chunk.
    pub(crate) fn describe(&self, column: usize, w: &mut Writer) -> Result<()> {
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
    pub(crate) fn chunks(&self) -> Result<Vec<Arc<Chunk>>> {
        (0..self.chunks.len()).map(|column| self.chunk(column).cloned()).collect()
    }

    pub(crate) fn deletion(&self) -> Option<&Arc<Deletion>> {
        self.deletion.as_ref()
    }

    /// Everything in the area that belongs to it.
    pub(crate) fn blocks(&self) -> Result<Vec<Arc<Blocks>>> {
        let mut all = Vec::with_capacity(self.chunks.len() + 1);
        for column in 0..self.chunks.len() {
            all.extend(self.chunk(column)?.all_blocks().cloned());
        }
        all.extend(self.deletion.iter().map(|d| d.blocks.clone()));
        Ok(all)
    }

    /// Those blocks of some columns that are in the store on a disk still, and not in memory.
    pub(crate) fn cold_blocks(&self, columns: &[usize]) -> Vec<Arc<Blocks>> {
        // What was opened from a store has all its chunks.
        let chunks = columns.iter().filter_map(|c| self.chunks.get(*c)?.get());
        let blocks = chunks.flat_map(|chunk| chunk.all_blocks());
        blocks.filter(|blocks| !blocks.in_memory()).cloned().collect()
    }

    /// The page it was read from is about to go: it keeps a copy of what it has not decoded yet.
    pub(crate) fn detach(&self) -> Result<()> {
        self.origin.as_ref().map_or(Ok(()), |(directory, _)| directory.detach())
    }

    /// Statistics of a column as stored; the column itself is not decoded.
    pub(crate) fn chunk_stats(&self, column: usize) -> Result<ChunkStats> {
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
    pub(crate) fn with(
        &self,
        schema: SchemaRef,
        chunks: Vec<Arc<Chunk>>,
        deletion: Option<Arc<Deletion>>,
    ) -> Arc<Self> {
        Self::new(schema, self.rows, deletion, chunks)
    }

    /// The live rows of all columns, in order.
    pub(crate) fn live_batch(&self) -> Result<RecordBatch> {
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
