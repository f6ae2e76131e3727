//! The exported functions for plain pointers to objects, and the heap that the paper's calls use;
//! `include/fgmm.h` documents them.

use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use ::swing_heap::{Handle, HeapError, ObjectHeap};

use crate::calls::null;
use crate::error::{self, Code, Failure};
use crate::object_calls::{
    swing_heap, swing_heap_close, swing_heap_config, swing_heap_open, with, with_into,
};

/// The heap of the paper's calls.
static COMMON: AtomicPtr<swing_heap> = AtomicPtr::new(null_mut());

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_enable_pointers(heap: *mut swing_heap, window: u64) -> c_int {
    let window = (window > 0).then_some(window);
    let enable = |heap: &ObjectHeap, _: &_| Ok(heap.enable_pointers(window)?);
    // SAFETY: the caller's promise.
    unsafe { with(heap, enable) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_pointer(
    heap: *mut swing_heap,
    object: u64,
    out: *mut *mut c_void,
) -> c_int {
    let pointer = |heap: &ObjectHeap| Ok(heap.pointer(Handle::from_bits(object))?.as_ptr().cast());
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, pointer) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a `swing_object`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_object(
    heap: *mut swing_heap,
    address: *const c_void,
    out: *mut u64,
) -> c_int {
    let object = |heap: &ObjectHeap| Ok(heap.handle_of(address.cast())?.to_bits());
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, object) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_malloc(
    heap: *mut swing_heap,
    size: usize,
    out: *mut *mut c_void,
) -> c_int {
    let alloc = |heap: &ObjectHeap| Ok(heap.alloc_pointer(size)?.as_ptr().cast());
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, alloc) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_remalloc(
    heap: *mut swing_heap,
    address: *mut c_void,
    size: usize,
    out: *mut *mut c_void,
) -> c_int {
    let change = |heap: &ObjectHeap| {
        if NonNull::new(address).is_none() {
            return Err(null());
        }
        let handle = heap.handle_of(address.cast())?;
        if size > ::swing_heap::MAX_POINTER_BYTES {
            return Err(HeapError::PointerSize { len: size }.into());
        }
        heap.realloc(handle, size)?;
        Ok(heap.pointer(handle)?.as_ptr().cast())
    };
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, change) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_dispose(heap: *mut swing_heap, address: *mut c_void) -> c_int {
    let free = |heap: &ObjectHeap, _: &_| Ok(heap.free(heap.handle_of(address.cast())?)?);
    // SAFETY: the caller's promise.
    unsafe { with(heap, free) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_pin(heap: *mut swing_heap, address: *const c_void) -> c_int {
    let pin = |heap: &ObjectHeap, outer: &swing_heap| {
        heap.pin_address(address.cast())?;
        outer.accesses.fetch_add(1, Ordering::AcqRel);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(heap, pin) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_unpin(heap: *mut swing_heap, address: *const c_void) -> c_int {
    let unpin = |heap: &ObjectHeap, outer: &swing_heap| {
        heap.unpin_address(address.cast())?;
        outer.accesses.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(heap, unpin) }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// See `fgmm.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_heap_begin_common() -> c_int {
    let known = COMMON.load(Ordering::Acquire);
    // SAFETY: it was opened here, and what it points to is never freed.
    if unsafe { known.as_ref() }.is_some_and(|heap| heap.process == std::process::id()) {
        return 0;
    }
    let mebibytes = |name| variable(name).unwrap_or(0).saturating_mul(1 << 20);
    let config = swing_heap_config {
        budget: mebibytes("FGMM_BUDGET_MIB"),
        disk_limit: mebibytes("FGMM_DISK_MIB"),
        ..Default::default()
    };
    let directory = std::env::var("FGMM_DIRECTORY").unwrap_or_else(|_| "/var/tmp".to_owned());
    let Ok(directory) = std::ffi::CString::new(directory) else {
        return error::note(Failure::new(Code::Argument, "FGMM_DIRECTORY is no path"));
    };
    let mut heap = null_mut();
    // SAFETY: a C string, a configuration, and room for a pointer.
    let status = unsafe { swing_heap_open(directory.as_ptr(), &raw const config, &raw mut heap) };
    if status != 0 {
        return status;
    }
    // One of the process that this one was forked from stays as it is: that has it open.
    let first = COMMON.compare_exchange(known, heap, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        // Another thread was faster. SAFETY: the heap has just been opened, here.
        return unsafe { swing_heap_close(heap) };
    }
    0
}

/// See `fgmm.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_heap_common() -> *mut swing_heap {
    COMMON.load(Ordering::Acquire)
}

/// See `fgmm.h`.
#[unsafe(no_mangle)]
pub extern "C" fn swing_heap_end_common() -> c_int {
    let heap = COMMON.swap(null_mut(), Ordering::AcqRel);
    if heap.is_null() {
        return 0;
    }
    // SAFETY: it was opened by `swing_heap_begin_common`.
    unsafe { swing_heap_close(heap) }
}
