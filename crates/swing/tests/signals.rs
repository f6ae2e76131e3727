//! The SIGSEGV handler beside others, real crashes, full memory, and forks (INV-AREA-7, -12).
//!
//! Everything happens in forked children, each with its own namespace: handlers belong to a whole
//! process.

#[macro_use]
mod common;

use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use common::*;
use libc::{c_int, c_void, siginfo_t};
use swing::{Area, Backing, Namespace, Publish, Snapshot, WriteIntent};

/// A fork concerns the whole process: one test at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

const DEAD: i32 = 200 + libc::SIGSEGV;

/// Runs `child` in a forked process: its exit code, or 200 and the signal that ended it, and what
/// it wrote to standard error.
fn run(child: impl FnOnce() -> i32) -> (i32, String) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut output = tempfile::tempfile().unwrap();
    // SAFETY: the child runs test code only and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: plain system calls; no core files from crashes that are meant.
        unsafe {
            libc::dup2(output.as_raw_fd(), 2);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
            // A test that hangs ends.
            libc::alarm(60);
        }
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    let code = if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        200 + libc::WTERMSIG(status)
    };
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    (code, text)
}

fn crash() {
    // SAFETY: not safe at all: the process must die of it.
    unsafe { std::ptr::without_provenance_mut::<u64>(64).write_volatile(1) };
}

fn tracked(h: &Home) -> Area {
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.track().unwrap();
    area
}

/// Stores that fault, of both kinds.
fn use_area(area: &Area) {
    for n in 0..3 {
        store(area, data_at(n), n);
        store(area, n * SMALL, n);
        area.publish(Publish::Shared, b"").unwrap();
        store(area, data_at(n), n + 1);
        assert_eq!(load(area, data_at(n)), n + 1);
    }
}

static CALLS: AtomicUsize = AtomicUsize::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static FORMER: AtomicUsize = AtomicUsize::new(0);
static FLAGS: AtomicI32 = AtomicI32::new(0);

fn say(text: &str) {
    // SAFETY: writes a valid buffer.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// A program's handler: notes the call and leaves with code 7.
extern "C" fn theirs(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    CALLS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the kernel's structure; the process ends here.
    unsafe {
        ADDRESS.store((*info).si_addr() as usize, Ordering::SeqCst);
        libc::_exit(if (*info).si_addr() as usize == 64 { 7 } else { 8 });
    }
}

/// What Python's faulthandler does: says so, restores what it found, raises the signal again.
extern "C" fn fault_handler(signal: c_int) {
    say("Fatal error\n");
    // SAFETY: restores a disposition that sigaction gave.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        old.sa_sigaction = FORMER.load(Ordering::SeqCst);
        old.sa_flags = FLAGS.load(Ordering::SeqCst);
        libc::sigaction(signal, &old, std::ptr::null_mut());
        libc::raise(signal);
    }
}

fn install(handler: usize, flags: c_int) {
    // SAFETY: valid structures and handlers.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &new, &mut old), 0);
        FORMER.store(old.sa_sigaction, Ordering::SeqCst);
        FLAGS.store(old.sa_flags, Ordering::SeqCst);
    }
}

fn crashes_are_crashes() {
    let crashes: [fn(&Area); 4] = [
        |_| crash(),
        // SAFETY: ends this process.
        |_| assert_eq!(unsafe { libc::raise(libc::SIGSEGV) }, 0),
        |_| {
            // Not in the area, but right before it.
            let at = load as fn(&Area, u64) -> u64 as usize;
            // SAFETY: not safe at all: code cannot be written.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(1) };
        },
        |area| {
            // SAFETY: not safe at all: memory of an area is not code.
            let code: extern "C" fn() =
                unsafe { std::mem::transmute(area.base().as_ptr().add(data_at(0) as usize)) };
            code();
        },
    ];
    for (i, crash) in crashes.into_iter().enumerate() {
        let (code, text) = run(|| {
            let h = home();
            let area = tracked(&h);
            use_area(&area);
            std::fs::remove_dir_all(h.dir.path()).unwrap();
            crash(&area);
            0
        });
        assert_eq!((code, text.as_str()), (DEAD, ""), "crash {i}");
    }
}

