//! The lock holder's side of tracking: writing down what the handler did, and deciding ahead what
//! it will do.
//!
//! Everything here runs under the area's lock. An extent's word changes under the lock only while
//! the gate is closed, or while the word itself keeps the handler away (`UNARMED`, `BUSY`); so a
//! handler never uses a plane that this side has given to somebody else (INV-AREA-12).

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::area::{Core, State};
use crate::memory::mapping::mapping_fault;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::{
    self, ABSENT, AGAIN, BUSY, FAULTING, FROZEN, HOT, IN_PLACE, LOGGED, NO_PLANE, PLANNED, PRIVATE,
    SPARE, UNARMED, note,
};
use crate::model::old_versions::{merge, visible};
use crate::model::own_versions::Own;
use crate::model::runs::Run;
use crate::model::units::{AreaOffset, ByteLen, ExtentId};
use crate::policy::alternation::{back_in_step, in_step};
use crate::protect::{Freeze, each};
use crate::sys::block_signals::Quiet;
use crate::sys::sync::MutexGuard;
use crate::trap::gate::Closed;
use crate::trap::{requests, signal};

/// Memory given back while the threads that store there wait: of small pages it takes long.
const PUNCH_STEP_HUGE: ByteLen = ByteLen::mib(8);
const PUNCH_STEP_SMALL: ByteLen = ByteLen::mib(1);
/// Extents of small pages that are protected early in one go: each takes long, and a store to one
/// of them waits for all.
const EARLY_SMALL: usize = 4;
/// How many of these may be such that were protected in vain: a publish takes long for each.
const CHANCES_SMALL: usize = 1;
/// Extents on each side of one that say where the crowd is.
const CROWD: u32 = 4;

