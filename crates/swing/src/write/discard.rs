//! Giving up a part of an area.

use std::ops::Range;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::tables::Tables;
use crate::memory::mapping::mapping_fault;
use crate::model::error::{Result, WriteError};
use crate::model::extent_word::{ABSENT, BUSY, FROZEN, PRIVATE};
use crate::model::old_versions::merge;
use crate::model::units::{AreaOffset, ByteLen, ExtentId};
use crate::sys::block_signals::Quiet;

impl Area {
    /// The contents of `range` are no longer needed by the live state: extents wholly inside become
    /// absent. Their memory is given back as soon as no current, leased or pinned manifest shows
    /// it. Addresses in it fault from now on.
    ///
    /// An error means that the system refused to unmap a part. That part, and what lies behind it,
    /// is what it was; [`Area::extent_state`] tells what is absent already.
    pub fn discard(&self, range: Range<AreaOffset>) -> Result<(), WriteError> {
        let core = &*self.core;
        core.discard(&range).map_err(|fault| WriteError::from_fault(fault, &core.context()))
    }
}

impl Core {
    pub(crate) fn discard(&self, range: &Range<AreaOffset>) -> Result<()> {
        self.check_range(range)?;
        let inside = self.geometry.inside(range);
        let (mut state, closed) = self.lock_settled(inside.clone())?;
        let present =
            inside.map(ExtentId).filter(|e| matches!(self.words.get(*e), FROZEN | PRIVATE));
        let extents: Vec<ExtentId> = present.collect();
        let words: Vec<u32> = extents.iter().map(|e| self.words.get(*e)).collect();
        // Keeps the handler away from here to the end, without holding up the whole area.
        let _quiet = closed.is_some().then(Quiet::begin);
        extents.iter().filter(|_| closed.is_some()).for_each(|e| self.words.set(*e, BUSY));
        drop(closed);
        let span = |e: &ExtentId| (self.geometry.start(*e).0, self.geometry.len(*e).0);
        let path = self.memory_path();
        for (start, len) in merge(extents.iter().map(span).collect()) {
            if let Err(e) = self.mapping.span().unmap(start as usize, len as usize) {
                self.keep_present(&mut state, &extents, &words);
                return Err(mapping_fault(e, &path));
            }
            let range = AreaOffset(start)..AreaOffset(start + len);
            for extent in self.geometry.covering(&range).map(ExtentId) {
                let own = state.own.set(extent, None);
                if let Some(own) = own {
                    state.spare.punch_budget += self.geometry.len(extent).0;
                    let Tables { versions, manifests, .. } = &mut *state;
                    let version = (extent, own.plane);
                    let next = manifests.next_epoch;
                    versions.free(&self.geometry, &manifests.live, version, own.born, next);
                }
                self.settle(&mut state, extent, ABSENT);
            }
            state.runs.clear(start, start + len);
        }
        state.changed.dirty |= !extents.is_empty();
        // It is done: what cannot be given back now stays spare, and is given back later.
        let _ = self.punch_left(&mut state, ByteLen(u64::MAX));
        Ok(())
    }

    /// A discard failed: what it had not come to is what it was.
    fn keep_present(&self, state: &mut Tables, extents: &[ExtentId], words: &[u32]) {
        assert_eq!(extents.len(), words.len(), "one word an extent");
        for (extent, word) in extents.iter().zip(words) {
            match (self.words.get(*extent), *word) {
                (BUSY, PRIVATE) => self.words.set(*extent, PRIVATE),
                (BUSY, word) => self.settle(state, *extent, word),
                _ => {}
            }
        }
    }
}
