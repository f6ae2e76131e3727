//! Python sequences and NumPy arrays as Arrow arrays.

use std::sync::Arc;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pyo3_arrow::input::AnyArray;
use swingdb::arrow::array::types::*;
use swingdb::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewBuilder, BooleanArray, Decimal128Array,
    Decimal256Array, IntervalMonthDayNanoArray, ListArray, MapArray, NullArray, PrimitiveArray,
    RecordBatch, RecordBatchOptions, StringViewBuilder, StructArray, new_empty_array,
};
use swingdb::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use swingdb::arrow::compute::concat;
use swingdb::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit, i256};

use crate::batches::Batches;
use crate::infer::{common_type_of, exact_float, normal, plain_digits, type_of_alike};
use crate::{errors, temporal};

pub type Values<'a, 'py> = &'a [Bound<'py, PyAny>];

/// (name, values, kind, mask): a sequence, or memory of NumPy's type `kind` with a mask of NULLs.
type Given<'py> = (String, Bound<'py, PyAny>, Option<String>, Option<Bound<'py, PyAny>>);

/// A table of columns of Python values, NumPy arrays and Arrow arrays, all of one length.
#[pyfunction]
pub fn batches_from_columns(py: Python<'_>, columns: Vec<Given<'_>>) -> PyResult<Batches> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (name, values, kind, mask) in columns {
        let array = match kind {
            Some(kind) => from_memory(py, &values, &kind, mask.as_ref()),
            None if values.hasattr("__arrow_c_array__")?
                || values.hasattr("__arrow_c_stream__")? =>
            {
                from_arrow(&values)
            }
            None => from_values(&values),
        };
        let array = array.map_err(|error| in_column(py, &name, error))?;
        if let Some(first) = arrays.first()
            && first.len() != array.len()
        {
            return Err(errors::new(
                "InterfaceError",
                format!("column {name:?} has {} values, the others {}", array.len(), first.len()),
            ));
        }
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let rows = arrays.first().map_or(0, |array| array.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)
        .map_err(errors::raise_arrow)?;
    Ok(Batches::new(schema, vec![batch]))
}

/// Columns of values whose types are alike, so that storing all at once stores what storing each
/// alone does; `None` if a column has others.
///
/// In a column that `doubles` names, whole numbers may stand among fractions.
#[pyfunction]
pub fn batches_of_alike(
    columns: Vec<(String, Bound<'_, PyAny>)>,
    doubles: Vec<bool>,
) -> PyResult<Option<Batches>> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for (index, (name, values)) in columns.into_iter().enumerate() {
        let values: Vec<_> =
            values.try_iter()?.map(|value| normal(&value?)).collect::<PyResult<_>>()?;
        let as_double = doubles.get(index).copied().unwrap_or_default();
        let Some(data_type) = type_of_alike(&values, as_double)? else { return Ok(None) };
        fields.push(Field::new(name, data_type.clone(), true));
        arrays.push(build(&values, &data_type)?);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(errors::raise_arrow)?;
    Ok(Some(Batches::new(schema, vec![batch])))
}

/// Adds which column it was to an error about a value.
fn in_column(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    if let Ok(class) = py.import("swingdb.errors").and_then(|module| module.getattr("Error"))
        && error.value(py).is_instance(&class).unwrap_or(false)
    {
        // Attributes of exceptions can be set; if not, the error is still the right one.
        let _ = error.value(py).setattr("column", name);
        let _ = error.add_note(py, format!("in column {name:?}"));
    }
    error
}

pub fn from_arrow(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let chunked = values.extract::<AnyArray>()?.into_chunked_array()?;
    let (chunks, field) = chunked.into_inner();
    let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
    if chunks.is_empty() {
        return Ok(new_empty_array(field.data_type()));
    }
    concat(&chunks).map_err(errors::raise_arrow)
}

fn from_values(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let values: Vec<_> =
        values.try_iter()?.map(|value| normal(&value?)).collect::<PyResult<_>>()?;
    build(&values, &common_type_of(&values)?)
}

/// The array of type `data_type` that holds normal `values`, which have types that fit into it.
pub fn build(values: Values<'_, '_>, data_type: &DataType) -> PyResult<ArrayRef> {
    Ok(match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => {
            let values = each(values, |value| value.extract::<bool>())?;
            Arc::new(BooleanArray::from(values))
        }
        DataType::Int64 => primitive::<Int64Type>(values, |value| value.extract())?,
        DataType::UInt64 => primitive::<UInt64Type>(values, |value| value.extract())?,
        DataType::Float64 => primitive::<Float64Type>(values, exact_float)?,
        DataType::Utf8View => strings(values)?,
        DataType::BinaryView => binaries(values)?,
        DataType::Date32 => primitive::<Date32Type>(values, temporal::days_of)?,
        DataType::Time64(_) => primitive::<Time64MicrosecondType>(values, temporal::clock_us_of)?,
        DataType::Duration(TimeUnit::Nanosecond) => {
            primitive::<DurationNanosecondType>(values, temporal::delta_ns_of)?
        }
        DataType::Duration(_) => {
            primitive::<DurationMicrosecondType>(values, temporal::delta_us_of)?
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let ns = each(values, timestamp_ns)?;
            let array = PrimitiveArray::<TimestampNanosecondType>::from(ns);
            Arc::new(array.with_timezone_opt(zone.clone()))
        }
        DataType::Timestamp(_, zone) => {
            let us = each(values, timestamp_us)?;
            let array = PrimitiveArray::<TimestampMicrosecondType>::from(us);
            Arc::new(array.with_timezone_opt(zone.clone()))
        }
        DataType::Interval(_) => {
            let parts = each(values, |value| {
                let (months, days, nanos): (i32, i32, i64) = value.extract()?;
                Ok(IntervalMonthDayNano::new(months, days, nanos))
            })?;
            Arc::new(IntervalMonthDayNanoArray::from(parts))
        }
        DataType::Decimal128(precision, scale) => {
            let unscaled = each(values, |value| {
                unscaled(value, *scale)?
                    .parse::<i128>()
                    .map_err(|e| errors::new("DataError", e.to_string()))
            })?;
            let array = Decimal128Array::from(unscaled);
            Arc::new(
                array.with_precision_and_scale(*precision, *scale).map_err(errors::raise_arrow)?,
            )
        }
        DataType::Decimal256(precision, scale) => {
            let unscaled = each(values, |value| {
                i256::from_string(&unscaled(value, *scale)?)
                    .ok_or_else(|| errors::new("DataError", "a decimal is too large"))
            })?;
            let array = Decimal256Array::from(unscaled);
            Arc::new(
                array.with_precision_and_scale(*precision, *scale).map_err(errors::raise_arrow)?,
            )
        }
        DataType::List(item) => lists(values, item)?,
        DataType::Struct(fields) => structs(values, fields)?,
        DataType::Map(entries, _) => maps(values, entries)?,
        // Inference gives no other types.
        other => return Err(errors::new("InternalError", format!("no builder for {other}"))),
    })
}

