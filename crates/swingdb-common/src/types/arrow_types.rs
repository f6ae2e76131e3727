//! SQL type names to Arrow types.
//!
//! One table for `CREATE TABLE`, `ALTER TABLE` and `CAST`: [`SqlTypes`] is also installed as the
//! query engine's type planner, so a name means the same type wherever it is written. The choices
//! follow DuckDB and PostgreSQL: `TIMESTAMP` counts microseconds, `FLOAT` has 32 bits, `DECIMAL`
//! alone is `DECIMAL(18, 3)`, text is Unicode without a length limit (`VARCHAR(10)` is accepted,
//! and its length is not checked, as in DuckDB).
//!
//! Nested types: `INT[]`, `INT[3]`, `ARRAY<INT>`, `STRUCT(a INT, b VARCHAR)` or `STRUCT<a INT,
//! ...>`, `MAP(VARCHAR, INT)`, and any nesting of these. Arrow types without an SQL name are
//! written as a string: `arrow('Dictionary(Int32, Utf8)')`.

use std::str::FromStr;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryLength, DataType as SqlType, EnumMember, ExactNumberInfo, StructField,
    TimezoneInfo,
};

use crate::enums::EnumType;
use crate::error::{Error, Result};

/// The Arrow type of SQL text: short strings lie in the view itself, which makes filters and
/// grouping on them several times faster.
pub const TEXT: DataType = DataType::Utf8View;

/// Precision and scale of `DECIMAL` without either, as in DuckDB.
const DEFAULT_DECIMAL: (u8, i8) = (18, 3);

/// Most digits of a 128-bit decimal.
const MAX_DECIMAL128_PRECISION: u64 = 38;

/// Most digits of a 256-bit decimal.
const MAX_DECIMAL256_PRECISION: u64 = 76;

/// Type names nest at most this deep, so that a hostile statement cannot exhaust the stack.
const MAX_TYPE_DEPTH: usize = 64;

/// The type planner handed to the query engine.
#[derive(Debug, Default)]
pub struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> datafusion::common::Result<Option<FieldRef>> {
        // An unknown name is left to the engine, whose message then lists nothing we do not
        // support.
        match arrow_type(sql_type) {
            Ok(data_type) => Ok(Some(Arc::new(Field::new("", data_type, true)))),
            Err(Error::Unsupported { .. }) => Ok(None),
            Err(error) => Err(DataFusionError::Plan(error.to_string())),
        }
    }
}

/// Whether a type is UUID: text, of one form.
pub fn is_uuid_type(sql_type: &SqlType) -> bool {
    matches!(sql_type, SqlType::Uuid)
}

/// The ENUM that a type is.
pub fn enum_type(sql_type: &SqlType) -> Result<Option<EnumType>> {
    let SqlType::Enum(members, _) = sql_type else { return Ok(None) };
    let value = |member: &EnumMember| match member {
        EnumMember::Name(name) => Ok(name.clone()),
        EnumMember::NamedValue(name, _) => {
            Err(Error::unsupported(format!("a number for {name:?} of an ENUM; it lists texts")))
        }
    };
    EnumType::new(members.iter().map(value).collect::<Result<_>>()?).map(Some)
}

/// The Arrow type of a column that is declared so.
pub fn column_type(sql_type: &SqlType) -> Result<DataType> {
    if !is_uuid_type(sql_type) && holds_uuid(sql_type) {
        return Err(Error::unsupported(format!(
            "the type {sql_type} of a column: texts inside of other values are not checked when \
             they are stored; declare VARCHAR there, and CAST(x AS {sql_type}) what is stored"
        )));
    }
    arrow_type(sql_type)
}

fn holds_uuid(sql_type: &SqlType) -> bool {
    match sql_type {
        SqlType::Uuid => true,
        SqlType::Array(
            ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::Parenthesis(inner),
        )
        | SqlType::Nullable(inner) => holds_uuid(inner),
        SqlType::Struct(fields, _) | SqlType::Tuple(fields) => {
            fields.iter().any(|field| holds_uuid(&field.field_type))
        }
        SqlType::Map(key, value) => holds_uuid(key) || holds_uuid(value),
        _ => false,
    }
}

