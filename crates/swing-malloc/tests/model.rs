//! Random operations against a naive model: a map of what is allocated. After every few steps the
//! checker must agree with the model, also after publishes, barriers that fail, and in derived
//! memory while the parent goes on.

mod common;

use common::{TestMemory, heap, seed};
use std::collections::BTreeMap;
use std::sync::Arc;
use swing::{AreaOffset, ByteLen};
use swing_malloc::{
    AllocError, BlockClass, BlockTable, FreeError, Heap, HeapOptions, Memory, SMALL_LIMIT,
};

/// A heap and what must be allocated in it: offset to (length granted, length asked if exact).
struct World {
    memory: Arc<TestMemory>,
    heap: Heap<TestMemory>,
    model: BTreeMap<u64, (u64, Option<u64>)>,
}

impl World {
    fn derive(&self) -> World {
        self.memory.publish();
        let memory = self.memory.derive();
        let heap = Heap::open(memory.clone()).unwrap();
        World { memory, heap, model: self.model.clone() }
    }

    fn allocate(&mut self, rng: &mut fastrand::Rng) {
        let len = length(rng);
        let exact = rng.bool();
        let align = if exact && rng.u8(..8) == 0 { 1 << rng.u32(0..23) } else { 1 };
        let result = if exact {
            let offset = self.heap.allocate_exact(ByteLen(len), ByteLen(align));
            let whole = |at: u64| self.granted(at, len);
            offset.map(|offset| (offset.0, whole(offset.0)))
        } else {
            self.heap.allocate(ByteLen(len)).map(|grant| (grant.offset.0, grant.len.0))
        };
        let (offset, granted) = match result {
            Ok(block) => block,
            Err(AllocError::Exhausted { .. } | AllocError::Write(_)) => return,
            Err(AllocError::Length { .. }) if len > self.memory.space().reserve => return,
            Err(error) => panic!("{error}"),
        };
        assert!(granted >= len && offset.is_multiple_of(align));
        assert!(offset.is_multiple_of(128));
        let space = self.memory.space();
        assert!(offset + granted <= space.reserve);
        if len >= SMALL_LIMIT {
            assert!(offset >= space.small_zone);
        }
        if len >= space.data_extent {
            assert!(offset.is_multiple_of(space.data_extent));
        }
        if let Some((before, (size, _))) = self.model.range(..offset + granted).next_back() {
            assert!(before + size <= offset, "overlaps the block at {before}");
        }
        self.model.insert(offset, (granted, exact.then_some(len)));
        if rng.u8(..4) != 0 {
            // The user of the block passes the barrier and stores; a failure is the user's to
            // handle.
            let _ = self.memory.make_writable(offset..offset + granted.min(4 << 20));
        }
    }

    /// What an exact allocation takes: a multiple of the zone's granule, or a whole large block.
    fn granted(&self, offset: u64, len: u64) -> u64 {
        let space = self.memory.space();
        if offset < space.small_zone {
            return len.next_multiple_of(128);
        }
        let size = self.heap.usable_size(AreaOffset(offset)).unwrap().unwrap().0;
        // The first piece of a buddy block is the largest power of two in its length; a large block
        // is larger.
        let whole = len.next_multiple_of(4096);
        if size > whole { size } else { whole }
    }

