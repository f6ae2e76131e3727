//! The number of mappings stays bounded however many commits there are (INV-AREA-11).

#[macro_use]
mod common;

use std::collections::{HashMap, VecDeque};

use common::*;
use fastrand::Rng;
use swing::{Area, AreaOptions, ByteLen, Publish, Snapshot, WriteIntent};

/// Seams that every zone may have, and one more for so many extents: as in `consolidate.rs`.
const MAX_SEAMS: u64 = 24;
const EXTENTS_PER_SEAM: u64 = 32;

/// What every extent holds: a number at its begin and end.
#[derive(Clone, Default)]
struct Model(HashMap<u64, u64>);

impl Model {
    fn write(&mut self, area: &Area, at: u64, len: u64, value: u64) {
        area.make_writable(range(at, len), WriteIntent::Keep).unwrap();
        put(area, at, value);
        put(area, at + len - 8, value);
        self.0.insert(at, value);
    }

    fn check(&self, base: *const u8) {
        for (&at, &value) in &self.0 {
            let len = if at < data_at(0) { SMALL } else { DATA };
            for at in [at, at + len - 8] {
                // SAFETY: every extent of the model has memory in the area and its snapshots.
                let found = unsafe { base.add(at as usize).cast::<u64>().read() };
                assert_eq!(found, value, "at {at:#x}");
            }
        }
    }

    /// The most runs the state may have: gaps between extents that are there, and seams.
    fn most_runs(&self) -> u64 {
        let zone = |small: bool, len: u64| {
            let mut all: Vec<u64> =
                self.0.keys().copied().filter(|at| (*at < data_at(0)) == small).collect();
            all.sort_unstable();
            let gaps = all.windows(2).filter(|w| w[0] + len != w[1]).count() as u64;
            let islands = gaps + u64::from(!all.is_empty());
            islands + MAX_SEAMS + all.len() as u64 / EXTENTS_PER_SEAM
        };
        zone(true, SMALL) + zone(false, DATA)
    }
}

fn put(area: &Area, at: u64, value: u64) {
    // SAFETY: the extent has just been made writable, and this test is single-threaded.
    unsafe { area.base().as_ptr().add(at as usize).cast::<u64>().write(value) };
}

/// Writes some random extents and publishes, again and again; now and then extents go, and readers
/// keep old states for a while.
fn many_commits(seed: u64, commits: u64, data_extents: u64, readers: usize) {
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    let mut model = Model::default();
    let mut held: VecDeque<(Snapshot, Model)> = VecDeque::new();
    let small_extents = 200;
    for commit in 1..=commits {
        for _ in 0..rng.u32(1..=5) {
            let at = rng.u64(0..small_extents) * SMALL;
            model.write(&area, at, SMALL, rng.u64(..));
        }
        if data_extents > 0 && rng.u8(0..4) == 0 {
            let at = data_at(rng.u64(0..data_extents));
            model.write(&area, at, DATA, rng.u64(..));
        }
        if rng.u8(0..50) == 0 {
            let at = rng.u64(0..small_extents) * SMALL;
            area.discard(range(at, SMALL)).unwrap();
            model.0.remove(&at);
        }
        let kind = if rng.bool() { Publish::Shared } else { Publish::Committed };
        area.publish(kind, b"").unwrap();
        let runs = area.stats().runs as u64;
        assert!(runs <= model.most_runs(), "{runs} runs after {commit} commits (INV-AREA-11)");
        if kind == Publish::Shared && rng.u8(0..8) == 0 && readers > 0 {
            let snapshot = h.ns.hook(&name("a")).unwrap();
            held.push_back((snapshot, model.clone()));
        }
        if held.len() > readers || (rng.u8(0..16) == 0 && !held.is_empty()) {
            let (snapshot, then) = held.swap_remove_back(rng.usize(..held.len())).unwrap();
            then.check(snapshot.base().as_ptr());
        }
    }
    model.check(area.base().as_ptr());
    for (snapshot, then) in &held {
        then.check(snapshot.base().as_ptr());
    }
}

fn thousands_of_commits() {
    many_commits(fastrand::u64(..), 4_000, 0, 0);
}

fn with_readers_of_old_states() {
    many_commits(fastrand::u64(..), 1_500, 24, 12);
}