/// The Arrow type an SQL type name stands for.
pub fn arrow_type(sql_type: &SqlType) -> Result<DataType> {
    convert(sql_type, 0)
}

fn convert(sql_type: &SqlType, depth: usize) -> Result<DataType> {
    if depth > MAX_TYPE_DEPTH {
        return Err(Error::unsupported(format!(
            "a type nested more than {MAX_TYPE_DEPTH} levels deep"
        )));
    }
    if let Some(simple) = simple_type(sql_type) {
        return Ok(simple);
    }
    match sql_type {
        SqlType::Numeric(info)
        | SqlType::Decimal(info)
        | SqlType::Dec(info)
        | SqlType::BigNumeric(info)
        | SqlType::BigDecimal(info) => decimal(info),
        SqlType::Float(info) => float(info),
        SqlType::Binary(Some(length)) => fixed_binary(*length),
        SqlType::Varbinary(None | Some(BinaryLength::Max | BinaryLength::IntegerLength { .. })) => {
            Ok(DataType::Binary)
        }
        SqlType::Timestamp(precision, zone) => timestamp(*precision, zone),
        SqlType::Datetime(precision) | SqlType::TimestampNtz(precision) => {
            timestamp(*precision, &TimezoneInfo::None)
        }
        SqlType::Time(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            time(*precision)
        }
        SqlType::Enum(..) if depth == 0 => Ok(TEXT),
        SqlType::Enum(..) => Err(Error::plan(
            "an ENUM inside of another type: values there are not checked; declare VARCHAR there",
        )),
        SqlType::Interval { fields: None, precision: None } => {
            Ok(DataType::Interval(IntervalUnit::MonthDayNano))
        }
        SqlType::Array(element) => list(element, depth),
        SqlType::Struct(fields, _) | SqlType::Tuple(fields) => structure(fields, depth),
        SqlType::Map(key, value) => map(convert(key, depth + 1)?, convert(value, depth + 1)?),
        SqlType::Nullable(inner) => convert(inner, depth + 1),
        SqlType::Custom(name, modifiers) => custom(&name.to_string(), modifiers),
        other => Err(Error::unsupported(format!("the type {other}"))),
    }
}

/// Types that are one word (or two) without parameters that matter.
fn simple_type(sql_type: &SqlType) -> Option<DataType> {
    Some(match sql_type {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::TinyInt(_) => DataType::Int8,
        SqlType::SmallInt(_) | SqlType::Int2(_) | SqlType::Int16 => DataType::Int16,
        SqlType::Int(_)
        | SqlType::Integer(_)
        | SqlType::Int4(_)
        | SqlType::MediumInt(_)
        | SqlType::Int32
        | SqlType::Signed
        | SqlType::SignedInteger => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int8(_) | SqlType::Int64 => DataType::Int64,
        SqlType::TinyIntUnsigned(_) | SqlType::UTinyInt | SqlType::UInt8 => DataType::UInt8,
        SqlType::SmallIntUnsigned(_)
        | SqlType::Int2Unsigned(_)
        | SqlType::USmallInt
        | SqlType::UInt16 => DataType::UInt16,
        SqlType::IntUnsigned(_)
        | SqlType::IntegerUnsigned(_)
        | SqlType::Int4Unsigned(_)
        | SqlType::MediumIntUnsigned(_)
        | SqlType::Unsigned
        | SqlType::UnsignedInteger
        | SqlType::UInt32 => DataType::UInt32,
        SqlType::BigIntUnsigned(_)
        | SqlType::Int8Unsigned(_)
        | SqlType::UBigInt
        | SqlType::UInt64 => DataType::UInt64,
        // 128-bit integers: Arrow has none; a decimal of 38 digits holds all but the outermost.
        SqlType::HugeInt | SqlType::Int128 => DataType::Decimal128(38, 0),
        SqlType::Real | SqlType::Float4 | SqlType::Float32 => DataType::Float32,
        SqlType::Double(ExactNumberInfo::None)
        | SqlType::DoublePrecision
        | SqlType::Float8
        | SqlType::Float64 => DataType::Float64,
        SqlType::Varchar(_)
        | SqlType::Char(_)
        | SqlType::Character(_)
        | SqlType::CharacterVarying(_)
        | SqlType::CharVarying(_)
        | SqlType::Nvarchar(_)
        | SqlType::CharacterLargeObject(_)
        | SqlType::CharLargeObject(_)
        | SqlType::Clob(_)
        | SqlType::Text
        | SqlType::TinyText
        | SqlType::MediumText
        | SqlType::LongText
        | SqlType::String(_)
        | SqlType::Uuid
        | SqlType::JSON
        | SqlType::JSONB => TEXT,
        SqlType::Bytea
        | SqlType::Blob(_)
        | SqlType::TinyBlob
        | SqlType::MediumBlob
        | SqlType::LongBlob
        | SqlType::Bytes(_)
        | SqlType::Binary(None) => DataType::Binary,
        SqlType::Date | SqlType::Date32 => DataType::Date32,
        _ => return None,
    })
}

