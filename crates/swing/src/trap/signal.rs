//! The handler of SIGSEGV: installed once a process, chained to the handler that was there before.
//!
//! A fault outside of tracked areas goes to the handler that was installed before, with the signal
//! mask that it asked for. To take the default action, this handler restores it and lets the
//! faulting instruction run again. So the process dies by the same signal at the same place as
//! without this library.
//!
//! **Another handler installed later** replaces this one. [`rearm`] puts this handler back in front
//! and keeps the newcomer in the chain. Every publish, hook and `track` calls it before protecting
//! anything. So a handler that came between two publishes (Python's `faulthandler`) never sees a
//! store into a frozen extent. Only the first touch of an absent extent, after the replacement and
//! before the next of these calls, would reach the foreign handler.
//!
//! **Handlers that raise again.** A handler like `faulthandler`'s restores the handler that *it*
//! found, and then raises the signal for that handler. Behind this handler, it found this handler.
//! So a signal that a process sends itself while a chained handler runs goes to the next handler of
//! the chain.
//!
//! **Handlers that call.** A handler like a Java machine's resolves its own faults and calls the
//! handler that it found for all others. Behind this handler it would call back. So a call with the
//! context of the fault that a chained handler is looking at goes to the next handler of the chain,
//! too.
//!
//! **Handlers that install another**, or `SIG_DFL`, get that at once, so that a signal that they
//! then raise ends the process. When they return, this handler comes first again.
//!
//! **Handlers that are withdrawn.** A program may put back the handler that it found when it
//! installed its own. So there is an entry for each length of the chain. The entry that is put back
//! tells how long the chain was, and later handlers are no longer called. `signal` puts an entry
//! back without its flags; it gets them again.
//!
//! **Handlers for one time** (`SA_RESETHAND`) are called once. Then the default action is taken, as
//! if the kernel had called them.
//!
//! All other signals are blocked while the handler runs. A user's handler that stores into a
//! tracked area must not run on top of it, because SIGSEGV is blocked there and a fault would be
//! fatal.
//!
//! Nothing here allocates or takes a lock, apart from installing.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use libc::{c_int, c_void, sigaction, siginfo_t};

use crate::sys::block_signals::HeldOff;
use crate::sys::process::thread_id;
use crate::sys::strict::strict_assert;
use crate::sys::sync::Mutex;
use crate::trap::resolve::{self, Access};
use crate::trap::served;

/// The longest chain of handlers kept; the newest replaces the last beyond it.
const MAX_CHAIN: usize = 8;
/// About what the kernel stores on a stack before it calls a handler.
const FRAME: usize = 4096;
/// Threads that can be in a chained handler at once and still be told apart.
const MAX_CRASHING: usize = 32;

/// A handler of the chain. It is replaced while other threads may just be looking at it: these look
/// again, so that they never call the one with what the other was installed for.
struct Previous {
    /// Odd while it is being replaced, which is under `INSTALL` and with signals held off; 0: never
    /// written.
    version: AtomicU32,
    handler: AtomicUsize,
    flags: AtomicI32,
    /// The signals 1 to 64, a bit each: there are no others.
    mask: AtomicU64,
}

/// How often a link that is being replaced is looked at. The thread that does it is at most
/// stopped, or was not copied into a child that was made without the handlers of `fork`.
const MAX_LOOKS: u32 = 1 << 20;

