//! Rows as consumers of ADBC know them: with plain texts instead of string views.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use swingdb::QueryResult;
use swingdb::plain_rows::{plain_batch, plain_schema};

use crate::error::{Result, of_database};

/// What a driver returns rows as.
pub(crate) type Reader = Box<dyn RecordBatchReader + Send + 'static>;

/// The rows of a result. The first ones are computed before it returns: what fails by then has the
/// error of the database, and not one of Arrow's streams, which is a text.
pub(crate) fn reader(mut result: QueryResult) -> Result<Reader> {
    let schema: SchemaRef = Arc::new(plain_schema(&result.schema()));
    let first = result.next().transpose().map_err(of_database)?;
    let of_batches = Arc::clone(&schema);
    let batches = first.map(Ok).into_iter().chain(result);
    let batches = batches.map(move |batch| plain_batch(&batch?, &of_batches));
    Ok(Box::new(RecordBatchIterator::new(batches, schema)))
}

/// Rows that are all there.
pub(crate) fn ready(schema: SchemaRef, batches: Vec<RecordBatch>) -> Reader {
    Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema))
}
