//! Where a Parquet file's footer says that its parts lie, looked at before they are read: the
//! engine takes as much memory as a part is said to be long, and writes to it, before it reads the
//! first byte.
//!
//! The parts are those of `ColumnChunk` and `ColumnMetaData` in Parquet's `parquet.thrift`.

use std::ops::Range;

use parquet::arrow::ProjectionMask;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

/// Refuses a footer whose columns, indexes or filters lie outside of a file of so many bytes.
pub(super) fn check(metadata: &ParquetMetaData, bytes: u64) -> Result<(), ParquetError> {
    let groups = metadata.row_groups().iter().enumerate();
    for (number, group) in groups {
        let broken = |what: &str| ParquetError::General(format!("row group {number} {what}"));
        if group.num_rows() < 0 {
            return Err(broken("has less than no rows"));
        }
        for column in group.columns() {
            if let Some(part) = part_outside(column, bytes) {
                let name = column.column_path();
                return Err(broken(&format!("has {part} of column {name} outside of the file")));
            }
        }
    }
    Ok(())
}

/// The first part of a column that is not where it could be.
fn part_outside(column: &ColumnChunkMetaData, bytes: u64) -> Option<&'static str> {
    let first_page = column.data_page_offset();
    let start = column.dictionary_page_offset().unwrap_or(first_page);
    let length = column.compressed_size();
    let end = start.saturating_add(length);
    // Where a column has no values there may be no page of them.
    let has_pages = column.num_values() > 0 || first_page > 0;
    if !is_inside(start, length, bytes) || has_pages && !(start..=end).contains(&first_page) {
        return Some("the pages");
    }
    let outside = |offset: Option<i64>, length: Option<i32>| {
        // An index without a length is not read; a filter's is then in its head, as 32 bits.
        offset.is_some_and(|offset| !is_inside(offset, length.unwrap_or(0).into(), bytes))
    };
    let parts = [
        ("the index", column.column_index_offset(), column.column_index_length()),
        ("the page offsets", column.offset_index_offset(), column.offset_index_length()),
        ("the Bloom filter", column.bloom_filter_offset(), column.bloom_filter_length()),
    ];
    let found = parts.into_iter().find(|(_, offset, length)| outside(*offset, *length));
    found.map(|(part, ..)| part)
}

/// Where the columns of a row group lie that are read; `None`: all of them.
pub(super) fn ranges(group: &RowGroupMetaData, read: Option<&ProjectionMask>) -> Vec<Range<u64>> {
    let columns = group.columns().iter().enumerate();
    let read = columns.filter(|(at, _)| read.is_none_or(|mask| mask.leaf_included(*at)));
    let range = |(_, column): (usize, &ColumnChunkMetaData)| {
        let (start, length) = column.byte_range();
        start..start.saturating_add(length)
    };
    read.map(range).collect()
}

fn is_inside(offset: i64, length: i64, bytes: u64) -> bool {
    let (Ok(offset), Ok(length)) = (u64::try_from(offset), u64::try_from(length)) else {
        return false;
    };
    offset.checked_add(length).is_some_and(|end| end <= bytes)
}
