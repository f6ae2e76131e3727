//! Many at once: hooks against publishes, collections against everything.

#[macro_use]
mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use swing::{
    Area, AreaName, CreateError, DeriveError, HookError, Namespace, OpenError, Publish,
    RemoveError, Snapshot, WriteIntent,
};

const RUN: Duration = Duration::from_millis(1500);
/// Places that every state holds its number in: some small extents and a large one.
fn places() -> impl Iterator<Item = u64> {
    [0, SMALL, 5 * SMALL - 8, data_at(1) - 8].into_iter()
}

fn write_state(area: &Area, n: u64) {
    for at in places() {
        area.make_writable(range(at, 8), WriteIntent::Keep).unwrap();
        // SAFETY: the bytes have just been made writable; one thread writes an area.
        unsafe { area.base().add(at as usize).cast::<u64>().write(n) };
    }
    area.publish(Publish::Shared, &n.to_le_bytes()).unwrap();
}

/// The number of a state, which all its places must hold.
fn state_of(snapshot: &Snapshot) -> u64 {
    let n = u64::from_le_bytes(snapshot.payload().try_into().unwrap());
    for at in places() {
        let seen = u64::from_le_bytes(read_snapshot(snapshot, at, 8).try_into().unwrap());
        assert_eq!(seen, n, "INV-AREA-1 at {at:#x}");
    }
    n
}

/// The lease protocol: a hook at any moment gets one whole state, the newest or one that was newest
/// just now.
fn hooks_race_with_publishes() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    write_state(&area, 1);
    let newest = AtomicU64::new(1);
    let stop = AtomicBool::new(false);
    let hooks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (h, newest, stop, hooks) = (&h, &newest, &stop, &hooks);
            scope.spawn(move || {
                let mut held = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let before = newest.load(Ordering::SeqCst);
                    let snapshot = h.ns.hook(&name("a")).unwrap();
                    let n = state_of(&snapshot);
                    assert!(n >= before, "{n} is older than {before}, which was shared already");
                    hooks.fetch_add(1, Ordering::Relaxed);
                    held.push((snapshot, n));
                    if held.len() > reader * 4 {
                        let (old, n) = held.swap_remove(held.len() / 2);
                        assert_eq!(state_of(&old), n);
                    }
                }
            });
        }
        let end = Instant::now() + RUN;
        let mut n = 1;
        while Instant::now() < end {
            n += 1;
            write_state(&area, n);
            newest.store(n, Ordering::SeqCst);
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{} publishes, {} hooks", newest.into_inner(), hooks.into_inner());
    area.reclaim().unwrap();
    let stats = area.stats();
    assert_eq!((stats.live_manifests, stats.retired.get()), (1, 0));
}

/// One life of an area: made or adopted, written, derived from, closed, perhaps removed.
fn one_life(ns: &Namespace, rng: &mut fastrand::Rng) {
    let text: AreaName = name(&format!("area {}", rng.u8(0..4)));
    let area = match rng.u8(0..3) {
        0 => ns.create_unnamed(&options()).unwrap(),
        1 => match ns.create(&text, &options()) {
            Ok(area) => area,
            Err(CreateError::AlreadyExists { .. } | CreateError::Owned { .. }) => return,
            Err(e) => panic!("{e}"),
        },
        _ => match ns.open_area(&text) {
            Ok(area) => area,
            Err(OpenError::NotFound { .. } | OpenError::Owned { .. }) => return,
            Err(e) => panic!("{e}"),
        },
    };
    write_state(&area, rng.u64(1..1000));
    let view = area.freeze_view().unwrap();
    let child = name(&format!("child {}", rng.u8(0..3)));
    match view.derive(Some(&child)) {
        Ok(derived) => write_state(&derived, rng.u64(1..1000)),
        Err(DeriveError::AlreadyExists { .. } | DeriveError::Owned { .. }) => {}
        Err(e) => panic!("{e}"),
    }
    drop(area);
    for text in [text, child] {
        match ns.hook(&text) {
            Ok(snapshot) => drop(state_of(&snapshot)),
            Err(HookError::NotFound { .. } | HookError::NotShared { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        if rng.bool() {
            match ns.remove(&text) {
                Ok(_) | Err(RemoveError::NotFound { .. } | RemoveError::Owned { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
    }
}

fn collections_race_with_everything() {
    let h = home();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let end = Instant::now() + RUN;
    let lives = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (h, lives) = (&h, &lives);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed + t);
                while Instant::now() < end {
                    one_life(&h.ns, &mut rng);
                    lives.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while Instant::now() < end {
                assert_eq!(h.ns.gc().unwrap().damaged, 0);
                h.ns.list().unwrap();
            }
        });
    });
    println!("{} lives", lives.into_inner());
    for info in h.ns.list().unwrap() {
        let name = info.name.expect("unnamed areas are gone with their handles");
        h.ns.remove(&name).unwrap();
    }
    h.ns.gc().unwrap();
    let left: Vec<_> = std::fs::read_dir(h.dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

over_both_back_ends! {
    hooks_race_with_publishes,
    collections_race_with_everything,
}
