//! Death between any two system calls that leave a trace (INV-AREA-5, INV-AREA-1).
//!
//! Each case is run again and again: once killed before its first system call, once before the
//! second, and so on until it comes to its end. After each death what was acknowledged is there,
//! whole; what a snapshot showed has not changed; the area goes on; and when it is removed, nothing
//! is left. Locks and leases, which are mappings, are looked at from outside between any two calls
//! (INV-AREA-19). And failure of any one system call, for want of memory, space or descriptors: it
//! is an error of the call, which can be made again, or of no consequence. No randomness: a failure
//! names the case, the number of calls made, and the call that was next.
//!
//! A history of numbered states says what every extent must hold: state `k` writes some extents
//! with `k`, its payload is `k`. After a death the test is the heir.

#[macro_use]
mod common;
#[path = "common/stage.rs"]
mod stage;
#[path = "common/stepping.rs"]
mod stepping;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use stage::{PLACE, ROLE, Stage, next_line, say};
use stepping::{End, Stepped};
use swing::{
    Area, AreaOffset, Backing, HookError, HookOptions, Namespace, OpenError, Publish, RemoveError,
    Snapshot, WriteIntent,
};

/// A fork affects every area of the process: one test at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// No case makes more system calls, but for looks at other processes.
const MAX_CALLS: usize = 2000;
/// Calls for each process of the machine, where somebody looks for memfds.
const CALLS_OF_PROCESS: usize = 50;
/// Set: every system call is tried, however long that takes.
const ALL: &str = "SWING_EACH_STEP";

/// The numbers of calls before which a case ends or fails: every so many on this backing, or all.
fn calls(on_files: usize, on_memfds: usize) -> std::iter::StepBy<std::ops::Range<usize>> {
    let every = match backing() {
        _ if std::env::var_os(ALL).is_some() => 1,
        Backing::Memfd => on_memfds,
        _ => on_files,
    };
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let processes = match backing() {
        Backing::Memfd => std::fs::read_dir("/proc").unwrap().flatten(),
        _ => return (0..MAX_CALLS).step_by(every),
    };
    let others = processes.filter(|p| p.file_name().to_str().is_some_and(is_process)).count();
    (0..MAX_CALLS + others * CALLS_OF_PROCESS).step_by(every)
}
/// States that are there when a case begins.
const PREPARED: u64 = 3;
const EXTENTS: u64 = 8;
/// Where a case shows an extent of data a second time.
const CLONE_AT: u64 = 20;

/// The first of them are small ones.
fn extent(i: u64) -> (u64, u64) {
    if i < 5 { (i * SMALL, SMALL) } else { (data_at(i - 5), DATA) }
}

/// The extents that state `k` writes.
fn written(k: u64) -> [u64; 3] {
    [k % 5, (3 * k + 1) % 5, 5 + k % 3]
}

/// The extent that state `k` discards.
fn discarded(k: u64) -> Option<u64> {
    (k % 3 == 2).then(|| 5 + (k + 1) % 3)
}

/// What an extent holds in state `k`: the number of the state that wrote it last, 0 for nothing.
fn expected(i: u64, k: u64) -> u64 {
    let last = (1..=k).rev().find(|j| written(*j).contains(&i) || discarded(*j) == Some(i));
    last.filter(|j| written(*j).contains(&i)).unwrap_or(0)
}

fn kind(k: u64) -> Publish {
    if k.is_multiple_of(4) { Publish::Committed } else { Publish::Shared }
}

/// Makes the next state.
fn advance(area: &Area, k: u64) {
    for (start, len) in written(k).map(extent) {
        area.make_writable(range(start, len), WriteIntent::Keep).unwrap();
        for at in [0, 4096, len - 8] {
            // SAFETY: the extent has just been made writable, and nobody else stores into it.
            unsafe { area.base().add((start + at) as usize).cast::<u64>().write(k) };
        }
    }
    if let Some((start, len)) = discarded(k).map(extent) {
        area.discard(range(start, len)).unwrap();
    }
    area.publish(kind(k), &k.to_le_bytes()).unwrap();
}

/// Which state a snapshot shows; all of it is compared.
fn state_of(snapshot: &Snapshot) -> u64 {
    let k = number(snapshot.payload());
    for i in 0..EXTENTS {
        let (start, len) = extent(i);
        let value = expected(i, k);
        assert_eq!(snapshot.is_mapped(&range(start, len)), value > 0, "extent {i} of state {k}");
        for at in [0, 4096, len - 8].into_iter().filter(|_| value > 0) {
            assert_eq!(read_snapshot(snapshot, start + at, 8), value.to_le_bytes(), "{i} of {k}");
        }
    }
    k
}

/// A bit of [`Progress`].
const ENDING: u64 = 1 << 63;

