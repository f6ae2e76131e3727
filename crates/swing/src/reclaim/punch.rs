//! Giving spare memory back to the system.

use std::sync::atomic::Ordering;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::Result;
use crate::model::geometry::MAX_PLANES;
use crate::model::units::ByteLen;
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
            let Some(memory) = &state.storage.memory else {
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
        let end = u64::from(MAX_PLANES) * self.geometry.reserve().0;
        assert!(len > 0 && offset < end, "a part of the memory file");
        for (extent, plane) in self.versions_in(offset, len) {
            let current = state.own.get(extent).map(|own| own.plane);
            assert!(current != Some(plane), "INV-AREA-1: {extent} is in use in plane {plane}");
            let free = state.versions.is_free(extent, plane);
            assert!(free, "INV-AREA-1: {extent} in plane {plane} is visible");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error::Fault;
    use crate::{AreaOffset, AreaOptions, Namespace, WriteIntent};

    /// Memory that could not be given back is spare as before, and its old bytes do not show where
    /// it is taken again.
    #[test]
    fn what_cannot_be_given_back_stays_spare() {
        let dir = tempfile::tempdir().unwrap();
        let ns = Namespace::open(dir.path()).unwrap();
        let options = AreaOptions::with_reserve(ByteLen::gib(1));
        let area = ns.create_unnamed(&options).unwrap();
        let (start, len) = (options.small_zone.0, 32 << 20);
        let range = AreaOffset(start)..AreaOffset(start + len);
        let old = |byte: u8| {
            // SAFETY: made writable, and nobody else uses it.
            unsafe { area.base().add(start as usize).write_bytes(byte, len as usize) };
        };
        area.make_writable(range.clone(), WriteIntent::Overwrite).unwrap();
        old(7);
        let core = &*area.core;
        {
            // As if the system refused.
            let mut state = core.lock_for_change().unwrap();
            let extents = core.geometry.covering(&range).map(crate::ExtentId);
            for extent in extents.clone() {
                let own = state.own.set(extent, None).unwrap();
                state.versions.add_spare(&core.geometry, extent, own.plane);
            }
            let refused = |_: &Tables, _: u64, _: u64| Err(Fault::Closed);
            let failed = core.take_spare(&mut state, ByteLen(0), ByteLen(u64::MAX), refused);
            assert!(matches!(failed, Err(Fault::Closed)));
            assert_eq!(state.versions.spare_bytes(), ByteLen(len));
            for extent in extents {
                core.words.set(extent, crate::model::extent_word::ABSENT);
            }
            state.runs.clear(start, start + len);
        }
        area.make_writable(range, WriteIntent::Keep).unwrap();
        // SAFETY: made writable.
        let seen = unsafe {
            std::slice::from_raw_parts(area.base().add(start as usize).as_ptr(), len as usize)
        };
        assert!(seen.iter().all(|byte| *byte == 0), "old bytes show");
        area.reclaim().unwrap();
    }
}
