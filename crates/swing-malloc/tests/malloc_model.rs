//! The fast part against a naive model: a map of what is allocated. The checker must agree with the
//! model after publishes, failing barriers, and in derived memory while the parent goes on.

mod common;

use common::world::{World, session};
use common::{TestMemory, seed};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use swing::{AreaOffset, ByteLen};
use swing_malloc::{
    AllocError, BlockClass, BlockTable, FreeError, Heap, HeapOptions, Malloc, Memory,
};

fn length(rng: &mut fastrand::Rng) -> u64 {
    let shift = match rng.u8(..10) {
        0..6 => rng.u32(0..11),
        6..9 => rng.u32(9..17),
        _ => rng.u32(15..23),
    };
    rng.u64(0..=1 << shift)
}

fn run(mut world: World, seed: u64, steps: u32) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut children: Vec<World> = Vec::new();
    for step in 0..steps {
        let growing = (step / 200) % 3 != 2;
        let which = rng.usize(0..=children.len());
        let count = children.len();
        let target = if which == 0 { &mut world } else { &mut children[which - 1] };
        match rng.u8(..100) {
            0 => target.publish(),
            1 => target.memory.fail_after(Some(rng.u64(..4))),
            2..8 => target.memory.fail_after(None),
            8 if count < 3 => {
                let child = target.derive();
                child.verify();
                children.push(child);
            }
            9 if count > 0 => children.swap_remove(0).empty(),
            10 => {
                // A failing barrier stops it half-way, which must show nowhere.
                let _ = target.malloc.drain();
            }
            11..20 => {
                let len = length(&mut rng);
                target.reallocate(rng.usize(..1 << 16), len);
            }
            n if (n < 70) == growing => {
                let align = if rng.u8(..6) == 0 { 1 << rng.u32(0..13) } else { 16 };
                target.allocate(length(&mut rng), align, rng.bool());
            }
            _ => target.free(rng.usize(..1 << 16)),
        }
        if step % 97 == 0 {
            world.verify();
            children.iter().for_each(World::verify);
        }
    }
    world.verify();
    world.empty();
    children.into_iter().for_each(World::empty);
}

#[test]
fn random_operations_agree_with_the_model() {
    let seed = seed("random_operations_agree_with_the_model");
    for (i, reserve) in [64 << 20, 256 << 20].into_iter().enumerate() {
        run(World::new(reserve), seed + i as u64, 1200);
    }
}

/// The same as the fuzz target `malloc`, from random bytes.
#[test]
fn sessions_made_from_bytes_agree_with_the_model() {
    let mut rng = fastrand::Rng::with_seed(seed("sessions_made_from_bytes_agree_with_the_model"));
    for _ in 0..16 {
        let bytes: Vec<u8> = (0..rng.usize(1..2000)).map(|_| rng.u8(..)).collect();
        session(&bytes);
    }
}

