//! The Arrow PyCapsule interface: streams in and out, without copying.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use pyo3_arrow::input::AnyRecordBatch;
use swingdb::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use swingdb::arrow::datatypes::{Field, Schema, SchemaRef};
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
    Ok(Box::new(Checked(reader)))
}

/// A reader whose arrays are what they say.
struct Checked(Box<dyn RecordBatchReader + Send>);

impl Iterator for Checked {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.0.next()? {
            Ok(batch) => batch,
            Err(error) => return Some(Err(error)),
        };
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if let Err(error) = column.to_data().validate_full() {
                let message = format!("column {:?} is damaged: {error}", field.name());
                return Some(Err(ArrowError::InvalidArgumentError(message)));
            }
        }
        Some(Ok(batch))
    }
}

impl RecordBatchReader for Checked {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
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
