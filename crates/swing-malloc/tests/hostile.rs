//! Metadata that somebody damaged: every operation answers with a typed error or a block inside the
//! area, and nothing panics or touches memory outside (the heap asserts each metadata access, and
//! test memory each range).

mod common;

use common::{TestMemory, heap, seed};
use std::sync::Arc;
use swing::{AreaOffset, ByteLen};
use swing_malloc::{FreeError, Heap, HeapError, Malloc, Memory, RESERVED_OFFSET};

/// Uses a heap whose bytes may be anything; what it grants must lie behind the metadata.
fn exercise(heap: &Heap<TestMemory>, rng: &mut fastrand::Rng) {
    let space = heap.area().space();
    let mut blocks = Vec::new();
    for _ in 0..60 {
        let len = 1_u64 << rng.u32(0..25);
        match rng.u8(..6) {
            0 => drop(heap.free(AreaOffset(rng.u64(0..space.reserve) / 4096 * 4096))),
            1 => drop(heap.free_exact(AreaOffset(rng.u64(..)), ByteLen(len))),
            2 => drop(heap.usable_size(AreaOffset(rng.u64(..)))),
            3 if !blocks.is_empty() => {
                let (offset, len) = blocks.swap_remove(rng.usize(..blocks.len()));
                drop(heap.free_exact(offset, len));
            }
            4 => {
                let len = ByteLen(rng.u64(1..=len));
                if let Ok(offset) = heap.allocate_exact(len, ByteLen(1)) {
                    blocks.push((offset, len));
                }
            }
            _ => {
                if let Ok(grant) = heap.allocate(ByteLen(len)) {
                    blocks.push((grant.offset, grant.len));
                }
            }
        }
    }
    for (offset, len) in blocks {
        let reserved = heap.reserved();
        assert!(offset >= reserved.end && offset.0 + len.0 <= space.reserve);
    }
    let _ = (heap.check(), heap.blocks(), heap.stats());
}

/// A heap in the middle of its life.
fn used_heap(rng: &mut fastrand::Rng) -> (Arc<TestMemory>, Heap<TestMemory>) {
    let (memory, heap) = heap(64 << 20);
    let mut blocks = Vec::new();
    for _ in 0..100 {
        if let Ok(grant) = heap.allocate(ByteLen(1 << rng.u32(0..22))) {
            blocks.push(grant.offset);
        }
    }
    for _ in 0..blocks.len() / 2 {
        heap.free(blocks.swap_remove(rng.usize(..blocks.len()))).unwrap();
    }
    (memory, heap)
}

#[test]
fn damaged_trees_never_lead_outside() {
    let seed = seed("damaged_trees_never_lead_outside");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..150 {
        let (memory, heap) = used_heap(&mut rng);
        let metadata = heap.stats().metadata + (heap.reserved().end.0 - RESERVED_OFFSET);
        for _ in 0..rng.u32(1..200) {
            // Tops and large blocks, or any cluster.
            let at = if rng.bool() { rng.u64(512..8192) } else { rng.u64(512..metadata) };
            let value =
                if rng.bool() { rng.u8(..) } else { [0, 1, 9, 253, 254, 255][rng.usize(..6)] };
            memory.poke(at, value);
        }
        let heap = if rng.bool() { Heap::open(memory.clone()).unwrap() } else { heap };
        exercise(&heap, &mut rng);
    }
}

#[test]
fn metadata_of_random_bytes_is_survived() {
    let seed = seed("metadata_of_random_bytes_is_survived");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..20 {
        let (memory, heap) = used_heap(&mut rng);
        let metadata = heap.stats().metadata + (heap.reserved().end.0 - RESERVED_OFFSET);
        for at in 512..metadata {
            memory.poke(at, rng.u8(..));
        }
        let heap = Heap::open(memory.clone()).unwrap();
        assert!(heap.check().is_err());
        exercise(&heap, &mut rng);
    }
}

/// The metadata of the fast part: its directory, chunks of records, and caches.
fn fast_metadata(memory: &TestMemory) -> Vec<(u64, u64)> {
    let number = |at: u64, len: u64| {
        (0..len).rev().fold(0, |all, byte| all << 8 | u64::from(memory.peek(at + byte)))
    };
    let directory = number(544, 8);
    let mut found = vec![(directory, 8 << 10)];
    let mut chunk = number(directory + 24, 8);
    for _ in 0..number(directory + 12, 4) {
        found.push((chunk, 32 << 10));
        chunk = number(chunk, 8);
    }
    for slot in 0..number(directory + 20, 4) {
        found.push((number(directory + 512 + 8 * slot, 8), 64 << 10));
    }
    found
}

/// Uses an allocator whose bytes may be anything; what it grants must lie behind the metadata.
fn exercise_fast(malloc: &Malloc<TestMemory>, rng: &mut fastrand::Rng) {
    let space = malloc.heap().area().space();
    let mut blocks = Vec::new();
    for _ in 0..100 {
        let shift = rng.u32(1..22);
        let len = rng.u64(1..=1 << shift);
        match rng.u8(..8) {
            0 => drop(malloc.free(AreaOffset(rng.u64(0..space.reserve) / 16 * 16))),
            1 => drop(malloc.usable_size(AreaOffset(rng.u64(..)))),
            2 if !blocks.is_empty() => {
                let (offset, _) = blocks.swap_remove(rng.usize(..blocks.len()));
                drop(malloc.free(offset));
            }
            3 => drop(malloc.grow(AreaOffset(rng.u64(0..space.reserve)), ByteLen(len))),
            4 if rng.u8(..10) == 0 => drop(malloc.drain()),
            _ => {
                if let Ok(grant) = malloc.allocate(ByteLen(len)) {
                    blocks.push((grant.offset, grant.len));
                }
            }
        }
    }
    for (offset, len) in blocks {
        let reserved = malloc.heap().reserved();
        assert!(offset >= reserved.end && offset.0 + len.0 <= space.reserve, "{offset} {len}");
    }
    let _ = (malloc.check(), malloc.blocks(), malloc.stats());
}

