//! Copying ahead: after a live hook, what will be stored to soon is copied before it is.
//!
//! The first store to each extent after a hook copies it, and all these copies come at once, right
//! after the hook. Where a program says so ([`Area::copy_ahead`]) the keeper makes some of them
//! meanwhile, on another processor: those of the extents that were stored to between the last two
//! hooks *and* between the two before. Such an extent's older version has become spare by then, and
//! is kept for exactly these stores; only into such memory is copied, so copying ahead takes no
//! memory that was not held already, and after `k` stores there are still at most `k` extents more.
//!
//! A copy made ahead is write-protected. The first store to it is trapped, as it would be in any
//! case, but only takes the protection off (`IN_PLACE`). If none comes before the next publish, the
//! copy is what that shows; the extent is not copied ahead again, and the older version's memory
//! is given back like any other's.
//!
//! **Concurrency.** One extent at a time: claimed under the area's lock, as the handler claims
//! (`FAULTING`), filled without it, put in its place under the lock again. A publish in between
//! shows the older version, which has the same bytes. A store to just this extent waits for it.
//! Closing the area waits as well ([`Core::stop_ahead`]): from then on the memory may be another
//! process's.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fault::Version;
use super::keeper;
use crate::area::{Area, Core, State};
use crate::error::Result;
use crate::extents::{self, FAULTING, FROZEN, IN_PLACE, NO_PLANE, Own, SPARE, UNARMED, WAITERS};
use crate::mapping::mapping_fault;
use crate::runs::Run;
use crate::sync::Mutex;
use crate::sys::mem;
use crate::units::{AreaOffset, ExtentId};

/// What is to be copied, and what has been.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Stored to since the last publish, and between that and the one before: in an older version
    /// that nobody will need after the next publish.
    again: Vec<ExtentId>,
    /// The same at the last publish: still to be copied, the next one at the end.
    due: Vec<ExtentId>,
    /// What the last publish has superseded has been given up: extents have spare memory if ever.
    begun: bool,
    /// Copied since the last publish, and not stored to.
    made: HashSet<ExtentId>,
}

impl Ahead {
    /// An extent has been stored to again.
    pub(super) fn note(&mut self, extent: ExtentId) {
        self.again.push(extent);
    }

    /// Whether the extent's version was made ahead, and has now been stored to.
    pub(super) fn was_made(&mut self, extent: ExtentId) -> bool {
        self.made.remove(&extent)
    }

    /// A publish: what comes next is another interval.
    pub(crate) fn turn(&mut self) {
        self.due = std::mem::take(&mut self.again);
        self.due.reverse();
        self.begun = false;
        self.made.clear();
    }
}

/// An extent that is being copied.
struct Claim {
    extent: ExtentId,
    /// Its word before.
    word: u32,
    /// Its present version.
    own: Own,
}

impl Area {
    /// Whether, after each live hook, a thread of this process copies extents before they are
    /// stored to: those that were stored to between the last two hooks and between the two before,
    /// into memory that is held for them anyway. Then fewer stores wait for a copy after a hook; on
    /// the other hand that thread takes some time of a processor, in vain where stores have moved
    /// on. Only in tracked areas that allow live hooks. Off at first.
    pub fn copy_ahead(&self, yes: bool) {
        match (self.core.tracked.get(), yes) {
            (Some(tracked), true) => tracked.ahead.wanted.store(true, Ordering::SeqCst),
            _ => self.core.stop_ahead(),
        }
    }
}

/// What the threads know of each other.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Changes from `true` to `false` under the area's lock.
    wanted: AtomicBool,
    /// Held from a claim to its end.
    copying: Mutex<()>,
}

impl Progress {
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }
}

impl Core {
    /// Nothing is copied ahead from now on, nor just being copied.
    pub(crate) fn stop_ahead(&self) {
        let Some(tracked) = self.tracked.get() else { return };
        // In a forked child the copying thread, and perhaps its locks' holders, are not there.
        if self.check_fork().is_err() {
            return;
        }
        {
            let mut state = self.state.lock();
            tracked.ahead.wanted.store(false, Ordering::SeqCst);
            state.ahead.due.clear();
        }
        drop(tracked.ahead.copying.lock());
    }

