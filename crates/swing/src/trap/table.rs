//! Which tracked area an address belongs to: a table that a signal handler can read.
//!
//! Slots are taken and given back under a lock, and read without one. A reader counts itself in
//! before it uses what a slot points to; whoever empties a slot waits until the count is zero. So
//! nothing is freed under a handler, and a handler never waits here.

use std::ops::{Deref, Range};
use std::ptr::null_mut;

use crate::sys::atomics::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, yield_now};
use crate::sys::sync::{Mutex, MutexGuard};
use crate::trap::trapped_area::Tracked;

/// The most areas one process can track at a time.
pub(crate) const MAX_TRACKED: usize = 1024;

/// What a table is of.
pub(crate) trait Entry {
    fn addresses(&self) -> Range<usize>;
    /// In a forked child the threads that use an entry are the parent's.
    fn is_of_this_process(&self) -> bool;
}

impl Entry for Tracked {
    fn addresses(&self) -> Range<usize> {
        self.base..self.base + self.len
    }

    fn is_of_this_process(&self) -> bool {
        Tracked::is_of_this_process(self)
    }
}

struct Slot<T> {
    start: AtomicUsize,
    end: AtomicUsize,
    entry: AtomicPtr<T>,
    users: AtomicU32,
}

impl<T> Slot<T> {
    #[cfg(not(loom))]
    const fn empty() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            entry: AtomicPtr::new(null_mut()),
            users: AtomicU32::new(0),
        }
    }

    #[cfg(loom)]
    fn empty() -> Self {
        Self {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            entry: AtomicPtr::new(null_mut()),
            users: AtomicU32::new(0),
        }
    }
}

/// See the module's documentation.
pub(crate) struct Table<T, const N: usize> {
    slots: [Slot<T>; N],
    /// No slot at or above has ever been used.
    used: AtomicUsize,
    change: Mutex<()>,
}

/// An entry that cannot go away as long as this lives.
pub(crate) struct Found<'a, T> {
    slot: &'a Slot<T>,
    entry: *const T,
}

impl<T> Deref for Found<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the slot's user count was raised before the pointer was read, and `forget`
        // returns, so that the entry may be freed, only when it is zero again.
        unsafe { &*self.entry }
    }
}

impl<T> Drop for Found<'_, T> {
    fn drop(&mut self) {
        self.slot.users.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<T: Entry, const N: usize> Table<T, N> {
    #[cfg(not(loom))]
    const fn new() -> Self {
        let slots = [const { Slot::empty() }; N];
        Self { slots, used: AtomicUsize::new(0), change: Mutex::new(()) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        let slots = std::array::from_fn(|_| Slot::empty());
        Self { slots, used: AtomicUsize::new(0), change: Mutex::new(()) }
    }

    /// The entry that an address belongs to.
    pub(crate) fn find(&self, address: usize) -> Option<Found<'_, T>> {
        for slot in self.slots.iter().take(self.used.load(Ordering::Acquire)) {
            let start = slot.start.load(Ordering::Acquire);
            let end = slot.end.load(Ordering::Acquire);
            if address < start || address >= end {
                continue;
            }
            slot.users.fetch_add(1, Ordering::SeqCst);
            let found = Found { slot, entry: slot.entry.load(Ordering::SeqCst) };
            // The slot may have been given to another entry between the looks.
            if !found.entry.is_null()
                && found.addresses().contains(&address)
                && found.is_of_this_process()
            {
                return Some(found);
            }
        }
        None
    }

    /// Whether it has been entered.
    fn has(&self, entry: &T) -> bool {
        let _change = self.change.lock();
        self.slots.iter().any(|slot| std::ptr::eq(slot.entry.load(Ordering::SeqCst), entry))
    }

    /// Enters it, until it is forgotten; `false` when the table is full.
    pub(crate) fn enter(&self, entry: &T) -> bool {
        let _change = self.change.lock();
        let free = |s: &Slot<T>| {
            s.entry.load(Ordering::SeqCst).is_null() && s.users.load(Ordering::SeqCst) == 0
        };
        let Some(index) = self.slots.iter().position(free) else { return false };
        let (slot, addresses) = (&self.slots[index], entry.addresses());
        slot.entry.store(std::ptr::from_ref(entry).cast_mut(), Ordering::SeqCst);
        slot.end.store(addresses.end, Ordering::Release);
        slot.start.store(addresses.start, Ordering::Release);
        self.used.fetch_max(index + 1, Ordering::Release);
        true
    }

    /// Takes it out and waits until nobody uses it.
    pub(crate) fn forget(&self, entry: &T) {
        let _change = self.change.lock();
        for slot in self.slots.iter().take(self.used.load(Ordering::Acquire)) {
            if !std::ptr::eq(slot.entry.load(Ordering::SeqCst), entry) {
                continue;
            }
            slot.entry.store(null_mut(), Ordering::SeqCst);
            slot.end.store(0, Ordering::Release);
            slot.start.store(0, Ordering::Release);
            while entry.is_of_this_process() && slot.users.load(Ordering::SeqCst) > 0 {
                yield_now();
            }
        }
    }
}

#[cfg(not(loom))]
static AREAS: Table<Tracked, MAX_TRACKED> = Table::new();
#[cfg(loom)]
static AREAS: std::sync::LazyLock<Table<Tracked, MAX_TRACKED>> =
    std::sync::LazyLock::new(Table::new);

/// The area of this process that tracks an address.
pub(crate) fn find(address: usize) -> Option<Found<'static, Tracked>> {
    AREAS.find(address)
}

/// Whether an area has been entered.
pub(crate) fn has(area: &Tracked) -> bool {
    AREAS.has(area)
}

/// Enters an area; `false` when the table is full.
pub(crate) fn enter(area: &Tracked) -> bool {
    AREAS.enter(area)
}

/// Takes an area out and waits until no handler uses it.
pub(crate) fn forget(area: &Tracked) {
    AREAS.forget(area);
}

/// Nobody changes the table as long as the result lives.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    AREAS.change.lock()
}