fn a_handler_before_and_after_gets_only_its_own_faults() {
    for after in [false, true] {
        let (code, text) = run(|| {
            let h = home();
            if !after {
                install(theirs as *const () as usize, libc::SA_SIGINFO);
            }
            let area = tracked(&h);
            if after {
                store(&area, data_at(9), 1);
                install(theirs as *const () as usize, libc::SA_SIGINFO);
                // Either of these puts ours in front again.
                assert!(swing::tracked::rearm());
            }
            use_area(&area);
            assert_eq!(CALLS.load(Ordering::SeqCst), 0);
            std::fs::remove_dir_all(h.dir.path()).unwrap();
            crash();
            0
        });
        assert_eq!((code, text.as_str()), (7, ""), "after: {after}");
    }
}

fn a_publish_puts_the_handler_in_front_again() {
    let (code, text) = run(|| {
        let h = home();
        let area = tracked(&h);
        store(&area, data_at(0), 1);
        install(theirs as *const () as usize, libc::SA_SIGINFO);
        area.publish(Publish::Shared, b"").unwrap();
        store(&area, data_at(0), 2);
        std::fs::remove_dir_all(h.dir.path()).unwrap();
        crash();
        0
    });
    assert_eq!((code, text.as_str()), (7, ""));
}

/// Without that, the newcomer gets the faults: that is what the documentation says.
fn a_replaced_handler_does_not_see_first_touches() {
    let (code, _) = run(|| {
        let h = home();
        let area = tracked(&h);
        std::fs::remove_dir_all(h.dir.path()).unwrap();
        install(theirs as *const () as usize, libc::SA_SIGINFO);
        store(&area, data_at(0), 1);
        0
    });
    assert_eq!(code, 8);
}

/// Python's faulthandler, enabled before or after, with and without SA_NODEFER: a crash is
/// reported once, and ends the process by the same signal.
fn fault_handlers_that_raise_again() {
    for (after, flags) in
        [(false, 0), (false, libc::SA_NODEFER), (true, 0), (true, libc::SA_NODEFER)]
    {
        let (code, text) = run(|| {
            let h = home();
            if !after {
                install(fault_handler as *const () as usize, flags);
            }
            let area = tracked(&h);
            if after {
                install(fault_handler as *const () as usize, flags);
                swing::tracked::rearm();
            }
            use_area(&area);
            std::fs::remove_dir_all(h.dir.path()).unwrap();
            crash();
            0
        });
        assert_eq!((code, text.as_str()), (DEAD, "Fatal error\n"), "after: {after} {flags:#x}");
    }
}

/// Says so, and returns.
extern "C" fn tell(_: c_int) {
    say("Mine\n");
}

/// The kernel calls such a handler once, whether by itself or after the library's.
fn a_handler_for_one_time_is_called_once() {
    for after in [false, true] {
        let (code, text) = run(|| {
            let h = home();
            let area = if after { Some(tracked(&h)) } else { None };
            install(tell as *const () as usize, libc::SA_RESETHAND | libc::SA_NODEFER);
            let area = area.unwrap_or_else(|| tracked(&h));
            swing::tracked::rearm();
            use_area(&area);
            // Whoever installs it again may have it called again.
            say("First\n");
            // SAFETY: its handler returns.
            unsafe { libc::raise(libc::SIGSEGV) };
            install(tell as *const () as usize, libc::SA_RESETHAND | libc::SA_NODEFER);
            swing::tracked::rearm();
            use_area(&area);
            std::fs::remove_dir_all(h.dir.path()).unwrap();
            say("Second\n");
            crash();
            0
        });
        assert_eq!((code, text.as_str()), (DEAD, "First\nMine\nSecond\nMine\n"), "{after}");
    }
}

