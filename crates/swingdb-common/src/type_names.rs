//! What SQL calls Arrow types. Nothing of this crate is used here, so that errors can use it.

use arrow::datatypes::{DataType, TimeUnit};

/// An Arrow type by the name SQL has for it; Arrow's own name where SQL has none.
pub fn sql_name(data_type: &DataType) -> String {
    use DataType as T;
    match data_type {
        T::Null => "NULL".into(),
        T::Boolean => "BOOLEAN".into(),
        T::Int8 => "TINYINT".into(),
        T::Int16 => "SMALLINT".into(),
        T::Int32 => "INTEGER".into(),
        T::Int64 => "BIGINT".into(),
        T::UInt8 => "UTINYINT".into(),
        T::UInt16 => "USMALLINT".into(),
        T::UInt32 => "UINTEGER".into(),
        T::UInt64 => "UBIGINT".into(),
        T::Float16 => "HALF".into(),
        T::Float32 => "FLOAT".into(),
        T::Float64 => "DOUBLE".into(),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "VARCHAR".into(),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => "BLOB".into(),
        T::Date32 | T::Date64 => "DATE".into(),
        T::Time32(_) | T::Time64(_) => "TIME".into(),
        T::Timestamp(unit, zone) => {
            let name = match unit {
                TimeUnit::Second => "TIMESTAMP_S",
                TimeUnit::Millisecond => "TIMESTAMP_MS",
                TimeUnit::Microsecond => "TIMESTAMP",
                TimeUnit::Nanosecond => "TIMESTAMP_NS",
            };
            match zone {
                Some(_) => format!("{name} WITH TIME ZONE"),
                None => name.into(),
            }
        }
        T::Interval(_) | T::Duration(_) => "INTERVAL".into(),
        T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s) => {
            format!("DECIMAL({p},{s})")
        }
        T::List(f) | T::LargeList(f) | T::ListView(f) | T::LargeListView(f) => {
            format!("{}[]", sql_name(f.data_type()))
        }
        T::FixedSizeList(f, length) => format!("{}[{length}]", sql_name(f.data_type())),
        T::Struct(fields) => {
            let fields = fields.iter().map(|f| {
                format!("\"{}\" {}", f.name().replace('"', "\"\""), sql_name(f.data_type()))
            });
            format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "))
        }
        T::Map(entries, _) => match entries.data_type() {
            T::Struct(pair) if pair.len() == 2 => {
                let (key, value) = (pair[0].data_type(), pair[1].data_type());
                format!("MAP({}, {})", sql_name(key), sql_name(value))
            }
            other => sql_name(other),
        },
        T::Dictionary(_, values) => sql_name(values),
        T::RunEndEncoded(_, values) => sql_name(values.data_type()),
        T::Union(..) => "UNION".into(),
    }
}
