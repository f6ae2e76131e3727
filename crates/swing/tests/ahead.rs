//! Extents copied before they are stored to: in memory held for them, and seen by nobody who should
//! not see them (INV-AREA-1, INV-AREA-17).

#[macro_use]
mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use fastrand::Rng;
use swing::{Area, AreaOptions, AreaStats, ByteLen, Snapshot};

const EXTENTS: u64 = 12;

fn owner(h: &Home, text: &str) -> Area {
    owner_with(h, text, DATA)
}

/// With extents of so many bytes.
fn owner_with(h: &Home, text: &str, extent: u64) -> Area {
    let options = AreaOptions { extent: ByteLen(extent), ..options() };
    let area = h.ns.create(&name(text), &options).unwrap();
    area.allow_live_hooks(true).unwrap();
    area.copy_ahead(true);
    area
}

fn held(stats: &AreaStats) -> u64 {
    stats.own.get() + stats.retired.get() + stats.spare.get()
}

/// The figures after `copied` has come to `copied` bytes, which another thread sees to.
fn when_copied(area: &Area, copied: u64) -> AreaStats {
    let begin = Instant::now();
    loop {
        let stats = area.stats();
        if stats.copied.get() >= copied {
            return stats;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "not {copied} copied: {stats:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Rounds of stores to the same extents, each seen by a hook that ends soon.
fn settle(h: &Home, area: &Area, text: &str) {
    for round in 0..4 {
        (0..EXTENTS).for_each(|i| store(area, data_at(i), round));
        let before = area.stats().copied.get();
        let snapshot = hook_now(h, text);
        assert!((0..EXTENTS).all(|i| value_in(&snapshot, data_at(i)) == round));
        // What is copied ahead is in place before the next round: stores that come first make their
        // own copies.
        if round >= 2 {
            when_copied(area, before + EXTENTS * DATA);
        }
    }
}

fn what_is_stored_to_again_and_again_is_there_before_the_store() {
    if is_off("copy-ahead") {
        return;
    }
    let h = home();
    let area = owner(&h, "a");
    settle(&h, &area, "a");
    let before = area.stats();
    let seen = hook_now(&h, "a");
    assert_eq!(area.stats().copied, before.copied, "nothing stored since: nothing to copy");
    (0..EXTENTS).for_each(|i| store(&area, data_at(i), 100 + i));
    drop(seen);
    let before = area.stats();
    let seen = hook_now(&h, "a");
    (0..EXTENTS).for_each(|i| store(&area, data_at(i), 200 + i));
    assert!(held(&area.stats()) <= held(&before) + EXTENTS * DATA);
    assert!((0..EXTENTS).all(|i| value_in(&seen, data_at(i)) == 100 + i), "INV-AREA-1");
}

/// The copies cost no memory, and the stores no copies.
fn copies_made_ahead_take_memory_that_was_held() {
    if is_off("copy-ahead") {
        return;
    }
    let h = home();
    let area = owner(&h, "a");
    for round in 0..6 {
        (0..EXTENTS).for_each(|i| store(&area, data_at(i), round));
        let before = area.stats();
        drop(hook_now(&h, "a"));
        if round < 2 {
            continue;
        }
        let after = when_copied(&area, before.copied.get() + EXTENTS * DATA);
        assert_eq!(after.copied.get() - before.copied.get(), EXTENTS * DATA, "{after:?}");
        assert!(held(&after) <= held(&before), "{before:?} {after:?}");
        (0..EXTENTS).for_each(|i| store(&area, data_at(i) + 8, round));
        let stored = area.stats();
        assert_eq!(stored.copied, after.copied);
        // Behind stores in order, what comes next is opened, too.
        assert!(stored.in_place.get() - after.in_place.get() >= EXTENTS * DATA);
    }
}

/// What is no longer stored to is copied ahead once more at most.
fn stores_that_have_moved_on_are_not_followed() {
    if is_off("copy-ahead") {
        return;
    }
    let h = home();
    let area = owner(&h, "a");
    settle(&h, &area, "a");
    for _ in 0..2 {
        drop(hook_now(&h, "a"));
    }
    let still = area.stats().copied;
    for _ in 0..5 {
        let snapshot = h.ns.hook_live_with(&name("a"), patient()).unwrap();
        assert!((0..EXTENTS).all(|i| value_in(&snapshot, data_at(i)) == 3));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(area.stats().copied, still);
    area.copy_ahead(false);
    settle_without(&h, &area);
}

/// Turned off, each store after a hook makes its own copy.
fn settle_without(h: &Home, area: &Area) {
    for round in 0..4 {
        let copied = area.stats().copied.get();
        (0..EXTENTS).for_each(|i| store(area, data_at(i), round));
        assert!(area.stats().copied.get() <= copied + EXTENTS * DATA);
        let copied = area.stats().copied;
        drop(h.ns.hook_live_with(&name("a"), patient()).unwrap());
        assert_eq!(area.stats().copied, copied);
    }
}

/// Whether `copied` comes to `copied` bytes within half a second.
fn is_copied_soon(area: &Area, copied: u64) -> bool {
    (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        area.stats().copied.get() >= copied
    })
}

/// So many stores in order are known as such.
const MET: u64 = 6;

/// Where stores come in order, what lies right behind them is copied, and nothing else.
fn stores_in_order_are_followed() {
    if is_off("copy-ahead") {
        return;
    }
    follow(DATA);
    follow(ByteLen::kib(64).0);
}

/// With extents of so many bytes.
fn follow(extent: u64) {
    let reach = ByteLen::mib(16).0 / extent;
    let many = 5 * reach;
    let at = |i: u64| ByteLen::mib(16).0 + i * extent;
    let h = home();
    let area = owner_with(&h, "a", extent);
    // Copying may have come far before the order shows, on a busy machine.
    for round in 0..200 {
        (0..many).for_each(|i| store(&area, at(i), round));
        let before = area.stats().copied.get();
        let seen = hook_now(&h, "a");
        let from = many / 2;
        (from..from + MET).for_each(|i| store(&area, at(i), round + 1));
        std::thread::sleep(Duration::from_millis(40));
        let near = area.stats();
        assert!((0..many).all(|i| value_in(&seen, at(i)) == round), "INV-AREA-1");
        let copied = (near.copied.get() - before) / extent;
        if !(MET + reach..=many - reach).contains(&copied) {
            continue;
        }
        let next = from + MET;
        (next..next + reach).for_each(|i| store(&area, at(i), round + 1));
        if area.stats().in_place.get() - near.in_place.get() < reach * extent {
            continue;
        }
        let more = near.copied.get() + (many - next - reach).min(reach) * extent;
        if !is_copied_soon(&area, more) {
            continue;
        }
        drop(seen);
        let seen = hook_now(&h, "a");
        let value = |i| round + u64::from((from..next + reach).contains(&i));
        assert!((0..many).all(|i| value_in(&seen, at(i)) == value(i)));
        return;
    }
    panic!("everything was copied ahead, whatever came in order");
}

/// A loop that takes two intervals is followed, too, though nothing is stored to in two in a row;
/// and what is kept for it goes back when it ends.
fn a_loop_longer_than_an_interval_is_followed() {
    if is_off("copy-ahead") {
        return;
    }
    loop_of_two(DATA);
    loop_of_two(ByteLen::kib(64).0);
}

/// With extents of so many bytes.
fn loop_of_two(extent: u64) {
    let reach = ByteLen::mib(16).0 / extent;
    let half = 3 * reach;
    let at = |i: u64| ByteLen::mib(16).0 + i * extent;
    let h = home();
    let area = owner_with(&h, "a", extent);
    let mut followed = 0;
    // On a busy machine a hook may be followed up after the first stores, and have them forgotten.
    for round in 0..200 {
        let from = round % 2 * half;
        let before = area.stats();
        (from..from + MET).for_each(|i| store(&area, at(i), round));
        // Some change their plane, which takes new memory.
        let more = before.copied.get() + (MET + reach / 2) * extent;
        followed += u32::from(round >= 4 && is_copied_soon(&area, more));
        assert!(held(&area.stats()) <= held(&before) + MET * extent);
        (from + MET..from + half).for_each(|i| store(&area, at(i), round));
        let snapshot = hook_now(&h, "a");
        let value = |i| round - u64::from(round > 0 && i / half != round % 2);
        let mut seen = (0..2 * half).filter(|i| round > 0 || *i < half);
        assert!(seen.all(|i| value_in(&snapshot, at(i)) == value(i)), "INV-AREA-1");
        assert!(area.stats().spare <= area.stats().own, "one spare version of each at most");
        if followed == 3 {
            break;
        }
    }
    assert_eq!(followed, 3, "what was not stored to in the interval before is copied ahead");
    // Hooks without stores in order in between.
    (0..4).for_each(|_| drop(hook_now(&h, "a")));
    let stats = area.stats();
    assert!(stats.spare <= ByteLen::mib(16), "{stats:?}");
}

/// One thread counts up through all extents while others hook as fast as they can: each snapshot is
/// the memory of one moment, and stays so.
fn each_snapshot_is_one_moment_while_copies_are_made() {
    let h = home();
    let area = owner(&h, "a");
    (0..EXTENTS).for_each(|i| store(&area, data_at(i), 0));
    let (stop, hooks) = (AtomicBool::new(false), AtomicU64::new(0));
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    std::thread::scope(|scope| {
        let hooker = scope.spawn(|| {
            let mut rng = Rng::with_seed(seed);
            let mut kept: Vec<(Snapshot, Vec<u64>)> = Vec::new();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(1500)
                || hooks.load(Ordering::Relaxed) <= 3
            {
                let snapshot = h.ns.hook_live_with(&name("a"), patient()).unwrap();
                let all: Vec<u64> = (0..EXTENTS).map(|i| value_in(&snapshot, data_at(i))).collect();
                // Extents are stored to in order, each with the number of the round.
                assert!(all.windows(2).all(|w| w[0] >= w[1]) && all[0] - all[11] <= 1, "{all:?}");
                kept.push((snapshot, all));
                if kept.len() > 3 {
                    kept.swap_remove(rng.usize(..kept.len()));
                }
                for (snapshot, all) in &kept {
                    let now = (0..EXTENTS).map(|i| value_in(snapshot, data_at(i)));
                    assert!(now.eq(all.iter().copied()), "INV-AREA-1");
                }
                hooks.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(rng.u64(0..20_000)));
            }
            stop.store(true, Ordering::Relaxed);
        });
        for round in 1.. {
            if stop.load(Ordering::Relaxed) || hooker.is_finished() {
                break;
            }
            for i in 0..EXTENTS {
                store(&area, data_at(i), round);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        hooker.join().unwrap();
    });
    assert!(hooks.load(Ordering::Relaxed) > 3);
}

/// An area may be closed, or told to stop, at any moment of a copy.
fn closing_waits_for_a_copy() {
    let h = home();
    for round in 0..12 {
        let text = format!("a{round}");
        let area = owner(&h, &text);
        for value in 0..4 {
            (0..EXTENTS).for_each(|i| store(&area, data_at(i), value));
            drop(hook_now(&h, &text));
        }
        std::thread::sleep(Duration::from_micros(150 * round));
        if round % 3 == 0 {
            area.copy_ahead(false);
            let copied = area.stats().copied;
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(area.stats().copied, copied, "nothing goes on");
        }
        drop(area);
        let again = h.ns.open_area(&name(&text)).unwrap();
        assert_eq!(read(&again, data_at(EXTENTS - 1), 8), 3u64.to_ne_bytes());
        drop(again);
        h.ns.remove(&name(&text)).unwrap();
    }
    nothing_is_left(&h);
}

over_both_back_ends! {
    what_is_stored_to_again_and_again_is_there_before_the_store,
    copies_made_ahead_take_memory_that_was_held,
    stores_that_have_moved_on_are_not_followed,
    stores_in_order_are_followed,
    a_loop_longer_than_an_interval_is_followed,
    each_snapshot_is_one_moment_while_copies_are_made,
    closing_waits_for_a_copy,
}