fn each<'py, T>(
    values: Values<'_, 'py>,
    read: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<Option<T>>> {
    values.iter().map(|v| if v.is_none() { Ok(None) } else { read(v).map(Some) }).collect()
}

fn primitive<'py, T: ArrowPrimitiveType>(
    values: Values<'_, 'py>,
    read: impl Fn(&Bound<'py, PyAny>) -> PyResult<T::Native>,
) -> PyResult<ArrayRef> {
    Ok(Arc::new(PrimitiveArray::<T>::from_iter(each(values, read)?)))
}

fn timestamp_us(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    // A date among timestamps is its midnight.
    if value.hasattr("hour")? {
        Ok(temporal::instant_of(value)?.0)
    } else {
        Ok(i64::from(temporal::days_of(value)?) * temporal::DAY_US)
    }
}

fn timestamp_ns(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    if temporal::is_numpy(value)? {
        return temporal::numpy_units(value);
    }
    temporal::with_ns(timestamp_us(value)?, value, "nanosecond")
}

fn strings(values: Values<'_, '_>) -> PyResult<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(values.len());
    for value in values {
        if value.is_none() {
            builder.append_null();
        } else if let Ok(text) = value.cast::<PyString>() {
            builder.append_value(text.to_cow()?);
        } else {
            // A UUID: its text form is the one SQL compares.
            builder.append_value(value.str()?.to_cow()?);
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn binaries(values: Values<'_, '_>) -> PyResult<ArrayRef> {
    let mut builder = BinaryViewBuilder::with_capacity(values.len());
    for value in values {
        builder.append_option(if value.is_none() { None } else { Some(value.extract::<&[u8]>()?) });
    }
    Ok(Arc::new(builder.finish()))
}

/// The digits of an int or a Decimal as an integer, with `scale` of them after the point.
fn unscaled(value: &Bound<'_, PyAny>, scale: i8) -> PyResult<String> {
    let text = if value.hasattr("is_finite")? {
        plain_digits(value)?
    } else {
        value.str()?.to_cow()?.into_owned()
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let scale = usize::try_from(scale).unwrap_or(0);
    // The type was chosen so that it has room for every fraction.
    Ok(format!("{whole}{fraction}{}", "0".repeat(scale.saturating_sub(fraction.len()))))
}

fn lists(values: Values<'_, '_>, item: &FieldRef) -> PyResult<ArrayRef> {
    let (mut items, mut lengths) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let before = items.len();
        if !value.is_none() {
            for inner in value.try_iter()? {
                items.push(normal(&inner?)?);
            }
        }
        lengths.push(items.len() - before);
    }
    let items = build(&items, item.data_type())?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let array = ListArray::try_new(Arc::clone(item), offsets, items, validity(values));
    Ok(Arc::new(array.map_err(errors::raise_arrow)?))
}

fn structs(values: Values<'_, '_>, fields: &Fields) -> PyResult<ArrayRef> {
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let mut column = Vec::with_capacity(values.len());
        for value in values {
            // NULLs are not dicts, and have a NULL in every field.
            let inner = match value.cast::<PyDict>() {
                Ok(dict) => dict.get_item(field.name())?,
                Err(_) => None,
            };
            column.push(match inner {
                Some(inner) => normal(&inner)?,
                None => value.py().None().into_bound(value.py()),
            });
        }
        columns.push(build(&column, field.data_type())?);
    }
    let nulls = validity(values);
    let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, values.len());
    Ok(Arc::new(array.map_err(errors::raise_arrow)?))
}