#[test]
fn threads_and_publishes_leave_every_state_whole() {
    let seed = seed("threads_and_publishes_leave_every_state_whole");
    let world = World::new(256 << 20);
    let done = AtomicBool::new(false);
    let kept: Vec<u64> = std::thread::scope(|scope| {
        let work = |id: u64| {
            let (malloc, done) = (world.malloc.clone(), &done);
            move || {
                let mut rng = fastrand::Rng::with_seed(seed + id);
                let mut mine = Vec::new();
                while !done.load(SeqCst) {
                    let len = length(&mut rng).min(100_000);
                    mine.push(malloc.allocate(ByteLen(len)).unwrap().offset.0);
                    if mine.len() > 400 {
                        for _ in 0..rng.usize(..300) {
                            let block = mine.swap_remove(rng.usize(..mine.len()));
                            malloc.free(AreaOffset(block)).unwrap();
                        }
                    }
                }
                mine
            }
        };
        let threads: Vec<_> = (0..8).map(|id| scope.spawn(work(id))).collect();
        for _ in 0..10 {
            let child = world.derive();
            child.malloc.check().unwrap();
            // The child goes on at once, with caches that other threads left.
            for len in [1, 100, 5000, 70_000] {
                let grant = child.malloc.allocate(ByteLen(len)).unwrap();
                child.malloc.free(grant.offset).unwrap();
            }
            child.malloc.check().unwrap();
        }
        done.store(true, SeqCst);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let report = world.malloc.check().unwrap();
    assert_eq!(report.blocks as usize, kept.len());
    assert_eq!(report.cached, 0, "threads that end give back what they hold");
    // Blocks are freed by another thread than the one that allocated them.
    for block in kept {
        world.malloc.free(AreaOffset(block)).unwrap();
    }
    assert_eq!(world.malloc.check().unwrap().blocks, 0);
    world.memory.assert_frozen_is_intact();
}

#[test]
fn after_a_publish_an_operation_copies_one_extent() {
    let world = World::new(1 << 30);
    let grants: Vec<_> =
        (0..10_000).map(|_| world.malloc.allocate(ByteLen(200)).unwrap()).collect();
    grants.iter().step_by(2).for_each(|grant| world.malloc.free(grant.offset).unwrap());
    world.publish();
    world.memory.take_copies();
    for _ in 0..20 {
        let grant = world.malloc.allocate(ByteLen(200)).unwrap();
        world.malloc.free(grant.offset).unwrap();
    }
    assert_eq!(world.memory.take_copies(), 1);
    // Freeing all over the heap: records and directory, never the blocks.
    grants.iter().skip(1).step_by(2).for_each(|g| world.malloc.free(g.offset).unwrap());
    assert!(world.memory.take_copies() <= 4);
    world.malloc.check().unwrap();
}

#[test]
fn blocks_of_an_earlier_process_are_freed_and_wrong_ones_refused() {
    let world = World::new(256 << 20);
    let sizes = [1, 1000, 20_000, 40_000, 1 << 20, 5 << 20];
    let grants: Vec<_> =
        sizes.iter().map(|len| world.malloc.allocate(ByteLen(*len)).unwrap()).collect();
    let later = world.derive();
    for grant in &grants {
        assert_eq!(later.malloc.usable_size(grant.offset), Some(grant.len));
        later.malloc.free(grant.offset).unwrap();
    }
    for wrong in [0, 64 << 10, 200 << 20, u64::MAX] {
        let refused = later.malloc.free(AreaOffset(wrong));
        assert!(matches!(refused, Err(FreeError::NotAllocated { .. })), "{wrong}: {refused:?}");
    }
    later.malloc.drain().unwrap();
    assert_eq!(later.malloc.check().unwrap().blocks, 0);
    assert_eq!(world.malloc.check().unwrap().blocks, sizes.len() as u64);
}

#[test]
fn a_block_that_is_freed_twice_is_found_by_the_checker() {
    let world = World::new(256 << 20);
    let blocks = [(); 3].map(|()| world.malloc.allocate(ByteLen(100)).unwrap().offset);
    // Not at once, which the second free would notice.
    for block in [0, 1, 2, 0] {
        world.malloc.free(blocks[block]).unwrap();
    }
    assert_eq!(world.malloc.check().unwrap_err().invariant, "INV-MALLOC-4");
}

#[test]
fn a_damaged_directory_is_refused() {
    let world = World::new(256 << 20);
    world.malloc.allocate(ByteLen(100)).unwrap();
    for (value, name) in [(64_u64 << 10, "reserved part"), (u64::MAX - 7, "outside"), (77, "odd")] {
        let memory = world.derive().memory;
        memory.make_writable(0..4096).unwrap();
        // SAFETY: the header is writable and nobody else uses this memory.
        unsafe { memory.base().as_ptr().add(544).cast::<u64>().write(value) };
        let heap = Heap::open(memory).unwrap();
        assert!(Malloc::open(heap).is_err(), "{name}");
    }
}

#[test]
fn a_damaged_cache_is_not_used() {
    let world = World::new(256 << 20);
    let grant = world.malloc.allocate(ByteLen(100)).unwrap();
    let number = |at: u64| {
        let bytes: Vec<u8> = (at..at + 8).map(|at| world.memory.peek(at)).collect();
        u64::from_le_bytes(bytes.try_into().unwrap())
    };
    let cache = number(number(544) + 512);
    let (first_top, floor) = (cache, cache + 256);
    for (at, bytes) in [
        (first_top, [0_u8, 0]),       // below its stack
        (first_top, [255, 255]),      // above it
        (floor, [16, 0]),             // would be handed out
        (floor + 8 * 129, [0, 0]),    // would be overwritten
        (first_top + 2 * 6, [78, 4]), // another stack's: blocks of another class
    ] {
        let later = world.derive();
        let undamaged = later.memory.derive();
        bytes.iter().zip(at..).for_each(|(byte, at)| later.memory.poke(at, *byte));
        let damaged = Malloc::open(Heap::open(later.memory.clone()).unwrap()).unwrap();
        let refused = damaged.allocate(ByteLen(100));
        assert!(matches!(refused, Err(AllocError::Corrupt { .. })), "{at}: {refused:?}");
        assert!(damaged.check().is_err(), "{at}");
        let sound = Malloc::open(Heap::open(undamaged).unwrap()).unwrap();
        assert_ne!(sound.allocate(ByteLen(100)).unwrap().offset, grant.offset);
        sound.check().unwrap();
    }
}

#[test]
fn large_blocks_grow_where_they_are() {
    let memory = TestMemory::new(256 << 20);
    let options = HeapOptions { blocks: BlockTable::None, ..HeapOptions::default() };
    let heap = Heap::create(memory.clone(), options).unwrap();
    let world = World { memory, malloc: Malloc::open(heap).unwrap(), model: BTreeMap::new() };
    // So that what follows begins at a multiple of 8 MiB.
    let before = world.malloc.heap().allocate(ByteLen(4 << 20)).unwrap();
    let grant = world.malloc.allocate(ByteLen(64 << 10)).unwrap();
    let grown = world.malloc.reallocate(grant.offset, ByteLen(4 << 20)).unwrap();
    assert_eq!((grown.offset, grown.len), (grant.offset, ByteLen(4 << 20)));
    let next = world.malloc.heap().allocate(ByteLen(4 << 20)).unwrap();
    assert_eq!(next.offset.0, grown.offset.0 + (4 << 20));
    assert_eq!(world.malloc.grow(grown.offset, ByteLen(5 << 20)), None);
    world.malloc.heap().free(next.offset).unwrap();
    let more = world.malloc.grow(grown.offset, ByteLen(5 << 20));
    assert_eq!(more, Some(ByteLen(8 << 20)));
    world.malloc.heap().free(before.offset).unwrap();
    world.malloc.free(grown.offset).unwrap();
    world.malloc.drain().unwrap();
    assert_eq!(world.malloc.check().unwrap().blocks, 0);
}

/// A block of the table may be longer than its class and shorter than the next one.
#[test]
fn growing_gives_what_was_asked_for_or_nothing() {
    let memory = TestMemory::new(256 << 20);
    let blocks = BlockTable::Custom(vec![BlockClass { size: 6 << 20, count: 8 }]);
    let options = HeapOptions { blocks, buddy_limit: Some(2 << 20), ..HeapOptions::default() };
    let heap = Heap::create(memory, options).unwrap();
    let malloc = Malloc::open(heap).unwrap();
    let block = malloc.allocate(ByteLen(4 << 20)).unwrap();
    assert_eq!(malloc.grow(block.offset, ByteLen(5 << 20)), None);
    let grown = malloc.reallocate(block.offset, ByteLen(5 << 20)).unwrap();
    assert!(grown.len.0 >= 5 << 20, "{grown:?}");
}

/// What threads keep is given back before an aligned request is refused.
#[test]
fn an_aligned_block_comes_from_what_caches_hold() {
    let world = World::new(64 << 20);
    let mut blocks = Vec::new();
    while let Ok(grant) = world.malloc.allocate(ByteLen(4 << 20)) {
        blocks.push(grant.offset);
    }
    assert!(!blocks.is_empty());
    blocks.iter().for_each(|block| world.malloc.free(*block).unwrap());
    let aligned = world.malloc.allocate_aligned(ByteLen(4 << 20), ByteLen(4 << 20)).unwrap();
    assert!(aligned.offset.0.is_multiple_of(4 << 20));
}

/// A slab that cannot be given back for want of memory stays a slab.
#[test]
fn no_slab_is_lost_when_there_is_no_memory() {
    for barriers in 0..10 {
        let world = World::new(256 << 20);
        let blocks: Vec<_> =
            (0..24).map(|_| world.malloc.allocate(ByteLen(32 << 10)).unwrap().offset).collect();
        blocks.iter().for_each(|block| world.malloc.free(*block).unwrap());
        world.publish();
        world.memory.fail_after(Some(barriers));
        let _ = world.malloc.drain();
        world.memory.fail_after(None);
        world.malloc.drain().unwrap();
        assert_eq!(world.malloc.check().unwrap().blocks, 0, "after {barriers} barriers");
        world.memory.assert_frozen_is_intact();
    }
}
