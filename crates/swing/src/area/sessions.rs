//! Whether somebody may be storing into private extents, so that a fork knows whether it may freeze
//! the area for the child.
//!
//! Freezing while a thread stores would trap the store. So a store is counted before it happens,
//! and the fork handler looks at the count; who counts while a fork is under way waits until it is
//! over. Both sides write their own flag before they read the other's, sequentially consistent: at
//! least one of them sees the other.

use crate::sys::atomics::{AtomicBool, AtomicUsize, Ordering};

/// The sessions of one area.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// The client announces its stores at all.
    announced: AtomicBool,
    alive: AtomicUsize,
    /// A fork is about to freeze the area; set and cleared under the area's lock.
    freezing: AtomicBool,
}

impl Sessions {
    /// All stores are announced from now on.
    pub(crate) fn announce(&self) {
        self.announced.store(true, Ordering::Relaxed);
    }

    /// Counts somebody who stores. Either the fork handler sees the count and does not freeze, or
    /// this sees the handler and waits until the fork is over: `wait` takes the area's lock.
    pub(crate) fn begin(&self, wait: impl Fn()) {
        loop {
            self.alive.fetch_add(1, Ordering::SeqCst);
            if !self.freezing.load(Ordering::SeqCst) {
                return;
            }
            self.alive.fetch_sub(1, Ordering::SeqCst);
            wait();
        }
    }

    pub(crate) fn end(&self) {
        let before = self.alive.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "each session ends once");
    }

    /// Under the area's lock, which is held until after the fork: a new session waits for it from
    /// here on. Whether nobody stores.
    pub(crate) fn begin_freeze(&self) -> bool {
        let announced = self.announced.load(Ordering::Relaxed);
        self.freezing.store(true, Ordering::SeqCst);
        announced && self.alive.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn end_freeze(&self) {
        self.freezing.store(false, Ordering::SeqCst);
    }
}
