//! Plain stores into tracked areas: copy-on-write without a call (INV-AREA-12).

#[macro_use]
mod common;

use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use swing::{Area, AreaOptions, ByteLen, HookAt, HookError, HookOptions, Publish, WriteIntent};

/// A plain store, without any barrier call.
fn tracked(h: &Home, text: &str) -> Area {
    let area = h.ns.create(&name(text), &options()).unwrap();
    area.track().unwrap();
    area.track().unwrap();
    assert!(area.is_tracked());
    area
}

fn first_touch_is_zero_and_stores_stay_private() {
    let h = home();
    let area = tracked(&h, "a");
    for at in [0, SMALL + 8, data_at(0), data_at(7) + 4096] {
        assert_eq!(load(&area, at), 0);
        store(&area, at, 1);
    }
    area.publish(Publish::Shared, b"").unwrap();
    let first = h.ns.hook(&name("a")).unwrap();
    for at in [0, SMALL + 8, data_at(0), data_at(7) + 4096] {
        store(&area, at, 2);
        assert_eq!(read_snapshot(&first, at, 8), 1u64.to_ne_bytes());
        assert_eq!(load(&area, at), 2);
    }
    // Copies only what is stored to.
    assert_eq!(area.stats().copied.get(), 2 * SMALL + 2 * DATA);
    area.publish(Publish::Shared, b"").unwrap();
    let second = h.ns.hook(&name("a")).unwrap();
    drop(area);
    assert_eq!(read_snapshot(&first, data_at(0), 8), 1u64.to_ne_bytes());
    assert_eq!(read_snapshot(&second, data_at(0), 8), 2u64.to_ne_bytes());
    let again = h.ns.open_area(&name("a")).unwrap();
    again.track().unwrap();
    store(&again, data_at(0), 3);
    assert_eq!((load(&again, data_at(0)), load(&again, 0)), (3, 2));
}

/// As memory of the program's own: by loads, and by system calls.
fn what_nobody_has_stored_to_reads_as_zeros_and_takes_no_memory() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    let kept = data_at(2);
    area.make_writable(range(kept, 8), WriteIntent::Keep).unwrap();
    area.track().unwrap();
    store(&area, kept, 7);
    let before = area.stats().populated;
    let zeros = |at: u64, len: u64| read(&area, at, len).iter().all(|byte| *byte == 0);
    let all_but_kept = || {
        assert!(zeros(0, kept) && zeros(kept + 8, data_at(9) - kept - 8));
        assert_eq!(load(&area, kept), 7);
    };
    all_but_kept();
    let (from, to) = std::io::pipe().unwrap();
    // SAFETY: the bytes are inside the area.
    let sent = unsafe { libc::write(to.as_raw_fd(), area.base().as_ptr().cast(), 4096) };
    assert_eq!(sent, 4096, "{}", std::io::Error::last_os_error());
    let mut got = [1u8; 4096];
    (&from).read_exact(&mut got).unwrap();
    assert_eq!(got, [0; 4096]);
    assert_eq!(area.stats().populated, before);

    // What was read can be stored to, and what is discarded reads as zeros again.
    store(&area, data_at(5), 5);
    area.publish(Publish::Shared, b"").unwrap();
    store(&area, data_at(5) + 8, 6);
    assert_eq!((load(&area, data_at(5)), load(&area, data_at(5) + 8)), (5, 6));
    area.discard(range(data_at(5), DATA)).unwrap();
    all_but_kept();
    store(&area, data_at(5), 8);
    let snapshot = h.ns.hook(&name("a")).unwrap();
    assert_eq!(read_snapshot(&snapshot, data_at(5), 8), 5u64.to_ne_bytes());
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    assert_eq!(read_snapshot(&snapshot, data_at(5), 8), 8u64.to_ne_bytes());
    assert_eq!(read_snapshot(&snapshot, kept, 8), 7u64.to_ne_bytes());
}