/// What a child has come to, in memory it shares with the test.
struct Progress(*mut AtomicU64);

impl Progress {
    fn new() -> Self {
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, prot, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self(at.cast())
    }
    fn word(&self) -> &AtomicU64 {
        // SAFETY: the memory stays mapped as long as `self` lives.
        unsafe { &*self.0 }
    }
    /// State `k` has been published.
    fn reach(&self, k: u64) {
        self.word().store(k, Ordering::SeqCst);
    }
    /// From here on the area may be gone.
    fn begin_end(&self) {
        self.word().fetch_or(ENDING, Ordering::SeqCst);
    }
    fn reached(&self) -> u64 {
        self.word().load(Ordering::SeqCst) & !ENDING
    }
    /// A word behind the first one.
    fn other(&self, i: usize) -> &'static AtomicU64 {
        // SAFETY: in the page, which the processes that use this word keep to their end.
        unsafe { &*self.0.add(i) }
    }
    /// What the owner of an area that is hooked live is to store, and what it has stored.
    fn asked_and_stored(&self) -> [&'static AtomicU64; 2] {
        [self.other(1), self.other(2)]
    }
    /// Has the owner store a number; `false`: it was over before.
    fn have_stored(&self, n: u64, is_over: impl Fn() -> bool) -> bool {
        have_stored(self.asked_and_stored(), n, &is_over)
    }
    fn may_be_gone(&self) -> bool {
        self.word().load(Ordering::SeqCst) & ENDING != 0
    }
}

