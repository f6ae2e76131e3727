//! How many ranges of an area are pinned, and who waits until none is.
//!
//! **Concurrency.** Counting takes no lock and allocates nothing: usable in a signal handler.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::sys::futex;

/// How long a new pin waits for one who wants to freeze.
pub(crate) const COURTESY: Duration = Duration::from_millis(2);

/// The pins of one area.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pub(crate) count: AtomicU32,
    /// Those who wait until there are none.
    pub(crate) waiting: AtomicU32,
}

impl Pins {
    pub(crate) fn give_back(&self) -> bool {
        let less = |count: u32| count.checked_sub(1);
        let before = self.count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        if before == Ok(1) && self.waiting.load(Ordering::SeqCst) > 0 {
            futex::wake_all(&self.count);
        }
        before.is_ok()
    }

    pub(crate) fn are_there(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Waits until there are none; `false`: not in time.
    pub(crate) fn wait_until_none(&self, end: Instant) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let none = loop {
            let count = self.count.load(Ordering::SeqCst);
            let left = end.saturating_duration_since(Instant::now());
            if count == 0 || left.is_zero() {
                break count == 0;
            }
            futex::wait(&self.count, count, Some(left));
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if none {
            futex::wake_all(&self.waiting);
        }
        none
    }

    pub(crate) fn let_others_freeze(&self) {
        let waiting = self.waiting.load(Ordering::SeqCst);
        if waiting > 0 {
            futex::wait(&self.waiting, waiting, Some(COURTESY));
        }
    }
}
