//! Taking back memory that nobody can see any more.
//!
//! The owner knows the manifests that may still matter (`live`). One that is not current is retired
//! when its exclusive lock can be had and it has no other name; the versions only it showed are
//! then spare. Looking is lazy: a few manifests at each publish, all of them when memory is short.
//! Staleness costs memory, never correctness.
//!
//! A dead reader's lock is gone; a dead derived area's pins are hard links in its own folder and go
//! with that folder.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::area::area::Area;
use crate::area::core::Core;
use crate::area::tables::{Source, Tables};
use crate::memory::mapping::mapping_fault;
use crate::model::error::{PublishError, Result, WriteError};
use crate::model::extent_word::{ABSENT, BUSY, FROZEN, PRIVATE};
use crate::model::geometry::MAX_PLANES;
use crate::model::old_versions::merge;
use crate::model::units::{AreaOffset, ByteLen, Epoch, ExtentId};
use crate::namespace::files::{MEMORY, manifest_name, parent_memory_name, pin_name};
use crate::namespace::lease::{self, Probe};
use crate::sys::block_signals::Quiet;
use crate::sys::file;

/// Manifests examined at each publish.
const PROBES_PER_PUBLISH: usize = 4;
/// Spare memory kept for the next writes.
const SPARE_ALLOWANCE: ByteLen = ByteLen::mib(16);
/// Memory given back at most by one publish. What was overwritten since the last one is not given
/// back by publishes at all (they are to be quick) but by the next `make_writable`, which takes new
/// memory.
const PUNCH_PER_PUBLISH: u64 = 512 << 20;
/// The same in a tracked area, where those who hook next wait for it.
const PUNCH_PER_LIVE_PUBLISH: ByteLen = ByteLen::mib(64);
/// How often that much is given back in one go when nobody hooks.
const MAX_IDLE_ROUNDS: u32 = 16;
/// No limit, where the caller wants all of it.
const ALL: ByteLen = ByteLen(u64::MAX);

impl Area {
    /// The contents of `range` are no longer needed by the live state: extents wholly inside become
    /// absent. Their memory is given back as soon as no current, leased or pinned manifest shows
    /// it. Addresses in it fault from now on.
    pub fn discard(&self, range: Range<AreaOffset>) -> Result<(), WriteError> {
        let core = &*self.core;
        core.discard(&range).map_err(|fault| WriteError::from_fault(fault, &core.context()))
    }

    /// Sets or lifts the threshold of [`crate::AreaOptions::cow_threshold`]; a derived or adopted
    /// area has none at first.
    pub fn set_cow_threshold(&self, threshold: Option<ByteLen>) -> Result<(), PublishError> {
        let core = &*self.core;
        let result = core.lock_for_change().and_then(|mut state| {
            state.cow_threshold = threshold;
            core.check_threshold(&mut state)
        });
        result.map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }

    /// Gives back all memory that nobody can see, spare memory included, and says how much that
    /// was.
    pub fn reclaim(&self) -> Result<ByteLen, PublishError> {
        let core = &*self.core;
        core.reclaim_all().map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }
}

