//! Assertions for functions that signal handlers call, and `malloc`: they allocate nothing, take no
//! lock, and unwind into nobody's code.

use libc::c_int;

/// Ends the process with these words. Allocates nothing, takes no lock, unwinds into nobody's code:
/// for functions that signal handlers call, and `malloc`.
#[cold]
#[inline(never)]
pub fn broken(words: &str) -> ! {
    // SAFETY: writes to standard error, if it is open at all, by the system call itself: `write`
    // may be what is broken.
    unsafe {
        raw_write(2, words.as_bytes());
        libc::abort();
    }
}

/// An assertion that may fail anywhere: see [`broken`].
#[macro_export]
macro_rules! strict_assert {
    ($holds:expr, $words:literal) => {
        if !$holds {
            $crate::broken(concat!("swing: not so: ", $words, "\n"));
        }
    };
}

/// The system call itself, which no library can be missing.
///
/// # Safety
/// None beyond those of a `write`.
unsafe fn raw_write(fd: c_int, text: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads so many bytes of the text; clobbers what is listed.
    unsafe {
        std::arch::asm!(
            "syscall", inlateout("rax") libc::SYS_write => _, in("rdi") fd,
            in("rsi") text.as_ptr(), in("rdx") text.len(), out("rcx") _, out("r11") _,
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (fd, text);
}