fn maps(values: Values<'_, '_>, entries: &FieldRef) -> PyResult<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(errors::new("InternalError", "the entries of a map are not a struct"));
    };
    let (mut keys, mut items, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for value in values {
        let before = keys.len();
        if let Ok(dict) = value.cast::<PyDict>() {
            for (key, item) in dict.iter() {
                keys.push(normal(&key)?);
                items.push(normal(&item)?);
            }
        }
        lengths.push(keys.len() - before);
    }
    let columns = vec![build(&keys, fields[0].data_type())?, build(&items, fields[1].data_type())?];
    let inner = StructArray::try_new(fields.clone(), columns, None).map_err(errors::raise_arrow)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let array = MapArray::try_new(Arc::clone(entries), offsets, inner, validity(values), false);
    Ok(Arc::new(array.map_err(errors::raise_arrow)?))
}

pub fn validity(values: Values<'_, '_>) -> Option<NullBuffer> {
    let valid: NullBuffer = values.iter().map(|value| !value.is_none()).collect();
    (valid.null_count() > 0).then_some(valid)
}

/// An array over the values of a buffer: `kind` is NumPy's, such as `f8`, `bool` or `M8[us]`.
fn from_memory(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    kind: &str,
    mask: Option<&Bound<'_, PyAny>>,
) -> PyResult<ArrayRef> {
    let nulls = match mask {
        Some(mask) => {
            let hidden = memory::<u8>(py, mask)?;
            Some(hidden.into_iter().map(|hidden| hidden == 0).collect::<NullBuffer>())
        }
        None => None,
    };
    if let Some(unit) = kind.strip_prefix("M8").or_else(|| kind.strip_prefix("m8")) {
        return times(py, values, kind.starts_with('M'), unit, nulls);
    }
    match kind {
        "bool" => {
            let bytes = memory::<u8>(py, values)?;
            let bits = bytes.into_iter().map(|byte| byte != 0).collect();
            Ok(Arc::new(BooleanArray::new(bits, nulls)))
        }
        "i1" => numbers::<Int8Type>(py, values, nulls),
        "i2" => numbers::<Int16Type>(py, values, nulls),
        "i4" => numbers::<Int32Type>(py, values, nulls),
        "i8" => numbers::<Int64Type>(py, values, nulls),
        "u1" => numbers::<UInt8Type>(py, values, nulls),
        "u2" => numbers::<UInt16Type>(py, values, nulls),
        "u4" => numbers::<UInt32Type>(py, values, nulls),
        "u8" => numbers::<UInt64Type>(py, values, nulls),
        "f4" => numbers::<Float32Type>(py, values, nulls),
        "f8" => numbers::<Float64Type>(py, values, nulls),
        other => Err(errors::new("InterfaceError", format!("no column of NumPy type {other}"))),
    }
}

fn memory<T: Element>(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    PyBuffer::<T>::get(values)?.to_vec(py)
}

fn numbers<T: ArrowPrimitiveType>(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    nulls: Option<NullBuffer>,
) -> PyResult<ArrayRef>
where
    T::Native: Element,
{
    let values = ScalarBuffer::from(memory::<T::Native>(py, values)?);
    let array = PrimitiveArray::<T>::try_new(values, nulls).map_err(errors::raise_arrow)?;
    Ok(Arc::new(array))
}

/// Timestamps (else durations) from NumPy's integers, whose smallest one is NumPy's missing time.
fn times(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    stamps: bool,
    unit: &str,
    nulls: Option<NullBuffer>,
) -> PyResult<ArrayRef> {
    let unit = match unit {
        "[s]" => TimeUnit::Second,
        "[ms]" => TimeUnit::Millisecond,
        "[us]" => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    };
    let values = memory::<i64>(py, values)?;
    let present: NullBuffer = values.iter().map(|value| *value != i64::MIN).collect();
    let nulls = NullBuffer::union(nulls.as_ref(), Some(&present));
    let array = PrimitiveArray::<Int64Type>::try_new(ScalarBuffer::from(values), nulls)
        .map_err(errors::raise_arrow)?;
    let target = if stamps { DataType::Timestamp(unit, None) } else { DataType::Duration(unit) };
    swingdb::arrow::compute::cast(&array, &target).map_err(errors::raise_arrow)
}
