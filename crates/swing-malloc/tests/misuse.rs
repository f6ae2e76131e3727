//! A block that is freed twice, and an address inside a block that is freed: what is noticed, at
//! once or later, and that what is noticed has changed nothing.

mod common;

use common::world::World;
use common::{TestMemory, heap};
use std::sync::Barrier;
use swing::{AreaOffset, ByteLen};
use swing_malloc::{FreeError, Malloc, Memory};

/// Of each kind: slabs up to 1 KiB, slabs above, without slabs, and above what is kept with memory.
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
            let [first, second] = [(); 2].map(|()| get(&world.malloc, len));
            if stored {
                world.memory.make_writable(first..first + len).unwrap();
            }
            world.malloc.free(AreaOffset(first)).unwrap();
            refused(&world.malloc, first);
            // Nor when another was freed in between.
            world.malloc.free(AreaOffset(second)).unwrap();
            refused(&world.malloc, first);
            refused(&world.malloc, second);
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
fn a_block_above_32_kib_that_another_thread_has_freed_is_free() {
    let (_memory, heap) = heap(256 << 20);
    let malloc = Malloc::open(heap).unwrap();
    let blocks = [get(&malloc, 40_000), get(&malloc, 1 << 20), get(&malloc, 8 << 20)];
    let done = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            blocks.iter().for_each(|block| malloc.free(AreaOffset(*block)).unwrap());
            done.wait();
            // Its cache stays as long as it does.
            done.wait();
        });
        done.wait();
        let seen = blocks.map(|block| {
            let offset = AreaOffset(block);
            (malloc.usable_size(offset), malloc.block_at(offset).is_ok(), malloc.free(offset))
        });
        done.wait();
        for (usable, is_block, freed) in seen {
            assert!(usable.is_none() && !is_block);
            assert!(matches!(freed, Err(FreeError::NotAllocated { .. })), "{freed:?}");
        }
    });
    assert_eq!(malloc.check().unwrap().blocks, 0);
    // Handed out again they are in use.
    for block in [40_000, 1 << 20, 8 << 20].map(|len| get(&malloc, len)) {
        assert!(malloc.usable_size(AreaOffset(block)).is_some());
        malloc.free(AreaOffset(block)).unwrap();
    }
}

#[test]
fn an_address_inside_a_block_is_refused() {
    let world = World::new(256 << 20);
    for len in LENGTHS {
        let grant = world.malloc.allocate(ByteLen(len)).unwrap();
        let (block, len) = (grant.offset.0, grant.len.0);
        // Of blocks up to 1 KiB only what is no multiple of 16 is noticed at once.
        let step = if len > 1024 { 16 } else { 8 };
        for inside in [1, 8, step, len / 2 + 8, len - step, len - 1] {
            if inside % len != 0 && (len > 1024 || inside % 16 != 0) {
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