fn decimal(info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => {
            return Ok(DataType::Decimal128(DEFAULT_DECIMAL.0, DEFAULT_DECIMAL.1));
        }
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let fits = (1..=MAX_DECIMAL256_PRECISION).contains(&precision)
        && (0..=precision as i64).contains(&scale);
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p), Ok(s)) if fits && precision <= MAX_DECIMAL128_PRECISION => {
            Ok(DataType::Decimal128(p, s))
        }
        (Ok(p), Ok(s)) if fits => Ok(DataType::Decimal256(p, s)),
        _ => Err(Error::plan(format!(
            "DECIMAL({precision}, {scale}): the precision must be 1 to {MAX_DECIMAL256_PRECISION}, \
             and the scale 0 to the precision"
        ))),
    }
}

/// `FLOAT(p)`: up to 24 bits of mantissa are single precision, up to 53 double, as in the standard.
fn float(info: &ExactNumberInfo) -> Result<DataType> {
    match *info {
        ExactNumberInfo::None | ExactNumberInfo::Precision(1..=24) => Ok(DataType::Float32),
        ExactNumberInfo::Precision(25..=53) => Ok(DataType::Float64),
        _ => Err(Error::plan("FLOAT(p): the precision must be 1 to 53 bits".to_string())),
    }
}

fn fixed_binary(length: u64) -> Result<DataType> {
    match i32::try_from(length) {
        Ok(length) if length > 0 => Ok(DataType::FixedSizeBinary(length)),
        _ => Err(Error::plan(format!("BINARY({length}): the length must be 1 to {}", i32::MAX))),
    }
}

fn time_unit(precision: Option<u64>) -> Result<TimeUnit> {
    match precision {
        Some(0) => Ok(TimeUnit::Second),
        Some(1..=3) => Ok(TimeUnit::Millisecond),
        None | Some(4..=6) => Ok(TimeUnit::Microsecond),
        Some(7..=9) => Ok(TimeUnit::Nanosecond),
        Some(p) => Err(Error::plan(format!("a precision of {p} decimals of a second; at most 9"))),
    }
}

fn timestamp(precision: Option<u64>, zone: &TimezoneInfo) -> Result<DataType> {
    let zone = match zone {
        TimezoneInfo::Tz | TimezoneInfo::WithTimeZone => Some("UTC".into()),
        TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => None,
    };
    Ok(DataType::Timestamp(time_unit(precision)?, zone))
}

fn time(precision: Option<u64>) -> Result<DataType> {
    Ok(match time_unit(precision)? {
        unit @ (TimeUnit::Second | TimeUnit::Millisecond) => DataType::Time32(unit),
        unit => DataType::Time64(unit),
    })
}

