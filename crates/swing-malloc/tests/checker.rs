//! The checker finds every byte of metadata that is not what it must be: each one that says
//! something is changed, in turn, in an allocator in the middle of its life. What another life
//! could have led to is no violation, a block more in a cache and one less with the program; then
//! the list of blocks is not the program's any more.

mod common;

use common::world::World;
use common::{TestMemory, seed};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use swing::{AreaOffset, ByteLen};
use swing_malloc::{FreeError, Heap, HeapOptions, Malloc, Memory, Space};

/// Bytes of metadata that say something.
struct Places(Vec<(&'static str, u64)>);

impl Places {
    fn add(&mut self, what: &'static str, start: u64, len: u64) {
        self.0.extend((start..start + len).map(|at| (what, at)));
    }
}

fn number(memory: &TestMemory, at: u64, len: u64) -> u64 {
    (0..len).rev().fold(0, |all, byte| all << 8 | u64::from(memory.peek(at + byte)))
}

/// As `fast/record.rs` and `fast/cache.rs` lay them out.
fn places(memory: &TestMemory) -> Places {
    let mut places = Places(Vec::new());
    let directory = number(memory, 544, 8);
    let (records, caches) = (number(memory, directory + 8, 4), number(memory, directory + 20, 4));
    places.add("header", 0, 128);
    places.add("place of the directory", 544, 8);
    places.add("directory", directory, 40);
    places.add("heads of lists", directory + 64, 4 * 40);
    places.add("places of caches", directory + 512, 8 * caches);
    let mut chunk = number(memory, directory + 24, 8);
    for first in (0..records).step_by(170) {
        places.add("next chunk", chunk, 8);
        for record in first..records.min(first + 170) {
            let at = chunk + 64 + (record - first) * 192;
            places.add("record", at, 24);
            if number(memory, at, 8) != 0 {
                places.add("bits", at + 64, 128);
            }
        }
        chunk = number(memory, chunk, 8);
    }
    for slot in 0..caches {
        let cache = number(memory, directory + 512 + 8 * slot, 8);
        places.add("tops", cache, 2 * 65);
        let mut floor = 32;
        for class in 0..65 {
            // Up to 1 KiB, four classes to a doubling above 128 B, a stack holds more.
            let room = if class < 20 { 128 } else { 32 };
            let held = number(memory, cache + 2 * class, 2) - floor;
            places.add("stack", cache + 8 * floor, 8 * (held + 1));
            places.add("end of a stack", cache + 8 * (floor + room + 1), 8);
            floor += room + 2;
        }
    }
    places
}

fn lived(rng: &mut fastrand::Rng) -> World {
    let world = World::new(256 << 20);
    let mut blocks = Vec::new();
    for _ in 0..3000 {
        let shift = rng.u32(3..20);
        blocks.push(world.malloc.allocate(ByteLen(rng.u64(1..=1 << shift))).unwrap().offset);
        if blocks.len() > 400 {
            world.malloc.free(blocks.swap_remove(rng.usize(..blocks.len()))).unwrap();
        }
    }
    // Slabs go, so that records are free, too.
    for block in blocks.drain(100..) {
        world.malloc.free(block).unwrap();
    }
    world.malloc.drain().unwrap();
    for _ in 0..200 {
        world.malloc.allocate(ByteLen(rng.u64(1..3000))).unwrap();
    }
    world
}

fn missed(memory: &Arc<TestMemory>, malloc: &Malloc<TestMemory>, seed: u64) -> Vec<String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let expected = malloc.blocks().unwrap();
    let Places(places) = places(memory);
    assert!(places.len() > 5000, "{} bytes", places.len());
    let mut missed = Vec::new();
    for (what, at) in places {
        // Of the many alike some are enough.
        if matches!(what, "bits" | "stack" | "end of a stack") && rng.u8(..) > 20 {
            continue;
        }
        let old = memory.peek(at);
        let new = old ^ 1 << rng.u8(..8);
        memory.poke(at, new);
        if malloc.blocks().is_ok_and(|blocks| blocks == expected) {
            missed.push(format!("{what} at {at}: {new} for {old}"));
        }
        memory.poke(at, old);
    }
    assert_eq!(malloc.blocks().unwrap(), expected);
    missed
}

#[test]
fn no_changed_byte_is_missed() {
    let seed = seed("no_changed_byte_is_missed");
    let world = lived(&mut fastrand::Rng::with_seed(seed));
    let missed = missed(&world.memory, &world.malloc, seed);
    assert!(missed.is_empty(), "{} missed: {:#?}", missed.len(), &missed[..missed.len().min(40)]);
}

/// Damage that is there when a heap is opened is found then, or by the checker.
#[test]
fn no_changed_byte_is_missed_by_who_opens_the_heap() {
    let seed = seed("no_changed_byte_is_missed_by_who_opens_the_heap");
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = lived(&mut rng);
    let expected = world.malloc.blocks().unwrap();
    let Places(places) = places(&world.memory);
    for _ in 0..300 {
        let (what, at) = places[rng.usize(..places.len())];
        let later = world.derive().memory;
        later.make_writable(at..at + 1).unwrap();
        let old = later.peek(at);
        later.poke(at, old ^ 1 << rng.u8(..8));
        let opened = Heap::open(later).and_then(Malloc::open);
        let found = opened.map_err(drop).and_then(|malloc| malloc.blocks().map_err(drop));
        assert!(found.is_err() || found != Ok(expected.clone()), "{what} at {at}, was {old}");
    }
}

#[test]
fn who_looks_before_freeing_hears_of_mistakes() {
    let seed = seed("who_looks_before_freeing_hears_of_mistakes");
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = lived(&mut rng);
    let blocks = world.malloc.blocks().unwrap();
    let begins: HashSet<u64> = blocks.iter().map(|grant| grant.offset.0).collect();
    for grant in &blocks {
        // Directory, records, caches and slabs are the heap's blocks, too, and not among these.
        assert_eq!(world.malloc.block_at(grant.offset).unwrap(), grant.len);
        let inside = grant.offset.0 + rng.u64(1..grant.len.0);
        assert!(world.malloc.block_at(AreaOffset(inside)).is_err(), "{inside}");
    }
    let freed: Vec<_> = (0..20).map(|_| blocks[rng.usize(..blocks.len())].offset).collect();
    for offset in freed.iter().collect::<BTreeSet<_>>() {
        world.malloc.free(*offset).unwrap();
        let again = world.malloc.block_at(*offset).unwrap_err();
        assert!(matches!(again, FreeError::NotAllocated { .. }), "{again}");
        assert!(begins.contains(&offset.0));
    }
    for nowhere in [0, 544, 64 << 10, (256 << 20) - 16, 256 << 20, u64::MAX] {
        assert!(world.malloc.block_at(AreaOffset(nowhere)).is_err(), "{nowhere}");
    }
    world.malloc.check().unwrap();
}

/// The shortest areas: all extents are small, and there is no room for a cache of each thread.
#[test]
fn a_short_area_serves_many_threads() {
    let space = Space {
        reserve: 2 << 20,
        small_zone: 1 << 20,
        small_extent: 64 << 10,
        data_extent: 64 << 10,
    };
    let heap = Heap::create(TestMemory::with(space), HeapOptions::default()).unwrap();
    let malloc = Malloc::open(heap).unwrap();
    std::thread::scope(|scope| {
        for id in 0..16_u64 {
            let malloc = &malloc;
            scope.spawn(move || {
                let mut mine = Vec::new();
                for i in 0..300 {
                    if let Ok(grant) = malloc.allocate(ByteLen((id * 37 + i) % 700)) {
                        mine.push(grant.offset);
                    }
                    if mine.len() > 10 {
                        malloc.free(mine.swap_remove((i % 7) as usize)).unwrap();
                    }
                }
                assert!(mine.len() >= 10, "thread {id} got {}", mine.len());
                mine.into_iter().for_each(|block| malloc.free(block).unwrap());
            });
        }
    });
    malloc.drain().unwrap();
    assert_eq!(malloc.check().unwrap().blocks, 0);
}
