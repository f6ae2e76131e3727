//! Giving spare memory back to the system.

use std::sync::atomic::Ordering;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::Result;
use crate::model::geometry::MAX_PLANES;
use crate::model::units::{AreaOffset, ByteLen};
use crate::namespace::files::MEMORY;
use crate::sys::file;

/// Spare memory kept for the next writes.
pub(crate) const SPARE_ALLOWANCE: ByteLen = ByteLen::mib(16);

impl Core {
    /// Gives back what is spare beyond the allowance, about as much as the caller has just
    /// allocated.
    pub(crate) fn punch_after_writing(&self, state: &mut Tables, written: u64) -> Result<()> {
        self.punch_spare(state, SPARE_ALLOWANCE, ByteLen(2 * written))
    }

    pub(crate) fn punch_spare(
        &self,
        state: &mut Tables,
        keep: ByteLen,
        limit: ByteLen,
    ) -> Result<()> {
        let path = self.folder.join(MEMORY);
        self.take_spare(state, keep, limit, |state, offset, len| {
            let Some(memory) = &state.memory else {
                return Ok(());
            };
            self.assert_unseen(state, offset, len);
            file::punch(memory.file.here_for(&path)?, offset, len, &path)?;
            self.counters.punched_bytes.fetch_add(len, Ordering::Relaxed);
            Ok(())
        })
    }

    /// INV-AREA-1, where breaking it would lose data: what is given back is no current version, and
    /// no live manifest shows it.
    fn assert_unseen(&self, state: &Tables, offset: u64, len: u64) {
        let reserve = self.geometry.reserve().0;
        let (plane, mut at) = (offset / reserve, offset % reserve);
        assert!(len > 0 && plane < u64::from(MAX_PLANES), "a part of the memory file");
        let end = at + len;
        while at < end {
            let extent = self.geometry.extent_of(AreaOffset(at % reserve));
            let plane = plane + at / reserve;
            let current = state.own.get(extent).map(|own| u64::from(own.plane));
            assert!(current != Some(plane), "INV-AREA-1: {extent} is in use in plane {plane}");
            let free = state.versions.is_free(extent, plane as u32);
            assert!(free, "INV-AREA-1: {extent} in plane {plane} is visible");
            at += self.geometry.len(extent).0;
        }
    }
}
