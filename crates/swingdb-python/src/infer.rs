//! The Arrow type of Python values: [`type_of`] one, [`common_type`] of two, [`normal`] forms.
//!
//! What does not go together is refused rather than guessed: numbers and text in one column, naive
//! and aware timestamps, exact and binary fractions.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDate, PyDateTime, PyDelta, PyDict, PyFloat, PyInt, PyList, PyString, PyTime,
    PyTuple,
};
use swingdb::arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};

use crate::errors;
use crate::temporal::{NANOS_OF_MICRO, classes, instant_of, is_numpy};

/// The most digits an Arrow decimal has.
const MAX_DIGITS: u8 = 76;
/// The most digits of Arrow's 128-bit decimal.
pub const MAX_DIGITS_128: u8 = 38;

/// The same value as one of Python's own types: scalars and arrays of NumPy, pandas' missing
/// values, and the other kinds of bytes are replaced.
pub fn normal<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if is_builtin(value) {
        return Ok(value.clone());
    }
    let class = value.get_type();
    let module = class.module()?;
    let library = module.to_str()?.split('.').next().unwrap_or_default();
    match library {
        "numpy" => numpy_value(value),
        "pandas" if matches!(class.name()?.to_str()?, "NAType" | "NaTType") => {
            Ok(py.None().into_bound(py))
        }
        "builtins" if matches!(class.name()?.to_str()?, "bytearray" | "memoryview") => {
            py.get_type::<PyBytes>().call1((value,))
        }
        _ => Ok(value.clone()),
    }
}

/// Whether the value's class is exactly one of Python's own most frequent ones.
fn is_builtin(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PyDateTime>()
}

fn numpy_value<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let dtype = value.getattr(intern!(py, "dtype"))?;
    let kind: String = dtype.getattr(intern!(py, "kind"))?.extract()?;
    let coarse = match kind.as_str() {
        "M" => "datetime64[us]",
        "m" => "timedelta64[us]",
        _ => return plain_value(value),
    };
    if let Some(fine) = in_nanoseconds(value, &dtype, &kind)? {
        return Ok(fine);
    }
    let plain = plain_value(&in_microseconds(value, &dtype, coarse)?)?;
    if has_number(&plain)? {
        let message = format!(
            "{} is no time that Python's datetime can say; years are 1 to 9999, and a length of \
             months is an INTERVAL",
            value.repr()?
        );
        return Err(errors::new("DataError", message));
    }
    Ok(plain)
}

/// A time or a duration that has nanoseconds as NumPy's own value, which Python has no class for;
/// an array of which some have as a list. `None` for what has none.
fn in_nanoseconds<'py>(
    value: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    kind: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = value.py();
    let numpy = py.import("numpy")?;
    let unit: (String, i64) = numpy.call_method1("datetime_data", (dtype,))?.extract()?;
    if !matches!(unit.0.as_str(), "ns" | "ps" | "fs" | "as") {
        return Ok(None);
    }
    let fine = value.call_method1(intern!(py, "astype"), (format!("{kind}8[ns]"),))?;
    let absent = numpy.call_method1("isnat", (&fine,))?;
    let units = fine.call_method1(intern!(py, "astype"), ("int64",))?;
    let rest = numpy.call_method1("where", (absent, 0, units.rem(NANOS_OF_MICRO)?))?;
    match rest.call_method0("any")?.is_truthy()? {
        true if value.get_type().name()?.to_str()? == "ndarray" => {
            Ok(Some(py.get_type::<PyList>().call1((fine,))?))
        }
        true => Ok(Some(fine)),
        false => Ok(None),
    }
}

/// What NumPy hands out for a value or an array.
fn plain_value<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    match value.get_type().name()?.to_str()? {
        "ndarray" => value.call_method0(intern!(py, "tolist")),
        _ => value.call_method0(intern!(py, "item")),
    }
}

