//! Bytes of memory that batches hold, those they share counted once.

use std::num::NonZeroUsize;

use arrow::array::{Array, ArrayData, RecordBatch};
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
