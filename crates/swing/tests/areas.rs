//! One process, several handles: what publish, hook and derive promise.

#[macro_use]
mod common;

use std::time::{Duration, Instant};

use common::*;
use swing::{AreaOffset, ByteLen, ExtentState, Publish, WriteIntent};

/// INV-AREA-1, the first regression: the reader has not touched the page before the owner writes
/// again. A MAP_PRIVATE mapping of the owner's live file would now show the later write.
fn an_untouched_page_of_a_snapshot_does_not_show_later_writes() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    for at in [0, SMALL * 3, data_at(0), data_at(5)] {
        fill(&area, at, SMALL, 1);
    }
    area.publish(Publish::Shared, b"one").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    for round in 2..6 {
        for at in [0, SMALL * 3, data_at(0), data_at(5)] {
            fill(&area, at, SMALL, round);
        }
        area.publish(Publish::Shared, b"more").unwrap();
    }
    for at in [0, SMALL * 3, data_at(0), data_at(5)] {
        assert!(snapshot_is(&snapshot, at, SMALL, 1));
    }
    assert_eq!(snapshot.payload(), b"one");
    let newer = h.ns.hook(&name("a")).unwrap();
    assert!(snapshot_is(&newer, data_at(5), SMALL, 5));
    assert!(newer.epoch() > snapshot.epoch());
}

fn states_of_extents() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    let e = area.geometry().extent_of(swing::AreaOffset(data_at(1)));
    assert_eq!(area.extent_state(e), ExtentState::Absent);
    fill(&area, data_at(1), 10, 1);
    assert_eq!(area.extent_state(e), ExtentState::Private);
    area.publish(Publish::Committed, b"").unwrap();
    assert_eq!(area.extent_state(e), ExtentState::Frozen);
    fill(&area, data_at(1), 10, 2);
    assert_eq!(area.extent_state(e), ExtentState::Private);
    area.discard(range(data_at(1), DATA)).unwrap();
    assert_eq!(area.extent_state(e), ExtentState::Absent);
    area.make_writable(range(data_at(1), DATA), WriteIntent::Keep).unwrap();
    assert!(read(&area, data_at(1), DATA).iter().all(|b| *b == 0));
}

fn a_derived_area_keeps_addresses_and_hides_its_writes() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, data_at(0), 3 * DATA, 1);
    area.publish(Publish::Shared, b"root").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    let other = h.ns.hook(&name("a")).unwrap();
    let derived = snapshot.derive(Some(&name("b"))).unwrap();
    assert_eq!(derived.base(), snapshot.base());
    assert_eq!(derived.payload(), b"root");
    fill(&derived, data_at(1), DATA, 2);
    assert_eq!(read(&area, data_at(1), 4), [1; 4]);
    assert!(snapshot_is(&other, data_at(0), 3 * DATA, 1));
    derived.publish(Publish::Shared, b"b").unwrap();
    // A chain: hook what was derived, derive again.
    let second = h.ns.hook(&name("b")).unwrap();
    assert!(snapshot_is(&second, data_at(0), DATA, 1));
    assert!(snapshot_is(&second, data_at(1), DATA, 2));
    let third = second.derive(Some(&name("c"))).unwrap();
    fill(&third, data_at(2) + 5, 1, 3);
    third.publish(Publish::Shared, b"c").unwrap();
    drop((third, derived, area, snapshot));
    let last = h.ns.hook(&name("c")).unwrap();
    assert!(snapshot_is(&last, data_at(0), DATA, 1));
    assert!(snapshot_is(&last, data_at(1), DATA, 2));
    let bytes = read_snapshot(&last, data_at(2), DATA);
    assert!(bytes.iter().enumerate().all(|(i, b)| *b == if i == 5 { 3 } else { 1 }));
}

fn reopening_returns_to_what_was_committed() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    fill(&area, 0, 100, 1);
    area.publish(Publish::Committed, b"one").unwrap();
    fill(&area, 0, 100, 2);
    drop(area);
    assert!(matches!(h.ns.hook(&name("a")), Err(swing::HookError::NotShared { .. })));
    let area = h.ns.open_area(&name("a")).unwrap();
    assert_eq!(area.payload(), b"one");
    assert_eq!(read(&area, 0, 100), [1; 100]);
    let second = h.ns.open_area(&name("a"));
    let Err(swing::OpenError::Owned { pid, command, .. }) = second else { panic!("{second:?}") };
    assert_eq!(pid, std::process::id());
    assert!(command.contains("areas"));
}

/// Ranges of a snapshot against what its writer says of each extent.
fn is_mapped_agrees_with_the_writer() {
    let h = home();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let area = h.ns.create(&name("a"), &options()).unwrap();
    for _ in 0..20 {
        fill(&area, rng.u64(0..24) * SMALL, rng.u64(1..3) * SMALL, 1);
        fill(&area, data_at(rng.u64(0..12)), rng.u64(1..3) * DATA, 1);
        area.discard(range(rng.u64(0..24) * SMALL, SMALL)).unwrap();
        area.discard(range(data_at(rng.u64(0..12)), DATA)).unwrap();
    }
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    let geometry = *area.geometry();
    let reserve = geometry.reserve().get();
    for _ in 0..20_000 {
        let start =
            if rng.bool() { rng.u64(0..30 * SMALL) } else { data_at(0) + rng.u64(0..20 * DATA) };
        let len = rng.u64(0..3 * DATA).min(reserve - start);
        let asked = range(start, len);
        let present = |e: u32| area.extent_state(swing::ExtentId(e)) != ExtentState::Absent;
        let expected = geometry.covering(&asked).all(present);
        assert_eq!(snapshot.is_mapped(&asked), expected, "{asked:?}");
    }
    for hostile in
        [range(u64::MAX - 5, 5), range(reserve, 1), range(reserve - 1, u64::MAX - reserve)]
    {
        assert!(!snapshot.is_mapped(&hostile), "{hostile:?}");
    }
    let reversed = swing::AreaOffset(10)..swing::AreaOffset(5);
    assert!(!snapshot.is_mapped(&reversed));
}

