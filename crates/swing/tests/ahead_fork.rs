//! Copying ahead in a process that forks, and whose own fork handler, older than this library's,
//! stores into the area while that is held.

#[macro_use]
mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use common::*;

const EXTENTS: u64 = 12;
const FORKS: u64 = 200;
/// A busy machine makes fewer in this time, but at least so many.
const LONG: Duration = Duration::from_secs(60);
const LEAST: u64 = 10;
/// Seconds after which the process is taken to hang.
const TOO_LONG: u32 = 600;

/// Where the handler stores; 0: nowhere.
static AREA: AtomicUsize = AtomicUsize::new(0);

extern "C" fn store_before_fork() {
    let base = AREA.load(Ordering::SeqCst);
    if base > 0 {
        for i in 0..EXTENTS {
            let at = (base + data_at(i) as usize + 16) as *mut u64;
            // SAFETY: in the area of the test, of which this place is this handler's.
            unsafe { at.write_volatile(at.read_volatile() + 1) };
        }
    }
}

fn a_fork_handler_stores_to_what_is_being_copied() {
    static HANDLER: Once = Once::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let h = home();
    // SAFETY: the handler only stores; the alarm ends a test that hangs.
    HANDLER.call_once(|| unsafe {
        assert_eq!(libc::pthread_atfork(Some(store_before_fork), None, None), 0);
    });
    // SAFETY: as above.
    unsafe { libc::alarm(TOO_LONG) };
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.allow_live_hooks(true).unwrap();
    area.copy_ahead(true);
    AREA.store(area.base().as_ptr() as usize, Ordering::SeqCst);
    let begun = Instant::now();
    for round in (0..FORKS).take_while(|n| *n < LEAST || begun.elapsed() < LONG) {
        (0..EXTENTS).for_each(|i| store(&area, data_at(i), round));
        drop(hook_now(&h, "a"));
        std::thread::sleep(Duration::from_micros(round % 40 * 25));
        // SAFETY: the child ends at once.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let same = (0..EXTENTS).all(|i| load(&area, data_at(i)) == round);
            // What the handler stores comes after the child's state is taken, or before.
            let is_stored = |value| value == round || value == round + 1;
            let stored = (0..EXTENTS).all(|i| is_stored(load(&area, data_at(i) + 16)));
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(!same) + 2 * i32::from(!stored)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0, "round {round}");
        assert!((0..EXTENTS).all(|i| load(&area, data_at(i) + 16) == round + 1), "round {round}");
    }
    AREA.store(0, Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { libc::alarm(0) };
    assert!(area.stats().copied.get() > 0);
}

over_both_back_ends! {
    a_fork_handler_stores_to_what_is_being_copied,
}
