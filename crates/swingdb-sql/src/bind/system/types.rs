//! Types by the numbers and names that PostgreSQL has for them.

use arrow::datatypes::{DataType, Field};
use swingdb_common::types::arrow_types::{arrow_type, enum_type};
use swingdb_common::types::sql_names::sql_name;
use swingdb_common::uuid;

use crate::text::parser::parse_type;

/// A type of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgType {
    pub(super) oid: i64,
    pub(super) name: &'static str,
    /// The number of the type of lists of it; 0: none.
    pub(super) array: i64,
    /// Bytes of a value; -1: each has its own size.
    pub(super) size: i64,
    /// The letter of `pg_type.typcategory`.
    pub(super) category: &'static str,
}

const fn pg(oid: i64, name: &'static str, array: i64, size: i64, category: &'static str) -> PgType {
    PgType { oid, name, array, size, category }
}

const BOOL: PgType = pg(16, "bool", 1000, 1, "B");
const BYTEA: PgType = pg(17, "bytea", 1001, -1, "U");
const INT8: PgType = pg(20, "int8", 1016, 8, "N");
const INT2: PgType = pg(21, "int2", 1005, 2, "N");
const INT4: PgType = pg(23, "int4", 1007, 4, "N");
const TEXT: PgType = pg(25, "text", 1009, -1, "S");
const JSON: PgType = pg(114, "json", 199, -1, "U");
const FLOAT4: PgType = pg(700, "float4", 1021, 4, "N");
const FLOAT8: PgType = pg(701, "float8", 1022, 8, "N");
const DATE: PgType = pg(1082, "date", 1182, 4, "D");
const TIME: PgType = pg(1083, "time", 1183, 8, "D");
const TIMESTAMP: PgType = pg(1114, "timestamp", 1115, 8, "D");
const TIMESTAMPTZ: PgType = pg(1184, "timestamptz", 1185, 8, "D");
const INTERVAL: PgType = pg(1186, "interval", 1187, 16, "T");
const NUMERIC: PgType = pg(1700, "numeric", 1231, -1, "N");
const UUID: PgType = pg(2950, "uuid", 2951, 16, "U");

/// All that stand for a type of ours, and some that programs look up.
pub(super) const ALL: [PgType; 20] = [
    BOOL,
    BYTEA,
    pg(18, "char", 1002, 1, "Z"),
    pg(19, "name", 1003, 64, "S"),
    INT8,
    INT2,
    INT4,
    TEXT,
    pg(26, "oid", 1028, 4, "N"),
    JSON,
    FLOAT4,
    FLOAT8,
    pg(1043, "varchar", 1015, -1, "S"),
    DATE,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    INTERVAL,
    NUMERIC,
    UUID,
];

/// Names in SQL that are not those of `pg_type`, and the type of each.
const SQL_NAMES: [(&str, i64); 12] = [
    ("boolean", 16),
    ("\"char\"", 18),
    ("bigint", 20),
    ("smallint", 21),
    ("integer", 23),
    ("real", 700),
    ("double precision", 701),
    ("character varying", 1043),
    ("time without time zone", 1083),
    ("timestamp without time zone", 1114),
    ("timestamp with time zone", 1184),
    ("int", 23),
];

/// The name of a type in SQL, by its number; `modifier` says precision and scale of a decimal.
pub(super) fn shown(oid: i64, modifier: Option<i64>) -> String {
    let (element, end) = match ALL.iter().find(|known| known.array == oid) {
        Some(known) => (known.oid, "[]"),
        None => (oid, ""),
    };
    let digits = match modifier {
        Some(modifier) if element == NUMERIC.oid && modifier >= 4 => {
            format!("({},{})", (modifier - 4) >> 16, (modifier - 4) & 0x7ff)
        }
        _ => String::new(),
    };
    let in_sql = SQL_NAMES.iter().find(|(_, known)| *known == element).map(|(name, _)| *name);
    let plain = || ALL.iter().find(|known| known.oid == element).map(|known| known.name);
    format!("{}{digits}{end}", in_sql.or_else(plain).unwrap_or("???"))
}

