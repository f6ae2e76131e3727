//! Arrow batches as rows of Python values.
//!
//! A batch is converted column by column, so that the type is looked at once a column, and its
//! columns are then dealt out into tuples. NULL is `None`; a value of a dictionary or of a run is
//! made once and shared.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString, PyTuple};
use swingdb::arrow::array::cast::AsArray;
use swingdb::arrow::array::types::*;
use swingdb::arrow::array::{
    Array, ArrayAccessor, ArrayRef, ArrowPrimitiveType, GenericListArray, ListLikeArray,
    OffsetSizeTrait, RecordBatch,
};
use swingdb::arrow::compute::cast;
use swingdb::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};

use crate::panics::caught;
use crate::temporal::{self, Zone, classes};
use crate::{errors, types};

type Values<'py> = Vec<Bound<'py, PyAny>>;

/// Appends the rows of `batch` to `out` as tuples.
pub fn append<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
    out: &mut Vec<Bound<'py, PyTuple>>,
) -> PyResult<()> {
    // Values that no table should hold, such as a decimal with a scale out of range, panic.
    caught(|| append_rows(py, batch, out))?
}

fn append_rows<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
    out: &mut Vec<Bound<'py, PyTuple>>,
) -> PyResult<()> {
    let schema = batch.schema();
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        columns.push(values(py, field, array)?.into_iter());
    }
    out.reserve(batch.num_rows());
    for _ in 0..batch.num_rows() {
        // Every column has as many values as the batch has rows.
        out.push(PyTuple::new(py, columns.iter_mut().map(|column| column.next()))?);
    }
    Ok(())
}

/// The values of one column.
pub fn values<'py>(py: Python<'py>, field: &Field, array: &ArrayRef) -> PyResult<Values<'py>> {
    if types::is_uuid(field) {
        return uuids(py, array);
    }
    match array.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        DataType::Boolean => {
            each(py, array.as_boolean(), |v| Ok(PyBool::new(py, v).to_owned().into_any()))
        }
        DataType::Int8 => integers::<Int8Type>(py, array),
        DataType::Int16 => integers::<Int16Type>(py, array),
        DataType::Int32 => integers::<Int32Type>(py, array),
        DataType::Int64 => integers::<Int64Type>(py, array),
        DataType::UInt8 => integers::<UInt8Type>(py, array),
        DataType::UInt16 => integers::<UInt16Type>(py, array),
        DataType::UInt32 => integers::<UInt32Type>(py, array),
        DataType::UInt64 => integers::<UInt64Type>(py, array),
        DataType::Float16 => {
            each(py, array.as_primitive::<Float16Type>(), |v| float(py, v.to_f64()))
        }
        DataType::Float32 => each(py, array.as_primitive::<Float32Type>(), |v| float(py, v.into())),
        DataType::Float64 => each(py, array.as_primitive::<Float64Type>(), |v| float(py, v)),
        DataType::Utf8 => each(py, array.as_string::<i32>(), |v| string(py, v)),
        DataType::LargeUtf8 => each(py, array.as_string::<i64>(), |v| string(py, v)),
        DataType::Utf8View => each(py, array.as_string_view(), |v| string(py, v)),
        DataType::Binary => each(py, array.as_binary::<i32>(), |v| bytes(py, v)),
        DataType::LargeBinary => each(py, array.as_binary::<i64>(), |v| bytes(py, v)),
        DataType::BinaryView => each(py, array.as_binary_view(), |v| bytes(py, v)),
        DataType::FixedSizeBinary(_) => each(py, array.as_fixed_size_binary(), |v| bytes(py, v)),
        DataType::Decimal32(_, _) => decimals::<Decimal32Type>(py, array),
        DataType::Decimal64(_, _) => decimals::<Decimal64Type>(py, array),
        DataType::Decimal128(_, _) => decimals::<Decimal128Type>(py, array),
        DataType::Decimal256(_, _) => decimals::<Decimal256Type>(py, array),
        t if t.is_temporal() => temporal(py, array),
        _ => nested(py, array),
    }
}

fn each<'py, A: ArrayAccessor>(
    py: Python<'py>,
    array: A,
    make: impl Fn(A::Item) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Values<'py>> {
    if array.null_count() == 0 {
        return (0..array.len()).map(|row| make(array.value(row))).collect();
    }
    let none = py.None().into_bound(py);
    (0..array.len())
        .map(|row| if array.is_null(row) { Ok(none.clone()) } else { make(array.value(row)) })
        .collect()
}

