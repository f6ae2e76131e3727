//! Masks of signals that are told where an area lies. Which signals a program blocks is its own
//! affair: a store of a thread that blocks SIGSEGV is not trapped (`docs/limits.md`).

use libc::{c_int, sigset_t};
use swing_calls::{Next, telling_mask};

macro_rules! masks {
    ($($name:ident = $text:literal;)*) => {$(
        /// The C library's function of this name; the mask before may be told into an area.
        ///
        /// # Safety
        /// As the function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            how: c_int, new: *const sigset_t, before: *mut sigset_t
        ) -> c_int {
            static NEXT: Next = Next::new($text);
            type Call = unsafe extern "C-unwind" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
            // SAFETY: the C library's function of this name has this signature.
            let call = unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) };
            // SAFETY: as the function asks for; a replaced mask is as long.
            telling_mask(before, |before| unsafe { call(how, new, before) })
        }
    )*};
}

masks! {
    sigprocmask = c"sigprocmask";
    pthread_sigmask = c"pthread_sigmask";
}
