//! What is done to values before they are cast, so that a cast means what it means in DuckDB and
//! PostgreSQL.
//!
//! | of | to | |
//! |---|---|---|
//! | fractions | whole numbers | are rounded, where the engine cuts them off |
//! | dates, times, timestamps | text | `2024-01-01 10:00:00`, which reads back |
//! | timestamps | coarser ones | are rounded, where the engine cuts digits off |
//! | TIMESTAMP, DATE | TIMESTAMPTZ | by the clock of the session's zone, and the same way back |
//! | intervals | text | `1 year 3 days 04:05:06`, which reads back |
//! | lists, structs, maps | text | `[1, NULL]`, `{'a': 1}`, `{k=1}`; text in them quoted |
//! | text | lists, structs, maps | are [read](super::read_nested) as they are written |
//! | bytes | text | `a\x00`: `\xHH` for what is no printable ASCII character |
//! | text | bytes | the same way back |
//! | structs | structs | fields go by their [names](super::fields); a missing one is NULL |
//! | structs | maps | names of fields are keys |
//! | maps | maps | keys and values [as alone](super::maps) |
//! | numbers, text | narrower floating point | [what does not fit](super::narrow) is no infinity |
//! | floating point | text, `HUGEINT` | `1e+16`; rounded to even |
//! | decimals | floating point | the nearest number |
//! | text | dates, times, timestamps | are [read](crate::time_text) as they are written |
//! | text | intervals | are [read](crate::interval_text) as they are written |
//! | dictionaries, unions | others | their values [by themselves](super::encoded) |
//!
//! Inside of lists and structs too. [`prepared_type`] says whether there is anything to do.
//!
//! **Cycle.** What is nested is cast by [`nested`] and [`maps`], what is encoded by [`encoded`],
//! and their parts as values alone are.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, FixedSizeListArray, Float32Array, Float64Array,
    GenericListArray, Int64Array, OffsetSizeTrait, StringArray, StringViewArray, StructArray,
    UInt64Array, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options, interleave, take};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, Fields, Float32Type, Float64Type,
    Int64Type, TimeUnit,
};
use arrow::util::display::FormatOptions;

use super::blobs::{blob_of_text, blob_text};
use super::fields::sources;
use super::{encoded, exponents, maps, narrow};
use crate::cast::nested;
pub use crate::cast::nested::{read as read_text, read_json};
pub use crate::cast::parts::is_nested;
use crate::error::{Error, Result};
use crate::time::intervals::{interval_texts, readable};
use crate::time::texts;
use crate::time::texts::{
    Kind, instant_of, is_moment, moment_texts_in, per_second, read_stamp, shown_of,
};
use crate::time::zones::Zone;
use crate::types::sql_names::sql_name;

/// Values as text that reads back as them.
const TEXT_FORMAT: FormatOptions<'static> =
    FormatOptions::new().with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));