/// The number of a type by any of its names: `int4`, `integer`, `pg_catalog.int4`, `_int4`,
/// `integer[]`.
pub(super) fn number(name: &str) -> Option<i64> {
    let name = name.trim().to_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    if let Some(element) = name.strip_suffix("[]").or_else(|| name.strip_prefix('_')) {
        let element = number(element)?;
        let found = ALL.iter().find(|known| known.oid == element)?;
        return Some(found.array);
    }
    let in_sql = SQL_NAMES.iter().find(|(known, _)| *known == name).map(|(_, oid)| *oid);
    in_sql.or_else(|| ALL.iter().find(|known| known.name == name).map(|known| known.oid))
}

/// The type of PostgreSQL that stands for a field's, as its clients get the values.
pub(super) fn of_field(field: &Field) -> PgType {
    match uuid::is_marked(field) {
        true => UUID,
        false => of(field.data_type()),
    }
}

fn of(data_type: &DataType) -> PgType {
    use DataType as T;
    match data_type {
        T::Boolean => BOOL,
        T::Int8 | T::Int16 | T::UInt8 => INT2,
        T::Int32 | T::UInt16 => INT4,
        T::Int64 | T::UInt32 => INT8,
        T::UInt64 | T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => {
            NUMERIC
        }
        T::Float16 | T::Float32 => FLOAT4,
        T::Float64 => FLOAT8,
        T::Null | T::Utf8 | T::LargeUtf8 | T::Utf8View => TEXT,
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => BYTEA,
        T::Date32 | T::Date64 => DATE,
        T::Time32(_) | T::Time64(_) => TIME,
        T::Timestamp(_, None) => TIMESTAMP,
        T::Timestamp(_, Some(_)) => TIMESTAMPTZ,
        T::Interval(_) | T::Duration(_) => INTERVAL,
        T::Dictionary(_, values) => of(values),
        T::RunEndEncoded(_, values) => of_field(values),
        T::List(item)
        | T::LargeList(item)
        | T::ListView(item)
        | T::LargeListView(item)
        | T::FixedSizeList(item, _) => {
            let item = of_field(item);
            // Lists of lists are handed out as JSON.
            let list = ALL.iter().find(|known| known.oid == item.oid && item != JSON);
            list.map_or(JSON, |item| pg(item.array, "", 0, -1, "A"))
        }
        T::Struct(_) | T::Map(..) | T::Union(..) => JSON,
    }
}

/// `pg_attribute.atttypmod`: of a decimal its precision and scale, else -1.
pub(super) fn modifier(data_type: &DataType) -> i64 {
    match data_type {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => {
            ((i64::from(*p) << 16) | i64::from((*s).max(0))).saturating_add(4)
        }
        DataType::UInt64 => (20 << 16) + 4,
        _ => -1,
    }
}

/// Precision, its radix, and scale of a number, as DuckDB tells them.
pub(super) fn digits(data_type: &DataType) -> Option<(i64, i64, i64)> {
    use DataType as T;
    Some(match data_type {
        T::Int8 | T::UInt8 => (8, 2, 0),
        T::Int16 | T::UInt16 => (16, 2, 0),
        T::Int32 | T::UInt32 => (32, 2, 0),
        T::Int64 | T::UInt64 => (64, 2, 0),
        T::Float32 => (24, 2, 0),
        T::Float64 => (53, 2, 0),
        T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s) => {
            (i64::from(*p), 10, i64::from(*s))
        }
        _ => return None,
    })
}

/// What a name that a statement gave to a type stands for, as DuckDB tells it.
pub(super) struct Named {
    pub(super) size: i64,
    pub(super) logical: String,
    pub(super) category: Option<&'static str>,
    /// The values of an ENUM.
    pub(super) labels: Option<Vec<String>>,
}

/// What the SQL of a type says.
pub(super) fn named(sql: &str) -> Named {
    let parsed = parse_type(sql).ok();
    if let Some(values) = parsed.as_ref().and_then(|parsed| enum_type(parsed).ok().flatten()) {
        let size = if values.values().len() > 255 { 2 } else { 1 };
        let labels = Some(values.values().to_vec());
        return Named { size, logical: "ENUM".to_string(), category: None, labels };
    }
    let logical = parsed.and_then(|parsed| arrow_type(&parsed).ok());
    let logical = logical.map_or_else(|| sql.to_string(), |found| sql_name(&found));
    let logical = match logical.split_once('(') {
        _ if logical.ends_with(']') => "LIST".to_string(),
        Some((name, _)) => name.to_string(),
        None => logical,
    };
    let known = NAMES.iter().find(|(_, known, _, _)| *known == logical);
    let (size, category) = match known {
        Some((_, _, size, category)) => (*size, *category),
        None if logical == "LIST" => (16, "COMPOSITE"),
        None => (0, "COMPOSITE"),
    };
    Named { size, logical, category: Some(category), labels: None }
}

