//! How long a schema says that values of fixed length are, looked at before memory is taken for as
//! many as a batch has rows: a NULL takes as much as any other value, and no room in the file.

use arrow::datatypes::{DataType, FieldRef, Schema};
use parquet::errors::ParquetError;

/// The values of fixed length in a row, and lists of fixed length, have at most so many bytes. The
/// engine's own scan has 8192 rows a batch.
const MAX_ROW_BYTES: u64 = 512 << 10;
/// They take no more than this in a batch whose rows can be chosen.
const MAX_BATCH_BYTES: u64 = 2 << 30;

/// Refuses a schema whose rows have more than [`MAX_ROW_BYTES`].
pub(super) fn check(schema: &Schema) -> Result<(), ParquetError> {
    match fixed_bytes(schema) {
        ..=MAX_ROW_BYTES => Ok(()),
        bytes => Err(ParquetError::General(format!(
            "values of fixed length have {bytes} bytes in each row, of {MAX_ROW_BYTES} at most"
        ))),
    }
}

/// How many rows a batch may have where so many are asked for.
pub(super) fn batch_rows(schema: &Schema, rows: usize) -> usize {
    let fitting = MAX_BATCH_BYTES / fixed_bytes(schema).max(1);
    rows.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1)
}

fn fixed_bytes(schema: &Schema) -> u64 {
    sum(schema.fields().iter(), fixed_in)
}

fn sum<'a>(fields: impl Iterator<Item = &'a FieldRef>, of: impl Fn(&DataType) -> u64) -> u64 {
    fields.map(|field| of(field.data_type())).fold(0, u64::saturating_add)
}

/// Bytes of what has a fixed length in a type: of one of them, where a list may have many.
fn fixed_in(data_type: &DataType) -> u64 {
    match data_type {
        DataType::FixedSizeBinary(_) | DataType::FixedSizeList(..) => width(data_type),
        DataType::Struct(fields) => sum(fields.iter(), fixed_in),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => fixed_in(item.data_type()),
        DataType::Dictionary(_, values) => fixed_in(values),
        _ => 0,
    }
}

/// Bytes of a value in its column, without what it refers to.
fn width(data_type: &DataType) -> u64 {
    match data_type {
        DataType::FixedSizeBinary(length) => u64::try_from(*length).unwrap_or(0),
        DataType::FixedSizeList(item, length) => {
            u64::try_from(*length).unwrap_or(0).saturating_mul(width(item.data_type()).max(1))
        }
        DataType::Struct(fields) => sum(fields.iter(), width),
        other => other.primitive_width().unwrap_or(size_of::<u128>()) as u64,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    fn list_of(item: DataType, length: i32) -> DataType {
        DataType::FixedSizeList(Arc::new(Field::new("i", item, true)), length)
    }

    fn schema_of(types: &[DataType]) -> Schema {
        Schema::new(types.iter().map(|t| Field::new("c", t.clone(), true)).collect::<Vec<_>>())
    }

    #[test]
    fn what_a_row_has_of_fixed_length() {
        let image = list_of(list_of(DataType::UInt8, 224), 224);
        let images = |count| schema_of(&vec![image.clone(); count]);
        assert_eq!(fixed_bytes(&images(3)), 3 * 224 * 224);
        assert!(check(&images(10)).is_ok() && check(&images(11)).is_err());
        assert_eq!(batch_rows(&images(1), 1 << 20), (2 << 30) / (224 * 224));
        // What has no fixed length counts for nothing, however many columns there are.
        let plain = [DataType::Int64, DataType::Utf8View, DataType::Decimal128(38, 2)];
        let plain: Vec<DataType> = plain.iter().cycle().take(3000).cloned().collect();
        let item = Arc::new(Field::new("i", DataType::Utf8, true));
        let plain = [plain, vec![DataType::List(item)]].concat();
        assert_eq!(batch_rows(&schema_of(&plain), 1 << 17), 1 << 17);
        assert_eq!(fixed_bytes(&schema_of(&plain)), 0);
        let endless = list_of(list_of(list_of(DataType::Int64, i32::MAX), i32::MAX), i32::MAX);
        let inner = Arc::new(Field::new("i", DataType::FixedSizeBinary(i32::MAX), true));
        for wide in [endless, DataType::List(inner), list_of(DataType::Utf8, 1 << 16)] {
            let error = check(&schema_of(&[DataType::Int64, wide])).unwrap_err();
            assert!(error.to_string().contains("in each row"), "{error}");
        }
    }
}