/// What C's memset and memcpy and vectorised loops do: stores of any width, over extents' borders.
fn bulk_stores_cross_extents() {
    let h = home();
    let area = tracked(&h, "a");
    let (start, len) = (data_at(0) - 3 * SMALL + 5, (3 * DATA + 777) as usize);
    for round in 1..4u8 {
        // SAFETY: inside the area.
        let target = unsafe { area.base().as_ptr().add(start as usize) };
        let source: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(round)).collect();
        // SAFETY: as above; the source is as long.
        unsafe {
            match round {
                1 => libc::memcpy(target.cast(), source.as_ptr().cast(), len),
                2 => libc::memmove(target.cast(), source.as_ptr().cast(), len),
                _ => {
                    libc::memset(target.cast(), 0, len);
                    let words = std::slice::from_raw_parts_mut(target, len);
                    // A loop the compiler turns into vector stores, as NumPy's.
                    words.iter_mut().zip(&source).for_each(|(w, s)| *w = w.wrapping_add(*s));
                    std::ptr::null_mut()
                }
            };
        }
        assert!(read(&area, start, len as u64) == source);
        area.publish(Publish::Shared, b"").unwrap();
        let snapshot = h.ns.hook(&name("a")).unwrap();
        // SAFETY: inside the area.
        unsafe { libc::memset(target.cast(), 0xee, len) };
        assert!(read_snapshot(&snapshot, start, len as u64) == source);
    }
}

/// Exactly one thread copies; no store of any is lost.
fn threads_race_for_one_extent() {
    const THREADS: u64 = 8;
    let h = home();
    let area = tracked(&h, "a");
    for round in 1..30u64 {
        let before = area.stats();
        let start = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for t in 0..THREADS {
                let (area, start) = (&area, &start);
                scope.spawn(move || {
                    start.wait();
                    for extent in 0..3 {
                        store(area, data_at(extent) + t * 8, round * 100 + t);
                        store(area, extent * SMALL + t * 8, round * 100 + t);
                    }
                });
            }
        });
        for (extent, t) in (0..3).flat_map(|e| (0..THREADS).map(move |t| (e, t))) {
            assert_eq!(load(&area, data_at(extent) + t * 8), round * 100 + t);
            assert_eq!(load(&area, extent * SMALL + t * 8), round * 100 + t);
        }
        let after = area.stats();
        if round > 1 {
            assert_eq!(after.copied.get() - before.copied.get(), 3 * (DATA + SMALL), "{after:?}");
        }
        area.publish(Publish::Shared, b"").unwrap();
    }
}

/// Each publish is one moment: threads write ascending numbers to many extents in turn; the state
/// they see of any thread is a prefix of its stores, and if B copied what it saw of A, then A's
/// store is there.
fn a_publish_is_one_moment() {
    const SLOTS: u64 = 12;
    let h = home();
    let area = tracked(&h, "a");
    let stop = AtomicBool::new(false);
    let progress = AtomicU64::new(0);
    let at = |thread: u64, slot: u64| {
        let byte = thread * 8;
        if slot.is_multiple_of(2) { data_at(slot / 2) + byte } else { slot / 2 * SMALL + byte }
    };
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&stop);
        for thread in 0..2u64 {
            let (area, stop, progress) = (&area, &stop, &progress);
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    store(area, at(thread, n % SLOTS), n);
                    progress.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Copies what it sees of thread 0: never more than thread 0 has stored.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let seen = (0..SLOTS).map(|s| load(&area, at(0, s))).max().unwrap_or(0);
                store(&area, at(3, 0), seen);
            }
        });
        for _ in 0..150 {
            let before = progress.load(Ordering::Relaxed);
            area.publish(Publish::Shared, b"").unwrap();
            let snapshot = h.ns.hook(&name("a")).unwrap();
            let get = |at: u64| {
                let whole = snapshot.is_mapped(&range(at, 8));
                if !whole {
                    return 0;
                }
                value_in(&snapshot, at)
            };
            let mut newest = [0; 2];
            for thread in 0..2 {
                let all: Vec<u64> = (0..SLOTS).map(|s| get(at(thread, s))).collect();
                let max = all.iter().copied().max().unwrap();
                newest[thread as usize] = max;
                for (slot, seen) in all.iter().enumerate() {
                    // The last number up to `max` that this slot was given.
                    let expected = (max.saturating_sub(SLOTS - 1)..=max)
                        .rev()
                        .find(|n| *n > 0 && n % SLOTS == slot as u64)
                        .unwrap_or(0);
                    assert_eq!(*seen, expected, "thread {thread} slot {slot} of {all:?}");
                }
            }
            assert!(get(at(3, 0)) <= newest[0]);
            assert!(newest[0] + newest[1] + 2 >= before.min(1));
        }
    });
}

