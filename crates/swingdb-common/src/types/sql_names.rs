//! What SQL calls Arrow types: in DESCRIBE, in `typeof`, in messages, in Python's descriptions.

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::{Result as DfResult, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::enums::EnumType;
pub use crate::type_names::sql_name;
use crate::uuid;

/// The type of a field by the name that SQL has for it.
pub fn field_type(field: &Field) -> String {
    marked_type(field).unwrap_or_else(|| sql_name(field.data_type()))
}

/// The type of a field by a name that means exactly this type in a statement; the names and bounds
/// of elements of lists do not count.
pub fn exact_type(field: &Field) -> String {
    marked_type(field).unwrap_or_else(|| exact_name(field.data_type()))
}

/// The type that the mark of a field of texts says.
fn marked_type(field: &Field) -> Option<String> {
    match uuid::is_marked(field) {
        true => Some("UUID".to_string()),
        false => EnumType::of_field(field).map(|found| found.to_string()),
    }
}

fn exact_name(data_type: &DataType) -> String {
    use DataType as T;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let zoned = |precision: &str| format!("TIMESTAMP{precision} WITH TIME ZONE");
    match data_type {
        T::FixedSizeBinary(length) if *length > 0 => format!("BINARY({length})"),
        T::Time32(Second) => "TIME(0)".into(),
        T::Time32(_) => "TIME(3)".into(),
        T::Time64(Nanosecond) => "TIME(9)".into(),
        T::Timestamp(unit, Some(zone)) if &**zone == "UTC" => match unit {
            Second => zoned("(0)"),
            Millisecond => zoned("(3)"),
            Microsecond => zoned(""),
            Nanosecond => zoned("(9)"),
        },
        T::List(item) => format!("{}[]", exact_name(item.data_type())),
        T::FixedSizeList(item, n) if *n > 0 => format!("{}[{n}]", exact_name(item.data_type())),
        T::Struct(fields) if !fields.is_empty() => {
            let fields = fields.iter().map(|f| {
                format!("\"{}\" {}", f.name().replace('"', "\"\""), exact_name(f.data_type()))
            });
            format!("STRUCT({})", fields.collect::<Vec<_>>().join(", "))
        }
        T::Map(entries, false) => match entries.data_type() {
            T::Struct(pair) if pair.len() == 2 => {
                let (key, value) = (pair[0].data_type(), pair[1].data_type());
                format!("MAP({}, {})", exact_name(key), exact_name(value))
            }
            other => arrow_name(other),
        },
        T::Decimal128(p, s) if *s >= 0 && *s <= *p as i8 => sql_name(data_type),
        T::Decimal256(p, s) if *s >= 0 && *s <= *p as i8 && *p > 38 => sql_name(data_type),
        T::Boolean
        | T::Int8
        | T::Int16
        | T::Int32
        | T::Int64
        | T::UInt8
        | T::UInt16
        | T::UInt32
        | T::UInt64
        | T::Float16
        | T::Float32
        | T::Float64
        | T::Utf8View
        | T::Binary
        | T::Date32
        | T::Time64(Microsecond)
        | T::Timestamp(_, None)
        | T::Interval(IntervalUnit::MonthDayNano) => sql_name(data_type),
        other => arrow_name(other),
    }
}

fn arrow_name(data_type: &DataType) -> String {
    format!("ARROW('{}')", data_type.to_string().replace('\'', "''"))
}

/// The function `typeof(x)`.
pub fn type_of() -> ScalarUDF {
    ScalarUDF::from(TypeOf { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    signature: Signature,
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        match args.arg_fields.as_slice() {
            [field] => Ok(ColumnarValue::Scalar(ScalarValue::from(field_type(field).as_str()))),
            _ => plan_err!("typeof takes one value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn plain_and_nested_types() {
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
        let fields =
            vec![Field::new("a", list.clone(), true), Field::new("b\"", DataType::Utf8, true)];
        for (data_type, name) in [
            (DataType::Float32, "FLOAT"),
            (DataType::Decimal128(5, 2), "DECIMAL(5,2)"),
            (
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                "TIMESTAMP WITH TIME ZONE",
            ),
            (list, "INTEGER[]"),
            (DataType::Struct(fields.into()), "STRUCT(\"a\" INTEGER[], \"b\"\"\" VARCHAR)"),
        ] {
            assert_eq!(sql_name(&data_type), name);
        }
    }
}
