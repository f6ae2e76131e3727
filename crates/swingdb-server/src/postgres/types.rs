//! The PostgreSQL type for each Arrow type: [`PgType`].
//!
//! A type that PostgreSQL lacks is sent as the next wider one (UBIGINT as `numeric`). Structs,
//! maps, unions and lists of lists are sent as JSON.

use arrow::datatypes::{DataType, Field};

/// Marks the fields of UUIDs, whose values are texts.
const UUID_MARK: &str = "swingdb.uuid";

/// A PostgreSQL type, as far as values are written in ways of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PgType {
    /// `bool`
    Bool,
    /// `int2`
    Int2,
    /// `int4`
    Int4,
    /// `int8`
    Int8,
    /// `numeric` with precision and scale
    Numeric(u8, i8),
    /// `float4`
    Float4,
    /// `float8`
    Float8,
    /// `text`
    Text,
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `time`
    Time,
    /// `timestamp`
    Timestamp,
    /// `timestamptz`
    Timestamptz,
    /// `interval`
    Interval,
    /// `uuid`
    Uuid,
    /// `json`
    Json,
    /// An array of one of the others.
    Array(Box<PgType>),
}

impl PgType {
    /// The type that values of a field are sent as.
    pub fn of(field: &Field) -> Self {
        use DataType as T;
        if field.metadata().contains_key(UUID_MARK) && field.data_type().is_string() {
            return Self::Uuid;
        }
        match field.data_type() {
            T::Boolean => Self::Bool,
            T::Int8 | T::Int16 | T::UInt8 => Self::Int2,
            T::Int32 | T::UInt16 => Self::Int4,
            T::Int64 | T::UInt32 => Self::Int8,
            T::UInt64 => Self::Numeric(20, 0),
            T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s) => {
                Self::Numeric(*p, *s)
            }
            T::Float16 | T::Float32 => Self::Float4,
            T::Float64 => Self::Float8,
            T::Null | T::Utf8 | T::LargeUtf8 | T::Utf8View => Self::Text,
            T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => Self::Bytea,
            T::Date32 | T::Date64 => Self::Date,
            T::Time32(_) | T::Time64(_) => Self::Time,
            T::Timestamp(_, None) => Self::Timestamp,
            T::Timestamp(_, Some(_)) => Self::Timestamptz,
            T::Interval(_) | T::Duration(_) => Self::Interval,
            T::Dictionary(_, values) => Self::of(&Field::new("", values.as_ref().clone(), true)),
            T::RunEndEncoded(_, values) => Self::of(values),
            T::List(item)
            | T::LargeList(item)
            | T::ListView(item)
            | T::LargeListView(item)
            | T::FixedSizeList(item, _) => match Self::of(item) {
                Self::Array(_) | Self::Json => Self::Json,
                item => Self::Array(Box::new(item)),
            },
            T::Struct(_) | T::Map(..) | T::Union(..) => Self::Json,
        }
    }

    /// PostgreSQL's number for the type.
    pub fn oid(&self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Bytea => 17,
            Self::Int8 => 20,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Text => 25,
            Self::Json => 114,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamp => 1114,
            Self::Timestamptz => 1184,
            Self::Interval => 1186,
            Self::Numeric(..) => 1700,
            Self::Uuid => 2950,
            Self::Array(item) => item.array_oid(),
        }
    }

    fn array_oid(&self) -> u32 {
        match self {
            Self::Bool => 1000,
            Self::Bytea => 1001,
            Self::Int2 => 1005,
            Self::Int4 => 1007,
            Self::Text => 1009,
            Self::Int8 => 1016,
            Self::Float4 => 1021,
            Self::Float8 => 1022,
            Self::Timestamp => 1115,
            Self::Date => 1182,
            Self::Time => 1183,
            Self::Timestamptz => 1185,
            Self::Interval => 1187,
            Self::Numeric(..) => 1231,
            Self::Uuid => 2951,
            // Neither is ever an element: see `of`.
            Self::Json | Self::Array(_) => 199,
        }
    }

    /// The type with a number, as parameters are declared; `None`: an unknown number.
    pub fn of_oid(oid: u32) -> Option<Self> {
        Some(match oid {
            16 => Self::Bool,
            17 => Self::Bytea,
            20 => Self::Int8,
            21 => Self::Int2,
            // oid, regclass: whole numbers without a sign, of 32 bits.
            23 | 26 | 2205 => Self::Int4,
            18 | 19 | 25 | 1042 | 1043 | 705 => Self::Text,
            114 | 3802 => Self::Json,
            700 => Self::Float4,
            701 => Self::Float8,
            1082 => Self::Date,
            1083 => Self::Time,
            1114 => Self::Timestamp,
            1184 => Self::Timestamptz,
            1186 => Self::Interval,
            1700 => Self::Numeric(38, 10),
            2950 => Self::Uuid,
            _ => Self::Array(Box::new(match oid {
                1000 => Self::Bool,
                1001 => Self::Bytea,
                1005 => Self::Int2,
                1007 | 1028 => Self::Int4,
                1002 | 1003 | 1009 | 1014 | 1015 => Self::Text,
                1016 => Self::Int8,
                1021 => Self::Float4,
                1022 => Self::Float8,
                1115 => Self::Timestamp,
                1182 => Self::Date,
                1183 => Self::Time,
                1185 => Self::Timestamptz,
                1187 => Self::Interval,
                1231 => Self::Numeric(38, 10),
                2951 => Self::Uuid,
                _ => return None,
            })),
        })
    }

    /// The size of its values; -1: each has its own.
    pub fn size(&self) -> i16 {
        match self {
            Self::Bool => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Float4 | Self::Date => 4,
            Self::Int8 | Self::Float8 | Self::Time | Self::Timestamp | Self::Timestamptz => 8,
            Self::Interval | Self::Uuid => 16,
            Self::Numeric(..) | Self::Text | Self::Bytea | Self::Json | Self::Array(_) => -1,
        }
    }

    /// PostgreSQL's modifier of the type: precision and scale. -1: none.
    pub fn modifier(&self) -> i32 {
        match self {
            Self::Numeric(precision, scale) if *scale >= 0 => {
                (i32::from(*precision) << 16 | i32::from(*scale)) + 4
            }
            Self::Array(item) => item.modifier(),
            _ => -1,
        }
    }

    /// The Arrow type that values of it have in a statement's parameters.
    pub fn arrow(&self) -> DataType {
        use arrow::datatypes::{IntervalUnit, TimeUnit};
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int2 => DataType::Int16,
            Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Numeric(precision, scale) => DataType::Decimal128(*precision, *scale),
            Self::Float4 => DataType::Float32,
            Self::Float8 => DataType::Float64,
            Self::Text | Self::Uuid | Self::Json => DataType::Utf8View,
            Self::Bytea => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Array(item) => DataType::new_list(item.arrow(), true),
        }
    }
}
