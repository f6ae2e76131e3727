//! Taking back memory that no process can see any more.
//!
//! The owner knows the manifests that may still matter (`live`). A manifest that is not current is
//! retired when its exclusive lock can be had and it has no other name. The versions that only this
//! manifest showed are then spare. Looking is lazy: a few manifests at each publish, all of them
//! when memory is short. Staleness costs memory, never correctness.
//!
//! A dead reader's lock is gone. A dead derived area's pins are hard links in its own folder, and
//! go with that folder.

use std::sync::atomic::Ordering;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::area::tables::Tables;
use crate::model::error::{PublishError, Result};
use crate::model::units::{ByteLen, Epoch};
use crate::namespace::files::manifest_name;
use crate::namespace::lease::{self, Probe};
use crate::reclaim::punch::SPARE_ALLOWANCE;

/// Manifests examined at each publish.
const PROBES_PER_PUBLISH: usize = 4;
/// Memory given back at most by one publish of a tracked area, where those who hook next wait for
/// it. A publish of another area gives none back, since its time is not to depend on how much was
/// let go: what was overwritten is left to the next `make_writable`, which takes new memory, and
/// what was discarded or released by readers to [`Core::give_back_left`].
const PUNCH_PER_LIVE_PUBLISH: ByteLen = ByteLen::mib(64);
/// How often that much is given back in one go when nobody hooks.
const MAX_IDLE_ROUNDS: u32 = 16;
/// No limit, where the caller wants all of it.
const ALL: ByteLen = ByteLen(u64::MAX);

impl Area {
    /// Sets or lifts the threshold of [`crate::AreaOptions::cow_threshold`]; a derived or adopted
    /// area has none at first.
    pub fn set_cow_threshold(&self, threshold: Option<ByteLen>) -> Result<(), PublishError> {
        let core = &*self.core;
        let result = core.lock_for_change().and_then(|mut state| {
            state.hooks.cow_threshold = threshold;
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

    /// The published states that somebody can still see: the newest, and those that are leased or
    /// pinned. What only others showed, also outside of the area, nobody needs any more.
    pub fn live_states(&self) -> Result<Vec<Epoch>, PublishError> {
        let core = &*self.core;
        let live = core.lock_for_change().and_then(|mut state| {
            let epochs: Vec<Epoch> = state.manifests.live.keys().copied().collect();
            for epoch in epochs {
                core.retire_if_possible(&mut state, epoch)?;
            }
            Ok(state.manifests.live.keys().copied().collect())
        });
        live.map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }
}

impl Core {
    /// Retires one manifest if nobody can see it.
    pub(crate) fn retire_if_possible(&self, state: &mut Tables, epoch: Epoch) -> Result<()> {
        let current =
            state.manifests.shared == Some(epoch) || state.manifests.committed == Some(epoch);
        if current || !state.manifests.live.contains_key(&epoch) {
            return Ok(());
        }
        assert!(epoch < state.manifests.next_epoch, "only what was published can be retired");
        if lease::probe(&self.folder, &manifest_name(epoch))? == Probe::Retired {
            let known = state.manifests.live.remove(&epoch);
            assert!(known.is_some(), "INV-AREA-2: a manifest goes once");
            let Tables { versions, manifests, .. } = &mut *state;
            versions.manifest_gone(&self.geometry, &manifests.live, epoch);
            let newest = state.manifests.live.last_key_value().is_none_or(|(e, ())| *e < epoch);
            self.arm_changed(state, newest);
        }
        Ok(())
    }

    /// The bounded part that each publish does.
    pub(crate) fn reclaim_some(&self, state: &mut Tables) -> Result<()> {
        let from = state.manifests.probe_from;
        let ahead = state.manifests.live.range(from..).chain(state.manifests.live.range(..from));
        let epochs: Vec<Epoch> = ahead.map(|(e, _)| *e).take(PROBES_PER_PUBLISH).collect();
        let spare_before = state.versions.spare_bytes();
        for epoch in &epochs {
            self.retire_if_possible(state, *epoch)?;
        }
        let spare = state.versions.spare_bytes();
        let tracked = self.tracked.get().is_some();
        assert!(tracked || spare >= spare_before, "what manifests let go becomes spare");
        // Where stores are tracked, those written down meanwhile have taken some of it.
        state.spare.punch_budget += spare.0.saturating_sub(spare_before.0);
        state.manifests.probe_from = epochs.last().map_or(Epoch(0), |e| e.next());
        self.drop_unused_sources(state)?;
        self.check_threshold(state)?;
        if tracked {
            // No barrier call comes that would give back what it makes superfluous.
            let keep = SPARE_ALLOWANCE.max(ByteLen(state.spare.reuse));
            return self.punch_spare(state, keep, PUNCH_PER_LIVE_PUBLISH);
        }
        Ok(())
    }

    /// Whether publishes have left memory that is to be given back.
    pub(crate) fn has_left(&self, state: &Tables) -> bool {
        state.spare.punch_budget > 0 && state.versions.spare_bytes() > SPARE_ALLOWANCE
    }

    /// Gives back some of what publishes have left; `true` when there is more.
    pub(crate) fn give_back_left(&self, most: ByteLen) -> Result<bool> {
        let mut state = self.lock_for_change()?;
        self.punch_left(&mut state, most)?;
        Ok(self.has_left(&state))
    }

    /// Gives back so much at most of what was let go since it was given back last.
    pub(crate) fn punch_left(&self, state: &mut Tables, most: ByteLen) -> Result<()> {
        let limit = ByteLen(state.spare.punch_budget).min(most);
        let before = state.versions.spare_bytes();
        let punched = self.punch_spare(state, SPARE_ALLOWANCE, limit);
        // What somebody still sees is not spare yet, and stays to be given back.
        let spare = state.versions.spare_bytes().0;
        let left = state.spare.punch_budget.saturating_sub(before.0.saturating_sub(spare));
        state.spare.punch_budget = left.min(spare + state.versions.retired_bytes().0);
        punched
    }

    /// When nobody has hooked for a while: what was kept for the next stores of a tracked area is
    /// given back. `true` when there will be more, for instance because snapshots still hold it.
    pub(crate) fn reclaim_idle(&self) -> Result<bool> {
        for _ in 0..MAX_IDLE_ROUNDS {
            let mut state = self.lock_for_change()?;
            state.spare.reuse = 0;
            self.reclaim_some(&mut state)?;
            self.punch_left(&mut state, PUNCH_PER_LIVE_PUBLISH)?;
            if state.versions.spare_bytes() <= SPARE_ALLOWANCE {
                return Ok(
                    state.versions.retired_bytes() > ByteLen(0) && state.manifests.live.len() > 1
                );
            }
        }
        Ok(true)
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
            let epochs: Vec<Epoch> = state.manifests.live.keys().copied().collect();
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

    /// Opens or closes the area for hooks as the memory held for snapshots demands.
    fn check_threshold(&self, state: &mut Tables) -> Result<()> {
        let retired = state.versions.retired_bytes();
        let over = state.hooks.cow_threshold.is_some_and(|threshold| retired > threshold);
        if over == state.hooks.over_threshold {
            return Ok(());
        }
        state.hooks.over_threshold = over;
        self.place_shared_link(state)
    }
}