/// Whether there is a whole number, at any depth of lists: what NumPy hands out for a time that
/// Python has no class for.
fn has_number(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(list) = value.cast::<PyList>() {
        for item in list.iter() {
            if has_number(&item)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    Ok(value.is_instance_of::<PyInt>())
}

/// Times and durations in nanoseconds or finer, a value or an array, in microseconds: Python has
/// no class for them.
fn in_microseconds<'py>(
    value: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    coarse: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let unit: (String, i64) =
        py.import("numpy")?.call_method1("datetime_data", (dtype,))?.extract()?;
    match unit.0.as_str() {
        "ns" | "ps" | "fs" | "as" => value.call_method1(intern!(py, "astype"), (coarse,)),
        _ => Ok(value.clone()),
    }
}

/// The Arrow type of one normal value.
pub fn type_of(value: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let py = value.py();
    if value.is_none() {
        return Ok(DataType::Null);
    }
    // A bool is an int, and a datetime a date, to Python: the narrower class goes first.
    if value.is_instance_of::<PyBool>() {
        return Ok(DataType::Boolean);
    }
    if value.is_instance_of::<PyInt>() {
        return type_of_int(value);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(DataType::Float64);
    }
    if value.is_instance_of::<PyString>() {
        return Ok(DataType::Utf8View);
    }
    if value.is_instance_of::<PyBytes>() {
        return Ok(DataType::BinaryView);
    }
    if value.is_instance_of::<PyDateTime>() {
        return Ok(DataType::Timestamp(unit_of(value, "nanosecond")?, instant_of(value)?.1));
    }
    if value.is_instance_of::<PyDate>() {
        return Ok(DataType::Date32);
    }
    if value.is_instance_of::<PyTime>() {
        if !value.getattr(intern!(py, "tzinfo"))?.is_none() {
            let message = "a time of day with a zone has no SQL type: a TIME has none";
            return Err(errors::new("DataError", message));
        }
        return Ok(DataType::Time64(TimeUnit::Microsecond));
    }
    if value.is_instance_of::<PyDelta>() {
        return Ok(DataType::Duration(unit_of(value, "nanoseconds")?));
    }
    if is_numpy(value)? {
        return match value.get_type().name()?.to_str()? {
            "timedelta64" => Ok(DataType::Duration(TimeUnit::Nanosecond)),
            _ => Ok(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        };
    }
    let classes = classes(py)?;
    if value.is_instance(classes.decimal.bind(py))? {
        return type_of_decimal(value);
    }
    if value.is_instance(classes.uuid.bind(py))? {
        return Ok(DataType::Utf8View);
    }
    if value.is_instance(classes.interval.bind(py))? {
        return Ok(DataType::Interval(IntervalUnit::MonthDayNano));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return type_of_dict(dict);
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items: Vec<_> = value.try_iter()?.collect::<PyResult<_>>()?;
        return Ok(DataType::List(item_field(common_type_of(&items)?)));
    }
    Err(errors::new(
        "InterfaceError",
        format!("a value of class {} has no SQL type", value.get_type().fully_qualified_name()?),
    ))
}

/// The unit of a time or duration: pandas' have nanoseconds, too.
fn unit_of(value: &Bound<'_, PyAny>, nanoseconds: &str) -> PyResult<TimeUnit> {
    match value.getattr_opt(nanoseconds)? {
        Some(rest) if rest.extract::<i64>()? != 0 => Ok(TimeUnit::Nanosecond),
        _ => Ok(TimeUnit::Microsecond),
    }
}

/// The finer one of two units.
fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    match a == TimeUnit::Nanosecond || b == TimeUnit::Nanosecond {
        true => TimeUnit::Nanosecond,
        false => TimeUnit::Microsecond,
    }
}

/// The field of a list's items.
pub fn item_field(item: DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(item, true))
}

