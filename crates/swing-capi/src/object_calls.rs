//! The exported functions of the object heap; `include/fgmm.h` documents them. As in
//! [`crate::calls`], each returns 0 or a negative number, and never unwinds into C.
//!
//! A heap is known by a pointer that stays valid for the life of the process: what it points to is
//! a few words that outlive [`swing_heap_close`], so a call after that is an error and no more.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ::swing_heap::{
    Access, AreaProblem, Handle, HeapError, HeapOptions, MAX_OBJECT_BYTES, ObjectHeap, PolicyKind,
};
use parking_lot::RwLock;
use swing_tier::{CommitError, Directory, DirectoryOptions, OpenError, ReadError};

use crate::calls::null;
use crate::error::{self, Code, Failure, Result};
use crate::heap_calls::swing_block;

/// `swing_heap_begin`: for reading, beside other readers.
pub const SWING_HEAP_READ: c_uint = 0;
/// `swing_heap_begin`: for reading and writing, alone.
pub const SWING_HEAP_WRITE: c_uint = 1;
/// `swing_heap_begin`: keeps the object at its address; others may read and write it.
pub const SWING_HEAP_PIN: c_uint = 2;

/// The policy S3-FIFO, as without a flag.
pub const SWING_HEAP_S3FIFO: c_uint = 1;
/// A heap that outlives the process.
pub const SWING_HEAP_PERSISTENT: c_uint = 2;
/// The policy of two lists.
pub const SWING_HEAP_TWO_LISTS: c_uint = 4;

/// Is told how far recovery is: entries read, and all.
#[allow(non_camel_case_types)]
pub type swing_heap_progress = Option<unsafe extern "C" fn(u64, u64, *mut c_void)>;

/// A heap; see the module. C sees a pointer to it only.
#[repr(C)]
#[derive(Debug)]
pub struct swing_heap {
    heap: RwLock<Option<ObjectHeap>>,
    /// Accesses that were begun and not ended.
    pub(crate) accesses: AtomicU64,
    broken: AtomicBool,
    /// The process that opened it.
    pub(crate) process: u32,
}

/// How a heap is opened; zeros mean what it does by itself.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct swing_heap_config {
    /// Memory for objects, metadata and buffers together, in bytes.
    pub budget: u64,
    /// The most bytes on the disk.
    pub disk_limit: u64,
    /// How long a call waits for an object in use, or for the disk.
    pub max_wait_ms: u64,
    /// `SWING_HEAP_...` flags.
    pub flags: u64,
}

/// What a heap holds and has done.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct swing_heap_counters {
    /// Objects that exist.
    pub objects: u64,
    /// Their lengths together.
    pub object_bytes: u64,
    /// Objects in memory.
    pub resident_objects: u64,
    /// Their lengths together.
    pub resident_bytes: u64,
    /// The budget.
    pub budget_bytes: u64,
    /// What the heap takes of it.
    pub used_bytes: u64,
    /// The part of that which is not for cells.
    pub metadata_bytes: u64,
    /// Accesses that found the object in memory.
    pub hits: u64,
    /// Accesses that did not.
    pub misses: u64,
    /// What half of the misses took at most, in nanoseconds.
    pub miss_p50_ns: u64,
    /// The same for 99 %.
    pub miss_p99_ns: u64,
    /// The same for 99.9 %.
    pub miss_p999_ns: u64,
    /// Lengths of objects that left memory with a write.
    pub evicted_bytes: u64,
    /// Bytes written to the disk.
    pub written_bytes: u64,
    /// Bytes read from the disk.
    pub read_bytes: u64,
    /// Bytes of the heap's file.
    pub file_bytes: u64,
    /// Bytes of the file that objects need.
    pub live_bytes: u64,
    /// Bytes of the file that only snapshots need.
    pub kept_bytes: u64,
    /// Objects that left memory.
    pub evicted_objects: u64,
    /// Those of them that left without a write.
    pub dropped_objects: u64,
    /// Lengths of objects that flushes wrote.
    pub flushed_bytes: u64,
    /// Lengths of objects that garbage collection wrote again.
    pub moved_bytes: u64,
    /// Reads that found damaged bytes.
    pub damaged: u64,
}

const _: () = assert!(size_of::<swing_heap_config>() == 32);
const _: () = assert!(size_of::<swing_heap_counters>() == 23 * 8);