impl Previous {
    const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            handler: AtomicUsize::new(0),
            flags: AtomicI32::new(0),
            mask: AtomicU64::new(0),
        }
    }

    fn write(&self, action: &sigaction) {
        let _quiet = HeldOff::begin();
        // SAFETY: a valid set.
        let has = |number| unsafe { libc::sigismember(&raw const action.sa_mask, number) == 1 };
        let mask = (1..=64).filter(|n| has(*n)).fold(0, |mask, n| mask | 1_u64 << (n - 1));
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.handler.store(action.sa_sigaction, Ordering::Relaxed);
        self.flags.store(action.sa_flags, Ordering::Relaxed);
        self.mask.store(mask, Ordering::Relaxed);
        self.version.store((version | 1).wrapping_add(1).max(2), Ordering::Release);
    }

    /// What was written last, whole.
    fn read(&self) -> Option<sigaction> {
        for _ in 0..MAX_LOOKS {
            let version = self.version.load(Ordering::Acquire);
            let mut action = empty();
            action.sa_sigaction = self.handler.load(Ordering::Relaxed);
            action.sa_flags = self.flags.load(Ordering::Relaxed);
            let mask = self.mask.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if version == 0 {
                return None;
            }
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                for number in (1..=64).filter(|n| mask >> (n - 1) & 1 == 1) {
                    // SAFETY: a valid set.
                    unsafe { libc::sigaddset(&raw mut action.sa_mask, number) };
                }
                return Some(action);
            }
            std::thread::yield_now();
        }
        None
    }
}

static PREVIOUS: [Previous; MAX_CHAIN] = [const { Previous::new() }; MAX_CHAIN];
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Links with `SA_RESETHAND` that have been called, a bit each.
static SPENT: AtomicU32 = AtomicU32::new(0);
pub(crate) static INSTALL: Mutex<()> = Mutex::new(());
static CRASHING: [Crashing; MAX_CRASHING] = [const { Crashing::new() }; MAX_CRASHING];

/// A `fn() -> bool` that is called before a fault is resolved; 0: none.
static ENTER_CHILD: AtomicUsize = AtomicUsize::new(0);

/// Has `enter` called before a fault is resolved: when it says that this is a forked child, whose
/// memory is its own only from now on, the store is tried again. It must be async-signal-safe.
pub(crate) fn set_enter_child(enter: fn() -> bool) {
    ENTER_CHILD.store(enter as usize, Ordering::SeqCst);
}

fn enter_child() -> bool {
    let enter = ENTER_CHILD.load(Ordering::SeqCst);
    if enter == 0 {
        return false;
    }
    // SAFETY: only `set_enter_child` stores here, and only functions of this type.
    let enter: fn() -> bool = unsafe { std::mem::transmute(enter) };
    enter()
}

/// Which thread is in which link of the chain, and for which signal.
struct Crashing {
    /// Thread id << 8 | link + 1.
    word: AtomicU64,
    /// The address of the context that the kernel has given for it.
    context: AtomicUsize,
    /// How deep the stack was: a handler that hands the signal on does so from below.
    frame: AtomicUsize,
}

impl Crashing {
    const fn new() -> Self {
        let [context, frame] = [const { AtomicUsize::new(0) }; 2];
        Self { word: AtomicU64::new(0), context, frame }
    }
}

/// Makes this library's handler the first one again, if another has replaced it. Cheap when it is:
/// one system call. `false` when the system refused.
pub fn rearm() -> bool {
    let mut current = empty();
    // SAFETY: reads the present disposition into a valid structure.
    let known = unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut current) } == 0;
    if known && is_in_front(&current) {
        return true;
    }
    let _install = INSTALL.lock();
    install()
}

/// As [`rearm`], for a chained handler that has returned: what it has installed meanwhile, as
/// `SIG_DFL`, comes behind this handler, too, because the program may go on. Whoever is installing
/// just now does it otherwise, be it the call that the signal has interrupted.
fn rearm_now() {
    if let Some(_install) = INSTALL.try_lock() {
        install();
    }
}

/// What the kernel calls.
type Entry = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// By the number of links behind it.
const ENTRIES: [Entry; MAX_CHAIN + 1] = [
    on_fault::<0>,
    on_fault::<1>,
    on_fault::<2>,
    on_fault::<3>,
    on_fault::<4>,
    on_fault::<5>,
    on_fault::<6>,
    on_fault::<7>,
    on_fault::<8>,
];

