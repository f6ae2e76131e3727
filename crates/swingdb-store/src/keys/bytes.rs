//! The keys of rows, to be hashed and compared.
//!
//! A key that is one column of whole numbers, times or decimals is compared as it lies in memory;
//! any other one in Arrow's row format. Both sides of a comparison have columns of the same types.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use swingdb_common::error::Result;
use swingdb_common::floats::canonical;
use swingdb_common::runtime::memory::{Part, Taken};
use xxhash_rust::xxh3::xxh3_64;

/// The keys of some rows: their bytes, `None` where a column is NULL.
pub(crate) struct Keys {
    form: Form,
    nulls: Vec<NullBuffer>,
    _memory: Part,
}

enum Form {
    /// Values of one width, one behind the other.
    Values {
        bytes: Buffer,
        width: usize,
    },
    Rows(Rows),
}

impl Keys {
    /// Of key columns; what they take is asked for from `memory`.
    pub fn of(columns: &[ArrayRef], memory: &Taken) -> Result<Self> {
        let nulls = columns.iter().filter_map(|c| c.logical_nulls()).collect();
        if let [column] = columns
            && let Some(form) = Form::as_it_lies(column)
        {
            return Ok(Self { form, nulls, _memory: memory.part(0)? });
        }
        let fields = columns.iter().map(|c| SortField::new(c.data_type().clone())).collect();
        let same = columns.iter().map(canonical).collect::<Result<Vec<_>>>()?;
        let rows = RowConverter::new(fields)?.convert_columns(&same)?;
        let memory = memory.part(rows.size())?;
        Ok(Self { form: Form::Rows(rows), nulls, _memory: memory })
    }

    pub fn len(&self) -> usize {
        match &self.form {
            Form::Values { bytes, width } => bytes.len() / width,
            Form::Rows(rows) => rows.num_rows(),
        }
    }

    pub fn get(&self, row: usize) -> Option<&[u8]> {
        if self.nulls.iter().any(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match &self.form {
            Form::Values { bytes, width } => &bytes[row * width..][..*width],
            Form::Rows(rows) => rows.row(row).data(),
        })
    }

    pub fn hash(&self, row: usize) -> Option<u64> {
        let key = self.get(row)?;
        Some(if self.has_exact_hashes() { mixed(key) } else { xxh3_64(key) })
    }

    /// Whether keys of these types with equal hashes are equal.
    pub fn has_exact_hashes(&self) -> bool {
        matches!(self.form, Form::Values { width, .. } if width <= size_of::<u64>())
    }
}

/// Of at most eight bytes: each of the steps can be undone, so no two values have one hash
/// (David Stafford's variant 13 of the finalizer of MurmurHash3).
fn mixed(key: &[u8]) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    bytes[..key.len()].copy_from_slice(key);
    let mut hash = u64::from_le_bytes(bytes);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

/// Shards of a table of hashes.
pub(crate) const SHARDS: usize = 16;

/// Which shard a hash belongs to: by bits that a hash table in the shard makes little use of
/// (hashbrown takes the highest seven and the lowest ones).
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// What a hash table of so many entries takes: of eight places seven are used at most, each with a
/// byte beside it.
pub(crate) fn table_bytes<Entry>(entries: usize) -> usize {
    (entries * 8 / 7 + 1).next_power_of_two() * (size_of::<Entry>() + 1)
}

impl Form {
    fn as_it_lies(column: &ArrayRef) -> Option<Self> {
        use DataType::*;
        let width = match column.data_type() {
            // Equal values have equal bytes: not so floating point, nor intervals.
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Date32 | Date64
            | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) | Decimal128(..) => {
                column.data_type().primitive_width()?
            }
            _ => return None,
        };
        let data = column.to_data();
        let bytes = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
        Some(Self::Values { bytes, width })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringArray};

    use super::*;

    fn keys(columns: &[ArrayRef]) -> Vec<Option<Vec<u8>>> {
        let keys = Keys::of(columns, &Taken::unbounded("test")).unwrap();
        let bytes = |row| keys.get(row).map(<[u8]>::to_vec);
        (0..keys.len()).map(bytes).collect()
    }

    #[test]
    fn slices_begin_where_they_begin_and_nulls_are_no_keys() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), Some(9), None, Some(7)]));
        let all = keys(&[Arc::clone(&numbers)]);
        assert_eq!(all[0], Some(7_i32.to_ne_bytes().to_vec()));
        assert_eq!((&all[0], &all[2]), (&all[3], &None));
        assert_eq!(keys(&[numbers.slice(1, 3)]), all[1..]);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b"), None]));
        let both = keys(&[numbers, texts]);
        assert!(both[0].is_some() && both[1..] == [None, None, None]);
    }
}
