//! Maps whose keys and values are converted, and maps of keys and values.
//!
//! No key of a map is NULL, and none is there twice; also not after `'1'` and `'01'` have become
//! numbers.
//!
//! **Cycle.** Keys and values are converted as alone ([`normalize`](super::normalize)), which
//! converts maps here.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MapArray, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, take};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use arrow::util::display::FormatOptions;
use datafusion::common::nested_struct::cast_column;

use crate::cast::normalize::prepared;
use crate::error::{Error, Result};
use crate::types::sql_names::sql_name;

/// The types of the keys and the values of maps.
pub(super) fn key_and_value(map: &DataType) -> Option<(&DataType, &DataType)> {
    let DataType::Map(entries, _) = map else { return None };
    match entries.data_type() {
        DataType::Struct(pair) => match pair.as_ref() {
            [key, value] => Some((key.data_type(), value.data_type())),
            _ => None,
        },
        _ => None,
    }
}

/// Maps as maps of another type; NULL, where `safe`, of those whose keys cannot be.
pub(super) fn converted(maps: &MapArray, to: &DataType, safe: bool) -> Result<ArrayRef> {
    let Some((key, value)) = key_and_value(to) else {
        return Err(Error::internal("entries of a map have a key and a value"));
    };
    let (taken, lengths) = entries(maps);
    let cast = |part: &ArrayRef, to: &DataType| -> Result<ArrayRef> {
        let part = prepared(&take(part, &taken, None)?, to, safe)?;
        let options = CastOptions { safe, format_options: FormatOptions::default() };
        // Structs may lack fields.
        Ok(cast_column(&part, to, &options)?)
    };
    let (keys, values) = (cast(maps.keys(), key)?, cast(maps.values(), value)?);
    of_parts(&keys, &values, &lengths, to, safe)
}

/// Maps with other keys and values in place of theirs.
pub fn with_parts(
    maps: &MapArray,
    keys: &ArrayRef,
    values: &ArrayRef,
    to: &DataType,
    safe: bool,
) -> Result<ArrayRef> {
    let (taken, lengths) = entries(maps);
    let (keys, values) = (take(keys, &taken, None)?, take(values, &taken, None)?);
    of_parts(&keys, &values, &lengths, to, safe)
}

/// The entries that belong to a map, without what other rows have left in between, and how many
/// each map has.
fn entries(maps: &MapArray) -> (UInt32Array, Vec<Option<usize>>) {
    let offsets = maps.value_offsets();
    let range = |row: usize| offsets[row] as u32..offsets[row + 1] as u32;
    let valid = (0..maps.len()).filter(|row| maps.is_valid(*row));
    let taken = UInt32Array::from_iter_values(valid.flat_map(range));
    let length = |row| maps.is_valid(row).then(|| range(row).len());
    (taken, (0..maps.len()).map(length).collect())
}

/// Maps of keys and values that follow each other, so many a row; `None` is NULL.
pub fn of_parts(
    keys: &ArrayRef,
    values: &ArrayRef,
    lengths: &[Option<usize>],
    to: &DataType,
    safe: bool,
) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths.iter().map(|n| n.unwrap_or(0)));
    let wrong = wrong_keys(keys, &offsets)?;
    if let Some((_, problem)) = wrong.first() {
        if !safe {
            let message = format!("{problem} in a {}", sql_name(to));
            return Err(Error::Conversion { message, column: None });
        }
        let (mut left, mut lengths) = (Vec::new(), lengths.to_vec());
        wrong.iter().for_each(|(row, _)| lengths[*row] = None);
        for (row, length) in lengths.iter().enumerate() {
            left.extend((0..length.unwrap_or(0)).map(|at| offsets[row] as u32 + at as u32));
        }
        let left = UInt32Array::from(left);
        let (keys, values) = (take(keys, &left, None)?, take(values, &left, None)?);
        return of_parts(&keys, &values, &lengths, to, safe);
    }
    let (DataType::Map(entries, sorted), nulls) =
        (to, NullBuffer::from_iter(lengths.iter().map(Option::is_some)))
    else {
        return Err(Error::internal("a map of another type"));
    };
    let DataType::Struct(pair) = entries.data_type() else {
        return Err(Error::internal("entries of a map have a key and a value"));
    };
    let pairs = StructArray::try_new(pair.clone(), vec![keys.clone(), values.clone()], None)?;
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted)?))
}

/// The rows of maps that cannot be for their keys.
pub(super) fn wrong_keys(
    keys: &ArrayRef,
    offsets: &OffsetBuffer<i32>,
) -> Result<Vec<(usize, &'static str)>> {
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let bytes = converter.convert_columns(std::slice::from_ref(keys))?;
    let mut wrong = Vec::new();
    let mut seen = HashSet::new();
    for (row, ends) in offsets.windows(2).enumerate() {
        seen.clear();
        let mut entries = ends[0] as usize..ends[1] as usize;
        if entries.clone().any(|entry| keys.is_null(entry)) {
            wrong.push((row, "a key is NULL"));
        } else if !entries.all(|entry| seen.insert(bytes.row(entry))) {
            wrong.push((row, "a key is there twice"));
        }
    }
    Ok(wrong)
}
