//! Rows that are all there: [`Batches`], read any number of times.
//!
//! The arrays share the engine's memory, and keep it: they may outlive the connection, the snapshot
//! and the database they came from.
//!
//! A table's rows are described when somebody first asks for them: until then a table of any size
//! costs the same. The version of the table is fixed from the start.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};
use swingdb::TableScan;
use swingdb::arrow::array::cast::AsArray;
use swingdb::arrow::array::types::{Date32Type, Date64Type};
use swingdb::arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, UInt8Array, new_empty_array,
};
use swingdb::arrow::buffer::Buffer;
use swingdb::arrow::compute::concat;
use swingdb::arrow::datatypes::{DataType, SchemaRef, TimeUnit};

use crate::capsule::{schema_capsule, stream_capsule};
use crate::fork::Owned;
use crate::panics::caught;
use crate::types::{self, Column};
use crate::{blocking, errors, rows, views};

/// Rows that can be read any number of times.
#[pyclass(frozen, module = "swingdb._internal")]
pub struct Batches {
    schema: SchemaRef,
    /// Where the rows come from when they are not there yet.
    scan: Option<Owned<TableScan>>,
    rows: OnceLock<Rows>,
    #[pyo3(get)]
    num_rows: usize,
}

/// Arrays are plain memory, so a forked child may read them; it must not let go of them.
struct Rows {
    batches: Arc<Vec<RecordBatch>>,
    _kept: Owned<Arc<Vec<RecordBatch>>>,
}

impl Rows {
    fn new(batches: Vec<RecordBatch>) -> Self {
        let batches = Arc::new(batches);
        Self { _kept: Owned::new("result", Arc::clone(&batches)), batches }
    }
}

impl Batches {
    /// The rows of `batches`, which have the schema `schema`.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let num_rows = batches.iter().map(RecordBatch::num_rows).sum();
        Self { schema, scan: None, rows: OnceLock::from(Rows::new(batches)), num_rows }
    }

    /// The rows of a table as they are now.
    pub fn of_table(scan: TableScan) -> Self {
        let (schema, num_rows) = (scan.schema(), scan.row_count() as usize);
        let scan = Some(Owned::new("table", scan));
        Self { schema, scan, rows: OnceLock::new(), num_rows }
    }

    /// All rows; Ctrl-C ends the first call.
    fn batches(&self, py: Python<'_>) -> PyResult<&Arc<Vec<RecordBatch>>> {
        if let Some(rows) = self.rows.get() {
            return Ok(&rows.batches);
        }
        let missing = || swingdb::Error::internal("rows that come from nowhere");
        let scan = self.scan.as_ref().ok_or_else(|| errors::raise(&missing()))?.get()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let read = move || {
            let going_on = scan.take_while(|_| !stopped.load(Ordering::Relaxed));
            going_on.collect::<swingdb::Result<Vec<_>>>()
        };
        let read = blocking::run(py, || stop.store(true, Ordering::Relaxed), read)?;
        let batches = read.map_err(|error| errors::raise(&error))?;
        // Whoever comes first wins.
        Ok(&self.rows.get_or_init(|| Rows::new(batches)).batches)
    }

    /// All values of a column in one array: the column itself if it is in one piece.
    fn column(&self, batches: &[RecordBatch], index: usize) -> PyResult<ArrayRef> {
        if index >= self.schema.fields().len() {
            return Err(pyo3::exceptions::PyIndexError::new_err("no such column"));
        }
        match batches {
            [] => Ok(new_empty_array(self.schema.field(index).data_type())),
            [only] => Ok(Arc::clone(only.column(index))),
            many => {
                let chunks: Vec<&dyn Array> =
                    many.iter().map(|batch| batch.column(index).as_ref()).collect();
                concat(&chunks).map_err(errors::raise_arrow)
            }
        }
    }
}

#[pymethods]
impl Batches {
    /// (name, SQL type, family, precision, scale, nullable) of each column.
    #[getter]
    fn columns(&self) -> Vec<Column> {
        types::columns(&self.schema)
    }