fn float(py: Python<'_>, value: f64) -> PyResult<Bound<'_, PyAny>> {
    Ok(PyFloat::new(py, value).into_any())
}

fn string<'py>(py: Python<'py>, value: &str) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyString::new(py, value).into_any())
}

fn bytes<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyBytes::new(py, value).into_any())
}

fn integers<'py, T: ArrowPrimitiveType>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>>
where
    T::Native: Into<i128>,
{
    each(py, array.as_primitive::<T>(), |value| {
        let wide: i128 = value.into();
        // All but the upper half of UInt64 fit, and the narrow conversion is the fast one.
        match i64::try_from(wide) {
            Ok(narrow) => Ok(narrow.into_pyobject(py)?.into_any()),
            Err(_) => Ok(wide.into_pyobject(py)?.into_any()),
        }
    })
}

fn decimals<'py, T: DecimalType>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let class = classes(py)?.decimal.bind(py);
    let array = array.as_primitive::<T>();
    let none = py.None().into_bound(py);
    (0..array.len())
        .map(|row| {
            if array.is_null(row) {
                Ok(none.clone())
            } else {
                class.call1((array.value_as_string(row),))
            }
        })
        .collect()
}

fn uuids<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let class = classes(py)?.uuid.bind(py);
    each(py, array.as_fixed_size_binary(), |value| {
        let arguments = PyDict::new(py);
        arguments.set_item("bytes", PyBytes::new(py, value))?;
        class.call((), Some(&arguments))
    })
}

/// Dates, times, timestamps, durations and intervals, by way of 64-bit microseconds or days.
fn temporal<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    match array.data_type() {
        DataType::Date32 => {
            each(py, array.as_primitive::<Date32Type>(), |days| temporal::date(py, days.into()))
        }
        DataType::Date64 => each(py, array.as_primitive::<Date64Type>(), |ms| {
            temporal::date(py, ms.div_euclid(86_400_000))
        }),
        DataType::Time32(TimeUnit::Second) => {
            each(py, array.as_primitive::<Time32SecondType>(), |v| {
                temporal::time(py, i64::from(v) * 1_000_000)
            })
        }
        DataType::Time32(_) => each(py, array.as_primitive::<Time32MillisecondType>(), |v| {
            temporal::time(py, i64::from(v) * 1000)
        }),
        DataType::Time64(TimeUnit::Nanosecond) => {
            each(py, array.as_primitive::<Time64NanosecondType>(), |v| temporal::time(py, v / 1000))
        }
        DataType::Time64(_) => {
            each(py, array.as_primitive::<Time64MicrosecondType>(), |v| temporal::time(py, v))
        }
        DataType::Timestamp(unit, zone) => {
            let zone = Zone::new(py, zone.as_deref())?;
            microseconds(py, array, *unit, "timestamp", |us| zone.datetime(py, us))
        }
        DataType::Duration(unit) => {
            microseconds(py, array, *unit, "duration", |us| temporal::timedelta(py, us))
        }
        _ => intervals(py, array),
    }
}

/// The values of a timestamp or duration array in microseconds, made into Python values.
fn microseconds<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    unit: TimeUnit,
    what: &str,
    make: impl Fn(i64) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Values<'py>> {
    let raw = cast(array, &DataType::Int64).map_err(errors::raise_arrow)?;
    each(py, raw.as_primitive::<Int64Type>(), |value| {
        let us = match unit {
            TimeUnit::Second => value.checked_mul(1_000_000),
            TimeUnit::Millisecond => value.checked_mul(1000),
            TimeUnit::Microsecond => Some(value),
            TimeUnit::Nanosecond => Some(value.div_euclid(1000)),
        };
        let us = us.ok_or_else(|| errors::new("DataError", format!("a {what} is out of range")))?;
        make(us)
    })
}

fn intervals<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let class = classes(py)?.interval.bind(py);
    match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            each(py, array.as_primitive::<IntervalYearMonthType>(), |months| {
                class.call1((months, 0, 0))
            })
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            each(py, array.as_primitive::<IntervalDayTimeType>(), |v| {
                class.call1((0, v.days, i64::from(v.milliseconds) * 1_000_000))
            })
        }
        _ => each(py, array.as_primitive::<IntervalMonthDayNanoType>(), |v| {
            class.call1((v.months, v.days, v.nanoseconds))
        }),
    }
}