    fn free(&mut self, rng: &mut fastrand::Rng) {
        let Some(offset) = self.pick(rng) else { return };
        let (granted, exact) = self.model[&offset];
        let result = match exact {
            Some(len) => self.heap.free_exact(AreaOffset(offset), ByteLen(len)),
            None if rng.bool() => self.heap.free_exact(AreaOffset(offset), ByteLen(granted)),
            None => self.heap.free(AreaOffset(offset)),
        };
        match result {
            Ok(()) => {
                self.model.remove(&offset);
                let again = self.heap.free(AreaOffset(offset));
                assert!(matches!(again, Err(FreeError::NotAllocated { .. })), "{again:?}");
            }
            Err(FreeError::Write(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn free_wrongly(&mut self, rng: &mut fastrand::Rng) {
        let Some(offset) = self.pick(rng) else { return };
        let (granted, _) = self.model[&offset];
        for wrong in [offset + 128, offset + 1, offset + granted / 2, u64::MAX, 0, 64 << 10] {
            // The middle of an exact block may begin a piece of it; only blocks of one piece are
            // tried there.
            if !self.model.contains_key(&wrong) && granted.is_power_of_two() {
                assert!(self.heap.free(AreaOffset(wrong)).is_err(), "{wrong} in {offset}");
            }
        }
        assert!(self.heap.free_exact(AreaOffset(offset), ByteLen(granted * 2 + 1)).is_err());
        assert!(self.heap.free_exact(AreaOffset(offset), ByteLen(u64::MAX)).is_err());
    }

    fn pick(&self, rng: &mut fastrand::Rng) -> Option<u64> {
        let nth = rng.usize(..self.model.len().max(1));
        self.model.keys().nth(nth).copied()
    }

    fn verify(&self) {
        self.memory.assert_frozen_is_intact();
        let blocks = self.heap.blocks().unwrap_or_else(|error| panic!("{error}"));
        let mut blocks = blocks.iter().map(|grant| (grant.offset.0, grant.len.0)).peekable();
        for (offset, (granted, _)) in &self.model {
            let mut at = *offset;
            while at < offset + granted {
                let (start, len) = blocks.next().expect("a block is missing");
                assert_eq!(start, at, "block at {offset}");
                at += len;
            }
            assert_eq!(at, offset + granted);
        }
        assert_eq!(blocks.next(), None, "a block that nobody has");
        let stats = self.heap.stats();
        let bytes: u64 = self.model.values().map(|(granted, _)| granted).sum();
        assert_eq!(stats.small.used + stats.data.used + stats.large_bytes, bytes);
    }

    /// Frees everything; then nothing but metadata may have memory.
    fn empty(&mut self) {
        self.memory.fail_after(None);
        let mut rng = fastrand::Rng::with_seed(0);
        while !self.model.is_empty() {
            self.free(&mut rng);
        }
        self.verify();
        let report = self.heap.check().unwrap();
        assert_eq!((report.blocks, report.bytes), (0, 0));
        let stats = self.heap.stats();
        assert_eq!((stats.small.occupied_extents, stats.data.occupied_extents), (0, 0));
        // Header and clusters of 64 KiB, nothing else.
        assert_eq!(self.memory.present() as u64, 1 + report.clusters);
    }
}

fn length(rng: &mut fastrand::Rng) -> u64 {
    let shift = match rng.u8(..10) {
        0..4 => rng.u32(0..15),
        4..7 => rng.u32(12..21),
        7..9 => rng.u32(15..23),
        _ => rng.u32(20..27),
    };
    let base = 1_u64 << shift;
    match rng.u8(..3) {
        0 => base,
        1 => base + rng.u64(0..base),
        _ => (base - 1).max(1),
    }
}

fn run(mut world: World, seed: u64, steps: u32) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut children: Vec<World> = Vec::new();
    for step in 0..steps {
        // Waves of growing and shrinking reach both exhaustion and emptiness.
        let growing = (step / 300) % 3 != 2;
        let count = children.len();
        let which = rng.usize(0..=count);
        let target = if which == 0 { &mut world } else { &mut children[which - 1] };
        match rng.u8(..100) {
            0 => target.memory.publish(),
            1 => target.memory.fail_after(Some(rng.u64(..3))),
            2..5 => target.memory.fail_after(None),
            5..8 => target.free_wrongly(&mut rng),
            8 if count < 3 => {
                let child = target.derive();
                children.push(child);
            }
            9 if count > 0 => drop(children.swap_remove(0)),
            n if (n < 70) == growing => target.allocate(&mut rng),
            _ => target.free(&mut rng),
        }
        if step % 64 == 0 {
            world.verify();
            children.iter().for_each(World::verify);
        }
    }
    world.verify();
    world.empty();
    children.iter_mut().for_each(World::empty);
}

#[test]
fn random_operations_agree_with_the_model() {
    let seed = seed("random_operations_agree_with_the_model");
    for (i, reserve) in [64 << 20, 256 << 20, 1 << 30].into_iter().enumerate() {
        let (memory, heap) = heap(reserve);
        run(World { memory, heap, model: BTreeMap::new() }, seed + i as u64, 2000);
    }
}

#[test]
fn random_operations_with_a_table_of_large_blocks() {
    let seed = seed("random_operations_with_a_table_of_large_blocks");
    let blocks = BlockTable::Custom(vec![
        BlockClass { size: 8 << 20, count: 4 },
        BlockClass { size: 32 << 20, count: 2 },
    ]);
    let options = HeapOptions { blocks, buddy_limit: Some(4 << 20), reserved_len: Some(1) };
    let memory = TestMemory::new(256 << 20);
    let heap = Heap::create(memory.clone(), options).unwrap();
    assert_eq!(heap.reserved().end.0 - heap.reserved().start.0, 64 << 10);
    run(World { memory, heap, model: BTreeMap::new() }, seed, 2500);
}

#[test]
fn requests_go_where_they_belong() {
    let blocks = BlockTable::Custom(vec![BlockClass { size: 16 << 20, count: 1 }]);
    let options = HeapOptions { blocks, buddy_limit: Some(8 << 20), reserved_len: None };
    let memory = TestMemory::new(128 << 20);
    let heap = Heap::create(memory.clone(), options).unwrap();
    let space = memory.space();
    let allocate = |len: u64| heap.allocate(ByteLen(len)).unwrap();

    let small = allocate(1);
    assert_eq!(small.len.0, 128);
    assert!(small.offset.0 < space.small_zone);
    let edge = allocate(SMALL_LIMIT - 1);
    assert!(edge.offset.0 < space.small_zone && edge.len.0 == SMALL_LIMIT);
    let data = allocate(SMALL_LIMIT);
    assert!(data.offset.0 >= space.small_zone);
    let large = allocate((8 << 20) + 1);
    assert_eq!((large.offset.0, large.len.0), ((128 - 16) << 20, 16 << 20));
    let next = allocate((8 << 20) + 1);
    assert!(next.offset.0 < large.offset.0, "the buddy part serves what the table cannot");
    assert!(heap.free(large.offset + ByteLen(2 << 20)).is_err());
    heap.free(large.offset).unwrap();
    assert_eq!(allocate(10 << 20).offset, large.offset);
}

#[test]
fn impossible_requests_are_refused() {
    let (memory, heap) = heap(64 << 20);
    let zero = heap.allocate(ByteLen(0));
    assert!(matches!(zero, Err(AllocError::Length { len: 0 })));
    for len in [memory.space().reserve + 1, u64::MAX] {
        assert!(matches!(heap.allocate(ByteLen(len)), Err(AllocError::Length { .. })));
        assert!(heap.reserve_extents(ByteLen(len)).is_err());
        assert!(heap.allocate_exact(ByteLen(len), ByteLen(1)).is_err());
    }
    let all = heap.allocate(memory.space().reserve.into_len());
    assert!(matches!(all, Err(AllocError::Exhausted { .. })), "{all:?}");
    for align in [0, 3, 1 << 60] {
        let odd = heap.allocate_exact(ByteLen(1), ByteLen(align));
        assert!(matches!(odd, Err(AllocError::Alignment { .. })), "{align}: {odd:?}");
    }
    assert!(matches!(heap.reserve_extents(ByteLen(0)), Err(AllocError::Length { .. })));
    heap.check().unwrap();
}

trait IntoLen {
    fn into_len(self) -> ByteLen;
}

impl IntoLen for u64 {
    fn into_len(self) -> ByteLen {
        ByteLen(self)
    }
}

#[test]
fn exact_lengths_waste_less_than_a_granule() {
    let (_memory, heap) = heap(256 << 20);
    let len = (1 << 20) + 5000;
    let offset = heap.allocate_exact(ByteLen(len), ByteLen(64)).unwrap();
    assert_eq!(heap.stats().data.used, len.next_multiple_of(4096));
    // What was trimmed serves the next request in the same extent.
    let next = heap.allocate(ByteLen(512 << 10)).unwrap();
    assert_eq!(next.offset.0 >> 21, offset.0 >> 21);
    heap.free_exact(offset, ByteLen(len)).unwrap();
    heap.free(next.offset).unwrap();
    assert_eq!(heap.stats().data.used, 0);
    heap.check().unwrap();
}

#[test]
fn extents_are_reserved_without_memory() {
    let (memory, heap) = heap(256 << 20);
    let before = memory.present();
    let offset = heap.reserve_extents(ByteLen(3 << 20)).unwrap();
    assert!(offset.0.is_multiple_of(2 << 20));
    assert_eq!(heap.stats().data.used, 4 << 20);
    assert!(memory.present() <= before + 1, "at most a cluster of metadata");
    heap.free_exact(offset, ByteLen(4 << 20)).unwrap();
    let large = heap.reserve_extents(ByteLen(5 << 20)).unwrap();
    assert_eq!(heap.stats().large_used, 1);
    heap.free_exact(large, ByteLen(6 << 20)).unwrap();
    heap.check().unwrap();
}

#[test]
fn a_small_zone_that_is_full_is_no_end() {
    let (memory, heap) = heap(64 << 20);
    let mut blocks = Vec::new();
    let zone = memory.space().small_zone;
    while let Ok(grant) = heap.allocate(ByteLen(20 << 10)) {
        blocks.push(grant);
    }
    assert!(blocks.iter().any(|g| g.offset.0 < zone) && blocks.iter().any(|g| g.offset.0 > zone));
    let stats = heap.stats();
    assert_eq!(stats.small.used, stats.small.capacity);
    assert_eq!(stats.data.used, stats.data.capacity);
    for grant in blocks {
        heap.free(grant.offset).unwrap();
    }
    heap.check().unwrap();
}