    /// After a live hook: has the keeper begin.
    pub(crate) fn copy_ahead_soon(&self) {
        if self.tracked.get().is_some_and(|t| t.ahead.is_wanted()) {
            // Before, the keeper may look for other areas' sake, and would find nothing to do here.
            let Ok(mut state) = self.lock_for_change() else { return };
            state.ahead.begun = true;
            drop(state);
            keeper::copy_ahead();
        }
    }

    /// Copies one extent ahead; `true` when there may be another.
    pub(crate) fn copy_one_ahead(&self) -> Result<bool> {
        let Some(tracked) = self.tracked.get().filter(|t| t.ahead.is_wanted()) else {
            return Ok(false);
        };
        let _copying = tracked.ahead.copying.lock();
        let Some(claim) = self.claim_ahead(&mut *self.lock_for_change()?) else {
            return Ok(false);
        };
        let filled = tracked.make_version(claim.extent, claim.word);
        if let Ok(Version::Scratch(scratch)) = filled {
            mem::drop_scratch(scratch, self.geometry.len(claim.extent).as_usize());
        }
        let mut state = match self.lock_for_change() {
            Ok(state) => state,
            Err(fault) => {
                // The plane is spare as before: whatever is in it, nobody sees it.
                self.states.set(claim.extent, claim.word);
                return Err(fault);
            }
        };
        let placed = match filled {
            Ok(_) => self.place_ahead(&mut state, &claim),
            Err(e) => Err(mapping_fault(e, &self.memory_path())),
        };
        // Keeps the handler away until it is decided where the next version goes.
        self.states.set(claim.extent, FROZEN | UNARMED);
        self.arm(&mut state, claim.extent, false);
        debug_assert!(
            placed.is_err()
                || self.states.word(claim.extent) & IN_PLACE != 0
                || self.states.get(claim.extent) != FROZEN,
            "INV-AREA-2: nobody sees what has just been made"
        );
        placed.map(|()| true)
    }

    /// The next extent whose turn it is, claimed.
    fn claim_ahead(&self, state: &mut State) -> Option<Claim> {
        let tracked = self.tracked.get().filter(|t| t.ahead.is_wanted())?;
        if tracked.gate.held_by_other() || !state.ahead.begun {
            return None;
        }
        while let Some(extent) = state.ahead.due.pop() {
            let word = self.states.word(extent) & !WAITERS;
            // Stored to meanwhile, shown by nobody, or without memory that is held for it.
            let flags = SPARE | IN_PLACE | UNARMED | NO_PLANE;
            if extents::state_of(word) != FROZEN || word & flags != SPARE {
                continue;
            }
            let Some(own) = state.own.get(extent) else { continue };
            let claimed = word & !7 | FAULTING;
            if self.states.replace(extent, word, claimed) {
                assert_ne!(own.plane, extents::plane_of(word), "INV-AREA-12: into another plane");
                return Some(Claim { extent, word, own });
            }
        }
        None
    }

    /// Shows the new version, for reading, in place of the one it was copied from.
    fn place_ahead(&self, state: &mut State, claim: &Claim) -> Result<()> {
        let Claim { extent, word, own } = *claim;
        assert_eq!(state.own.get(extent), Some(own), "INV-AREA-12: a claimed extent stays");
        let (start, len) = (self.geometry.start(extent), self.geometry.len(extent).0);
        let (plane, born) = (extents::plane_of(word), state.next_epoch);
        let file_offset = self.geometry.plane_offset(plane, start);
        let run = Run { start: start.0, len, source: 0, file_offset };
        let file = self.file_of(state, 0)?;
        if let Err(e) = self.mapping.map_run(&run, &file, false) {
            self.restore(state, start.0, start.0 + len);
            return Err(mapping_fault(e, &self.memory_path()));
        }
        let spare = state.versions.take(&self.geometry, extent, plane);
        assert!(spare, "INV-AREA-12: nobody else has taken or punched the plane");
        state.own.set(extent, Some(Own { plane, born }));
        let State { versions, live, .. } = &mut *state;
        versions.free(&self.geometry, live, (extent, own.plane), own.born, born);
        state.runs.set(run);
        state.dirty = true;
        if let Some(tracked) = self.tracked.get() {
            tracked.copied.fetch_add(len, Ordering::Relaxed);
        }
        state.ahead.made.insert(extent);
        debug_assert!(start < AreaOffset(self.geometry.reserve().0));
        Ok(())
    }
}
