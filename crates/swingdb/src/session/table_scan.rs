//! The rows of a table without SQL: [`TableScan`].

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, RecordBatchReader};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use swingdb_common::error::Result;
use swingdb_store::{Segment, Table};

use crate::session::Session;

/// The segments of a table as Arrow batches over the database's own memory.
///
/// A batch is a whole segment (up to 131 072 rows) and shares its memory with the database; only a
/// segment with deleted rows is copied without them. The scan keeps the version of the table it was
/// made on, and the arrays stay valid as long as anybody holds them. Nothing is read before it is
/// asked for, so making a scan costs the same for any size of the table.
#[derive(Clone)]
pub struct TableScan {
    table: Arc<Table>,
    page: usize,
    /// Of the page.
    segment: usize,
}

impl TableScan {
    pub(crate) fn new(session: &Session, name: &str) -> Result<Self> {
        Ok(Self::of(session.table(name)?))
    }

    /// The rows of a version of a table.
    pub(crate) fn of(table: Arc<Table>) -> Self {
        Self { table, page: 0, segment: 0 }
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    /// The columns that statements give values for: all that are not generated.
    pub(crate) fn given_columns(&self) -> Vec<usize> {
        self.table.given_columns()
    }

    /// Number of rows, deleted ones not counted.
    pub fn row_count(&self) -> u64 {
        self.table.row_count()
    }

    /// Bytes of its columns, in memory or on the disk.
    pub fn bytes(&self) -> u64 {
        self.table.bytes()
    }

    /// The next segment that has rows; pages are read as they come up.
    fn next_segment(&mut self) -> Option<Result<Arc<Segment>>> {
        loop {
            let page = self.table.page(self.page)?;
            let segments = match page.named_segments() {
                Ok(segments) => segments,
                Err(error) => {
                    // What follows a page that cannot be read is not handed out either.
                    self.page = usize::MAX;
                    return Some(Err(error));
                }
            };
            let mut rest = segments.iter().enumerate().skip(self.segment);
            if let Some((at, segment)) = rest.find(|(_, segment)| segment.live_rows() > 0) {
                self.segment = at + 1;
                return Some(Ok(Arc::clone(segment)));
            }
            (self.page, self.segment) = (self.page + 1, 0);
        }
    }

    /// The same rows as a reader of the Arrow libraries.
    pub fn into_reader(self) -> impl RecordBatchReader + Send + 'static {
        Reader(self)
    }
}

impl Iterator for TableScan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_segment().map(|segment| segment.and_then(|segment| read(&segment)))
    }
}

fn read(segment: &Segment) -> Result<RecordBatch> {
    let batch = segment.batch(0..segment.rows(), None)?;
    match segment.deleted() {
        None => Ok(batch),
        Some(deleted) => Ok(filter_record_batch(&batch, &BooleanArray::new(!deleted, None))?),
    }
}

impl std::fmt::Debug for TableScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableScan").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

struct Reader(TableScan);

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|batch| batch.map_err(ArrowError::from))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}
