//! The one heap of the process, and which threads are inside of this library.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use swing_calls::strict_assert;
use swing_malloc::Malloc;

use super::stacks::{self, on_other_stack};

/// The heap as long as new blocks come from it.
static HEAP: AtomicPtr<Malloc> = AtomicPtr::new(null_mut());
/// The same, also in a forked child.
static ANY: AtomicPtr<Malloc> = AtomicPtr::new(null_mut());
static BASE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// This library is at work in this thread: what it asks for comes from jemalloc.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on the heap; `None` when there is none, or this thread is inside already. Not on a
/// stack in the heap: what closes an area to stores, as giving memory back does, must not store
/// there itself.
#[inline(always)]
pub(crate) fn with<R>(work: impl FnOnce(&Malloc) -> R) -> Option<R> {
    let heap = now()?;
    INSIDE.with(|inside| {
        if inside.replace(true) {
            return None;
        }
        let result = work(heap);
        debug_assert!(inside.get(), "nobody leaves for another");
        inside.set(false);
        Some(result)
    })
}

/// As [`with`], also on a stack in the heap.
pub(crate) fn with_any_stack<R>(work: impl FnOnce(&Malloc) -> R) -> Option<R> {
    if on_heap() { on_other_stack(|| with(work)) } else { with(work) }
}

/// The heap that new blocks come from.
#[inline(always)]
pub(crate) fn now() -> Option<&'static Malloc> {
    // SAFETY: the heap is leaked, so it lives as long as the process.
    unsafe { HEAP.load(Ordering::Relaxed).as_ref() }
}

/// New blocks come from this heap from now on.
pub(crate) fn begin(malloc: Malloc) {
    assert!(HEAP.load(Ordering::SeqCst).is_null(), "a process has one heap");
    let area = malloc.heap().area();
    let (base, len) = (area.base().as_ptr() as usize, area.geometry().reserve().0 as usize);
    assert!(area.is_tracked() && base.is_multiple_of(4096), "stores are trapped, pages whole");
    assert!(base.checked_add(len).is_some(), "no block's end wraps");
    LEN.store(len, Ordering::SeqCst);
    BASE.store(base, Ordering::SeqCst);
    let heap = Box::into_raw(Box::new(malloc));
    ANY.store(heap, Ordering::SeqCst);
    HEAP.store(heap, Ordering::SeqCst);
}

/// In a forked child: no new block comes from it; whether there was one.
pub(crate) fn end_in_child() -> bool {
    let heap = HEAP.swap(null_mut(), Ordering::SeqCst);
    strict_assert!(heap.is_null() || heap == ANY.load(Ordering::SeqCst), "there is one heap");
    stacks::in_child();
    !heap.is_null()
}

/// Whether this library is at work in this thread.
pub(crate) fn is_inside() -> bool {
    INSIDE.with(Cell::get)
}

/// Runs `work` with all allocations of this thread outside of the heap.
pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> R {
    INSIDE.with(|inside| {
        let before = inside.replace(true);
        let result = work();
        strict_assert!(inside.replace(before), "what was begun outside ends outside");
        result
    })
}

/// This thread is this library's own.
pub(crate) fn outside_for_ever() {
    INSIDE.with(|inside| inside.set(true));
}

/// Runs what the C library calls of the program in the middle of a call that is [`outside`]: it
/// has the heap as ever. It may be left by a jump.
pub(crate) fn in_program<R>(work: impl FnOnce() -> R) -> R {
    INSIDE.with(|inside| {
        let before = inside.replace(false);
        let result = work();
        strict_assert!(!inside.replace(before), "what a program begins outside it ends");
        result
    })
}

/// Whether this thread runs on a stack in the heap.
#[inline(always)]
pub(crate) fn on_heap() -> bool {
    let here = 0_u8;
    offset(&raw const here).is_some()
}

/// Whether there is a heap in an area, also a forked child's copy of one.
pub(crate) fn exists() -> bool {
    !ANY.load(Ordering::Relaxed).is_null()
}

/// The offset of an address in the heap's area.
#[inline(always)]
pub(crate) fn offset(at: *const u8) -> Option<u64> {
    let offset = (at as usize).wrapping_sub(BASE.load(Ordering::Relaxed));
    (offset < LEN.load(Ordering::Relaxed)).then_some(offset as u64)
}

/// The address of an offset.
#[inline(always)]
pub(crate) fn address(offset: u64) -> *mut u8 {
    debug_assert!((offset as usize) < LEN.load(Ordering::Relaxed), "a block lies in the heap");
    (BASE.load(Ordering::Relaxed) + offset as usize) as *mut u8
}

/// Bytes that may be used at a block of the heap; also in a forked child.
pub(crate) fn usable(offset: u64) -> usize {
    // SAFETY: as in `now`.
    let heap = unsafe { ANY.load(Ordering::Relaxed).as_ref() };
    let len = heap.and_then(|heap| heap.usable_size(swing::AreaOffset(offset)));
    let len = len.map_or(0, |len| len.0 as usize);
    strict_assert!(len <= LEN.load(Ordering::Relaxed), "a block lies in the heap");
    len
}
