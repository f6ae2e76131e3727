//! How a publish stops all threads without an atomic instruction on their fast path.
//!
//! A thread marks itself busy with a plain store, then looks whether its gate is closed; whoever
//! pauses closes every gate, and then looks who is busy. Between the two steps of the pauser the
//! system call `membarrier` makes every thread of the process pass a full barrier, so that either
//! the thread sees the closed gate or the pauser sees it busy (an asymmetric Dekker protocol).
//! Where the system call is refused each operation pays for a barrier of its own.
//!
//! A gate stays closed until its thread has passed the write barrier for its cache again: one flag
//! says both "somebody publishes" and "your cache may be frozen".

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence, fence};

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
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let offered = membarrier(QUERY);
        let needed = i64::from(PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED);
        offered >= 0 && offered & needed == needed && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0
    })
}

/// The gate of one thread.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Gate {
    busy: AtomicU32,
    closed: AtomicU32,
    heavy: AtomicBool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let heavy = !asymmetric();
        Gate { busy: AtomicU32::new(0), closed: AtomicU32::new(1), heavy: AtomicBool::new(heavy) }
    }

    /// True if the owner may work until [`Gate::leave`]; the owner's thread only.
    #[inline(always)]
    pub(crate) fn enter(&self) -> bool {
        self.busy.store(1, Ordering::Relaxed);
        if self.heavy.load(Ordering::Relaxed) {
            fence(Ordering::SeqCst);
        }
        compiler_fence(Ordering::SeqCst);
        if self.closed.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.leave();
        false
    }

    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.busy.store(0, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) != 0
    }

    /// By the owner under the central lock, when its cache is writable.
    pub(crate) fn open(&self) {
        self.closed.store(0, Ordering::Relaxed);
    }

    /// Closes all gates and waits until nobody is inside; under the central lock.
    pub(crate) fn close_all<'a>(gates: impl Iterator<Item = &'a Gate> + Clone) {
        gates.clone().for_each(|gate| gate.closed.store(1, Ordering::SeqCst));
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
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
            }
        }
    }
}