/// The type of what [`prepared`] makes of values that are to be cast; `None` when the cast is right
/// as it is.
pub fn prepared_type(from: &DataType, to: &DataType) -> Option<DataType> {
    use DataType as D;
    if encoded::is_encoded(from) {
        return encoded::decoded_type(from, to);
    }
    if to.is_string() {
        let formatted = matches!(from, D::Interval(_) | D::Duration(_))
            || is_moment(from)
            || matches!(from, D::Float32 | D::Float64)
            || is_nested(from)
            || is_bytes(from);
        return formatted.then_some(D::Utf8);
    }
    Some(match (from, to) {
        (from, to) if from.is_string() && is_nested(to) => to.clone(),
        (from, to) if from.is_string() && is_bytes(to) => D::Binary,
        (D::List(from), D::List(to) | D::LargeList(to) | D::FixedSizeList(to, _)) => {
            D::List(item(prepared_type(from.data_type(), to.data_type())?))
        }
        (D::LargeList(from), D::LargeList(to) | D::List(to) | D::FixedSizeList(to, _)) => {
            D::LargeList(item(prepared_type(from.data_type(), to.data_type())?))
        }
        (D::FixedSizeList(from, n), D::List(to) | D::LargeList(to) | D::FixedSizeList(to, _)) => {
            D::FixedSizeList(item(prepared_type(from.data_type(), to.data_type())?), *n)
        }
        (D::Struct(fields), D::Struct(targets)) => struct_type(fields, targets)?,
        (D::Struct(_), D::Map(..)) => to.clone(),
        (D::Map(..), D::Map(..)) => {
            let (old, new) = (maps::key_and_value(from), maps::key_and_value(to));
            (old != new).then(|| to.clone())?
        }
        (from, to) if narrow::is_narrower(from, to) => to.clone(),
        (D::Float32 | D::Float64, D::Decimal128(DECIMAL128_MAX_PRECISION, 0)) => from.clone(),
        (D::Float16, to) if to.is_integer() => D::Float32,
        (D::Float32 | D::Float64, to) if to.is_integer() => from.clone(),
        (D::Decimal32(p, s), to) if *s > 0 && to.is_integer() => D::Decimal32(*p, 0),
        (D::Decimal64(p, s), to) if *s > 0 && to.is_integer() => D::Decimal64(*p, 0),
        (D::Decimal128(p, s), to) if *s > 0 && to.is_integer() => D::Decimal128(*p, 0),
        (D::Decimal256(p, s), to) if *s > 0 && to.is_integer() => D::Decimal256(*p, 0),
        (from, D::Float32 | D::Float64) if is_decimal(from) && !is_exact(from, to) => to.clone(),
        (from, to) if from.is_string() && is_moment(to) => to.clone(),
        (from, D::Interval(_)) if from.is_string() => D::Utf8View,
        (from, to) if from.is_string() && is_decimal(to) => D::Utf8View,
        (D::Timestamp(..) | D::Date32, to) => return stamp_type(from, to),
        _ => return None,
    })
}

/// The type of what [`stamps`] makes of dates and timestamps that are to be cast.
fn stamp_type(from: &DataType, to: &DataType) -> Option<DataType> {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    let has_clock = |name: &str| !Zone::of_arrow(name).is_some_and(Zone::is_utc);
    match (from, to) {
        (Timestamp(unit, from), Timestamp(coarser, to)) => {
            let cut = per_second(*coarser) < per_second(*unit);
            let shown = match (from, to) {
                (Some(zone), None) | (None, Some(zone)) => has_clock(zone),
                _ => false,
            };
            let zone = if shown { to } else { from };
            let unit = if cut { coarser } else { unit };
            (cut || shown).then(|| Timestamp(*unit, zone.clone()))
        }
        (Date32, Timestamp(_, Some(zone))) if has_clock(zone) => {
            Some(Timestamp(TimeUnit::Microsecond, Some(Arc::clone(zone))))
        }
        (Timestamp(unit, Some(zone)), Date32 | Date64 | Time32(_) | Time64(_))
            if has_clock(zone) =>
        {
            Some(Timestamp(*unit, None))
        }
        _ => None,
    }
}

/// Values as the text that a cast makes of them.
pub fn as_text(array: &ArrayRef) -> Result<ArrayRef> {
    cast(&prepared(array, &DataType::Utf8View, false)?, &DataType::Utf8View)
}

