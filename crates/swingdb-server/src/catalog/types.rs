//! PostgreSQL's types by number and by name.

use crate::postgres::types::PgType;

/// A type that clients may look up: number, internal name, name in SQL, category, element.
pub struct Known {
    pub oid: u32,
    pub name: &'static str,
    pub sql: &'static str,
    pub category: &'static str,
    pub size: i16,
    pub element: u32,
}

const fn known(
    oid: u32,
    name: &'static str,
    sql: &'static str,
    category: &'static str,
    size: i16,
    element: u32,
) -> Known {
    Known { oid, name, sql, category, size, element }
}

/// All types that values are sent as.
pub const KNOWN: [Known; 33] = [
    known(16, "bool", "boolean", "B", 1, 0),
    known(17, "bytea", "bytea", "U", -1, 0),
    known(20, "int8", "bigint", "N", 8, 0),
    known(21, "int2", "smallint", "N", 2, 0),
    known(23, "int4", "integer", "N", 4, 0),
    known(25, "text", "text", "S", -1, 0),
    known(26, "oid", "oid", "N", 4, 0),
    known(114, "json", "json", "U", -1, 0),
    known(700, "float4", "real", "N", 4, 0),
    known(701, "float8", "double precision", "N", 8, 0),
    known(1043, "varchar", "character varying", "S", -1, 0),
    known(1082, "date", "date", "D", 4, 0),
    known(1083, "time", "time without time zone", "D", 8, 0),
    known(1114, "timestamp", "timestamp without time zone", "D", 8, 0),
    known(1184, "timestamptz", "timestamp with time zone", "D", 8, 0),
    known(1186, "interval", "interval", "T", 16, 0),
    known(1700, "numeric", "numeric", "N", -1, 0),
    known(2950, "uuid", "uuid", "U", 16, 0),
    known(1000, "_bool", "boolean[]", "A", -1, 16),
    known(1001, "_bytea", "bytea[]", "A", -1, 17),
    known(1005, "_int2", "smallint[]", "A", -1, 21),
    known(1007, "_int4", "integer[]", "A", -1, 23),
    known(1009, "_text", "text[]", "A", -1, 25),
    known(1016, "_int8", "bigint[]", "A", -1, 20),
    known(1021, "_float4", "real[]", "A", -1, 700),
    known(1022, "_float8", "double precision[]", "A", -1, 701),
    known(1115, "_timestamp", "timestamp without time zone[]", "A", -1, 1114),
    known(1182, "_date", "date[]", "A", -1, 1082),
    known(1183, "_time", "time without time zone[]", "A", -1, 1083),
    known(1185, "_timestamptz", "timestamp with time zone[]", "A", -1, 1184),
    known(1187, "_interval", "interval[]", "A", -1, 1186),
    known(1231, "_numeric", "numeric[]", "A", -1, 1700),
    known(2951, "_uuid", "uuid[]", "A", -1, 2950),
];

/// The name of a type in SQL, with precision and scale.
pub fn format_type(oid: i64, modifier: Option<i64>) -> String {
    let found = KNOWN.iter().find(|known| i64::from(known.oid) == oid);
    let name = found.map_or("???", |known| known.sql);
    match modifier {
        Some(modifier) if matches!(oid, 1700 | 1231) && modifier >= 4 => {
            let (precision, scale) = ((modifier - 4) >> 16, (modifier - 4) & 0x7ff);
            let (name, suffix) = match name.strip_suffix("[]") {
                Some(name) => (name, "[]"),
                None => (name, ""),
            };
            format!("{name}({precision},{scale}){suffix}")
        }
        _ => name.to_string(),
    }
}

/// The type that stands for one by the name that the information schema has for it.
pub fn of_sql_name(name: &str) -> PgType {
    if let Some(item) = name.strip_suffix(']').and_then(|name| name.rsplit_once('[')) {
        return match of_sql_name(item.0) {
            PgType::Array(_) | PgType::Json => PgType::Json,
            item => PgType::Array(Box::new(item)),
        };
    }
    let arguments = name.strip_prefix("DECIMAL(").and_then(|rest| rest.strip_suffix(')'));
    if let Some((precision, scale)) = arguments.and_then(|both| both.split_once(',')) {
        let precision = precision.trim().parse().unwrap_or(38);
        return PgType::Numeric(precision, scale.trim().parse().unwrap_or(0));
    }
    match name {
        "BOOLEAN" => PgType::Bool,
        "TINYINT" | "SMALLINT" | "UTINYINT" => PgType::Int2,
        "INTEGER" | "USMALLINT" => PgType::Int4,
        "BIGINT" | "UINTEGER" => PgType::Int8,
        "UBIGINT" => PgType::Numeric(20, 0),
        "HALF" | "FLOAT" => PgType::Float4,
        "DOUBLE" => PgType::Float8,
        "BLOB" => PgType::Bytea,
        "DATE" => PgType::Date,
        "TIME" => PgType::Time,
        "INTERVAL" => PgType::Interval,
        "UUID" => PgType::Uuid,
        _ if name.starts_with("TIMESTAMP") && name.ends_with("WITH TIME ZONE") => {
            PgType::Timestamptz
        }
        _ if name.starts_with("TIMESTAMP") => PgType::Timestamp,
        _ if ["STRUCT(", "MAP(", "UNION"].iter().any(|begin| name.starts_with(begin)) => {
            PgType::Json
        }
        _ => PgType::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_names() {
        assert_eq!(of_sql_name("INTEGER[]"), PgType::Array(Box::new(PgType::Int4)));
        assert_eq!(of_sql_name("INTEGER[3][]"), PgType::Json);
        assert_eq!(of_sql_name("DECIMAL(10,3)"), PgType::Numeric(10, 3));
        assert_eq!(of_sql_name("TIMESTAMP_NS WITH TIME ZONE"), PgType::Timestamptz);
        assert_eq!(format_type(1700, Some((10 << 16 | 3) + 4)), "numeric(10,3)");
        assert_eq!(format_type(1016, None), "bigint[]");
    }
}
