//! Columns of texts with each of their buffers once: [`buffers_once`].
//!
//! Batches that a join has put together hold all buffers of its build side. The column of many such
//! batches has them many times, and so would each batch of the output: counting the references to
//! them would take longer than the join.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ByteView, GenericByteViewArray, MAX_INLINE_VIEW_LEN};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ByteViewType, DataType};
use arrow::error::Result;

/// So few buffers are left as they are: a new column means checking its texts again.
const FEW_BUFFERS: usize = 16;

/// The column with each of its buffers once, if it has many.
pub(crate) fn buffers_once(column: ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Utf8View => Arc::new(with_buffers_once(column.as_string_view())?),
        DataType::BinaryView => Arc::new(with_buffers_once(column.as_binary_view())?),
        _ => column,
    })
}

fn with_buffers_once<T: ByteViewType>(
    column: &GenericByteViewArray<T>,
) -> Result<GenericByteViewArray<T>> {
    if column.data_buffers().len() <= FEW_BUFFERS {
        return Ok(column.clone());
    }
    let mut numbers = HashMap::new();
    let mut buffers = Vec::new();
    let of_old = column.data_buffers().iter().map(|buffer| {
        *numbers.entry((buffer.as_ptr(), buffer.len())).or_insert_with(|| {
            buffers.push(buffer.clone());
            buffers.len() as u32 - 1
        })
    });
    let of_old = of_old.collect::<Vec<u32>>();
    if buffers.len() == of_old.len() {
        return Ok(column.clone());
    }
    let views = column.views().iter().map(|&view| {
        let mut view = ByteView::from(view);
        if view.length > MAX_INLINE_VIEW_LEN {
            view.buffer_index = of_old[view.buffer_index as usize];
        }
        view.as_u128()
    });
    let views = views.collect::<ScalarBuffer<u128>>();
    GenericByteViewArray::try_new(views, buffers, column.nulls().cloned())
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::compute::concat;

    use super::*;

    #[test]
    fn a_buffer_that_many_batches_share_is_there_once() -> Result<()> {
        let long = |n: usize| format!("a text that is too long for a view, number {n}");
        let texts = (0..10).map(|n| (n % 4 > 0).then(|| long(n)));
        let one = texts.collect::<StringViewArray>();
        let other = StringViewArray::from_iter_values([long(10), "short".into()]);
        let few = concat(&[&one as &dyn Array, &one, &other])?;
        assert_eq!(buffers_once(Arc::clone(&few))?.to_data(), few.to_data());
        let all = [&one as &dyn Array, &one, &other, &one, &other].repeat(FEW_BUFFERS);
        let column = concat(&all)?;
        let found = buffers_once(Arc::clone(&column))?;
        found.to_data().validate_full()?;
        assert_eq!(found.as_ref(), column.as_ref());
        assert!(column.as_string_view().data_buffers().len() > FEW_BUFFERS, "concat did it");
        assert_eq!(found.as_string_view().data_buffers().len(), 2);
        Ok(())
    }
}
