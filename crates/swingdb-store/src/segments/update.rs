//! New values for some rows of a chunk: a [`Patch`] beside it, or the chunk written again.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StructArray, UInt32Array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, FieldRef};
use swingdb_common::error::{Error, Result};

use crate::codec::MAX_DEPTH;
use crate::memory::space::{Blocks, Ground};
use crate::segments::chunk::Chunk;
use crate::segments::columns;
use crate::segments::patch::{MAX_PATCH_ROWS, Patch, combine, lie_in, patch_type};
use crate::segments::stats::ChunkStats;

/// The chunk with other values in the rows `rows` (ascending, distinct, inside it), and the blocks
/// that were made for it.
pub(crate) fn changed(
    ground: &Ground,
    chunk: &Chunk,
    rows: &UInt32Array,
    values: &[ArrayRef],
) -> Result<(Chunk, Arc<Blocks>)> {
    let len = chunk.node.len;
    let given: usize = values.iter().map(|piece| piece.len()).sum();
    assert!(rows.len() == given && given <= len, "a value for each changed row");
    if rows.len() == len {
        return whole(columns::write(ground, &chunk.data_type, values)?);
    }
    let places: Vec<usize> = rows.values().iter().map(|row| *row as usize).collect();
    let stats = known_stats(chunk, rows, values)?;
    let pieces = || -> Result<Vec<ArrayRef>> {
        let old = chunk.read(0..len)?;
        Ok(match in_pieces(&old, &places, values) {
            Some(pieces) => pieces,
            None => vec![combine(&old, &places, &one_array(values)?)?],
        })
    };
    let few = rows.len() <= MAX_PATCH_ROWS && len > 2 * MAX_PATCH_ROWS;
    if !few || !can_be_patched(&chunk.data_type, 0) {
        return whole(columns::write_known(ground, &chunk.data_type, &pieces()?, stats)?);
    }
    let new = one_array(values)?;
    let (now_rows, now_values) = match &chunk.patch {
        Some(patch) => patch.then(rows, &new)?,
        None => (rows.clone(), new),
    };
    if now_rows.len() > MAX_PATCH_ROWS {
        return whole(columns::write_known(ground, &chunk.data_type, &pieces()?, stats)?);
    }
    let stats = match stats {
        Some(stats) => stats,
        None => ChunkStats::of(&chunk.data_type, &pieces()?),
    };
    let patch = store_patch(ground, len, &now_rows, &now_values)?;
    let made = patch.blocks().clone();
    Ok((chunk.patched(patch, stats), made))
}

fn one_array(pieces: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(match pieces {
        [one] => one.clone(),
        many => concat(&many.iter().map(|piece| piece.as_ref()).collect::<Vec<_>>())?,
    })
}

/// The statistics of a chunk after a change, when the changed values alone tell.
fn known_stats(
    chunk: &Chunk,
    rows: &UInt32Array,
    values: &[ArrayRef],
) -> Result<Option<ChunkStats>> {
    let worth_it = 2 * rows.len() < chunk.node.len && !chunk.stats.sorted;
    if !worth_it || chunk.stats.bounds.is_none() || !can_be_patched(&chunk.data_type, 0) {
        return Ok(None);
    }
    let gone = take(chunk.base()?.as_ref(), rows, None)?;
    let gone = match &chunk.patch {
        Some(patch) => patch.over(gone, rows)?,
        None => gone,
    };
    Ok(chunk.stats.replaced(&chunk.data_type, &gone, values))
}

/// Whether rows of the type, nested `depth` deep in the column's, can be put between others one by
/// one without changing how the others are stored. The patch is nested one deeper than the column,
/// and what is nested too deep cannot be read back.
fn can_be_patched(data_type: &DataType, depth: usize) -> bool {
    if depth + 1 >= MAX_DEPTH {
        return false;
    }
    let inner = |field: &FieldRef| can_be_patched(field.data_type(), depth + 1);
    match data_type {
        DataType::Boolean
        | DataType::FixedSizeBinary(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Utf8View
        | DataType::BinaryView => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            inner(item)
        }
        DataType::Struct(fields) => fields.iter().all(inner),
        other => other.is_primitive(),
    }
}

fn whole(chunk: Chunk) -> Result<(Chunk, Arc<Blocks>)> {
    let made = chunk.blocks.clone();
    Ok((chunk, made))
}

/// What a change of neighbouring rows leaves: it is written without being put together first.
fn in_pieces(old: &ArrayRef, rows: &[usize], values: &[ArrayRef]) -> Option<Vec<ArrayRef>> {
    let (first, last) = (*rows.first()?, *rows.last()?);
    if last - first + 1 != rows.len() {
        return None;
    }
    let rest = old.len() - last - 1;
    let (before, after) = (old.slice(0, first), old.slice(last + 1, rest));
    let pieces = std::iter::once(before).chain(values.iter().cloned()).chain([after]);
    Some(pieces.filter(|piece| !piece.is_empty()).collect())
}

/// Stores the values of the rows `rows` (ascending, distinct) of a chunk of `of_rows` rows.
fn store_patch(
    ground: &Ground,
    of_rows: usize,
    rows: &UInt32Array,
    values: &ArrayRef,
) -> Result<Arc<Patch>> {
    assert!(!rows.is_empty() && rows.len() == values.len(), "a value for each changed row");
    assert!(lie_in(rows, of_rows), "the rows of a patch ascend inside the chunk");
    let data_type = patch_type(values.data_type());
    let DataType::Struct(fields) = &data_type else {
        return Err(Error::internal("patches are structs"));
    };
    let columns: Vec<ArrayRef> = vec![Arc::new(rows.clone()), values.clone()];
    let structs: ArrayRef = Arc::new(StructArray::try_new(fields.clone(), columns, None)?);
    let Chunk { blocks, data_type, node, .. } = columns::write(ground, &data_type, &[structs])?;
    Ok(Patch::new(blocks, data_type, node, of_rows))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, TimeUnit};

    use super::*;

    /// No type at its greatest depth, where the patch could not be read back.
    #[test]
    fn what_is_nested_deepest_is_not_patched() {
        let list = |inner, _| DataType::List(Arc::new(Field::new("item", inner, true)));
        let nested = |depth| (0..depth).fold(DataType::Int32, list);
        assert!(can_be_patched(&nested(MAX_DEPTH - 2), 0));
        assert!(!can_be_patched(&nested(MAX_DEPTH - 1), 0));
        let zone = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        assert!(can_be_patched(&zone, 0) && !can_be_patched(&DataType::Null, 0));
    }
}
