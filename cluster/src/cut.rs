//! How the rows of a table are dealt out to the nodes: [`Cut`].
//!
//! Each node's catalog has the cut of each table, in `swingdb_cluster.tables`. A table without an
//! entry lies as it lies: each node has some of its rows, and nothing is known of which.

use std::fmt;
use std::str::FromStr;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{SortOptions, take_record_batch};
use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use serde::{Deserialize, Serialize};
use swingdb::cutter::pieces;
use swingdb_common::floats::canonical;

use crate::error::{Error, Result};
use crate::names::{quoted, unquoted};

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

    /// The same cut by a column of another name.
    pub(crate) fn by(&self, column: &str) -> Self {
        let column = column.to_string();
        match self {
            Self::Hash { .. } => Self::Hash { column },
            Self::Range { bounds, .. } => Self::Range { column, bounds: bounds.clone() },
            Self::AsItLies | Self::Replicated => self.clone(),
        }
    }
}

/// As [`Cut::from_str`] reads it.
impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |column: &str| match column.contains([':', '"', '`']) {
            true => quoted(column),
            false => column.to_string(),
        };
        match self {
            Self::AsItLies => f.write_str("as_it_lies"),
            Self::Replicated => f.write_str("replicated"),
            Self::Hash { column } => write!(f, "hash:{}", name(column)),
            Self::Range { column, bounds } => {
                write!(f, "range:{}:{}", name(column), bounds.join(","))
            }
        }
    }
}

/// `as_it_lies`, `replicated`, `hash:COLUMN`, `range:COLUMN:BOUND,BOUND,...`. A column whose name
/// has a colon is quoted as in SQL; bounds are SQL's literals.
impl FromStr for Cut {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::Cut { text: text.to_string() };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (column, bounds) = match pieces(rest).next() {
            Some(first) if unquoted(first.text).is_some() => rest.split_at(first.text.len()),
            _ => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        let column = unquoted(column).unwrap_or_else(|| column.to_string());
        let bounds = match bounds.strip_prefix(':') {
            Some(bounds) => Some(listed(bounds)),
            None if bounds.is_empty() => None,
            None => return Err(wrong()),
        };
        match (kind, column.is_empty(), bounds) {
            ("as_it_lies", true, None) if kind == text => Ok(Self::AsItLies),
            ("replicated", true, None) if kind == text => Ok(Self::Replicated),
            ("hash", false, None) => Ok(Self::Hash { column }),
            ("range", false, bounds) => {
                Ok(Self::Range { column, bounds: bounds.unwrap_or_default() })
            }
            _ => Err(wrong()),
        }
    }
}

/// The parts of a list, cut at its commas outside of quotes and parentheses.
fn listed(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for piece in pieces(text) {
        match piece.text {
            "," if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(piece.text);
        }
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.map(str::to_string).collect()
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
    let mut rows = vec![Vec::new(); nodes];
    for (row, node) in nodes_of(cut, &keys, bounds, nodes)?.into_iter().enumerate() {
        rows[node].push(row as u64);
    }
    let parts = rows.into_iter().map(|rows| take_record_batch(batch, &UInt64Array::from(rows)));
    Ok(parts.collect::<Result<Vec<_>, _>>()?)
}

/// The node of each key of a hash or range cut. Zeros of both signs go to one node, as do all NaN:
/// they are equal, and a node finds equal keys among its own rows only.
pub fn nodes_of(
    cut: &Cut,
    keys: &ArrayRef,
    bounds: &[ScalarValue],
    nodes: usize,
) -> Result<Vec<usize>> {
    let keys = &canonical(keys)?;
    let mut places = match cut {
        Cut::Range { .. } => by_range(keys, bounds)?,
        _ => by_hash(keys, nodes)?,
    };
    for place in &mut places {
        *place = (*place).min(nodes.saturating_sub(1));
    }
    Ok(places)
}

fn by_hash(keys: &ArrayRef, nodes: usize) -> Result<Vec<usize>> {
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(keys))?;
    Ok(rows.iter().map(|row| (hash(row.as_ref()) % nodes as u64) as usize).collect())
}