fn an_ignored_signal_is_ignored_and_a_fault_is_not() {
    let (code, text) = run(|| {
        let h = home();
        install(libc::SIG_IGN, 0);
        let area = tracked(&h);
        use_area(&area);
        // SAFETY: ignored by the program's own wish.
        unsafe { libc::raise(libc::SIGSEGV) };
        use_area(&area);
        std::fs::remove_dir_all(h.dir.path()).unwrap();
        crash();
        0
    });
    assert_eq!((code, text.as_str()), (DEAD, ""));
}

/// A page that is protected to stop threads, and a counter of who was stopped there.
static POLL: AtomicUsize = AtomicUsize::new(0);

fn protect_poll(prot: c_int) {
    let page = POLL.load(Ordering::SeqCst) as *mut c_void;
    // SAFETY: a page that `jvm_like` has mapped.
    assert_eq!(unsafe { libc::mprotect(page, 4096, prot) }, 0);
}

/// What a Java machine does: faults in its own page are resolved, all others handed to the handler
/// it found, by calling that; without one, the default.
extern "C" fn jvm_like(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's structure.
    let address = unsafe { (*info).si_addr() as usize };
    if address & !4095 == POLL.load(Ordering::SeqCst) {
        CALLS.fetch_add(1, Ordering::SeqCst);
        return protect_poll(libc::PROT_READ | libc::PROT_WRITE);
    }
    let former = FORMER.load(Ordering::SeqCst);
    if former == libc::SIG_DFL {
        say("unresolved\n");
        install(libc::SIG_DFL, 0);
        return;
    }
    // SAFETY: what sigaction gave, called as its flags say.
    unsafe {
        assert_ne!(FLAGS.load(Ordering::SeqCst) & libc::SA_SIGINFO, 0);
        let former: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(former);
        former(signal, info, context);
    }
}

fn start_jvm() {
    // SAFETY: a new page.
    let page = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0)
    };
    assert_ne!(page, libc::MAP_FAILED);
    POLL.store(page as usize, Ordering::SeqCst);
    install(jvm_like as *const () as usize, libc::SA_SIGINFO | libc::SA_ONSTACK);
}

/// One stop at the page, which only the Java machine's handler resolves.
fn poll() {
    protect_poll(libc::PROT_NONE);
    let before = CALLS.load(Ordering::SeqCst);
    // SAFETY: the page that `start_jvm` has mapped.
    unsafe { (POLL.load(Ordering::SeqCst) as *mut u64).write_volatile(1) };
    assert_eq!(CALLS.load(Ordering::SeqCst), before + 1);
}

/// Started before or after; with both handlers in any order each gets its own faults, and a crash
/// is one: it ends the process at once, also when each hands it to the other.
#[test]
fn a_java_machine_before_and_after() {
    for (after, crashing) in [(false, false), (true, false), (false, true), (true, true)] {
        let (code, text) = run(|| {
            let h = home();
            if !after {
                start_jvm();
            }
            let area = tracked(&h);
            if after {
                start_jvm();
                // Theirs is in front now, and calls ours.
                store(&area, data_at(9), 1);
                poll();
            }
            for _ in 0..3 {
                // Each publish puts ours in front.
                use_area(&area);
                poll();
            }
            assert_eq!(CALLS.load(Ordering::SeqCst), 3 + usize::from(after));
            if crashing {
                std::fs::remove_dir_all(h.dir.path()).unwrap();
                crash();
            }
            0
        });
        // Installed first it found no handler, and says so when it restores that.
        let said = if crashing && !after { "unresolved\n" } else { "" };
        let expected = if crashing { DEAD } else { 0 };
        assert_eq!((code, text.as_str()), (expected, said), "after: {after} {crashing}");
    }
}

