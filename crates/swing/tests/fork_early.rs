//! A handler of the program, older than this library's, that waits in a fork for a lock which a
//! storing thread has: there is a child, and it has nothing of the area rather than a part of what
//! that thread stored. Many threads that fork at the same time, beside stores and publishes.

#[macro_use]
mod common;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use common::*;
use swing::{Area, Publish};

/// Seconds after which the process is taken to hang.
const TOO_LONG: u32 = 300;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static LOCK: Mutex<()> = Mutex::new(());
/// The handler takes [`LOCK`].
static TAKES: AtomicBool = AtomicBool::new(false);
thread_local! {
    /// What it has taken, until the fork is over.
    static TAKEN: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

extern "C" fn take() {
    if TAKES.load(Ordering::SeqCst) {
        let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        TAKEN.set(Some(guard));
    }
}

extern "C" fn give() {
    drop(TAKEN.take());
}

fn alone() -> MutexGuard<'static, ()> {
    static HANDLERS: Once = Once::new();
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the handlers take and give a lock; the alarm ends a test that hangs.
    HANDLERS.call_once(|| unsafe {
        assert_eq!(libc::pthread_atfork(Some(take), Some(give), Some(give)), 0);
    });
    // SAFETY: as above.
    unsafe { libc::alarm(TOO_LONG) };
    alone
}

/// Forks; the child ends with what `child` says. A signal is 200 + its number.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child loads, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: ends the child at once; without a handler of the test's for it.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::_exit(child());
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 200 + libc::WTERMSIG(status) }
}

/// Stores a number to several extents, under the lock: outside of it they are all the same.
fn store_all(area: &Area, number: u64) {
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    (0..4).for_each(|extent| store(area, data_at(extent), number));
    (0..4).for_each(|extent| store(area, extent * SMALL + 64, number));
}

/// Whether the extents show one number.
fn are_same(area: &Area) -> bool {
    let first = load(area, data_at(0));
    (0..4).all(|e| load(area, data_at(e)) == first && load(area, e * SMALL + 64) == first)
}

fn a_child_has_all_that_a_lock_guards_or_nothing() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.track().unwrap();
    store_all(&area, 0);
    let stop = AtomicBool::new(false);
    let (mut whole, mut refused, mut early) = (0, 0, 0);
    TAKES.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                store_all(&area, number);
            }
        });
        let begun = Instant::now();
        // Until stores have waited for the fork, and it for them, a few times.
        while early < 2 && begun.elapsed() < Duration::from_secs(60) {
            let forked = Instant::now();
            match fork(|| i32::from(!are_same(&area))) {
                0 => whole += 1,
                code if code == 200 + libc::SIGSEGV => refused += 1,
                code => panic!("a part of what was stored: {code}"),
            }
            early += u32::from(forked.elapsed() > Duration::from_secs(5));
            area.publish(Publish::Shared, b"").unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
    TAKES.store(false, Ordering::SeqCst);
    println!("{whole} whole, {refused} refused");
    assert!(refused > 0, "{whole}");
    assert!(are_same(&area));
    // The next fork is as ever.
    assert_eq!(fork(|| i32::from(!are_same(&area))), 0);
}

/// Threads store, publish and hold stores off for long while others fork all the time.
fn many_threads_fork_and_each_child_is_one_moment() {
    let _alone = alone();
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.track().unwrap();
    area.allow_live_hooks(true).unwrap();
    (0..4).for_each(|i| store(&area, data_at(i), 0));
    let stop = AtomicBool::new(false);
    let (told, forks) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (area, stop, told, forks, h) = (&area, &stop, &told, &forks, &h);
        scope.spawn(move || {
            for number in 1.. {
                // In order: a child has at most one number more in the first than in the last.
                (0..4).for_each(|i| store(area, data_at(i), number));
                told.store(number, Ordering::SeqCst);
                if stop.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                area.publish(Publish::Shared, b"").unwrap();
                let held = area.hold_stores().unwrap();
                std::thread::sleep(Duration::from_millis(300));
                drop(held);
                drop(hook_now(h, "a"));
            }
        });
        let forkers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_secs(8) {
                        let code = fork(|| {
                            let seen: Vec<u64> = (0..4).map(|i| load(area, data_at(i))).collect();
                            let ordered = seen.is_sorted_by(|a, b| a >= b);
                            let (last, told) = (seen[3], told.load(Ordering::SeqCst));
                            let is_one = last == told || last == told + 1;
                            i32::from(!ordered || seen[0] > last + 1) + 2 * i32::from(!is_one)
                        });
                        assert_eq!(code, 0);
                        forks.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = forkers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::SeqCst);
        assert!(ended.iter().all(Result::is_ok));
    });
    println!("{} forks", forks.load(Ordering::SeqCst));
    assert!(forks.load(Ordering::SeqCst) >= 4);
}

over_both_back_ends! {
    a_child_has_all_that_a_lock_guards_or_nothing,
    many_threads_fork_and_each_child_is_one_moment,
}
