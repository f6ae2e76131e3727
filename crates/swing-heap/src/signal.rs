//! The handlers by which the pages of windows are filled: of SIGBUS for `userfaultfd`, installed
//! once a process, in front of what was there before; and for pages of mappings the one of SIGSEGV
//! that tracked areas have (`swing::tracked`), which asks this module.
//!
//! The signal comes synchronously, at a load or store of the program's, so the handler may do what
//! a function called there may: it reads from the disk, waits, takes locks. It runs on the thread's
//! own stack, with all other signals blocked that do not tell of an instruction: objects may lie in
//! a tracked area, where the handler's stores raise SIGSEGV. What is no fault in a window goes to
//! the handler before; without one the process ends by the signal. So it does when an object cannot
//! be read: a line on standard error says why.
//!
//! **Cycle.** A heap installs the handlers, which find the heap by the address.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{c_int, c_void, sigaction, siginfo_t};

use crate::entry::{FREE, STATE};
use crate::error::HeapError;
use crate::heap::ObjectHeap;
use crate::{servers, window};

/// The most heaps with plain pointers in a process.
const MAX_WINDOWS: usize = 64;

/// A heap with a window.
struct Registered {
    heap: ManuallyDrop<ObjectHeap>,
    /// Threads that look at it.
    users: AtomicUsize,
}

/// Slots are found one after the other; most processes have one heap.
static WINDOWS: [AtomicPtr<Registered>; MAX_WINDOWS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_WINDOWS];
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static PREVIOUS: Mutex<Option<sigaction>> = Mutex::new(None);

