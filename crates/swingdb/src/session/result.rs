//! What a statement returns: [`QueryResult`], a stream of Arrow batches.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::InterruptHandle;
use swingdb_common::time::zones::{Zone, rezoned, schema_in_zone};
use swingdb_sql::options::limits::Meter;

use crate::session::stream::{BatchStream, HereStream};

/// The rows a statement returns, or the number of rows it changed.
///
/// An iterator that computes while it is read, on the library's own threads, a few batches ahead;
/// a few rows of a query that comes again are computed by the thread that reads them.
/// Dropping it ends the computation. It is `Send`, keeps the database state it started from, and
/// may outlive the connection.
pub struct QueryResult {
    schema: SchemaRef,
    rows: Rows,
    rows_changed: Option<u64>,
    tag: &'static str,
    /// Whether types of the rows get the zone that those of the schema name.
    rezoned: bool,
    /// Counts what is handed out, where that is limited.
    meter: Option<Meter>,
    /// The line of the statement, where its text has others.
    line: Option<u64>,
}

enum Rows {
    Ready(std::vec::IntoIter<RecordBatch>),
    Stream(Box<BatchStream>),
    Here(Box<HereStream>),
    Done,
}

impl QueryResult {
    /// The names and types of the columns; no columns for a statement that returns no rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How many rows INSERT, UPDATE, DELETE, MERGE, COPY or CREATE TABLE AS changed.
    pub fn rows_changed(&self) -> Option<u64> {
        self.rows_changed
    }

    /// The kind of statement: "SELECT", "INSERT", "CREATE TABLE", ...
    pub fn tag(&self) -> &'static str {
        self.tag
    }

    /// Whether the statement is one that returns rows, be it none this time.
    pub fn has_rows(&self) -> bool {
        !self.schema.fields().is_empty()
    }

    /// Whether no other thread computes the rows: they are there, or come from few, so that reading
    /// them takes no time in which a caller would want to interrupt it.
    pub fn is_short(&self) -> bool {
        !matches!(self.rows, Rows::Stream(_))
    }

    /// What another thread ends the reading of this result with, and nothing else of its session;
    /// `None` of one whose rows are there.
    pub fn interrupt_handle(&self) -> Option<InterruptHandle> {
        match &self.rows {
            Rows::Stream(stream) => Some(stream.interrupt_handle()),
            Rows::Here(stream) => Some(stream.interrupt_handle()),
            Rows::Ready(_) | Rows::Done => None,
        }
    }

    /// All remaining batches.
    pub fn collect(self) -> Result<Vec<RecordBatch>> {
        Iterator::collect(self)
    }

    /// The same rows as a reader of the Arrow libraries; errors become
    /// [`ArrowError::ExternalError`] around an [`Error`].
    pub fn into_reader(self) -> impl RecordBatchReader + Send + 'static {
        Reader(self)
    }

    pub(crate) fn ready(schema: SchemaRef, batches: Vec<RecordBatch>, tag: &'static str) -> Self {
        let rows = Rows::Ready(batches.into_iter());
        Self { schema, rows, rows_changed: None, tag, rezoned: false, meter: None, line: None }
    }

    pub(crate) fn changed(rows_changed: Option<u64>, tag: &'static str) -> Self {
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        Self {
            schema,
            rows: Rows::Done,
            rows_changed,
            tag,
            rezoned: false,
            meter: None,
            line: None,
        }
    }

    pub(crate) fn stream(stream: BatchStream, tag: &'static str) -> Self {
        let schema = stream.schema();
        let rows = Rows::Stream(Box::new(stream));
        Self { schema, rows, rows_changed: None, tag, rezoned: false, meter: None, line: None }
    }

    /// Rows that the thread computes that asks for them.
    pub(crate) fn computed_here(stream: HereStream, tag: &'static str) -> Self {
        let schema = stream.schema();
        let rows = Rows::Here(Box::new(stream));
        Self { schema, rows, rows_changed: None, tag, rezoned: false, meter: None, line: None }
    }

    /// The same rows, whose points in time are to be shown by the clock of a zone. With UTC they
    /// keep the zones that their types name.
    pub(crate) fn in_zone(mut self, zone: Zone) -> Self {
        let schema = schema_in_zone(&self.schema, zone);
        if !zone.is_utc() && schema != *self.schema {
            self.schema = Arc::new(schema);
            self.rezoned = true;
        }
        self
    }

    /// A result that ends with an error where it gets larger than it may be.
    pub(crate) fn metered(mut self, meter: Option<Meter>) -> Self {
        self.meter = meter;
        self
    }

    /// A result whose errors name the line of its statement.
    pub(crate) fn of_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    pub(crate) fn with_rows_changed(mut self, rows_changed: Option<u64>) -> Self {
        self.rows_changed = rows_changed;
        self
    }
}

impl Iterator for QueryResult {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.rows {
            Rows::Ready(batches) => batches.next().map(Ok),
            Rows::Stream(stream) => stream.next(),
            Rows::Here(stream) => stream.next(),
            Rows::Done => None,
        };
        let next = match (next, &mut self.meter) {
            (Some(Ok(batch)), Some(meter)) => Some(meter.count(&batch).map(|()| batch)),
            (next, _) => next,
        };
        if !matches!(next, Some(Ok(_))) {
            self.rows = Rows::Done;
        }
        let next = match next {
            Some(Ok(batch)) if self.rezoned => Some(rezoned(&batch, &self.schema)),
            next => next,
        };
        match (next, self.line) {
            (Some(Err(error)), Some(line)) => Some(Err(error.in_statement(line))),
            (next, _) => next,
        }
    }
}

impl std::fmt::Debug for QueryResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryResult")
            .field("tag", &self.tag)
            .field("schema", &self.schema)
            .field("rows_changed", &self.rows_changed)
            .finish_non_exhaustive()
    }
}

struct Reader(QueryResult);

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|batch| batch.map_err(<ArrowError as From<Error>>::from))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}
