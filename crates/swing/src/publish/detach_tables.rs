//! Taking whole page tables away before a range is protected, and dropping them later.
//!
//! Where a range is long, protecting it page by page takes long; without page tables there is
//! nothing to look at ([`crate::sys::page_tables`]). The tables are dropped a few at a time, when
//! nobody waits.

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::Result;
use crate::model::runs::Run;
use crate::model::units::ByteLen;
use crate::trap::requests;

/// Whole page tables are taken away, where so many neighbours can be: huge pages have theirs for
/// each gigabyte. Taking away parts of one, or finding few pages again, costs more than is won.
const LIFT_HUGE: ByteLen = ByteLen::gib(1);
const LIFT_SMALL: ByteLen = ByteLen::mib(32);
/// Page tables dropped in one go: about 75 us, for which a trapped store may wait.
const DROP_HUGE: ByteLen = ByteLen::mib(256);
const DROP_SMALL: ByteLen = ByteLen::mib(1);

impl Core {
    /// The parts of a range whose page tables hold nothing but one mapping.
    pub(crate) fn whole_tables(&self, state: &Tables, start: u64, end: u64) -> Vec<(u64, u64)> {
        let granule = self.for_pages(LIFT_HUGE, LIFT_SMALL).0;
        if end - start < granule {
            return Vec::new();
        }
        let base = self.mapping.base().as_ptr() as u64;
        let whole = |run: Run| {
            let from = (base + run.start).next_multiple_of(granule) - base;
            let to = ((base + run.end()) / granule * granule).checked_sub(base)?;
            (from < to).then(|| (from, to - from))
        };
        state.runs.overlapping(start, end).into_iter().filter_map(whole).collect()
    }

    /// Has page tables that were taken away dropped, by the keeper when there is one.
    pub(crate) fn drop_lifted_later(&self) -> Result<()> {
        let mut state = self.lock_for_change()?;
        let Some(last) = state.heuristics.detached.last() else { return Ok(()) };
        // Whoever waits for the next publish does not wait for a choice.
        state.heuristics.detach_to = last.another_target();
        drop(state);
        if !requests::drop_lifted() {
            while self.drop_some_lifted()? {}
        }
        Ok(())
    }

    /// Drops some page tables that were taken away; `true` when there are more.
    pub(crate) fn drop_some_lifted(&self) -> Result<bool> {
        let Some(mut tables) = self.lock_for_change()?.heuristics.detached.pop() else {
            return Ok(false);
        };
        let more = tables.drop_some(self.for_pages(DROP_HUGE, DROP_SMALL).as_usize());
        let mut state = self.lock_for_change()?;
        if more {
            state.heuristics.detached.push(tables);
        }
        Ok(!state.heuristics.detached.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use crate::model::manifest::Kind;
    use crate::policy::switches::Switches;
    use crate::sys::page_tables::DetachedTables;
    use crate::{AreaName, AreaOptions, ByteLen, Namespace};

    #[test]
    fn switched_off_no_tables_are_moved() {
        for detached_tables in [true, false] {
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            let switches = Switches { detached_tables, ..Switches::ON };
            let ns = Namespace::open(dir.path()).unwrap().with_switches(switches);
            let options = AreaOptions::with_reserve(ByteLen::mib(256));
            let area = ns.create(&AreaName::new("tables").unwrap(), &options).unwrap();
            area.track().unwrap();
            for at in (0..ByteLen::mib(96).as_usize()).step_by(4096) {
                // SAFETY: inside the tracked area; nobody else stores.
                unsafe { area.base().as_ptr().add(at).write_volatile(7) };
            }
            let published = area.core.publish_quickly(Kind::Shared, b"").unwrap();
            let moved = !area.core.lock_for_change().unwrap().heuristics.detached.is_empty();
            // Not every kernel can.
            assert!(!moved || detached_tables);
            let huge = area.core.tracked.get().is_some_and(|tracked| tracked.has_huge_pages());
            assert!(moved || !detached_tables || huge || DetachedTables::are_refused());
            area.core.follow_up(published).unwrap();
        }
    }
}
