//! The keeper: a thread that gives memory back for threads that must not.
//!
//! A store that finds the memory file system full asks the keeper, an ordinary thread, to reclaim
//! what nobody needs in all tracked areas ([`crate::trap::requests`]). The keeper also writes down,
//! every few stores, what the handler has logged, and protects early what stores have left behind:
//! a hook need not wait for that then. Page tables that a hook has taken away it drops, a few at a
//! time, so that stores get the lock of the address space in between. After a fork, and as long as
//! the child's view of the parent lives, the keeper also looks whether the child has gone, so that
//! its memory comes back and extents can be written in place again.
//!
//! In areas that are not tracked it gives back the memory that publishes have left: a publish then
//! takes no longer because much was let go before it.
//!
//! One thread a process, started with the first tracked area, or when a publish leaves much;
//! a forked child has none, and needs none: it tracks nothing of its parent's, and starts its own
//! when it is needed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::sys::block_signals::{Quiet, without_signals};
use crate::sys::sync::Mutex;
use crate::sys::{futex, process};
use crate::tracked::chores;
use crate::trap::requests::{
    self, AHEAD, ANSWERS, GIVE_BACK, GIVE_BACK_PAUSE, LEFT, LIFTED, PAUSE, REQUESTS, SHORT,
    WATCHING,
};

/// How often views of forked children are looked at.
const LOOK: Duration = Duration::from_millis(50);
pub(crate) static START: Mutex<()> = Mutex::new(());

/// Starts the keeper of this process if there is none; `false` when no more threads are possible.
/// Tracked areas work without it, only a full file system is final at once.
pub(crate) fn start() -> bool {
    if requests::is_started() {
        return true;
    }
    let _start = START.lock();
    if requests::is_started() {
        return true;
    }
    let spawned = without_signals(|| {
        std::thread::Builder::new().name("swing-keeper".into()).spawn(run).is_ok()
    });
    if spawned {
        requests::note_start();
    }
    spawned
}

fn run() {
    Quiet::for_ever();
    process::wake_promptly();
    let mut seen = 0;
    let mut protect_at: Option<Instant> = None;
    let mut give_back_at: Option<Instant> = None;
    loop {
        let request = REQUESTS.load(Ordering::SeqCst);
        if request == seen {
            // Some extents, and then a look whether there is something more urgent.
            if AHEAD.swap(0, Ordering::SeqCst) != 0 {
                AHEAD.fetch_or(u32::from(chores::copy_some_ahead()), Ordering::SeqCst);
                continue;
            }
            let dropping = LIFTED.swap(0, Ordering::SeqCst) != 0 && chores::drop_some_lifted();
            LIFTED.fetch_or(u32::from(dropping), Ordering::SeqCst);
            let watching = WATCHING.swap(0, Ordering::SeqCst) != 0;
            let until =
                |at: Option<Instant>| at.map(|at| at.saturating_duration_since(Instant::now()));
            let naps = [
                until(protect_at),
                until(give_back_at),
                watching.then_some(LOOK),
                dropping.then_some(PAUSE),
            ];
            futex::wait(&REQUESTS, seen, naps.into_iter().flatten().min());
            if REQUESTS.load(Ordering::SeqCst) != seen {
                WATCHING.fetch_or(u32::from(watching), Ordering::SeqCst);
                continue;
            }
            if protect_at.is_some_and(|at| Instant::now() >= at) {
                protect_at = chores::absorb_tracked().map(|nap| Instant::now() + nap);
            }
            if give_back_at.is_some_and(|at| Instant::now() >= at) {
                let more = chores::give_back_some_left();
                give_back_at = more.then(|| Instant::now() + GIVE_BACK_PAUSE);
            }
            if watching && chores::look_after_views() {
                WATCHING.store(1, Ordering::SeqCst);
            }
            continue;
        }
        if requests::LOGGED.swap(0, Ordering::SeqCst) != 0 {
            let next = chores::absorb_tracked().map(|nap| Instant::now() + nap);
            protect_at = protect_at.into_iter().chain(next).min();
        }
        if LEFT.swap(0, Ordering::SeqCst) != 0 {
            give_back_at.get_or_insert_with(|| Instant::now() + GIVE_BACK);
        }
        if SHORT.swap(0, Ordering::SeqCst) != 0 {
            chores::reclaim_tracked();
        }
        seen = request;
        ANSWERS.store(seen, Ordering::SeqCst);
        futex::wake_all(&ANSWERS);
    }
}
