//! The keeper: a thread that gives memory back for threads that must not.
//!
//! A store that finds the memory file system full happens inside a signal handler, which can take
//! no lock and allocate nothing. It asks the keeper, an ordinary thread, to reclaim what nobody
//! needs in all tracked areas, and waits for a bounded time: should the keeper itself wait for a
//! lock that the storing thread holds, the store goes on without it. It also writes down, every
//! few stores, what the handler has logged, and protects early what stores have left behind: a
//! hook need not wait for that then. Page tables that a hook has taken away it drops, a few at a
//! time, so that stores get the lock of the address space in between. After a fork, and as long as
//! the child's view of the parent lives, the keeper also looks whether the child has gone, so that
//! its memory comes back and extents can be written in place again.
//!
//! One thread a process, started with the first tracked area; a forked child has none, and needs
//! none: it tracks nothing of its parent's, and starts its own with its own first area.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::fork;
use crate::sys::block_signals::Quiet;
use crate::sys::sync::Mutex;
use crate::sys::{futex, process};
use crate::tracked::fault;

/// Naps a store waits for the keeper, 10 ms each.
const MAX_NAPS: u32 = 200;
/// How often what stores have left behind is protected early.
pub(super) const PROTECT: Duration = Duration::from_millis(10);
/// Between two changes of the address space: whoever stores needs its lock, and would come last.
pub(super) const PAUSE: Duration = Duration::from_micros(100);
/// How often views of forked children are looked at.
const LOOK: Duration = Duration::from_millis(50);

static REQUESTS: AtomicU32 = AtomicU32::new(0);
static ANSWERS: AtomicU32 = AtomicU32::new(0);
/// The fork generation + 1 in which the thread was started; 0: never.
static STARTED: AtomicU64 = AtomicU64::new(0);
pub(super) static START: Mutex<()> = Mutex::new(());
/// Whether somebody needs memory.
static SHORT: AtomicU32 = AtomicU32::new(0);
/// Whether there is something to write down.
static LOGGED: AtomicU32 = AtomicU32::new(0);
/// Whether there may be something to copy ahead.
static AHEAD: AtomicU32 = AtomicU32::new(0);
/// Whether there may be page tables to drop.
static LIFTED: AtomicU32 = AtomicU32::new(0);
/// Whether somebody has asked for regular looks.
static WATCHING: AtomicU32 = AtomicU32::new(0);

/// Starts the keeper of this process if there is none. Without it (no more threads possible)
/// tracked areas work, only a full file system is final at once.
pub(super) fn start() {
    let now = process::fork_generation() + 1;
    if STARTED.load(Ordering::SeqCst) == now {
        return;
    }
    let _start = START.lock();
    if STARTED.load(Ordering::SeqCst) == now {
        return;
    }
    let spawned = without_signals(|| {
        std::thread::Builder::new().name("swing-keeper".into()).spawn(run).is_ok()
    });
    if spawned {
        STARTED.store(now, Ordering::SeqCst);
    }
}

/// Runs `f` with all signals but the synchronous ones blocked, so that a thread it starts never
/// runs a handler of the program.
pub(crate) fn without_signals<T>(f: impl FnOnce() -> T) -> T {
    let _quiet = Quiet::begin();
    f()
}

fn run() {
    Quiet::for_ever();
    process::wake_promptly();
    let mut seen = 0;
    let mut protect_at: Option<Instant> = None;
    loop {
        let request = REQUESTS.load(Ordering::SeqCst);
        if request == seen {
            // Some extents, and then a look whether there is something more urgent.
            if AHEAD.swap(0, Ordering::SeqCst) != 0 {
                AHEAD.fetch_or(u32::from(fork::copy_some_ahead()), Ordering::SeqCst);
                continue;
            }
            let dropping = LIFTED.swap(0, Ordering::SeqCst) != 0 && fork::drop_some_lifted();
            LIFTED.fetch_or(u32::from(dropping), Ordering::SeqCst);
            let watching = WATCHING.swap(0, Ordering::SeqCst) != 0;
            let protect = protect_at.map(|at| at.saturating_duration_since(Instant::now()));
            let naps = [protect, watching.then_some(LOOK), dropping.then_some(PAUSE)];
            futex::wait(&REQUESTS, seen, naps.into_iter().flatten().min());
            if REQUESTS.load(Ordering::SeqCst) != seen {
                WATCHING.fetch_or(u32::from(watching), Ordering::SeqCst);
                continue;
            }
            if protect_at.is_some_and(|at| Instant::now() >= at) {
                protect_at = fork::absorb_tracked().map(|nap| Instant::now() + nap);
            }
            if watching && fork::look_after_views() {
                WATCHING.store(1, Ordering::SeqCst);
            }
            continue;
        }
        if LOGGED.swap(0, Ordering::SeqCst) != 0 {
            let next = fork::absorb_tracked().map(|nap| Instant::now() + nap);
            protect_at = protect_at.into_iter().chain(next).min();
        }
        if SHORT.swap(0, Ordering::SeqCst) != 0 {
            fork::reclaim_tracked();
        }
        seen = request;
        ANSWERS.store(seen, Ordering::SeqCst);
        futex::wake_all(&ANSWERS);
    }
}

/// Asks for regular looks at the views of children. Async-signal-safe.
pub(crate) fn watch_views() {
    WATCHING.store(1, Ordering::SeqCst);
    // The keeper may sleep without a limit: a request wakes it.
    REQUESTS.fetch_add(1, Ordering::SeqCst);
    futex::wake_all(&REQUESTS);
}

/// Has what the handler logged written down now, so that the next publish has less to do.
/// Async-signal-safe.
pub(super) fn absorb_soon() {
    if LOGGED.swap(1, Ordering::SeqCst) == 0 {
        REQUESTS.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&REQUESTS);
    }
}

/// Has page tables dropped that were taken away; `false` when nobody will.
pub(crate) fn drop_lifted() -> bool {
    if STARTED.load(Ordering::SeqCst) != process::fork_generation() + 1 {
        return false;
    }
    LIFTED.store(1, Ordering::SeqCst);
    REQUESTS.fetch_add(1, Ordering::SeqCst);
    futex::wake_all(&REQUESTS);
    true
}

/// Has extents copied before they are stored to.
pub(crate) fn copy_ahead() {
    AHEAD.store(1, Ordering::SeqCst);
    REQUESTS.fetch_add(1, Ordering::SeqCst);
    futex::wake_all(&REQUESTS);
}

/// Has everything reclaimable given back; `false` when the keeper did not answer in time.
/// Async-signal-safe.
pub(super) fn reclaim() -> bool {
    if STARTED.load(Ordering::SeqCst) != process::fork_generation() + 1 {
        return false;
    }
    SHORT.store(1, Ordering::SeqCst);
    let mine = REQUESTS.fetch_add(1, Ordering::SeqCst) + 1;
    futex::wake_all(&REQUESTS);
    for _ in 0..MAX_NAPS {
        let answered = ANSWERS.load(Ordering::SeqCst);
        if answered.wrapping_sub(mine) < 1 << 31 {
            return true;
        }
        fault::nap(&ANSWERS, answered);
    }
    false
}
