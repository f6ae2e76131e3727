//! Bounds of keys, by which segments are passed by, and keys in pieces of a segment's rows.

use arrow::array::{Array, ArrayRef};
use swingdb_common::error::Result;
use swingdb_common::floats::has_floats;

use crate::segments::rowids::SEGMENT_ROWS;
use crate::segments::segment::Segment;
use crate::segments::stats::{Bound, ChunkStats};

/// The columns of keys in pieces of at most a segment's rows.
pub(crate) fn in_pieces(batches: &[Vec<ArrayRef>]) -> Vec<Vec<ArrayRef>> {
    let mut pieces = Vec::with_capacity(batches.len());
    for batch in batches {
        let rows = batch.first().map_or(0, |column| column.len());
        if rows <= SEGMENT_ROWS {
            pieces.push(batch.clone());
            continue;
        }
        pieces.extend((0..rows).step_by(SEGMENT_ROWS).map(|first| {
            let count = SEGMENT_ROWS.min(rows - first);
            batch.iter().map(|column| column.slice(first, count)).collect()
        }));
    }
    pieces
}

/// Smallest and largest value.
pub(crate) type Bounds = (Bound, Bound);

/// Nothing for floating point: bounds tell equal numbers apart.
pub(crate) fn bounds_of(pieces: &[ArrayRef]) -> Option<Bounds> {
    let data_type = pieces.first()?.data_type();
    if has_floats(data_type) {
        return None;
    }
    ChunkStats::of(data_type, pieces).bounds
}

/// Whether a segment may hold a value within the bounds.
pub(crate) fn overlaps(segment: &Segment, column: usize, bounds: Option<&Bounds>) -> Result<bool> {
    let there = segment.chunk_stats(column)?.bounds;
    let (Some((low, high)), Some((min, max))) = (bounds, &there) else { return Ok(true) };
    Ok(!(max.is_less(low) || high.is_less(min)))
}
