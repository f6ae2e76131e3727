//! Tracked areas that show others' memory: nothing is done for what they show before it is stored
//! to, and then nothing that anybody sees is written (INV-AREA-1, INV-AREA-12).

#[macro_use]
mod common;

use std::collections::HashMap;

use common::*;
use fastrand::Rng;
use swing::{AreaOffset, Publish, Snapshot};

/// Extents of each zone that the tests use.
const USED: u64 = 12;

/// Begin and length of the extent number `i` of those in use.
fn place(i: u64) -> (u64, u64) {
    if i < USED { (i * SMALL, SMALL) } else { (data_at(i - USED), DATA) }
}

/// An origin of which all used extents hold `byte`, and a snapshot of it.
fn origin(h: &Home, text: &str, byte: u8) -> Snapshot {
    let area = h.ns.create(&name(text), &options()).unwrap();
    fill(&area, 0, USED * SMALL, byte);
    fill(&area, data_at(0), USED * DATA, byte);
    area.publish(Publish::Shared, b"").unwrap();
    h.ns.hook(&name(text)).unwrap()
}

fn words(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

fn k_stores_to_what_is_shown_take_k_extents() {
    let h = home();
    let snapshot = origin(&h, "a", 7);
    let other = h.ns.hook(&name("a")).unwrap();
    let area = snapshot.derive(Some(&name("b"))).unwrap();
    area.track().unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let mut model = HashMap::new();
    let mut held: Vec<(Snapshot, HashMap<u64, u64>)> = Vec::new();
    for round in 1..=30 {
        let before = area.stats().copied.get();
        let mut most = 0;
        for _ in 0..rng.u64(1..8) {
            let (at, len) = place(rng.u64(0..2 * USED));
            let at = at + rng.u64(0..len / 8) * 8;
            assert_eq!(load(&area, at), model.get(&at).copied().unwrap_or(words(7)));
            store(&area, at, round);
            model.insert(at, round);
            most += len;
        }
        assert!(area.stats().copied.get() - before <= most, "copies only what is stored to");
        area.publish(Publish::Shared, b"").unwrap();
        held.push((h.ns.hook(&name("b")).unwrap(), model.clone()));
        if held.len() > 4 {
            held.swap_remove(rng.usize(..held.len()));
        }
        for (state, model) in &held {
            for (at, value) in model {
                assert_eq!(read_snapshot(state, *at, 8), value.to_ne_bytes(), "at {at:#x}");
            }
        }
    }
    let area_shows: HashMap<u64, u64> = model.keys().map(|at| (*at, load(&area, *at))).collect();
    assert_eq!(area_shows, model);
    assert!(snapshot_is(&other, 0, USED * SMALL, 7));
    assert!(snapshot_is(&other, data_at(0), USED * DATA, 7));
}

/// An extent had a version of its own, which a snapshot shows; then it shows others' memory; only
/// then is the area tracked. The store must not go to where that version lies.
fn a_version_somebody_shows_is_not_written_after_others_memory_took_its_place() {
    let h = home();
    let (a, b) = (origin(&h, "a", 1), origin(&h, "b", 2));
    let area = a.derive(Some(&name("c"))).unwrap();
    fill(&area, data_at(3), DATA, 9);
    area.publish(Publish::Shared, b"").unwrap();
    let shown = h.ns.hook(&name("c")).unwrap();
    area.map_foreign(&b, range(data_at(2), 2 * DATA), AreaOffset(data_at(3))).unwrap();
    area.track().unwrap();
    for extent in 2..6 {
        store(&area, data_at(extent) + 64, extent);
    }
    let bytes = |extent| load(&area, data_at(extent));
    assert_eq!([2, 3, 4, 5].map(bytes), [1, 2, 2, 1].map(words));
    assert!(snapshot_is(&shown, data_at(3), DATA, 9), "INV-AREA-1");
    assert!(snapshot_is(&shown, data_at(4), DATA, 1) && snapshot_is(&b, data_at(3), DATA, 2));
    area.publish(Publish::Shared, b"").unwrap();
    drop((shown, area, a, b));
    let after = h.ns.hook(&name("c")).unwrap();
    for extent in 2..6 {
        assert_eq!(read_snapshot(&after, data_at(extent) + 64, 8), extent.to_ne_bytes());
    }
}

/// What one derived area showed, the next one shows: each with extents of its own.
fn a_chain_of_derived_areas() {
    let h = home();
    let mut last = origin(&h, "0", 5);
    for i in 1..8u64 {
        let text = i.to_string();
        let area = last.derive(Some(&name(&text))).unwrap();
        area.track().unwrap();
        store(&area, data_at(i), i);
        store(&area, i * SMALL, i);
        area.publish(Publish::Shared, b"").unwrap();
        last = h.ns.hook(&name(&text)).unwrap();
    }
    for i in 0..USED {
        let expected = if (1..8).contains(&i) { i } else { words(5) };
        for at in [data_at(i), i * SMALL] {
            assert_eq!(read_snapshot(&last, at, 8), expected.to_ne_bytes(), "extent {i}");
        }
    }
}

over_both_back_ends! {
    k_stores_to_what_is_shown_take_k_extents,
    a_version_somebody_shows_is_not_written_after_others_memory_took_its_place,
    a_chain_of_derived_areas,
}
