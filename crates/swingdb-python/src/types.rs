//! The SQL names and PEP 249 families of Arrow types, for `cursor.description`.

use swingdb::arrow::datatypes::{DataType, Field, Schema};

/// Name, SQL type, family, precision, scale, nullable.
pub type Column = (String, String, &'static str, Option<u8>, Option<i8>, bool);

/// What `Rows.columns` and `Batches.columns` hand to Python.
pub fn columns(schema: &Schema) -> Vec<Column> {
    schema.fields().iter().map(|field| column(field)).collect()
}

fn column(field: &Field) -> Column {
    let (precision, scale) = match field.data_type() {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => (Some(*p), Some(*s)),
        _ => (None, None),
    };
    let name = if is_uuid(field) { "UUID".to_string() } else { sql_name(field.data_type()) };
    let family = if is_uuid(field) { "STRING" } else { family(field.data_type()) };
    (field.name().clone(), name, family, precision, scale, field.is_nullable())
}

/// Whether a column holds UUIDs, by Arrow's canonical extension type.
pub fn is_uuid(field: &Field) -> bool {
    field.data_type() == &DataType::FixedSizeBinary(16)
        && field.extension_type_name() == Some("arrow.uuid")
}

fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INTEGER".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INTEGER UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float16 => "HALF".into(),
        DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BYTEA".into(),
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".into(),
        DataType::Interval(_) => "INTERVAL".into(),
        DataType::Duration(_) => "DURATION".into(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("DECIMAL({p}, {s})"),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => format!("{}[]", sql_name(item.data_type())),
        DataType::FixedSizeList(item, n) => format!("{}[{n}]", sql_name(item.data_type())),
        DataType::Struct(fields) => {
            let field = |f: &Field| format!("{} {}", f.name(), sql_name(f.data_type()));
            let fields: Vec<_> = fields.iter().map(|f| field(f)).collect();
            format!("STRUCT({})", fields.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => format!(
                "MAP({}, {})",
                sql_name(fields[0].data_type()),
                sql_name(fields[1].data_type())
            ),
            _ => "MAP".into(),
        },
        DataType::Dictionary(_, value) => sql_name(value),
        DataType::RunEndEncoded(_, values) => sql_name(values.data_type()),
        DataType::Union(_, _) => "UNION".into(),
    }
}

fn family(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Dictionary(_, value) => family(value),
        DataType::RunEndEncoded(_, values) => family(values.data_type()),
        DataType::Boolean => "NUMBER",
        t if t.is_numeric() => "NUMBER",
        t if t.is_temporal() => "DATETIME",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BINARY",
        _ => "OTHER",
    }
}