/// A forked child of a program with both kinds of handlers: its crash is reported as its own, and
/// its parent goes on.
#[test]
fn handlers_work_in_forked_children() {
    let (code, text) = run(|| {
        let h = home();
        install(fault_handler as *const () as usize, 0);
        let area = tracked(&h);
        use_area(&area);
        // SAFETY: the child takes no lock that another thread can hold.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // Memory of its own, an area of its own, and then a crash.
            store(&area, data_at(0), 77);
            let mine = h.ns.create(&name("b"), &options()).unwrap();
            mine.track().unwrap();
            use_area(&mine);
            crash();
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status}");
        use_area(&area);
        0
    });
    assert_eq!((code, text.as_str()), (0, "Fatal error\n"));
}

fn limit_files(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a valid structure, in a process of its own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
}

/// A limit on the length of files, which the kernel answers with a signal, is an error here.
fn a_limit_on_files_is_an_error() {
    for bytes in [0, 10] {
        let (code, text) = run(|| {
            let h = home();
            limit_files(bytes);
            let error = h.ns.create(&name("a"), &options()).unwrap_err().to_string();
            assert!(error.contains("ulimit -f"), "{error}");
            0
        });
        assert_eq!((code, text.as_str()), (0, ""));
    }
    let (code, text) = run(|| {
        let h = home();
        limit_files(1 << 20);
        let area = h.ns.create(&name("a"), &options()).unwrap();
        let error = area.track().unwrap_err().to_string();
        assert!(error.contains("ulimit -f"), "{error}");
        0
    });
    assert_eq!((code, text.as_str()), (0, ""));
}

/// A limit that comes later holds off what is written into files, and no stores in memory it has.
fn a_limit_on_files_that_comes_later_ends_nobody() {
    let (code, text) = run(|| {
        let h = home();
        let area = h.ns.create(&name("a"), &options()).unwrap();
        area.track().unwrap();
        // Small extents, then large ones.
        let places = [0, 100 << 10, area.geometry().reserve().0 / 2];
        let store = |byte| places.map(|at| store(&area, at, byte));
        store(1);
        let shared = area.publish(Publish::Shared, b"").unwrap();
        limit_files(0);
        store(2);
        let error = area.publish(Publish::Shared, b"").unwrap_err().to_string();
        assert!(error.contains("ulimit -f"), "{error}");
        let snapshot = h.ns.hook(&name("a")).unwrap();
        assert_eq!(snapshot.epoch(), shared);
        for at in places {
            assert_eq!((load(&area, at), value_in(&snapshot, at)), (2, 1));
        }
        0
    });
    assert_eq!((code, text.as_str()), (0, ""));
}

/// States of an area whose file may not grow beyond the planes that they take.
fn held_states(h: &Home, area: &Area, planes: u64) -> Vec<Snapshot> {
    limit_files(planes * area.geometry().reserve().0);
    let state = |n| {
        for at in [0, data_at(0)] {
            area.make_writable(range(at, 8), WriteIntent::Keep).unwrap();
            store(area, at, n);
        }
        area.publish(Publish::Shared, b"").unwrap();
        h.ns.hook(&name("a")).unwrap()
    };
    (1..=planes).map(state).collect()
}

/// A store for which no plane was free takes one that a snapshot has let go meanwhile.
fn a_store_finds_the_planes_that_snapshots_have_let_go() {
    let (code, text) = run(|| {
        let h = home();
        let area = tracked(&h);
        let mut held = held_states(&h, &area, 3);
        for n in 4..20 {
            drop(held.remove(0));
            for at in [0, data_at(0)] {
                store(&area, at, n);
                let seen: Vec<u64> = held.iter().map(|then| value_in(then, at)).collect();
                assert_eq!((load(&area, at), &seen[..]), (n, &[n - 2, n - 1][..]));
            }
            area.publish(Publish::Shared, b"").unwrap();
            held.push(h.ns.hook(&name("a")).unwrap());
        }
        0
    });
    assert_eq!((code, text.as_str()), (0, ""));
}

/// As long as snapshots show all of them there is none.
fn a_store_without_a_plane_says_why_and_ends_the_process() {
    let h = home();
    let (code, text) = run(|| {
        let area = tracked(&h);
        let _held = held_states(&h, &area, 3);
        store(&area, 0, 4);
        0
    });
    assert_eq!(code, DEAD);
    assert!(text.contains("too many versions of it are in use by snapshots"), "{text}");
}

