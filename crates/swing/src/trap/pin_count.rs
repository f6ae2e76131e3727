//! How many ranges of an area are pinned, and who waits until none is.
//!
//! **Concurrency.** Counting takes no lock and allocates nothing: usable in a signal handler.
//!
//! **Fairness.** Whoever wants to freeze says so ([`Pins::want_none`]) from the first pin it finds
//! until it has frozen. New pins wait meanwhile, as long as older ones are given back: so a stream
//! of pins, however many threads pin, comes to an end. Where none is given back a new pin goes on
//! after a moment: the older one may be its own thread's.

use std::time::{Duration, Instant};

use crate::sys::atomics::{AtomicU32, Ordering};
use crate::sys::futex;
use crate::trap::gate::StoreGate;

/// How long a new pin waits for one who wants to freeze, before it looks whether pins are given
/// back.
pub(crate) const COURTESY: Duration = Duration::from_millis(2);
/// After so many looks a new pin goes on in any case.
pub(crate) const MAX_LOOKS: u32 = 50;

/// The pins of one area.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pub(crate) count: AtomicU32,
    /// Those who want that there are none.
    pub(crate) waiting: AtomicU32,
}

/// New pins wait as long as this lives.
#[derive(Debug)]
pub(crate) struct Wanted<'a>(&'a Pins);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let before = self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "wanted once");
        if before == 1 {
            futex::wake_all(&self.0.waiting);
        }
    }
}

impl Wanted<'_> {
    /// Waits until there are none; `false`: not in time.
    pub(crate) fn wait_until_none(&self, end: Instant) -> bool {
        loop {
            let count = self.0.count.load(Ordering::SeqCst);
            let left = end.saturating_duration_since(Instant::now());
            if count == 0 || left.is_zero() {
                return count == 0;
            }
            futex::wait(&self.0.count, count, Some(left));
        }
    }
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

    /// Counts a pin, if what it is about may be written inside the gate: then it stays so.
    pub(crate) fn take(&self, gate: &StoreGate, is_writable: impl FnOnce() -> bool) -> bool {
        gate.enter();
        self.count.fetch_add(1, Ordering::SeqCst);
        let pinned = is_writable();
        gate.leave();
        if !pinned {
            self.give_back();
        }
        pinned
    }

    /// Has new pins wait. To be kept from the first pin that was in the way until there is no need
    /// for it any more: between the last pin's end and the freeze another one could come.
    pub(crate) fn want_none(&self) -> Wanted<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Wanted(self)
    }

    /// Before a new pin: waits while somebody wants that there are none and pins are given back.
    pub(crate) fn let_others_freeze(&self) {
        let mut before = u32::MAX;
        for _ in 0..MAX_LOOKS {
            let waiting = self.waiting.load(Ordering::SeqCst);
            let count = self.count.load(Ordering::SeqCst);
            // With none left, whoever freezes waits for no pin, so not for this thread's either.
            if waiting == 0 || (count > 0 && count >= before) {
                return;
            }
            before = count;
            futex::wait(&self.waiting, waiting, Some(COURTESY));
        }
    }
}
