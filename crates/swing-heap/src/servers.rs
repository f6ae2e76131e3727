//! Threads that bring objects into memory for threads that have touched a page of mappings.
//!
//! The handler of SIGSEGV runs with all signals blocked, perhaps on a small stack of its own, and
//! may have interrupted anything. Reading an object from the disk needs a stack, locks, memory, and
//! stores that are trapped themselves. So the handler only hands the address over, and sleeps until
//! a thread of this library has filled the page or has found that it cannot be filled.
//!
//! A server may wait for a guard, whose holder may wait for a server. So one is always idle: who
//! begins to work and is the last one makes another. Those beyond [`SERVERS`] end after a second.
//!
//! **Concurrency.** A request is claimed by a compare-exchange, answered by one thread. **Fork.**
//! A child has none of the threads: it gets its own with its first heap with plain pointers.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use swing_tier::ProcessMark;

/// So many threads stay.
const SERVERS: usize = 4;
/// And so many there are at most; each works for one thread of the program.
const MAX_SERVERS: usize = MAX_REQUESTS + 1;
const STACK_BYTES: usize = 512 << 10;
/// So many threads of the program wait at the same time; others wait for one of these.
const MAX_REQUESTS: usize = 512;
/// How long a server that is not needed stays, in seconds.
const STAYS_S: i64 = 1;

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const WANTED: u32 = 2;
const IN_WORK: u32 = 3;
const FILLED: u32 = 4;
const REFUSED: u32 = 5;

struct Request {
    state: AtomicU32,
    address: AtomicUsize,
}

static REQUESTS: [Request; MAX_REQUESTS] =
    [const { Request { state: AtomicU32::new(FREE), address: AtomicUsize::new(0) } }; MAX_REQUESTS];
/// How many requests there have been: servers sleep until it changes.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Servers that there are.
static ALIVE: AtomicUsize = AtomicUsize::new(0);
/// Those of them that do no work.
static IDLE: AtomicUsize = AtomicUsize::new(0);
/// The process that has the threads.
static STARTED: Mutex<Option<ProcessMark>> = Mutex::new(None);

/// Sleeps until a word is no longer `seen`, or for so many seconds: whether they have passed.
/// Async-signal-safe.
fn wait(word: &AtomicU32, seen: u32, seconds: Option<i64>) -> bool {
    let (call, operation) = (libc::SYS_futex, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG);
    let time = seconds.map(|tv_sec| libc::timespec { tv_sec, tv_nsec: 0 });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word lives as long as the process, and the time as long as the call.
    let woken = unsafe { libc::syscall(call, word.as_ptr(), operation, seen, time) } == 0;
    // SAFETY: the thread's own.
    !woken && unsafe { *libc::__errno_location() } == libc::ETIMEDOUT
}

fn wake_one(word: &AtomicU32) {
    let (call, operation) = (libc::SYS_futex, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG);
    // SAFETY: as above.
    unsafe { libc::syscall(call, word.as_ptr(), operation, 1) };
}

/// Starts the threads, once a process; `resolve` fills the page of an address.
pub(crate) fn start(resolve: fn(usize) -> bool) -> std::io::Result<()> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if started.is_some_and(|mark| !mark.is_stale()) {
        return Ok(());
    }
    // Those that a forked child has inherited are nobody's.
    REQUESTS.iter().for_each(|request| request.state.store(FREE, Ordering::SeqCst));
    for count in [&ALIVE, &IDLE] {
        count.store(0, Ordering::SeqCst);
    }
    // Fewer do as well.
    if (0..SERVERS).map(|_| make(resolve)).filter(Result::is_ok).count() == 0 {
        make(resolve)?;
    }
    *started = Some(ProcessMark::current());
    Ok(())
}

/// Makes a server, which is idle.
fn make(resolve: fn(usize) -> bool) -> std::io::Result<()> {
    ALIVE.fetch_add(1, Ordering::SeqCst);
    IDLE.fetch_add(1, Ordering::SeqCst);
    let made = crate::faults::without_signals(|| {
        std::thread::Builder::new()
            .name("swing-heap-page".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || serve(resolve))
    });
    made.map(drop).inspect_err(|_| {
        IDLE.fetch_sub(1, Ordering::SeqCst);
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    })
}

/// Whether a server that has waited may end: enough others stay, and one of them is idle.
fn may_end() -> bool {
    let (order, other) = (Ordering::SeqCst, Ordering::Relaxed);
    let one_less = |least: usize| move |count: usize| (count > least).then(|| count - 1);
    if IDLE.fetch_update(order, other, one_less(1)).is_err() {
        return false;
    }
    let ends = ALIVE.fetch_update(order, other, one_less(SERVERS)).is_ok();
    if !ends {
        IDLE.fetch_add(1, order);
    }
    ends
}

fn serve(resolve: fn(usize) -> bool) {
    loop {
        let seen = COUNT.load(Ordering::SeqCst);
        let mut found = false;
        for request in &REQUESTS {
            let (order, other) = (Ordering::SeqCst, Ordering::Relaxed);
            let is_wanted = request.state.load(order) == WANTED;
            if !is_wanted || request.state.compare_exchange(WANTED, IN_WORK, order, other).is_err()
            {
                continue;
            }
            found = true;
            if IDLE.fetch_sub(1, order) == 1 && ALIVE.load(order) < MAX_SERVERS {
                // Without one, others wait for this one.
                let _ = make(resolve);
            }
            let address = request.address.load(order);
            // A panic has broken the heap, and the thread that waits ends by the signal.
            let filled = catch_unwind(|| resolve(address)).unwrap_or(false);
            IDLE.fetch_add(1, order);
            request.state.store(if filled { FILLED } else { REFUSED }, order);
            wake_one(&request.state);
        }
        let is_extra = ALIVE.load(Ordering::SeqCst) > SERVERS;
        if !found && wait(&COUNT, seen, is_extra.then_some(STAYS_S)) && may_end() {
            return;
        }
    }
}

/// Has a page filled, for the handler of SIGSEGV: whether it is. Async-signal-safe.
pub(crate) fn ask(address: usize) -> bool {
    let (order, other) = (Ordering::SeqCst, Ordering::Relaxed);
    let claim = |r: &&Request| r.state.compare_exchange(FREE, CLAIMED, order, other).is_ok();
    let request = loop {
        match REQUESTS.iter().find(claim) {
            Some(request) => break request,
            None => std::thread::yield_now(),
        }
    };
    request.address.store(address, order);
    request.state.store(WANTED, order);
    COUNT.fetch_add(1, order);
    wake_one(&COUNT);
    let filled = loop {
        match request.state.load(order) {
            FILLED => break true,
            REFUSED => break false,
            state => _ = wait(&request.state, state, None),
        }
    };
    request.state.store(FREE, order);
    filled
}