/// What nobody else sees is stored to in place, which takes no plane.
fn a_store_in_place_needs_no_plane() {
    let (code, text) = run(|| {
        let h = home();
        let area = tracked(&h);
        let held = held_states(&h, &area, 2);
        area.publish(Publish::Shared, b"").unwrap();
        drop(held);
        area.reclaim().unwrap();
        // The version before is the only one that is shown, and this one by a view.
        store(&area, 0, 3);
        let view = area.freeze_view().unwrap();
        assert_eq!(value_in(&view, 0), 3);
        drop(view);
        area.reclaim().unwrap();
        store(&area, 0, 4);
        let shared = h.ns.hook(&name("a")).unwrap();
        assert_eq!((load(&area, 0), value_in(&shared, 0)), (4, 2));
        0
    });
    assert_eq!((code, text.as_str()), (0, ""));
}

/// The same for the barrier of what is not tracked.
fn a_barrier_finds_the_planes_that_snapshots_have_let_go() {
    let (code, text) = run(|| {
        let h = home();
        let area = h.ns.create(&name("a"), &options()).unwrap();
        let mut held = held_states(&h, &area, 9);
        let refused = area.make_writable(range(0, 8), WriteIntent::Keep).unwrap_err().to_string();
        assert!(refused.contains("ulimit -f"), "{refused}");
        held.drain(..8);
        area.make_writable(range(0, 8), WriteIntent::Keep).unwrap();
        store(&area, 0, 10);
        assert_eq!((load(&area, 0), value_in(&held[0], 0)), (10, 9));
        0
    });
    assert_eq!((code, text.as_str()), (0, ""));
}

/// Where handlers without arguments store.
static TARGET: AtomicUsize = AtomicUsize::new(0);

fn store_at_target(value: u64) {
    let target = TARGET.load(Ordering::SeqCst) as *mut u64;
    if !target.is_null() {
        // SAFETY: the address of eight bytes of a tracked area.
        unsafe { target.write_volatile(value) };
    }
}

extern "C" fn store_in_child() {
    store_at_target(99);
}

/// A handler that was registered before the first area runs in the child before the library's own.
fn what_a_childs_handler_stores_is_the_childs() {
    let (code, text) = run(|| {
        let h = home();
        // SAFETY: a handler that stores only.
        assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(store_in_child)) }, 0);
        let area = tracked(&h);
        for round in 1..20 {
            store(&area, data_at(3), round);
            store(&area, data_at(3) + 8, round);
            TARGET.store(area.base().as_ptr() as usize + data_at(3) as usize, Ordering::SeqCst);
            // SAFETY: the child takes no lock that another thread can hold.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let good = load(&area, data_at(3)) == 99 && load(&area, data_at(3) + 8) == round;
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(i32::from(!good)) };
            }
            TARGET.store(0, Ordering::SeqCst);
            store(&area, data_at(3) + 8, round + 1);
            let mut status = 0;
            // SAFETY: waits for the child made above.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            assert_eq!((status, load(&area, data_at(3))), (0, round));
            assert_eq!(load(&area, data_at(3) + 8), round + 1);
        }
        0
    });
    assert_eq!((code, text.as_str()), (0, ""));
}

/// Extents that the handler below stores to, and how often it has.
const HANDLED: usize = 8;
static STORED: AtomicU64 = AtomicU64::new(0);

extern "C" fn store_now(_: c_int) {
    let n = STORED.fetch_add(1, Ordering::SeqCst);
    let base = TARGET.load(Ordering::SeqCst);
    let at = base + data_at(n % HANDLED as u64) as usize + 64;
    // SAFETY: eight bytes of a tracked area, to which nothing else stores.
    unsafe { (at as *mut u64).write_volatile(n) };
}