fn list(element: &ArrayElemTypeDef, depth: usize) -> Result<DataType> {
    match element {
        ArrayElemTypeDef::None => Err(Error::plan(
            "ARRAY needs the type of its elements: INT[] or ARRAY<INT>".to_string(),
        )),
        ArrayElemTypeDef::AngleBracket(inner)
        | ArrayElemTypeDef::Parenthesis(inner)
        | ArrayElemTypeDef::SquareBracket(inner, None) => {
            Ok(DataType::new_list(convert(inner, depth + 1)?, true))
        }
        ArrayElemTypeDef::SquareBracket(inner, Some(size)) => match i32::try_from(*size) {
            Ok(size) if size > 0 => {
                Ok(DataType::new_fixed_size_list(convert(inner, depth + 1)?, size, true))
            }
            _ => Err(Error::plan(format!("an array of {size} elements: at least 1, fits 31 bits"))),
        },
    }
}

fn structure(fields: &[StructField], depth: usize) -> Result<DataType> {
    let mut result: Vec<FieldRef> = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let name = match &field.field_name {
            Some(name) => name.value.clone(),
            None => format!("c{index}"),
        };
        if result.iter().any(|earlier| earlier.name().eq_ignore_ascii_case(&name)) {
            return Err(Error::plan(format!("a STRUCT with two fields named \"{name}\"")));
        }
        let data_type = convert(&field.field_type, depth + 1)?;
        result.push(Arc::new(Field::new(name, data_type, true)));
    }
    if result.is_empty() {
        return Err(Error::plan("a STRUCT needs at least one field".to_string()));
    }
    Ok(DataType::Struct(Fields::from(result)))
}

fn map(key: DataType, value: DataType) -> Result<DataType> {
    // The names the engine's own map functions use, so that its values fit without a cast.
    let entries =
        Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)]);
    let entries = Field::new("entries", DataType::Struct(entries), false);
    Ok(DataType::Map(Arc::new(entries), false))
}