const FLAGS: c_int = libc::SA_SIGINFO | libc::SA_ONSTACK;

/// The number of links behind an entry of this library; `None` for somebody else's handler.
fn links_of(action: &sigaction) -> Option<usize> {
    ENTRIES.iter().position(|entry| *entry as usize == action.sa_sigaction)
}

/// Whether this is the handler, as it is to be.
fn is_in_front(action: &sigaction) -> bool {
    let links = COUNT.load(Ordering::Acquire) as usize;
    links_of(action) == Some(links) && action.sa_flags & FLAGS == FLAGS
}

fn empty() -> sigaction {
    // SAFETY: all-zero bytes are a valid sigaction (the default disposition).
    unsafe { std::mem::zeroed() }
}

fn same(a: &sigaction, b: &sigaction) -> bool {
    a.sa_sigaction == b.sa_sigaction && a.sa_flags == b.sa_flags
}

/// Installs the handler; the caller holds `INSTALL`. A handler calls it too ([`rearm_now`]), so it
/// neither panics nor allocates.
fn install() -> bool {
    let (mut new, mut old) = (empty(), empty());
    // SAFETY: reads the present disposition into a valid structure.
    if unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut old) } != 0 {
        return false;
    }
    if is_in_front(&old) {
        return true;
    }
    let count = COUNT.load(Ordering::Acquire) as usize;
    strict_assert!(count <= MAX_CHAIN, "a chain of handlers has its greatest length");
    let links = match links_of(&old) {
        // The program has put back what it found; what it has installed since is withdrawn.
        Some(links) => links.min(count),
        None => add_link(&old, count),
    };
    let Some(entry) = ENTRIES.get(links) else { return false };
    COUNT.store(links as u32, Ordering::Release);
    (new.sa_sigaction, new.sa_flags) = (*entry as usize, FLAGS);
    // SAFETY: a valid structure; the handler is a function of this library with the right type.
    unsafe {
        libc::sigfillset(&raw mut new.sa_mask);
        libc::sigaction(libc::SIGSEGV, &raw const new, std::ptr::null_mut()) == 0
    }
}

/// Puts a handler to the end of the chain of `count` links, unless it is there; how long that is.
fn add_link(action: &sigaction, count: usize) -> usize {
    let known = count > 0 && previous(count - 1).is_some_and(|last| same(&last, action));
    let at = if known { count - 1 } else { count.min(MAX_CHAIN - 1) };
    if let (false, Some(link)) = (known, PREVIOUS.get(at)) {
        link.write(action);
    }
    // The program has just installed it, perhaps again.
    SPENT.fetch_and(!(1 << at), Ordering::SeqCst);
    at + 1
}

/// Whether the handler of a link may be called no more; from now on, if it is for one time.
fn is_spent(link: usize, action: &sigaction) -> bool {
    const { assert!(MAX_CHAIN <= u32::BITS as usize) };
    let bit = 1 << link;
    action.sa_flags & libc::SA_RESETHAND != 0 && SPENT.fetch_or(bit, Ordering::SeqCst) & bit != 0
}

fn previous(link: usize) -> Option<sigaction> {
    if link >= COUNT.load(Ordering::Acquire) as usize {
        return None;
    }
    PREVIOUS.get(link)?.read()
}

extern "C" fn on_fault<const LINKS: usize>(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the thread's errno; the interrupted code must find it as it was.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a valid structure to a handler with SA_SIGINFO.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // 1 and 2 are SEGV_MAPERR and SEGV_ACCERR: the faults of missing and protected pages.
    let resolved = matches!(code, 1 | 2)
        && access(context, address) == Access::Data
        && (enter_child() || resolve::resolve(address) || served::fill_trapped(address));
    if !resolved {
        chain(signal, info, context, (&raw const errno).addr(), LINKS);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Whether the fault was one of data, as far as the processor says; running code out of an area is
/// no store.
#[cfg(target_arch = "x86_64")]
fn access(context: *mut c_void, _address: usize) -> Access {
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let error =
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize] };
    if error & 16 != 0 { Access::Code } else { Access::Data }
}