thread_local! {
    /// The context that the handler before this one was last called with, and where the stack was.
    static CHAINED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Whether there is a window.
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Makes a heap's window known to the handler, and installs the handler.
pub(crate) fn register(
    view: ManuallyDrop<ObjectHeap>,
    window: &window::Window,
) -> Result<(), HeapError> {
    if window.is_of_mappings() {
        let failed = |e: std::io::Error| HeapError::NoPointers { why: format!("no thread: {e}") };
        servers::start(resolve).map_err(failed)?;
        swing::tracked::set_filler(fill_trapped);
    }
    rearm(window);
    let new = Box::into_raw(Box::new(Registered { heap: view, users: AtomicUsize::new(0) }));
    let null = std::ptr::null_mut();
    let taken = WINDOWS
        .iter()
        .any(|slot| slot.compare_exchange(null, new, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    if taken {
        swing::tracked::set_served(serves);
        COUNT.fetch_add(1, Ordering::AcqRel);
        return Ok(());
    }
    // SAFETY: nobody else has seen it.
    drop(unsafe { Box::from_raw(new) });
    Err(HeapError::Options("a process has at most 64 object heaps with plain pointers"))
}

/// Ends the handler's knowledge of a heap. Waits for threads that fill a page of it.
pub(crate) fn forget(heap: &ObjectHeap) {
    for slot in &WINDOWS {
        let found = slot.load(Ordering::Acquire);
        // SAFETY: what is in the table is not freed before it has been taken out, below.
        let is_it = !found.is_null()
            && std::sync::Arc::ptr_eq(&unsafe { &*found }.heap.shared, &heap.shared);
        if !is_it {
            continue;
        }
        slot.store(std::ptr::null_mut(), Ordering::SeqCst);
        COUNT.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: as above.
        while unsafe { &*found }.users.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        // A thread that has read the slot and not counted itself yet would find freed memory: so
        // the few bytes stay, without what they refer to.
        // SAFETY: out of the table, and no thread uses the view any more.
        let view = unsafe { &mut (*found).heap };
        view.release_view();
    }
}

/// Puts the handler in front again, if another has been installed since. One system call.
pub(crate) fn rearm(window: &window::Window) {
    if window.is_of_mappings() {
        // That of tracked areas, which asks `fill_trapped`.
        swing::tracked::rearm();
        return;
    }
    let mut previous = PREVIOUS.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: all zeros are a valid structure, which the call fills.
    let mut now: sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: valid structures; the handler has the type that its flags say.
    unsafe {
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut now) != 0
            || now.sa_sigaction == on_fault as *const () as usize
        {
            return;
        }
        *previous = Some(now);
        let mut ours: sigaction = std::mem::zeroed();
        ours.sa_sigaction = on_fault as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&raw mut ours.sa_mask);
        for number in [libc::SIGSEGV, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP] {
            libc::sigdelset(&raw mut ours.sa_mask, number);
        }
        libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's errno; the interrupted code must find it as it was.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a valid structure to a handler with SA_SIGINFO.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let filled = code > 0 && resolve(address);
    if !filled {
        chain(signal, info, context, (&raw const errno).addr());
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Whether a load from an address would be served: an object is there, of a heap of this process.
fn serves(address: *const u8) -> bool {
    any()
        && with_window(address as usize, |heap, id| {
            let entry = heap.shared.table.get(id);
            entry.is_some_and(|e| e.state.load(Ordering::Acquire) & STATE != FREE)
        })
}

fn resolve(address: usize) -> bool {
    with_window(address, |heap, id| match window::touch(heap, id) {
        Ok(filled) => filled,
        Err(error) => {
            complain(address, &error);
            false
        }
    })
}

/// Whether a thread that has touched an address without access may go on: for the handler of
/// SIGSEGV, which is that of tracked areas. Async-signal-safe.
fn fill_trapped(address: *const u8) -> bool {
    let is_ours =
        |heap: &ObjectHeap, _| heap.shared.window.get().is_some_and(window::Window::is_of_mappings);
    any() && with_window(address as usize, is_ours) && servers::ask(address as usize)
}

/// Says why the process is about to die, past the program's streams: their locks may be held.
fn complain(address: usize, error: &HeapError) {
    let text =
        format!("swing: the object at {address:#x} cannot be brought into memory: {error}\n");
    // SAFETY: the text has so many bytes. Who has closed standard error reads nothing.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// What `look` says of the heap of this process that an address belongs to, and of the id there;
/// else false.
fn with_window(address: usize, look: impl Fn(&ObjectHeap, u32) -> bool) -> bool {
    for slot in &WINDOWS {
        let found = slot.load(Ordering::SeqCst);
        if found.is_null() {
            continue;
        }
        // SAFETY: what was in the table is never freed.
        let registered = unsafe { &*found };
        registered.users.fetch_add(1, Ordering::SeqCst);
        // A heap that a forked child has made may lie where one that it has inherited was.
        let still = std::ptr::eq(slot.load(Ordering::SeqCst), found)
            && registered.heap.check_process().is_ok();
        let id = still.then(|| registered.heap.shared.window.get()?.id_at(address)).flatten();
        let says = id.map(|id| look(&registered.heap, id));
        registered.users.fetch_sub(1, Ordering::SeqCst);
        if let Some(says) = says {
            return says;
        }
    }
    false
}

/// Hands the signal to whoever had it before.
fn chain(signal: c_int, info: *mut siginfo_t, context: *mut c_void, frame: usize) {
    let previous = *PREVIOUS.lock().unwrap_or_else(PoisonError::into_inner);
    // A handler that hands the signal on to this one has nobody else to give it to. It passes the
    // same context, from deeper in the stack; a fresh fault does not, also after a longjmp.
    let now = (context as usize, frame);
    let last = CHAINED.try_with(|chained| chained.replace(now)).unwrap_or(now);
    let again = last.0 == now.0 && now.1 < last.1;
    let action = previous.filter(|action| {
        !again && action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN
    });
    let Some(action) = action else {
        // SAFETY: a valid structure. The instruction runs again and ends the process.
        unsafe {
            let mut default: sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &raw const default, std::ptr::null_mut());
            if (*info).si_code <= 0 {
                libc::raise(signal);
            }
        }
        return;
    };
    // SAFETY: the mask is that of the interrupted code with what the handler asked for; it is
    // called as its flags say. The kernel restores the mask when this handler returns.
    unsafe {
        let mut mask = (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        for number in (1..=64).filter(|&n| libc::sigismember(&raw const action.sa_mask, n) == 1) {
            libc::sigaddset(&raw mut mask, number);
        }
        libc::sigaddset(&raw mut mask, signal);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(action.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(action.sa_sigaction);
            handler(signal);
        }
    }
    let _ = CHAINED.try_with(|chained| chained.set((0, 0)));
}
