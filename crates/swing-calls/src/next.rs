//! The C library's own function of a name, looked up at its first use.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

/// What only programs built long ago call has no version by default.
const OLD_VERSIONS: [&CStr; 2] = [c"GLIBC_2.2.5", c"GLIBC_2.17"];

/// The next definition of a name after this library's.
pub struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Next {
    /// Not looked up yet.
    pub const fn new(name: &'static CStr) -> Self {
        assert!(!name.is_empty(), "a function has a name");
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Its address. A program that has no such function ends: nothing sensible can be done for its
    /// call.
    #[inline]
    pub fn get(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            known => known,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        // SAFETY: the name is a C string.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        for version in OLD_VERSIONS {
            if found == 0 {
                let (name, version) = (self.name.as_ptr(), version.as_ptr());
                // SAFETY: as above.
                found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version) } as usize;
            }
        }
        if found == 0 {
            crate::broken("swing: no dynamic C library to call; do not link with -static\n");
        }
        let before = self.address.swap(found, Ordering::Relaxed);
        strict_assert!(before == 0 || before == found, "a name stands for one function");
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

/// Runs `work` and keeps `errno`.
pub(crate) fn keeping_errno<R>(work: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}

/// A name as a C string.
#[macro_export]
macro_rules! name {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name has no zero byte"),
        }
    };
}

/// The C library's own function of a name and a signature.
macro_rules! own {
    ($name:ident($($kind:ty),* $(,)?) -> $result:ty) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new($crate::name!($name));
        type Call = unsafe extern "C-unwind" fn($($kind),*) -> $result;
        // SAFETY: the C library's function of this name has this signature.
        unsafe { std::mem::transmute::<usize, Call>(NEXT.get()) }
    }};
}

pub(crate) use own;
