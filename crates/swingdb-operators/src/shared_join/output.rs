//! Putting rows of both sides together into batches of the output.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use arrow::compute::{BatchCoalescer, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::physical_plan::joins::utils::ColumnIndex;

/// The rows of one side that go into the output.
#[derive(Clone)]
pub(crate) enum Rows<'a> {
    /// Rows by their numbers; a NULL is a row of NULLs.
    Numbered(&'a RecordBatch, UInt32Array),
    /// All rows.
    All(&'a RecordBatch),
    /// So many rows of NULLs.
    Nulls(usize),
}

impl Rows<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Numbered(_, rows) => rows.len(),
            Self::All(batch) => batch.num_rows(),
            Self::Nulls(rows) => *rows,
        }
    }

    /// The values of a column, for the rows from `from` on.
    fn column(
        &self,
        index: usize,
        from: usize,
        len: usize,
        schema: &SchemaRef,
        at: usize,
    ) -> Result<ArrayRef> {
        Ok(match self {
            Self::Numbered(batch, rows) => {
                take(batch.column(index).as_ref(), &rows.slice(from, len), None)?
            }
            Self::All(batch) => batch.column(index).slice(from, len),
            Self::Nulls(_) => new_null_array(schema.field(at).data_type(), len),
        })
    }
}

/// The output of one partition: batches of at most so many rows, and in all at most a limit.
pub(crate) struct Output {
    schema: SchemaRef,
    columns: Vec<ColumnIndex>,
    batch_rows: usize,
    /// Rows that may still come.
    room: usize,
    batches: BatchCoalescer,
}

impl Output {
    pub(crate) fn new(
        schema: SchemaRef,
        columns: Vec<ColumnIndex>,
        batch_rows: usize,
        limit: Option<usize>,
    ) -> Self {
        let batches = BatchCoalescer::new(Arc::clone(&schema), batch_rows)
            .with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        Self { schema, columns, batch_rows, room: limit.unwrap_or(usize::MAX), batches }
    }

    /// A batch that is complete.
    pub(crate) fn next(&mut self) -> Option<RecordBatch> {
        self.batches.next_completed_batch()
    }

    /// Whether the limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Makes a last batch of the rows that are left.
    pub(crate) fn finish(&mut self) -> Result<()> {
        Ok(self.batches.finish_buffered_batch()?)
    }

    /// Appends rows whose columns come from both sides, and from `mark`.
    pub(crate) fn push(
        &mut self,
        build: &Rows<'_>,
        probe: &Rows<'_>,
        mark: Option<&BooleanArray>,
    ) -> Result<()> {
        let rows = build.len().max(probe.len()).min(self.room);
        let mut from = 0;
        while from < rows {
            let len = self.batch_rows.min(rows - from);
            let column = |(at, column): (usize, &ColumnIndex)| match (column.side, mark) {
                (JoinSide::Left, _) => build.column(column.index, from, len, &self.schema, at),
                (JoinSide::Right, _) => probe.column(column.index, from, len, &self.schema, at),
                (JoinSide::None, Some(mark)) => Ok(Arc::new(mark.slice(from, len)) as ArrayRef),
                (JoinSide::None, None) => internal_err!("a join without a mark has none to show"),
            };
            let columns = self.columns.iter().enumerate().map(column).collect::<Result<_>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(len));
            let schema = Arc::clone(&self.schema);
            let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
            self.batches.push_batch(batch)?;
            from += len;
        }
        self.room -= rows;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};

    use super::*;

    #[test]
    fn batches_are_bounded_and_limited() -> Result<()> {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![numbers])?;
        for (batch_rows, limit) in [(1, None), (7, None), (7, Some(50)), (1000, Some(3))] {
            let columns = vec![ColumnIndex { index: 0, side: JoinSide::Left }];
            let mut output = Output::new(Arc::clone(&schema), columns, batch_rows, limit);
            output.push(&Rows::All(&batch), &Rows::Nulls(100), None)?;
            output.finish()?;
            let mut seen = Vec::new();
            while let Some(batch) = output.next() {
                assert!(batch.num_rows() <= batch_rows);
                seen.extend_from_slice(batch.column(0).as_primitive::<Int32Type>().values());
            }
            let rows = limit.unwrap_or(100).min(100) as i32;
            assert_eq!(seen, (0..rows).collect::<Vec<_>>());
        }
        Ok(())
    }
}