/// What a failed or refused call leaves: nothing.
fn committed_states_are_invisible_until_shared() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    for n in 1..6u8 {
        fill(&area, 0, SMALL, n);
        area.publish(Publish::Committed, &[n]).unwrap();
        assert!(matches!(h.ns.hook(&name("a")), Err(swing::HookError::NotShared { .. })));
        assert_eq!(area.payload(), [n]);
    }
    area.publish(Publish::Shared, &[6]).unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    for n in 7..12u8 {
        fill(&area, 0, SMALL, n);
        area.publish(Publish::Committed, &[n]).unwrap();
        assert_eq!(h.ns.hook(&name("a")).unwrap().epoch(), snapshot.epoch());
    }
    assert!(snapshot_is(&h.ns.hook(&name("a")).unwrap(), 0, SMALL, 5));
    // Superseded commits keep nothing: the committed and the shared version are all there is.
    area.reclaim().unwrap();
    let stats = area.stats();
    assert_eq!((stats.live_manifests, stats.retired.get()), (2, SMALL));
}

/// What is protected ahead of a publish is written in place again, is in the next publish as it is
/// then, and costs that no protecting.
fn protecting_ahead_changes_nothing_that_is_seen() {
    let h = home();
    let area = h.ns.create(&name("a"), &options()).unwrap();
    let private = || area.stats().private.get();
    fill(&area, data_at(0), 4 * DATA, 1);
    fill(&area, 0, SMALL, 1);
    let (all, before) = (private(), area.stats());
    assert!(all >= 4 * DATA + SMALL);
    assert!(!area.protect_ahead(ByteLen(all)).unwrap(), "not more than that is private");
    assert_eq!(private(), all);
    assert!(area.protect_ahead(ByteLen(all - 1)).unwrap());
    assert_eq!(private(), 0);
    assert_eq!(area.extent_state(area.geometry().extent_of(AreaOffset(0))), ExtentState::Frozen);
    assert!(!area.protect_ahead(ByteLen(0)).unwrap(), "there is nothing left");
    // A part is written again, the rest is published as it was.
    fill(&area, data_at(1), DATA, 2);
    let after = area.stats();
    assert_eq!((after.copied, after.populated), (before.copied, before.populated));
    assert_eq!(after.in_place.get() - before.in_place.get(), DATA);
    assert_eq!(private(), DATA);
    area.publish(Publish::Shared, b"").unwrap();
    let snapshot = h.ns.hook(&name("a")).unwrap();
    // From here on a store is a copy, as after any publish.
    fill(&area, data_at(0), 2 * DATA, 3);
    assert_eq!(area.stats().copied.get() - before.copied.get(), 2 * DATA);
    assert!(snapshot_is(&snapshot, data_at(0), DATA, 1) && snapshot_is(&snapshot, 0, SMALL, 1));
    assert!(snapshot_is(&snapshot, data_at(1), DATA, 2));
    assert!(snapshot_is(&snapshot, data_at(2), 2 * DATA, 1));
}

/// What a publish lets go with the state before it is not given back by the publish, whose time
/// would depend on it, but by the keeper; an area may be closed meanwhile.
fn what_a_publish_leaves_is_given_back_behind_it() {
    const EXTENTS: u64 = 100;
    let h = home();
    for close_at_once in [false, true] {
        let area = h.ns.create(&name("a"), &options()).unwrap();
        let spare = || area.stats().spare;
        fill(&area, data_at(0), EXTENTS * DATA, 1);
        area.publish(Publish::Shared, b"").unwrap();
        area.discard(range(data_at(0), EXTENTS * DATA)).unwrap();
        area.publish(Publish::Committed, b"").unwrap();
        assert_eq!(spare().get(), 0, "the shared state shows it");
        area.publish(Publish::Shared, b"").unwrap();
        assert_eq!(spare().get(), EXTENTS * DATA);
        area.give_back_later();
        let end = Instant::now() + Duration::from_secs(30);
        while !close_at_once && spare() > ByteLen::mib(16) {
            assert!(Instant::now() < end, "{:?} are spare", spare());
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(area);
        h.ns.remove(&name("a")).unwrap();
    }
    nothing_is_left(&h);
}

over_both_back_ends! {
    an_untouched_page_of_a_snapshot_does_not_show_later_writes,
    states_of_extents,
    a_derived_area_keeps_addresses_and_hides_its_writes,
    reopening_returns_to_what_was_committed,
    is_mapped_agrees_with_the_writer,
    committed_states_are_invisible_until_shared,
    protecting_ahead_changes_nothing_that_is_seen,
    what_a_publish_leaves_is_given_back_behind_it,
}
