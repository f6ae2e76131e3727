//! Signals: the program's handlers come after the heap's, and nothing blocks the heap's.
//!
//! The kernel kills a thread that stores into frozen memory with SIGSEGV blocked. Programs block
//! all signals in good faith, around the start of a thread or in a handler: SIGSEGV is left out
//! then. A set that has it alone is taken at its word; the chain of handlers itself uses such.

use libc::*;

use super::room::Room;
use super::{own, results};
use crate::heap;

results! {
    sigpending(out: *mut sigset_t; out) -> c_int;
    sigaltstack(new: *const stack_t, out: *mut stack_t; out) -> c_int;
    sigwaitinfo(set: *const sigset_t, out: *mut siginfo_t; out) -> c_int;
    sigtimedwait(
        set: *const sigset_t, out: *mut siginfo_t, timeout: *const timespec; out
    ) -> c_int;
}

/// Has the C library's functions that the handler of faults calls looked up before the first fault.
pub(super) fn look_up() {
    // SAFETY: valid sets and structures; nothing is changed but a mask, which is put back.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        sigemptyset(&raw mut set);
        pthread_sigmask(SIG_BLOCK, &raw const set, std::ptr::null_mut());
        sigpending(&raw mut set);
        let none = timespec { tv_sec: 0, tv_nsec: 0 };
        sigemptyset(&raw mut set);
        sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const none);
        let mut action: libc::sigaction = std::mem::zeroed();
        sigaction(SIGSEGV, std::ptr::null(), &raw mut action);
        libc::syscall(SYS_gettid);
    }
}

/// A set of many signals without SIGSEGV; `None`: it may stay.
///
/// # Safety
/// `set` is null or a set.
unsafe fn without_faults(set: *const sigset_t) -> Option<sigset_t> {
    // SAFETY: the caller's promise.
    unsafe {
        if set.is_null() || sigismember(set, SIGSEGV) != 1 || sigismember(set, SIGUSR1) != 1 {
            return None;
        }
        let mut set = set.read();
        sigdelset(&raw mut set, SIGSEGV);
        Some(set)
    }
}

macro_rules! masks {
    ($($name:ident)*) => {$(
        /// Changes the mask, but blocks SIGSEGV together with nothing else.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            how: c_int, new: *const sigset_t, out: *mut sigset_t
        ) -> c_int {
            let next = own!($name(c_int, *const sigset_t, *mut sigset_t) -> c_int);
            // SAFETY: as the function asks for.
            unsafe {
                let set = if how == SIG_UNBLOCK { None } else { without_faults(new) };
                let room = Room::new(out);
                let result = next(how, set.as_ref().map_or(new, std::ptr::from_ref), room.at());
                room.bring();
                result
            }
        }
    )*};
}

masks! { sigprocmask pthread_sigmask }

/// The program's own handler comes after that of tracked memory, not instead of it.
fn chain(signal: c_int) {
    if signal == SIGSEGV {
        heap::outside(swing::tracked::rearm);
    }
}

/// Installs the handler; one for SIGSEGV sees only the faults that are none of the heap's.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    let next = own!(sigaction(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int);
    if action.is_null() || signal == SIGSEGV || heap::is_inside() {
        // SAFETY: the caller's promise.
        let result = unsafe { next(signal, action, before) };
        if !action.is_null() && result == 0 && !heap::is_inside() {
            chain(signal);
        }
        return result;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let mut action = action.read();
        if let Some(mask) = without_faults(&raw const action.sa_mask) {
            action.sa_mask = mask;
        }
        next(signal, &raw const action, before)
    }
}

/// As [`sigaction`].
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let next = own!(signal(c_int, sighandler_t) -> sighandler_t);
    // SAFETY: the caller's promise.
    let before = unsafe { next(signal, handler) };
    if !heap::is_inside() {
        chain(signal);
    }
    before
}
