//! Batches whose texts hold no more memory than they need: [`with_own_texts`].
//!
//! The texts of a batch of a table lie in the memory of a whole segment, sixteen times as much as
//! those of the batch. Who counts the memory of batches counts all of it for each of them, and who
//! writes batches as Arrow's IPC format writes all of it each time.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions,
    make_array,
};
use arrow::datatypes::{ByteViewType, DataType};
use arrow::error::ArrowError;

/// A column whose buffers are so many times as large as its texts gets its own.
const SLACK: usize = 2;

/// The same rows. Columns of texts get a copy of their own where what they hold is much larger.
pub fn with_own_texts(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(own_texts).collect::<Result<_, _>>()?;
    let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &count)
}

/// The same values. Texts get a copy of their own where what they hold is much larger, also inside
/// of lists, structs and maps.
pub fn own_texts(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let own: Option<ArrayRef> = match column.data_type() {
        DataType::Utf8View => compacted(column.as_string_view()).map(|own| Arc::new(own) as _),
        DataType::BinaryView => compacted(column.as_binary_view()).map(|own| Arc::new(own) as _),
        nested if nested.is_nested() => {
            let data = column.to_data();
            let children = data.child_data().iter();
            let own = |child: &ArrayData| Ok(own_texts(&make_array(child.clone()))?.to_data());
            let children = children.map(own).collect::<Result<_, ArrowError>>()?;
            Some(make_array(data.into_builder().child_data(children).build()?))
        }
        _ => None,
    };
    Ok(own.unwrap_or_else(|| Arc::clone(column)))
}

fn compacted<T: ByteViewType>(column: &GenericByteViewArray<T>) -> Option<GenericByteViewArray<T>> {
    let held: usize = column.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    (held > SLACK * column.total_buffer_bytes_used()).then(|| column.gc())
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryViewArray, Int32Array, StringViewArray};
    use arrow::datatypes::Schema;
    use arrow::ipc::writer::StreamWriter;

    use super::*;

    fn written(batch: &RecordBatch) -> Result<usize, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
        writer.write(batch)?;
        Ok(writer.into_inner()?.len())
    }

    #[test]
    fn a_part_of_a_segment_gets_texts_of_its_own() -> Result<(), ArrowError> {
        let text = |n: i32| (n % 5 > 0).then(|| format!("a text that is no view, number {n}"));
        let texts: StringViewArray = (0..4000).map(text).collect();
        let bytes: BinaryViewArray = (0..4000).map(|n| text(n).map(String::into_bytes)).collect();
        let whole = RecordBatch::try_from_iter([
            ("n", Arc::new(Int32Array::from_iter_values(0..4000)) as ArrayRef),
            ("texts", Arc::new(texts)),
            ("bytes", Arc::new(bytes)),
        ])?;
        let part = whole.slice(1000, 100);
        let own = with_own_texts(&part)?;
        assert_eq!(own, part);
        let sizes = [written(&part)?, written(&own)?];
        assert!(sizes[1] * 10 < sizes[0], "{sizes:?}");
        // What needs none shares them.
        let shared = with_own_texts(&whole)?;
        let of = |batch: &RecordBatch| batch.column(1).as_string_view().data_buffers()[0].as_ptr();
        assert_eq!(of(&shared), of(&whole));
        Ok(())
    }

    #[test]
    fn rows_without_columns_stay_as_many() -> Result<(), ArrowError> {
        let count = RecordBatchOptions::new().with_row_count(Some(7));
        let none = RecordBatch::try_new_with_options(Schema::empty().into(), vec![], &count)?;
        assert_eq!(with_own_texts(&none)?.num_rows(), 7);
        Ok(())
    }
}
