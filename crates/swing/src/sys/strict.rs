//! Assertions for what the fault handler calls: they allocate nothing, take no lock, and unwind
//! into nobody's code.

use std::os::fd::BorrowedFd;

/// Says what does not hold on standard error, and ends the process.
#[cold]
#[inline(never)]
pub(crate) fn fail(words: &str) -> ! {
    say(words);
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// Writes to standard error, if it is open at all.
pub(crate) fn say(words: &str) {
    // SAFETY: only written to; it is not closed by the borrow.
    let _ = rustix::io::write(unsafe { BorrowedFd::borrow_raw(2) }, words.as_bytes());
}

/// As `assert!`, where a panic must not be: see [`fail`].
macro_rules! strict_assert {
    ($holds:expr, $words:literal) => {
        if !$holds {
            $crate::sys::strict::fail(concat!("swing: not so: ", $words, "\n"));
        }
    };
}

pub(crate) use strict_assert;
