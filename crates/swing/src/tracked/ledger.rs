//! The lock holder's side of tracking: writing down what the handler did, and deciding ahead what
//! it will do.
//!
//! Everything here runs under the area's lock. An extent's word changes under the lock only while
//! the gate is closed, or while the word itself keeps the handler away (`UNARMED`, `BUSY`); so a
//! handler never uses a plane that this side has given to somebody else (INV-AREA-12).

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::{Closed, signal};
use crate::area::{Core, State};
use crate::error::Result;
use crate::extents::{
    self, ABSENT, BUSY, FAULTING, FROZEN, IN_PLACE, LOGGED, NO_PLANE, Own, PRIVATE, SPARE, UNARMED,
};
use crate::runs::Run;
use crate::sync::MutexGuard;
use crate::units::{AreaOffset, ByteLen, ExtentId};
use crate::versions::visible;

/// Memory given back while the threads that store there wait.
const PUNCH_STEP: ByteLen = ByteLen::mib(8);

impl Core {
    /// Writes down which extents the handler has made private.
    pub(crate) fn absorb(&self, state: &mut State) {
        let Some(tracked) = self.tracked.get() else { return };
        let mut head = tracked.head.swap(0, Ordering::AcqRel);
        while head != 0 {
            let extent = ExtentId(head - 1);
            // Read before the extent is settled: from then on it can be logged again.
            head = tracked.links[extent.0 as usize].load(Ordering::Acquire);
            self.record_logged(state, extent);
        }
    }

    fn record_logged(&self, state: &mut State, extent: ExtentId) {
        let word = self.states.word(extent);
        assert!(
            extents::state_of(word) == PRIVATE && word & LOGGED != 0,
            "INV-AREA-12: {extent} was logged once"
        );
        let born = state.next_epoch;
        if word & IN_PLACE != 0 {
            let plane = state.own.get(extent).map_or(0, |own| own.plane);
            state.own.set(extent, Some(Own { plane, born }));
        } else {
            let plane = extents::plane_of(word);
            state.versions.take(&self.geometry, extent, plane);
            let old = state.own.set(extent, Some(Own { plane, born }));
            if let Some(old) = old {
                assert_ne!(old.plane, plane, "INV-AREA-1: a visible version is never overwritten");
                let State { versions, live, .. } = &mut *state;
                versions.free(&self.geometry, live, (extent, old.plane), old.born, born);
            }
            let start = self.geometry.start(extent);
            let file_offset = self.geometry.plane_offset(plane, start);
            let len = self.geometry.len(extent).0;
            state.runs.set(Run { start: start.0, len, source: 0, file_offset });
        }
        state.private.push(extent);
        state.dirty = true;
        self.states.set(extent, PRIVATE);
    }

    /// Decides where the next version of an extent goes. `publishing`: the present version is about
    /// to be shown by a manifest that does not exist yet.
    pub(crate) fn arm(&self, state: &mut State, extent: ExtentId, publishing: bool) {
        loop {
            let word = self.states.word(extent);
            let now = extents::state_of(word);
            if now != ABSENT && now != FROZEN {
                return;
            }
            let own = state.own.get(extent);
            let seen = |own: &Own| publishing || visible(&state.live, own.born, state.next_epoch);
            let next = if now == FROZEN && own.as_ref().is_some_and(|own| !seen(own)) {
                state.in_place.push(extent);
                IN_PLACE
            } else {
                self.next_plane(state, extent, own.map(|own| own.plane))
            };
            if self.states.exchange(extent, word, now | next) {
                return;
            }
        }
    }

    fn next_plane(&self, state: &mut State, extent: ExtentId, current: Option<u32>) -> u32 {
        let plane = |e: u32| state.own.get(ExtentId(e)).map(|own| own.plane);
        let beside = [extent.0.checked_sub(1).and_then(plane), plane(extent.0 + 1)];
        let choice = state.versions.peek(&self.geometry, extent, current, beside);
        let Some(choice) = choice else { return NO_PLANE };
        let len = u64::from(choice.plane + 1) * self.geometry.reserve().0;
        if self.memory_of_len(state, len).is_err() {
            return NO_PLANE;
        }
        extents::plane_bits(choice.plane) | if choice.spare { SPARE } else { 0 }
    }

    /// Arms everything that is not armed by being zero: what is mapped, and what has old versions.
    pub(crate) fn arm_all(&self, state: &mut State) {
        state.versions.watch();
        let mut extents: Vec<ExtentId> = state.versions.extents().collect();
        for run in state.runs.iter() {
            let range = AreaOffset(run.start)..AreaOffset(run.end());
            extents.extend(self.geometry.covering(&range).map(ExtentId));
        }
        extents.into_iter().for_each(|e| self.arm(state, e, false));
    }

