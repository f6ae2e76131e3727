//! Signals are held off while a thread keeps stores waiting.
//!
//! Whoever freezes an area closes its gate, and whoever works on an extent has claimed it: a store
//! that is trapped meanwhile sleeps until that is over. A handler of the program that interrupts
//! this very thread, and stores there, would wait for the thread that it has interrupted. So it
//! runs afterwards: the times are short, as all that others wait for.
//!
//! Signals that tell of an instruction are never held off: the kernel would end the process.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP, sigset_t};

thread_local! {
    /// How many [`Quiet`] this thread has: only the first and the last make a system call.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The mask before the first.
    static BEFORE: Cell<MaybeUninit<sigset_t>> = const { Cell::new(MaybeUninit::uninit()) };
}

/// As long as one lives no handler of the program runs in this thread.
#[must_use]
pub(crate) struct Quiet(PhantomData<*const ()>);

impl Quiet {
    pub(crate) fn begin() -> Self {
        let depth = DEPTH.get();
        if depth == 0 {
            BEFORE.set(hold_off());
        }
        DEPTH.set(depth + 1);
        Self(PhantomData)
    }

    /// Whether this thread has one.
    pub(crate) fn is_begun() -> bool {
        DEPTH.get() > 0
    }

    /// For threads of this library, which were started with signals held off and keep that.
    pub(crate) fn for_ever() {
        assert_eq!(DEPTH.replace(1), 0, "said once, at the begin of the thread");
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let depth = DEPTH.get();
        super::strict::strict_assert!(depth > 0, "quiet is ended as often as begun");
        DEPTH.set(depth - 1);
        if depth == 1 {
            restore(&BEFORE.get());
        }
    }
}

/// As [`Quiet`], for what a handler of the program may call, too. Nothing in it is the thread's
/// own: where the library was loaded late, the first look at such a variable allocates it.
#[must_use]
pub(crate) struct HeldOff {
    before: MaybeUninit<sigset_t>,
    _thread: PhantomData<*const ()>,
}

impl HeldOff {
    pub(crate) fn begin() -> Self {
        Self { before: hold_off(), _thread: PhantomData }
    }
}

impl Drop for HeldOff {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

fn restore(before: &MaybeUninit<sigset_t>) {
    // SAFETY: the mask that `hold_off` read.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
}

/// Returns the mask before.
fn hold_off() -> MaybeUninit<sigset_t> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: valid structures, which `sigfillset` and `pthread_sigmask` fill.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for fault in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP] {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    before
}

/// Runs `f` with all signals but the synchronous ones blocked, so that a thread it starts never
/// runs a handler of the program.
pub(crate) fn without_signals<T>(f: impl FnOnce() -> T) -> T {
    let _quiet = Quiet::begin();
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: i32) -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: fills the structure.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn it_is_quiet_until_the_last_one_ends() {
        for first_ends_first in [false, true] {
            assert!(!is_blocked(libc::SIGTERM));
            let (first, second) = (Quiet::begin(), Quiet::begin());
            assert!(is_blocked(libc::SIGTERM) && !is_blocked(SIGSEGV));
            let (sooner, later) = if first_ends_first { (first, second) } else { (second, first) };
            drop(sooner);
            assert!(is_blocked(libc::SIGTERM));
            drop(later);
            assert!(!is_blocked(libc::SIGTERM));
        }
    }

    #[test]
    fn what_is_held_off_before_stays_so() {
        let held = HeldOff::begin();
        assert!(is_blocked(libc::SIGTERM) && !is_blocked(SIGSEGV));
        drop((HeldOff::begin(), Quiet::begin()));
        assert!(is_blocked(libc::SIGTERM));
        drop(held);
        assert!(!is_blocked(libc::SIGTERM));
        let quiet = Quiet::begin();
        drop(HeldOff::begin());
        assert!(is_blocked(libc::SIGTERM));
        drop(quiet);
        assert!(!is_blocked(libc::SIGTERM));
    }
}
