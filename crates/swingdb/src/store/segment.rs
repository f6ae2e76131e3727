//! Segments: up to [`SEGMENT_ROWS`] rows of a table, immutable, one chunk of area memory a column.

use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::BooleanBuffer;
use datafusion::common::ScalarValue;

use crate::error::Result;

/// Most rows of a segment.
pub const SEGMENT_ROWS: usize = 131_072;

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

/// Up to [`SEGMENT_ROWS`] rows. Immutable; arrays made from it keep its memory.
#[derive(Debug)]
pub struct Segment {}

impl Segment {
    /// Physical rows, deleted ones included.
    pub fn rows(&self) -> usize {
        todo!()
    }

    /// Rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        todo!()
    }

    /// A set bit is a deleted row; `None` when no row is deleted. `rows()` bits.
    pub fn deleted(&self) -> Option<&BooleanBuffer> {
        todo!()
    }

    /// Statistics of column `column`.
    pub fn stats(&self, _column: usize) -> ColumnStats {
        todo!()
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        todo!()
    }

    /// Bytes of column data.
    pub fn bytes(&self) -> u64 {
        todo!()
    }

    /// The whole column without copying (deleted rows included).
    pub fn array(&self, _column: usize) -> Result<ArrayRef> {
        todo!()
    }

    /// Column `column` of the physical rows `range`: without copying, one buffer of just that range
    /// (nested types: the whole buffers).
    pub fn slice(&self, _column: usize, _range: Range<usize>) -> Result<ArrayRef> {
        todo!()
    }

    /// The physical rows `range` (deleted rows included) of the columns `projection` (`None`: all),
    /// without copying.
    pub fn batch(
        &self,
        _range: Range<usize>,
        _projection: Option<&[usize]>,
    ) -> Result<RecordBatch> {
        todo!()
    }
}
