//! The fast part and a naive model of it side by side: a map from the offset of each block to its
//! granted length. Whatever is done is done to both, and both must agree, after publishes, failing
//! barriers, and in derived memory while the parent goes on.

use super::TestMemory;
use std::collections::BTreeMap;
use std::sync::Arc;
use swing::{AreaOffset, ByteLen};
use swing_malloc::{AllocError, FreeError, Heap, HeapOptions, Malloc, Memory};

pub struct World {
    pub memory: Arc<TestMemory>,
    pub malloc: Malloc<TestMemory>,
    /// Offset to length granted.
    pub model: BTreeMap<u64, u64>,
}

impl World {
    pub fn new(reserve: u64) -> World {
        let memory = TestMemory::new(reserve);
        let heap = Heap::create(memory.clone(), HeapOptions::default()).unwrap();
        World { memory, malloc: Malloc::open(heap).unwrap(), model: BTreeMap::new() }
    }

    pub fn publish(&self) {
        let _pause = self.malloc.pause();
        self.memory.publish();
    }

    /// What another process has that takes the present state.
    pub fn derive(&self) -> World {
        let memory = {
            let _pause = self.malloc.pause();
            self.memory.publish();
            self.memory.derive()
        };
        let heap = Heap::open(memory.clone()).unwrap();
        World { memory, malloc: Malloc::open(heap).unwrap(), model: self.model.clone() }
    }

    fn granted(&mut self, offset: u64, len: u64, asked: u64, align: u64) {
        assert!(len >= asked && offset.is_multiple_of(align), "{offset} {len} {asked} {align}");
        assert!(offset + len <= self.memory.space().reserve);
        if let Some((before, size)) = self.model.range(..offset + len).next_back() {
            assert!(before + size <= offset, "overlaps the block at {before}");
        }
        self.model.insert(offset, len);
    }

    /// `stamp`: store over the block what would damage metadata if it lay there.
    pub fn allocate(&mut self, len: u64, align: u64, stamp: bool) {
        let found = if align <= 16 {
            self.malloc.allocate(ByteLen(len))
        } else {
            self.malloc.allocate_aligned(ByteLen(len), ByteLen(align))
        };
        match found {
            Ok(grant) => {
                self.granted(grant.offset.0, grant.len.0, len, align);
                let (at, end) = (grant.offset.0, grant.offset.0 + grant.len.0.min(4 << 20));
                if stamp && self.memory.make_writable(at..end).is_ok() {
                    self.stamp(at, grant.len.0);
                }
            }
            Err(AllocError::Exhausted { .. } | AllocError::Write(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn stamp(&self, at: u64, len: u64) {
        // SAFETY: the block is the test's own and inside the memory.
        unsafe {
            self.memory.base().as_ptr().add(at as usize).write_bytes(0xA5, len.min(4096) as usize)
        }
    }

    fn pick(&self, nth: usize) -> Option<u64> {
        self.model.keys().nth(nth % self.model.len().max(1)).copied()
    }

    /// Frees the block that comes so many blocks behind the first.
    pub fn free(&mut self, nth: usize) {
        let Some(offset) = self.pick(nth) else { return };
        match self.malloc.free(AreaOffset(offset)) {
            Ok(()) => drop(self.model.remove(&offset)),
            Err(FreeError::Write(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    pub fn reallocate(&mut self, nth: usize, len: u64) {
        let Some(offset) = self.pick(nth) else { return };
        assert_eq!(self.malloc.usable_size(AreaOffset(offset)).unwrap().0, self.model[&offset]);
        self.memory.fail_after(None);
        match self.malloc.reallocate(AreaOffset(offset), ByteLen(len)) {
            Ok(grant) => {
                self.model.remove(&offset);
                self.granted(grant.offset.0, grant.len.0, len, 16);
            }
            Err(AllocError::Exhausted { .. } | AllocError::Write(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Makes a block longer where it is, if that can be.
    pub fn grow(&mut self, nth: usize, len: u64) {
        let Some(offset) = self.pick(nth) else { return };
        if let Some(grown) = self.malloc.grow(AreaOffset(offset), ByteLen(len)) {
            let before = self.model.remove(&offset).unwrap();
            assert!(grown.0 >= len.max(before));
            self.granted(offset, grown.0, len, 16);
        }
    }

    /// What the checker finds is what the model has, and nothing published was written to.
    pub fn verify(&self) {
        self.memory.assert_frozen_is_intact();
        let blocks = self.malloc.blocks().unwrap_or_else(|error| panic!("{error}"));
        let found: BTreeMap<u64, u64> = blocks.iter().map(|g| (g.offset.0, g.len.0)).collect();
        assert_eq!(found, self.model);
        let stats = self.malloc.stats();
        assert_eq!(stats.used, self.model.values().sum::<u64>(), "{stats:?}");
    }

    /// Frees everything; nothing is left then.
    pub fn empty(mut self) {
        self.memory.fail_after(None);
        for offset in std::mem::take(&mut self.model).into_keys() {
            self.malloc.free(AreaOffset(offset)).unwrap();
        }
        self.verify();
        self.malloc.drain().unwrap();
        let report = self.malloc.check().unwrap();
        assert_eq!((report.blocks, report.bytes, report.cached), (0, 0, 0));
    }
}

/// Bytes that say what to do; zeros when there are no more.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn index(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    /// Mostly small, at most 6 MiB.
    fn len(&mut self) -> u64 {
        let (shift, rest) = (u32::from(self.byte()) % 23, self.index() as u64);
        (rest << shift >> 16) + (1 << shift >> 1)
    }
}

/// A life of an allocator and its descendants made from bytes; panics when it and the model differ.
pub fn session(bytes: &[u8]) {
    let mut script = Script(bytes);
    let reserve = if script.byte() % 2 == 0 { 64 << 20 } else { 256 << 20 };
    let mut worlds = vec![World::new(reserve)];
    let mut steps = 0_u32;
    while !script.0.is_empty() {
        let what = script.byte();
        let which = usize::from(what >> 5) % worlds.len();
        let (count, world) = (worlds.len(), &mut worlds[which]);
        match what % 32 {
            0..10 => {
                let stamp = what % 2 == 0;
                world.allocate(script.len(), 16, stamp);
            }
            10..12 => {
                let align = 1 << (script.byte() % 13);
                world.allocate(script.len(), align, true);
            }
            12..22 => world.free(script.index()),
            22..24 => world.reallocate(script.index(), script.len()),
            24 => world.grow(script.index(), script.len()),
            25 => world.publish(),
            26 => world.memory.fail_after(Some(u64::from(script.byte() % 8))),
            27 => world.memory.fail_after(None),
            // A failing barrier stops it half-way, which must show nowhere.
            28 => drop(world.malloc.drain()),
            29 if count < 4 => {
                let child = world.derive();
                worlds.push(child);
            }
            30 if count > 1 => worlds.swap_remove(which).empty(),
            _ => world.verify(),
        }
        steps += 1;
        if steps.is_multiple_of(64) {
            worlds.iter().for_each(World::verify);
        }
    }
    for world in worlds {
        world.verify();
        world.empty();
    }
}
