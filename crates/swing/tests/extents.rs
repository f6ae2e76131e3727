//! Areas with data extents of every size: the same suite for each, barrier calls and plain stores.

#[macro_use]
mod common;

use common::*;
use swing::{Area, AreaOptions, ByteLen, CreateError, MapForeignError, Publish, WriteIntent};

fn sized(extent: ByteLen) -> AreaOptions {
    AreaOptions {
        small_zone: ByteLen::mib(2),
        extent,
        ..AreaOptions::with_reserve(ByteLen::gib(1))
    }
}

fn sizes() -> impl Iterator<Item = u64> {
    (16..=25).map(|bits| 1 << bits)
}

fn put(area: &Area, at: u64, byte: u8, plain: bool) {
    if !plain {
        return fill(area, at, 1, byte);
    }
    // SAFETY: inside the area, which is tracked.
    unsafe { area.base().add(at as usize).write_volatile(byte) }
}

fn impossible_sizes_are_refused() {
    let h = home();
    for extent in [0, 1, 4096, 32 << 10, 96 << 10, 3 << 20, 64 << 20] {
        let refused = h.ns.create_unnamed(&sized(ByteLen(extent)));
        assert!(matches!(refused, Err(CreateError::OutOfRange { .. })), "{extent}");
    }
}

fn exactly_the_extents_stored_to_are_copied() {
    for (extent, plain) in sizes().flat_map(|e| [(e, false), (e, true)]) {
        let h = home();
        let area = h.ns.create(&name("a"), &sized(ByteLen(extent))).unwrap();
        assert_eq!(area.geometry().data_extent().get(), extent);
        if plain {
            area.track().unwrap();
        }
        let start = area.geometry().small_zone().get();
        let len = (4 * extent).clamp(4 << 20, 64 << 20);
        // Also over the zones' border.
        area.make_writable(range(start - SMALL, len + SMALL), WriteIntent::Keep).unwrap();
        let last = start + len - 1;
        [start - 1, start, last].into_iter().for_each(|at| put(&area, at, 1, plain));
        area.publish(Publish::Shared, b"").unwrap();
        let first = h.ns.hook(&name("a")).unwrap();
        let before = area.stats();
        put(&area, start, 2, plain);
        put(&area, last, 2, plain);
        let after = area.stats();
        assert_eq!(after.copied.get() - before.copied.get(), 2 * extent, "{extent} {plain}");
        area.publish(Publish::Shared, b"").unwrap();
        let second = h.ns.hook(&name("a")).unwrap();
        put(&area, last, 3, plain);
        for (snapshot, byte) in [(&first, 1), (&second, 2)] {
            assert_eq!(read_snapshot(snapshot, start - 1, 2), [1, byte]);
            assert_eq!(read_snapshot(snapshot, last, 1), [byte]);
        }
        // Derived, published, adopted: the size goes with the area.
        let derived = second.derive(Some(&name("b"))).unwrap();
        if plain {
            derived.track().unwrap();
        }
        put(&derived, start + extent, 7, plain);
        derived.publish(Publish::Shared, b"").unwrap();
        drop((first, second));
        drop(derived);
        let again = h.ns.open_area(&name("b")).unwrap();
        assert_eq!(again.geometry().data_extent().get(), extent);
        assert_eq!(read(&again, start + extent, 1), [7]);
        assert_eq!(read(&again, start, 1), [2]);
        // Back to where memory was: nothing is kept that nobody sees.
        area.discard(range(start, len)).unwrap();
        area.publish(Publish::Shared, b"").unwrap();
        drop(again);
        h.ns.remove(&name("b")).unwrap();
        area.reclaim().unwrap();
        assert_eq!(area.stats().own.get(), SMALL);
    }
}

fn extents_of_different_sizes_do_not_mix() {
    let h = home();
    let other = h.ns.create(&name("a"), &sized(ByteLen::kib(64))).unwrap();
    fill(&other, 2 << 20, 2 << 20, 1);
    let view = other.freeze_view().unwrap();
    let area = h.ns.create(&name("b"), &sized(ByteLen::mib(2))).unwrap();
    let at = swing::AreaOffset(4 << 20);
    let refused = area.map_foreign(&view, range(2 << 20, 2 << 20), at);
    assert!(matches!(refused, Err(MapForeignError::OutOfRange { .. })));
    let same = h.ns.create(&name("c"), &sized(ByteLen::kib(64))).unwrap();
    same.map_foreign(&view, range((2 << 20) + SMALL, 3 * SMALL), at).unwrap();
    assert_eq!(read(&same, 4 << 20, 3 * SMALL), vec![1; 3 * SMALL as usize]);
}

over_both_back_ends! {
    impossible_sizes_are_refused,
    exactly_the_extents_stored_to_are_copied,
    extents_of_different_sizes_do_not_mix,
}
