//! The columns of a table: its schema is a text of JSON in the log.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use serde_json::Value;
use swingdb_common::error::{Error, Result};

use super::failure::broken;

/// Lists, structs and maps in each other, at most.
const MAX_DEPTH: usize = 64;

/// The columns that a schema has.
pub(super) fn fields(root: &Path, schema: &str) -> Result<Fields> {
    let schema: Value = serde_json::from_str(schema)
        .map_err(|error| broken(root, format!("has a schema that is no JSON: {error}")))?;
    let reader = Reader { root };
    match reader.data_type(&schema, 0)? {
        DataType::Struct(fields) => Ok(fields),
        _ => Err(broken(root, "has a schema that is no struct")),
    }
}

struct Reader<'a> {
    root: &'a Path,
}

impl Reader<'_> {
    fn data_type(&self, of: &Value, depth: usize) -> Result<DataType> {
        if depth > MAX_DEPTH {
            return Err(broken(self.root, format!("has types nested deeper than {MAX_DEPTH}")));
        }
        if let Value::String(name) = of {
            return self.primitive(name);
        }
        let inner = |key: &str| match of.get(key) {
            Some(inner) => self.data_type(inner, depth + 1),
            None => Err(broken(self.root, format!("has a type without {key:?}: {of}"))),
        };
        let nullable = |key: &str| of.get(key).and_then(Value::as_bool).unwrap_or(true);
        match of.get("type").and_then(Value::as_str) {
            Some("struct") => {
                let fields = of.get("fields").and_then(Value::as_array);
                let fields = fields.into_iter().flatten();
                let fields = fields.map(|field| self.field(field, depth + 1));
                Ok(DataType::Struct(fields.collect::<Result<Fields>>()?))
            }
            Some("array") => {
                Ok(DataType::new_list(inner("elementType")?, nullable("containsNull")))
            }
            Some("map") => {
                let entries = Fields::from(vec![
                    Field::new("key", inner("keyType")?, false),
                    Field::new("value", inner("valueType")?, nullable("valueContainsNull")),
                ]);
                let entries = Field::new("key_value", DataType::Struct(entries), false);
                Ok(DataType::Map(Arc::new(entries), false))
            }
            _ => Err(broken(self.root, format!("has a type that is not known: {of}"))),
        }
    }

    fn field(&self, of: &Value, depth: usize) -> Result<Field> {
        let (Some(name), Some(kind)) = (of.get("name").and_then(Value::as_str), of.get("type"))
        else {
            return Err(broken(self.root, format!("has a column without name or type: {of}")));
        };
        let nullable = of.get("nullable").and_then(Value::as_bool).unwrap_or(true);
        Ok(Field::new(name, self.data_type(kind, depth)?, nullable))
    }

    fn primitive(&self, name: &str) -> Result<DataType> {
        Ok(match name {
            "string" => DataType::Utf8View,
            "long" => DataType::Int64,
            "integer" => DataType::Int32,
            "short" => DataType::Int16,
            "byte" => DataType::Int8,
            "float" => DataType::Float32,
            "double" => DataType::Float64,
            "boolean" => DataType::Boolean,
            "binary" => DataType::BinaryView,
            "date" => DataType::Date32,
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ => {
                return decimal(name).ok_or_else(|| {
                    let root = self.root;
                    Error::unsupported(format!("{root:?} has a column of Delta's type {name:?}"))
                });
            }
        })
    }
}

/// `decimal(10,2)`.
fn decimal(name: &str) -> Option<DataType> {
    let inner = name.strip_prefix("decimal(")?.strip_suffix(')')?;
    let (precision, scale) = inner.split_once(',')?;
    let precision: u8 = precision.trim().parse().ok().filter(|p| (1..=38).contains(p))?;
    let scale: i8 = scale.trim().parse().ok().filter(|s| (0..=precision as i8).contains(s))?;
    Some(DataType::Decimal128(precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_a_schema() {
        let text = r#"{"type": "struct", "fields": [
            {"name": "a", "type": "long", "nullable": false, "metadata": {}},
            {"name": "b", "type": {"type": "array", "elementType": "decimal(10,2)",
             "containsNull": true}, "nullable": true, "metadata": {}}]}"#;
        let found = fields(Path::new("t"), text).unwrap();
        let list = DataType::new_list(DataType::Decimal128(10, 2), true);
        assert_eq!(found[0], Arc::new(Field::new("a", DataType::Int64, false)));
        assert_eq!(found[1], Arc::new(Field::new("b", list, true)));
        for refused in [r#"{"type": "struct", "fields": [{"name": "a", "type": "variant"}]}"#, "{"]
        {
            assert!(fields(Path::new("t"), refused).is_err());
        }
    }
}