impl From<HeapError> for Failure {
    fn from(e: HeapError) -> Self {
        let code = match &e {
            HeapError::NoObject { .. } | HeapError::NoPointer { .. } => Code::NoObject,
            HeapError::InUse { .. } => Code::Busy,
            HeapError::NoMemory { .. }
            | HeapError::TooManyObjects
            | HeapError::TooManyHeld { .. } => Code::NoMemory,
            HeapError::DiskFull(_) => Code::DiskFull,
            HeapError::Damaged { .. } => Code::Corrupt,
            HeapError::Forked => Code::Forked,
            HeapError::Io(_) | HeapError::Sync(_) | HeapError::NoPointers { .. } => Code::Io,
            HeapError::Open(e) => match e {
                OpenError::InUse { .. } => Code::Busy,
                OpenError::Io(e) if e.cause.is_full() => Code::DiskFull,
                OpenError::Io(_) | OpenError::ForeignDirectory { .. } => Code::Io,
                OpenError::Options(_) | OpenError::Version { .. } => Code::Argument,
                _ => Code::Corrupt,
            },
            HeapError::Table(ReadError::Io(_)) => Code::Io,
            HeapError::Table(_) => Code::Corrupt,
            HeapError::Area { problem, .. } => match problem {
                AreaProblem::NameTaken => Code::Exists,
                AreaProblem::NotFound => Code::NotFound,
                AreaProblem::NotShared => Code::Refused,
                AreaProblem::NoMemory => Code::NoMemory,
                AreaProblem::NoAddresses => Code::NoAddresses,
                AreaProblem::Damaged => Code::Corrupt,
                _ => Code::Io,
            },
            HeapError::OwnerGone { .. } => Code::NotFound,
            HeapError::NoHeap(_) => Code::Corrupt,
            HeapError::Writing { .. } => Code::Busy,
            HeapError::Flush(e) => match e {
                CommitError::Full(_) => Code::DiskFull,
                CommitError::Limit { .. } => Code::NoMemory,
                _ => Code::Io,
            },
            _ => Code::Argument,
        };
        Failure::new(code, e)
    }
}

/// Runs a body; failures and panics become numbers. A panic breaks the heap it is about.
pub(crate) fn run(broken: Option<&AtomicBool>, body: impl FnOnce() -> Result<()>) -> c_int {
    let mistake = || Failure::new(Code::Internal, "a check inside the object heap has failed");
    let failure = if broken.is_some_and(|b| b.load(Ordering::Relaxed)) {
        mistake()
    } else {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => return 0,
            Ok(Err(failure)) => failure,
            Err(_) => {
                if let Some(broken) = broken {
                    broken.store(true, Ordering::Relaxed);
                }
                mistake()
            }
        }
    };
    error::note(failure)
}

fn closed() -> Failure {
    Failure::new(Code::Argument, "the heap is closed")
}

/// Runs a body with an open heap.
///
/// # Safety
/// `heap` is null or came from [`swing_heap_open`].
pub(crate) unsafe fn with(
    heap: *const swing_heap,
    body: impl FnOnce(&ObjectHeap, &swing_heap) -> Result<()>,
) -> c_int {
    if heap.is_null() {
        let text = "the heap is null; open one first (sysInit for nv_malloc and its relatives)";
        return error::note(Failure::new(Code::Argument, text));
    }
    // SAFETY: the caller's promise; what it points to is never freed.
    let outer = unsafe { &*heap };
    run(Some(&outer.broken), || match &*outer.heap.read_recursive() {
        Some(heap) => body(heap, outer),
        None => Err(closed()),
    })
}

/// As `with`, for a call that gives something.
///
/// # Safety
/// As `with`; `out` is null or valid for a store.
pub(crate) unsafe fn with_into<T>(
    heap: *const swing_heap,
    out: *mut T,
    body: impl FnOnce(&ObjectHeap) -> Result<T>,
) -> c_int {
    let store = |heap: &ObjectHeap, _: &swing_heap| {
        if out.is_null() {
            return Err(null());
        }
        let value = body(heap)?;
        // SAFETY: not null, and the caller promises the rest.
        unsafe { out.write(value) };
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(heap, store) }
}

/// The configuration that C gives.
///
/// # Safety
/// `config` is null or points to a configuration.
pub(crate) unsafe fn config_of(config: *const swing_heap_config) -> swing_heap_config {
    // SAFETY: the caller's promise.
    if config.is_null() { Default::default() } else { unsafe { config.read() } }
}

