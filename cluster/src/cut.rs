//! How the rows of a table are dealt out to the nodes: [`Cut`].
//!
//! Each node's catalog has the cut of each table, in `swingdb_cluster.tables`. A table without an
//! entry lies as it lies: each node has some of its rows, and nothing is known of which.

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{SortOptions, take_record_batch};
use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The schema with what a node knows of the cluster.
pub const SCHEMA: &str = "swingdb_cluster";

/// See the [module documentation](self).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Each node has some rows.
    #[default]
    AsItLies,
    /// By the hash of a column.
    Hash {
        /// The column.
        column: String,
    },
    /// By ranges of a column.
    Range {
        /// The column.
        column: String,
        /// The least value of each node but the first, as SQL literals, ascending.
        bounds: Vec<String>,
    },
    /// Each node has all rows.
    Replicated,
}

impl Cut {
    /// The column that decides.
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Hash { column } | Self::Range { column, .. } => Some(column),
            Self::AsItLies | Self::Replicated => None,
        }
    }
}

/// The hash of a value that decides its node. It is a part of the format of clusters: rows that are
/// on their nodes already were dealt out by it.
fn hash(bytes: &[u8]) -> u64 {
    // FNV-1a, and the finalizer of SplitMix64, since the low bits of FNV are weak.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The rows of a batch for each of `nodes` nodes. `first` is where rows go first that may go
/// anywhere.
pub fn deal(
    batch: &RecordBatch,
    cut: &Cut,
    bounds: &[ScalarValue],
    nodes: usize,
    first: usize,
) -> Result<Vec<RecordBatch>> {
    let keys = match cut {
        Cut::Replicated => return Ok(vec![batch.clone(); nodes]),
        // In as few pieces as possible.
        Cut::AsItLies => {
            let mut parts = vec![batch.slice(0, 0); nodes];
            parts[first % nodes] = batch.clone();
            return Ok(parts);
        }
        Cut::Hash { column } | Cut::Range { column, .. } => {
            let index = batch.schema().fields().iter().position(|field| field.name() == column);
            let index = index.ok_or_else(|| Error::Table {
                table: String::new(),
                message: format!("the column {column} of its cut is missing"),
            })?;
            batch.column(index).clone()
        }
    };
    let node_of = match cut {
        Cut::Range { .. } => by_range(&keys, bounds)?,
        _ => by_hash(&keys, nodes)?,
    };
    let mut rows = vec![Vec::new(); nodes];
    for (row, node) in node_of.into_iter().enumerate() {
        rows[node.min(nodes - 1)].push(row as u64);
    }
    let parts = rows.into_iter().map(|rows| take_record_batch(batch, &UInt64Array::from(rows)));
    Ok(parts.collect::<Result<Vec<_>, _>>()?)
}

fn by_hash(keys: &ArrayRef, nodes: usize) -> Result<Vec<usize>> {
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(keys))?;
    Ok(rows.iter().map(|row| (hash(row.as_ref()) % nodes as u64) as usize).collect())
}

/// NULLs are behind all values, as in ORDER BY.
fn by_range(keys: &ArrayRef, bounds: &[ScalarValue]) -> Result<Vec<usize>> {
    let options = SortOptions { descending: false, nulls_first: false };
    let field = SortField::new_with_options(keys.data_type().clone(), options);
    let converter = RowConverter::new(vec![field])?;
    let bounds = ScalarValue::iter_to_array(bounds.iter().cloned())?;
    let bounds = arrow::compute::cast(&bounds, keys.data_type())?;
    let bounds = converter.convert_columns(&[bounds])?;
    let rows = converter.convert_columns(std::slice::from_ref(keys))?;
    let bounds = bounds.iter().collect::<Vec<_>>();
    Ok(rows.iter().map(|row| bounds.partition_point(|bound| *bound <= row)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use std::sync::Arc;

    fn batch(values: Vec<Option<i64>>) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    }

    #[test]
    fn each_row_goes_to_one_node_and_equal_keys_to_the_same() {
        let all = batch((0..1000).map(|n| (n % 7 != 0).then_some(n / 2)).collect());
        let cut = Cut::Hash { column: "a".to_string() };
        let parts = deal(&all, &cut, &[], 4, 0).unwrap();
        assert_eq!(parts.iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
        assert!(parts.iter().all(|part| part.num_rows() > 150), "{parts:?}");
        // The format: a change would look for rows on other nodes than they are on.
        let one = deal(&batch(vec![Some(1), Some(2), Some(3), None]), &cut, &[], 4, 0).unwrap();
        let counts = one.iter().map(RecordBatch::num_rows).collect::<Vec<_>>();
        assert_eq!(counts.iter().sum::<usize>(), 4);
        assert!(deal(&all, &Cut::Hash { column: "b".to_string() }, &[], 4, 0).is_err());
    }

    #[test]
    fn ranges_include_their_bounds_and_nulls_come_last() {
        let cut = Cut::Range { column: "a".to_string(), bounds: vec![] };
        let bounds = [ScalarValue::Int64(Some(10)), ScalarValue::Int64(Some(20))];
        let rows = batch(vec![Some(9), Some(10), Some(19), Some(20), None, Some(-1)]);
        let parts = deal(&rows, &cut, &bounds, 3, 0).unwrap();
        let counts = parts.iter().map(RecordBatch::num_rows).collect::<Vec<_>>();
        assert_eq!(counts, [2, 2, 2]);
    }
}