fn have_stored([asked, stored]: [&AtomicU64; 2], n: u64, is_over: &dyn Fn() -> bool) -> bool {
    asked.store(n, Ordering::SeqCst);
    while stored.load(Ordering::SeqCst) < n {
        if is_over() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    true
}

impl Drop for Progress {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and used by nobody any more.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

/// Who is stepped through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// A process that finds nothing.
    First,
    /// The process that made the states so far.
    Owner,
    /// Another one, after the owner's death.
    Heir,
    /// Another one, while the owner lives.
    Guest,
    /// As `Owner`, of an area that is tracked and hooked live.
    LiveOwner,
    /// As `Guest`, of such an area.
    LiveGuest,
}

fn prepared(ns: &Namespace, progress: &Progress) -> Area {
    let area = ns.create(&name("w"), &options()).unwrap();
    advance_to(&area, progress, PREPARED);
    area
}

/// What `who` needs, made by the process that is the owner.
fn prepared_for(who: Who, ns: &Namespace, progress: &Progress) -> Option<Area> {
    let area = (who != Who::First).then(|| prepared(ns, progress));
    if matches!(who, Who::LiveOwner | Who::LiveGuest) {
        // The threads of the library begin here, and are not stepped through.
        area.iter().for_each(|area| area.allow_live_hooks(true).unwrap());
    }
    if let (Who::LiveGuest, Some(area)) = (who, &area) {
        let (at, words) = (counter(area) as usize, progress.asked_and_stored());
        std::thread::spawn(move || {
            loop {
                store_what_is_asked(at, words);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
    }
    area
}

/// A number in an area that belongs to no state.
fn counter(area: &Area) -> *mut u64 {
    area.base().as_ptr().wrapping_add(data_at(CLONE_AT) as usize).cast()
}

fn store_what_is_asked(at: usize, [asked, stored]: [&AtomicU64; 2]) {
    let n = asked.load(Ordering::SeqCst);
    if n > stored.load(Ordering::SeqCst) {
        // SAFETY: in an area of this process, which is tracked; nobody else stores there.
        unsafe { (at as *mut u64).write_volatile(n) };
        stored.store(n, Ordering::SeqCst);
    }
}

/// A live hook that shows what was stored before it asked.
fn assert_shows(hooked: &Snapshot, n: u64) {
    assert!(hooked.is_fresh());
    assert_eq!(value_in(hooked, data_at(CLONE_AT)), n, "an older state than when it asked");
    assert_eq!(state_of(hooked), PREPARED);
}

fn number(payload: &[u8]) -> u64 {
    payload.get(..8).map_or(0, |p| u64::from_le_bytes(p.try_into().unwrap()))
}

/// Goes on from the present state to `last`.
fn advance_to(area: &Area, progress: &Progress, last: u64) {
    for k in number(&area.payload()) + 1..=last {
        advance(area, k);
        progress.reach(k);
    }
}

/// Runs a case to its end, with a death before each of its system calls.
fn at_each_step(who: Who, act: fn(&Namespace, Option<Area>, &Progress)) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Whoever looks for the memfd of a dead process looks at all descriptors of all processes.
    for calls in calls(1, 8) {
        let (h, progress) = (home(), Progress::new());
        let prepare = || prepared_for(who, &h.ns, &progress);
        let Some(owner) = Stepped::start(prepare, |area| act(&h.ns, area, &progress)) else {
            return;
        };
        let held = (who != Who::First).then(|| h.ns.hook(&name("w")).unwrap());
        let other = || Stepped::start(|| (), |()| act(&h.ns, None, &progress)).unwrap();
        let end = match who {
            Who::First | Who::Owner | Who::LiveOwner => owner.kill_after(calls),
            Who::Heir => {
                drop(owner);
                other().kill_after(calls)
            }
            Who::Guest | Who::LiveGuest => {
                let end = other().kill_after(calls);
                if who == Who::LiveGuest {
                    // Who asks next is answered.
                    assert!(progress.have_stored(100, || false));
                    assert_shows(&hook_now(&h, "w"), 100);
                }
                drop(owner);
                end
            }
        };
        println!("{calls} calls, then {end:?}");
        check(&h, held, &progress);
        if end == End::Done {
            return;
        }
    }
    panic!("the case does not end");
}

/// Everything that must hold after a death.
fn check(h: &Home, held: Option<Snapshot>, progress: &Progress) {
    let reached = progress.reached();
    let lost = backing() == Backing::Memfd && held.is_none();
    held.iter().for_each(|s| assert_eq!(state_of(s), PREPARED, "INV-AREA-1"));
    assert!(h.ns.list().unwrap().iter().all(|info| info.owner.is_none()), "INV-AREA-5");
    let may_be_gone = reached == 0 || progress.may_be_gone();
    match h.ns.hook(&name("w")) {
        Ok(snapshot) => {
            let least = (0..=reached).rev().find(|k| kind(*k) == Publish::Shared).unwrap_or(0);
            assert!((least..=reached + 1).contains(&state_of(&snapshot)));
        }
        Err(HookError::MemoryGone { .. }) if lost => {}
        Err(HookError::NotFound { .. } | HookError::NotShared { .. }) => assert!(may_be_gone),
        Err(e) => panic!("{e}"),
    }
    check_derived(h);
    match h.ns.open_area(&name("w")) {
        Ok(area) => {
            let k = number(&area.payload());
            assert!((reached..=reached + 1).contains(&k), "state {k}, not {reached}");
            goes_on(h, &area, k, held);
        }
        Err(OpenError::MemoryGone { .. }) if lost => drop(held),
        Err(OpenError::NotFound { .. }) if may_be_gone => drop(held),
        Err(e) => panic!("{e}"),
    }
    if let Err(e) = h.ns.remove(&name("w")) {
        assert!(matches!(e, RemoveError::NotFound { .. }), "{e}");
    }
    nothing_is_left(h);
}

/// An area that was adopted shows state `k`, makes the next one, and keeps no memory beyond it.
fn goes_on(h: &Home, area: &Area, k: u64, held: Option<Snapshot>) {
    assert_eq!(state_of(&area.freeze_view().unwrap()), k);
    for k in k + 1..k + 3 {
        advance(area, k);
        assert_eq!(state_of(&area.freeze_view().unwrap()), k);
    }
    held.iter().for_each(|s| assert_eq!(state_of(s), PREPARED, "INV-AREA-1"));
    drop(held);
    // What is shown twice belongs to a state that this keeps.
    area.discard(range(data_at(CLONE_AT), DATA)).unwrap();
    area.publish(Publish::Shared, &area.payload()).unwrap();
    area.reclaim().unwrap();
    let stats = area.stats();
    assert_eq!((stats.retired.get(), stats.spare.get()), (0, 0), "{stats:?}");
    let allocated = std::fs::metadata(memory_of(&h.dir.path().join("w"))).unwrap().blocks() * 512;
    assert_eq!(allocated, stats.own.get(), "memory that nobody shows");
}

/// The area that the case `derives` makes, if it got so far.
fn check_derived(h: &Home) {
    match h.ns.open_area(&name("d")) {
        Ok(area) => {
            let view = area.freeze_view().unwrap();
            if area.payload().len() > 8 {
                assert_eq!(read_snapshot(&view, data_at(CLONE_AT), 8), 3u64.to_le_bytes());
            }
            let k = state_of(&view);
            assert!((PREPARED..PREPARED + 3).contains(&k), "state {k}");
        }
        // Its memory was the memfd of a process that is dead.
        Err(OpenError::MemoryGone { .. }) if backing() == Backing::Memfd => {}
        Err(OpenError::NotFound { .. }) => return,
        Err(e) => panic!("{e}"),
    }
    h.ns.remove(&name("d")).unwrap();
}

fn the_first_publish() {
    at_each_step(Who::First, |ns, _, progress| {
        let area = ns.create(&name("w"), &options()).unwrap();
        advance_to(&area, progress, 2);
    });
}

fn publishes() {
    at_each_step(Who::Owner, |_, area, progress| {
        let area = area.unwrap();
        advance_to(&area, progress, PREPARED + 3);
        area.reclaim().unwrap();
    });
}

fn closing() {
    at_each_step(Who::Owner, |_, area, _| drop(area));
}

/// A view keeps what it shows; memory is shown twice.
fn views_and_clones() {
    at_each_step(Who::Owner, |_, area, progress| {
        let area = area.unwrap();
        let view = area.freeze_view().unwrap();
        area.map_foreign(&view, range(data_at(0), DATA), AreaOffset(data_at(CLONE_AT))).unwrap();
        advance_to(&area, progress, PREPARED + 1);
        area.discard(range(data_at(CLONE_AT), DATA)).unwrap();
        advance_to(&area, progress, PREPARED + 2);
    });
}

fn adopting() {
    at_each_step(Who::Heir, |ns, _, progress| {
        let area = ns.open_area(&name("w")).unwrap();
        advance_to(&area, progress, PREPARED + 1);
    });
}

fn removing() {
    at_each_step(Who::Heir, |ns, _, progress| {
        progress.begin_end();
        ns.remove(&name("w")).unwrap();
    });
}

fn collecting() {
    at_each_step(Who::Heir, |ns, _, _| {
        ns.gc().unwrap();
    });
}

fn hooking() {
    at_each_step(Who::Guest, |ns, _, _| {
        assert_eq!(state_of(&ns.hook(&name("w")).unwrap()), PREPARED);
    });
}

fn deriving() {
    at_each_step(Who::Guest, |ns, _, _| {
        let origin = ns.hook(&name("w")).unwrap();
        let area = origin.derive(Some(&name("d"))).unwrap();
        advance(&area, PREPARED + 1);
        area.map_foreign(&origin, range(data_at(0), DATA), AreaOffset(data_at(CLONE_AT))).unwrap();
        let payload = [PREPARED + 1, 0].map(u64::to_le_bytes).concat();
        area.publish(Publish::Shared, &payload).unwrap();
        drop(origin.derive(None).unwrap());
    });
}

/// Plain stores, each of which is trapped once.
fn trapped_stores() {
    at_each_step(Who::LiveOwner, |_, area, progress| {
        let area = area.unwrap();
        for k in PREPARED + 1..=PREPARED + 3 {
            try_to_advance(&area, k).unwrap();
            progress.reach(k);
        }
    });
}

fn hooking_live() {
    at_each_step(Who::LiveGuest, |ns, _, progress| {
        for n in 1..=2 {
            progress.have_stored(n, || false);
            assert_shows(&ns.hook_live_with(&name("w"), patient()).unwrap(), n);
        }
    });
}

fn making_a_tracked_area() {
    at_each_step(Who::First, |ns, _, progress| {
        let area = ns.create(&name("w"), &options()).unwrap();
        area.track().unwrap();
        for k in 1..=2 {
            try_to_advance(&area, k).unwrap();
            progress.reach(k);
        }
    });
}

/// An area that is derived from a share, tracked, shared and hooked live itself.
fn tracking_what_is_derived() {
    at_each_step(Who::Guest, |ns, _, _| {
        let origin = ns.hook(&name("w")).unwrap();
        let area = origin.derive(Some(&name("d"))).unwrap();
        area.allow_live_hooks(true).unwrap();
        try_to_advance(&area, PREPARED + 1).unwrap();
    });
}

/// Answers live hooks, and stores what it is asked to, until the hooker has got what it wanted.
fn answer_and_store(area: Area, progress: &Progress) {
    again(|| area.allow_live_hooks(true));
    let at = counter(&area) as usize;
    while progress.other(3).load(Ordering::SeqCst) == 0 {
        store_what_is_asked(at, progress.asked_and_stored());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The owner dies while it begins to answer live hooks, answers two of them, and ends: each is of
/// the moment, or fails with an error that says why.
fn answering() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for calls in calls(1, 8) {
        let (h, progress) = (home(), Progress::new());
        let act = |area| answer_and_store(area, &progress);
        let Some(owner) = Stepped::start(|| prepared(&h.ns, &progress), act) else { return };
        let (over, ended, ns) = (AtomicBool::new(false), progress.other(3), &h.ns);
        let (words, over) = (progress.asked_and_stored(), &over);
        let (end, hooked) = std::thread::scope(|scope| {
            let hooker = scope.spawn(move || {
                let is_over = || over.load(Ordering::SeqCst);
                let hooked = hook_while_it_lives(ns, &|n| have_stored(words, n, &is_over));
                ended.store(1, Ordering::SeqCst);
                hooked
            });
            let end = owner.kill_after(calls);
            over.store(true, Ordering::SeqCst);
            (end, hooker.join().unwrap())
        });
        println!("{calls} calls, then {end:?}, {} hooks", hooked.len());
        // What was given is not lost with its owner.
        if let (Some(last), Ok(found)) = (hooked.last(), h.ns.hook(&name("w"))) {
            let [given, found] =
                [last, &found].map(|s| (s.epoch(), value_in(s, data_at(CLONE_AT))));
            assert!(found >= given, "{found:?}, but {given:?} was given");
        }
        hooked.iter().zip(1..).for_each(|(hooked, n)| assert_shows(hooked, n));
        drop(hooked);
        check(&h, None, &progress);
        if end == End::Done {
            return;
        }
    }
    panic!("the case does not end");
}

/// Two live hooks, as far as the owner lives so long.
fn hook_while_it_lives(ns: &Namespace, stored: &dyn Fn(u64) -> bool) -> Vec<Snapshot> {
    let mut all = Vec::new();
    for n in 1..=2 {
        if !stored(n) {
            break;
        }
        let options = HookOptions { patience: Duration::from_secs(5), ..Default::default() };
        match ns.hook_live_with(&name("w"), options) {
            Ok(hooked) => {
                assert_shows(&hooked, n);
                all.push(hooked);
            }
            Err(
                HookError::NotFresh { .. }
                | HookError::NotShared { .. }
                | HookError::NotHookable { .. }
                | HookError::MemoryGone { .. },
            ) => break,
            Err(e) => panic!("{e}"),
        }
    }
    all
}

/// As [`advance`], by plain stores where that works, and by calls that may fail.
fn try_to_advance(area: &Area, k: u64) -> Result<(), Box<dyn std::error::Error>> {
    for (start, len) in written(k).map(extent) {
        if !area.is_tracked() {
            area.make_writable(range(start, len), WriteIntent::Keep)?;
        }
        for at in [0, 4096, len - 8] {
            // SAFETY: writable, or tracked; nobody else stores into it.
            unsafe { area.base().add((start + at) as usize).cast::<u64>().write_volatile(k) };
        }
    }
    if let Some((start, len)) = discarded(k).map(extent) {
        area.discard(range(start, len))?;
    }
    Ok(area.publish(kind(k), &k.to_le_bytes()).map(drop)?)
}

/// Does what may fail until it does not: at most one call fails.
fn again<T, E: std::fmt::Display>(mut act: impl FnMut() -> Result<T, E>) -> T {
    let first = match act() {
        Ok(done) => return done,
        Err(e) => e.to_string(),
    };
    assert!(!first.is_empty());
    act().unwrap_or_else(|e| panic!("{first}, and then {e}"))
}

/// Runs a case to its end, with one system call that fails: the first, the second, and so on.
#[cfg(target_arch = "x86_64")]
fn with_each_failure(who: Who, act: fn(&Namespace, Option<Area>, &Progress)) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Each takes a process and, of memfds, a look at all of them.
    for calls in calls(3, 17) {
        let (h, progress) = (home(), Progress::new());
        let prepare = || prepared_for(who, &h.ns, &progress);
        let act = |area| {
            // A store that finds no memory tries again.
            swing::tracked::on_shortage(Some(|shortage| shortage.tries < 3));
            act(&h.ns, area, &progress);
        };
        let guest = matches!(who, Who::Guest | Who::LiveGuest | Who::Heir);
        let started = match guest {
            true => Stepped::start(prepare, drop),
            false => Stepped::start_to_fail(prepare, act),
        };
        let Some(owner) = started else { return };
        let held = (who != Who::First).then(|| h.ns.hook(&name("w")).unwrap());
        let end = match guest {
            true => {
                // An heir comes after the owner's death.
                let living = (who != Who::Heir).then_some(owner);
                let end = Stepped::start_to_fail(|| None, act).unwrap().fail_after(calls);
                drop(living);
                end
            }
            false => owner.fail_after(calls),
        };
        println!("{calls} calls, then {end:?}");
        let nothing = progress.word().fetch_and(!NOTHING, Ordering::SeqCst) & NOTHING != 0;
        check(&h, held, &progress);
        if end == End::Done {
            assert!(!nothing, "a child has nothing though no call has failed");
            return;
        }
    }
    panic!("the case does not end");
}

#[cfg(not(target_arch = "x86_64"))]
fn with_each_failure(_: Who, _: fn(&Namespace, Option<Area>, &Progress)) {}

fn failing_publishes() {
    with_each_failure(Who::Owner, |_, area, progress| {
        let area = area.unwrap();
        for k in PREPARED + 1..=PREPARED + 2 {
            again(|| try_to_advance(&area, k));
            progress.reach(k);
        }
        assert_eq!(state_of(&again(|| area.freeze_view())), PREPARED + 2);
    });
}

fn failing_trapped_stores() {
    with_each_failure(Who::LiveOwner, |_, area, progress| {
        let area = area.unwrap();
        for k in PREPARED + 1..=PREPARED + 2 {
            again(|| try_to_advance(&area, k));
            progress.reach(k);
        }
        assert_eq!(state_of(&again(|| area.freeze_view())), PREPARED + 2);
    });
}

fn failing_live_hooks() {
    with_each_failure(Who::LiveGuest, |ns, _, progress| {
        for n in 1..=2 {
            progress.have_stored(n, || false);
            assert_shows(&again(|| ns.hook_live_with(&name("w"), patient())), n);
        }
    });
}

fn failing_to_track() {
    with_each_failure(Who::First, |ns, _, progress| {
        let area = again(|| ns.create(&name("w"), &options()));
        again(|| area.track());
        for k in 1..=2 {
            again(|| try_to_advance(&area, k));
            progress.reach(k);
        }
        let shown = again(|| ns.hook(&name("w")));
        again(|| try_to_advance(&area, 3));
        progress.reach(3);
        assert_eq!(state_of(&shown), 2);
    });
}

fn failing_to_track_what_is_derived() {
    with_each_failure(Who::Guest, |ns, _, _| {
        let origin = again(|| ns.hook(&name("w")));
        let area = again(|| origin.derive(Some(&name("d"))));
        again(|| area.allow_live_hooks(true));
        again(|| try_to_advance(&area, PREPARED + 1));
    });
}

fn failing_to_adopt() {
    with_each_failure(Who::Heir, |ns, _, progress| {
        let area = again(|| ns.open_area(&name("w")));
        for k in PREPARED + 1..=PREPARED + 2 {
            again(|| try_to_advance(&area, k));
            progress.reach(k);
        }
    });
}

/// Bits of [`Progress`]: its child may look at what it has got; the child has got nothing.
const STORED: u64 = 1 << 62;
const NOTHING: u64 = 1 << 61;

/// Forks, goes on storing, and has the child look at what it has: the fork's state, or nothing.
fn fork_and_store(area: &Area, progress: &Progress) {
    // SAFETY: the child only loads, and ends.
    let fork = || match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        child => Ok(child),
    };
    let child = again(fork);
    if child == 0 {
        while progress.word().load(Ordering::SeqCst) & STORED == 0 {
            std::thread::yield_now();
        }
        let is_whole = (0..EXTENTS).filter(|i| expected(*i, PREPARED) > 0).all(|i| {
            let (start, len) = extent(i);
            let value = |at| load(area, start + at);
            [0, 4096, len - 8].into_iter().all(|at| value(at) == expected(i, PREPARED))
        });
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if is_whole { 0 } else { 1 }) };
    }
    again(|| try_to_advance(area, PREPARED + 1));
    progress.word().store((PREPARED + 1) | STORED, Ordering::SeqCst);
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    let killed = libc::WIFSIGNALED(status);
    // It dies at the first look at memory that it has not got, or says before why it has none.
    let well = killed && [libc::SIGSEGV, libc::SIGABRT].contains(&libc::WTERMSIG(status));
    assert!(status == 0 || well, "{status:#x}: the child sees another state");
    let nothing = if killed { NOTHING } else { 0 };
    progress.word().store((PREPARED + 1) | nothing, Ordering::SeqCst);
}

