//! Taking an area's lock: for a change, with nobody at work, or with some extents at rest.
//!
//! Work outside the lock happens on extents that are marked busy. Whoever needs the whole state
//! waits until none is; whoever begins such work lets those go first. A thread that panics at work
//! breaks the area, and every later change is refused.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::area::core::Core;
use crate::area::tables::Tables;
use crate::model::error::{Fault, Result};
use crate::model::extent_word::{self, BUSY, FAULTING};
use crate::model::units::ExtentId;
use crate::sys::process;
use crate::sys::sync::MutexGuard;
use crate::trap::gate::Closed;
use crate::trap::pin_count::Wanted;

/// How often work is put off for those who want the whole state; about a tenth of a second.
const MAX_COURTESY: u32 = 200;

/// Work on an area outside its lock: a panic there breaks the area.
pub(crate) struct AtWork<'a> {
    core: &'a Core,
    /// The thread was unwinding already: what it does meanwhile may well succeed.
    unwinding: bool,
}

impl<'a> AtWork<'a> {
    pub(crate) fn begin(core: &'a Core) -> Self {
        Self { core, unwinding: std::thread::panicking() }
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.core.break_off();
        }
    }
}

impl Core {
    /// Takes the lock for a change: refused in a forked child, where the lock itself may be held by
    /// nobody.
    pub(crate) fn lock_for_change(&self) -> Result<MutexGuard<'_, Tables>> {
        self.check_fork()?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(Fault::Closed);
        }
        self.check_whole()?;
        self.absorb(&mut state);
        Ok(state)
    }

    /// From now on the area is not used any more.
    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::Relaxed);
        self.idle.notify_all();
    }

    /// Whether no thread has met a broken invariant of this area.
    pub(crate) fn check_whole(&self) -> Result<()> {
        let broken = self.state.is_poisoned() || self.broken.load(Ordering::Relaxed);
        if broken { Err(Fault::Broken) } else { Ok(()) }
    }

    pub(crate) fn check_fork(&self) -> Result<()> {
        if self.generation == process::fork_generation() { Ok(()) } else { Err(Fault::Forked) }
    }

    /// As `lock_for_change`, and nobody is working on extents outside the lock, nor is anything
    /// mapped in advance.
    pub(crate) fn lock_idle(&self) -> Result<MutexGuard<'_, Tables>> {
        self.idle_wanted.fetch_add(1, Ordering::Relaxed);
        let locked = self.lock_for_change();
        let idle = locked.and_then(|mut state| {
            while state.busy > 0 {
                // Whoever has panicked does not come back.
                self.check_whole()?;
                state = self.idle.wait(state);
            }
            self.check_whole()?;
            self.absorb(&mut state);
            assert!(state.busy == 0, "INV-AREA-3: no extent is claimed under the lock alone");
            if state.closed {
                return Err(Fault::Closed);
            }
            self.end_growth(&mut state)?;
            Ok(state)
        });
        let wanted = self.idle_wanted.fetch_sub(1, Ordering::Relaxed);
        assert!(wanted > 0, "whoever waits is counted once");
        idle
    }

    /// Called before work is begun outside the lock: without it, threads that go from one piece of
    /// work to the next would keep a publish or a fork waiting without end.
    pub(crate) fn let_others_go_first(&self) {
        let mut tries = 0;
        while self.idle_wanted.load(Ordering::Relaxed) > 0 && tries < MAX_COURTESY {
            crate::sys::backoff::pause(tries);
            tries += 1;
        }
    }

    /// Locks for a change of some extents: nobody works on them, nobody holds stores off, and the
    /// handler begins nothing as long as the second result lives.
    #[allow(clippy::type_complexity)]
    pub(crate) fn lock_settled(
        &self,
        extents: Range<u32>,
    ) -> Result<(MutexGuard<'_, Tables>, Option<Closed<'_>>)> {
        loop {
            let mut state = self.lock_for_change()?;
            while extents.clone().any(|e| self.words.get(ExtentId(e)) == BUSY) {
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
            let faulting = |e: &u32| self.words.get(ExtentId(*e)) == FAULTING;
            let Some(extent) = extents.clone().find(faulting).map(ExtentId) else {
                return Ok((state, Some(closed)));
            };
            let word = self.words.word(extent);
            // The handler may need the gate to finish: wait without it, and without the lock.
            drop(closed);
            drop(state);
            if extent_word::state_of(word) == FAULTING {
                self.words.wait(extent, word);
            }
        }
    }

    pub(crate) fn close_gate(&self) -> Option<Closed<'_>> {
        self.tracked.get().map(|tracked| tracked.gate.close())
    }

    /// Whether something may be frozen. The gate is closed.
    pub(crate) fn has_pins(&self) -> bool {
        self.tracked.get().is_some_and(|tracked| tracked.pins.are_there())
    }

    /// Has new pins wait until the result is dropped; of an area that may have pins.
    pub(crate) fn want_no_pins(&self) -> Option<Wanted<'_>> {
        self.tracked.get().map(|tracked| tracked.pins.want_none())
    }
}
