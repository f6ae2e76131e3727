//! Rows as consumers of ADBC know them: with plain texts in the place of string views.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use swingdb::QueryResult;

use crate::error::{Result, of_database};

/// What a driver returns rows as.
pub(crate) type Reader = Box<dyn RecordBatchReader + Send + 'static>;

/// The columns without views.
pub(crate) fn plain_schema(schema: &Schema) -> Schema {
    let fields: Fields = schema.fields().iter().map(plain_field).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let plain = plain_type(field.data_type());
    match plain == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(plain)),
    }
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries), *sorted),
        other => other.clone(),
    }
}

/// The rows of a result. The first ones are computed before it returns: what fails by then has the
/// error of the database, and not one of Arrow's streams, which is a text.
pub(crate) fn reader(mut result: QueryResult) -> Result<Reader> {
    let schema: SchemaRef = Arc::new(plain_schema(&result.schema()));
    let first = result.next().transpose().map_err(of_database)?;
    let of_batches = Arc::clone(&schema);
    let batches = first.map(Ok).into_iter().chain(result);
    let batches = batches.map(move |batch| plain(&batch?, &of_batches));
    Ok(Box::new(RecordBatchIterator::new(batches, schema)))
}

/// Rows that are all there.
pub(crate) fn ready(schema: SchemaRef, batches: Vec<RecordBatch>) -> Reader {
    Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema))
}

fn plain(batch: &RecordBatch, schema: &SchemaRef) -> std::result::Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| cast(array, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns.collect::<std::result::Result<Vec<_>, _>>()?,
        &options,
    )
}
