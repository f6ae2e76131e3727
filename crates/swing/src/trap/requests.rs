//! What is asked of the keeper, the thread that gives memory back for threads that must not.
//!
//! A trapped store can take no lock and allocate nothing, so it leaves a request here, wakes the
//! keeper ([`crate::tracked::keeper`]), and waits for a bounded time if it needs the answer: should
//! the keeper itself wait for a lock that the storing thread holds, the store goes on without it.
//!
//! **Concurrency.** Only atomics and futex calls: async-signal-safe.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::sys::{futex, process};

/// Naps a store waits for the keeper, 10 ms each.
const MAX_NAPS: u32 = 200;
/// How often what stores have left behind is protected early.
pub(crate) const PROTECT: Duration = Duration::from_millis(10);
/// When what publishes have left is given back: whoever has changed something often shares it next,
/// and waits for no more than is given back in one go.
pub(crate) const GIVE_BACK: Duration = Duration::from_millis(10);
/// Between two times that some of it is given back.
pub(crate) const GIVE_BACK_PAUSE: Duration = Duration::from_millis(1);
/// Between two changes of the address space: whoever stores needs its lock, and would come last.
pub(crate) const PAUSE: Duration = Duration::from_micros(100);

/// Counts requests; the keeper sleeps on it.
pub(crate) static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// The last request that has been answered.
pub(crate) static ANSWERS: AtomicU32 = AtomicU32::new(0);
/// Whether somebody needs memory.
pub(crate) static SHORT: AtomicU32 = AtomicU32::new(0);
/// Whether there is something to write down.
pub(crate) static LOGGED: AtomicU32 = AtomicU32::new(0);
/// Whether there may be something to copy ahead.
pub(crate) static AHEAD: AtomicU32 = AtomicU32::new(0);
/// Whether there may be page tables to drop.
pub(crate) static LIFTED: AtomicU32 = AtomicU32::new(0);
/// Whether publishes may have left memory to be given back.
pub(crate) static LEFT: AtomicU32 = AtomicU32::new(0);
/// Whether somebody has asked for regular looks.
pub(crate) static WATCHING: AtomicU32 = AtomicU32::new(0);

/// The fork generation + 1 in which the thread was started; 0: never.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// The keeper of this process is there, or about to be.
pub(crate) fn note_start() {
    STARTED.store(process::fork_generation() + 1, Ordering::SeqCst);
}

/// Whether this process has a keeper; a forked child has none.
pub(crate) fn is_started() -> bool {
    STARTED.load(Ordering::SeqCst) == process::fork_generation() + 1
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
pub(crate) fn absorb_soon() {
    if LOGGED.swap(1, Ordering::SeqCst) == 0 {
        REQUESTS.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&REQUESTS);
    }
}

/// Has page tables dropped that were taken away; `false` when nobody will.
pub(crate) fn drop_lifted() -> bool {
    if !is_started() {
        return false;
    }
    LIFTED.store(1, Ordering::SeqCst);
    REQUESTS.fetch_add(1, Ordering::SeqCst);
    futex::wake_all(&REQUESTS);
    true
}

/// Has what publishes have left given back, soon.
pub(crate) fn give_back_left() {
    if LEFT.swap(1, Ordering::SeqCst) == 0 {
        REQUESTS.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(&REQUESTS);
    }
}

/// Has extents copied before they are stored to.
pub(crate) fn copy_ahead() {
    AHEAD.store(1, Ordering::SeqCst);
    REQUESTS.fetch_add(1, Ordering::SeqCst);
    futex::wake_all(&REQUESTS);
}

/// Has everything reclaimable given back; `false` when the keeper did not answer in time.
/// Async-signal-safe.
pub(crate) fn reclaim() -> bool {
    if !is_started() {
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
        nap(&ANSWERS, answered);
    }
    false
}

/// Sleeps a moment; for waits of bounded length inside the handler.
fn nap(word: &AtomicU32, seen: u32) {
    futex::wait(word, seen, Some(Duration::from_millis(10)));
}