impl swing_heap_config {
    pub(crate) fn is_persistent(&self) -> bool {
        self.flags & u64::from(SWING_HEAP_PERSISTENT) != 0
    }
}

/// A heap as C knows it.
pub(crate) fn handed_out(heap: ObjectHeap) -> *mut swing_heap {
    Box::into_raw(Box::new(swing_heap {
        heap: RwLock::new(Some(heap)),
        accesses: AtomicU64::new(0),
        broken: AtomicBool::new(false),
        process: std::process::id(),
    }))
}

pub(crate) fn options_of(config: swing_heap_config) -> Result<HeapOptions> {
    let mut options = HeapOptions::default();
    let known = SWING_HEAP_S3FIFO | SWING_HEAP_PERSISTENT | SWING_HEAP_TWO_LISTS;
    if config.flags & !u64::from(known) != 0 {
        return Err(Failure::new(Code::Argument, format!("unknown flags {:#x}", config.flags)));
    }
    let has = |flag: c_uint| config.flags & u64::from(flag) != 0;
    options.policy = match (has(SWING_HEAP_S3FIFO), has(SWING_HEAP_TWO_LISTS)) {
        (true, true) => return Err(Failure::new(Code::Argument, "flags of two policies")),
        (true, false) => PolicyKind::S3Fifo,
        (false, true) => PolicyKind::TwoLists,
        (false, false) => options.policy,
    };
    if config.budget > 0 {
        options.budget = config.budget;
    }
    if config.disk_limit > 0 {
        options.disk_limit = config.disk_limit;
    }
    if config.max_wait_ms > 0 {
        options.max_wait = Duration::from_millis(config.max_wait_ms);
    }
    Ok(options)
}

/// See `fgmm.h`.
///
/// # Safety
/// `directory` is a C string, `config` is null or points to a configuration, `out` to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_open(
    directory: *const c_char,
    config: *const swing_heap_config,
    out: *mut *mut swing_heap,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { swing_heap_open_with(directory, config, None, std::ptr::null_mut(), out) }
}

