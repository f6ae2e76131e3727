//! Which tracked area an address belongs to: a table that a signal handler can read.
//!
//! Slots are taken and given back under a lock, and read without one. A reader counts itself in
//! before it uses what a slot points to; whoever empties a slot waits until the count is zero. So
//! nothing is freed under a handler, and a handler never waits here.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::sys::process;
use crate::sys::sync::Mutex;
use crate::trap::trapped_area::Tracked;

/// The most areas one process can track at a time.
pub(crate) const MAX_TRACKED: usize = 1024;

struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    area: AtomicPtr<Tracked>,
    users: AtomicU32,
}

impl Slot {
    const fn empty() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            area: AtomicPtr::new(null_mut()),
            users: AtomicU32::new(0),
        }
    }
}

static SLOTS: [Slot; MAX_TRACKED] = [const { Slot::empty() }; MAX_TRACKED];
/// No slot at or above has ever been used.
static USED: AtomicUsize = AtomicUsize::new(0);
pub(crate) static CHANGE: Mutex<()> = Mutex::new(());

/// A tracked area that cannot go away as long as this lives.
pub(crate) struct Found {
    slot: &'static Slot,
    area: *const Tracked,
}

impl std::ops::Deref for Found {
    type Target = Tracked;
    fn deref(&self) -> &Tracked {
        // SAFETY: the slot's user count was raised before the pointer was read, and `forget`
        // returns, so that the area may be freed, only when it is zero again.
        unsafe { &*self.area }
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        self.slot.users.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The area of this process that tracks an address.
pub(crate) fn find(address: usize) -> Option<Found> {
    for slot in &SLOTS[..USED.load(Ordering::Acquire)] {
        let (start, end) = (slot.start.load(Ordering::Acquire), slot.end.load(Ordering::Acquire));
        if address < start || address >= end {
            continue;
        }
        slot.users.fetch_add(1, Ordering::SeqCst);
        let found = Found { slot, area: slot.area.load(Ordering::SeqCst) };
        // The slot may have been given to another area between the looks.
        if !found.area.is_null() && found.contains(address) && found.is_of_this_process() {
            return Some(found);
        }
    }
    None
}

/// Whether an area has been entered.
pub(crate) fn has(area: &Tracked) -> bool {
    let _change = CHANGE.lock();
    SLOTS.iter().any(|slot| std::ptr::eq(slot.area.load(Ordering::SeqCst), area))
}

/// Enters an area; `false` when the table is full.
pub(crate) fn enter(area: &Tracked) -> bool {
    let _change = CHANGE.lock();
    let free =
        |s: &&Slot| s.area.load(Ordering::SeqCst).is_null() && s.users.load(Ordering::SeqCst) == 0;
    let Some(index) = SLOTS.iter().position(|s| free(&s)) else { return false };
    let slot = &SLOTS[index];
    slot.area.store(std::ptr::from_ref(area).cast_mut(), Ordering::SeqCst);
    slot.end.store(area.base + area.len, Ordering::Release);
    slot.start.store(area.base, Ordering::Release);
    USED.fetch_max(index + 1, Ordering::Release);
    true
}

/// Takes an area out and waits until no handler uses it.
pub(crate) fn forget(area: &Tracked) {
    let _change = CHANGE.lock();
    let used = USED.load(Ordering::Acquire);
    for slot in &SLOTS[..used] {
        if !std::ptr::eq(slot.area.load(Ordering::SeqCst), area) {
            continue;
        }
        slot.area.store(null_mut(), Ordering::SeqCst);
        slot.end.store(0, Ordering::Release);
        slot.start.store(0, Ordering::Release);
        // In a forked child the users are threads of the parent.
        while area.generation == process::fork_generation() && slot.users.load(Ordering::SeqCst) > 0
        {
            std::thread::yield_now();
        }
    }
}