/// As above: the address of a fetched instruction is the program counter.
#[cfg(target_arch = "aarch64")]
fn access(context: *mut c_void, address: usize) -> Access {
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let pc = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc };
    if pc as usize == address { Access::Code } else { Access::Data }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn access(_context: *mut c_void, _address: usize) -> Access {
    Access::Data
}

/// The link of the chain a thread is in.
fn crashing(thread: u64) -> Option<(&'static Crashing, usize)> {
    let mine = |s: &&Crashing| s.word.load(Ordering::Relaxed) >> 8 == thread;
    let slot = CRASHING.iter().find(mine)?;
    Some((slot, (slot.word.load(Ordering::Relaxed) & 255) as usize - 1))
}

/// Hands the signal to whoever had it before, as far as so many links; `frame` is an address in the
/// caller's frame.
fn chain(signal: c_int, info: *mut siginfo_t, context: *mut c_void, frame: usize, links: usize) {
    // SAFETY: as in `on_fault`.
    let sent = unsafe { (*info).si_code } <= 0;
    let thread = thread_id() as u64;
    let top = links.min(COUNT.load(Ordering::Acquire) as usize);
    // A fresh fault begins at the top, also when a handler was left by longjmp, after which the
    // stack is no deeper than it was; a signal raised inside a chained handler, or one that it
    // hands on by calling this one, goes on below it.
    let same = |s: &Crashing| s.context.load(Ordering::Relaxed) == context as usize;
    let inside = |s: &Crashing| frame < s.frame.load(Ordering::Relaxed);
    let (slot, mut link) = match crashing(thread) {
        Some((slot, link)) if inside(slot) && (sent || same(slot)) => (Some(slot), link),
        Some((slot, _)) => (Some(slot), top),
        None => (take_slot(thread), top),
    };
    while link > 0 {
        link -= 1;
        let Some(action) = previous(link) else { continue };
        if action.sa_sigaction == libc::SIG_DFL {
            break;
        }
        if action.sa_sigaction == libc::SIG_IGN {
            // A fault cannot be ignored; a signal that was sent can.
            if sent {
                release(slot);
                return;
            }
            break;
        }
        if is_spent(link, &action) {
            break;
        }
        if action.sa_flags & libc::SA_ONSTACK == 0 && !has_room(context) {
            // The kernel could not have called it.
            break;
        }
        if let Some(slot) = slot {
            slot.word.store(thread << 8 | (link as u64 + 1), Ordering::Relaxed);
            slot.context.store(context as usize, Ordering::Relaxed);
            slot.frame.store(frame, Ordering::Relaxed);
        }
        call(&action, signal, info, context);
        if !consume_raised() {
            release(slot);
            rearm_now();
            return;
        }
        // It raised the signal for the one before it, and had it blocked.
    }
    release(slot);
    default_action(signal, sent);
}

/// Whether the kernel could have called a handler on the interrupted stack. It has not overflowed
/// where it bears stores of the kernel, for which a stack also grows.
fn has_room(context: *mut c_void) -> bool {
    let Some(top) = stack_pointer(context) else { return true };
    let at = top.wrapping_sub(FRAME) & !7;
    resolve::prepare(at as *const u8, size_of::<u64>());
    let unchanged: *const libc::sigset_t = std::ptr::null();
    let (how, call) = (libc::SIG_BLOCK, libc::SYS_rt_sigprocmask);
    // SAFETY: the kernel stores the present mask where its frame would have been, if it can.
    unsafe { libc::syscall(call, how, unchanged, at, size_of::<u64>()) == 0 }
}

#[cfg(target_arch = "x86_64")]
fn stack_pointer(context: *mut c_void) -> Option<usize> {
    // SAFETY: the kernel passes a valid context to a handler with SA_SIGINFO.
    let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    Some(registers[libc::REG_RSP as usize] as usize)
}

