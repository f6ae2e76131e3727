//! The allocator of this library itself, of what comes before the heap, and of forked children:
//! mimalloc, whose locks nobody holds when the process forks.
//!
//! In the child the thread that held one is not there: its first block would be waited for without
//! end. So threads say when they are inside; a fork waits for those that are, and others wait for
//! the fork. Each wait is bounded: an atfork handler of the program may need what one of those that
//! wait has, and it is better then to fork as if nobody looked.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mimalloc::MiMalloc;

const NAP: Duration = Duration::from_micros(50);
/// Naps of a wait.
const MAX_NAPS: u32 = 10_000;

/// A count in a cache line of its own.
#[repr(align(64))]
struct Inside(AtomicUsize);

/// How many threads are inside, of each kind of number.
static INSIDE: [Inside; 16] = [const { Inside(AtomicUsize::new(0)) }; 16];
/// The thread that forks, or 0.
static FORKING: AtomicUsize = AtomicUsize::new(0);

fn this_thread() -> usize {
    // SAFETY: asks only.
    unsafe { libc::pthread_self() as usize }
}

/// By the bare system call: the function is one in which a thread may be cancelled.
fn nap() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: NAP.subsec_nanos().into() };
    let rest: *mut libc::timespec = null_mut();
    // SAFETY: reads `time` only.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, rest) };
}

/// Waits, but not for ever, until `done`.
fn wait_until(done: impl Fn() -> bool) {
    for _ in 0..MAX_NAPS {
        if done() {
            return;
        }
        nap();
    }
}

/// Mimalloc, as described in the module documentation.
pub(crate) struct OwnAllocator;

impl OwnAllocator {
    fn inside<T>(&self, f: impl FnOnce() -> T) -> T {
        let me = this_thread();
        let count = &INSIDE[(me >> 12 ^ me >> 23) % INSIDE.len()].0;
        let mut naps = 0;
        loop {
            count.fetch_add(1, Ordering::SeqCst);
            if [0, me].contains(&FORKING.load(Ordering::SeqCst)) || naps == MAX_NAPS {
                break;
            }
            count.fetch_sub(1, Ordering::SeqCst);
            nap();
            naps += 1;
        }
        let done = f();
        count.fetch_sub(1, Ordering::SeqCst);
        done
    }
}

// SAFETY: as mimalloc.
unsafe impl GlobalAlloc for OwnAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, here and below.
        self.inside(|| unsafe { MiMalloc.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.inside(|| unsafe { MiMalloc.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        self.inside(|| unsafe { MiMalloc.dealloc(block, layout) });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: as above.
        self.inside(|| unsafe { MiMalloc.realloc(block, layout, len) })
    }
}

/// Registers what a fork has to do; before the handlers of `swing`, which so come first before a
/// fork: who holds their locks may need memory.
pub(crate) fn begin() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    match unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        _ => Err("no fork handler".into()),
    }
}

extern "C" fn before_fork() {
    let me = this_thread();
    let closed = || FORKING.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst).is_ok();
    wait_until(closed);
    wait_until(|| INSIDE.iter().all(|inside| inside.0.load(Ordering::SeqCst) == 0));
}

extern "C" fn in_parent() {
    FORKING.store(0, Ordering::SeqCst);
}

extern "C" fn in_child() {
    INSIDE.iter().for_each(|inside| inside.0.store(0, Ordering::SeqCst));
    FORKING.store(0, Ordering::SeqCst);
}
