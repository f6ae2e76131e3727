//! Freezing an area: from one instant on no thread stores to what the area shows.
//!
//! In a tracked area the gate is closed first, so that no extent becomes private. The log is
//! absorbed, and the private extents are protected. Then the words are set to frozen, with the
//! planes of the next versions, and the gate opens. In other areas the caller keeps its stores
//! away.
//!
//! **Concurrency.** Under the area's lock.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::{self, FROZEN, IN_PLACE, PLANNED, UNARMED, each};
use crate::model::units::ExtentId;
use crate::publish::protect::Freeze;
use crate::sys::block_signals::Quiet;
use crate::trap::gate::Closed;
use crate::trap::signal;

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
            _ => std::mem::take(&mut state.changed.in_place),
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
            let word = self.words.word(*extent);
            if extent_word::state_of(word) == FROZEN && word & IN_PLACE != 0 {
                self.words.set_unclaimed(*extent, frozen_word(word));
            }
        }
        for extent in each(&stretches) {
            let word = if shut.is_some() { frozen_word(self.words.word(extent)) } else { FROZEN };
            self.words.set_unclaimed(extent, word);
        }
        let (Some(tracked), Some((closed, _quiet))) = (self.tracked.get(), shut) else { return };
        let hooked = why == Freeze::Publish && tracked.hooked_live.load(Ordering::Relaxed);
        if hooked && self.ns.switches().spare_wait {
            tracked.spare_wait.begin();
        }
        drop(closed);
        for extent in each(&stretches).chain(again) {
            if self.words.word(extent) & UNARMED != 0 {
                self.arm(state, extent, publishing);
            }
        }
    }
}
