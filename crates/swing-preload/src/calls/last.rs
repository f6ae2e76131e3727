//! The end of a program's last thread is the program's end, although this library's threads go on.
//!
//! A program may end its main thread by `pthread_exit` and leave the others to themselves; the C
//! library calls `exit(0)` when the last thread ends, and counts this library's as well: the
//! program would be there for ever, with every signal held off. So the program's threads are
//! counted here, and the last of them calls `exit` itself, as late in its end as can be.
//!
//! **Concurrency.** One counter. Threads that were never counted (there was no memory) are waited
//! for. **Fork.** A child has one thread, and none of this library's.

use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use swing_calls::strict_assert;

/// How often the C library calls what ends with a thread.
const ROUNDS: usize = 4;
/// Between two looks whether others are still there.
const NAP: Duration = Duration::from_millis(20);
/// No key.
const NONE: u32 = u32::MAX;

static KEY: AtomicU32 = AtomicU32::new(NONE);
/// The program's threads, the main one included.
static PROGRAMS: AtomicUsize = AtomicUsize::new(1);
/// 1 when the main thread is not one of them any more.
static MAIN: AtomicUsize = AtomicUsize::new(0);
/// This library's own.
static LIBRARYS: AtomicUsize = AtomicUsize::new(0);

/// In the main thread.
pub(super) fn begin() {
    let mut key = 0;
    // SAFETY: the function is one of this library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) } == 0 {
        KEY.store(key, Ordering::SeqCst);
        mark(1);
    }
}

fn is_main() -> bool {
    // SAFETY: asks only.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Before a thread of this library is created.
pub(super) fn begin_own() {
    LIBRARYS.fetch_add(1, Ordering::SeqCst);
}

/// Before a thread of the program is created, in the one that does it.
pub(super) fn expect() {
    PROGRAMS.fetch_add(1, Ordering::SeqCst);
}

/// It could not be created.
pub(super) fn expect_no_more() {
    let before = PROGRAMS.fetch_sub(1, Ordering::SeqCst);
    strict_assert!(before > 1, "expected before, by a thread");
}

/// In a new thread that was expected.
pub(super) fn begin_thread() {
    mark(1);
}

/// In a forked child.
pub(super) fn in_child() {
    PROGRAMS.store(1, Ordering::SeqCst);
    MAIN.store(0, Ordering::SeqCst);
    LIBRARYS.store(0, Ordering::SeqCst);
}

/// Has [`at_end`] called at this thread's end. Threads of this library end with the process.
fn mark(round: usize) {
    let key = KEY.load(Ordering::SeqCst);
    if key != NONE {
        // SAFETY: a key that was created; the value is no address.
        unsafe { libc::pthread_setspecific(key, without_provenance_mut(round)) };
    }
}

unsafe extern "C" fn at_end(round: *mut c_void) {
    if round.addr() < ROUNDS {
        return mark(round.addr() + 1);
    }
    let is_main = is_main();
    if is_main {
        MAIN.store(1, Ordering::SeqCst);
    }
    if PROGRAMS.fetch_sub(1, Ordering::SeqCst) != 1 {
        return;
    }
    // This thread, this library's, and the main one, which stays as a zombie.
    let zombie = if is_main { 0 } else { MAIN.load(Ordering::SeqCst) };
    let known = 1 + LIBRARYS.load(Ordering::SeqCst) + zombie;
    while threads().is_some_and(|threads| threads > known) {
        std::thread::sleep(NAP);
    }
    // SAFETY: what the C library does at the end of the last thread.
    unsafe { libc::exit(0) };
}

/// How many threads the kernel counts. Allocates nothing: that is over for this thread.
fn threads() -> Option<usize> {
    let mut text = [0; 1024];
    // SAFETY: a path, and a buffer of that length.
    let len = unsafe {
        let file = libc::open(c"/proc/self/stat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let len = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        usize::try_from(len).ok()?
    };
    // The command in parentheses may itself contain spaces and parentheses.
    let text = std::str::from_utf8(&text[..len]).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(17)?.parse().ok()
}
