//! The SQL names and PEP 249 families of Arrow types, for `cursor.description`.

use swingdb::arrow::datatypes::{DataType, Field, Schema};
use swingdb::sql_name;

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
