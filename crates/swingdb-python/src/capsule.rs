//! The Arrow PyCapsule interface: streams in and out, without copying.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use pyo3_arrow::input::AnyRecordBatch;
use swingdb::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use swingdb::arrow::compute::cast;
use swingdb::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use swingdb::arrow::error::ArrowError;

use crate::errors;

/// A reader of what `data` exports by `__arrow_c_stream__` or `__arrow_c_array__`.
///
/// The reader may call into Python, from whatever thread reads it. Types and arrays are looked at
/// before they are believed: offsets that lie outside of their values, or text that is no UTF-8,
/// would otherwise be met in the middle of a query.
pub fn reader_of(data: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let table: AnyRecordBatch = data.extract().map_err(|error: PyErr| {
        let raised =
            errors::new("InterfaceError", format!("the data is not an Arrow table: {error}"));
        raised.set_cause(data.py(), Some(error));
        raised
    })?;
    let reader = table.into_reader()?;
    swingdb::io::check_columns(&reader.schema()).map_err(|error| errors::raise(&error))?;
    let schema = with_booleans(&reader.schema());
    Ok(Box::new(Checked { reader, schema }))
}

/// A reader whose arrays are what they say, with truth values of a byte as BOOLEAN.
struct Checked {
    reader: Box<dyn RecordBatchReader + Send>,
    schema: SchemaRef,
}

impl Checked {
    fn checked(&self, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            column.to_data().validate_full().map_err(|error| {
                let message = format!("column {:?} is damaged: {error}", field.name());
                ArrowError::InvalidArgumentError(message)
            })?;
        }
        if !batch.schema_ref().fields().iter().any(|field| is_boolean(field)) {
            return Ok(batch);
        }
        let columns = batch.schema_ref().fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, column)| match is_boolean(field) {
            true => cast(column, &DataType::Boolean),
            false => Ok(Arc::clone(column)),
        });
        RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<Result<_, _>>()?)
    }
}

impl Iterator for Checked {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.and_then(|batch| self.checked(batch)))
    }
}

impl RecordBatchReader for Checked {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Whether a column is of Arrow's extension type for truth values that are a byte each.
fn is_boolean(field: &Field) -> bool {
    *field.data_type() == DataType::Int8 && field.extension_type_name() == Some("arrow.bool8")
}

/// The schema with BOOLEAN for these.
fn with_booleans(schema: &SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| is_boolean(field)) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| match is_boolean(field) {
        true => Arc::new(Field::new(field.name(), DataType::Boolean, field.is_nullable())),
        false => Arc::clone(field),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Exports a reader's batches as a capsule named `arrow_array_stream`.
pub fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = reader.schema();
    let field = Field::new_struct("", schema.fields().clone(), false)
        .with_metadata(schema.metadata().clone());
    let arrays = reader.map(|batch| Ok(Arc::new(StructArray::from(batch?)) as ArrayRef));
    let arrays = Box::new(ArrayIterator::new(arrays, field.into()));
    Ok(to_stream_pycapsule(py, arrays, requested_schema)?)
}

/// Exports a schema as a capsule named `arrow_schema`.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    Ok(to_schema_pycapsule(py, schema)?)
}