fn single_writes_all_over_the_small_zone() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    let mut model = Model::default();
    for i in 0..100 {
        model.write(&area, i * SMALL, SMALL, i);
    }
    area.publish(Publish::Shared, b"").unwrap();
    assert_eq!(area.stats().runs, 1);
    // Every second extent goes to another plane: without mending there were 100 runs.
    for i in (0..100).step_by(2) {
        model.write(&area, i * SMALL, SMALL, i + 1000);
        area.publish(Publish::Shared, b"").unwrap();
        let runs = area.stats().runs as u64;
        assert!(runs <= 1 + 2 + 2, "{runs} runs: a few seams are mended at once");
    }
    model.check(area.base().as_ptr());
    let snapshot = h.ns.hook(&name("a")).unwrap();
    model.check(snapshot.base().as_ptr());
}

fn a_derived_area_keeps_the_bound_and_its_origin() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    let mut model = Model::default();
    for i in 0..64 {
        model.write(&area, i * SMALL, SMALL, i);
        model.write(&area, data_at(i), DATA, i);
    }
    area.publish(Publish::Shared, b"").unwrap();
    let origin = model.clone();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    let derived = snapshot.derive(Some(&name("b"))).unwrap();
    let mut rng = seeded_rng("a_derived_area_keeps_the_bound_and_its_origin");
    for _ in 0..300 {
        model.write(&derived, rng.u64(0..64) * SMALL, SMALL, rng.u64(..));
        derived.publish(Publish::Shared, b"").unwrap();
        let runs = derived.stats().runs as u64;
        assert!(runs <= model.most_runs(), "{runs} runs");
    }
    assert_eq!(derived.stats().foreign, ByteLen(64 * DATA), "the origin's data stays shared");
    model.check(derived.base().as_ptr());
    origin.check(area.base().as_ptr());
}

fn an_area_of_small_extents_only() {
    let h = home();
    let all = ByteLen::mib(64);
    let options = AreaOptions { small_zone: all, ..AreaOptions::with_reserve(all) };
    let area = h.ns.create(&name("a"), &options).unwrap();
    for round in 0..200u64 {
        let at = round * 7 % 60 * SMALL;
        area.make_writable(range(at, SMALL), WriteIntent::Overwrite).unwrap();
        area.publish(Publish::Committed, b"").unwrap();
        assert!(area.stats().runs as u64 <= 60 + MAX_SEAMS + 2);
    }
    let runs = area.stats().runs as u64;
    assert!(runs <= 1 + MAX_SEAMS + 60 / EXTENTS_PER_SEAM, "{runs} runs");
}

fn seeded_rng(test: &str) -> Rng {
    let seed = fastrand::u64(..);
    println!("{test}: seed {seed}");
    Rng::with_seed(seed)
}

fn tracked_areas_are_left_alone() {
    const EXTENTS: u64 = 120;
    const THREADS: u64 = 2;
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    let mut model = Model::default();
    for i in 0..EXTENTS {
        model.write(&area, i * SMALL, SMALL, 0);
    }
    area.track().unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    // Each thread stores into extents of its own, while others publish.
    let store = |thread: u64| {
        let mut rng = Rng::with_seed(seed + thread);
        let mut mine = HashMap::new();
        let mut value = 1;
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let at = (rng.u64(0..EXTENTS / THREADS) * THREADS + thread) * SMALL;
            put_plainly(&area, at, value);
            put_plainly(&area, at + SMALL - 8, value);
            mine.insert(at, value);
            value += 1;
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
        mine
    };
    let stored = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                scope.spawn({
                    let store = &store;
                    move || store(t)
                })
            })
            .collect();
        for _ in 0..1_500 {
            area.publish(Publish::Shared, b"").unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    stored.into_iter().for_each(|mine| model.0.extend(mine));
    area.publish(Publish::Shared, b"").unwrap();
    model.check(area.base().as_ptr());
    let snapshot = h.ns.hook(&name("a")).unwrap();
    model.check(snapshot.base().as_ptr());
}

fn put_plainly(area: &Area, at: u64, value: u64) {
    // SAFETY: the area is tracked: stores without a barrier are what it is for, and only one thread
    // stores into an extent.
    unsafe { area.base().as_ptr().add(at as usize).cast::<u64>().write_volatile(value) };
}

over_both_back_ends! {
    thousands_of_commits,
    with_readers_of_old_states,
    single_writes_all_over_the_small_zone,
    a_derived_area_keeps_the_bound_and_its_origin,
    an_area_of_small_extents_only,
    tracked_areas_are_left_alone,
}