/// Values in a form whose cast to `to` is right. What cannot be one is an error; NULL when the cast
/// is `safe`.
pub fn prepared(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    let Some(given) = prepared_type(array.data_type(), to) else { return Ok(Arc::clone(array)) };
    if encoded::is_encoded(array.data_type()) {
        return encoded::decoded(array, to, safe);
    }
    if to.is_string() {
        return texts(array).map(|texts| Arc::new(texts) as ArrayRef);
    }
    match (array.data_type(), to) {
        (
            DataType::List(_),
            DataType::List(to) | DataType::LargeList(to) | DataType::FixedSizeList(to, _),
        ) => list(array.as_list::<i32>(), to, safe),
        (
            DataType::LargeList(_),
            DataType::List(to) | DataType::LargeList(to) | DataType::FixedSizeList(to, _),
        ) => list(array.as_list::<i64>(), to, safe),
        (
            DataType::FixedSizeList(_, n),
            DataType::List(to) | DataType::LargeList(to) | DataType::FixedSizeList(to, _),
        ) => {
            let list = array.as_fixed_size_list();
            let values = prepared(list.values(), to.data_type(), safe)?;
            let item = item(values.data_type().clone());
            Ok(Arc::new(FixedSizeListArray::try_new(item, *n, values, list.nulls().cloned())?))
        }
        (DataType::Struct(_), DataType::Struct(targets)) => {
            structs(array.as_struct(), targets, safe)
        }
        (DataType::Struct(_), DataType::Map(..)) => map_of(array.as_struct(), to, safe),
        (DataType::Map(..), DataType::Map(..)) => maps::converted(array.as_map(), to, safe),
        (from, to) if narrow::is_narrower(from, to) => narrow::narrowed(array, to, safe),
        (from, to) if from.is_string() && is_nested(to) => {
            let texts = cast(array, &DataType::Utf8View)?;
            nested::read(texts.as_string_view(), to, safe)
        }
        (from, to) if from.is_string() && is_bytes(to) => bytes(array, safe),
        (from, DataType::Interval(_)) if from.is_string() => {
            let texts = cast(array, &DataType::Utf8View)?;
            Ok(Arc::new(readable(texts.as_string_view())))
        }
        (from, to) if from.is_string() && is_decimal(to) => {
            Ok(exponents::resolved(cast(array, &DataType::Utf8View)?))
        }
        (from, _) if from.is_string() => moments(array, to, safe),
        (DataType::Timestamp(..) | DataType::Date32, _) => stamps(array, &given, safe),
        (DataType::Float64, _) => {
            let rounded: Float64Array =
                array.as_primitive::<Float64Type>().unary(f64::round_ties_even);
            Ok(Arc::new(rounded))
        }
        (DataType::Float32, _) => {
            let rounded: Float32Array =
                array.as_primitive::<Float32Type>().unary(f32::round_ties_even);
            Ok(Arc::new(rounded))
        }
        (DataType::Float16, _) => prepared(&cast(array, &given)?, to, safe),
        (DataType::Decimal256(..), DataType::Float32) => {
            narrow::without_lost(array, nearest(array, to)?, safe)
        }
        (from, to) if is_decimal(from) && to.is_floating() => nearest(array, to),
        _ => cast(array, &given),
    }
}

fn is_decimal(data_type: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    matches!(data_type, Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..))
}

/// Whether dividing a decimal's digits by a power of ten gives the nearest number: both are exact
/// as floating point numbers then.
fn is_exact(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    const DIGITS: u8 = 15;
    const POWERS: std::ops::RangeInclusive<i8> = 0..=22;
    match (from, to) {
        (
            Decimal32(digits, scale)
            | Decimal64(digits, scale)
            | Decimal128(digits, scale)
            | Decimal256(digits, scale),
            DataType::Float64,
        ) => *digits <= DIGITS && POWERS.contains(scale),
        _ => false,
    }
}

/// The floating point numbers that are nearest to decimals.
fn nearest(decimals: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let scale = match decimals.data_type() {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => *scale,
        _ => return cast(&cast(decimals, &DataType::Utf8)?, to),
    };
    let wide = cast(decimals, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale))?;
    let wide = wide.as_primitive::<Decimal128Type>();
    Ok(match to {
        DataType::Float32 => {
            let digits = Digits { scale, exact_scale: 10, exact: 1 << f32::MANTISSA_DIGITS };
            let nearest = |value| match digits.power(value) {
                Some(power) => value as f32 / power as f32,
                None => digits.read(value),
            };
            Arc::new(wide.unary::<_, Float32Type>(nearest))
        }
        _ => {
            let digits = Digits { scale, exact_scale: 22, exact: 1 << f64::MANTISSA_DIGITS };
            let nearest = |value| match digits.power(value) {
                Some(power) => value as f64 / power,
                None => digits.read(value),
            };
            Arc::new(wide.unary::<_, Float64Type>(nearest))
        }
    })
}

/// Decimals of one scale, beside a type of floating point numbers.
struct Digits {
    scale: i8,
    /// Powers of ten up to this one, and whole numbers up to this one, the type has.
    exact_scale: i8,
    exact: u128,
}

impl Digits {
    /// What the value is divided by, where the quotient is right: both are numbers of the type, or
    /// there is nothing to divide.
    fn power(&self, value: i128) -> Option<f64> {
        let exact = (0..=self.exact_scale).contains(&self.scale);
        let exact = exact && (self.scale == 0 || value.unsigned_abs() <= self.exact);
        exact.then(|| 10_f64.powi(i32::from(self.scale)))
    }

    fn read<F: std::str::FromStr + Default>(&self, value: i128) -> F {
        // Digits and an exponent always are a number.
        format!("{value}e{}", -i32::from(self.scale)).parse().unwrap_or_default()
    }
}

