//! Bytes of memory that batches hold, those they share counted once; and bytes of their values.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch,
};
use arrow::datatypes::DataType;
use hashbrown::HashSet;

/// The buffers of some batches, each of which may be in several: texts of many batches are views of
/// the same.
#[derive(Default)]
pub struct Held(HashSet<NonZeroUsize>);

impl Held {
    /// Bytes that a batch holds and no other before.
    pub fn add(&mut self, batch: &RecordBatch) -> usize {
        batch.columns().iter().map(|column| self.add_data(&column.to_data())).sum()
    }

    fn add_data(&mut self, data: &ArrayData) -> usize {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        let buffers = data.buffers().iter().chain(nulls);
        let new = buffers.filter(|buffer| self.0.insert(buffer.data_ptr().addr()));
        let own = new.map(|buffer| buffer.capacity()).sum::<usize>();
        own + data.child_data().iter().map(|child| self.add_data(child)).sum::<usize>()
    }
}

/// Bytes that the values of a batch take. Of texts that are views of a larger buffer their own
/// lengths count, whatever else the buffer has.
pub fn value_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column_bytes(column, usize::MAX)).sum()
}

/// Texts of a column whose lengths stand for all, where about is enough.
const SAMPLED_TEXTS: usize = 16;

/// About as many bytes as [`value_bytes`], for less: few texts of a batch are looked at.
pub fn about_value_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column_bytes(column, SAMPLED_TEXTS)).sum()
}

/// Bytes of a column's values, by the lengths of at most about `most` of its texts.
fn column_bytes(column: &ArrayRef, most: usize) -> usize {
    let texts = |lengths: &mut dyn Iterator<Item = u32>| {
        let step = column.len().div_ceil(most).max(1);
        let looked_at = lengths.step_by(step).map(|length| length as usize);
        column.len() * size_of::<u128>() + step * looked_at.sum::<usize>()
    };
    match column.data_type() {
        DataType::Utf8View => texts(&mut column.as_string_view().lengths()),
        DataType::BinaryView => texts(&mut column.as_binary_view().lengths()),
        // A slice of lists has the elements of all.
        DataType::List(_) => elements(column.as_list::<i32>(), most),
        DataType::LargeList(_) => elements(column.as_list::<i64>(), most),
        DataType::Map(..) => {
            let map = column.as_map();
            let offsets = map.value_offsets();
            let (first, last) = (offsets[0] as usize, offsets[map.len()] as usize);
            let entries: ArrayRef = Arc::new(map.entries().slice(first, last - first));
            size_of_val(offsets) + column_bytes(&entries, most)
        }
        DataType::Struct(_) => {
            column.as_struct().columns().iter().map(|column| column_bytes(column, most)).sum()
        }
        // Arrays that cannot tell are rare, and small.
        _ => column.to_data().get_slice_memory_size().unwrap_or_default(),
    }
}

fn elements<O: OffsetSizeTrait>(lists: &GenericListArray<O>, most: usize) -> usize {
    let offsets = lists.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[lists.len()].as_usize());
    size_of_val(offsets) + column_bytes(&lists.values().slice(first, last - first), most)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn bytes_of(column: ArrayRef) -> usize {
        value_bytes(&RecordBatch::try_from_iter([("a", column)]).unwrap())
    }

    #[test]
    fn slices_count_what_they_show() {
        let texts = StringViewArray::from_iter_values((0..100).map(|n| "x".repeat(1_000 + n)));
        let (whole, part) =
            (bytes_of(Arc::new(texts.clone())), bytes_of(Arc::new(texts.slice(0, 10))));
        assert!(whole > 100_000 && (10_000..11_000).contains(&part), "{whole} {part}");
        let lists = (0..100).map(|_| Some((0..50).map(Some)));
        let lists = arrow::array::ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        let (whole, part) =
            (bytes_of(Arc::new(lists.clone())), bytes_of(Arc::new(lists.slice(9, 10))));
        assert!(whole >= 40_000 && (4_000..5_000).contains(&part), "{whole} {part}");
        assert!((800..1_000).contains(&bytes_of(Arc::new(Int64Array::from(vec![1; 100])))));
    }

    #[test]
    fn about_bytes_are_those_of_the_rows() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1; 1000]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a text of more bytes"; 1000]));
        let batch = RecordBatch::try_from_iter([("a", numbers), ("b", texts)]).unwrap();
        let part = batch.slice(10, 20);
        assert_eq!(about_value_bytes(&part), 20 * (8 + 16 + 20));
        assert_eq!(value_bytes(&part), 20 * (8 + 16 + 20));
    }
}
