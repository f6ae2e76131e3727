//! Live hooks: other processes hook the state of any moment while the owner goes on storing.

#[macro_use]
mod common;

use std::io::{Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use fastrand::Rng;
use swing::{
    AreaOptions, ByteLen, HookError, HookOptions, IfStale, Namespace, NotFresh, Publish, Snapshot,
    WriteIntent,
};

/// Each hook sees everything stored before it asked, and a prefix of what each thread stores:
/// threads write ascending numbers to three extents in turn.
fn a_live_hook_sees_its_moment() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.allow_live_hooks(true).unwrap();
    let stop = AtomicBool::new(false);
    let done: [AtomicU64; 2] = Default::default();
    let place = |t: u64, n: u64| data_at(n % 3) + 4096 + t * 8;
    (0..3).for_each(|i| store(&area, data_at(i), 1));
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&stop);
        for t in 0..2u64 {
            let (area, stop, done) = (&area, &stop, &done);
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    store(area, place(t, n), n);
                    done[t as usize].store(n, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..200 {
            let before = done.each_ref().map(|d| d.load(Ordering::SeqCst));
            let snapshot = hook_now(&h, "a");
            for t in 0..2u64 {
                let mut seen: Vec<u64> = (1..4).map(|n| value_in(&snapshot, place(t, n))).collect();
                seen.sort_unstable();
                let newest = seen[2];
                assert!(newest >= before[t as usize], "{seen:?} {before:?}");
                let prefix = seen.windows(2).all(|w| w[0] + 1 == w[1] || w[0] == 0);
                assert!(prefix, "not a prefix of its stores: {seen:?}");
            }
        }
    });
}

fn refusing_and_allowing_again() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    assert!(matches!(h.ns.hook_live(&name("a")), Err(HookError::NotShared { .. })));
    assert!(matches!(h.ns.hook_live(&name("b")), Err(HookError::NotFound { .. })));
    area.allow_live_hooks(true).unwrap();
    area.allow_live_hooks(true).unwrap();
    store(&area, data_at(0), 1);
    assert_eq!(value_in(&hook_now(&h, "a"), data_at(0)), 1);
    area.allow_live_hooks(false).unwrap();
    assert!(matches!(h.ns.hook_live(&name("a")), Err(HookError::NotHookable { .. })));
    assert!(matches!(h.ns.hook(&name("a")), Err(HookError::NotHookable { .. })));
    store(&area, data_at(0), 2);
    area.allow_live_hooks(true).unwrap();
    store(&area, data_at(0), 3);
    assert_eq!(value_in(&hook_now(&h, "a"), data_at(0)), 3);
    drop(area);
    assert!(!h.dir.path().join("a/live").exists());
    // Its owner is gone: there is the last shared state for whoever wants that.
    let why = NotFresh::NobodyAnswers;
    assert!(
        matches!(h.ns.hook_live(&name("a")), Err(HookError::NotFresh { why: w, .. }) if w == why)
    );
    assert_eq!(value_in(&hook_last(&h, "a"), data_at(0)), 3);
}

fn over_the_threshold_hooks_are_refused_until_memory_comes_back() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.set_cow_threshold(Some(ByteLen(3 * DATA))).unwrap();
    area.allow_live_hooks(true).unwrap();
    let mut kept = Vec::new();
    let refused = (0..10u64).find(|round| {
        (0..2).for_each(|i| store(&area, data_at(i), *round));
        match h.ns.hook_live_with(&name("a"), patient()) {
            Ok(snapshot) => kept.push(snapshot),
            Err(HookError::NotHookable { .. }) => return true,
            Err(e) => panic!("{e}"),
        }
        false
    });
    assert!(refused.is_some_and(|r| r > 1), "{refused:?}");
    kept.clear();
    let deadline = Instant::now() + Duration::from_secs(60);
    while h.ns.hook_live(&name("a")).is_err() {
        assert!(Instant::now() < deadline);
        area.reclaim().unwrap();
    }
}

