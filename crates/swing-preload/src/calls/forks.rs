//! Handlers of forks that the program registers: the heap's are to come first, so that before a
//! fork the program's run while there is a heap, and after it when there is one again. Libraries of
//! the program may begin before this one does.

use libc::{c_int, c_void};

use super::own;
use crate::heap;

unsafe extern "C" {
    /// What the linker gives each library: an address of its own.
    static __dso_handle: u8;
}

/// What `pthread_atfork` is in a library, which it tells.
///
/// # Safety
/// As the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __register_atfork(
    before: Option<unsafe extern "C" fn()>,
    in_parent: Option<unsafe extern "C" fn()>,
    in_child: Option<unsafe extern "C" fn()>,
    library: *mut c_void,
) -> c_int {
    type Handler = Option<unsafe extern "C" fn()>;
    let next = own!(
        c"__register_atfork": register(Handler, Handler, Handler, *mut c_void) -> c_int
    );
    if library.cast_const() != (&raw const __dso_handle).cast() && !heap::handle_forks() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { next(before, in_parent, in_child, library) }
}