fn list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    to: &Field,
    safe: bool,
) -> Result<ArrayRef> {
    let (_, offsets, values, nulls) = list.clone().into_parts();
    let values = prepared(&values, to.data_type(), safe)?;
    let item = item(values.data_type().clone());
    Ok(Arc::new(GenericListArray::try_new(item, offsets, values, nulls)?))
}

/// The type of what [`structs`] makes: the targets' fields, with values that are to be cast.
fn struct_type(fields: &Fields, targets: &Fields) -> Option<DataType> {
    let sources = sources(fields, targets);
    let mut differs = fields.len() != targets.len();
    let field = |(place, (target, source)): (usize, (&Arc<Field>, &Option<usize>))| {
        let Some(source) = source.and_then(|at| fields.get(at)) else {
            differs = true;
            return target.as_ref().clone().with_nullable(true);
        };
        let prepared = prepared_type(source.data_type(), target.data_type());
        let is_there = fields.get(place).is_some_and(|field| field.name() == target.name());
        differs |= prepared.is_some() || !is_there;
        let data_type = prepared.unwrap_or_else(|| source.data_type().clone());
        Field::new(target.name(), data_type, true)
    };
    let fields = targets.iter().zip(&sources).enumerate().map(field).collect::<Fields>();
    differs.then_some(DataType::Struct(fields))
}

/// Structs with the fields of the targets, in their order: the engine's casts of lists and maps go
/// by places.
fn structs(structs: &StructArray, targets: &Fields, safe: bool) -> Result<ArrayRef> {
    let column = |(target, source): (&Arc<Field>, Option<usize>)| match source {
        Some(at) => prepared(structs.column(at), target.data_type(), safe),
        None => Ok(new_null_array(target.data_type(), structs.len())),
    };
    let sources = sources(structs.fields(), targets);
    let columns = targets.iter().zip(sources).map(column).collect::<Result<Vec<_>>>()?;
    let named = targets.iter().zip(&columns);
    let field = |(target, column): (&Arc<Field>, &ArrayRef)| {
        Field::new(target.name(), column.data_type().clone(), true)
    };
    let fields = named.map(field).collect::<Fields>();
    let nulls = structs.nulls().cloned();
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, structs.len())?))
}

/// Maps of the names of fields to their values.
fn map_of(structs: &StructArray, to: &DataType, safe: bool) -> Result<ArrayRef> {
    let Some((key, value)) = maps::key_and_value(to) else {
        return Err(Error::internal("entries of a map have a key and a value"));
    };
    let as_value = |array: &ArrayRef, to: &DataType| -> Result<ArrayRef> {
        let options = CastOptions { safe, format_options: TEXT_FORMAT };
        Ok(cast_with_options(&prepared(array, to, safe)?, to, &options)?)
    };
    let names = structs.fields().iter().map(|field| Some(field.name().as_str()));
    let names: ArrayRef = Arc::new(names.collect::<StringViewArray>());
    let names = as_value(&names, key)?;
    let values = structs.columns().iter().map(|column| as_value(column, value));
    let values = values.collect::<Result<Vec<_>>>()?;
    let rows = 0..structs.len();
    let there = rows.clone().filter(|row| structs.is_valid(*row));
    let places = there.flat_map(|row| (0..values.len()).map(move |field| (field, row)));
    let places = places.collect::<Vec<_>>();
    let keys = UInt64Array::from_iter_values(places.iter().map(|(field, _)| *field as u64));
    let arrays = values.iter().map(|array| array.as_ref()).collect::<Vec<&dyn Array>>();
    let (keys, entries) = (take(&names, &keys, None)?, interleave(&arrays, &places)?);
    let lengths = rows.map(|row| structs.is_valid(row).then_some(values.len()));
    maps::of_parts(&keys, &entries, &lengths.collect::<Vec<_>>(), to, safe)
}

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(data_type, true))
}

fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(array, to, &CastOptions { safe: false, format_options: TEXT_FORMAT })?)
}

// ---- times --------------------------------------------------------------------------------------

/// The clock of a type's zone, by which its values are read, shown and converted.
fn clock_of(data_type: &DataType) -> Zone {
    match data_type {
        DataType::Timestamp(_, Some(name)) => Zone::of_arrow(name).unwrap_or_default(),
        _ => Zone::UTC,
    }
}