fn nested<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    match array.data_type() {
        DataType::List(item) => list(py, item, array.as_list::<i32>()),
        DataType::LargeList(item) => list(py, item, array.as_list::<i64>()),
        DataType::ListView(item) => list_like(py, item, array, array.as_list_view::<i32>()),
        DataType::LargeListView(item) => list_like(py, item, array, array.as_list_view::<i64>()),
        DataType::FixedSizeList(item, _) => list_like(py, item, array, array.as_fixed_size_list()),
        DataType::Struct(_) => structs(py, array),
        DataType::Map(_, _) => maps(py, array),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let field = Field::new("", dictionary.values().data_type().clone(), true);
            let distinct = values(py, &field, dictionary.values())?;
            let none = py.None().into_bound(py);
            // Without values all rows are NULL, and `normalized_keys` panics.
            if distinct.is_empty() {
                return Ok(vec![none; array.len()]);
            }
            let pick = |(row, key): (usize, &usize)| {
                if array.is_null(row) { none.clone() } else { distinct[*key].clone() }
            };
            Ok(dictionary.normalized_keys().iter().enumerate().map(pick).collect())
        }
        DataType::RunEndEncoded(_, item) => {
            let flat = cast(array, item.data_type()).map_err(errors::raise_arrow)?;
            values(py, item, &flat)
        }
        DataType::Union(_, _) => unions(py, array),
        other => Err(errors::new(
            "NotSupportedError",
            format!("values of type {other} have no Python form; ask for .arrow()"),
        )),
    }
}

fn list<'py, O: OffsetSizeTrait>(
    py: Python<'py>,
    item: &FieldRef,
    array: &GenericListArray<O>,
) -> PyResult<Values<'py>> {
    let offsets = array.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
    let mut items = values(py, item, &array.values().slice(first, last - first))?.into_iter();
    let none = py.None().into_bound(py);
    (0..array.len())
        .map(|row| {
            let length = (offsets[row + 1] - offsets[row]).as_usize();
            // A NULL may cover items; they are taken, so that the next list starts at its own.
            let taken: Vec<_> = items.by_ref().take(length).collect();
            if array.is_null(row) {
                Ok(none.clone())
            } else {
                Ok(PyList::new(py, taken)?.into_any())
            }
        })
        .collect()
}

fn list_like<'py>(
    py: Python<'py>,
    item: &FieldRef,
    array: &ArrayRef,
    lists: &impl ListLikeArray,
) -> PyResult<Values<'py>> {
    let items = values(py, item, lists.values())?;
    let none = py.None().into_bound(py);
    (0..array.len())
        .map(|row| {
            if array.is_null(row) {
                return Ok(none.clone());
            }
            Ok(PyList::new(py, &items[lists.element_range(row)])?.into_any())
        })
        .collect()
}

fn structs<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let array = array.as_struct();
    let mut columns = Vec::with_capacity(array.num_columns());
    for (field, column) in array.fields().iter().zip(array.columns()) {
        let name = PyString::intern(py, field.name());
        columns.push((name, values(py, field, column)?));
    }
    (0..array.len())
        .map(|row| {
            if array.is_null(row) {
                return Ok(py.None().into_bound(py));
            }
            let dict = PyDict::new(py);
            for (name, column) in &columns {
                dict.set_item(name, &column[row])?;
            }
            Ok(dict.into_any())
        })
        .collect()
}

/// Dictionaries; of keys that cannot be a dictionary's, `{"key": [...], "value": [...]}`.
fn maps<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let array = array.as_map();
    let hashable = !array.keys().data_type().is_nested();
    let fields = array.entries().fields();
    let keys = values(py, &fields[0], array.keys())?;
    let items = values(py, &fields[1], array.values())?;
    let offsets = array.value_offsets();
    (0..array.len())
        .map(|row| {
            if array.is_null(row) {
                return Ok(py.None().into_bound(py));
            }
            let dict = PyDict::new(py);
            let entries = offsets[row] as usize..offsets[row + 1] as usize;
            if hashable {
                for entry in entries {
                    dict.set_item(&keys[entry], &items[entry])?;
                }
            } else {
                dict.set_item("key", PyList::new(py, &keys[entries.clone()])?)?;
                dict.set_item("value", PyList::new(py, &items[entries])?)?;
            }
            Ok(dict.into_any())
        })
        .collect()
}

fn unions<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Values<'py>> {
    let array = array.as_union();
    (0..array.len())
        .map(|row| {
            let value = array.value(row);
            let field = Field::new("", value.data_type().clone(), true);
            // One value in, one value out.
            Ok(values(py, &field, &value)?.remove(0))
        })
        .collect()
}
