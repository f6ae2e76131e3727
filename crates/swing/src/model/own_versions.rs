//! Where an area's own version of each extent lies, and since which epoch: a sparse table behind
//! the area's lock.

use crate::model::geometry::MAX_PLANES;
use crate::model::sparse::Sparse;
use crate::model::units::{Epoch, ExtentId};

/// The current version of an extent that lies in the area's own memory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub plane: u32,
    /// The first epoch whose manifest shows it.
    pub born: Epoch,
}

/// The extents that have a version of their own.
#[derive(Debug, Default)]
pub(crate) struct OwnTable(Sparse<Option<Own>>);

impl OwnTable {
    pub(crate) fn get(&self, extent: ExtentId) -> Option<Own> {
        self.0.get(extent).copied().flatten()
    }

    /// All extents with an entry, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ExtentId, Own)> + '_ {
        self.0.iter().filter_map(|(extent, own)| Some((extent, (*own)?)))
    }

    /// Sets or forgets an entry; returns the one before.
    pub(crate) fn set(&mut self, extent: ExtentId, own: Option<Own>) -> Option<Own> {
        assert!(
            own.is_none_or(|own| own.plane < MAX_PLANES && own.born.0 > 0),
            "a version lies in a plane, and belongs to an epoch"
        );
        if own.is_none() {
            self.get(extent)?;
        }
        std::mem::replace(self.0.get_mut(extent), own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sparse() {
        let mut t = OwnTable::default();
        assert_eq!(t.set(ExtentId(1 << 20), None), None);
        assert!(t.0.is_empty());
        let own = Own { plane: 2, born: Epoch(3) };
        assert_eq!(t.set(ExtentId(5000), Some(own)), None);
        assert_eq!(t.get(ExtentId(5000)), Some(own));
        assert_eq!(t.get(ExtentId(5001)), None);
        assert_eq!(t.iter().collect::<Vec<_>>(), [(ExtentId(5000), own)]);
        assert_eq!(t.set(ExtentId(5000), None), Some(own));
        assert_eq!(t.get(ExtentId(5000)), None);
    }
}
