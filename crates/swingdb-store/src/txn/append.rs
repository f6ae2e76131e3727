//! Appending rows that come one batch after the other, on many threads.
//!
//! One thread at a time takes batches and cuts them where a segment of the table ends, which is
//! cheap. The thread that has cut a piece makes a segment of it: it converts the rows, tests them,
//! takes their statistics, populates memory of the area, and copies them there. Pieces are
//! numbered, so the table has the rows in the order in which they came, and of several errors the
//! first in that order is returned. Nothing is in a catalog before the append ends. What a failed
//! append has written is freed.
//!
//! Each thread works on one segment, which bounds the memory of rows that are not written yet; the
//! statement's memory limit bounds it further
//! ([`Pieces`](swingdb_common::runtime::memory::Pieces)).

use arrow::array::RecordBatch;
use swingdb_common::error::Result;
use swingdb_common::runtime::memory::{Piece, Pieces};
use swingdb_common::runtime::parallel;

use crate::segments::rowids::SEGMENT_ROWS;
use crate::txn::transaction::WriteTxn;
use crate::txn::writer::TableWriter;

/// An append of fewer rows is a part of its own, which is not put together with what there is.
const SMALL_APPEND_ROWS: u64 = 65_536;

/// Batches that are cut where segments end.
struct Cut<I> {
    batches: I,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
    /// Rows cut so far.
    rows: u64,
}

/// The rows of one segment, as they came.
struct Rows<'a> {
    batches: Vec<RecordBatch>,
    /// The number of the first one among all.
    first: u64,
    _memory: Piece<'a>,
}

impl<I: Iterator<Item = Result<RecordBatch>>> Cut<I> {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let rows = |batch: &Result<RecordBatch>| batch.as_ref().map_or(1, RecordBatch::num_rows);
        self.batches.find(|batch| rows(batch) > 0).transpose()
    }

    /// Whether there are more rows.
    fn has_more(&mut self) -> Result<bool> {
        self.rest = self.next()?;
        Ok(self.rest.is_some())
    }

    /// The rows of the next segment; the last one may have fewer.
    fn segment<'a>(&mut self, memory: &'a Pieces) -> Result<Option<Rows<'a>>> {
        let (mut batches, mut piece, first) = (Vec::new(), memory.begin(), self.rows);
        let mut missing = SEGMENT_ROWS;
        while missing > 0
            && let Some(batch) = self.next()?
        {
            let taken = missing.min(batch.num_rows());
            if taken < batch.num_rows() {
                self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
            }
            let batch = batch.slice(0, taken);
            piece.add(&batch);
            missing -= taken;
            self.rows += taken as u64;
            batches.push(batch);
        }
        Ok((!batches.is_empty()).then_some(Rows { batches, first, _memory: piece }))
    }
}

impl Rows<'_> {
    /// Converts the batches, and hands them on.
    fn convert(
        self,
        convert: impl Fn(RecordBatch, u64) -> Result<RecordBatch>,
        mut push: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut before = self.first;
        for batch in self.batches {
            let count = batch.num_rows() as u64;
            push(convert(batch, before)?)?;
            before += count;
        }
        Ok(())
    }
}

impl WriteTxn {
    /// Appends batches in their order, on the threads that the transaction may use; returns the
    /// number of rows. `convert` turns a batch into rows of the table; its second argument is the
    /// number of rows before the batch.
    pub fn append_from(
        &mut self,
        schema: &str,
        table: &str,
        batches: impl Iterator<Item = Result<RecordBatch>> + Send,
        convert: impl Fn(RecordBatch, u64) -> Result<RecordBatch> + Sync,
        memory: &Pieces,
    ) -> Result<u64> {
        let writer = self.writer(schema, table)?;
        let mut cut = Cut { batches, rest: None, rows: 0 };
        let Some(first) = cut.segment(memory)? else { return Ok(0) };
        if !cut.has_more()? {
            if cut.rows < SMALL_APPEND_ROWS {
                write(&writer, 0, first, &convert)?;
            } else {
                // Rows of no part may be put together with a last segment that is small.
                first.convert(&convert, |batch| writer.push(batch))?;
            }
            return self.adopt(writer);
        }
        let (mut first, mut numbers) = (Some(first), 0..);
        let next = || {
            let rows = first.take().map_or_else(|| cut.segment(memory), |rows| Ok(Some(rows)))?;
            Ok(numbers.next().zip(rows))
        };
        parallel::in_parallel(self.threads, next, |number, rows| {
            write(&writer, number, rows, &convert)
        })?;
        self.adopt(writer)
    }

    /// Appends batches. Columns by position; types must be equal to the table's.
    pub fn append(&mut self, schema: &str, table: &str, batches: &[RecordBatch]) -> Result<u64> {
        let batches = batches.iter().map(|batch| Ok(batch.clone()));
        self.append_from(schema, table, batches, |batch, _| Ok(batch), &Pieces::of_kept_rows())
    }
}

/// Makes a part of the append of a segment's rows.
fn write(
    writer: &TableWriter,
    number: u64,
    rows: Rows<'_>,
    convert: impl Fn(RecordBatch, u64) -> Result<RecordBatch>,
) -> Result<()> {
    let mut part = writer.part(number)?;
    rows.convert(convert, |batch| part.push(batch))?;
    part.finish()
}
