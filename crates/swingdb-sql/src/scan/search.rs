//! Binary search for rows of a segment in a column that the segment is sorted by.

use std::ops::Range;

use datafusion::common::Result;
use swingdb_store::Segment;

/// Whether the rows of a segment are in the order of a column, and that column is in memory.
pub(crate) fn is_searchable(segment: &Segment, column: usize) -> Result<bool> {
    Ok(segment.stats(column)?.sorted && segment.cold_bytes(&[column]) == (0, 0))
}

/// The first of some rows that `is_behind` holds for, as it does for all rows after it; the end of
/// the rows when there is none.
pub(crate) fn first(
    rows: Range<usize>,
    mut is_behind: impl FnMut(usize) -> Result<bool>,
) -> Result<usize> {
    let (mut low, mut high) = (rows.start, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match is_behind(middle)? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_or_the_end() {
        for wanted in 0..=9 {
            let found = first(2..7, |row| Ok(row >= wanted)).unwrap();
            assert_eq!(found, wanted.clamp(2, 7));
        }
        assert_eq!(first(3..3, |_| Ok(false)).unwrap(), 3);
    }
}