#[cfg(target_arch = "aarch64")]
fn stack_pointer(context: *mut c_void) -> Option<usize> {
    // SAFETY: as above.
    Some(unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.sp } as usize)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn stack_pointer(_context: *mut c_void) -> Option<usize> {
    None
}

fn take_slot(thread: u64) -> Option<&'static Crashing> {
    let (word, relaxed) = (thread << 8 | 1, Ordering::Relaxed);
    CRASHING.iter().find(|s| s.word.compare_exchange(0, word, relaxed, relaxed).is_ok())
}

fn release(slot: Option<&'static Crashing>) {
    if let Some(slot) = slot {
        slot.context.store(0, Ordering::Relaxed);
        slot.frame.store(0, Ordering::Relaxed);
        slot.word.store(0, Ordering::Relaxed);
    }
}

/// Calls a handler with the mask the kernel would have given it.
fn call(action: &sigaction, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the context is valid; sets are valid; the function pointer is what the program gave
    // to sigaction for this signal, and is called as its flags say.
    unsafe {
        let mut mask = (*context.cast::<libc::ucontext_t>()).uc_sigmask;
        for number in 1..=64 {
            if libc::sigismember(&raw const action.sa_mask, number) == 1 {
                libc::sigaddset(&raw mut mask, number);
            }
        }
        if action.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&raw mut mask, signal);
        } else {
            libc::sigdelset(&raw mut mask, signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            let function: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                std::mem::transmute(action.sa_sigaction);
            function(signal, info, context);
        } else {
            let function: extern "C" fn(c_int) = std::mem::transmute(action.sa_sigaction);
            function(signal);
        }
    }
}

/// Whether this thread has a blocked SIGSEGV waiting; takes it away.
fn consume_raised() -> bool {
    // SAFETY: valid sets; a zero timeout never waits.
    unsafe {
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut pending);
        if libc::sigismember(&raw const pending, libc::SIGSEGV) != 1 {
            return false;
        }
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, libc::SIGSEGV);
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::sigtimedwait(&raw const only, std::ptr::null_mut(), &raw const now);
    }
    true
}

/// What happens without any handler: the process ends by this signal.
fn default_action(signal: c_int, sent: bool) {
    let mut action = empty();
    action.sa_sigaction = libc::SIG_DFL;
    // SAFETY: a valid structure; the signal is sent to this thread only. A fault repeats itself
    // when the handler returns; a signal that was sent does not.
    unsafe {
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        if sent {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), thread_id(), signal);
            let mut only: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut only);
            libc::sigaddset(&raw mut only, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(n: usize) -> sigaction {
        let mut action = empty();
        (action.sa_sigaction, action.sa_flags) = (n, n as c_int);
        for number in (1..=64).filter(|number| n >> (number % 16) & 1 == 1) {
            // SAFETY: a valid set.
            unsafe { libc::sigaddset(&raw mut action.sa_mask, number) };
        }
        action
    }

    fn has(action: &sigaction, number: c_int) -> bool {
        // SAFETY: a valid set.
        unsafe { libc::sigismember(&raw const action.sa_mask, number) == 1 }
    }

    #[test]
    fn a_link_that_is_replaced_is_read_whole() {
        static LINK: Previous = Previous::new();
        assert!(LINK.read().is_none(), "never written");
        LINK.write(&action(1));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 20_000 {
                        let seen = LINK.read().unwrap();
                        let n = seen.sa_sigaction;
                        assert!(n >= last && seen.sa_flags as usize == n, "{n} after {last}");
                        assert!((1..=64).all(|i| has(&seen, i) == has(&action(n), i)), "{n}");
                        last = n;
                    }
                });
            }
            (2..=20_000).for_each(|n| LINK.write(&action(n)));
        });
    }
}