impl Core {
    pub(crate) fn discard(&self, range: &Range<AreaOffset>) -> Result<()> {
        self.check_range(range)?;
        let inside = self.geometry.inside(range);
        let (mut state, closed) = self.lock_settled(inside.clone())?;
        let present =
            inside.map(ExtentId).filter(|e| matches!(self.states.get(*e), FROZEN | PRIVATE));
        let extents: Vec<ExtentId> = present.collect();
        let words: Vec<u32> = extents.iter().map(|e| self.states.get(*e)).collect();
        // Keeps the handler away from here to the end, without holding up the whole area.
        let _quiet = closed.is_some().then(Quiet::begin);
        extents.iter().filter(|_| closed.is_some()).for_each(|e| self.states.set(*e, BUSY));
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
                    state.punch_budget += self.geometry.len(extent).0;
                    let Tables { versions, live, next_epoch, .. } = &mut *state;
                    versions.free(&self.geometry, live, (extent, own.plane), own.born, *next_epoch);
                }
                self.settle(&mut state, extent, ABSENT);
            }
            state.runs.clear(start, start + len);
        }
        state.dirty |= !extents.is_empty();
        self.punch_spare(&mut state, SPARE_ALLOWANCE, ALL)
    }

    /// A discard failed: what it had not come to is what it was.
    fn keep_present(&self, state: &mut Tables, extents: &[ExtentId], words: &[u32]) {
        assert_eq!(extents.len(), words.len(), "one word an extent");
        for (extent, word) in extents.iter().zip(words) {
            match (self.states.get(*extent), *word) {
                (BUSY, PRIVATE) => self.states.set(*extent, PRIVATE),
                (BUSY, word) => self.settle(state, *extent, word),
                _ => {}
            }
        }
    }

    /// Retires one manifest if nobody can see it.
    pub(crate) fn retire_if_possible(&self, state: &mut Tables, epoch: Epoch) -> Result<()> {
        let current = state.shared == Some(epoch) || state.committed == Some(epoch);
        if current || !state.live.contains_key(&epoch) {
            return Ok(());
        }
        assert!(epoch < state.next_epoch, "only what was published can be retired");
        if lease::probe(&self.folder, &manifest_name(epoch))? == Probe::Retired {
            let known = state.live.remove(&epoch);
            assert!(known.is_some(), "INV-AREA-2: a manifest goes once");
            let Tables { versions, live, .. } = &mut *state;
            versions.manifest_gone(&self.geometry, live, epoch);
            let newest = state.live.last_key_value().is_none_or(|(e, ())| *e < epoch);
            self.arm_changed(state, newest);
        }
        Ok(())
    }

    /// The bounded part that each publish does.
    pub(crate) fn reclaim_some(&self, state: &mut Tables) -> Result<()> {
        let from = state.probe_from;
        let ahead = state.live.range(from..).chain(state.live.range(..from));
        let epochs: Vec<Epoch> = ahead.map(|(e, _)| *e).take(PROBES_PER_PUBLISH).collect();
        let spare_before = state.versions.spare_bytes();
        for epoch in &epochs {
            self.retire_if_possible(state, *epoch)?;
        }
        let spare = state.versions.spare_bytes();
        let tracked = self.tracked.get().is_some();
        assert!(tracked || spare >= spare_before, "what manifests let go becomes spare");
        // Where stores are tracked, those written down meanwhile have taken some of it.
        state.punch_budget += spare.0.saturating_sub(spare_before.0);
        state.probe_from = epochs.last().map_or(Epoch(0), |e| e.next());
        self.drop_unused_sources(state)?;
        self.check_threshold(state)?;
        if tracked {
            // No barrier call comes that would give back what it makes superfluous.
            let keep = SPARE_ALLOWANCE.max(ByteLen(state.reuse));
            return self.punch_spare(state, keep, PUNCH_PER_LIVE_PUBLISH);
        }
        let limit = state.punch_budget.min(PUNCH_PER_PUBLISH);
        state.punch_budget -= limit;
        self.punch_spare(state, SPARE_ALLOWANCE, ByteLen(limit))
    }

    /// When nobody has hooked for a while: what was kept for the next stores of a tracked area is
    /// given back. `true` when there will be more, for instance because snapshots still hold it.
    pub(crate) fn reclaim_idle(&self) -> Result<bool> {
        for _ in 0..MAX_IDLE_ROUNDS {
            let mut state = self.lock_for_change()?;
            state.reuse = 0;
            self.reclaim_some(&mut state)?;
            if state.versions.spare_bytes() <= SPARE_ALLOWANCE {
                return Ok(state.versions.retired_bytes() > ByteLen(0) && state.live.len() > 1);
            }
        }
        Ok(true)
    }

    /// Gives back what is spare beyond the allowance, about as much as the caller has just
    /// allocated.
    pub(crate) fn punch_after_writing(&self, state: &mut Tables, written: u64) -> Result<()> {
        self.punch_spare(state, SPARE_ALLOWANCE, ByteLen(2 * written))
    }

    /// Everything that can be taken back.
    pub(crate) fn reclaim_all(&self) -> Result<ByteLen> {
        let mut state = self.lock_for_change()?;
        let before = self.counters.punched_bytes.load(Ordering::Relaxed);
        self.reclaim_locked(&mut state)?;
        let now = self.counters.punched_bytes.load(Ordering::Relaxed);
        assert!(now >= before, "a counter only grows");
        Ok(ByteLen(now - before))
    }

    pub(crate) fn reclaim_locked(&self, state: &mut Tables) -> Result<()> {
        let sources = |state: &Tables| state.sources.iter().flatten().count();
        loop {
            let epochs: Vec<Epoch> = state.live.keys().copied().collect();
            for epoch in epochs {
                self.retire_if_possible(state, epoch)?;
            }
            let before = sources(state);
            self.drop_unused_sources(state)?;
            // One of them may have been a state of this area itself, which only its pin kept.
            if sources(state) == before {
                break;
            }
        }
        self.check_threshold(state)?;
        self.punch_spare(state, ByteLen(0), ALL)
    }

    fn punch_spare(&self, state: &mut Tables, keep: ByteLen, limit: ByteLen) -> Result<()> {
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

    /// Gives up leases and pins on areas that neither the live state nor a live manifest shows.
    fn drop_unused_sources(&self, state: &mut Tables) -> Result<()> {
        for slot in 1..state.sources.len() {
            let Some(source) = &state.sources[slot] else {
                continue;
            };
            let shown = state.runs.bytes_of(slot as u32) > 0;
            // Not by manifests before it: a state that the area itself came from is one of these.
            let published = source
                .first_published
                .zip(source.last_published)
                .is_some_and(|(first, last)| state.live.range(first..=last).next().is_some());
            if shown || published {
                continue;
            }
            assert!(state.runs.bytes_of(slot as u32) == 0, "INV-AREA-10: nothing shows it");
            let Some(source) = state.sources[slot].take() else {
                continue;
            };
            self.mapping.release(source.area, source.epoch);
            if source.pinned {
                let folder = self.parents_folder()?;
                folder.unlink(&pin_name(source.area, source.epoch))?;
                let same = |s: &&Source| {
                    s.pinned && (s.area, s.dev, s.ino) == (source.area, source.dev, source.ino)
                };
                let name = parent_memory_name(source.area);
                match state.sources.iter().flatten().find(same) {
                    // The link of a memfd must not name a descriptor that is closed next.
                    Some(other) => {
                        let file = other.file.here_for(&folder.join(&name))?;
                        crate::memory::lookup::take_name(&folder, file, &name)?;
                    }
                    None => {
                        crate::memory::lookup::drop_name(&folder, source.file.identity(), &name)?
                    }
                }
            }
        }
        self.drop_former(state)
    }

    /// Opens or closes the area for hooks as the memory held for snapshots demands.
    fn check_threshold(&self, state: &mut Tables) -> Result<()> {
        let retired = state.versions.retired_bytes();
        let over = state.cow_threshold.is_some_and(|threshold| retired > threshold);
        if over == state.over_threshold {
            return Ok(());
        }
        state.over_threshold = over;
        self.place_shared_link(state)
    }
}