/// The names of types: name, what it stands for, bytes of a value in DuckDB, category.
pub(super) const NAMES: &[(&str, &str, i64, &str)] = &[
    ("bigint", "BIGINT", 8, "NUMERIC"),
    ("binary", "BLOB", 16, "STRING"),
    ("blob", "BLOB", 16, "STRING"),
    ("bool", "BOOLEAN", 1, "BOOLEAN"),
    ("boolean", "BOOLEAN", 1, "BOOLEAN"),
    ("bytea", "BLOB", 16, "STRING"),
    ("char", "VARCHAR", 16, "STRING"),
    ("date", "DATE", 4, "DATETIME"),
    ("datetime", "TIMESTAMP", 8, "DATETIME"),
    ("decimal", "DECIMAL", 8, "NUMERIC"),
    ("double", "DOUBLE", 8, "NUMERIC"),
    ("float", "FLOAT", 4, "NUMERIC"),
    ("float4", "FLOAT", 4, "NUMERIC"),
    ("float8", "DOUBLE", 8, "NUMERIC"),
    ("hugeint", "HUGEINT", 16, "NUMERIC"),
    ("int", "INTEGER", 4, "NUMERIC"),
    ("int1", "TINYINT", 1, "NUMERIC"),
    ("int2", "SMALLINT", 2, "NUMERIC"),
    ("int4", "INTEGER", 4, "NUMERIC"),
    ("int8", "BIGINT", 8, "NUMERIC"),
    ("integer", "INTEGER", 4, "NUMERIC"),
    ("interval", "INTERVAL", 16, "DATETIME"),
    ("json", "JSON", 16, "STRING"),
    ("long", "BIGINT", 8, "NUMERIC"),
    ("numeric", "DECIMAL", 8, "NUMERIC"),
    ("real", "FLOAT", 4, "NUMERIC"),
    ("short", "SMALLINT", 2, "NUMERIC"),
    ("smallint", "SMALLINT", 2, "NUMERIC"),
    ("string", "VARCHAR", 16, "STRING"),
    ("text", "VARCHAR", 16, "STRING"),
    ("time", "TIME", 8, "DATETIME"),
    ("timestamp", "TIMESTAMP", 8, "DATETIME"),
    ("timestamp_ms", "TIMESTAMP_MS", 8, "DATETIME"),
    ("timestamp_ns", "TIMESTAMP_NS", 8, "DATETIME"),
    ("timestamp_s", "TIMESTAMP_S", 8, "DATETIME"),
    ("timestamptz", "TIMESTAMP WITH TIME ZONE", 8, "DATETIME"),
    ("tinyint", "TINYINT", 1, "NUMERIC"),
    ("ubigint", "UBIGINT", 8, "NUMERIC"),
    ("uinteger", "UINTEGER", 4, "NUMERIC"),
    ("usmallint", "USMALLINT", 2, "NUMERIC"),
    ("utinyint", "UTINYINT", 1, "NUMERIC"),
    ("uuid", "UUID", 16, "STRING"),
    ("varbinary", "BLOB", 16, "STRING"),
    ("varchar", "VARCHAR", 16, "STRING"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_names_and_shown() {
        for (name, shown_as) in [
            ("int4", "integer"),
            ("_int4", "integer[]"),
            ("timestamp with time zone[]", "timestamp with time zone[]"),
            ("pg_catalog.varchar", "character varying"),
            ("TEXT", "text"),
        ] {
            assert_eq!(shown(number(name).unwrap(), None), shown_as);
        }
        assert_eq!(number("hstore"), None);
        assert_eq!(shown(1700, Some((10 << 16 | 3) + 4)), "numeric(10,3)");
        assert_eq!(shown(1231, Some((10 << 16 | 3) + 4)), "numeric(10,3)[]");
        assert_eq!(shown(7, Some(-1)), "???");
    }
}