/// What [`Core::begin_freeze`] has begun.
#[must_use]
pub(crate) struct Frozen<'a> {
    why: Freeze,
    /// Stretches of what was private, once it is protected.
    stretches: Vec<Range<u32>>,
    /// What was protected early.
    again: Vec<ExtentId>,
    /// In a tracked area.
    shut: Option<(Closed<'a>, Quiet)>,
}

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
            extent_word::state_of(word) == PRIVATE && word & LOGGED != 0,
            "INV-AREA-12: {extent} was logged once"
        );
        // Protected early in vain.
        let again = if word & IN_PLACE != 0 { AGAIN } else { 0 };
        let born = state.next_epoch;
        if word & IN_PLACE != 0 {
            let plane = state.own.get(extent).map_or(0, |own| own.plane);
            state.own.set(extent, Some(Own { plane, born }));
            if state.ahead.made_from(extent).is_some_and(|from| from.next() == born) {
                state.rewritten += self.geometry.len(extent).0;
                state.ahead.note(extent);
            }
        } else {
            let plane = extent_word::plane_of(word);
            state.versions.take(&self.geometry, extent, plane);
            let old = state.own.set(extent, Some(Own { plane, born }));
            if let Some(old) = old {
                assert_ne!(old.plane, plane, "INV-AREA-1: a visible version is never overwritten");
                if old.born.next() == born {
                    state.rewritten += self.geometry.len(extent).0;
                    state.ahead.note(extent);
                }
                let State { versions, live, .. } = &mut *state;
                versions.free(&self.geometry, live, (extent, old.plane), old.born, born);
            }
            let start = self.geometry.start(extent);
            let file_offset = self.geometry.plane_offset(plane, start);
            let len = self.geometry.len(extent).0;
            state.runs.set(Run { start: start.0, len, source: 0, file_offset });
        }
        note(&mut state.private, extent);
        state.dirty = true;
        // Only `prepare` changes the word, before or meanwhile, and says that it is hot.
        let next = self.private_word(state, extent) | again | word & HOT;
        if !self.states.exchange(extent, word, next) {
            self.states.set(extent, next | HOT);
        }
    }

    /// The word of an extent that has become private. In a tracked area it says where the version
    /// after the next publish goes, so that a publish has nothing to decide.
    pub(crate) fn private_word(&self, state: &mut State, extent: ExtentId) -> u32 {
        if self.tracked.get().is_none() {
            return PRIVATE;
        }
        let current = state.own.get(extent).map(|own| own.plane);
        PRIVATE | PLANNED | self.next_plane(state, extent, current)
    }

    /// Decides where the next version of an extent goes. `publishing`: the present version is about
    /// to be shown by a manifest that does not exist yet.
    ///
    /// The gate may be open: an extent that the handler claims meanwhile is left to it, and what it
    /// has finished is not in the tables, nor in a state that this looks at.
    pub(crate) fn arm(&self, state: &mut State, extent: ExtentId, publishing: bool) {
        loop {
            let word = self.states.word(extent);
            let now = extent_word::state_of(word);
            if now == PRIVATE && word & PLANNED != 0 {
                let next = self.private_word(state, extent) | word & (HOT | AGAIN);
                if self.states.exchange(extent, word, next) {
                    return;
                }
                continue;
            }
            if now != ABSENT && now != FROZEN {
                return;
            }
            let own = state.own.get(extent);
            let seen = |own: &Own| publishing || visible(&state.live, own.born, state.next_epoch);
            let next = if now == FROZEN && own.as_ref().is_some_and(|own| !seen(own)) {
                if word & IN_PLACE == 0 {
                    note(&mut state.in_place, extent);
                }
                IN_PLACE | PLANNED | self.next_plane(state, extent, own.map(|own| own.plane))
            } else {
                self.next_plane(state, extent, own.map(|own| own.plane))
            };
            if self.states.exchange(extent, word, now | next) {
                return;
            }
        }
    }

    fn next_plane(&self, state: &mut State, extent: ExtentId, current: Option<u32>) -> u32 {
        let beside = [extent.0.checked_sub(1), Some(extent.0 + 1)]
            .map(|e| self.plane_beside(state, extent, ExtentId(e?)));
        let frozen = self.states.get(extent) == FROZEN;
        let in_step = current.filter(|_| frozen).and_then(|c| {
            in_step(&state.alternation, &state.versions, state.next_epoch, extent, c)
        });
        let choice = in_step.or_else(|| {
            if let Some(crowd) = current.and_then(|current| self.crowd(state, extent, current)) {
                return state.versions.peek_apart(extent, current, crowd);
            }
            let choice = state.versions.peek(&self.geometry, extent, current, beside)?;
            current
                .and_then(|c| {
                    back_in_step(
                        &state.own,
                        &state.versions,
                        |e| self.states.word(e),
                        extent,
                        c,
                        &choice,
                    )
                })
                .or(Some(choice))
        });
        let Some(choice) = choice else { return NO_PLANE };
        let len = u64::from(choice.plane + 1) * self.geometry.reserve().0;
        let long_enough = state.memory.as_ref().is_some_and(|memory| memory.len >= len);
        if !long_enough && self.memory_of_len(state, len).is_err() {
            return NO_PLANE;
        }
        extent_word::plane_bits(choice.plane) | if choice.spare { SPARE } else { 0 }
    }

    /// The plane of nearly all extents around one that lies in another. The extent that a sweep was
    /// in when a publish came is stored to twice and so out of step with the others, for good if
    /// all only alternate: it has to go through a third plane, or costs each hook a mapping.
    fn crowd(&self, state: &State, extent: ExtentId, current: u32) -> Option<u32> {
        let plane = |e: u32| state.own.get(ExtentId(e)).map(|own| own.plane);
        let crowd = plane(extent.0 + 1).filter(|p| *p != current);
        let crowd = crowd.or_else(|| plane(extent.0.checked_sub(1)?)).filter(|p| *p != current)?;
        let around = (extent.0.saturating_sub(CROWD)..extent.0)
            .chain(extent.0 + 1..=extent.0 + CROWD)
            .filter(|e| plane(*e) == Some(crowd));
        (around.count() >= 2 * CROWD as usize - 1).then_some(crowd)
    }

    /// The plane of an extent's neighbour at the time when the extent gets its next version: so
    /// that what is stored to between two publishes lies in one plane, and is one mapping.
    fn plane_beside(&self, state: &State, extent: ExtentId, beside: ExtentId) -> Option<u32> {
        if beside.0 >= self.states.len() {
            return None;
        }
        let (word, mine) = (self.states.word(beside), self.states.get(extent));
        let planned = match extent_word::state_of(word) {
            // Both have been stored to since the last publish, or neither: they go on together.
            PRIVATE => mine == PRIVATE && word & PLANNED != 0,
            FROZEN => {
                word & (UNARMED | NO_PLANE) == 0 && (word & IN_PLACE == 0 || word & PLANNED != 0)
            }
            _ => false,
        };
        match planned {
            true => Some(extent_word::plane_of(word)),
            false => state.own.get(beside).map(|own| own.plane),
        }
    }

    /// Write-protects, ahead of the next publish, what became private some time ago: stores move
    /// on, and the publish then has little left to protect. A store to such an extent is trapped
    /// once, and keeps it open until that publish. When there is more to protect.
    pub(crate) fn protect_early(&self, state: &mut State) -> Result<Option<Duration>> {
        let Some(tracked) = self.tracked.get() else { return Ok(None) };
        if !tracked.hooked_live.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (mut most, mut chances) = match tracked.huge {
            true => (usize::MAX, 0),
            false => (EARLY_SMALL, CHANCES_SMALL),
        };
        let young = state.private.split_off(state.old_private.min(state.private.len()));
        let (mut open, mut early) = (Vec::new(), Vec::new());
        let (mut left, mut more) = (false, !young.is_empty());
        for extent in std::mem::take(&mut state.private) {
            let word = self.states.word(extent);
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
            match self.states.exchange(extent, word, FROZEN | UNARMED) {
                true => early.push((extent, word)),
                false => open.push(extent),
            }
        }
        let result = self.protect_some(&early);
        for (extent, word) in early {
            if result.is_ok() {
                note(&mut state.in_place, extent);
                self.states.set(extent, FROZEN | IN_PLACE | PLANNED | extent_word::plan_of(word));
            } else {
                open.push(extent);
                self.states.set(extent, word | HOT);
            }
        }
        // Before the others have had their turn, what is young does not become old.
        state.old_private = open.len() + if left { 0 } else { young.len() };
        state.private = open;
        state.private.extend(young);
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

    /// Arms everything that is not armed by its word already: what has a version of its own here,
    /// or old ones. The first version of an extent that shows another area goes to plane 0, as that
    /// of an absent one; so a new area is tracked in a time that does not grow with what it shows.
    pub(crate) fn arm_all(&self, state: &mut State) {
        state.versions.watch();
        let mut extents: Vec<ExtentId> = state.versions.extents().collect();
        for run in state.runs.iter().filter(|run| run.source == 0) {
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
        self.absorb(state);
        for extent in changed {
            self.arm(state, extent, false);
        }
    }

    pub(crate) fn close_gate(&self) -> Option<Closed<'_>> {
        self.tracked.get().map(|tracked| tracked.gate.close())
    }

    /// Write-protects what is private. In a tracked area: at one instant for all threads; the gate
    /// stays shut for [`Freeze::Hold`].
    pub(crate) fn freeze(&self, state: &mut State, why: Freeze) -> Result<()> {
        let mut frozen = Some(self.begin_freeze(state, why)?);
        let result = self.protect_frozen(state, &mut frozen);
        self.end_freeze(state, frozen);
        result
    }

    /// The first part of [`Core::freeze`]: in a tracked area no extent becomes private until the
    /// last part, which is due in any case. `Pinned`: nothing has been begun.
    pub(crate) fn begin_freeze(&self, state: &mut State, why: Freeze) -> Result<Frozen<'_>> {
        let Some(tracked) = self.tracked.get() else {
            return Ok(Frozen { why, stretches: Vec::new(), again: Vec::new(), shut: None });
        };
        assert!(why != Freeze::Ahead, "stores to tracked areas would see it");
        signal::rearm();
        // To the end: stores wait for what is not armed, too.
        let quiet = Quiet::begin();
        // Most of the log before the gate closes, so that it opens again sooner.
        self.absorb(state);
        let closed = tracked.gate.close();
        // Whoever holds stores off shows nobody what is there.
        if why != Freeze::Hold && self.has_pins() {
            return Err(Fault::Pinned);
        }
        self.absorb(state);
        let again = match why {
            Freeze::Hold => Vec::new(),
            _ => std::mem::take(&mut state.in_place),
        };
        Ok(Frozen { why, stretches: Vec::new(), again, shut: Some((closed, quiet)) })
    }

    /// The second part: from now on nobody stores to what was private.
    pub(crate) fn protect_frozen(
        &self,
        state: &mut State,
        frozen: &mut Option<Frozen<'_>>,
    ) -> Result<()> {
        let Some(frozen) = frozen.as_mut() else { return Ok(()) };
        debug_assert!(frozen.stretches.is_empty(), "protected once");
        let (stretches, result) = self.protect_private(state, frozen.why);
        frozen.stretches = stretches;
        if let (Some(tracked), Some((closed, _))) = (self.tracked.get(), &frozen.shut)
            && frozen.why == Freeze::Hold
            && result.is_ok()
        {
            tracked.gate.hold(closed);
        }
        result
    }

    /// The last part: the words of what was protected say so, and where it goes next, and the
    /// handler may go on. Whoever waits for the state need not wait for this.
    pub(crate) fn end_freeze(&self, state: &mut State, frozen: Option<Frozen<'_>>) {
        let Some(Frozen { why, stretches, again, shut }) = frozen else { return };
        let publishing = why != Freeze::Hold;
        // Normally the next version's place is known already, and no thread waits for it.
        let frozen_word = |word: u32| match publishing && word & PLANNED != 0 {
            true => FROZEN | extent_word::plan_of(word),
            false => FROZEN | UNARMED,
        };
        for extent in &again {
            let word = self.states.word(*extent);
            if extent_word::state_of(word) == FROZEN && word & IN_PLACE != 0 {
                self.states.set_unclaimed(*extent, frozen_word(word));
            }
        }
        for extent in each(&stretches) {
            let word = if shut.is_some() { frozen_word(self.states.word(extent)) } else { FROZEN };
            self.states.set_unclaimed(extent, word);
        }
        let (Some(tracked), Some((closed, _quiet))) = (self.tracked.get(), shut) else { return };
        if why == Freeze::Publish && tracked.hooked_live.load(Ordering::Relaxed) {
            tracked.spare_wait.begin();
        }
        drop(closed);
        for extent in each(&stretches).chain(again) {
            if self.states.word(extent) & UNARMED != 0 {
                self.arm(state, extent, publishing);
            }
        }
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
                // Whoever has panicked does not come back.
                self.check_whole()?;
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
            if extent_word::state_of(word) == FAULTING {
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
        let most = self.for_pages(PUNCH_STEP_HUGE, PUNCH_STEP_SMALL).0;
        let mut left = limit.0;
        while left > 0 {
            let step = ByteLen(if tracked { left.min(most) } else { left });
            let mut taken = Vec::new();
            // Until all is armed again.
            let _quiet = tracked.then(Quiet::begin);
            let closed = self.close_gate();
            self.absorb(state);
            let ranges = state.versions.take_spare(&self.geometry, keep, step, |extent, plane| {
                let word = self.states.word(extent);
                let now = extent_word::state_of(word);
                if tracked && now == FAULTING && extent_word::plane_of(word) == plane {
                    return false;
                }
                if !tracked || extent_word::plane_of(word) != plane {
                    return true;
                }
                match now {
                    // Nobody uses these plans before the next publish.
                    PRIVATE | FROZEN if word & PLANNED != 0 => {}
                    FROZEN | ABSENT if word & IN_PLACE == 0 => {
                        self.states.set(extent, now | UNARMED);
                    }
                    _ => return true,
                }
                taken.push(extent);
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