fn failing_forks() {
    with_each_failure(Who::Owner, |_, area, progress| fork_and_store(&area.unwrap(), progress));
}

fn failing_forks_while_stores_are_trapped() {
    with_each_failure(Who::LiveOwner, |_, area, progress| {
        fork_and_store(&area.unwrap(), progress);
    });
}

/// The thread that answers live hooks begins, answers and ends with a call that fails.
#[cfg(target_arch = "x86_64")]
fn failing_to_answer() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for calls in calls(3, 17) {
        let (h, progress) = (home(), Progress::new());
        let prepare = || prepared(&h.ns, &progress);
        let act = |area: Area| {
            // A store that finds no memory tries again.
            swing::tracked::on_shortage(Some(|shortage| shortage.tries < 3));
            answer_and_store(area, &progress);
        };
        let Some(owner) = Stepped::start_to_fail(prepare, act) else { return };
        let (ns, words, ended) = (&h.ns, progress.asked_and_stored(), progress.other(3));
        let end = std::thread::scope(|scope| {
            let hooks = scope.spawn(move || hook_until_answered(ns, words));
            // Also when that has failed, since the owner waits for it.
            scope.spawn(move || {
                let hooked = hooks.join();
                ended.store(1, Ordering::SeqCst);
                hooked.unwrap();
            });
            owner.fail_after(calls)
        });
        println!("{calls} calls, then {end:?}");
        progress.reach(PREPARED);
        check(&h, None, &progress);
        if end == End::Done {
            return;
        }
    }
    panic!("the case does not end");
}

