//! Holding all stores off for a moment of the program's choice.

use std::marker::PhantomData;

use crate::area::core::Core;
use crate::area::handle::Area;
use crate::model::error::{PublishError, Result};
use crate::publish::protect::Freeze;

/// Stores into the area wait as long as it lives; see [`Area::hold_stores`].
#[derive(Debug)]
pub struct HoldGuard<'a> {
    core: &'a Core,
    // The thread that holds is the one whose stores go on.
    _thread: PhantomData<*const ()>,
}

impl Drop for HoldGuard<'_> {
    fn drop(&mut self) {
        if let Some(tracked) = self.core.tracked.get().filter(|t| t.is_of_this_process()) {
            tracked.gate.end_hold();
        }
    }
}

impl Area {
    /// Holds all stores off as long as the guard lives: every thread that stores into the area
    /// stops at its store and goes on when the guard is dropped. What the calling thread sees and
    /// publishes meanwhile is one moment, also over several areas held at once. It may itself store
    /// and make writable; protection is the process's, so an extent that it does that to is open to
    /// every thread again. Keep it short, and take no lock that a storing thread may hold.
    ///
    /// The area must be tracked: in others stores into private extents are not trapped, and nothing
    /// is held.
    pub fn hold_stores(&self) -> Result<HoldGuard<'_>, PublishError> {
        let core = &*self.core;
        core.hold_stores().map_err(|fault| PublishError::from_fault(fault, &core.context()))
    }
}

impl Core {
    fn hold_stores(&self) -> Result<HoldGuard<'_>> {
        let tracked = self.tracked.get();
        if let Some(tracked) = tracked {
            self.check_fork()?;
            tracked.gate.begin_hold();
        }
        let held = self.lock_idle().and_then(|mut state| self.freeze(&mut state, Freeze::Hold));
        if let (Err(_), Some(tracked)) = (&held, tracked) {
            tracked.gate.end_hold();
        }
        held.map(|()| HoldGuard { core: self, _thread: PhantomData })
    }
}
