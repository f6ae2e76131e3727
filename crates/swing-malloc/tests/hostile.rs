//! Metadata that somebody damaged: every operation answers with a typed error or a block inside the
//! area, and nothing panics or touches memory outside (the heap asserts each metadata access, and
//! test memory each range).

mod common;

use common::{TestMemory, heap, seed};
use std::sync::Arc;
use swing::{AreaOffset, ByteLen};
use swing_malloc::{AllocError, FreeError, Heap, HeapError, Malloc, Memory, RESERVED_OFFSET};

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

fn set(memory: &TestMemory, at: u64, value: u64, bytes: u64) {
    memory.make_writable(at..at + bytes).unwrap();
    (0..bytes).for_each(|i| memory.poke(at + i, (value >> (8 * i)) as u8));
}

fn get(memory: &TestMemory, at: u64) -> u64 {
    (0..8).rev().fold(0, |all, byte| all << 8 | u64::from(memory.peek(at + byte)))
}

/// A heap whose fast part has slabs, opened after `damage` of its bytes, which gets the places of
/// the directory, the first chunk of records and the first cache.
fn damaged(damage: impl Fn(&TestMemory, [u64; 3])) -> Result<Malloc<TestMemory>, HeapError> {
    let (memory, heap) = heap(256 << 20);
    let malloc = Malloc::open(heap).unwrap();
    for len in [100, 1000, 32 << 10, 64 << 10] {
        let blocks: Vec<_> = (0..40).map(|_| malloc.allocate(ByteLen(len)).unwrap()).collect();
        blocks.iter().step_by(2).for_each(|block| malloc.free(block.offset).unwrap());
    }
    malloc.drain().unwrap();
    memory.publish();
    let child = memory.derive();
    let directory = get(&child, 544);
    damage(&child, [directory, get(&child, directory + 24), get(&child, directory + 512)]);
    Malloc::open(Heap::open(child)?)
}

/// Allocates and frees blocks of all kinds; whether that was refused as corrupt at least once.
fn used(malloc: &Malloc<TestMemory>) -> bool {
    let header: Vec<u8> = (0..512).map(|at| malloc.heap().area().peek(at)).collect();
    let mut refused = false;
    for len in [100, 1000, 32 << 10, 64 << 10].repeat(30) {
        match malloc.allocate(ByteLen(len)) {
            Ok(grant) => {
                let (start, end) = (grant.offset.0, grant.offset.0 + grant.len.0);
                let space = malloc.heap().area().space();
                assert!(grant.len.0 >= len && end <= space.reserve, "{start} {end}");
                assert!(start >= malloc.heap().reserved().end.0, "{start}");
            }
            Err(error) => refused |= matches!(error, AllocError::Corrupt { .. }),
        }
    }
    assert_eq!(header, (0..512).map(|at| malloc.heap().area().peek(at)).collect::<Vec<_>>());
    refused
}

#[test]
fn the_place_of_the_last_chunk_is_not_believed() {
    for last in [1 << 40, u64::MAX - 3, 0x200] {
        let damage = |memory: &TestMemory, [directory, ..]: [u64; 3]| {
            set(memory, directory + 32, last, 8);
            // All records of the chunk are in use: the next one needs another chunk.
            set(memory, directory + 8, 170, 4);
            set(memory, directory + 16, 0, 4);
        };
        assert!(!used(&damaged(damage).unwrap()), "{last:#x}");
    }
}

