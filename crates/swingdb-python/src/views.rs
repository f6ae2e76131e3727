//! Arrow's string views as plain strings, for libraries that do not work with views yet.
//!
//! The database stores and computes text as views: short texts in place, long ones by reference.
//! Polars shares that layout; PyArrow can hold it, but cannot sort, take or group by it.

use std::sync::Arc;

use swingdb::arrow::array::cast::AsArray;
use swingdb::arrow::array::{Array, RecordBatch, RecordBatchOptions};
use swingdb::arrow::compute::cast;
use swingdb::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use swingdb::arrow::error::ArrowError;

/// The same rows, with plain strings and binaries instead of views, inside of lists and structs
/// too. Columns without views are shared.
pub fn without_views(
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let large = batches.iter().flat_map(RecordBatch::columns).any(|c| needs_large(c.as_ref()));
    let fields: Vec<_> = schema.fields().iter().map(|field| plain_field(field, large)).collect();
    let plain = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    if plain.fields() == schema.fields() {
        return Ok((Arc::clone(schema), batches.to_vec()));
    }
    let batches = batches.iter().map(|batch| {
        let columns = batch.columns().iter().zip(plain.fields());
        let columns = columns.map(|(column, field)| {
            let same = column.data_type() == field.data_type();
            if same { Ok(Arc::clone(column)) } else { cast(column, field.data_type()) }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(
            Arc::clone(&plain),
            columns.collect::<Result<_, _>>()?,
            &options,
        )
    });
    let batches = batches.collect::<Result<_, _>>()?;
    Ok((plain, batches))
}

/// Whether a column of one batch has more text than 32-bit offsets reach.
fn needs_large(column: &dyn Array) -> bool {
    // Texts of up to 12 bytes lie in the views themselves.
    let in_place = column.len() * 12;
    let by_reference = match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        _ => return false,
    };
    in_place + by_reference > i32::MAX as usize
}

fn plain_field(field: &FieldRef, large: bool) -> FieldRef {
    let plain = plain_type(field.data_type(), large);
    if &plain == field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_data_type(plain))
}

fn plain_type(data_type: &DataType, large: bool) -> DataType {
    let plain = |field: &FieldRef| plain_field(field, large);
    match data_type {
        DataType::Utf8View if large => DataType::LargeUtf8,
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView if large => DataType::LargeBinary,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(plain(item)),
        DataType::LargeList(item) => DataType::LargeList(plain(item)),
        DataType::FixedSizeList(item, n) => DataType::FixedSizeList(plain(item), *n),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain(entries), *sorted),
        DataType::Dictionary(key, value) => {
            DataType::Dictionary(key.clone(), Box::new(plain_type(value, large)))
        }
        other => other.clone(),
    }
}
