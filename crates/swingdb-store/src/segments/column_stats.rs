//! Statistics of a column over several segments: [`ColumnStats`].

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use crate::segments::stats::{self, Bound, ChunkStats};

/// Statistics of one column over a segment or a table. Deleted rows are included, so bounds may be
/// wider than the live rows and `null_count` larger when the segment has deleted rows; see `exact`.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnStats {
    /// Number of NULLs among the physical rows.
    pub null_count: u64,
    /// A lower bound of the values (total order for floats: -NaN < -inf < ... < inf < NaN); `None`
    /// for types without an order or when all values are NULL.
    pub min: Option<ScalarValue>,
    /// An upper bound of the values, as `min`.
    pub max: Option<ScalarValue>,
    /// `min` and `max` are values that really occur among the live rows and `null_count` counts
    /// live rows (no deleted rows, no truncated string).
    pub exact: bool,
    /// No NULLs and each value >= the one before it, in physical order.
    pub sorted: bool,
}

/// Statistics of several chunks of one column, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Merged {
    nulls: u64,
    bounds: Option<(Bound, Bound)>,
    exact: bool,
    sorted: bool,
    /// Some chunk has values but no bounds.
    unknown: bool,
}

impl Default for Merged {
    fn default() -> Self {
        Self { nulls: 0, bounds: None, exact: true, sorted: true, unknown: false }
    }
}

impl Merged {
    /// Adds a chunk of `rows` rows, some of them perhaps deleted.
    pub fn add(&mut self, next: ChunkStats, rows: usize, deleted: bool) {
        let unknown = next.bounds.is_none() && next.nulls != rows as u64;
        self.append(Self {
            nulls: next.nulls,
            bounds: next.bounds,
            exact: next.exact && !deleted,
            sorted: next.sorted,
            unknown,
        });
    }

    /// Adds what comes after it.
    pub fn append(&mut self, next: Self) {
        self.nulls = self.nulls.saturating_add(next.nulls);
        self.exact &= next.exact && !next.unknown;
        self.unknown |= next.unknown;
        let descends = match (&self.bounds, &next.bounds) {
            (Some((_, max)), Some((min, _))) => min.is_less(max),
            (Some(_), None) => true,
            (None, _) => false,
        };
        self.sorted &= next.sorted && !next.unknown && !descends;
        self.bounds = match (self.bounds.take(), next.bounds) {
            (Some((min, max)), Some((low, high))) => Some((
                if low.is_less(&min) { low } else { min },
                if max.is_less(&high) { high } else { max },
            )),
            (one, other) => one.or(other),
        };
    }

    /// In the terms of the column's type.
    pub fn finish(self, data_type: &DataType) -> ColumnStats {
        let bounds = self.bounds.as_ref().filter(|_| !self.unknown);
        let value = |bound| stats::scalar(data_type, bound);
        let (min, max) = match bounds.map(|(min, max)| (value(min), value(max))) {
            Some((Some(min), Some(max))) => (Some(min), Some(max)),
            _ => (None, None),
        };
        // Bounds that mean nothing for the type say nothing about the rows either.
        let meant = self.bounds.is_none() || min.is_some();
        ColumnStats {
            null_count: self.nulls,
            min,
            max,
            exact: self.exact && !self.unknown && meant,
            sorted: self.sorted && !self.unknown && meant,
        }
    }
}