fn holding_stops_everybody_but_the_holder() {
    let h = home();
    let area = tracked(&h, "a");
    store(&area, data_at(0), 1);
    store(&area, data_at(1), 1);
    let stores = |n| {
        store(&area, data_at(0), n);
        store(&area, data_at(1), n);
    };
    while_storing(&stores, || {
        for round in 0..100 {
            let guard = area.hold_stores().unwrap();
            let seen = load(&area, data_at(0));
            std::thread::yield_now();
            // The holder's own store.
            store(&area, data_at(2), round);
            area.publish(Publish::Shared, b"").unwrap();
            let snapshot = h.ns.hook(&name("a")).unwrap();
            assert_eq!(load(&area, data_at(0)), seen);
            assert_eq!(read_snapshot(&snapshot, data_at(0), 8), seen.to_ne_bytes());
            assert_eq!(read_snapshot(&snapshot, data_at(2), 8), round.to_ne_bytes());
            // Into the very extent that another thread waits for: it opens that to everybody.
            store(&area, data_at(0) + 64, round);
            drop(guard);
            assert_eq!(load(&area, data_at(0) + 64), round);
        }
    });
}

/// Two areas held at once: both publishes show one moment, also for a thread that stores to one and
/// then to the other.
fn a_hold_covers_several_areas() {
    let h = home();
    let areas = [tracked(&h, "a"), tracked(&h, "b")];
    areas.iter().for_each(|area| store(area, data_at(0), 0));
    let stores = |n| {
        areas.iter().for_each(|area| store(area, data_at(0), n));
    };
    while_storing(&stores, || {
        let mut last = 0;
        for _ in 0..60 {
            let holds = areas.each_ref().map(|area| area.hold_stores().unwrap());
            // Nothing moves while it is held, and nothing between the two publishes.
            let seen = areas.each_ref().map(|area| load(area, data_at(0)));
            for area in &areas {
                area.publish(Publish::Shared, b"").unwrap();
            }
            drop(holds);
            let shown = ["a", "b"].map(|text| {
                let snapshot = h.ns.hook(&name(text)).unwrap();
                value_in(&snapshot, data_at(0))
            });
            assert_eq!(shown, seen);
            assert!(seen[0] == seen[1] || seen[0] == seen[1] + 1, "{seen:?}");
            assert!(seen[0] >= last);
            last = seen[0];
        }
    });
}

/// Stores far apart: the first extents are protected long before the last when a publish comes, and
/// who faults there meanwhile waits for it.
fn stores_go_on_while_many_places_are_protected() {
    const PLACES: u64 = 16;
    let h = home();
    let area = tracked(&h, "a");
    let at = |i: u64| data_at(i * 2);
    // Between two places lies an extent without memory: each is protected by itself.
    (0..PLACES).for_each(|i| store(&area, at(i), 1));
    let stop = AtomicBool::new(false);
    let stores = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _end = AtTheEnd(&stop);
        for thread in 0..2u64 {
            let (area, stop, stores) = (&area, &stop, &stores);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    (0..3).for_each(|i| store(area, at(i) + 8 + thread * 8, 1));
                    stores.fetch_add(3, Ordering::Relaxed);
                }
            });
        }
        for round in 0..40 {
            (3..PLACES).for_each(|i| store(&area, at(i), round));
            area.publish(Publish::Shared, b"").unwrap();
        }
    });
    assert!(stores.load(Ordering::Relaxed) > 0);
}

