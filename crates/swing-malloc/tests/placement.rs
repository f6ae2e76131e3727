//! What an allocation copies: nothing but one or two extents of metadata, and what it wastes: a
//! bounded share.

mod common;

use common::{TestMemory, heap};
use swing::{AreaOffset, ByteLen, ExtentState};
use swing_malloc::{BlockTable, Heap, HeapOptions, Memory};

const MIB: u64 = 1 << 20;

/// Allocates and passes the barrier, as a user who stores would.
fn store(memory: &TestMemory, heap: &Heap<TestMemory>, len: u64) -> AreaOffset {
    let grant = heap.allocate(ByteLen(len)).unwrap();
    memory.make_writable(grant.offset.0..grant.offset.0 + grant.len.0).unwrap();
    grant.offset
}

#[test]
fn after_a_publish_new_blocks_copy_only_metadata() {
    let (memory, heap) = heap(1 << 30);
    for len in [100, 5000, 40_000, 300_000, 3 * MIB] {
        store(&memory, &heap, len);
    }
    for len in [1, 100, 5000, 31_000, 40_000, 300_000, MIB, 3 * MIB] {
        memory.publish();
        memory.take_copies();
        store(&memory, &heap, len);
        assert!(memory.take_copies() <= 2, "header and one cluster, request of {len}");
        // The second request of the same zone finds everything private.
        store(&memory, &heap, len);
        assert_eq!(memory.take_copies(), 0, "request of {len}");
    }
    heap.check().unwrap();
}

#[test]
fn in_a_derived_heap_new_segments_copy_only_metadata() {
    let (memory, heap) = heap(1 << 30);
    for i in 0..200 {
        store(&memory, &heap, 1000 + i * 3000);
    }
    memory.publish();
    let child = memory.derive();
    let derived = Heap::open(child.clone()).unwrap();
    for _ in 0..50 {
        store(&child, &derived, MIB);
        store(&child, &derived, 16 << 10);
    }
    assert!(child.take_copies() <= 3, "header and one cluster of each zone");
    derived.check().unwrap();
    heap.check().unwrap();
}

#[test]
fn a_freed_block_in_a_private_extent_is_used_again() {
    let (memory, heap) = heap(1 << 30);
    let (a, _b) = (store(&memory, &heap, 1000), store(&memory, &heap, 1000));
    heap.free(a).unwrap();
    assert_eq!(store(&memory, &heap, 1000), a);
}

#[test]
fn holes_in_frozen_extents_stay_bounded() {
    // Each round stores little, publishes, and frees most of what earlier rounds stored.
    let (memory, heap) = heap(1 << 30);
    let mut blocks = Vec::new();
    for round in 0..2000_usize {
        blocks.push(store(&memory, &heap, 40_000));
        blocks.push(store(&memory, &heap, 700));
        memory.publish();
        if blocks.len() > 100 {
            heap.free(blocks.swap_remove(round * 7 % blocks.len())).unwrap();
            heap.free(blocks.swap_remove(round * 3 % blocks.len())).unwrap();
        }
    }
    let stats = heap.stats();
    for zone in [stats.small, stats.data] {
        // 32 extents, and what one more holds.
        assert!(zone.holes() <= 33 * zone.extent + zone.used / 4, "{zone:?}");
    }
    heap.check().unwrap();
}

#[test]
fn without_deletes_commits_do_not_spread_over_extents() {
    let (memory, heap) = heap(1 << 30);
    for _ in 0..3000 {
        store(&memory, &heap, 40_000);
        memory.publish();
    }
    let data = heap.stats().data;
    assert!(data.holes() <= 33 * data.extent + data.used / 4, "{data:?}");
}

#[test]
fn wholly_free_extents_lose_their_memory() {
    let memory = TestMemory::new(1 << 30);
    let options = HeapOptions { blocks: BlockTable::None, ..HeapOptions::default() };
    let heap = Heap::create(memory.clone(), options).unwrap();
    let space = memory.space();
    let blocks: Vec<_> = (0..8).map(|_| store(&memory, &heap, MIB)).collect();
    for pair in blocks.chunks(2) {
        assert_eq!(pair[0].0 / space.data_extent, pair[1].0 / space.data_extent);
        heap.free(pair[0]).unwrap();
        assert_ne!(memory.state(pair[0].0), ExtentState::Absent);
        heap.free(pair[1]).unwrap();
        assert_eq!(memory.state(pair[0].0), ExtentState::Absent);
    }
    // A block over several extents, with its trimmed tail in one that is shared.
    let len = ByteLen(5 * MIB);
    let long = heap.allocate_exact(len, ByteLen(1)).unwrap();
    memory.make_writable(long.0..long.0 + len.0).unwrap();
    let tail = store(&memory, &heap, MIB);
    assert_eq!(tail.0 / space.data_extent, (long.0 + len.0) / space.data_extent);
    heap.free_exact(long, len).unwrap();
    assert_eq!(memory.state(long.0), ExtentState::Absent);
    assert_eq!(memory.state(tail.0), ExtentState::Private);
    heap.free(tail).unwrap();
    assert_eq!(memory.state(tail.0), ExtentState::Absent);
    heap.check().unwrap();
}

#[test]
fn a_tree_of_many_clusters_still_copies_two_extents() {
    let memory = TestMemory::new(8 << 30);
    let heap = Heap::create(memory.clone(), HeapOptions::default()).unwrap();
    let blocks: Vec<_> = (0..20).map(|_| store(&memory, &heap, 3 * MIB)).collect();
    memory.publish();
    memory.take_copies();
    heap.free(blocks[3]).unwrap();
    assert!(memory.take_copies() <= 2);
    heap.check().unwrap();
}

#[test]
fn the_reserved_part_is_never_touched() {
    let (memory, heap) = heap(256 << 20);
    let reserved = heap.reserved();
    memory.make_writable(reserved.start.0..reserved.end.0).unwrap();
    (reserved.start.0..reserved.end.0).for_each(|at| memory.poke(at, 0xA5));
    let blocks: Vec<_> =
        (0..500).filter_map(|i| heap.allocate(ByteLen(i * 977 + 1)).ok()).collect();
    blocks.iter().for_each(|grant| heap.free(grant.offset).unwrap());
    assert!((reserved.start.0..reserved.end.0).all(|at| memory.peek(at) == 0xA5));
    assert!(blocks.iter().all(|grant| grant.offset >= reserved.end));
}
