//! [`TableWriter`]: bulk appends from many threads.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::error::Result;

/// Appends batches to one table from many threads; clones share the same append. Ends with
/// [`WriteTxn::adopt`](super::WriteTxn::adopt); dropped without it, everything it wrote is freed.
///
/// Each part ([`TableWriter::part`]) is filled by one thread at a time. The rows of a part keep
/// their order, and parts are put into the table in the order of their numbers: for a file read by
/// row groups, part = row group keeps the order of the file.
#[derive(Clone)]
pub struct TableWriter {}

impl TableWriter {
    /// The columns a batch must have: by position, of equal types.
    pub fn schema(&self) -> &SchemaRef {
        todo!()
    }

    /// Appends to a part of this thread's own, in no particular order relative to other threads.
    pub fn push(&self, _batch: RecordBatch) -> Result<()> {
        todo!()
    }

    /// A part: rows pushed to it stay together and in order. Parts are put in the order of `order`.
    pub fn part(&self, _order: u64) -> Result<PartWriter> {
        todo!()
    }

    /// Rows pushed so far, by all threads.
    pub fn rows(&self) -> u64 {
        todo!()
    }
}

/// One ordered part of an append; see [`TableWriter::part`].
pub struct PartWriter {}

impl PartWriter {
    /// Appends a batch; copies whole segments into the area as they become full.
    pub fn push(&mut self, _batch: RecordBatch) -> Result<()> {
        todo!()
    }

    /// Ends the part. A part dropped without it makes the append fail.
    pub fn finish(self) -> Result<()> {
        todo!()
    }
}
