//! A block that is freed twice, and an address inside a block that is freed: what is noticed, at
//! once or later, and that what is noticed has changed nothing.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::TestMemory;
use common::world::World;
use swing::{AreaOffset, ByteLen, WriteError};
use swing_malloc::{AllocError, FreeError, Malloc, Memory};

/// Of each kind: in slabs, without slabs, and above what is kept with memory.
const LENGTHS: [u64; 9] = [16, 48, 100, 1024, 1280, 5000, 32 << 10, 100_000, 4 << 20];

fn refused(malloc: &Malloc<TestMemory>, offset: u64) {
    let freed = malloc.free(AreaOffset(offset));
    let told = matches!(freed, Err(FreeError::NotAllocated { offset: at }) if at == offset);
    assert!(told, "{offset}: {freed:?}");
}

fn get(malloc: &Malloc<TestMemory>, len: u64) -> u64 {
    malloc.allocate(ByteLen(len)).unwrap().offset.0
}

#[test]
fn a_second_free_is_refused() {
    for stored in [false, true] {
        let world = World::new(256 << 20);
        for len in LENGTHS {
            let block = get(&world.malloc, len);
            if stored {
                world.memory.make_writable(block..block + len).unwrap();
            }
            world.malloc.free(AreaOffset(block)).unwrap();
            refused(&world.malloc, block);
            refused(&world.malloc, block);
        }
        assert_eq!(world.malloc.check().unwrap().blocks, 0);
    }
}

/// When its gate is closed, and when its cache is full, a thread looks everywhere.
#[test]
fn a_second_free_after_a_publish_is_refused() {
    let world = World::new(256 << 20);
    for len in LENGTHS {
        let blocks: Vec<u64> = (0..30).map(|_| get(&world.malloc, len)).collect();
        blocks.iter().for_each(|block| world.malloc.free(AreaOffset(*block)).unwrap());
        for block in blocks {
            world.publish();
            refused(&world.malloc, block);
        }
        world.malloc.drain().unwrap();
        // The thread keeps nothing, slabs and heap know.
        world.publish();
        let again = get(&world.malloc, len);
        world.malloc.free(AreaOffset(again)).unwrap();
        world.malloc.drain().unwrap();
        refused(&world.malloc, again);
    }
    assert_eq!(world.malloc.check().unwrap().blocks, 0);
}

#[test]
fn an_address_inside_a_block_is_refused() {
    let world = World::new(256 << 20);
    for len in LENGTHS {
        let grant = world.malloc.allocate(ByteLen(len)).unwrap();
        let (block, len) = (grant.offset.0, grant.len.0);
        // In slabs only what is no multiple of 16 is noticed at once.
        let in_slab = len <= 32 << 10;
        for inside in [1, 8, 16, len / 2 + 8, len / 2, len - 16, len - 1] {
            if inside % len != 0 && !(in_slab && inside % 16 == 0) {
                refused(&world.malloc, block + inside);
            }
        }
        world.malloc.free(grant.offset).unwrap();
    }
    assert_eq!(world.malloc.check().unwrap().blocks, 0);
}

/// What the fast path lets pass is noticed when the cache gives its blocks back.
#[test]
fn what_passes_is_found_later() {
    for wrong in [0, 16] {
        let world = World::new(256 << 20);
        let blocks: Vec<u64> = (0..400).map(|_| get(&world.malloc, 48)).collect();
        let free = |block: u64| world.malloc.free(AreaOffset(block));
        blocks[..3].iter().for_each(|block| free(*block).unwrap());
        free(blocks[0] + wrong).unwrap();
        assert_eq!(world.malloc.check().unwrap_err().invariant, "INV-MALLOC-4");
        let found = blocks[3..].iter().find_map(|block| free(*block).err());
        let told = matches!(found, Some(FreeError::NotAllocated { offset }) if
            offset == blocks[0] + wrong);
        assert!(told, "{found:?}");
    }
}

/// A state that is taken over tells what its caches hold from what is in use.
#[test]
fn what_an_earlier_process_freed_is_free() {
    let world = World::new(256 << 20);
    let blocks: Vec<u64> = LENGTHS.iter().map(|len| get(&world.malloc, *len)).collect();
    blocks.iter().for_each(|block| world.malloc.free(AreaOffset(*block)).unwrap());
    let later = world.derive();
    // Its thread takes the cache over.
    let other = get(&later.malloc, 200);
    blocks.iter().for_each(|block| refused(&later.malloc, *block));
    later.malloc.free(AreaOffset(other)).unwrap();
    assert_eq!(later.malloc.check().unwrap().blocks, 0);
}

/// What the allocator keeps for itself is no block of the program, though the heap has it as one.
#[test]
fn the_allocators_own_memory_cannot_be_freed() {
    let world = World::new(256 << 20);
    get(&world.malloc, 100);
    let number = |at: u64| {
        (0..8).rev().fold(0, |all, byte| all << 8 | u64::from(world.memory.peek(at + byte)))
    };
    let (directory, cache) = (number(544), number(number(544) + 512));
    for place in [directory, number(directory + 24), cache] {
        refused(&world.malloc, place);
        assert_eq!(world.malloc.usable_size(AreaOffset(place)), None);
    }
    assert_eq!(world.malloc.check().unwrap().blocks, 1);
}

/// A thread that freed a block twice, and ended, does not keep others from allocating.
#[test]
fn a_cache_with_a_block_twice_is_left_in_order() {
    let world = World::new(256 << 20);
    std::thread::scope(|scope| {
        let freed = scope.spawn(|| {
            let blocks = [0, 1, 2].map(|_| get(&world.malloc, 48));
            blocks.iter().for_each(|block| world.malloc.free(AreaOffset(*block)).unwrap());
            world.malloc.free(AreaOffset(blocks[0])).unwrap();
        });
        freed.join().unwrap();
    });
    let blocks: std::collections::HashSet<u64> = (0..400).map(|_| get(&world.malloc, 48)).collect();
    assert_eq!(blocks.len(), 400, "no block is handed out twice");
    assert_eq!(world.malloc.check().unwrap().blocks, 400);
}

/// What is half changed is not used any more, whatever it was that has met a broken invariant.
#[test]
fn after_a_panic_in_a_change_nothing_is_allocated_or_freed() {
    type Work = fn(&World, u64, u64);
    let works: [Work; 4] = [
        |world, _, _| drop(world.malloc.heap().allocate(ByteLen(5000))),
        |world, _, block| drop(world.malloc.heap().free(AreaOffset(block))),
        |world, _, _| drop(world.malloc.allocate(ByteLen(100))),
        |world, cached, _| drop(world.malloc.free(AreaOffset(cached))),
    ];
    for work in works {
        let world = World::new(256 << 20);
        let cached = get(&world.malloc, 100);
        let block = world.malloc.heap().allocate(ByteLen(5000)).unwrap().offset.0;
        world.publish();
        world.memory.panic_next();
        let panics = catch_unwind(AssertUnwindSafe(|| work(&world, cached, block)));
        assert!(panics.is_err(), "it changes metadata that was published");
        let (malloc, heap) = (&world.malloc, world.malloc.heap());
        let allocated = [malloc.allocate(ByteLen(100)), heap.allocate(ByteLen(5000))];
        for refused in allocated {
            assert!(matches!(refused, Err(AllocError::Write(WriteError::Broken))), "{refused:?}");
        }
        let freed = [malloc.free(AreaOffset(cached)), heap.free(AreaOffset(block)), malloc.drain()];
        for refused in freed {
            assert!(matches!(refused, Err(FreeError::Write(WriteError::Broken))), "{refused:?}");
        }
    }
}