/// Texts as dates, times of day, or points in time.
fn moments(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    use DataType::{Date64, Time32, Time64, Timestamp};
    let given = cast(array, &DataType::Utf8View)?;
    let zone = clock_of(to);
    let read = |text: &str| match to {
        Time32(unit) | Time64(unit) => {
            let nanos = read_stamp(text, Kind::Time)?.nanos;
            Some(nanos / (per_second(TimeUnit::Nanosecond) / per_second(*unit)))
        }
        Timestamp(unit, None) => read_stamp(text, Kind::Moment)?.shown(*unit),
        Timestamp(unit, Some(_)) => read_stamp(text, Kind::Moment)?.instant(*unit, zone),
        other => {
            let days = read_stamp(text, Kind::Moment)?.days;
            let days = i64::from(i32::try_from(days).ok()?);
            Some(if *other == Date64 { days * 86_400_000 } else { days })
        }
    };
    let mut found = Int64Array::builder(given.len());
    for text in given.as_string_view() {
        let value = text.and_then(read);
        if let (Some(text), None, false) = (text, value, safe) {
            let message = format!("'{text}' is no valid {}{}", sql_name(to), infinite(text));
            return Err(Error::Conversion { message, column: None });
        }
        found.append_option(value);
    }
    as_stored(found.finish(), to)
}

/// What to do instead where a text means a time without end.
fn infinite(text: &str) -> &'static str {
    let word = text.trim().trim_start_matches(['-', '+']);
    match ["infinity", "inf"].iter().any(|name| word.eq_ignore_ascii_case(name)) {
        true => {
            "; there are no infinite times: NULL or a far day, as 9999-12-31, can stand for one"
        }
        false => "",
    }
}

/// Numbers as the dates and times that are stored as them.
fn as_stored(numbers: Int64Array, to: &DataType) -> Result<ArrayRef> {
    let numbers: ArrayRef = Arc::new(numbers);
    // Those of 32 bits are made of numbers of 32 bits.
    match to {
        DataType::Date32 | DataType::Time32(_) => cast(&cast(&numbers, &DataType::Int32)?, to),
        _ => cast(&numbers, to),
    }
}

/// Dates and timestamps as those of another unit, or with a zone where they have none, or without.
fn stamps(array: &ArrayRef, to: &DataType, safe: bool) -> Result<ArrayRef> {
    let (unit, zone) = match (array.data_type(), to) {
        (DataType::Timestamp(unit, zone), _) => (*unit, zone.as_ref()),
        (_, DataType::Timestamp(unit, _)) => (*unit, None),
        (_, other) => return Err(Error::internal(format!("{other} is no timestamp"))),
    };
    let DataType::Timestamp(coarser, to_zone) = to else {
        return Err(Error::internal(format!("{to} is no timestamp")));
    };
    let by = per_second(unit) / per_second(*coarser).min(per_second(unit));
    let convert = |value: i64| {
        let moved = match (zone.is_some(), to_zone.is_some()) {
            (true, false) => shown_of(value, unit, clock_of(array.data_type()))?,
            (false, true) => instant_of(value, unit, clock_of(to))?,
            _ => value,
        };
        Some(texts::rounded(moved, by))
    };
    let stored = match array.data_type() {
        DataType::Date32 => {
            let local = DataType::Timestamp(unit, None);
            let options = CastOptions { safe, format_options: TEXT_FORMAT };
            cast(&cast_with_options(array, &local, &options)?, &DataType::Int64)?
        }
        _ => cast(array, &DataType::Int64)?,
    };
    let stored = stored.as_primitive::<Int64Type>();
    let found: Int64Array = match safe {
        true => stored.unary_opt(convert),
        false => stored.try_unary(|value| {
            convert(value).ok_or_else(|| Error::Conversion {
                message: format!("a timestamp is out of range for {}", sql_name(to)),
                column: None,
            })
        })?,
    };
    as_stored(found, to)
}

// ---- bytes --------------------------------------------------------------------------------------

fn is_bytes(data_type: &DataType) -> bool {
    data_type.is_binary() || matches!(data_type, DataType::FixedSizeBinary(_))
}

