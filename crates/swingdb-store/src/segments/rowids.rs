//! Names of rows inside one version of a table: a segment, and a row of the segment.

use arrow::array::{Array, UInt64Array};

/// Most rows of a segment.
pub const SEGMENT_ROWS: usize = 131_072;

/// A row of one version of a table: `segment index << 32 | row in the segment`.
///
/// Valid for exactly the [`Table`](crate::Table) version it was read from; the next change may move
/// rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RowId(pub u64);

impl RowId {
    /// The row `row` (physical, deleted rows count) of the segment at `segment` in
    /// [`Table::segments`](crate::Table::segments).
    pub const fn new(segment: u32, row: u32) -> Self {
        Self((segment as u64) << 32 | row as u64)
    }

    /// Index of the segment.
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Physical row in the segment.
    pub const fn row(self) -> u32 {
        self.0 as u32
    }
}

/// A set of rows of one version of a table, sorted, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowIds(Vec<RowId>);

impl RowIds {
    /// Sorts and removes duplicates.
    pub fn new(mut ids: Vec<RowId>) -> Self {
        // Ids nearly always come in order and once: one pass without a branch tells.
        let disorder = |block: &[RowId]| block.windows(2).filter(|w| w[0] >= w[1]).count() > 0;
        if disorder(&ids) {
            ids.sort_unstable();
            ids.dedup();
        }
        Self(ids)
    }

    /// From the values of hidden row-id columns; NULLs are skipped.
    pub fn from_arrays<'a>(arrays: impl IntoIterator<Item = &'a UInt64Array>) -> Self {
        let arrays: Vec<&UInt64Array> = arrays.into_iter().collect();
        let mut ids = Vec::with_capacity(arrays.iter().map(|array| array.len()).sum());
        for array in arrays {
            match array.null_count() {
                0 => ids.extend(array.values().iter().copied().map(RowId)),
                _ => ids.extend(array.iter().flatten().map(RowId)),
            }
        }
        Self::new(ids)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rows in ascending order.
    pub fn as_slice(&self) -> &[RowId] {
        &self.0
    }

    /// The rows grouped by segment: `(segment index, rows of it)`, ascending.
    pub fn by_segment(&self) -> impl Iterator<Item = (u32, &[RowId])> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            let segment = rest.first()?.segment();
            let (ids, after) = rest.split_at(rest.partition_point(|id| id.segment() == segment));
            rest = after;
            Some((segment, ids))
        })
    }
}
