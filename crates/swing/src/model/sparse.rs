//! A table by the numbers of extents, for things that few extents of an area have, or all of those
//! that lie together: neighbours lie side by side.

use crate::model::units::ExtentId;

/// Entries that lie together.
const CHUNK: usize = 512;

/// Entries are what `T::default()` is until they are changed; chunks of such take no memory.
#[derive(Debug, Default)]
pub(crate) struct Sparse<T>(Vec<Option<Box<[T]>>>);

impl<T: Clone + Default> Sparse<T> {
    /// The entry, unless nothing near it has ever been changed.
    pub(crate) fn get(&self, extent: ExtentId) -> Option<&T> {
        let i = extent.0 as usize;
        Some(&self.0.get(i / CHUNK)?.as_ref()?[i % CHUNK])
    }

    pub(crate) fn get_mut(&mut self, extent: ExtentId) -> &mut T {
        let i = extent.0 as usize;
        if self.0.len() <= i / CHUNK {
            self.0.resize_with(i / CHUNK + 1, || None);
        }
        let chunk = self.0[i / CHUNK].get_or_insert_with(|| vec![T::default(); CHUNK].into());
        &mut chunk[i % CHUNK]
    }

    /// All entries of chunks that take memory, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ExtentId, &T)> {
        let chunks = self.0.iter().enumerate().filter_map(|(c, chunk)| Some((c, chunk.as_ref()?)));
        chunks.flat_map(|(c, chunk)| {
            let extents = (c * CHUNK..).map(|i| ExtentId(i as u32));
            extents.zip(chunk)
        })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