/// Two live hooks; that one of a few is not answered is no wonder.
#[cfg(target_arch = "x86_64")]
fn hook_until_answered(ns: &Namespace, words: [&AtomicU64; 2]) {
    let begun = Instant::now();
    let is_over = || {
        assert!(begun.elapsed() < Duration::from_secs(120), "the owner does not answer");
        false
    };
    // A question that its owner has lost is not answered at all; an owner that is stopped before
    // each call, on a busy machine, may take long for one.
    let (mut patience, mut tries) = (Duration::from_millis(300), 0);
    for n in 1..=2 {
        have_stored(words, n, &is_over);
        let hooked = loop {
            let options = HookOptions { patience, ..Default::default() };
            match ns.hook_live_with(&name("w"), options) {
                Ok(hooked) => break hooked,
                Err(e) => assert!(!e.to_string().is_empty()),
            }
            tries += 1;
            patience *= if tries > 3 { 2 } else { 1 };
            is_over();
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_shows(&hooked, n);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn failing_to_answer() {}

fn failing_to_derive() {
    with_each_failure(Who::Guest, |ns, _, _| {
        let origin = again(|| ns.hook(&name("w")));
        let area = again(|| origin.derive(Some(&name("d"))));
        again(|| try_to_advance(&area, PREPARED + 1));
    });
}

/// Not a test: what the processes run that the tests start.
#[test]
fn child_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let ns = Namespace::open(Path::new(&std::env::var(PLACE).unwrap())).unwrap();
    let (area, snapshot) = match role.as_str() {
        "owner" => (Some(prepared(&ns, &Progress::new())), None),
        "reader" => (None, Some(ns.hook(&name("w")).unwrap())),
        _ => panic!("{role}"),
    };
    say("ready");
    while let Some(line) = next_line() {
        match line.as_str() {
            // Two states: what was newest before is superseded, and given back if nobody leases it.
            "advance" => {
                let area = area.as_ref().unwrap();
                let k = number(&area.payload());
                (k + 1..k + 3).for_each(|k| advance(area, k));
                area.reclaim().unwrap();
                say("advanced");
            }
            "vfork" => stop_in_a_child_that_shares_memory(),
            _ => panic!("{line}"),
        }
    }
    drop((area, snapshot));
}

/// As `vfork` and `posix_spawn` make one; it stops where these would call `exec`, and this process
/// waits for it.
fn stop_in_a_child_that_shares_memory() {
    extern "C" fn stop(_: *mut libc::c_void) -> i32 {
        // SAFETY: asks for its own number, and stops itself.
        unsafe {
            let me = libc::syscall(libc::SYS_getpid);
            say(&me.to_string());
            libc::syscall(libc::SYS_kill, me, libc::SIGSTOP);
        }
        0
    }
    let mut stack = vec![0_u128; 1 << 14];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has a stack of its own, and this thread goes on when it has ended.
    let child = unsafe {
        libc::clone(stop, stack.as_mut_ptr_range().end.cast(), flags, std::ptr::null_mut())
    };
    assert!(child > 0);
}

fn stage(role: &str, h: &Home) -> Stage {
    let mut started = Stage::start(role, h.dir.path());
    assert_eq!(started.answer(), "ready");
    started
}

/// Whether somebody has a lock on a file that may exist.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // SAFETY: one try; the lock ends with the descriptor.
    let taken = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
    assert!(taken || std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock);
    !taken
}

/// From the first moment that somebody is the owner nobody else can become it, until the drop.
fn an_owners_lock_is_held_at_each_step() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (h, progress) = (home(), Progress::new());
    let lock = h.dir.path().join("w/owner.lock");
    for round in 0..2 {
        let act = || {
            let area = match round {
                0 => prepared(&h.ns, &progress),
                _ => h.ns.open_area(&name("w")).unwrap(),
            };
            advance_to(&area, &progress, PREPARED + round);
            progress.begin_end();
            drop(area);
        };
        progress.word().store(0, Ordering::SeqCst);
        let Some(child) = Stepped::start_to_look(|| (), |()| act()) else { return };
        // Not yet, held, and no longer.
        let (mut was_held, mut is_over, mut held_for) = (false, false, 0);
        let stops = child.look_at_each(|stop| {
            let (held, ends) = (is_locked(&lock), progress.may_be_gone());
            assert!(held || !was_held || ends, "stop {stop}: the lock is free");
            assert!(!held || !is_over, "stop {stop}: the lock is taken again");
            assert!(held || progress.reached() == 0 || ends, "stop {stop}: there is an owner");
            is_over |= was_held && !held;
            was_held |= held;
            held_for += usize::from(held);
        });
        assert!(was_held && !is_locked(&lock), "{held_for} of {stops}");
        assert!(held_for > 20, "{held_for} of {stops}");
        if backing() == Backing::Memfd {
            return; // Its memory has gone with it.
        }
    }
    assert_eq!(state_of(&h.ns.open_area(&name("w")).unwrap().freeze_view().unwrap()), PREPARED + 1);
}

