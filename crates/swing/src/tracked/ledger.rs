//! The lock holder's side of tracking: writing down what the handler did, and deciding ahead what
//! it will do.
//!
//! Everything here runs under the area's lock. An extent's word changes under the lock only while
//! the gate is closed, or while the word itself keeps the handler away (`UNARMED`, `BUSY`); so a
//! handler never uses a plane that this side has given to somebody else (INV-AREA-12).

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::memory::mapping::mapping_fault;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::{
    self, AGAIN, FROZEN, HOT, IN_PLACE, PLANNED, PRIVATE, UNARMED, note,
};
use crate::model::old_versions::merge;
use crate::model::units::ExtentId;
use crate::protect::{Freeze, each};
use crate::sys::block_signals::Quiet;
use crate::trap::gate::Closed;
use crate::trap::{requests, signal};

/// Extents of small pages that are protected early in one go: each takes long, and a store to one
/// of them waits for all.
const EARLY_SMALL: usize = 4;
/// How many of these may be such that were protected in vain: a publish takes long for each.
const CHANCES_SMALL: usize = 1;

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
    /// Write-protects, ahead of the next publish, what became private some time ago: stores move
    /// on, and the publish then has little left to protect. A store to such an extent is trapped
    /// once, and keeps it open until that publish. When there is more to protect.
    pub(crate) fn protect_early(&self, state: &mut Tables) -> Result<Option<Duration>> {
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

    /// Write-protects what is private. In a tracked area: at one instant for all threads; the gate
    /// stays shut for [`Freeze::Hold`].
    pub(crate) fn freeze(&self, state: &mut Tables, why: Freeze) -> Result<()> {
        let mut frozen = Some(self.begin_freeze(state, why)?);
        let result = self.protect_frozen(state, &mut frozen);
        self.end_freeze(state, frozen);
        result
    }

    /// The first part of [`Core::freeze`]: in a tracked area no extent becomes private until the
    /// last part, which is due in any case. `Pinned`: nothing has been begun.
    pub(crate) fn begin_freeze(&self, state: &mut Tables, why: Freeze) -> Result<Frozen<'_>> {
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
        state: &mut Tables,
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
    pub(crate) fn end_freeze(&self, state: &mut Tables, frozen: Option<Frozen<'_>>) {
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
}