/// What an owner could not publish is no state of this moment, and is not said to be one.
fn an_owner_that_cannot_publish_says_so() {
    let h = home();
    let path = h.dir.path().to_owned();
    let [stored, ..] = shared_words() else { unreachable!() };
    let owner = Child::run(move || {
        let ns = Namespace::open(&path).unwrap();
        let area = ns.create(&name("a"), &options()).unwrap();
        area.allow_live_hooks(true).unwrap();
        // The file is long enough then for all versions that there will be.
        let mut hooked = Vec::new();
        for _ in 0..16 {
            store(&area, data_at(0), 1);
            hooked.push(ns.hook_live_with(&name("a"), patient()).unwrap());
        }
        drop(hooked);
        // What these were shown is free again, whenever the thread that answers comes to it.
        area.reclaim().unwrap();
        // From now on no manifest can be written, nor one be made ahead.
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: valid values; what the signal tells the failing call says, too.
        unsafe {
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
        for n in 2.. {
            store(&area, data_at(0), n);
            stored.store(n, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    wait_for_owner(&h, "a");
    while stored.load(Ordering::SeqCst) < 3 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut failed = 0;
    for _ in 0..50 {
        let before = stored.load(Ordering::SeqCst);
        match h.ns.hook_live_with(&name("a"), patient()) {
            Ok(fresh) => assert!(fresh.is_fresh() && value_in(&fresh, data_at(0)) >= before),
            Err(HookError::NotFresh { why: NotFresh::Failed, .. }) => failed += 1,
            Err(e) => panic!("{e}"),
        }
    }
    assert!(failed > 40, "{failed}");
    assert!(value_in(&hook_last(&h, "a"), data_at(0)) > 0);
    drop(owner);
}

/// A lock of the program keeps a structure whole in every snapshot.
fn a_guard_makes_moments_consistent() {
    let h = home();
    let area = Arc::new(h.ns.create(&name("a"), &options()).unwrap());
    let lock = Arc::new(std::sync::Mutex::new(()));
    let theirs = lock.clone();
    area.guard_live_hooks(Some(Arc::new(move |publish| {
        let _held = theirs.lock().unwrap();
        publish();
    })));
    area.allow_live_hooks(true).unwrap();
    let stores = |n| {
        let _held = lock.lock().unwrap();
        store(&area, data_at(0), n);
        store(&area, data_at(5), n);
    };
    while_storing(&stores, || {
        let mut last = 0;
        for _ in 0..200 {
            let snapshot = h.ns.hook_live_with(&name("a"), patient()).unwrap();
            if !snapshot.is_mapped(&range(data_at(5), 8)) {
                continue;
            }
            let seen = value_in(&snapshot, data_at(0));
            assert_eq!(seen, value_in(&snapshot, data_at(5)));
            assert!(seen >= last);
            last = seen;
        }
    });
}

/// What comes through the socket is hostile; honest hookers are served all the same.
fn hostile_clients_change_nothing() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.allow_live_hooks(true).unwrap();
    let socket = h.dir.path().join("a/live");
    let mut silent = Vec::new();
    for round in 0..60u64 {
        store(&area, data_at(0), round);
        let mut client = UnixStream::connect(&socket).unwrap();
        let bytes: Vec<u8> = (0..rng.usize(0..64)).map(|_| rng.u8(..)).collect();
        let _ = client.write_all(&bytes);
        match rng.u8(0..3) {
            0 => silent.push(client),
            1 => {
                client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                let got = client.read(&mut [0; 16]);
                assert!(!matches!(got, Ok(n) if n > 0), "answered {bytes:?}");
            }
            _ => drop(client),
        }
        let snapshot = hook_now(&h, "a");
        assert_eq!(value_in(&snapshot, data_at(0)), round, "seed {seed}");
    }
}

/// Runs `child` in a forked process, which is killed when the result is dropped.
struct Child(i32);

impl Child {
    fn run(child: impl FnOnce()) -> Self {
        // SAFETY: the child runs test code that needs no lock another thread of this test holds.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            child();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        Self(pid)
    }
    fn signal(&self, number: i32) {
        // SAFETY: the process was made by this test and not yet waited for.
        assert_eq!(unsafe { libc::kill(self.0, number) }, 0);
    }
    /// Stops all its threads. The signal alone lets them go on until one of them, which may wait
    /// for a processor, takes it.
    fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: waits for the child made above, which is not waited for elsewhere.
        let stopped = unsafe { libc::waitpid(self.0, &mut status, libc::WUNTRACED) };
        assert!(stopped == self.0 && libc::WIFSTOPPED(status), "{stopped} {status}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let mut status = 0;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(self.0, &mut status, 0) };
    }
}

/// Waits until another process answers live hooks of an area; when all has to be over.
fn wait_for_owner(h: &Home, area: &str) -> Instant {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !h.dir.path().join(area).join("live").exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    deadline
}

/// Words that forked processes share.
fn shared_words() -> &'static [AtomicU64] {
    const WORDS: usize = 8;
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of zeros, which stays as long as the process.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), WORDS * 8, access, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        std::slice::from_raw_parts(at.cast(), WORDS)
    }
}

/// Real other processes hook one area at random times, often the same: each sees what was stored
/// before it asked, whoever else was answered just before.
fn several_that_ring_at_once_each_get_a_fresh_state() {
    const HOOKERS: u64 = 3;
    const HOOKS: u64 = 200;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let h = home();
    let [stored, fresh, late, stale, ..] = shared_words() else { unreachable!() };
    let hookers: Vec<Child> = (0..HOOKERS)
        .map(|_| {
            let (path, mut rng) = (h.dir.path().to_owned(), rng.fork());
            Child::run(move || {
                let ns = Namespace::open(&path).unwrap();
                while stored.load(Ordering::SeqCst) == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                for _ in 0..HOOKS {
                    std::thread::sleep(Duration::from_micros(rng.u64(..2000)));
                    let before = stored.load(Ordering::SeqCst);
                    let kind = match ns.hook_live(&name("a")) {
                        Ok(hooked) if value_in(&hooked, data_at(0)) >= before => fresh,
                        Ok(_) => stale,
                        Err(HookError::NotFresh { why: NotFresh::Late, .. }) => late,
                        Err(e) => panic!("{e}"),
                    };
                    kind.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.allow_live_hooks(true).unwrap();
    let count = || [fresh, late, stale].map(|n| n.load(Ordering::SeqCst));
    let deadline = Instant::now() + Duration::from_secs(120);
    for n in 1.. {
        store(&area, data_at(0), n);
        stored.store(n, Ordering::SeqCst);
        if count().iter().sum::<u64>() == HOOKERS * HOOKS {
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", count());
        // The hookers need processors, too.
        (n % 64 == 0).then(std::thread::yield_now);
    }
    drop(hookers);
    let [fresh, late, stale] = count();
    assert!(stale == 0 && fresh > late, "{fresh} fresh, {late} late, {stale} stale");
}

/// A real other process: hooked while it stores, then stopped, then killed.
fn busy_and_dead_owners_leave_their_last_state() {
    let h = home();
    let path = h.dir.path().to_owned();
    let owner = Child::run(move || {
        let ns = Namespace::open(&path).unwrap();
        let area = ns.create(&name("a"), &options()).unwrap();
        area.allow_live_hooks(true).unwrap();
        for n in 1u64.. {
            store(&area, data_at(n % 5), n);
        }
    });
    let deadline = wait_for_owner(&h, "a");
    let newest = |s: &Snapshot| {
        let mapped = (0..5).filter(|i| s.is_mapped(&range(data_at(*i), 8)));
        mapped.map(|i| value_in(s, data_at(i))).max().unwrap_or(0)
    };
    let (mut last, mut hooks) = (0, 0);
    // On a busy machine its other thread answers all of these before it comes to its first store.
    while last == 0 || hooks < 50 {
        let now = newest(&h.ns.hook_live_with(&name("a"), patient()).unwrap());
        assert!(now >= last && Instant::now() < deadline, "{now} after {last}, {hooks} hooks");
        (last, hooks) = (now, hooks + 1);
    }
    owner.stop();
    let before = Instant::now();
    let options = HookOptions { patience: Duration::from_millis(50), ..Default::default() };
    // What it had answered when it stopped may still be read.
    let mut late = (0..20).map(|_| h.ns.hook_live_with(&name("a"), options));
    assert!(late.any(|l| matches!(l, Err(HookError::NotFresh { why: NotFresh::Late, .. }))));
    let stopped = hook_last(&h, "a");
    assert!(before.elapsed() < Duration::from_secs(10));
    assert_eq!(newest(&stopped), newest(&h.ns.hook(&name("a")).unwrap()));
    drop(owner);
    let dead = h.ns.hook_live(&name("a"));
    assert!(matches!(dead, Err(HookError::NotFresh { why: NotFresh::NobodyAnswers, .. })));
    assert!(newest(&hook_last(&h, "a")) >= last);
    // What it left is adopted, and hooked live again.
    let next = h.ns.open_area(&name("a")).unwrap();
    next.allow_live_hooks(true).unwrap();
    store(&next, data_at(0), u64::MAX);
    assert_eq!(newest(&hook_now(&h, "a")), u64::MAX);
}

/// A real other process, killed at any instruction of an answer: what it had given is what others
/// find, and what the next owner goes on with; never something older.
fn what_a_live_hook_gave_is_not_lost_with_its_owner() {
    let h = home();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let newest = |s: &Snapshot| {
        let mapped = (0..5).filter(|i| s.is_mapped(&range(data_at(*i), 8)));
        mapped.map(|i| value_in(s, data_at(i))).max().unwrap_or(0)
    };
    let mut last: Option<Snapshot> = None;
    let (mut hooks, mut stored) = (0, 0);
    for _ in 0..60 {
        let path = h.dir.path().to_owned();
        let first = stored + 1;
        let owner = Child::run(move || {
            let ns = Namespace::open(&path).unwrap();
            let area = ns.open_area(&name("a")).or_else(|_| ns.create(&name("a"), &options()));
            let area = area.unwrap();
            area.allow_live_hooks(true).unwrap();
            for n in first.. {
                store(&area, data_at(n % 5), n);
            }
        });
        let dead = AtomicBool::new(false);
        let pause = Duration::from_micros(rng.u64(1_000..8_000));
        let mut given = last.take();
        std::thread::scope(|scope| {
            let hooker = scope.spawn(|| {
                while !dead.load(Ordering::SeqCst) {
                    // Before the first owner has begun there is nothing.
                    let Ok(next) = h.ns.hook_live(&name("a")) else { continue };
                    if let Some(given) = &given {
                        let [(e0, n0), (e1, n1)] = [given, &next].map(|s| (s.epoch(), newest(s)));
                        assert!(e1 >= e0 && n1 >= n0, "{n0} at {e0:?}, then {n1} at {e1:?}");
                    }
                    (given, hooks) = (Some(next), hooks + 1);
                }
            });
            std::thread::sleep(pause);
            drop(owner);
            dead.store(true, Ordering::SeqCst);
            hooker.join().unwrap();
        });
        last = given;
        // An answer that the hooker did not live to get is the state that the next owner goes on
        // from, all the same.
        stored = h.ns.hook(&name("a")).map_or(stored, |found| newest(&found));
        let Some(given) = &last else { continue };
        let found = h.ns.hook(&name("a")).unwrap();
        assert!(found.epoch() >= given.epoch() && newest(&found) >= newest(given), "seed {seed}");
        if rng.bool() {
            let area = h.ns.open_area(&name("a")).unwrap();
            let hooked = h.ns.hook(&name("a")).unwrap();
            assert!(hooked.epoch() >= found.epoch() && newest(&hooked) >= newest(&found));
            drop(area);
        }
    }
    assert!(hooks > 5, "{hooks} hooks");
    drop(last);
    h.ns.remove(&name("a")).unwrap();
}

/// The addresses that a hooker reserves while it waits are its state's, or not in its way: also
/// where a state comes by its name, because it lies in several areas or the owner does not answer.
fn a_state_comes_to_the_addresses_of_its_owner() {
    let h = home();
    let path = h.dir.path().to_owned();
    let owner = Child::run(move || {
        let ns = Namespace::open(&path).unwrap();
        let first = ns.create(&name("a"), &options()).unwrap();
        first.allow_live_hooks(true).unwrap();
        store(&first, data_at(0), 1);
        store(&first, data_at(1), 1);
        let second =
            ns.hook_live_with(&name("a"), patient()).unwrap().derive(Some(&name("b"))).unwrap();
        second.allow_live_hooks(true).unwrap();
        for n in 1u64.. {
            store(&first, data_at(0), n);
            store(&second, data_at(0), n);
        }
    });
    wait_for_owner(&h, "b");
    let (at, if_stale) = (swing::HookAt::OriginAddress, IfStale::Accept);
    let options = HookOptions { at, if_stale, patience: Duration::from_millis(250) };
    let hook = |area| h.ns.hook_live_with(&name(area), options).unwrap();
    for round in 0..20 {
        for area in ["a", "b"] {
            let snapshot = hook(area);
            assert!(snapshot.is_at_origin(), "{area}, round {round}");
            assert_eq!(value_in(&snapshot, data_at(1)), 1);
        }
    }
    // It does not answer any more, and then is gone.
    owner.stop();
    assert!(hook("a").is_at_origin());
    drop(owner);
    assert!(hook("a").is_at_origin() && hook("b").is_at_origin());
}

/// A chain: hooked, written by plain stores, hooked from there.
fn hooked_areas_are_hooked_again() {
    let h = home();
    let first = h.ns.create(&name("n0"), &options()).unwrap();
    first.allow_live_hooks(true).unwrap();
    (0..4).for_each(|i| store(&first, data_at(i), 100));
    let mut areas = vec![first];
    for n in 1..5u64 {
        let snapshot = hook_now(&h, &format!("n{}", n - 1));
        let area = snapshot.derive(Some(&name(&format!("n{n}")))).unwrap();
        area.allow_live_hooks(true).unwrap();
        store(&area, data_at(n - 1), n);
        areas.push(area);
    }
    areas.iter().for_each(|a| store(a, data_at(7), 7));
    for (n, _) in areas.iter().enumerate() {
        let s = hook_now(&h, &format!("n{n}"));
        for i in 0..4u64 {
            let expected = if i < n as u64 { i + 1 } else { 100 };
            assert_eq!(value_in(&s, data_at(i)), expected, "area {n} extent {i}");
        }
    }
}

/// Stores take memory that hooks have just set free, at the same time: the owner goes on answering.
fn an_owner_that_stores_all_the_time_goes_on_answering() {
    const EXTENTS: u64 = 24;
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.allow_live_hooks(true).unwrap();
    (0..EXTENTS).for_each(|i| store(&area, data_at(i), 0));
    let stop = AtomicBool::new(false);
    let stored: Vec<AtomicU64> = (0..EXTENTS).map(|_| AtomicU64::new(0)).collect();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&stop);
        for from in [0, EXTENTS / 2] {
            let (area, stop, stored, mut rng) = (&area, &stop, &stored, rng.fork());
            scope.spawn(move || {
                for n in 1.. {
                    let i = from + rng.u64(..EXTENTS / 2);
                    store(area, data_at(i), n);
                    stored[i as usize].store(n, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_micros(rng.u64(..100)));
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut kept = Vec::new();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) {
            let i = rng.u64(..EXTENTS);
            let before = stored[i as usize].load(Ordering::SeqCst);
            let snapshot = hook_now(&h, "a");
            assert!(value_in(&snapshot, data_at(i)) >= before, "extent {i}");
            kept.push(snapshot);
            while kept.len() > rng.usize(..8) {
                kept.swap_remove(rng.usize(..kept.len()));
            }
        }
    });
}

/// What stores have left is protected before the next hook. Stores that come again in order open it
/// some extents at a time, and each hook still sees its moment.
fn what_was_protected_early_is_opened_in_steps() {
    if is_off("early-protection") {
        return;
    }
    const EXTENTS: u64 = 24;
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    area.allow_live_hooks(true).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut opened = false;
    for round in 1.. {
        (0..EXTENTS).for_each(|i| store(&area, data_at(i), round));
        let all_protected = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            (0..EXTENTS).all(|i| !is_writable(&area, data_at(i)))
        });
        assert!(Instant::now() < deadline, "not protected early, or each extent opened by itself");
        if !all_protected {
            // One that was stored to right after it had been protected stays open until a hook.
            drop(hook_now(&h, "a"));
            continue;
        }
        for i in 0..EXTENTS {
            store(&area, data_at(i) + 8, round);
            let behind = data_at(i + 1);
            opened |= i < EXTENTS - 1 && is_writable(&area, behind);
        }
        let snapshot = hook_now(&h, "a");
        (0..EXTENTS).for_each(|i| store(&area, data_at(i) + 8, u64::MAX));
        for i in 0..EXTENTS {
            assert_eq!(value_in(&snapshot, data_at(i)), round);
            assert_eq!(value_in(&snapshot, data_at(i) + 8), round, "INV-AREA-1: extent {i}");
        }
        if opened && round > 2 {
            return;
        }
    }
}

/// Memory that was made ready and never touched looks like a hole in the file.
fn what_a_killed_owner_never_touched_is_given_back() {
    const READY: u64 = 64;
    let h = home();
    let (path, flag) = (h.dir.path().to_owned(), h.dir.path().join("ready"));
    let ready = flag.clone();
    let owner = Child::run(move || {
        let ns = Namespace::open(&path).unwrap().with_backing(backing());
        let area = ns.create(&name("a"), &options()).unwrap();
        area.track().unwrap();
        store(&area, data_at(0), 1);
        area.publish(Publish::Shared, b"").unwrap();
        area.make_writable(range(0, READY * SMALL), WriteIntent::Keep).unwrap();
        (0..READY).for_each(|i| store(&area, i * SMALL, 1));
        std::fs::write(ready, "").unwrap();
        std::thread::sleep(Duration::from_secs(60));
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    while !flag.exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    let snapshot = h.ns.hook(&name("a")).unwrap();
    drop(owner);
    assert!(h.ns.gc().unwrap().freed.get() >= READY * SMALL);
    assert_eq!(value_in(&snapshot, data_at(0)), 1);
}

/// The sockets that a process has open.
fn sockets(pid: i32) -> Vec<String> {
    let numbers = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|e| e.unwrap());
    let targets = numbers.filter_map(|e| std::fs::read_link(e.path()).ok());
    let targets = targets.map(|to| to.to_string_lossy().into_owned());
    targets.filter(|to| to.starts_with("socket:")).collect()
}

/// What a child holds open of its parent's would look like an owner that does not answer.
fn a_forked_child_has_no_connection_of_its_parent() {
    let h = home();
    let (path, flag) = (h.dir.path().to_owned(), h.dir.path().join("forked"));
    let forked = flag.clone();
    let owner = Child::run(move || {
        let ns = Namespace::open(&path).unwrap();
        // It has a copy of each descriptor of this test's process.
        std::fs::write(
            forked.with_extension("inherited"),
            sockets(std::process::id() as i32).join("\n"),
        )
        .unwrap();
        let area = ns.create(&name("a"), &options()).unwrap();
        area.track().unwrap();
        store(&area, data_at(0), 1);
        area.allow_live_hooks(true).unwrap();
        while !forked.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: the child writes a file, and waits.
        if unsafe { libc::fork() } == 0 {
            let pid = std::process::id().to_string();
            std::fs::write(forked.with_extension("pid"), pid).unwrap();
            std::fs::rename(forked.with_extension("pid"), forked.with_extension("is")).unwrap();
        }
        std::thread::sleep(Duration::from_secs(60));
    });
    wait_for_owner(&h, "a");
    let connections: Vec<_> = (0..3).map(|_| hook_now(&h, "a")).collect();
    let inherited = std::fs::read_to_string(flag.with_extension("inherited")).unwrap();
    let own = |pid| sockets(pid).into_iter().filter(|s| !inherited.contains(s)).count();
    assert!(own(owner.0) >= 2, "it listens, and has a connection");
    std::fs::write(&flag, "").unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let pid = loop {
        assert!(Instant::now() < deadline);
        if let Ok(text) = std::fs::read_to_string(flag.with_extension("is")) {
            break text.parse().unwrap();
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let child = Child(pid);
    assert_eq!(own(child.0), 0);
    drop((owner, connections));
    assert_eq!(value_in(&hook_last(&h, "a"), data_at(0)), 1);
}

/// So much is private at once that its page tables are taken away to protect it: still one moment,
/// and a system call that reads the memory meanwhile never finds it missing.
fn a_moment_of_much_memory() {
    const EXTENTS: u64 = 32;
    let h = home();
    let area = h.ns.create(&name("a"), &AreaOptions::with_reserve(ByteLen::mib(256))).unwrap();
    area.allow_live_hooks(true).unwrap();
    (0..EXTENTS).for_each(|i| store(&area, data_at(i), 0));
    let stop = AtomicBool::new(false);
    let sweeps = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let n = sweeps.load(Ordering::Relaxed) + 1;
                (0..EXTENTS).for_each(|i| store(&area, data_at(i), n));
                sweeps.store(n, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            let mut file = tempfile::tempfile().unwrap();
            for i in (0..EXTENTS).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                let at = area.base().as_ptr().wrapping_add(data_at(i) as usize + 4096);
                // SAFETY: memory of the area that nobody stores to.
                let bytes = unsafe { std::slice::from_raw_parts(at, 64 << 10) };
                file.write_all(bytes).unwrap();
                file.rewind().unwrap();
            }
        });
        for _ in 0..12 {
            let before = sweeps.load(Ordering::SeqCst);
            let snapshot = hook_now(&h, "a");
            let seen: Vec<u64> = (0..EXTENTS).map(|i| value_in(&snapshot, data_at(i))).collect();
            assert!(seen[0] >= before, "{before} {seen:?}");
            assert!(seen.windows(2).all(|w| w[0] >= w[1]), "not one moment: {seen:?}");
            assert!(seen[0] - seen[seen.len() - 1] <= 1, "not one moment: {seen:?}");
            // All of it is private again.
            let deadline = Instant::now() + Duration::from_secs(60);
            while sweeps.load(Ordering::SeqCst) < seen[0] + 2 {
                assert!(Instant::now() < deadline);
                std::thread::yield_now();
            }
        }
    });
}

over_both_back_ends! {
    an_owner_that_stores_all_the_time_goes_on_answering,
    what_was_protected_early_is_opened_in_steps,
    a_forked_child_has_no_connection_of_its_parent,
    what_a_killed_owner_never_touched_is_given_back,
    a_moment_of_much_memory,
    a_live_hook_sees_its_moment,
    refusing_and_allowing_again,
    an_owner_that_cannot_publish_says_so,
    over_the_threshold_hooks_are_refused_until_memory_comes_back,
    a_guard_makes_moments_consistent,
    hostile_clients_change_nothing,
    several_that_ring_at_once_each_get_a_fresh_state,
    busy_and_dead_owners_leave_their_last_state,
    what_a_live_hook_gave_is_not_lost_with_its_owner,
    a_state_comes_to_the_addresses_of_its_owner,
    hooked_areas_are_hooked_again,
}
