//! Pins: ranges into which the kernel or a device stores, not a thread of this process.
//!
//! Direct I/O, `io_uring` and asynchronous I/O look up the pages of a buffer once. Then a device or
//! a kernel thread stores into these pages, whatever the page tables say by then. Pages that were
//! frozen meanwhile would change (INV-AREA-1). A version that a trapped store has copied meanwhile
//! would miss data that still arrives. So nothing is frozen while a range is pinned: a publish
//! waits for a while, and then fails; so does a live hook.
//!
//! **Concurrency.** A pin is counted inside the gate ([`crate::trap::gate`]), after a check that
//! the range is writable. The thread that freezes closes the gate before it reads the count, so one
//! of the two sees the other. Counting takes no lock and allocates nothing, so a signal handler may
//! do it. A thread that wants to freeze and has found a pin goes first for a while
//! ([`crate::trap::pin_count`]). So threads that pin one range after the other do not keep it
//! waiting. It does not go first for ever, since it may wait for a pin of the very thread that
//! wants another.
//!
//! **Crash, fork.** The count belongs to the process. A child's copies of pins mean nothing. A fork
//! waits for pins as a publish does; if that takes too long, the child has nothing of the area.

use std::time::Duration;

use crate::memory::extent_words::ExtentWords;
use crate::model::units::{AreaId, ExtentId};
use crate::sys::block_signals::HeldOff;
use crate::trap::resolve::prepare;
use crate::trap::table;
use crate::trap::trapped_area::Tracked;

/// How long a publish, a live hook and a fork wait for pins.
pub const MAX_PINNED: Duration = Duration::from_secs(2);

/// A range is pinned as long as this lives; see [`pin`].
#[derive(Debug)]
#[must_use]
pub struct Pin {
    address: usize,
    len: usize,
    /// The area where it begins: another one may have its addresses by the time of the drop.
    area: Option<AreaId>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let first = table::find(self.address).map(|area| area.id);
        if first.is_some() && first == self.area {
            unpin(self.address as *const u8, self.len);
        }
    }
}

/// Makes a range writable, as [`prepare`], and keeps it so: as long as the result
/// lives the areas that it lies in are not published, nor hooked live. For direct I/O (`O_DIRECT`),
/// `io_uring` and asynchronous I/O into a tracked area: from before the request, or the
/// registration of the buffer, until it is complete, or unregistered. `None`: there is no memory.
///
/// A publish waits for at most [`MAX_PINNED`], and then is an error; so the thread that pins and
/// publishes must not do both at once. Async-signal-safe, as is the drop. Addresses in no tracked
/// area are left alone.
pub fn pin(address: *const u8, len: usize) -> Option<Pin> {
    let (from, end) = (address as usize, (address as usize).saturating_add(len));
    let id = table::find(from).map(|area| area.id);
    let mut at = from;
    while at < end {
        let Some(area) = table::find(at) else { break };
        let area_end = area.base + area.len;
        if !area.pin(at, end.min(area_end)) {
            unpin(address, at - from);
            return None;
        }
        at = area_end;
    }
    Some(Pin { address: from, len, area: id })
}

/// Ends a pin of exactly this range; for callers that cannot keep a [`Pin`], and have forgotten it.
/// `false`: some of it was not pinned.
pub fn unpin(address: *const u8, len: usize) -> bool {
    let (mut at, end) = (address as usize, (address as usize).saturating_add(len));
    let mut all = true;
    while at < end {
        let Some(area) = table::find(at) else { break };
        all &= area.pins.give_back();
        at = area.base + area.len;
    }
    all
}

impl Tracked {
    /// Pins a part of this area that is not empty.
    fn pin(&self, from: usize, end: usize) -> bool {
        let extents = self.extent_at(from).0..self.extent_at(end - 1).0 + 1;
        let writable = |states: &ExtentWords| extents.clone().all(|e| states.keep_hot(ExtentId(e)));
        self.pins.let_others_freeze();
        loop {
            if !prepare(from as *const u8, end - from) {
                return false;
            }
            // A handler that stores while this thread is inside would wait for it.
            let _held = HeldOff::begin();
            if self.pins.take(&self.gate, || writable(&self.words)) {
                return true;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use super::*;
    use crate::trap::pin_count::{COURTESY, MAX_LOOKS, Pins};

    #[test]
    fn whoever_freezes_goes_before_the_next_pin_but_not_for_ever() {
        let pins = Pins::default();
        assert!(!pins.give_back(), "there is none");
        pins.let_others_freeze();
        pins.count.store(1, Ordering::SeqCst);
        let soon = || Instant::now() + Duration::from_millis(20);
        let wanted = pins.want_none();
        assert!(!wanted.wait_until_none(soon()));
        let begin = Instant::now();
        pins.let_others_freeze();
        let took = begin.elapsed();
        assert!(took >= COURTESY / 2, "{took:?}");
        assert!(pins.give_back() && wanted.wait_until_none(soon()) && !pins.are_there());
        std::thread::scope(|scope| {
            // Until it is frozen: the last pin's end is not enough.
            let next = scope.spawn(|| {
                pins.let_others_freeze();
                pins.waiting.load(Ordering::SeqCst)
            });
            std::thread::sleep(3 * COURTESY);
            drop(wanted);
            // Unless this thread got no processor for a tenth of a second.
            assert!(next.join().unwrap() == 0 || begin.elapsed() > COURTESY * MAX_LOOKS);
        });
        let _wanted = pins.want_none();
        pins.let_others_freeze();
        assert_eq!(pins.waiting.load(Ordering::SeqCst), 1, "a new pin goes on");
    }
}