/// However far a hook is when its owner publishes and gives back what nobody leases: what it gets
/// is one state, and stays so.
fn a_state_is_leased_at_each_step_of_a_hook() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for moment in 0..MAX_CALLS {
        let (h, progress) = (home(), Progress::new());
        let mut owner = stage("owner", &h);
        let act = || {
            let hooked = h.ns.hook(&name("w")).unwrap();
            let k = state_of(&hooked);
            progress.reach(k);
            // A call, before which the owner goes on once more.
            h.ns.shared_state(&name("w")).unwrap();
            assert_eq!(state_of(&hooked), k, "INV-AREA-1");
        };
        let Some(child) = Stepped::start_to_look(|| (), |()| act()) else { return };
        let mut again = true;
        let stops = child.look_at_each(|stop| {
            let last = std::mem::replace(&mut again, progress.reached() == 0);
            if stop == moment || (last && !again) {
                assert_eq!(owner.ask("advance"), "advanced");
            }
        });
        assert!(!again, "the hook has come to its end");
        owner.finish();
        if moment > stops {
            assert!(moment > 20, "{stops} stops");
            return;
        }
    }
    panic!("the hook does not end");
}

/// A child that shares the memory of its parent has its mappings, and so its locks, also when the
/// parent has died: nobody takes the area over, and nobody gives memory back, before it has ended.
fn a_stopped_vfork_child_holds_what_its_dead_parent_held() {
    // A child that another test forks would have the leases of this one.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let h = home();
    let leased = h.dir.path().join("w").join(format!("m.{PREPARED}"));
    let (mut owner, mut reader) = (stage("owner", &h), None);
    let mut stopped = Vec::new();
    for reads in [true, false] {
        let parent = match reads {
            true => reader.insert(stage("reader", &h)),
            false => &mut owner,
        };
        parent.tell("vfork");
        let child: i32 = parent.answer().parse().unwrap();
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
            stat.rsplit(") ").next().unwrap().chars().next()
        };
        let begun = Instant::now();
        while state() != Some('T') {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", state());
            std::thread::sleep(Duration::from_millis(1));
        }
        stopped.push(child);
        if reads {
            reader.take().unwrap().kill();
            // What it has leased is superseded, and stays.
            assert_eq!(owner.ask("advance"), "advanced");
            assert!(is_locked(&leased));
        }
    }
    assert!(matches!(h.ns.open_area(&name("w")), Err(OpenError::Owned { .. })));
    owner.kill();
    let begun = Instant::now();
    let opened = h.ns.open_area(&name("w"));
    assert!(matches!(opened, Err(OpenError::Owned { .. })), "{opened:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "it does not wait for ever");
    h.ns.gc().unwrap();
    assert!(is_locked(&h.dir.path().join("w/owner.lock")));
    for child in stopped {
        // SAFETY: a child of a process that this test has started and killed; it cannot have ended.
        assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
    }
    loop {
        match h.ns.open_area(&name("w")) {
            Ok(area) => {
                let k = number(&area.payload());
                assert!(k > PREPARED, "state {k}");
                // A memfd ends with its last holder, which may not have come to its end yet.
                if backing() == Backing::File {
                    // Nor may the child that holds the lease, which was killed at the same time.
                    while is_locked(&leased) {
                        assert!(begun.elapsed() < Duration::from_secs(60), "its lease stays");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    goes_on(&h, &area, k, None);
                }
                break;
            }
            Err(OpenError::MemoryGone { .. }) if backing() == Backing::Memfd => break,
            Err(OpenError::Owned { .. }) if begun.elapsed() < Duration::from_secs(60) => {}
            Err(e) => panic!("{e}"),
        }
    }
    h.ns.remove(&name("w")).unwrap();
    nothing_is_left(&h);
}

over_both_back_ends! {
    an_owners_lock_is_held_at_each_step,
    a_state_is_leased_at_each_step_of_a_hook,
    a_stopped_vfork_child_holds_what_its_dead_parent_held,
    trapped_stores,
    hooking_live,
    making_a_tracked_area,
    tracking_what_is_derived,
    answering,
    failing_to_track,
    failing_to_track_what_is_derived,
    failing_publishes,
    failing_trapped_stores,
    failing_live_hooks,
    failing_to_derive,
    failing_to_adopt,
    failing_forks,
    failing_forks_while_stores_are_trapped,
    failing_to_answer,
    the_first_publish,
    publishes,
    closing,
    views_and_clones,
    adopting,
    removing,
    collecting,
    hooking,
    deriving,
}
