//! Memory that publishes have left, given back by the keeper: [`Area::give_back_later`].

use crate::area::handle::Area;
use crate::tracked::keeper;
use crate::trap::requests;

impl Area {
    /// Has a thread give the memory back that was discarded and that publishes have left: with the
    /// state that was current before, much may go (a table that was dropped), and a publish takes
    /// no longer for it. Without this call, or where no thread can be started, later calls of
    /// [`Area::make_writable`] give it back as they take memory; [`Area::reclaim`] does at once.
    /// The first call that finds something starts the thread.
    pub fn give_back_later(&self) {
        let core = &*self.core;
        let left = core.lock_for_change().is_ok_and(|state| core.has_left(&state));
        if left && keeper::start() {
            requests::give_back_left();
        }
    }
}