/// See `fgmm.h`.
///
/// # Safety
/// As [`swing_heap_open`]; `progress` is null or may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_open_with(
    directory: *const c_char,
    config: *const swing_heap_config,
    progress: swing_heap_progress,
    argument: *mut c_void,
    out: *mut *mut swing_heap,
) -> c_int {
    run(None, || {
        if directory.is_null() || out.is_null() {
            return Err(null());
        }
        // SAFETY: the caller's promise.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(directory) }.to_bytes());
        // SAFETY: the caller's promise.
        let config = unsafe { config_of(config) };
        let options = options_of(config)?;
        let heap = if !config.is_persistent() {
            ObjectHeap::open(Path::new(path), options)?
        } else {
            let made = DirectoryOptions { create: true, ..Default::default() };
            let directory = Directory::open(Path::new(path), made).map_err(HeapError::from)?;
            ObjectHeap::open_persistent_on(Arc::new(directory), options, &mut |recovery| {
                if let Some(progress) = progress {
                    // SAFETY: the caller's promise.
                    unsafe { progress(recovery.done, recovery.all, argument) };
                }
            })?
        };
        // SAFETY: the caller's promise.
        unsafe { out.write(handed_out(heap)) };
        Ok(())
    })
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_close(heap: *mut swing_heap) -> c_int {
    if heap.is_null() {
        return error::note(null());
    }
    // SAFETY: the caller's promise; what it points to is never freed.
    let outer = unsafe { &*heap };
    run(None, || {
        let mut inner = outer.heap.write();
        let accesses = outer.accesses.load(Ordering::Acquire);
        if accesses > 0 {
            let text = format!("{accesses} accesses have not been ended by swing_heap_end");
            return Err(Failure::new(Code::Busy, text));
        }
        match inner.take() {
            Some(heap) => Ok(heap.close()?),
            None => Err(closed()),
        }
    })
}

/// See `fgmm.h`.
///
/// # Safety
/// `bytes` is null or has `size` bytes; `out` points to a `swing_object`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_alloc(
    heap: *mut swing_heap,
    bytes: *const c_void,
    size: usize,
    out: *mut u64,
) -> c_int {
    let alloc = |heap: &ObjectHeap| {
        let handle = if bytes.is_null() || size > MAX_OBJECT_BYTES {
            heap.alloc_zeroed(size)?
        } else {
            // SAFETY: the caller's promise.
            heap.alloc_from(unsafe { std::slice::from_raw_parts(bytes.cast(), size) })?
        };
        Ok(handle.to_bits())
    };
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, alloc) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_realloc(
    heap: *mut swing_heap,
    object: u64,
    size: usize,
) -> c_int {
    let change = |heap: &ObjectHeap, _: &_| Ok(heap.realloc(Handle::from_bits(object), size)?);
    // SAFETY: the caller's promise.
    unsafe { with(heap, change) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_free(heap: *mut swing_heap, object: u64) -> c_int {
    let free = |heap: &ObjectHeap, _: &_| Ok(heap.free(Handle::from_bits(object))?);
    // SAFETY: the caller's promise.
    unsafe { with(heap, free) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a `size_t`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_size(
    heap: *mut swing_heap,
    object: u64,
    out: *mut usize,
) -> c_int {
    let size = |heap: &ObjectHeap| Ok(heap.len_of(Handle::from_bits(object))?);
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, size) }
}

/// The part of an object that is asked for.
pub(crate) fn part_of(offset: usize, size: usize, len: usize) -> Result<std::ops::Range<usize>> {
    match offset.checked_add(size) {
        Some(end) if end <= len => Ok(offset..end),
        _ => {
            let text = format!("{size} bytes from {offset} on, of an object of {len} bytes");
            Err(Failure::new(Code::Argument, text))
        }
    }
}

/// See `fgmm.h`.
///
/// # Safety
/// `to` has room for `size` bytes, which are not the object's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_read(
    heap: *mut swing_heap,
    object: u64,
    offset: usize,
    to: *mut c_void,
    size: usize,
) -> c_int {
    let read = |heap: &ObjectHeap, _: &_| {
        let handle = Handle::from_bits(object);
        let (guard, copy);
        let bytes: &[u8] = match heap.read(handle) {
            Ok(found) => {
                guard = found;
                &guard
            }
            // A copy needs no room in the heap.
            Err(HeapError::NoMemory { .. } | HeapError::DiskFull(_)) => {
                copy = heap.copy_of(handle)?;
                &copy
            }
            Err(error) => return Err(error.into()),
        };
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
    // SAFETY: the caller's promise.
    unsafe { with(heap, read) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `from` has `size` bytes, which are not the object's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_write(
    heap: *mut swing_heap,
    object: u64,
    offset: usize,
    from: *const c_void,
    size: usize,
) -> c_int {
    let write = |heap: &ObjectHeap, _: &_| {
        let copy;
        let bytes = if from.is_null() || size > MAX_OBJECT_BYTES {
            &[]
        } else {
            // SAFETY: the caller's promise.
            let bytes: &[u8] = unsafe { std::slice::from_raw_parts(from.cast(), size) };
            // Bytes of an object are taken out before the guard, for which they would wait.
            copy = ObjectHeap::any_pointers().then(|| bytes.to_vec());
            copy.as_deref().unwrap_or(bytes)
        };
        let handle = Handle::from_bits(object);
        // All bytes of an object: nothing has to come from the disk.
        if offset == 0 && !bytes.is_empty() && heap.overwrite(handle, bytes)? {
            return Ok(());
        }
        let mut guard = heap.write(handle)?;
        let range = part_of(offset, size, guard.len())?;
        if size > 0 {
            if from.is_null() {
                return Err(null());
            }
            guard[range].copy_from_slice(bytes);
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(heap, write) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `from` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_replace(
    heap: *mut swing_heap,
    object: u64,
    from: *const c_void,
    size: usize,
) -> c_int {
    let replace = |heap: &ObjectHeap, _: &_| {
        let handle = Handle::from_bits(object);
        if size == 0 || size > MAX_OBJECT_BYTES {
            return Err(HeapError::Size { len: size }.into());
        }
        if from.is_null() {
            return Err(null());
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(from.cast(), size) };
        Ok(heap.replace(handle, bytes)?)
    };
    // SAFETY: the caller's promise.
    unsafe { with(heap, replace) }
}

fn access_of(access: c_uint) -> Result<Access> {
    match access {
        SWING_HEAP_READ => Ok(Access::Read),
        SWING_HEAP_WRITE => Ok(Access::Write),
        SWING_HEAP_PIN => Ok(Access::Pin),
        other => Err(Failure::new(Code::Argument, format!("no kind of access: {other}"))),
    }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a `swing_block`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_begin(
    heap: *mut swing_heap,
    object: u64,
    access: c_uint,
    out: *mut swing_block,
) -> c_int {
    let begin = |heap: &ObjectHeap, outer: &swing_heap| {
        if out.is_null() {
            return Err(null());
        }
        let access = access_of(access)?;
        let (address, size) = heap.begin_access(Handle::from_bits(object), access)?;
        outer.accesses.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the caller's promise.
        unsafe { out.write(swing_block { address: address.cast(), size }) };
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(heap, begin) }
}

/// See `fgmm.h`.
///
/// # Safety
/// The access was begun by [`swing_heap_begin`], and nobody uses its address any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_end(
    heap: *mut swing_heap,
    object: u64,
    access: c_uint,
) -> c_int {
    let end = |heap: &ObjectHeap, outer: &swing_heap| {
        let access = access_of(access)?;
        // SAFETY: the caller's promise.
        unsafe { heap.end_access(Handle::from_bits(object), access) }?;
        outer.accesses.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(heap, end) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `objects` has `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_prefetch(
    heap: *mut swing_heap,
    objects: *const u64,
    count: usize,
) -> c_int {
    let fetch = |heap: &ObjectHeap, _: &_| {
        if count == 0 {
            return Ok(());
        }
        if objects.is_null() {
            return Err(null());
        }
        // SAFETY: the caller's promise.
        let bits = unsafe { std::slice::from_raw_parts(objects, count) };
        for part in bits.chunks(256) {
            let handles: Vec<_> = part.iter().map(|&b| Handle::from_bits(b)).collect();
            heap.prefetch(&handles)?;
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(heap, fetch) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_set_budget(heap: *mut swing_heap, budget: u64) -> c_int {
    let set = |heap: &ObjectHeap, _: &_| Ok(heap.set_budget(budget)?);
    // SAFETY: the caller's promise.
    unsafe { with(heap, set) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a `swing_heap_counters`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_get_counters(
    heap: *mut swing_heap,
    out: *mut swing_heap_counters,
) -> c_int {
    let counters = |heap: &ObjectHeap| {
        let stats = heap.stats()?;
        let ns = |index: usize| stats.miss_latencies[index].as_nanos() as u64;
        Ok(swing_heap_counters {
            objects: stats.objects,
            object_bytes: stats.object_bytes,
            resident_objects: stats.resident_objects,
            resident_bytes: stats.resident_bytes,
            budget_bytes: stats.budget_bytes,
            used_bytes: stats.used_bytes,
            metadata_bytes: stats.metadata_bytes,
            hits: stats.hits,
            misses: stats.misses,
            miss_p50_ns: ns(0),
            miss_p99_ns: ns(1),
            miss_p999_ns: ns(2),
            evicted_bytes: stats.evicted_bytes,
            written_bytes: stats.written_bytes,
            read_bytes: stats.read_bytes,
            file_bytes: stats.file_bytes,
            live_bytes: stats.live_bytes,
            kept_bytes: stats.kept_bytes,
            evicted_objects: stats.evicted_objects,
            dropped_objects: stats.dropped_objects,
            flushed_bytes: stats.flushed_bytes,
            moved_bytes: stats.moved_bytes,
            damaged: stats.damaged,
        })
    };
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, counters) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_flush(heap: *mut swing_heap) -> c_int {
    let flush = |heap: &ObjectHeap, _: &_| Ok(heap.flush()?);
    // SAFETY: the caller's promise.
    unsafe { with(heap, flush) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `heap` came from [`swing_heap_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_set_root(heap: *mut swing_heap, object: u64) -> c_int {
    let root = (object != 0).then(|| Handle::from_bits(object));
    let set = |heap: &ObjectHeap, _: &_| Ok(heap.set_root(root)?);
    // SAFETY: the caller's promise.
    unsafe { with(heap, set) }
}

/// See `fgmm.h`.
///
/// # Safety
/// `out` points to a `swing_object`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn swing_heap_root(heap: *mut swing_heap, out: *mut u64) -> c_int {
    let root = |heap: &ObjectHeap| Ok(heap.root()?.map_or(0, Handle::to_bits));
    // SAFETY: the caller's promise.
    unsafe { with_into(heap, out, root) }
}