#[test]
fn what_a_record_says_is_checked_before_blocks_are_taken() {
    let record = |chunk: u64, index: u64| chunk + 64 + 192 * index;
    for case in 0..4 {
        let damage = |memory: &TestMemory, [directory, chunk, _]: [u64; 3]| match case {
            // Blocks beyond the slab, and beyond the area.
            0 => (0..40).for_each(|i| set(memory, record(chunk, i) + 64 + 8 * 15, u64::MAX, 8)),
            // More of them than there are bits.
            1 => (0..40).for_each(|i| set(memory, record(chunk, i) + 12, 1000, 4)),
            // A class whose blocks are shorter.
            2 => {
                let mut heads = (64..224).step_by(4).map(|at| get(memory, directory + at) as u32);
                let short = heads.find(|head| *head != 0).unwrap();
                (64..224).step_by(4).for_each(|at| set(memory, directory + at, short.into(), 4));
            }
            // A record that is not in use.
            _ => {
                set(memory, directory + 8, 170, 4);
                set(memory, record(chunk, 169) + 64, u64::MAX, 8);
                set(memory, record(chunk, 169) + 12, 64, 4);
                (64..224).step_by(4).for_each(|at| set(memory, directory + at, 170, 4));
            }
        };
        assert!(used(&damaged(damage).unwrap()), "case {case}");
    }
}

#[test]
fn metadata_lies_in_blocks_of_its_own() {
    let in_reserved_part = RESERVED_OFFSET;
    for case in 0..4 {
        let damage = |memory: &TestMemory, [directory, chunk, cache]: [u64; 3]| match case {
            0 => set(memory, directory + 512, in_reserved_part, 8),
            1 => {
                set(memory, directory + 520, cache, 8);
                set(memory, directory + 20, 2, 4);
            }
            2 => {
                set(memory, chunk, chunk, 8);
                set(memory, directory + 12, 2, 4);
            }
            _ => {
                let heap = Heap::open(memory.derive()).unwrap();
                heap.free_exact(AreaOffset(directory), ByteLen(8 << 10)).unwrap();
                // What a heap below would do with it.
                let at = (0..memory.space().small_zone)
                    .find(|at| heap.area().peek(*at) != memory.peek(*at));
                let at = at.unwrap();
                (at..memory.space().small_zone.min(at + (1 << 20)))
                    .filter(|at| heap.area().peek(*at) != memory.peek(*at))
                    .for_each(|at| set(memory, at, heap.area().peek(at).into(), 1));
            }
        };
        assert!(matches!(damaged(damage), Err(HeapError::Corrupt { .. })), "case {case}");
    }
}

#[test]
fn large_blocks_in_a_cache_are_blocks() {
    for wrong in [16, 0] {
        let (memory, heap) = heap(256 << 20);
        let malloc = Malloc::open(heap).unwrap();
        let [first, second] = [0, 1].map(|_| malloc.allocate(ByteLen(64 << 10)).unwrap().offset);
        malloc.free(first).unwrap();
        malloc.free(second).unwrap();
        memory.publish();
        let child = memory.derive();
        let cache = get(&child, get(&child, 544) + 512);
        let at = (cache..cache + (64 << 10)).step_by(8).find(|at| get(&child, *at) == second.0);
        set(&child, at.unwrap(), first.0 + wrong, 8);
        let malloc = Malloc::open(Heap::open(child).unwrap()).unwrap();
        let refused = malloc.allocate(ByteLen(64 << 10));
        assert!(matches!(refused, Err(AllocError::Corrupt { .. })), "{wrong}: {refused:?}");
    }
}

/// After an error the next request looks where the one before wanted to be.
#[test]
fn a_cluster_that_was_never_written_is_not_read() {
    for barriers in 0..4 {
        let (memory, heap) = heap(1 << 30);
        memory.publish();
        memory.fail_after(Some(barriers));
        while heap.allocate(ByteLen(64 << 10)).is_ok() {}
        for len in [64 << 10, 100, 5000] {
            let refused = heap.allocate(ByteLen(len));
            assert!(matches!(refused, Err(AllocError::Write(_))), "{barriers} {len} {refused:?}");
        }
        memory.fail_after(None);
        for len in [64 << 10, 100, 5000] {
            heap.allocate(ByteLen(len)).unwrap();
        }
        heap.check().unwrap();
    }
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
