//! How a publish stops all threads without an atomic instruction on their fast path.
//!
//! A thread marks itself busy with a plain store, then looks whether its gate is closed; whoever
//! pauses closes every gate, and then looks who is busy. Between the two steps of the pauser the
//! system call `membarrier` makes every thread of the process pass a full barrier, so that either
//! the thread sees the closed gate or the pauser sees it busy (an asymmetric Dekker protocol).
//! Where the system call is refused each operation pays for a barrier of its own.
//!
//! A gate stays closed until its thread has passed the write barrier for its cache again. One word
//! says everything that an operation must know: the key of the heap that the cache belongs to, or
//! zero. So "is this my heap's cache", "does somebody publish" and "may the cache be frozen" are
//! one comparison.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU8;

use super::atomics::{
    AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence, light_fence, spin_loop, yield_now,
};

/// Rounds of spinning for a busy thread before the processor is given away.
const SPINS: u32 = 1000;
const QUERY: i32 = 0;
const PRIVATE_EXPEDITED: i32 = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

fn membarrier(command: i32) -> i64 {
    // SAFETY: the system call takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0_u32, 0_i32) }
}

/// True if the kernel makes other threads pass a barrier for us.
pub(crate) fn asymmetric() -> bool {
    const UNKNOWN: u8 = 2;
    // Several may find out at once: no child waits for a thread of its parent's.
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    match KNOWN.load(Ordering::Relaxed) {
        UNKNOWN => {}
        known => return known == 1,
    }
    let offered = membarrier(QUERY);
    let needed = i64::from(PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED);
    let known =
        offered >= 0 && offered & needed == needed && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0;
    KNOWN.store(u8::from(known), Ordering::Relaxed);
    known
}

/// In the word of an open gate: the thread must pass a barrier of its own.
const HEAVY: usize = 1;

/// The gate of one thread's cache.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Gate {
    /// The key of the heap while the owner may use the cache, else zero.
    open: AtomicUsize,
    busy: AtomicU32,
    /// Where the cache is mapped; null for the gate of nobody.
    cache: AtomicPtr<u8>,
}

impl Gate {
    /// A closed gate before a cache.
    pub(crate) fn new(cache: NonNull<u8>) -> Self {
        let gate = Gate::nobody();
        gate.cache.store(cache.as_ptr(), Ordering::Relaxed);
        gate
    }

    /// A gate that is never opened: of threads that have no cache.
    #[cfg(not(loom))]
    pub(crate) const fn nobody() -> Self {
        Gate {
            open: AtomicUsize::new(0),
            busy: AtomicU32::new(0),
            cache: AtomicPtr::new(null_mut()),
        }
    }

    #[cfg(loom)]
    pub(crate) fn nobody() -> Self {
        Gate {
            open: AtomicUsize::new(0),
            busy: AtomicU32::new(0),
            cache: AtomicPtr::new(null_mut()),
        }
    }

    /// The cache, if the owner may work on it until [`Gate::leave`]; the owner's thread only.
    /// `None` also where nobody passes a barrier for us: that is [`Gate::enter_heavily`].
    #[inline(always)]
    pub(crate) fn enter(&self, key: usize) -> Option<NonNull<u8>> {
        self.busy.store(1, Ordering::Relaxed);
        light_fence();
        if self.open.load(Ordering::Acquire) != key {
            self.leave();
            return None;
        }
        // SAFETY: only a gate with a cache is ever opened (`open`).
        Some(unsafe { NonNull::new_unchecked(self.cache.load(Ordering::Relaxed)) })
    }

    /// As [`Gate::enter`], of a gate that was opened where there is no `membarrier`.
    pub(crate) fn enter_heavily(&self, key: usize) -> Option<NonNull<u8>> {
        self.busy.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.open.load(Ordering::SeqCst) != key | HEAVY {
            self.leave();
            return None;
        }
        // SAFETY: only a gate with a cache is ever opened (`open`).
        Some(unsafe { NonNull::new_unchecked(self.cache.load(Ordering::Relaxed)) })
    }

    #[inline(always)]
    pub(crate) fn leave(&self) {
        debug_assert_eq!(self.busy.load(Ordering::Relaxed), 1, "left once");
        self.busy.store(0, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    /// By the owner under the central lock, when its cache is writable.
    pub(crate) fn open(&self, key: usize) {
        assert!(!self.cache.load(Ordering::Relaxed).is_null(), "a gate is before a cache");
        assert!(key != 0 && key & HEAVY == 0, "a key is an address");
        self.open.store(if asymmetric() { key } else { key | HEAVY }, Ordering::Relaxed);
    }

    /// By the owner under the central lock, before it changes the cache by other ways; or by
    /// whoever knows that the owner does nothing.
    pub(crate) fn close(&self) {
        debug_assert_eq!(self.busy.load(Ordering::Relaxed), 0, "nobody is inside");
        self.open.store(0, Ordering::Relaxed);
    }

    /// Closes all gates and waits until nobody is inside; under the central lock.
    pub(crate) fn close_all<'a>(gates: impl Iterator<Item = &'a Gate> + Clone) {
        gates.clone().for_each(|gate| gate.open.store(0, Ordering::SeqCst));
        fence(Ordering::SeqCst);
        if asymmetric() {
            let done = membarrier(PRIVATE_EXPEDITED);
            assert_eq!(done, 0, "a registered process may always pass a barrier");
        }
        for gate in gates {
            let mut tries = 0_u32;
            while gate.busy.load(Ordering::SeqCst) != 0 {
                tries += 1;
                if tries.is_multiple_of(SPINS) {
                    yield_now();
                }
                spin_loop();
            }
        }
    }
}

/// Models: each order of the threads' steps is run (`make test-concurrency`).
#[cfg(all(test, loom))]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    const KEY: usize = 64;