/// The bytes that texts stand for.
fn bytes(array: &ArrayRef, safe: bool) -> Result<ArrayRef> {
    let texts = cast(array, &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    let mut made = BinaryBuilder::with_capacity(texts.len(), texts.total_bytes_len());
    let mut bytes = Vec::new();
    for text in texts {
        bytes.clear();
        match text {
            Some(text) if blob_of_text(text.as_bytes(), &mut bytes).is_some() => {
                made.append_value(&bytes);
            }
            Some(text) if !safe => {
                let message =
                    format!("'{text}' is no valid BLOB: behind \\ it has x and two digits");
                return Err(Error::Conversion { message, column: None });
            }
            _ => made.append_null(),
        }
    }
    Ok(Arc::new(made.finish()))
}

/// Bytes as text that [`bytes`] reads.
fn byte_texts(array: &ArrayRef) -> Result<StringArray> {
    let given = cast(array, &DataType::BinaryView)?;
    let mut text = Vec::new();
    let texts = given.as_binary_view().iter().map(|bytes| {
        text.clear();
        blob_text(bytes?, &mut text);
        Some(String::from_utf8_lossy(&text).into_owned())
    });
    Ok(texts.collect())
}

// ---- values to text -----------------------------------------------------------------------------

/// Values as text.
fn texts(array: &ArrayRef) -> Result<StringArray> {
    if let Some(texts) = moment_texts_in(array, clock_of(array.data_type())) {
        return Ok(texts);
    }
    if let Some(texts) = interval_texts(array).or_else(|| narrow::float_texts(array)) {
        return Ok(texts);
    }
    if is_bytes(array.data_type()) {
        return byte_texts(array);
    }
    if !is_nested(array.data_type()) {
        return Ok(cast(array, &DataType::Utf8)?.as_string::<i32>().clone());
    }
    let range = |from: usize, to: usize| (from, to);
    match array.data_type() {
        DataType::Struct(_) => fields(array.as_struct()),
        DataType::Map(..) => entries(array),
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offset = |at: usize| usize::try_from(list.value_offsets()[at]).unwrap_or_default();
            elements(array, list.values(), |row| range(offset(row), offset(row + 1)))
        }
        DataType::FixedSizeList(_, _) => {
            let list = array.as_fixed_size_list();
            let offset = |at| usize::try_from(list.value_offset(at)).unwrap_or_default();
            let length = usize::try_from(list.value_length()).unwrap_or_default();
            elements(array, list.values(), |row| range(offset(row), offset(row) + length))
        }
        _ => {
            let list = array.as_list::<i32>();
            let offset = |at: usize| usize::try_from(list.value_offsets()[at]).unwrap_or_default();
            elements(array, list.values(), |row| range(offset(row), offset(row + 1)))
        }
    }
}

/// `[1, NULL]`
fn elements(
    lists: &ArrayRef,
    values: &ArrayRef,
    range: impl Fn(usize) -> (usize, usize),
) -> Result<StringArray> {
    let values = Parts::of(values)?;
    Ok(rows(lists, |row, text| {
        let (from, to) = range(row);
        text.push('[');
        for at in from..to {
            text.push_str(if at > from { ", " } else { "" });
            values.write(at, text);
        }
        text.push(']');
    }))
}

/// `{'a': 1, 'b': NULL}`
fn fields(structs: &StructArray) -> Result<StringArray> {
    let columns = structs.columns().iter().map(Parts::of).collect::<Result<Vec<_>>>()?;
    let array: ArrayRef = Arc::new(structs.clone());
    Ok(rows(&array, |row, text| {
        text.push('{');
        for (place, (field, column)) in structs.fields().iter().zip(&columns).enumerate() {
            text.push_str(if place > 0 { ", " } else { "" });
            quoted(field.name(), text);
            text.push_str(": ");
            column.write(row, text);
        }
        text.push('}');
    }))
}

/// `{key=value}`
fn entries(maps: &ArrayRef) -> Result<StringArray> {
    let map = maps.as_map();
    let (keys, values) = (Parts::of(map.keys())?, Parts::of(map.values())?);
    let offset = |at: usize| usize::try_from(map.value_offsets()[at]).unwrap_or_default();
    Ok(rows(maps, |row, text| {
        text.push('{');
        for at in offset(row)..offset(row + 1) {
            text.push_str(if at > offset(row) { ", " } else { "" });
            keys.write(at, text);
            text.push('=');
            values.write(at, text);
        }
        text.push('}');
    }))
}

