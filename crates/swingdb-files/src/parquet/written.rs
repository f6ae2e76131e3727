//! Types of columns as they are written to Parquet.
//!
//! The format has no times in seconds, nor dates in milliseconds. The encoder writes them as plain
//! numbers, which every reader but Arrow's takes for such. So they are written in milliseconds, and
//! in days.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use swingdb_common::error::{Error, Result};
use swingdb_common::types::sql_names::sql_name;

/// The columns with the types that are written.
pub(crate) fn schema_of(schema: &SchemaRef) -> SchemaRef {
    let fields = fields_of(schema.fields());
    match fields == *schema.fields() {
        true => Arc::clone(schema),
        false => Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
    }
}

/// Refuses what the format has no columns for, and at which its encoder panics.
pub(crate) fn check(schema: &Schema) -> Result<()> {
    let lacks = |given: &DataType| matches!(given, DataType::Union(..));
    match schema.fields().iter().find(|field| has_inside(field.data_type(), &lacks)) {
        None => Ok(()),
        Some(field) => Err(Error::unsupported(format!(
            "in Parquet: column {:?} is {}; CAST it to VARCHAR",
            field.name(),
            sql_name(field.data_type())
        ))),
    }
}

fn has_inside(given: &DataType, is: &dyn Fn(&DataType) -> bool) -> bool {
    let inside = |field: &FieldRef| has_inside(field.data_type(), is);
    is(given)
        || match given {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => inside(item),
            DataType::Struct(fields) => fields.iter().any(inside),
            DataType::Dictionary(_, values) => has_inside(values, is),
            _ => false,
        }
}

/// The values of a column as they are written.
pub(crate) fn values_of(field: &Field, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    match field.data_type() == column.data_type() {
        true => Ok(Arc::clone(column)),
        false => cast_with_options(column, field.data_type(), &options),
    }
}

fn fields_of(fields: &Fields) -> Fields {
    fields.iter().map(field_of).collect()
}

fn field_of(field: &FieldRef) -> FieldRef {
    let written = type_of(field.data_type());
    match written == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(written)),
    }
}

fn type_of(given: &DataType) -> DataType {
    match given {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        DataType::List(item) => DataType::List(field_of(item)),
        DataType::LargeList(item) => DataType::LargeList(field_of(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(field_of(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(field_of(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields_of(fields)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, TimestampSecondArray};
    use arrow::datatypes::TimestampMillisecondType;

    use super::*;

    #[test]
    fn seconds_are_written_in_milliseconds() {
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let inner = DataType::new_list(seconds.clone(), true);
        let fields = [Field::new("a", seconds, true), Field::new("b", inner, true)];
        let schema = Arc::new(Schema::new(fields.to_vec()));
        let written = schema_of(&schema);
        let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
        assert_eq!(*written.field(0).data_type(), millis);
        assert_eq!(*written.field(1).data_type(), DataType::new_list(millis, true));
        let column: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(5), None]));
        let values = values_of(written.field(0), &column).unwrap();
        assert_eq!(values.as_primitive::<TimestampMillisecondType>().value(0), 5_000);
        let beyond: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]));
        assert!(values_of(written.field(0), &beyond).is_err());
        let same = Arc::new(Schema::new(vec![Field::new("a", DataType::Date32, true)]));
        assert!(Arc::ptr_eq(&schema_of(&same), &same));
    }
}
