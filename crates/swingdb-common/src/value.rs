//! Parameter values: what a caller hands in for `?`, `$1` and `$name`.
//!
//! [`Value`] is a small closed set of the types programs have at hand; anything else goes through
//! [`Value::Scalar`], which carries a DataFusion [`ScalarValue`] and so every Arrow type.
//!
//! ```
//! use swingdb_common::value::Value;
//! assert_eq!(Value::from(7), Value::Int64(7));
//! assert_eq!(Value::from("seven"), Value::Text("seven".to_string()));
//! assert_eq!(Value::from(None::<f64>), Value::Null);
//! ```

use std::sync::Arc;

use datafusion::common::ScalarValue;

/// One parameter or one field of an appended row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// SQL NULL; takes the type its place in the statement asks for.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed 64-bit integer.
    Int64(i64),
    /// An unsigned 64-bit integer.
    UInt64(u64),
    /// A double-precision number.
    Float64(f64),
    /// A character string.
    Text(String),
    /// A byte string.
    Blob(Vec<u8>),
    /// Days since 1970-01-01.
    Date32(i32),
    /// Microseconds since midnight.
    Time64(i64),
    /// Microseconds since 1970-01-01 00:00:00 (UTC when a time zone is given), and the zone's name.
    Timestamp(i64, Option<Arc<str>>),
    /// Months, days and nanoseconds, kept apart as SQL does.
    Interval {
        /// Calendar months.
        months: i32,
        /// Calendar days.
        days: i32,
        /// Nanoseconds within a day, possibly more than a day's.
        nanos: i64,
    },
    /// An exact decimal: `unscaled * 10^-scale`.
    Decimal {
        /// The digits as an integer.
        unscaled: i128,
        /// Number of digits, 1 to 38.
        precision: u8,
        /// Number of digits after the point.
        scale: i8,
    },
    /// Any other Arrow type.
    Scalar(ScalarValue),
}

impl Value {
    /// The same value as the query engine holds it.
    pub fn to_scalar(&self) -> ScalarValue {
        match self {
            Value::Null => ScalarValue::Null,
            Value::Bool(v) => ScalarValue::Boolean(Some(*v)),
            Value::Int64(v) => ScalarValue::Int64(Some(*v)),
            Value::UInt64(v) => ScalarValue::UInt64(Some(*v)),
            Value::Float64(v) => ScalarValue::Float64(Some(*v)),
            Value::Text(v) => ScalarValue::Utf8View(Some(v.clone())),
            Value::Blob(v) => ScalarValue::Binary(Some(v.clone())),
            Value::Date32(v) => ScalarValue::Date32(Some(*v)),
            Value::Time64(v) => ScalarValue::Time64Microsecond(Some(*v)),
            Value::Timestamp(v, zone) => ScalarValue::TimestampMicrosecond(Some(*v), zone.clone()),
            Value::Interval { months, days, nanos } => ScalarValue::IntervalMonthDayNano(Some(
                arrow::datatypes::IntervalMonthDayNano::new(*months, *days, *nanos),
            )),
            Value::Decimal { unscaled, precision, scale } => {
                ScalarValue::Decimal128(Some(*unscaled), *precision, *scale)
            }
            Value::Scalar(v) => v.clone(),
        }
    }
}

macro_rules! value_from {
    ($($from:ty => |$v:ident| $make:expr;)*) => {$(
        impl From<$from> for Value {
            fn from($v: $from) -> Self { $make }
        }
    )*};
}

value_from! {
    bool => |v| Value::Bool(v);
    i8 => |v| Value::Int64(v.into());
    i16 => |v| Value::Int64(v.into());
    i32 => |v| Value::Int64(v.into());
    i64 => |v| Value::Int64(v);
    u8 => |v| Value::Int64(v.into());
    u16 => |v| Value::Int64(v.into());
    u32 => |v| Value::Int64(v.into());
    u64 => |v| Value::UInt64(v);
    f32 => |v| Value::Float64(v.into());
    f64 => |v| Value::Float64(v);
    &str => |v| Value::Text(v.to_string());
    String => |v| Value::Text(v);
    &[u8] => |v| Value::Blob(v.to_vec());
    Vec<u8> => |v| Value::Blob(v);
    ScalarValue => |v| Value::Scalar(v);
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Self {
        v.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_type_and_value() {
        assert_eq!(Value::from(true).to_scalar(), ScalarValue::Boolean(Some(true)));
        assert_eq!(Value::from(3u8).to_scalar(), ScalarValue::Int64(Some(3)));
        assert_eq!(Value::from(u64::MAX).to_scalar(), ScalarValue::UInt64(Some(u64::MAX)));
        assert_eq!(Value::from(None::<i64>).to_scalar(), ScalarValue::Null);
        let decimal = Value::Decimal { unscaled: 1234, precision: 6, scale: 2 };
        assert_eq!(decimal.to_scalar(), ScalarValue::Decimal128(Some(1234), 6, 2));
        let stamp = Value::Timestamp(5, Some("Asia/Tokyo".into()));
        assert_eq!(
            stamp.to_scalar(),
            ScalarValue::TimestampMicrosecond(Some(5), Some("Asia/Tokyo".into()))
        );
    }
}