/// The type that all values of a sequence fit in.
pub fn common_type_of(values: &[Bound<'_, PyAny>]) -> PyResult<DataType> {
    let mut common = DataType::Null;
    for value in values {
        let one = type_of(&normal(value)?)?;
        if one != common {
            common = common_type(&common, &one)?;
        }
    }
    Ok(common)
}

/// The one type of normal values whose types are alike, so that each is stored as it would be
/// alone; `None` for others. Where they become doubles, whole numbers and fractions are alike.
pub fn type_of_alike(values: &[Bound<'_, PyAny>], as_double: bool) -> PyResult<Option<DataType>> {
    use DataType::{Decimal128, Float64, Int64, Null, UInt64};
    let mut common = Null;
    for value in values {
        common = match (common, type_of(value)?) {
            (a, b) if a == b => a,
            (Null, other) | (other, Null) => other,
            (Decimal128(a, scale), Decimal128(b, other)) if scale == other => {
                Decimal128(a.max(b), scale)
            }
            (Float64 | Int64 | UInt64, Float64 | Int64 | UInt64) if as_double => Float64,
            _ => return Ok(None),
        };
    }
    Ok(Some(common))
}

/// A number as a float; an error where that is another number.
pub fn exact_float(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    let float: f64 = value.extract()?;
    if value.is_instance_of::<PyInt>() && !value.eq(float)? {
        let message = format!(
            "beside a fraction the whole number {value} would become {float}: give all numbers of \
             the column as decimal.Decimal, or as float where rounding is meant"
        );
        return Err(errors::new("DataError", message));
    }
    Ok(float)
}

fn type_of_int(value: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if value.extract::<i64>().is_ok() {
        return Ok(DataType::Int64);
    }
    if value.extract::<u64>().is_ok() {
        return Ok(DataType::UInt64);
    }
    let digits = value.str()?.to_str()?.trim_start_matches('-').len();
    decimal_type(digits, 0)
}

/// The decimal type with so many digits in all and after the point.
fn decimal_type(digits: usize, scale: usize) -> PyResult<DataType> {
    // Both fit their type when they are within the limit.
    match u8::try_from(digits) {
        Ok(precision) if precision <= MAX_DIGITS_128 => {
            Ok(DataType::Decimal128(precision.max(1), scale as i8))
        }
        Ok(precision) if precision <= MAX_DIGITS => {
            Ok(DataType::Decimal256(precision, scale as i8))
        }
        _ => Err(errors::new("DataError", format!("a number has more than {MAX_DIGITS} digits"))),
    }
}

fn type_of_decimal(value: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let text = plain_digits(value)?;
    let unsigned = text.trim_start_matches('-');
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0');
    decimal_type(whole.len() + fraction.len(), fraction.len())
}

/// The digits of a `Decimal` without an exponent.
pub fn plain_digits(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let finite: bool = value.call_method0(intern!(value.py(), "is_finite"))?.extract()?;
    if !finite {
        return Err(errors::new("DataError", format!("{value} is not a finite decimal")));
    }
    value.call_method1(intern!(value.py(), "__format__"), ("f",))?.extract()
}

fn type_of_dict(dict: &Bound<'_, PyDict>) -> PyResult<DataType> {
    let keys: Vec<_> = dict.keys().iter().collect();
    if keys.iter().all(|key| key.is_instance_of::<PyString>()) {
        let mut fields = Vec::with_capacity(keys.len());
        for (key, value) in dict.iter() {
            let name: String = key.extract()?;
            fields.push(Field::new(name, type_of(&normal(&value)?)?, true));
        }
        return Ok(DataType::Struct(fields.into()));
    }
    let values: Vec<_> = dict.values().iter().collect();
    Ok(map_type(common_type_of(&keys)?, common_type_of(&values)?))
}

fn map_type(key: DataType, value: DataType) -> DataType {
    let entries =
        Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

/// The type that values of both types fit in without losing anything.
pub fn common_type(a: &DataType, b: &DataType) -> PyResult<DataType> {
    use DataType::*;
    Ok(match (a, b) {
        (a, b) if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (Float64, Int64 | UInt64) | (Int64 | UInt64, Float64) => Float64,
        (Date32, Timestamp(unit, None)) | (Timestamp(unit, None), Date32) => Timestamp(*unit, None),
        (Timestamp(a, Some(zone)), Timestamp(b, Some(other))) => {
            let zone = if zone == other { Arc::clone(zone) } else { "UTC".into() };
            Timestamp(finer(*a, *b), Some(zone))
        }
        (Timestamp(a, None), Timestamp(b, None)) => Timestamp(finer(*a, *b), None),
        (Duration(a), Duration(b)) => Duration(finer(*a, *b)),
        (List(a), List(b)) => List(item_field(common_type(a.data_type(), b.data_type())?)),
        (Struct(a), Struct(b)) => Struct(common_fields(a, b)?),
        (Map(a, _), Map(b, _)) => match (a.data_type(), b.data_type()) {
            (Struct(a), Struct(b)) => map_type(
                common_type(a[0].data_type(), b[0].data_type())?,
                common_type(a[1].data_type(), b[1].data_type())?,
            ),
            _ => return Err(incompatible(a.data_type(), b.data_type())),
        },
        (a, b) => match (digits(a), digits(b)) {
            (Some((whole_a, scale_a)), Some((whole_b, scale_b))) => {
                let scale = scale_a.max(scale_b);
                decimal_type(whole_a.max(whole_b) + scale, scale)?
            }
            _ => return Err(incompatible(a, b)),
        },
    })
}

/// Digits before and after the point of an exact number type.
fn digits(data_type: &DataType) -> Option<(usize, usize)> {
    match data_type {
        DataType::Int64 => Some((19, 0)),
        DataType::UInt64 => Some((20, 0)),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            // Python's decimals come with a scale of zero or more.
            let scale = usize::try_from(*scale).ok()?;
            Some((usize::from(*precision).saturating_sub(scale), scale))
        }
        _ => None,
    }
}

fn common_fields(a: &Fields, b: &Fields) -> PyResult<Fields> {
    let mut fields: Vec<Field> = a.iter().map(|field| field.as_ref().clone()).collect();
    for other in b {
        match fields.iter_mut().find(|field| field.name() == other.name()) {
            Some(field) => {
                let common = common_type(field.data_type(), other.data_type())?;
                field.set_data_type(common);
            }
            None => fields.push(other.as_ref().clone()),
        }
    }
    Ok(fields.into())
}

fn incompatible(a: &DataType, b: &DataType) -> PyErr {
    errors::new("DataError", format!("values of types {a} and {b} do not go into one column"))
}