/// Memory after `k` random stores is that of `k` extents more at most, whatever their size; also
/// with live hooks, and also what the file system has really given.
fn k_stores_take_at_most_k_extents() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for extent in [ByteLen::kib(64), ByteLen::kib(256), ByteLen::mib(2)] {
        let h = home();
        let small_zone = ByteLen::mib(2);
        let base = AreaOptions::with_reserve(ByteLen::mib(256));
        let area = h.ns.create(&name("a"), &AreaOptions { small_zone, extent, ..base }).unwrap();
        area.allow_live_hooks(true).unwrap();
        let (start, extents) = (area.geometry().small_zone().get(), 24);
        (0..extents).for_each(|i| store(&area, start + i * extent.get(), i));
        let held = |area: &Area| {
            let stats = area.stats();
            let counted = stats.own.get() + stats.retired.get() + stats.spare.get();
            let file = std::fs::metadata(h.dir.path().join("a/memory"));
            let given = file.map_or(0, |m| std::os::unix::fs::MetadataExt::blocks(&m) * 512);
            assert!(given <= counted, "{given} bytes for {stats:?}");
            counted
        };
        let mut snapshots = Vec::new();
        for live in [false, true, true] {
            match live {
                true => snapshots.push(hook_now(&h, "a")),
                false => {
                    area.publish(Publish::Shared, b"").unwrap();
                    snapshots.push(h.ns.hook(&name("a")).unwrap());
                }
            }
            let before = held(&area);
            let k = rng.u64(1..=extents);
            for _ in 0..k {
                let word = rng.u64(..extents * extent.get() / 8);
                store(&area, start + word * 8, word);
            }
            let more = held(&area) - before;
            assert!(more <= k * extent.get(), "{more} bytes more after {k} stores, {extent:?}");
            assert!(more >= extent.get());
        }
    }
}

/// Without a publish in between, a hold costs no copies: what it protected is written in place.
fn what_nobody_shows_is_written_in_place() {
    let h = home();
    let area = tracked(&h, "a");
    store(&area, data_at(0), 1);
    drop(area.hold_stores().unwrap());
    store(&area, data_at(0), 2);
    let stats = area.stats();
    assert_eq!((stats.copied.get(), stats.in_place.get()), (0, DATA), "{stats:?}");
    // Decided in place, then published after all: from there on it must be copied.
    drop(area.hold_stores().unwrap());
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    store(&area, data_at(0), 3);
    assert_eq!(read_snapshot(&snapshot, data_at(0), 8), 2u64.to_ne_bytes());
    // A view that is gone: in place again.
    drop(area.freeze_view().unwrap());
    area.reclaim().unwrap();
    let before = area.stats();
    store(&area, data_at(0), 4);
    assert_eq!(area.stats().copied, before.copied);
}

