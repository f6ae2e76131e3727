//! Whether the bounds that a footer says of a column can be true, and the footer without those that
//! cannot be relied on.

use std::cmp::Ordering;

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

/// Whether the least value of a column is greater than the greatest.
pub(super) fn are_reversed(column: &ColumnChunkMetaData) -> bool {
    let described = column.column_descr();
    let order = match column.statistics() {
        Some(Statistics::Boolean(all)) => both(all.min_opt(), all.max_opt()),
        Some(Statistics::Int32(all)) => match is_unsigned(described) {
            true => both(all.min_opt().map(|n| *n as u32), all.max_opt().map(|n| *n as u32)),
            false => both(all.min_opt(), all.max_opt()),
        },
        Some(Statistics::Int64(all)) => match is_unsigned(described) {
            true => both(all.min_opt().map(|n| *n as u64), all.max_opt().map(|n| *n as u64)),
            false => both(all.min_opt(), all.max_opt()),
        },
        Some(Statistics::ByteArray(all)) if !is_decimal(described) => {
            both(all.min_bytes_opt(), all.max_bytes_opt())
        }
        Some(Statistics::FixedLenByteArray(all)) if !is_decimal(described) => {
            both(all.min_bytes_opt(), all.max_bytes_opt())
        }
        Some(Statistics::FixedLenByteArray(all)) => {
            both(all.min_bytes_opt().map(ordered), all.max_bytes_opt().map(ordered))
        }
        _ => None,
    };
    order == Some(Ordering::Greater)
}

fn both<T: Ord>(least: Option<T>, greatest: Option<T>) -> Option<Ordering> {
    Some(least?.cmp(&greatest?))
}

/// A number of two's complement as bytes that are ordered as the numbers are.
fn ordered(number: &[u8]) -> Vec<u8> {
    let mut bytes = number.to_vec();
    if let Some(first) = bytes.first_mut() {
        *first ^= 0x80;
    }
    bytes
}

fn is_decimal(column: &ColumnDescriptor) -> bool {
    column.converted_type() == ConvertedType::DECIMAL
        || matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }))
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    use ConvertedType as C;
    matches!(column.converted_type(), C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64)
}

fn is_float(column: &ColumnDescriptor) -> bool {
    matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE)
        || column.logical_type_ref() == Some(&LogicalType::Float16)
}

/// A footer that says nothing of how large floating point values are, nor of columns whose least
/// value is greater than the greatest: the engine takes that for a defect of its own.
pub(super) fn without_upper_bounds(
    metadata: &ParquetMetaData,
) -> Result<ParquetMetaData, ParquetError> {
    let is_kept =
        |column: &ColumnChunkMetaData| !is_float(column.column_descr()) && !are_reversed(column);
    let mut all = metadata.row_groups().iter().flat_map(|group| group.columns());
    if all.all(is_kept) {
        return Ok(metadata.clone());
    }
    let groups = metadata.row_groups().iter().map(|group| {
        let columns = group.columns().iter().map(|column| match is_kept(column) {
            true => Ok(column.clone()),
            false => unbounded(column),
        });
        let columns = columns.collect::<Result<Vec<_>, ParquetError>>()?;
        group.clone().into_builder().set_column_metadata(columns).build()
    });
    let groups = groups.collect::<Result<Vec<_>, ParquetError>>()?;
    Ok(metadata.clone().into_builder().set_row_groups(groups).build())
}

/// The same column without an upper bound, in its row group as in its pages. The bounds of Float16
/// are taken away altogether: there seldom are any.
fn unbounded(column: &ColumnChunkMetaData) -> Result<ColumnChunkMetaData, ParquetError> {
    let bounds = match column.statistics() {
        Some(Statistics::Float(all)) => {
            let (least, distinct) = (all.min_opt().copied(), all.distinct_count());
            Some(Statistics::float(least, None, distinct, all.null_count_opt(), false))
        }
        Some(Statistics::Double(all)) => {
            let (least, distinct) = (all.min_opt().copied(), all.distinct_count());
            Some(Statistics::double(least, None, distinct, all.null_count_opt(), false))
        }
        _ => None,
    };
    let builder = column.clone().into_builder();
    let builder = builder.set_column_index_offset(None).set_column_index_length(None);
    match bounds {
        Some(bounds) => builder.set_statistics(bounds).build(),
        None => builder.clear_statistics().build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_twos_complement_are_ordered() {
        let numbers = [-32_768i16, -300, -1, 0, 1, 300, 32_767];
        let bytes: Vec<_> = numbers.iter().map(|n| ordered(&n.to_be_bytes())).collect();
        assert!(bytes.is_sorted());
    }

    #[test]
    fn only_two_bounds_have_an_order() {
        assert_eq!(both(Some(3), Some(2)), Some(Ordering::Greater));
        assert_eq!(both(Some(3), None), None);
    }
}
