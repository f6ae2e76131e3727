//! The exported functions for object heaps in areas: sharing their state, and reading the states
//! that other processes have shared; `include/fgmm.h` documents them.
//!
//! A snapshot is known by a pointer that stays valid for the life of the process, as a heap is (see
//! [`crate::object_calls`]). A forked child reads the snapshots of its parent.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ::swing::{AreaName, Namespace};
use ::swing_heap::{Handle, HeapSnapshot, ObjectHeap};
use parking_lot::RwLock;

use crate::calls::null;
use crate::error::{self, Code, Failure, Result};
use crate::heap_calls::swing_block;
use crate::object_calls::{
    config_of, handed_out, options_of, part_of, run, swing_heap, swing_heap_config, with_into,
};

/// A state of a heap that has been shared; see the module. C sees a pointer to it only.
#[allow(non_camel_case_types)]
#[derive(Debug)]
pub struct swing_heap_snapshot {
    snapshot: RwLock<Option<HeapSnapshot>>,
}

/// The default namespace and the name of an area in it.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn place_of(name: *const c_char) -> Result<(Namespace, AreaName)> {
    if name.is_null() {
        return Err(null());
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(name) }.to_str();
    let text = text.map_err(|e| Failure::new(Code::Argument, format!("a name in UTF-8: {e}")))?;
    let name = AreaName::new(text).map_err(|e| Failure::new(Code::Argument, e))?;
    let namespace = Namespace::open_default().map_err(|e| Failure::new(Code::Io, e))?;
    Ok((namespace, name))
}

/// See `fgmm.h`.
///
/// # Safety
/// `name` and `directory` are C strings, `config` is null or points to a configuration, `out` to a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_open_in(
    name: *const c_char,
    directory: *const c_char,
    config: *const swing_heap_config,
    out: *mut *mut swing_heap,
) -> c_int {
    run(None, || {
        if directory.is_null() || out.is_null() {
            return Err(null());
        }
        // SAFETY: the caller's promise.
        let (namespace, name) = unsafe { place_of(name) }?;
        // SAFETY: the caller's promise.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(directory) }.to_bytes());
        // SAFETY: the caller's promise.
        let config = unsafe { config_of(config) };
        let options = options_of(config)?;
        if config.is_persistent() {
            return Err(Failure::new(Code::Argument, "a heap in an area is not persistent"));
        }
        let heap = ObjectHeap::open_in(&namespace, &name, Path::new(path), options)?;
        // SAFETY: the caller's promise.
        unsafe { out.write(handed_out(heap)) };
        Ok(())
    })
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open_in`]; `epoch` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_share(heap: *mut swing_heap, epoch: *mut u64) -> c_int {
    let mut ignored = 0;
    let out = if epoch.is_null() { &raw mut ignored } else { epoch };
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, |heap| Ok(heap.share()?.0)) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `name` is a C string, `out` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_snapshot_open(
    name: *const c_char,
    out: *mut *mut swing_heap_snapshot,
) -> c_int {
    run(None, || {
        if out.is_null() {
            return Err(null());
        }
        // SAFETY: the caller's promise.
        let (namespace, name) = unsafe { place_of(name) }?;
        let snapshot = RwLock::new(Some(HeapSnapshot::open(&namespace, &name)?));
        // SAFETY: the caller's promise.
        unsafe { out.write(Box::into_raw(Box::new(swing_heap_snapshot { snapshot }))) };
        Ok(())
    })
}

/// See `fgmm.h`.
///
/// # Safety
/// `snapshot` came from [`swing_heap_snapshot_open`], and nobody uses addresses of it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_snapshot_close(snapshot: *mut swing_heap_snapshot) -> c_int {
    if snapshot.is_null() {
        return error::note(null());
    }
    // SAFETY: the caller's promise; what it points to is never freed.
    let outer = unsafe { &*snapshot };
    run(None, || outer.snapshot.write().take().map(drop).ok_or_else(closed))
}

fn closed() -> Failure {
    Failure::new(Code::Argument, "the snapshot is closed")
}

/// Runs a body with an open snapshot; stores what it gives.
///
/// # Safety
/// `snapshot` is null or came from [`swing_heap_snapshot_open`]; `out` is null or valid for a
/// store.
unsafe fn within<T>(
    snapshot: *const swing_heap_snapshot,
    out: *mut T,
    body: impl FnOnce(&HeapSnapshot) -> Result<T>,
) -> c_int {
    run(None, || {
        if snapshot.is_null() || out.is_null() {
            return Err(null());
        }
        // SAFETY: the caller's promise; what it points to is never freed.
        let outer = unsafe { &*snapshot };
        let value = body(outer.snapshot.read_recursive().as_ref().ok_or_else(closed)?)?;
        // SAFETY: not null, and the caller promises the rest.
        unsafe { out.write(value) };
        Ok(())
    })
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_snapshot_epoch(
    snapshot: *mut swing_heap_snapshot,
    out: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { within(snapshot, out, |snapshot| Ok(snapshot.epoch().0)) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a `swing_object`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_snapshot_root(
    snapshot: *mut swing_heap_snapshot,
    out: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { within(snapshot, out, |snapshot| Ok(snapshot.root().map_or(0, Handle::to_bits))) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_snapshot_size(
    snapshot: *mut swing_heap_snapshot,
    object: u64,
    out: *mut usize,
) -> c_int {
    let size = |snapshot: &HeapSnapshot| Ok(snapshot.len_of(Handle::from_bits(object))?);
    // SAFETY: the caller's promise.
    unsafe { within(snapshot, out, size) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `objects` has room for `room` numbers; `count` points to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_snapshot_objects(
    snapshot: *mut swing_heap_snapshot,
    last: u64,
    objects: *mut u64,
    room: usize,
    count: *mut usize,
) -> c_int {
    let list = |snapshot: &HeapSnapshot| {
        if objects.is_null() && room > 0 {
            return Err(null());
        }
        let last = (last != 0).then(|| Handle::from_bits(last));
        let mut found = 0;
        for handle in snapshot.handles_after(last).take(room) {
            // SAFETY: the caller's promise.
            unsafe { objects.add(found).write(handle.to_bits()) };
            found += 1;
        }
        Ok(found)
    };
    // SAFETY: the caller's promise.
    unsafe { within(snapshot, count, list) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `to` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_snapshot_read(
    snapshot: *mut swing_heap_snapshot,
    object: u64,
    offset: usize,
    to: *mut c_void,
    size: usize,
) -> c_int {
    let read = |snapshot: &HeapSnapshot| {
        let bytes = snapshot.read(Handle::from_bits(object))?;
        let from = &bytes[part_of(offset, size, bytes.len())?];
        if size > 0 {
            if to.is_null() {
                return Err(null());
            }
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), size) };
        }
        Ok(())
    };
    let mut nothing = ();
    // SAFETY: the caller's promise.
    unsafe { within(snapshot, &raw mut nothing, read) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a `swing_block`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_snapshot_in_place(
    snapshot: *mut swing_heap_snapshot,
    object: u64,
    out: *mut swing_block,
) -> c_int {
    let find = |snapshot: &HeapSnapshot| {
        let handle = Handle::from_bits(object);
        Ok(match snapshot.in_place(handle)? {
            Some(bytes) => {
                swing_block { address: bytes.as_ptr().cast_mut().cast(), size: bytes.len() }
            }
            None => swing_block { address: std::ptr::null_mut(), size: snapshot.len_of(handle)? },
        })
    };
    // SAFETY: the caller's promise.
    unsafe { within(snapshot, out, find) }
}
