//! What forks need of the C library.
//!
//! **Handlers** that the program registers: the heap's are to come first, so that before a fork the
//! program's run while there is a heap, and after it when there is one again. Libraries of the
//! program may begin before this one does.
//!
//! **The list of open files**: a fork locks it after all handlers have run. Whoever has it then may
//! wait for a file that another thread has locked, and that thread for the paused heap: a line that
//! is read is allocated meanwhile. So the list is locked before the heap is paused; who has it may
//! lock it again.

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

unsafe extern "C" {
    fn _IO_list_lock();
    fn _IO_list_unlock();
    fn _IO_list_resetlock();
}

/// Nobody opens or closes a file from here on.
pub(crate) fn lock_files() {
    // SAFETY: to be ended by one of the two below, in the same thread.
    unsafe { _IO_list_lock() };
}

/// After a fork, in the parent.
pub(crate) fn unlock_files() {
    // SAFETY: `lock_files` came before.
    unsafe { _IO_list_unlock() };
}

/// After a fork, in the child, which has one thread only.
pub(crate) fn unlock_files_in_child() {
    // SAFETY: nobody else is there to have it.
    unsafe { _IO_list_resetlock() };
}