/// Names the parser has no keyword for.
fn custom(name: &str, modifiers: &[String]) -> Result<DataType> {
    let upper = name.to_uppercase();
    if upper == "ARROW" {
        return match modifiers {
            [text] => {
                let text = text.trim_matches('\'');
                DataType::from_str(text).map_err(|error| {
                    Error::plan(format!("ARROW('{text}') is no Arrow type: {error}"))
                })
            }
            _ => Err(Error::plan("ARROW takes one string: ARROW('Utf8')".to_string())),
        };
    }
    Ok(match upper.as_str() {
        "BPCHAR" | "NAME" | "ENUM" => TEXT,
        "INT1" => DataType::Int8,
        "SHORT" => DataType::Int16,
        "LONG" | "OID" => DataType::Int64,
        "UTINYINT" | "UINT8" => DataType::UInt8,
        "USMALLINT" | "UINT16" => DataType::UInt16,
        "UINTEGER" | "UINT" | "UINT32" => DataType::UInt32,
        "UBIGINT" | "UINT64" => DataType::UInt64,
        "HUGEINT" => DataType::Decimal128(38, 0),
        "HALF" | "FLOAT16" => DataType::Float16,
        "LOGICAL" => DataType::Boolean,
        "TIMESTAMP_S" => DataType::Timestamp(TimeUnit::Second, None),
        "TIMESTAMP_MS" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "TIMESTAMP_US" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "TIMESTAMP_NS" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "MONEY" => DataType::Decimal128(19, 4),
        _ => return Err(Error::unsupported(format!("the type {name}"))),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::{DuckDbDialect, GenericDialect};
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn parse(text: &str) -> Result<DataType> {
        let generic = GenericDialect {};
        let duck = DuckDbDialect {};
        let parsed = Parser::new(&generic)
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_data_type())
            .or_else(|_| Parser::new(&duck).try_with_sql(text)?.parse_data_type())
            .unwrap();
        arrow_type(&parsed)
    }

    #[test]
    fn plain_names() {
        let list: &[(&str, DataType)] = &[
            ("BOOLEAN", DataType::Boolean),
            ("TINYINT", DataType::Int8),
            ("SMALLINT", DataType::Int16),
            ("INTEGER", DataType::Int32),
            ("INT", DataType::Int32),
            ("BIGINT", DataType::Int64),
            ("INT8", DataType::Int64),
            ("UTINYINT", DataType::UInt8),
            ("USMALLINT", DataType::UInt16),
            ("UINTEGER", DataType::UInt32),
            ("UBIGINT", DataType::UInt64),
            ("BIGINT UNSIGNED", DataType::UInt64),
            ("HUGEINT", DataType::Decimal128(38, 0)),
            ("REAL", DataType::Float32),
            ("FLOAT", DataType::Float32),
            ("FLOAT(53)", DataType::Float64),
            ("DOUBLE", DataType::Float64),
            ("DOUBLE PRECISION", DataType::Float64),
            ("VARCHAR", TEXT),
            ("VARCHAR(10)", TEXT),
            ("CHAR(3)", TEXT),
            ("TEXT", TEXT),
            ("STRING", TEXT),
            ("UUID", TEXT),
            ("JSON", TEXT),
            ("BLOB", DataType::Binary),
            ("BYTEA", DataType::Binary),
            ("VARBINARY", DataType::Binary),
            ("BINARY(4)", DataType::FixedSizeBinary(4)),
            ("DATE", DataType::Date32),
            ("TIME", DataType::Time64(TimeUnit::Microsecond)),
            ("TIME(0)", DataType::Time32(TimeUnit::Second)),
            ("TIMESTAMP", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("TIMESTAMP(9)", DataType::Timestamp(TimeUnit::Nanosecond, None)),
            ("TIMESTAMP_MS", DataType::Timestamp(TimeUnit::Millisecond, None)),
            ("DATETIME", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("TIMESTAMPTZ", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
            ("INTERVAL", DataType::Interval(IntervalUnit::MonthDayNano)),
            ("DECIMAL", DataType::Decimal128(18, 3)),
            ("DECIMAL(10)", DataType::Decimal128(10, 0)),
            ("NUMERIC(10, 2)", DataType::Decimal128(10, 2)),
            ("DECIMAL(50, 2)", DataType::Decimal256(50, 2)),
            ("ARROW('Float16')", DataType::Float16),
        ];
        for (text, expected) in list {
            assert_eq!(parse(text).unwrap(), *expected, "{text}");
        }
    }

    #[test]
    fn nested_names() {
        assert_eq!(parse("INT[]").unwrap(), DataType::new_list(DataType::Int32, true));
        assert_eq!(parse("ARRAY<INT>").unwrap(), DataType::new_list(DataType::Int32, true));
        assert_eq!(
            parse("INT[3]").unwrap(),
            DataType::new_fixed_size_list(DataType::Int32, 3, true)
        );
        assert_eq!(
            parse("INT[][]").unwrap(),
            DataType::new_list(DataType::new_list(DataType::Int32, true), true)
        );
        let expected = DataType::Struct(Fields::from(vec![
            Field::new("A", DataType::Int32, true),
            Field::new("b", TEXT, true),
        ]));
        assert_eq!(parse("STRUCT<A INT, \"b\" VARCHAR>").unwrap(), expected);
        let DataType::Map(entries, false) = parse("MAP(VARCHAR, INT[])").unwrap() else {
            panic!("no map");
        };
        let DataType::Struct(fields) = entries.data_type() else { panic!("no entries") };
        assert_eq!(fields[0].data_type(), &TEXT);
        assert!(!fields[0].is_nullable());
        assert_eq!(fields[1].data_type(), &DataType::new_list(DataType::Int32, true));
    }

    #[test]
    fn refusals_say_why() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("DECIMAL(0, 0)").contains("precision must be 1 to 76"));
        assert!(message("DECIMAL(5, 6)").contains("scale"));
        assert!(message("TIMESTAMP(12)").contains("at most 9"));
        assert!(message("WOMBAT").contains("WOMBAT"));
        assert!(message("STRUCT<a INT, A INT>").contains("two fields"));
        assert!(message("ARROW('Wombat')").contains("Wombat"));
    }
}
