//! `malloc` and its relatives, as C and POSIX define them.

use crate::{OWN, heap};
use libc::{c_int, c_void, size_t};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use swing::{AreaOffset, ByteLen};
use swing_calls::strict_assert;
use swing_malloc::FreeError;

/// Least room in front of a block of the other allocator, for its length and that room's.
const HEAD: usize = 16;

/// Blocks of this length and longer are looked at before they stay where they are.
const LARGE: usize = 32 << 10;

fn fail(code: c_int) -> *mut c_void {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() = code };
    null_mut()
}

/// A block outside the heap, behind a head as long as its alignment: `.. length, head`.
fn own(len: usize, align: usize) -> *mut c_void {
    let head = align.max(HEAD);
    strict_assert!(head.is_power_of_two(), "alignments are checked before");
    let layout = head.checked_add(len).and_then(|all| Layout::from_size_align(all, head).ok());
    let Some(layout) = layout else { return fail(libc::ENOMEM) };
    // SAFETY: the layout is not empty; the head is inside the block.
    unsafe {
        let at = OWN.alloc(layout);
        if at.is_null() {
            return fail(libc::ENOMEM);
        }
        let block = at.add(head);
        strict_assert!(
            block.addr().is_multiple_of(head),
            "behind its head a block is aligned, too"
        );
        strict_assert!(heap::offset(block).is_none(), "the other allocator has other memory");
        block.cast::<usize>().sub(1).write(head);
        block.cast::<usize>().sub(2).write(len);
        block.cast()
    }
}

fn own_len(block: *mut c_void) -> usize {
    // SAFETY: the block came from `own`.
    unsafe { block.cast::<usize>().sub(2).read() }
}

fn own_free(block: *mut c_void) {
    // SAFETY: the block came from `own`, whose layout is found again in its head.
    unsafe {
        let head = block.cast::<usize>().sub(1).read();
        strict_assert!(
            head.is_power_of_two() && head >= HEAD && block.addr().is_multiple_of(head),
            "free() of what malloc() did not give"
        );
        let layout = Layout::from_size_align_unchecked(head + own_len(block), head);
        OWN.dealloc(block.cast::<u8>().sub(head), layout);
    }
}

#[inline(always)]
fn get(len: usize, align: usize) -> *mut c_void {
    debug_assert!(align.is_power_of_two(), "alignments are checked before");
    if heap::on_heap() {
        return get_from_heap(len, align);
    }
    let found = heap::with(|heap| {
        let len = ByteLen(len as u64);
        let grant = if align <= 16 {
            heap.allocate(len)
        } else {
            heap.allocate_aligned(len, ByteLen(align as u64))
        };
        grant.ok()
    });
    match found {
        Some(Some(grant)) => {
            debug_assert!(grant.len.0 as usize >= len, "a block is as long as was asked for");
            let block = heap::address(grant.offset.0);
            debug_assert!(block.addr().is_multiple_of(align), "and aligned as was asked for");
            block.cast()
        }
        // The heap is full, or cannot have this alignment.
        Some(None) | None => own(len, align),
    }
}

/// As [`get`], on a stack in the heap.
#[cold]
#[inline(never)]
fn get_from_heap(len: usize, align: usize) -> *mut c_void {
    heap::on_other_stack(|| get(len, align))
}

#[inline(always)]
fn put(block: *mut c_void) {
    if heap::on_heap() {
        return put_from_heap(block);
    }
    match heap::offset(block.cast()) {
        // In a forked child, and inside this library, blocks of the heap stay.
        Some(offset) => {
            if let Some(Err(error)) = heap::with(|heap| heap.free(AreaOffset(offset))) {
                not_freed(&error);
            }
        }
        None => own_free(block),
    }
}

/// As [`put`], on a stack in the heap.
#[cold]
#[inline(never)]
fn put_from_heap(block: *mut c_void) {
    heap::on_other_stack(|| put(block));
}

/// Where there is no memory for that, a block stays. Anything else is the program's mistake, and
/// ends it as it would with glibc.
#[cold]
fn not_freed(error: &FreeError) {
    strict_assert!(
        matches!(error, FreeError::Write(_)),
        "what is freed came from malloc() and has not been freed before"
    );
}