/// A handler interrupts whatever its thread is doing, calls of the library as well, and stores.
fn handlers_store_while_the_library_is_at_work() {
    let (code, text) = run(|| {
        let h = home();
        let area = tracked(&h);
        TARGET.store(area.base().as_ptr() as usize, Ordering::SeqCst);
        area.allow_live_hooks(true).unwrap();
        // SAFETY: valid structures; the handler stores only.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = store_now as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut());
        }
        let timer = |micros| {
            let every = libc::timeval { tv_sec: 0, tv_usec: micros };
            let timer = libc::itimerval { it_interval: every, it_value: every };
            // SAFETY: a valid structure; SIGALRM is what ends a test that hangs.
            unsafe { libc::setitimer(libc::ITIMER_PROF, &timer, std::ptr::null_mut()) };
        };
        timer(100);
        let mut round = 0;
        while STORED.load(Ordering::SeqCst) < 300 {
            round += 1;
            let extent = round % HANDLED as u64;
            store(&area, data_at(extent), round);
            match round % 5 {
                0 => drop(area.hold_stores().unwrap()),
                1 => drop(area.publish(Publish::Shared, b"").unwrap()),
                2 => area.make_writable(range(data_at(extent), 8), WriteIntent::Keep).unwrap(),
                3 => area.discard(range(data_at(20), DATA)).unwrap(),
                _ => {
                    area.publish(Publish::Shared, b"").unwrap();
                    let handled = area.base().as_ptr().wrapping_add(data_at(0) as usize);
                    assert!(swing::tracked::prepare(handled, HANDLED * DATA as usize));
                }
            }
            store(&area, data_at(20), round);
            assert_eq!(load(&area, data_at(extent)), round);
        }
        timer(0);
        0
    });
    assert_eq!((code, text.as_str()), (0, ""));
}

/// A forked child has the state of the fork as private memory, may write it, and its parent does
/// not notice; also while other threads of the parent store.
fn forked_children_have_memory_of_their_own() {
    let (code, text) = run(|| {
        let h = home();
        let area = tracked(&h);
        let stop = AtomicU64::new(0);
        (0..3).for_each(|e| store(&area, data_at(e), 5));
        store(&area, 64, 6);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = 0;
                while stop.load(Ordering::Relaxed) == 0 {
                    n += 1;
                    store(&area, data_at(1) + 8, n);
                    store(&area, data_at(2) + 8, n);
                }
            });
            for round in 1..25u64 {
                store(&area, data_at(0), round);
                // SAFETY: the child takes no lock that the other thread can hold.
                let pid = unsafe { libc::fork() };
                if pid == 0 {
                    let first = load(&area, data_at(1) + 8);
                    let second = load(&area, data_at(2) + 8);
                    let mut good = load(&area, data_at(0)) == round && load(&area, 64) == 6;
                    good &= first == second || first == second + 1;
                    store(&area, data_at(0), 1000);
                    store(&area, data_at(30), 1000);
                    good &= load(&area, data_at(40)) == 0 && load(&area, data_at(30)) == 1000;
                    good &= load(&area, data_at(1) + 8) == first;
                    good &= area.publish(Publish::Shared, b"").is_err();
                    // SAFETY: ends the child at once.
                    unsafe { libc::_exit(i32::from(!good)) };
                }
                let mut status = 0;
                store(&area, data_at(0), round + 500);
                // SAFETY: waits for the child made above.
                assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                assert_eq!(status, 0, "round {round}");
                assert_eq!(load(&area, data_at(0)), round + 500);
                assert_eq!(load(&area, data_at(30)), 0);
            }
            stop.store(1, Ordering::Relaxed);
        });
        // The children's views are gone, and so is what was kept for them.
        for _ in 0..1000 {
            if area.stats().retired.get() == 0 {
                return 0;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        1
    });
    assert_eq!((code, text.as_str()), (0, ""));
}

