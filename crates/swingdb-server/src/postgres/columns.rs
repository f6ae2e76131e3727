//! Arrays in the few forms that values are written from: [`Column`].
//!
//! Most arrays are used as they are; others are cast once for each batch, never for each value.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, ListArray, PrimitiveArray,
    StringArray, StringBuilder, StringViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::error::ArrowError;
use arrow::json::writer::{EncoderOptions, make_encoder};

use crate::postgres::types::PgType;

/// The values of one column of a batch.
pub enum Column {
    /// Truth values.
    Bool(BooleanArray),
    /// Whole numbers.
    Int2(PrimitiveArray<Int16Type>),
    /// Whole numbers.
    Int4(PrimitiveArray<Int32Type>),
    /// Whole numbers.
    Int8(PrimitiveArray<Int64Type>),
    /// Decimal numbers, and their scale.
    Numeric(PrimitiveArray<Decimal128Type>, i8),
    /// Decimal numbers of more digits.
    WideNumeric(PrimitiveArray<Decimal256Type>),
    /// Floating-point numbers.
    Float4(PrimitiveArray<Float32Type>),
    /// Floating-point numbers.
    Float8(PrimitiveArray<Float64Type>),
    /// Texts.
    Text(StringViewArray),
    /// UUIDs as texts.
    Uuid(StringViewArray),
    /// Bytes.
    Bytea(BinaryViewArray),
    /// Days since 1970.
    Date(PrimitiveArray<Date32Type>),
    /// Microseconds of a day.
    Time(PrimitiveArray<Time64MicrosecondType>),
    /// Microseconds since 1970, and for points in time their texts.
    Timestamp(PrimitiveArray<TimestampMicrosecondType>, Option<StringArray>),
    /// Months, days, nanoseconds.
    Interval(PrimitiveArray<IntervalMonthDayNanoType>),
    /// JSON as texts.
    Json(StringArray),
    /// Lists, and the values of all of them.
    Array(ListArray, PgType, Box<Column>),
}

/// Which values of a column are NULL.
pub type Nulls = Option<NullBuffer>;

impl Column {
    /// The values of an array, and which are NULL.
    pub fn of(field: &Field, array: &ArrayRef) -> Result<(Self, Nulls), ArrowError> {
        let pg = PgType::of(field);
        let nulls = array.logical_nulls();
        Ok((Self::in_form(field, &pg, array)?, nulls))
    }

    fn in_form(field: &Field, pg: &PgType, array: &ArrayRef) -> Result<Self, ArrowError> {
        let to = |data_type: DataType| cast(array, &data_type);
        Ok(match pg {
            PgType::Bool => Self::Bool(to(DataType::Boolean)?.as_boolean().clone()),
            PgType::Int2 => Self::Int2(to(DataType::Int16)?.as_primitive().clone()),
            PgType::Int4 => Self::Int4(to(DataType::Int32)?.as_primitive().clone()),
            PgType::Int8 => Self::Int8(to(DataType::Int64)?.as_primitive().clone()),
            PgType::Numeric(precision, scale) => match value_type(array.data_type()) {
                DataType::Decimal256(..) => {
                    let wide = to(DataType::Decimal256(*precision, *scale))?;
                    Self::WideNumeric(wide.as_primitive().clone())
                }
                _ => {
                    let narrow = to(DataType::Decimal128(*precision, *scale))?;
                    Self::Numeric(narrow.as_primitive().clone(), *scale)
                }
            },
            PgType::Float4 => Self::Float4(to(DataType::Float32)?.as_primitive().clone()),
            PgType::Float8 => Self::Float8(to(DataType::Float64)?.as_primitive().clone()),
            PgType::Text => Self::Text(to(DataType::Utf8View)?.as_string_view().clone()),
            PgType::Uuid => Self::Uuid(to(DataType::Utf8View)?.as_string_view().clone()),
            PgType::Bytea => Self::Bytea(to(DataType::BinaryView)?.as_binary_view().clone()),
            PgType::Date => Self::Date(to(DataType::Date32)?.as_primitive().clone()),
            PgType::Time => {
                Self::Time(to(DataType::Time64(TimeUnit::Microsecond))?.as_primitive().clone())
            }
            PgType::Timestamp | PgType::Timestamptz => timestamps(array)?,
            PgType::Interval => {
                let interval = DataType::Interval(IntervalUnit::MonthDayNano);
                Self::Interval(to(interval)?.as_primitive().clone())
            }
            PgType::Json => Self::Json(json(field, array)?),
            PgType::Array(item) => {
                let DataType::List(inner) = list_type(array.data_type()) else {
                    return Err(ArrowError::CastError(format!("{} is no list", array.data_type())));
                };
                let lists = to(DataType::List(Arc::clone(&inner)))?.as_list::<i32>().clone();
                let values = Self::in_form(&inner, item, lists.values())?;
                Self::Array(lists, item.as_ref().clone(), Box::new(values))
            }
        })
    }
}

/// The type of the values behind keys.
fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        other => other,
    }
}

/// The type of the same lists in the usual layout.
fn list_type(data_type: &DataType) -> DataType {
    match value_type(data_type) {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => DataType::List(Arc::clone(item)),
        other => other.clone(),
    }
}

/// A cast that fails where a value does not fit.
fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })
}

/// Timestamps in microseconds: PostgreSQL has no finer ones, so nanoseconds are cut.
fn timestamps(array: &ArrayRef) -> Result<Column, ArrowError> {
    let plain = cast(array, value_type(array.data_type()))?;
    let DataType::Timestamp(unit, zone) = plain.data_type() else {
        return Err(ArrowError::CastError(format!("{} is no timestamp", array.data_type())));
    };
    let micros = match unit {
        TimeUnit::Nanosecond => {
            plain
                .as_primitive::<TimestampNanosecondType>()
                .unary::<_, TimestampMicrosecondType>(|nanos| nanos.div_euclid(1000))
        }
        _ => cast(&plain, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?
            .as_primitive::<TimestampMicrosecondType>()
            .clone(),
    };
    let micros = micros.with_timezone_opt(zone.clone());
    let texts = zone.as_ref().and_then(|_| swingdb::moment_texts(&micros));
    Ok(Column::Timestamp(micros, texts))
}

/// Values as JSON, NULLs as empty texts.
fn json(field: &Field, array: &ArrayRef) -> Result<StringArray, ArrowError> {
    let field = Arc::new(field.clone());
    let options = EncoderOptions::default().with_explicit_nulls(true);
    let mut encoder = make_encoder(&field, array.as_ref(), &options)?;
    let mut texts = StringBuilder::new();
    let mut text = Vec::new();
    for row in 0..array.len() {
        text.clear();
        if !encoder.is_null(row) {
            encoder.encode(row, &mut text);
        }
        let text = std::str::from_utf8(&text);
        texts.append_value(text.map_err(|error| ArrowError::JsonError(error.to_string()))?);
    }
    Ok(texts.finish())
}
