//! Protecting early what stores have left behind, so that the next publish has little left to
//! protect.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::memory::mapping::mapping_fault;
use crate::model::error::Result;
use crate::model::extent_word::{
    self, AGAIN, FROZEN, HOT, IN_PLACE, PLANNED, PRIVATE, UNARMED, note,
};
use crate::model::old_versions::merge;
use crate::model::units::ExtentId;
use crate::trap::requests;

/// Extents of small pages that are protected early in one go: each takes long, and a store to one
/// of them waits for all.
const EARLY_SMALL: usize = 4;
/// How many of these may be such that were protected in vain: a publish takes long for each.
const CHANCES_SMALL: usize = 1;

impl Core {
    /// Write-protects, ahead of the next publish, what became private some time ago: stores move
    /// on, and the publish then has little left to protect. A store to such an extent is trapped
    /// once, and keeps it open until that publish. When there is more to protect.
    pub(crate) fn protect_early(&self, state: &mut Tables) -> Result<Option<Duration>> {
        let Some(tracked) = self.tracked.get() else { return Ok(None) };
        let hooked = tracked.hooked_live.load(Ordering::Relaxed);
        if !hooked || !self.ns.switches().early_protection {
            return Ok(None);
        }
        let (mut most, mut chances) = match tracked.huge {
            true => (usize::MAX, 0),
            false => (EARLY_SMALL, CHANCES_SMALL),
        };
        let young = state
            .changed
            .private
            .split_off(state.changed.old_private.min(state.changed.private.len()));
        let (mut open, mut early) = (Vec::new(), Vec::new());
        let (mut left, mut more) = (false, !young.is_empty());
        for extent in std::mem::take(&mut state.changed.private) {
            let word = self.words.word(extent);
            let ready = extent_word::state_of(word) == PRIVATE && word & (PLANNED | HOT) == PLANNED;
            let again = word & AGAIN != 0;
            left |= ready && !again && most == 0;
            if !ready || most == 0 || (again && chances == 0) {
                // What somebody has asked for never gets its turn.
                more |= ready && !tracked.huge;
                open.push(extent);
                continue;
            }
            (most, chances) = (most - 1, chances - usize::from(again));
            // Whoever stores there meanwhile waits for the word.
            match self.words.exchange(extent, word, FROZEN | UNARMED) {
                true => early.push((extent, word)),
                false => open.push(extent),
            }
        }
        let result = self.protect_some(&early);
        for (extent, word) in early {
            if result.is_ok() {
                note(&mut state.changed.in_place, extent);
                self.words.set(extent, FROZEN | IN_PLACE | PLANNED | extent_word::plan_of(word));
            } else {
                open.push(extent);
                self.words.set(extent, word | HOT);
            }
        }
        // Before the others have had their turn, what is young does not become old.
        state.changed.old_private = open.len() + if left { 0 } else { young.len() };
        state.changed.private = open;
        state.changed.private.extend(young);
        result
            .map(|()| if left { Some(requests::PAUSE) } else { more.then_some(requests::PROTECT) })
    }

    /// Write-protects all of some extents, or none.
    fn protect_some(&self, extents: &[(ExtentId, u32)]) -> Result<()> {
        let range = |(e, _): &(ExtentId, u32)| (self.geometry.start(*e).0, self.geometry.len(*e).0);
        let small = self.tracked.get().is_some_and(|t| !t.huge);
        let span = self.mapping.span();
        let path = self.memory_path();
        let mut ranges = extents.iter().map(range).collect();
        if !small {
            ranges = merge(ranges);
        }
        for (i, (start, len)) in ranges.iter().enumerate() {
            let Err(e) = span.protect(*start as usize, *len as usize, false) else { continue };
            for (start, len) in &ranges[..=i] {
                let opened = span.protect(*start as usize, *len as usize, true);
                // A private extent must be writable: a store to it would count as a crash.
                assert!(
                    opened.is_ok(),
                    "cannot take back the protection at {start:#x}: {opened:?}"
                );
            }
            return Err(mapping_fault(e, &path));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::switches::Switches;
    use crate::sys::extent_mapping::is_writable;
    use crate::{AreaName, AreaOptions, ByteLen, Namespace};

    #[test]
    fn switched_off_nothing_is_protected_before_a_publish() {
        for early_protection in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let switches = Switches { early_protection, ..Switches::ON };
            let ns = Namespace::open(dir.path()).unwrap().with_switches(switches);
            let options = AreaOptions::with_reserve(ByteLen::mib(64));
            let area = ns.create(&AreaName::new("early").unwrap(), &options).unwrap();
            area.allow_live_hooks(true).unwrap();
            // SAFETY: inside the tracked area; nobody else stores.
            unsafe { area.base().as_ptr().write_volatile(7) };
            for _ in 0..3 {
                let mut state = area.core.lock_for_change().unwrap();
                area.core.protect_early(&mut state).unwrap();
            }
            assert_eq!(is_writable(area.base().as_ptr() as usize), !early_protection);
        }
    }
}
