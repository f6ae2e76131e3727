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

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void};
use swing_calls::strict_assert;
use swing_malloc::MallocPause;

use super::last;
use super::next::own;
use crate::heap;

/// The guard that the handler before a fork hands to the other two.
static PAUSE: AtomicPtr<MallocPause<'static>> = AtomicPtr::new(null_mut());

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
    if library.cast_const() != (&raw const __dso_handle).cast() && !handle_forks() {
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
fn lock_files() {
    // SAFETY: to be ended by one of the two below, in the same thread.
    unsafe { _IO_list_lock() };
}

/// After a fork, in the parent.
fn unlock_files() {
    // SAFETY: `lock_files` came before.
    unsafe { _IO_list_unlock() };
}

/// After a fork, in the child, which has one thread only.
fn unlock_files_in_child() {
    // SAFETY: nobody else is there to have it.
    unsafe { _IO_list_resetlock() };
}

/// Registers the handlers of forks: before a fork the program's run, then the heap is paused, the
/// area frozen and closed to stores, and jemalloc locked; and after it the other way round. So
/// jemalloc's come first.
pub(crate) fn handle_forks() -> bool {
    static DONE: OnceLock<bool> = OnceLock::new();
    let register = || {
        drop(std::hint::black_box(Box::new(0_u8)));
        swing::handle_forks();
        // SAFETY: functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) == 0 }
    };
    *DONE.get_or_init(|| heap::outside(register))
}

extern "C" fn before_fork() {
    heap::outside(|| {
        if let Some(heap) = heap::now() {
            lock_files();
            let pause = Box::into_raw(Box::new(heap.pause()));
            let before = PAUSE.swap(pause, Ordering::SeqCst);
            strict_assert!(before.is_null(), "one thread forks at a time");
        }
    });
}

fn take_pause() -> Option<Box<MallocPause<'static>>> {
    let pause = PAUSE.swap(null_mut(), Ordering::SeqCst);
    // SAFETY: a pointer in the slot came from `Box::into_raw` of the same fork's prepare handler.
    (!pause.is_null()).then(|| unsafe { Box::from_raw(pause) })
}

extern "C" fn in_parent() {
    heap::outside(|| {
        if let Some(pause) = take_pause() {
            drop(pause);
            unlock_files();
        }
    });
}

extern "C" fn in_child() {
    let had_heap = heap::end_in_child();
    let pause = take_pause();
    strict_assert!(had_heap == pause.is_some(), "the child's heap is whole, if it has one");
    last::in_child();
    if pause.is_some() {
        unlock_files_in_child();
    }
    // Nobody waits for it here; its locks stay as they are.
    std::mem::forget(pause);
}
