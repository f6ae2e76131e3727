//! The one heap of the process: made by a constructor, paused around forks.

use crate::{calls, ending};
use libc::{c_int, c_void};
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use swing::geometry::{DATA_EXTENT, MAX_DATA_EXTENT, MAX_RESERVE, MIN_DATA_EXTENT};
use swing::{AreaName, AreaOptions, ByteLen, Namespace};
use swing_calls::strict_assert;
use swing_malloc::{Heap, HeapOptions, Malloc, MallocPause};

/// The heap as long as new blocks come from it.
static HEAP: AtomicPtr<Malloc> = AtomicPtr::new(null_mut());
/// The same, also in a forked child.
static ANY: AtomicPtr<Malloc> = AtomicPtr::new(null_mut());
static BASE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
/// The process that takes the heap's names away when it ends, and where they are.
static LEAVING: AtomicU32 = AtomicU32::new(0);
static HOME: OnceLock<PathBuf> = OnceLock::new();
/// The guard that the prepare handler hands to the other two.
static PAUSE: AtomicPtr<MallocPause<'static>> = AtomicPtr::new(null_mut());

thread_local! {
    /// This library is at work in this thread: what it asks for comes from jemalloc.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on the heap; `None` when there is none, or this thread is inside already. Not on a
/// stack in the heap: what closes an area to stores, as giving memory back does, must not store
/// there itself.
#[inline(always)]
pub(crate) fn with<R>(work: impl FnOnce(&Malloc) -> R) -> Option<R> {
    // SAFETY: the heap is leaked, so it lives as long as the process.
    let heap = unsafe { HEAP.load(Ordering::Relaxed).as_ref() }?;
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
    if on_heap() { calls::on_other_stack(|| with(work)) } else { with(work) }
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
    // SAFETY: as in `with`.
    let heap = unsafe { ANY.load(Ordering::Relaxed).as_ref() };
    let len = heap.and_then(|heap| heap.usable_size(swing::AreaOffset(offset)));
    let len = len.map_or(0, |len| len.0 as usize);
    strict_assert!(len <= LEN.load(Ordering::Relaxed), "a block lies in the heap");
    len
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    outside(|| {
        if let Err(error) = make() {
            eprintln!("swingmalloc_preload: the heap is an ordinary one: {error}");
        }
    });
}

/// The number in a variable of the environment; `usual` if it is not set.
fn number(name: &str, usual: u64, allowed: RangeInclusive<u64>) -> Result<u64, String> {
    let Ok(text) = std::env::var(name) else { return Ok(usual) };
    let given = text.parse().ok().filter(|number| allowed.contains(number));
    let (least, most) = allowed.into_inner();
    given.ok_or_else(|| format!("{name} must be from {least} to {most}, not {text:?}"))
}

/// The heap's address space, and what is copied at once.
fn options() -> Result<AreaOptions, String> {
    let gib = number("SWING_PRELOAD_GIB", 64, 1..=MAX_RESERVE.0 >> 30)?;
    let (least, most) = (MIN_DATA_EXTENT.0 >> 10, MAX_DATA_EXTENT.0 >> 10);
    let kib = number("SWING_PRELOAD_EXTENT_KIB", DATA_EXTENT.0 >> 10, least..=most)?;
    if !kib.is_power_of_two() {
        return Err(format!("SWING_PRELOAD_EXTENT_KIB must be a power of two, not {kib}"));
    }
    let usual = AreaOptions::with_reserve(ByteLen::gib(gib));
    Ok(AreaOptions { extent: ByteLen::kib(kib), ..usual })
}

fn make() -> Result<(), Box<dyn std::error::Error>> {
    assert!(HEAP.load(Ordering::SeqCst).is_null(), "a process has one heap");
    swing_malloc::prepare_process();
    swing::descriptors::keep_apart();
    let namespace = Namespace::open_default()?;
    let own = ending::anonymous(std::process::id());
    ending::sweep(&namespace);
    let name = std::env::var("SWING_PRELOAD_NAME").unwrap_or_else(|_| own.clone());
    let options = options()?;
    // What a dead program has left goes; what a live one has stays: a program that this one starts
    // inherits the name.
    let fresh = |name: &str| -> Result<swing::Area, Box<dyn std::error::Error>> {
        let name = AreaName::new(name)?;
        // A lease on what nobody else is named like would only be in the way of who removes it.
        let is_heap = match name.as_str() == own {
            true => ending::may_be_heap(&namespace, &name),
            false => ending::is_heap(&namespace, &name),
        };
        if is_heap {
            let _ = namespace.remove(&name);
        }
        Ok(namespace.create(&name, &options)?)
    };
    let area = match fresh(&name) {
        Err(error) if ending::is_something_else(&namespace, &name) => {
            eprintln!("swingmalloc_preload: the heap is called {own:?}: {error}");
            fresh(&own)
        }
        Err(_) => fresh(&own),
        area => area,
    };
    let area = area.or_else(|_| fresh(&ending::other_anonymous(std::process::id())))?;
    let area = Arc::new(area);
    let malloc = Malloc::open(Heap::create(area.clone(), HeapOptions::default())?)?;
    let guarded = malloc.clone();
    area.guard_live_hooks(Some(Arc::new(move |publish: &mut dyn FnMut()| {
        // The responder's thread: it must not wait for the publish that it makes.
        INSIDE.with(|inside| inside.set(true));
        let _pause = guarded.pause();
        publish();
    })));
    area.allow_live_hooks(true)?;
    area.copy_ahead(std::env::var("SWING_PRELOAD_AHEAD").map_or(true, |value| value != "0"));
    if !handle_forks() {
        return Err("no fork handler".into());
    }
    // SAFETY: a function of this library, which is never unloaded. Without it such an end is as one
    // by `_exit`.
    unsafe { __cxa_at_quick_exit(end_quickly, null_mut()) };
    LEAVING.store(std::process::id(), Ordering::SeqCst);
    let home = std::path::absolute(namespace.path())?;
    HOME.get_or_init(|| home);
    let (base, len) = (area.base().as_ptr() as usize, area.geometry().reserve().0 as usize);
    assert!(area.is_tracked() && base.is_multiple_of(4096), "stores are trapped, pages whole");
    assert!(base.checked_add(len).is_some(), "no block's end wraps");
    LEN.store(len, Ordering::SeqCst);
    BASE.store(base, Ordering::SeqCst);
    let heap = Box::into_raw(Box::new(malloc));
    ANY.store(heap, Ordering::SeqCst);
    HEAP.store(heap, Ordering::SeqCst);
    calls::begin();
    Ok(())
}

unsafe extern "C" {
    /// What `at_quick_exit` calls, which is no function of the shared C library.
    fn __cxa_at_quick_exit(call: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
}

/// As [`end`]; registered before the program's own, so it runs after them.
extern "C" fn end_quickly(_unused: *mut c_void) {
    end();
}

/// At an orderly end of the process that made the heap.
extern "C" fn end() {
    if LEAVING.swap(0, Ordering::SeqCst) != std::process::id() {
        return;
    }
    let leave = || {
        // SAFETY: as in `with`.
        let heap = unsafe { HEAP.load(Ordering::SeqCst).as_ref() };
        if let (Some(heap), Some(home)) = (heap, HOME.get()) {
            heap.heap().area().leave_namespace(home);
        }
    };
    outside(|| if on_heap() { calls::on_other_stack(leave) } else { leave() });
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
    *DONE.get_or_init(|| outside(register))
}

extern "C" fn before_fork() {
    outside(|| {
        // SAFETY: as in `with`.
        if let Some(heap) = unsafe { HEAP.load(Ordering::SeqCst).as_ref() } {
            calls::lock_files();
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
    outside(|| {
        if let Some(pause) = take_pause() {
            drop(pause);
            calls::unlock_files();
        }
    });
}

extern "C" fn in_child() {
    let heap = HEAP.swap(null_mut(), Ordering::SeqCst);
    let pause = take_pause();
    strict_assert!(heap.is_null() == pause.is_none(), "the child's heap is whole, if it has one");
    strict_assert!(heap.is_null() || heap == ANY.load(Ordering::SeqCst), "there is one heap");
    calls::in_child();
    if pause.is_some() {
        calls::unlock_files_in_child();
    }
    // Nobody waits for it here; its locks stay as they are.
    std::mem::forget(pause);
}