fn usable(block: *mut c_void) -> usize {
    match heap::offset(block.cast()) {
        Some(offset) => heap::usable(offset),
        None => own_len(block),
    }
}

/// C's `malloc`.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(len: size_t) -> *mut c_void {
    get(len, 16)
}

/// C's `free`; keeps `errno`.
///
/// # Safety
/// `block` is null or a block of these functions, and not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if block.is_null() {
        return;
    }
    // SAFETY: the address of this thread's errno.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        put(block);
        *errno = before;
    }
}

/// C's `calloc`.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: size_t, size: size_t) -> *mut c_void {
    let Some(len) = count.checked_mul(size) else { return fail(libc::ENOMEM) };
    let block = get(len, 16);
    if block.is_null() {
        return block;
    }
    let absent = heap::offset(block.cast()).is_some_and(|offset| {
        let (start, end) = (AreaOffset(offset), AreaOffset(offset + len as u64));
        // Memory that does not exist yet reads as zeros.
        len >= 2 << 20
            && heap::with_any_stack(|heap| !heap.heap().area().any_present(&(start..end)))
                == Some(true)
    });
    if !absent {
        debug_assert!(usable(block) >= len, "as long as was asked for");
        // SAFETY: the block was just granted and has at least `len` bytes.
        unsafe { block.cast::<u8>().write_bytes(0, len) };
    }
    block
}

/// C's `realloc`.
///
/// # Safety
/// As [`free`], unless null is returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, len: size_t) -> *mut c_void {
    if block.is_null() {
        return get(len, 16);
    }
    if len == 0 {
        // SAFETY: the caller's promise.
        unsafe { free(block) };
        return null_mut();
    }
    let has = usable(block);
    if let Some(offset) = heap::offset(block.cast()) {
        let stays = len <= has && len >= has / 2;
        // What moves is freed, and looked at then.
        let freed = has >= LARGE
            && len >= has / 2
            && heap::with_any_stack(|heap| heap.holds_freed(AreaOffset(offset))) == Some(true);
        strict_assert!(!freed, "what is reallocated has not been freed before");
        let grows = len > has
            && heap::with_any_stack(|heap| {
                heap.grow(AreaOffset(offset), ByteLen(len as u64)).is_some()
            }) == Some(true);
        if stays || grows {
            return block;
        }
    }
    let moved = get(len, 16);
    strict_assert!(moved != block, "the old block is still allocated");
    if !moved.is_null() {
        // SAFETY: both blocks have that many bytes and are different.
        unsafe {
            std::ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), has.min(len));
            free(block);
        }
    }
    moved
}

/// BSD's `reallocarray`.
///
/// # Safety
/// As [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: size_t,
    size: size_t,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(len) => unsafe { realloc(block, len) },
        None => fail(libc::ENOMEM),
    }
}

/// POSIX's `posix_memalign`.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    out: *mut *mut c_void,
    align: size_t,
    len: size_t,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let block = get(len, align);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(block) };
    0
}

/// C's `aligned_alloc`.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(align: size_t, len: size_t) -> *mut c_void {
    if align.is_power_of_two() { get(len, align) } else { fail(libc::EINVAL) }
}

/// The older `memalign`, which takes the next power of two, as glibc's does.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(align: size_t, len: size_t) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => get(len, align),
        None => fail(libc::EINVAL),
    }
}

/// C23's `free` of a block whose length the program knows.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, len: size_t) {
    debug_assert!(block.is_null() || usable(block) >= len, "as long as it was asked for");
    // SAFETY: the caller's promise.
    unsafe { free(block) };
}

/// C23's `free` of a block of `aligned_alloc`.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, align: size_t, len: size_t) {
    debug_assert!(block.addr().is_multiple_of(align.max(1)), "aligned as it was asked for");
    // SAFETY: the caller's promise.
    unsafe { free_sized(block, len) };
}

/// The older `valloc`.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(len: size_t) -> *mut c_void {
    get(len, 4096)
}

/// The older `pvalloc`.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(len: size_t) -> *mut c_void {
    match len.checked_next_multiple_of(4096) {
        Some(len) => get(len, 4096),
        None => fail(libc::ENOMEM),
    }
}

/// glibc's `malloc_usable_size`.
///
/// # Safety
/// As [`free`]; the block stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> size_t {
    if block.is_null() { 0 } else { usable(block) }
}
