//! Signals: the program's handlers come after the heap's, and nothing blocks the heap's.
//!
//! The kernel kills a thread that stores into frozen memory with SIGSEGV blocked. Programs block
//! all signals in good faith, around the start of a thread or in a handler: SIGSEGV is left out
//! then. A set that has it alone is taken at its word; the chain of handlers itself uses such.

use libc::*;

use swing_calls::{strict_assert, telling_mask};

use super::next::own;
use crate::heap;

/// Has the C library's functions that the handler of faults calls looked up before the first fault,
/// and lets that come: a program may be started with all signals blocked.
pub(super) fn begin() {
    swing_calls::look_up();
    // SAFETY: valid sets and structures; nothing else is changed.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        sigemptyset(&raw mut set);
        sigaddset(&raw mut set, SIGSEGV);
        pthread_sigmask(SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        sigaction(SIGSEGV, std::ptr::null(), &raw mut action);
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
        strict_assert!(sigismember(&raw const set, SIGUSR1) == 1, "all others stay in the set");
        Some(set)
    }
}

macro_rules! masks {
    ($($name:ident = $text:literal;)*) => {$(
        /// Changes the mask, but blocks SIGSEGV together with nothing else.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            how: c_int, new: *const sigset_t, out: *mut sigset_t
        ) -> c_int {
            let next = own!($text: $name(c_int, *const sigset_t, *mut sigset_t) -> c_int);
            // SAFETY: as the function asks for; a replaced mask is as long.
            telling_mask(out, |out| unsafe {
                let set = if how == SIG_UNBLOCK { None } else { without_faults(new) };
                next(how, set.as_ref().map_or(new, std::ptr::from_ref), out)
            })
        }
    )*};
}

masks! {
    sigprocmask = c"sigprocmask";
    pthread_sigmask = c"pthread_sigmask";
}

/// Whether this thread handles a fault: SIGSEGV is blocked there, and nowhere else with others.
fn handles_fault() -> bool {
    // SAFETY: a valid set, which the call fills.
    unsafe {
        let mut blocked: sigset_t = std::mem::zeroed();
        pthread_sigmask(SIG_BLOCK, std::ptr::null(), &raw mut blocked);
        sigismember(&raw const blocked, SIGSEGV) == 1
    }
}

/// The program's own handler comes after that of tracked memory, not instead of it. But for what is
/// installed while a fault is handled: that is how a process ends of a fault that nobody wants.
fn chain(signal: c_int) {
    if signal == SIGSEGV && !heap::is_inside() && !handles_fault() {
        heap::outside(swing::tracked::rearm);
    }
}

/// Installs the handler; one for SIGSEGV sees only the faults that are none of the heap's.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    let next =
        own!(c"sigaction": sigaction(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int);
    if action.is_null() || signal == SIGSEGV || heap::is_inside() {
        // SAFETY: the caller's promise.
        let result = unsafe { next(signal, action, before) };
        if !action.is_null() && result == 0 {
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

macro_rules! older {
    ($($name:ident = $text:literal;)*) => {$(
        /// As [`sigaction`].
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            signal: c_int, handler: sighandler_t
        ) -> sighandler_t {
            let next = own!($text: $name(c_int, sighandler_t) -> sighandler_t);
            // SAFETY: the caller's promise.
            let before = unsafe { next(signal, handler) };
            chain(signal);
            before
        }
    )*};
}

// Which of them a program calls by `signal` depends on the standard that it was compiled for.
older! {
    signal = c"signal";
    bsd_signal = c"bsd_signal";
    ssignal = c"ssignal";
    sysv_signal = c"sysv_signal";
    __sysv_signal = c"__sysv_signal";
    sigset = c"sigset";
}

macro_rules! bits {
    ($($name:ident = $text:literal;)*) => {$(
        /// Changes the mask, but blocks SIGSEGV together with nothing else.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(signals: c_int) -> c_int {
            let next = own!($text: $name(c_int) -> c_int);
            let bit = |signal: c_int| 1 << (signal - 1);
            let many = signals & bit(SIGUSR1) != 0;
            // SAFETY: any bits are a mask.
            unsafe { next(if many { signals & !bit(SIGSEGV) } else { signals }) }
        }
    )*};
}

bits! {
    sigblock = c"sigblock";
    sigsetmask = c"sigsetmask";
}