/// Whether bounds are in the order in which rows are looked for between them.
pub(crate) fn is_ascending(bounds: &[ScalarValue]) -> Result<bool> {
    let Some(first) = bounds.first() else { return Ok(true) };
    let bounds = canonical(&ScalarValue::iter_to_array(bounds.iter().cloned())?)?;
    let converter = RowConverter::new(vec![SortField::new(first.data_type())])?;
    let rows = converter.convert_columns(&[bounds])?;
    Ok((1..rows.num_rows()).all(|nth| rows.row(nth - 1) <= rows.row(nth)))
}

/// NULLs are behind all values, as in ORDER BY.
fn by_range(keys: &ArrayRef, bounds: &[ScalarValue]) -> Result<Vec<usize>> {
    if bounds.is_empty() {
        return Ok(vec![0; keys.len()]);
    }
    let options = SortOptions { descending: false, nulls_first: false };
    let field = SortField::new_with_options(keys.data_type().clone(), options);
    let converter = RowConverter::new(vec![field])?;
    let bounds = ScalarValue::iter_to_array(bounds.iter().cloned())?;
    let bounds = canonical(&arrow::compute::cast(&bounds, keys.data_type())?)?;
    let bounds = converter.convert_columns(&[bounds])?;
    let rows = converter.convert_columns(std::slice::from_ref(keys))?;
    let bounds = bounds.iter().collect::<Vec<_>>();
    Ok(rows.iter().map(|row| bounds.partition_point(|bound| *bound <= row)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array};
    use std::sync::Arc;

    fn batch(values: Vec<Option<i64>>) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    }

    #[test]
    fn cuts_are_read_from_texts() {
        let read = |text: &str| text.parse::<Cut>().ok();
        let hash = |column: &str| Some(Cut::Hash { column: column.to_string() });
        let range = |column: &str, bounds: &[&str]| {
            let bounds = bounds.iter().map(|bound| bound.to_string()).collect();
            Some(Cut::Range { column: column.to_string(), bounds })
        };
        assert_eq!(read("as_it_lies"), Some(Cut::AsItLies));
        assert_eq!(read("replicated"), Some(Cut::Replicated));
        assert_eq!(read("hash:id"), hash("id"));
        assert_eq!(read("hash:an id"), hash("an id"));
        assert_eq!(read("hash:\"a:b\"\"c\""), hash("a:b\"c"));
        assert_eq!(read("range:day"), range("day", &[]));
        assert_eq!(read("range:n:10,-2.5"), range("n", &["10", "-2.5"]));
        assert_eq!(read("range:\"n:1\":10"), range("n:1", &["10"]));
        let expected = range("s", &["'a,b'", "concat('c', 'd:e')"]);
        assert_eq!(read("range:s:'a,b', concat('c', 'd:e')"), expected);
        for text in
            ["as_it_lies", "replicated", "hash:an id", "hash:\"a:b\"\"c\"", "range:n:10,-2.5"]
        {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "hash",
            "hash:",
            "hash:a:b",
            "hash:\"a\"b",
            "range::1",
            "modulo:a",
            "as_it_lies:",
            "replicated:a",
            "hash:\"\"",
        ] {
            assert!(matches!(wrong.parse::<Cut>(), Err(Error::Cut { .. })), "{wrong}");
        }
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
    fn equal_floats_are_on_one_node() {
        let keys: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]));
        let column = "f".to_string();
        let range = Cut::Range { column: column.clone(), bounds: vec![] };
        for (cut, bounds) in [
            (Cut::Hash { column }, vec![]),
            (range.clone(), vec![ScalarValue::Float64(Some(0.0))]),
            (range, vec![ScalarValue::Float64(Some(-0.0))]),
        ] {
            for nodes in 2..9 {
                let places = nodes_of(&cut, &keys, &bounds, nodes).unwrap();
                assert_eq!((places[0], places[2]), (places[1], places[3]), "{cut:?} {nodes}");
            }
        }
    }

    #[test]
    fn bounds_ascend() {
        let of = |all: &[f64]| all.iter().map(|one| ScalarValue::from(*one)).collect::<Vec<_>>();
        for (bounds, is) in [
            (&[][..], true),
            (&[1.0], true),
            (&[-1.0, 0.0, -0.0, f64::NAN], true),
            (&[f64::NAN, 1.0], false),
            (&[1.0, 2.0, 1.5], false),
        ] {
            assert_eq!(is_ascending(&of(bounds)).unwrap(), is, "{bounds:?}");
        }
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