/// Barrier calls, discards, reclaiming and plain stores of several threads beside each other,
/// against a model.
fn agrees_with_a_model() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let h = home();
    let area = tracked(&h, "a");
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (h, area) = (&h, &area);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed ^ thread);
                let mut own = [0u64; 24];
                let at = |i: usize| {
                    let i = i as u64;
                    if i < 12 { data_at(i / 2) + thread * 8 } else { (i - 12) * SMALL + thread * 8 }
                };
                // An extent of its own that it also discards.
                let alone = data_at(20 + thread);
                let mut kept = Vec::new();
                for n in 1..600u64 {
                    match rng.u8(0..12) {
                        0 => {
                            area.publish(Publish::Shared, b"").unwrap();
                        }
                        1 => kept.push((h.ns.hook(&name("a")), own)),
                        2 => kept.clear(),
                        3 => drop(area.reclaim().unwrap()),
                        4 => {
                            area.discard(range(alone, DATA)).unwrap();
                            assert_eq!(load(area, alone + 80), 0);
                            store(area, alone + 80, n);
                        }
                        5 => drop(area.hold_stores().unwrap()),
                        6 => area.make_writable(range(at(3), 8), WriteIntent::Keep).unwrap(),
                        _ => {
                            let i = rng.usize(..own.len());
                            let i = if i < 12 { i & !1 } else { i };
                            store(area, at(i), n);
                            own[i] = n;
                        }
                    }
                    let i = rng.usize(..own.len());
                    let i = if i < 12 { i & !1 } else { i };
                    assert_eq!(load(area, at(i)), own[i], "seed {seed} thread {thread}");
                    if let Some((Ok(snapshot), then)) = kept.last() {
                        // Hooked after `then`: whatever it shows is at most what is there now.
                        if snapshot.is_mapped(&range(at(i), 8)) {
                            let bytes = read_snapshot(snapshot, at(i), 8).try_into().unwrap();
                            assert!(u64::from_ne_bytes(bytes) <= own[i].max(then[i]));
                        }
                    }
                }
            });
        }
    });
    area.publish(Publish::Shared, b"").unwrap();
    area.reclaim().unwrap();
    assert_eq!(area.stats().retired.get(), 0);
}

