//! Makes the heap by a constructor of the library, and takes its names away at the end.

use crate::{calls, ending, heap};
use libc::{c_int, c_void};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use swing::geometry::{DATA_EXTENT, MAX_DATA_EXTENT, MAX_RESERVE, MIN_DATA_EXTENT};
use swing::{AreaName, AreaOptions, ByteLen, Namespace};
use swing_malloc::{Heap, HeapOptions, Malloc};

/// The process that takes the heap's names away when it ends, and where they are.
static LEAVING: AtomicU32 = AtomicU32::new(0);
static HOME: OnceLock<PathBuf> = OnceLock::new();

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn start() {
    heap::outside(|| {
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
        heap::outside_for_ever();
        let _pause = guarded.pause();
        publish();
    })));
    area.allow_live_hooks(true)?;
    area.copy_ahead(std::env::var("SWING_PRELOAD_AHEAD").map_or(true, |value| value != "0"));
    if !calls::handle_forks() {
        return Err("no fork handler".into());
    }
    // SAFETY: a function of this library, which is never unloaded. Without it such an end is as one
    // by `_exit`.
    unsafe { __cxa_at_quick_exit(end_quickly, null_mut()) };
    LEAVING.store(std::process::id(), Ordering::SeqCst);
    let home = std::path::absolute(namespace.path())?;
    HOME.get_or_init(|| home);
    heap::begin(malloc);
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
        if let (Some(heap), Some(home)) = (heap::now(), HOME.get()) {
            heap.heap().area().leave_namespace(home);
        }
    };
    heap::outside(|| if heap::on_heap() { heap::on_other_stack(leave) } else { leave() });
}
