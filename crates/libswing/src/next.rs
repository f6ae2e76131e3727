//! The C library's own function of a name, looked up at its first use.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

/// The next definition of a name after this library's.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Its address. A program that has no such function ends: nothing sensible can be done for its
    /// call.
    #[inline]
    pub(crate) fn get(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            known => known,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        // SAFETY: the name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        if found == 0 {
            let why = b"libswing: no dynamic C library to call; do not link with -static\n";
            // SAFETY: writes to standard error, if it is open at all, by the system call itself:
            // `write` may be as absent.
            unsafe {
                libc::syscall(libc::SYS_write, 2, why.as_ptr(), why.len());
                libc::abort();
            }
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// This thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(code: c_int) {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = code };
}