/// A system call would fail where a store is trapped: what was made ready for one stays open, also
/// when it had been frozen before, until the next hook.
fn what_was_prepared_is_not_protected_early() {
    if is_off("early-protection") {
        return;
    }
    const EXTENTS: u64 = 24;
    let h = home();
    // Of small extents what was stored to is written down, and protected, after two.
    let small = AreaOptions { extent: ByteLen::kib(64), ..options() };
    let area = h.ns.create(&name("a"), &small).unwrap();
    area.allow_live_hooks(true).unwrap();
    let place = |i: u64| ByteLen::mib(32).0 + i * ByteLen::kib(64).0;
    let prepared = |i: u64| i.is_multiple_of(5);
    for round in 1..=3 {
        for at in (0..EXTENTS).map(place) {
            store(&area, at, round);
        }
        drop(hook_now(&h, "a"));
        for i in 0..EXTENTS {
            let at = area.base().as_ptr().wrapping_add(place(i) as usize);
            match prepared(i) {
                true => assert!(swing::tracked::prepare(at, 8)),
                false => store(&area, place(i), round),
            }
        }
        let begin = Instant::now();
        let open = |i: &u64| is_writable(&area, place(*i));
        // One that is stored to at this moment stays open as well.
        while (0..EXTENTS).filter(|i| !prepared(*i)).filter(open).count() > EXTENTS as usize / 4 {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing is protected early");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!((0..EXTENTS).filter(|i| prepared(*i)).all(|i| open(&i)), "round {round}");
    }
}

/// A system call does not fault but fails; `prepare` is the way.
fn system_calls_need_prepared_buffers() {
    let h = home();
    let area = tracked(&h, "a");
    store(&area, data_at(0), 1);
    area.publish(Publish::Shared, b"").unwrap();
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: inside the area.
    let buffer = unsafe { area.base().as_ptr().add(data_at(0) as usize) };
    // SAFETY: valid descriptors; the buffers are as long as said.
    unsafe {
        assert_eq!(libc::write(ends[1], b"12345678".as_ptr().cast(), 8), 8);
        assert_eq!(libc::read(ends[0], buffer.cast(), 8), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
        assert!(swing::tracked::prepare(buffer, 8) && swing::tracked::prepare([0u8].as_ptr(), 1));
        assert_eq!(libc::read(ends[0], buffer.cast(), 8), 8);
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
    assert_eq!(read(&area, data_at(0), 8), b"12345678");
}

fn pointers_stay_valid_at_the_origins_address() {
    let h = home();
    let area = tracked(&h, "a");
    let target = area.base().as_ptr() as u64 + data_at(1);
    store(&area, data_at(0), target);
    store(&area, data_at(1), 77);
    area.publish(Publish::Shared, b"").unwrap();
    // The owner itself has the addresses.
    let strict = HookOptions { at: HookAt::OriginAddress, ..HookOptions::default() };
    let refused = h.ns.hook_with(&name("a"), strict);
    let base = area.base().as_ptr() as usize;
    assert!(matches!(refused, Err(HookError::AddressTaken { address, .. }) if address == base));
    let elsewhere = h.ns.hook(&name("a")).unwrap();
    assert!(!elsewhere.is_at_origin() && elsewhere.derive_at_origin(None).is_err());
    drop(area);
    let snapshot = h.ns.hook_with(&name("a"), strict).unwrap();
    assert!(snapshot.is_at_origin());
    let derived = snapshot.derive_at_origin(Some(&name("b"))).unwrap();
    derived.track().unwrap();
    let pointer = load(&derived, data_at(0)) as *mut u64;
    // SAFETY: it points into the area at the address it had.
    unsafe {
        assert_eq!(pointer.read(), 77);
        pointer.write(78);
    }
    assert_eq!(load(&derived, data_at(1)), 78);
    assert_eq!(read_snapshot(&elsewhere, data_at(1), 8), 77u64.to_ne_bytes());
    assert!(snapshot.derive_at_origin(None).is_err(), "the addresses are the first one's");
    assert!(snapshot.derive_at_origin(Some(&name("c"))).is_err());
    let folders = std::fs::read_dir(h.ns.path()).unwrap().count();
    assert_eq!(folders, 2, "what failed leaves nothing");
}

/// The keeper, which has something to do all the time, does not hold what is closed.
fn addresses_are_free_when_an_area_is_closed() {
    let h = home();
    let others: Vec<Area> = (0..8).map(|i| tracked(&h, &format!("other {i}"))).collect();
    let stores = |n: u64| {
        others.iter().for_each(|area| store(area, n % 64 * SMALL, n));
        others[n as usize % 8].publish(Publish::Committed, b"").unwrap();
    };
    while_storing(&stores, || {
        for round in 0..100 {
            let area = tracked(&h, "a");
            (0..8).for_each(|i| store(&area, i * SMALL, round));
            area.publish(Publish::Shared, b"").unwrap();
            store(&area, 0, round + 1);
            let base = area.base();
            drop(area);
            let strict = HookOptions { at: HookAt::OriginAddress, ..HookOptions::default() };
            let snapshot = h.ns.hook_with(&name("a"), strict).unwrap();
            assert_eq!((snapshot.base(), value_in(&snapshot, 0)), (base, round));
            drop(snapshot);
            h.ns.remove(&name("a")).unwrap();
        }
    });
}

fn many_areas_come_and_go() {
    let h = home();
    for round in 0..40 {
        let options = AreaOptions::with_reserve(ByteLen::mib(64));
        let areas: Vec<Area> = (0..5)
            .map(|_| {
                let area = h.ns.create_unnamed(&options).unwrap();
                area.track().unwrap();
                store(&area, DATA, round);
                area
            })
            .collect();
        assert!(areas.iter().all(|a| load(a, DATA) == round));
    }
    assert_eq!(std::fs::read_dir(h.dir.path()).unwrap().count(), 0);
}

over_both_back_ends! {
    first_touch_is_zero_and_stores_stay_private,
    what_nobody_has_stored_to_reads_as_zeros_and_takes_no_memory,
    bulk_stores_cross_extents,
    threads_race_for_one_extent,
    a_publish_is_one_moment,
    holding_stops_everybody_but_the_holder,
    a_hold_covers_several_areas,
    stores_go_on_while_many_places_are_protected,
    k_stores_take_at_most_k_extents,
    what_nobody_shows_is_written_in_place,
    agrees_with_a_model,
    system_calls_need_prepared_buffers,
    what_was_prepared_is_not_protected_early,
    pointers_stay_valid_at_the_origins_address,
    addresses_are_free_when_an_area_is_closed,
    many_areas_come_and_go,
}