    /// Up to `count` rows (or all) from row `offset` on, as tuples.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        offset: usize,
        count: Option<usize>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let (mut skip, mut left) = (offset, count.unwrap_or(usize::MAX));
        let mut out = Vec::new();
        for batch in self.batches(py)?.iter() {
            if left == 0 {
                break;
            }
            let skipped = skip.min(batch.num_rows());
            skip -= skipped;
            let taken = left.min(batch.num_rows() - skipped);
            if taken == 0 {
                continue;
            }
            left -= taken;
            rows::append(py, &batch.slice(skipped, taken), &mut out)?;
            py.check_signals()?;
        }
        Ok(out)
    }

    /// (values, mask) of a column: values with NumPy's array interface, or a list of Python values;
    /// mask (True: NULL) or None.
    fn numpy<'py>(
        &self,
        py: Python<'py>,
        index: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Option<NumpyColumn>)> {
        let batches = self.batches(py)?;
        let array = py.detach(|| self.column(batches, index))?;
        let mask = (array.null_count() > 0).then(|| NumpyColumn::mask(array.as_ref()));
        let values = match NumpyColumn::new(&array) {
            Some(column) => column.into_pyobject(py)?.into_any(),
            None => {
                let field = self.schema.field(index);
                let values = caught(|| rows::values(py, field, &array))??;
                PyList::new(py, values)?.into_any()
            }
        };
        Ok((values, mask))
    }

    /// The same rows without string views, which not all libraries work with.
    fn without_views(&self, py: Python<'_>) -> PyResult<Batches> {
        let batches = self.batches(py)?;
        let (schema, batches) = py
            .detach(|| views::without_views(&self.schema, batches))
            .map_err(errors::raise_arrow)?;
        Ok(Batches::new(schema, batches))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches: Vec<_> = self.batches(py)?.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        stream_capsule(py, Box::new(reader), requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}

/// Values of one fixed-width type, shown to NumPy by its array interface without copying.
#[pyclass(frozen, module = "swingdb._internal")]
pub struct NumpyColumn {
    /// Keeps the memory for as long as an array of NumPy has this object as its base.
    buffer: Buffer,
    length: usize,
    type_string: String,
}

impl NumpyColumn {
    /// The values of `array`, if NumPy has its type.
    fn new(array: &ArrayRef) -> Option<Self> {
        let plain = |kind: &str| Some((Arc::clone(array), kind.to_string()));
        let (array, type_string) = match array.data_type() {
            DataType::Int8 => plain("|i1"),
            DataType::Int16 => plain("<i2"),
            DataType::Int32 => plain("<i4"),
            DataType::Int64 => plain("<i8"),
            DataType::UInt8 => plain("|u1"),
            DataType::UInt16 => plain("<u2"),
            DataType::UInt32 => plain("<u4"),
            DataType::UInt64 => plain("<u8"),
            DataType::Float16 => plain("<f2"),
            DataType::Float32 => plain("<f4"),
            DataType::Float64 => plain("<f8"),
            DataType::Timestamp(unit, _) => plain(&format!("<M8[{}]", unit_name(*unit))),
            DataType::Duration(unit) => plain(&format!("<m8[{}]", unit_name(*unit))),
            DataType::Date32 => {
                let days = array.as_primitive::<Date32Type>();
                let days: Int64Array = days.unary(i64::from);
                Some((Arc::new(days) as ArrayRef, "<M8[D]".to_string()))
            }
            DataType::Date64 => {
                let days = array.as_primitive::<Date64Type>();
                let days: Int64Array = days.unary(|ms| ms.div_euclid(86_400_000));
                Some((Arc::new(days) as ArrayRef, "<M8[D]".to_string()))
            }
            DataType::Boolean => {
                let bits = array.as_boolean().values();
                let bytes = UInt8Array::from_iter_values(bits.iter().map(u8::from));
                Some((Arc::new(bytes) as ArrayRef, "|b1".to_string()))
            }
            _ => None,
        }?;
        let data = array.to_data();
        let width = data.data_type().primitive_width()?;
        let buffer =
            data.buffers()[0].slice_with_length(data.offset() * width, array.len() * width);
        Some(Self { buffer, length: array.len(), type_string })
    }

    /// True where `array` is NULL.
    fn mask(array: &dyn Array) -> Self {
        let bytes: Vec<u8> = (0..array.len()).map(|row| u8::from(array.is_null(row))).collect();
        Self { length: bytes.len(), buffer: Buffer::from_vec(bytes), type_string: "|b1".into() }
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

#[pymethods]
impl NumpyColumn {
    /// NumPy's array interface, version 3; the memory is read-only, since others may show it too.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", &self.type_string)?;
        interface.set_item("shape", (self.length,))?;
        interface.set_item("data", (self.buffer.as_ptr() as usize, true))?;
        Ok(interface)
    }
}