/// Mounts a tmpfs of 24 MiB; `None` without root.
fn small() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    let options = ["-t", "tmpfs", "-o", "size=24m", "tmpfs"];
    let mounted = Command::new("mount").args(options).arg(dir.path()).status();
    if mounted.is_ok_and(|s| s.success()) {
        return Some(dir);
    }
    println!("skipped: mounting a tmpfs needs root and a mount program");
    None
}

fn unmount(dir: &tempfile::TempDir) {
    let _ = Command::new("umount").arg("-l").arg(dir.path()).status();
}

static FILLER: std::sync::OnceLock<std::ffi::CString> = std::sync::OnceLock::new();

/// Makes room by removing a file, once.
fn make_room(shortage: &swing::tracked::StoreShortage) -> bool {
    CALLS.fetch_add(1, Ordering::SeqCst);
    let Some(path) = FILLER.get() else { return false };
    // SAFETY: a valid path.
    shortage.needed.get() == DATA && unsafe { libc::unlink(path.as_ptr()) } == 0
}

#[test]
fn a_full_file_system_is_said_and_is_no_bus_error() {
    let Some(dir) = small() else { return };
    let path = dir.path().join("home");
    let (code, text) = run(|| {
        let ns = Namespace::open(&path).unwrap().with_backing(Backing::File);
        let area = ns.create(&name("a"), &options()).unwrap();
        area.track().unwrap();
        (0..40).for_each(|e| store(&area, data_at(e), e));
        0
    });
    assert_eq!(code, DEAD);
    assert!(text.contains("is full") && text.contains("size="), "{text}");
    unmount(&dir);
}

/// First what nobody needs is given back, then the program is asked.
#[test]
fn memory_is_found_before_a_store_dies() {
    let Some(dir) = small() else { return };
    let path = dir.path().join("home");
    let (code, text) = run(|| {
        let ns = Namespace::open(&path).unwrap().with_backing(Backing::File);
        let area = ns.create(&name("a"), &options()).unwrap();
        area.track().unwrap();
        // Three versions of six extents would not fit; two do, and the keeper finds them.
        for round in 1..8 {
            (0..4).for_each(|e| store(&area, data_at(e), round));
            area.publish(Publish::Shared, b"").unwrap();
            drop(ns.hook(&name("a")).unwrap());
        }
        assert_eq!(CALLS.load(Ordering::SeqCst), 0);
        area.reclaim().unwrap();
        let filler = path.join("filler");
        let free = 24 * 1024 * 1024 - area.stats().own.get() - area.stats().retired.get();
        std::fs::write(&filler, vec![1u8; free as usize - (3 << 20)]).unwrap();
        let filler = filler.into_os_string().into_encoded_bytes();
        FILLER.set(std::ffi::CString::new(filler).unwrap()).unwrap();
        swing::tracked::on_shortage(Some(make_room));
        (10..13).for_each(|e| store(&area, data_at(e), e));
        (10..13).for_each(|e| assert_eq!(load(&area, data_at(e)), e));
        assert_eq!(CALLS.load(Ordering::SeqCst), 1, "{:?}", area.stats());
        0
    });
    unmount(&dir);
    assert_eq!((code, text.as_str()), (0, ""));
}

over_both_back_ends! {
    crashes_are_crashes,
    a_handler_before_and_after_gets_only_its_own_faults,
    a_publish_puts_the_handler_in_front_again,
    a_replaced_handler_does_not_see_first_touches,
    fault_handlers_that_raise_again,
    a_handler_for_one_time_is_called_once,
    an_ignored_signal_is_ignored_and_a_fault_is_not,
    a_limit_on_files_is_an_error,
    a_limit_on_files_that_comes_later_ends_nobody,
    a_store_finds_the_planes_that_snapshots_have_let_go,
    a_store_without_a_plane_says_why_and_ends_the_process,
    a_store_in_place_needs_no_plane,
    a_barrier_finds_the_planes_that_snapshots_have_let_go,
    what_a_childs_handler_stores_is_the_childs,
    handlers_store_while_the_library_is_at_work,
    forked_children_have_memory_of_their_own,
}