    /// A cache, which its owner changes inside the gate, and others while the gate is closed.
    struct Cached {
        gate: Gate,
        central: Mutex<()>,
        cache: UnsafeCell<u32>,
    }

    /// The owner works on its cache twice, and opens its gate again if need be, while another
    /// thread closes it twice. How the owner enters is the argument.
    fn owner_and_closer_are_never_at_it_together(
        opened: usize,
        enter: fn(&Gate) -> Option<NonNull<u8>>,
    ) {
        loom::model(move || {
            let cached = Arc::new(Cached {
                gate: Gate::new(NonNull::dangling()),
                central: Mutex::new(()),
                cache: UnsafeCell::new(0),
            });
            cached.gate.open.store(opened, Ordering::Relaxed);
            let owner = cached.clone();
            let owner = thread::spawn(move || {
                for _ in 0..2 {
                    if enter(&owner.gate).is_some() {
                        // SAFETY: the gate is the owner's now.
                        owner.cache.with_mut(|cache| unsafe { *cache += 1 });
                        owner.gate.leave();
                    } else {
                        let _central = owner.central.lock().unwrap();
                        owner.gate.open.store(opened, Ordering::Relaxed);
                    }
                }
            });
            for _ in 0..2 {
                let _central = cached.central.lock().unwrap();
                Gate::close_all([&cached.gate].into_iter());
                // SAFETY: nobody is inside the gate (INV-MALLOC-5).
                cached.cache.with_mut(|cache| unsafe { *cache += 1 });
            }
            owner.join().unwrap();
        });
    }

    /// With barriers of the owner's own. Fails without its fence or that of `close_all`, when
    /// `leave` is relaxed, and when `close_all` does not wait.
    #[test]
    fn no_owner_is_inside_a_closed_gate_by_fences() {
        owner_and_closer_are_never_at_it_together(KEY | HEAVY, |gate| gate.enter_heavily(KEY));
    }

    /// With the barriers that `membarrier` makes of an owner's light ones. Fails without these,
    /// when `enter` looks before it says that it is busy, and as above.
    #[test]
    fn no_owner_is_inside_a_closed_gate_by_light_fences() {
        owner_and_closer_are_never_at_it_together(KEY, |gate| gate.enter(KEY));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    const KEY: usize = 64;

    fn cache() -> NonNull<u8> {
        NonNull::from(Box::leak(Box::new(0_u8)))
    }

    #[test]
    fn only_the_heap_that_opened_a_gate_passes_it() {
        let gate = Gate::new(cache());
        // As the allocator does, with or without `membarrier`.
        let enter = |gate: &Gate, key| {
            if asymmetric() { gate.enter(key) } else { gate.enter_heavily(key) }
        };
        assert!(gate.is_closed() && enter(&gate, KEY).is_none());
        gate.open(KEY);
        assert!(!gate.is_closed() && enter(&gate, KEY + 64).is_none());
        assert_eq!(
            enter(&gate, KEY).map(|cache| cache.as_ptr()),
            Some(gate.cache.load(Ordering::Relaxed))
        );
        gate.leave();
        Gate::close_all([&gate].into_iter());
        assert!(enter(&gate, KEY).is_none() && gate.busy.load(Ordering::SeqCst) == 0);
        assert!(enter(&Gate::nobody(), KEY).is_none());
    }

    /// The owner adds to two numbers inside the gate; whoever closes it must see them equal.
    fn numbers_agree(heavy: bool) {
        let (gate, stop) = (Gate::new(cache()), AtomicBool::new(false));
        let numbers = [AtomicU64::new(0), AtomicU64::new(0)];
        let opened = KEY | if heavy { HEAVY } else { 0 };
        gate.open.store(opened, Ordering::SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if gate.enter(KEY).or_else(|| gate.enter_heavily(KEY)).is_some() {
                        for number in &numbers {
                            number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        }
                        gate.leave();
                    } else {
                        // As a thread that waits for the central lock.
                        std::thread::yield_now();
                    }
                }
            });
            for _ in 0..500 {
                Gate::close_all([&gate].into_iter());
                let [a, b] = [0, 1].map(|i: usize| numbers[i].load(Ordering::Relaxed));
                assert_eq!(a, b, "INV-MALLOC-5");
                gate.open.store(opened, Ordering::SeqCst);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn whoever_closes_a_gate_sees_no_half_operation() {
        numbers_agree(true);
        if asymmetric() {
            numbers_agree(false);
        }
    }
}