    /// After manifests have gone: memory that became spare is used first.
    pub(crate) fn arm_changed(&self, state: &mut State, all_own: bool) {
        if self.tracked.get().is_none() {
            return;
        }
        let mut changed = state.versions.take_changed();
        if all_own {
            // What only the manifest that has gone showed is written in place from now on.
            let unseen = |own: &Own| !visible(&state.live, own.born, state.next_epoch);
            changed.extend(state.own.iter().filter(|(_, own)| unseen(own)).map(|(e, _)| e));
        }
        let _closed = self.close_gate();
        self.absorb(state);
        for extent in changed {
            if self.states.word(extent) & IN_PLACE == 0 {
                self.arm(state, extent, false);
            }
        }
    }

    pub(crate) fn close_gate(&self) -> Option<Closed<'_>> {
        self.tracked.get().map(|tracked| tracked.gate.close())
    }

    /// Write-protects what is private. In a tracked area: at one instant for all threads; the gate
    /// stays shut when `hold`. `publishing`: a manifest will show what is frozen.
    pub(crate) fn freeze(&self, state: &mut State, publishing: bool, hold: bool) -> Result<()> {
        let Some(tracked) = self.tracked.get() else {
            return self.protect_private(state, FROZEN).1;
        };
        signal::rearm();
        // Most of the log before the gate closes, so that it opens again sooner.
        self.absorb(state);
        let closed = tracked.gate.close();
        self.absorb(state);
        let again = if publishing { std::mem::take(&mut state.in_place) } else { Vec::new() };
        for extent in &again {
            if self.states.word(*extent) & (7 | IN_PLACE) == FROZEN | IN_PLACE {
                self.states.set(*extent, FROZEN | UNARMED);
            }
        }
        let (frozen, result) = self.protect_private(state, FROZEN | UNARMED);
        if hold && result.is_ok() {
            tracked.gate.hold(&closed);
        }
        drop(closed);
        for extent in frozen.into_iter().chain(again) {
            if self.states.word(extent) & UNARMED != 0 {
                self.arm(state, extent, publishing);
            }
        }
        result
    }

    /// Locks for a change of some extents: nobody works on them, nobody holds stores off, and the
    /// handler begins nothing as long as the second result lives.
    #[allow(clippy::type_complexity)]
    pub(crate) fn lock_settled(
        &self,
        extents: Range<u32>,
    ) -> Result<(MutexGuard<'_, State>, Option<Closed<'_>>)> {
        loop {
            let mut state = self.lock_for_change()?;
            while extents.clone().any(|e| self.states.get(ExtentId(e)) == BUSY) {
                state = self.idle.wait(state);
            }
            let Some(tracked) = self.tracked.get() else { return Ok((state, None)) };
            if tracked.gate.held_by_other() {
                drop(state);
                tracked.gate.wait_for_holder();
                continue;
            }
            let closed = tracked.gate.close();
            self.absorb(&mut state);
            let faulting = |e: &u32| self.states.get(ExtentId(*e)) == FAULTING;
            let Some(extent) = extents.clone().find(faulting).map(ExtentId) else {
                return Ok((state, Some(closed)));
            };
            let word = self.states.word(extent);
            // The handler may need the gate to finish: wait without it, and without the lock.
            drop(closed);
            drop(state);
            if extents::state_of(word) == FAULTING {
                self.states.wait(extent, word);
            }
        }
    }

    /// Takes spare memory out of the tables and hands it to `punch`, while no handler uses it.
    pub(crate) fn take_spare(
        &self,
        state: &mut State,
        keep: ByteLen,
        limit: ByteLen,
        mut punch: impl FnMut(&State, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let tracked = self.tracked.get().is_some();
        let mut left = limit.0;
        while left > 0 {
            let step = ByteLen(if tracked { left.min(PUNCH_STEP.0) } else { left });
            let mut taken = Vec::new();
            let closed = self.close_gate();
            self.absorb(state);
            let ranges = state.versions.take_spare(&self.geometry, keep, step, |extent, plane| {
                let word = self.states.word(extent);
                let now = extents::state_of(word);
                if tracked && now == FAULTING && extents::plane_of(word) == plane {
                    return false;
                }
                if tracked && (now == FROZEN || now == ABSENT) && word & IN_PLACE == 0 {
                    self.states.set(extent, now | UNARMED);
                    taken.push(extent);
                }
                true
            });
            drop(closed);
            let bytes: u64 = ranges.iter().map(|(_, len)| len).sum();
            let mut result = Ok(());
            for (offset, len) in ranges {
                result = result.and(punch(state, offset, len));
            }
            for extent in taken {
                self.arm(state, extent, false);
            }
            result?;
            if bytes == 0 {
                break;
            }
            left = left.saturating_sub(bytes);
        }
        Ok(())
    }
}
