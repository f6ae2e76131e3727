//! An area that grows maps addresses in advance of their memory, so that many threads can fill it
//! with few changes of mappings; at rest only what has memory is mapped (INV-AREA-22).

#[macro_use]
mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use swing::{Area, AreaOffset, Publish, WriteIntent};

/// Bytes from extent `i` of the data zone on that are mapped to be written, without a gap.
fn open_from(area: &Area, i: u64) -> u64 {
    let start = area.base().as_ptr() as u64 + data_at(i);
    let mut at = start;
    for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let mut words = line.split_whitespace();
        let (range, access) = (words.next().unwrap(), words.next().unwrap());
        let (from, to) = range.split_once('-').unwrap();
        let from = u64::from_str_radix(from, 16).unwrap();
        let to = u64::from_str_radix(to, 16).unwrap();
        if access.starts_with("rw") && from <= at && at < to {
            at = to;
        }
    }
    at - start
}

/// Fills extents one by one, each with its number.
fn grow(area: &Area, extents: std::ops::Range<u64>) {
    extents.for_each(|i| fill(area, data_at(i), DATA, i as u8));
}

fn what_grows_is_mapped_in_advance_and_only_until_it_rests() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    // Little is mapped as it is asked for.
    grow(&area, 0..1);
    assert_eq!(open_from(&area, 0), DATA);
    let mut ends = vec![open_from(&area, 0)];
    for i in 1..64 {
        grow(&area, i..i + 1);
        let open = open_from(&area, 0);
        assert!(open >= (i + 1) * DATA && open <= 2 * (i + 1) * DATA, "{i}: {open}");
        ends.push(open);
    }
    ends.dedup();
    assert!(ends.len() <= 8, "mapped in {} steps", ends.len());
    assert_eq!(area.stats().private.get(), 64 * DATA, "nothing but what was asked for");
    area.publish(Publish::Shared, b"").unwrap();
    for i in [0, 63, 64, 100] {
        assert_eq!(open_from(&area, i), 0, "{i}");
    }
    let snapshot = h.ns.hook(&name("a")).unwrap();
    (0..64).for_each(|i| assert!(snapshot_is(&snapshot, data_at(i), DATA, i as u8)));
    assert!(!snapshot.is_mapped(&range(data_at(64), DATA)));
    // It grows on, also over what was given back, and what is in the way is left alone.
    area.discard(range(data_at(10), 4 * DATA)).unwrap();
    grow(&area, 66..70);
    grow(&area, 10..14);
    grow(&area, 64..66);
    grow(&area, 70..90);
    for i in 0..90 {
        assert_eq!(read(&area, data_at(i), 8), [i as u8; 8], "{i}");
    }
    area.publish(Publish::Shared, b"").unwrap();
    assert_eq!(open_from(&area, 90), 0);
    (0..64).for_each(|i| assert!(snapshot_is(&snapshot, data_at(i), DATA, i as u8)));
}

fn what_was_mapped_in_advance_is_empty_memory() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    grow(&area, 0..16);
    assert!(open_from(&area, 16) > 0);
    area.make_writable(range(data_at(16), 4 * DATA), WriteIntent::Keep).unwrap();
    assert!(read(&area, data_at(16), 4 * DATA).iter().all(|byte| *byte == 0));
    // Of another plane: a version of an older state is in the first.
    area.publish(Publish::Shared, b"").unwrap();
    let old = h.ns.hook(&name("a")).unwrap();
    area.discard(range(data_at(0), 20 * DATA)).unwrap();
    for i in 0..20 {
        area.make_writable(range(data_at(i), DATA), WriteIntent::Keep).unwrap();
        assert!(read(&area, data_at(i), DATA).iter().all(|byte| *byte == 0), "{i}");
        fill(&area, data_at(i), DATA, 100 + i as u8);
    }
    (0..16).for_each(|i| assert!(snapshot_is(&old, data_at(i), DATA, i as u8)));
    area.publish(Publish::Shared, b"").unwrap();
    let new = h.ns.hook(&name("a")).unwrap();
    (0..20).for_each(|i| assert!(snapshot_is(&new, data_at(i), DATA, 100 + i as u8)));
}

fn another_areas_state_can_be_shown_there() {
    let h = home();
    let other = h.ns.create(&name("other"), &options()).unwrap();
    fill(&other, data_at(0), 4 * DATA, 77);
    other.publish(Publish::Shared, b"").unwrap();
    let shown = h.ns.hook(&name("other")).unwrap();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    grow(&area, 0..16);
    assert!(open_from(&area, 0) >= 24 * DATA, "the clone goes where it is mapped");
    area.map_foreign(&shown, range(data_at(0), 4 * DATA), AreaOffset(data_at(18))).unwrap();
    grow(&area, 16..18);
    grow(&area, 22..30);
    assert_eq!(read(&area, data_at(18), 4 * DATA), vec![77; 4 * DATA as usize]);
    area.make_writable(range(data_at(19), DATA), WriteIntent::Keep).unwrap();
    assert_eq!(read(&area, data_at(19), DATA), vec![77; DATA as usize]);
    (22..30).for_each(|i| assert_eq!(read(&area, data_at(i), 8), [i as u8; 8]));
    assert!(snapshot_is(&shown, data_at(0), 4 * DATA, 77));
}

fn stores_that_are_tracked_are_trapped_there() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    grow(&area, 0..16);
    assert!(open_from(&area, 20) > 0);
    area.track().unwrap();
    assert_eq!(open_from(&area, 20), 0);
    store(&area, data_at(20), 5);
    area.publish(Publish::Shared, b"").unwrap();
    store(&area, data_at(20), 6);
    let snapshot = h.ns.hook(&name("a")).unwrap();
    assert_eq!((value_in(&snapshot, data_at(20)), load(&area, data_at(20))), (5, 6));
}

fn many_threads_fill_an_area_that_is_published() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            // The barrier and the store behind it are not one step, so nothing is stored to
            // what may be published in between: extents are only made.
            while !ended.load(Ordering::SeqCst) {
                area.publish(Publish::Committed, b"").unwrap();
                std::thread::yield_now();
            }
        });
        let makers: Vec<_> = (0..4)
            .map(|thread| {
                let area = &area;
                scope.spawn(move || {
                    for i in (thread..160).step_by(4) {
                        let range = range(data_at(i), DATA);
                        area.make_writable(range, WriteIntent::Overwrite).unwrap();
                    }
                })
            })
            .collect();
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        ended.store(true, Ordering::SeqCst);
        publisher.join().unwrap();
    });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let area = &area;
            scope.spawn(move || (thread..200).step_by(4).for_each(|i| grow(area, i..i + 1)));
        }
    });
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    (0..200).for_each(|i| assert!(snapshot_is(&snapshot, data_at(i), DATA, i as u8), "{i}"));
    assert_eq!(open_from(&area, 200), 0);
}

over_both_back_ends! {
    what_grows_is_mapped_in_advance_and_only_until_it_rests,
    what_was_mapped_in_advance_is_empty_memory,
    another_areas_state_can_be_shown_there,
    stores_that_are_tracked_are_trapped_there,
    many_threads_fill_an_area_that_is_published,
}