#[test]
fn damage_in_the_fast_part_never_leads_outside() {
    let seed = seed("damage_in_the_fast_part_never_leads_outside");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut opened = 0;
    for round in 0..400 {
        let (memory, heap) = heap(64 << 20);
        let malloc = Malloc::open(heap).unwrap();
        let mut blocks: Vec<AreaOffset> = (0..200)
            .map(|_| malloc.allocate(ByteLen(1 << rng.u32(0..18))).unwrap().offset)
            .collect();
        for _ in 0..100 {
            malloc.free(blocks.swap_remove(rng.usize(..blocks.len()))).unwrap();
        }
        memory.publish();
        let child = memory.derive();
        let places = fast_metadata(&child);
        // Mostly a few bytes in what is used, sometimes all of it.
        let damaged = if round % 10 == 0 { 20_000 } else { rng.u32(1..20) };
        for _ in 0..damaged {
            let (at, len) = places[rng.usize(..places.len())];
            let within = if rng.bool() { len.min(1024) } else { len };
            let value = if rng.bool() { rng.u8(..) } else { [0, 1, 127, 254, 255][rng.usize(..5)] };
            child.make_writable(at..at + len).unwrap();
            child.poke(at + rng.u64(..within), value);
        }
        if let Ok(malloc) = Malloc::open(Heap::open(child.clone()).unwrap()) {
            opened += 1;
            exercise_fast(&malloc, &mut rng);
        }
        child.assert_frozen_is_intact();
        malloc.check().unwrap();
    }
    assert!(opened > 20, "damage that is not found at once was tried {opened} times");
}

#[test]
fn a_cluster_without_memory_is_not_read() {
    let (memory, heap) = heap(64 << 20);
    let grant = heap.allocate(ByteLen(100)).unwrap();
    memory.publish();
    let child = memory.derive();
    // The manifest of a hostile parent may leave out what the top of the tree promises.
    let metadata = heap.stats().metadata;
    let clusters = heap.reserved().end.0;
    child.discard(clusters..clusters + (metadata - (64 << 10))).unwrap();
    let hostile = Heap::open(child).unwrap();
    assert!(matches!(hostile.free(grant.offset), Err(FreeError::Corrupt { .. })));
    assert!(hostile.check().is_err());
}

#[test]
fn the_checker_finds_any_flipped_byte_of_the_trees() {
    let seed = seed("the_checker_finds_any_flipped_byte_of_the_trees");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (memory, heap) = used_heap(&mut rng);
    heap.check().unwrap();
    let clusters = heap.reserved().end.0;
    let metadata = heap.stats().metadata - RESERVED_OFFSET;
    for _ in 0..300 {
        let at = clusters + rng.u64(..metadata);
        // The first bytes of a cluster stand for no node, nor does the second half in trees as low
        // as these.
        if !(2..0x8000).contains(&(at & 0xFFFF)) {
            continue;
        }
        let old = memory.peek(at);
        memory.poke(at, old.wrapping_add(rng.u8(1..)));
        assert!(heap.check().is_err(), "byte {at}");
        memory.poke(at, old);
    }
    heap.check().unwrap();
}

#[test]
fn memory_without_a_heap_is_not_opened() {
    let memory = TestMemory::new(64 << 20);
    assert!(matches!(Heap::open(memory.clone()), Err(HeapError::NoHeap { found: 0 })));
    memory.make_writable(0..4096).unwrap();
    assert!(matches!(Heap::open(memory.clone()), Err(HeapError::NoHeap { found: 0 })));
    let (used, _heap) = heap(64 << 20);
    used.poke(8, 99);
    assert!(matches!(Heap::open(used.clone()), Err(HeapError::Version { found: 99, .. })));
    used.poke(8, 1);
    used.poke(60, 1);
    assert!(matches!(Heap::open(used.clone()), Err(HeapError::Corrupt { .. })));
}

#[test]
fn a_heap_of_another_area_is_not_opened() {
    let (memory, _heap) = heap(64 << 20);
    let other = TestMemory::new(128 << 20);
    other.make_writable(0..64 << 10).unwrap();
    (0..64 << 10).for_each(|at| other.poke(at, memory.peek(at)));
    let found = Heap::open(other);
    assert!(matches!(found, Err(HeapError::Geometry { field: "reserve", .. })), "{found:?}");
}

#[test]
fn creating_without_memory_is_an_error() {
    for barriers in 0..3 {
        let memory = TestMemory::new(64 << 20);
        memory.fail_after(Some(barriers));
        let result = Heap::create(memory.clone(), Default::default());
        assert!(matches!(result, Err(HeapError::Write(_))), "{barriers}: {result:?}");
        memory.fail_after(None);
        Heap::create(memory, Default::default()).unwrap().check().unwrap();
    }
}