fn rows(of: &ArrayRef, write: impl Fn(usize, &mut String)) -> StringArray {
    let text = |row| {
        of.is_valid(row).then(|| {
            let mut text = String::new();
            write(row, &mut text);
            text
        })
    };
    (0..of.len()).map(text).collect()
}

/// The texts of what lists and the like hold.
struct Parts {
    texts: StringArray,
    nested: bool,
}

impl Parts {
    fn of(values: &ArrayRef) -> Result<Self> {
        Ok(Self { texts: texts(values)?, nested: is_nested(values.data_type()) })
    }

    fn write(&self, at: usize, text: &mut String) {
        const SPECIAL: [char; 12] = ['"', '\'', '(', ')', ',', ':', '=', '[', '\\', ']', '{', '}'];
        if self.texts.is_null(at) {
            return text.push_str("NULL");
        }
        let value = self.texts.value(at);
        let special = value.is_empty()
            || value.contains(SPECIAL)
            || value.len() > value.trim_ascii().len()
            || value.eq_ignore_ascii_case("null");
        match special && !self.nested {
            true => quoted(value, text),
            false => text.push_str(value),
        }
    }
}

fn quoted(value: &str, text: &mut String) {
    text.push('\'');
    for char in value.chars() {
        if matches!(char, '\'' | '\\') {
            text.push('\\');
        }
        text.push(char);
    }
    text.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lossy_casts_are_prepared() {
        let timestamp = DataType::Timestamp(arrow::datatypes::TimeUnit::Second, None);
        let list = |of: DataType| DataType::List(item(of));
        for (from, to, expected) in [
            (DataType::Float64, DataType::Int32, Some(DataType::Float64)),
            (DataType::Decimal128(5, 2), DataType::UInt8, Some(DataType::Decimal128(5, 0))),
            (list(DataType::Float16), list(DataType::Int8), Some(list(DataType::Float32))),
            (list(DataType::Int64), list(DataType::Int8), None),
            (list(DataType::Int64), DataType::Utf8View, Some(DataType::Utf8)),
            (DataType::Decimal128(5, 0), DataType::Int32, None),
            (DataType::Int64, DataType::Int8, None),
            (DataType::Float64, DataType::Utf8, Some(DataType::Utf8)),
            (DataType::Float64, DataType::Float32, Some(DataType::Float32)),
            (DataType::Float32, DataType::Float64, None),
            (timestamp.clone(), DataType::Utf8View, Some(DataType::Utf8)),
            (timestamp.clone(), DataType::Date32, None),
            (DataType::Utf8, timestamp.clone(), Some(timestamp)),
            (DataType::Date32, DataType::Utf8, Some(DataType::Utf8)),
            (
                DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano),
                DataType::Utf8View,
                Some(DataType::Utf8),
            ),
        ] {
            assert_eq!(prepared_type(&from, &to), expected, "{from} to {to}");
        }
    }

    #[test]
    fn timestamps_of_other_units_and_zones() {
        use TimeUnit::{Microsecond as Micro, Millisecond as Milli, Nanosecond as Nano, Second};
        let of = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Arc::from));
        let berlin = Some("Europe/Berlin");
        for (from, to, expected) in [
            (of(Micro, None), of(Second, None), Some(of(Second, None))),
            (of(Second, None), of(Micro, None), None),
            (of(Micro, None), of(Micro, Some("UTC")), None),
            (of(Micro, None), of(Micro, berlin), Some(of(Micro, berlin))),
            (of(Nano, None), of(Milli, berlin), Some(of(Milli, berlin))),
            (of(Milli, berlin), of(Micro, None), Some(of(Milli, None))),
            (of(Nano, Some("UTC")), of(Micro, None), Some(of(Micro, Some("UTC")))),
            (of(Micro, berlin), of(Micro, Some("UTC")), None),
            (DataType::Date32, of(Nano, berlin), Some(of(Micro, berlin))),
            (DataType::Date32, of(Micro, None), None),
            (of(Micro, berlin), DataType::Date32, Some(of(Micro, None))),
            (of(Micro, Some("UTC")), DataType::Date32, None),
        ] {
            assert_eq!(prepared_type(&from, &to), expected, "{from} to {to}");
        }
    }
}
