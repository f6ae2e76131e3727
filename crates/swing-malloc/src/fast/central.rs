//! The central part: slabs, their records, and the way between them and the caches of threads.
//! Everything here runs under the central lock.

use super::cache::{CACHE_BYTES, Cache};
use super::class::{SLAB_CLASSES, large_class, size_of, slab_blocks, slab_bytes};
use super::gate::Gate;
use super::map::{Map, begins_large};
use super::record::*;
use crate::error::{AllocError, FreeError, HeapError};
use crate::heap::Heap;
use crate::memory::Memory;
use crate::tree::Corruption;
use std::collections::HashSet;
use std::sync::Arc;
use swing::{AreaOffset, ByteLen, WriteError};

/// What the central part needs at hand.
pub(crate) struct Tools<'a, M> {
    pub heap: &'a Heap<M>,
    pub map: &'a Map,
    pub words: Words<'a, M>,
}

impl<M: Memory> Tools<'_, M> {
    /// Whether a block without a slab can begin there; the metadata of this part, in blocks of the
    /// small zone, is none.
    pub(crate) fn is_place_of_large(&self, offset: u64) -> bool {
        begins_large(offset) && offset >= self.heap.area().space().small_zone
    }
}

/// Places of this process; what they lead to is in the area.
#[derive(Debug)]
pub(crate) struct Central {
    pub directory: u64,
    pub chunks: Vec<u64>,
    /// By cache: who uses it.
    pub gates: Vec<Option<Arc<Gate>>>,
}

/// Places of metadata that have been met: each is an allocated block of its own.
struct Seen<'a, 'b, M> {
    tools: &'a Tools<'b, M>,
    places: HashSet<u64>,
}

impl<M: Memory> Seen<'_, '_, M> {
    fn block(&mut self, at: u64, len: u64) -> Result<(), HeapError> {
        let usable = self.tools.heap.usable_size(AreaOffset(at));
        let allocated = matches!(usable, Ok(Some(usable)) if usable.0 >= len);
        if !allocated || !self.places.insert(at) {
            return Err(
                corrupt(at, len, "metadata of the fast part is in blocks of its own").into()
            );
        }
        Ok(())
    }
}

pub(crate) fn corrupt(at: u64, found: u64, rule: &'static str) -> Corruption {
    Corruption { at, found, rule }
}

impl Central {
    /// A new directory in a heap that has none.
    pub(crate) fn create<M: Memory>(heap: &Heap<M>) -> Result<Self, HeapError> {
        let words = Words::new(&**heap.area());
        let directory = heap.allocate_metadata(DIRECTORY_BYTES).map_err(|error| match error {
            AllocError::Write(error) => HeapError::Write(error),
            _ => HeapError::ZoneTooSmall {
                needed: DIRECTORY_BYTES,
                small_zone: heap.area().space().small_zone,
            },
        })?;
        let made = words.open(directory..directory + DIRECTORY_BYTES).map(|()| {
            words.zero(directory, DIRECTORY_BYTES);
            words.set64(directory, MAGIC);
        });
        if let Err(error) = made.and_then(|()| heap.set_fast_root(directory)) {
            let _ = heap.free_exact(AreaOffset(directory), ByteLen(DIRECTORY_BYTES));
            return Err(error.into());
        }
        Ok(Central { directory, chunks: Vec::new(), gates: Vec::new() })
    }

    /// Reads what an earlier owner left, checks every place, and fills the map.
    pub(crate) fn open<M: Memory>(tools: &Tools<'_, M>, root: u64) -> Result<Self, HeapError> {
        let words = &tools.words;
        let sound = words.sound(root, DIRECTORY_BYTES) && words.get64(root) == MAGIC;
        if !sound {
            return Err(corrupt(root, root, "the directory is in the small zone").into());
        }
        let mut seen = Seen { tools, places: HashSet::new() };
        seen.block(root, DIRECTORY_BYTES)?;
        let mut chunks = Vec::new();
        let mut at = words.get64(root + DIR_FIRST_CHUNK);
        let count = words.get32(root + DIR_CHUNKS);
        if u64::from(count) > tools.heap.area().space().small_zone / CHUNK_BYTES {
            return Err(corrupt(root, count.into(), "chunks lie in the small zone").into());
        }
        for _ in 0..count {
            if !words.sound(at, CHUNK_BYTES) {
                return Err(corrupt(at, at, "a chunk of records is in the small zone").into());
            }
            seen.block(at, CHUNK_BYTES)?;
            chunks.push(at);
            at = words.get64(at);
        }
        let caches = words.get32(root + DIR_CACHES);
        let records = words.get32(root + DIR_RECORDS);
        if caches > MAX_CACHES || u64::from(records) > chunks.len() as u64 * u64::from(RECORDS) {
            return Err(corrupt(root, records.into(), "records lie in chunks").into());
        }
        for slot in 0..caches {
            let cache = words.get64(root + dir_cache(slot));
            if !Cache::fits(words, cache) {
                return Err(corrupt(cache, cache, "a cache is in the small zone").into());
            }
            seen.block(cache, CACHE_BYTES)?;
        }
        let gates = vec![None; caches as usize];
        let central = Central { directory: root, chunks, gates };
        for index in 0..records {
            let record = central.record(index);
            let (offset, class) = (words.get64(record), words.get32(record + REC_CLASS) as usize);
            if offset == 0 {
                continue;
            }
            let inside = class < SLAB_CLASSES
                && offset >= tools.heap.layout.payload_start
                && offset.is_multiple_of(slab_bytes(class))
                && offset
                    .checked_add(slab_bytes(class))
                    .is_some_and(|end| end <= tools.heap.area().space().reserve);
            if !inside {
                return Err(corrupt(record, offset, "a slab lies in the area").into());
            }
            tools.map.add_slab(offset, slab_bytes(class), class, index);
        }
        Ok(central)
    }

    pub(crate) fn record(&self, index: u32) -> u64 {
        assert!(((index / RECORDS) as usize) < self.chunks.len(), "INV-MALLOC-1: in a chunk");
        self.chunks[(index / RECORDS) as usize] + record_in_chunk(index)
    }

    pub(crate) fn cache<'a, M: Memory>(&self, words: &'a Words<'a, M>, slot: u32) -> Cache<'a, M> {
        assert!((slot as usize) < self.gates.len(), "a slot of the directory");
        Cache::new(words, words.get64(self.directory + dir_cache(slot)))
    }

    pub(crate) fn open_directory<M: Memory>(&self, words: &Words<'_, M>) -> Result<(), WriteError> {
        words.open(self.directory..self.directory + DIRECTORY_BYTES)
    }

    fn open_record<M: Memory>(&self, words: &Words<'_, M>, index: u32) -> Result<(), WriteError> {
        let record = self.record(index);
        words.open(record..record + RECORD_BYTES)
    }

    /// A record number stored plus one, checked.
    fn link<M: Memory>(&self, words: &Words<'_, M>, at: u64) -> Result<Option<u32>, Corruption> {
        let stored = words.get32(at);
        if stored > words.get32(self.directory + DIR_RECORDS) {
            return Err(corrupt(at, stored.into(), "a link leads to a record"));
        }
        Ok(stored.checked_sub(1))
    }

    /// Puts a slab at the head of its class's list; everything is open.
    fn list<M: Memory>(&self, words: &Words<'_, M>, index: u32) -> Result<(), FreeError> {
        let record = self.record(index);
        debug_assert!((words.get32(record + REC_CLASS) as usize) < SLAB_CLASSES);
        let head = self.directory + dir_head(words.get32(record + REC_CLASS) as usize);
        let next = self.link(words, head)?;
        if let Some(next) = next {
            self.open_record(words, next)?;
            words.set32(self.record(next) + REC_PREVIOUS, index + 1);
        }
        words.set32(record + REC_NEXT, next.map_or(0, |n| n + 1));
        words.set32(record + REC_PREVIOUS, 0);
        words.set32(head, index + 1);
        Ok(())
    }

    fn unlist<M: Memory>(&self, words: &Words<'_, M>, index: u32) -> Result<(), FreeError> {
        let record = self.record(index);
        let (next, previous) =
            (self.link(words, record + REC_NEXT)?, self.link(words, record + REC_PREVIOUS)?);
        for neighbour in [next, previous].into_iter().flatten() {
            self.open_record(words, neighbour)?;
        }
        if let Some(next) = next {
            words.set32(self.record(next) + REC_PREVIOUS, previous.map_or(0, |p| p + 1));
        }
        let from = match previous {
            Some(previous) => self.record(previous) + REC_NEXT,
            None => self.directory + dir_head(words.get32(record + REC_CLASS) as usize),
        };
        words.set32(from, next.map_or(0, |n| n + 1));
        words.set32(record + REC_NEXT, 0);
        words.set32(record + REC_PREVIOUS, 0);
        Ok(())
    }

    /// A record that no slab uses; the directory is open.
    fn unused_record<M: Memory>(&mut self, tools: &Tools<'_, M>) -> Result<u32, AllocError> {
        let words = &tools.words;
        let dir = self.directory;
        if let Some(index) = self.link(words, dir + DIR_FREE_RECORD)? {
            let slab = words.get64(self.record(index));
            if slab != 0 {
                return Err(corrupt(self.record(index), slab, "a free record has no slab").into());
            }
            self.open_record(words, index)?;
            return Ok(index);
        }
        let index = words.get32(dir + DIR_RECORDS);
        if index / RECORDS == self.chunks.len() as u32 {
            let chunk = tools.heap.allocate_metadata(CHUNK_BYTES)?;
            // Not as the directory says, which another process may have written.
            let last = self.chunks.last().copied().unwrap_or(0);
            let opened = words.open(chunk..chunk + CHUNK_BYTES);
            let opened =
                opened.and_then(|()| if last == 0 { Ok(()) } else { words.open(last..last + 8) });
            if let Err(error) = opened {
                let _ = tools.heap.free_exact(AreaOffset(chunk), ByteLen(CHUNK_BYTES));
                return Err(error.into());
            }
            words.zero(chunk, CHUNK_BYTES);
            let link = if last == 0 { dir + DIR_FIRST_CHUNK } else { last };
            words.set64(link, chunk);
            words.set64(dir + DIR_LAST_CHUNK, chunk);
            words.set32(dir + DIR_CHUNKS, self.chunks.len() as u32 + 1);
            self.chunks.push(chunk);
        }
        self.open_record(words, index)?;
        words.set32(dir + DIR_RECORDS, index + 1);
        // On the free list until a slab uses it.
        words.zero(self.record(index), RECORD_BYTES);
        words.set32(dir + DIR_FREE_RECORD, index + 1);
        Ok(index)
    }

    /// A new slab, wholly free, on its list.
    fn add_slab<M: Memory>(
        &mut self,
        tools: &Tools<'_, M>,
        class: usize,
    ) -> Result<u32, AllocError> {
        let words = &tools.words;
        let index = self.unused_record(tools)?;
        let len = slab_bytes(class);
        let slab = tools.heap.allocate_aligned(len)?;
        assert!(slab >= tools.heap.layout.payload_start && slab.is_multiple_of(len));
        let record = self.record(index);
        words.set32(self.directory + DIR_FREE_RECORD, words.get32(record + REC_NEXT));
        words.set64(record, slab);
        words.set32(record + REC_CLASS, class as u32);
        words.set32(record + REC_FREE, slab_blocks(class) as u32);
        words.set32(record + REC_NEXT, 0);
        for word in 0..WORDS {
            let bits = slab_blocks(class).saturating_sub(word * 64).min(64);
            let ones = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            words.set64(record + REC_BITS + word * 8, ones);
        }
        tools.map.add_slab(slab, len, class, index);
        match self.list(words, index) {
            Ok(()) => Ok(index),
            Err(FreeError::Write(error)) => {
                // Where the heap refuses, too, it stays what it is, and is not used.
                let _ = self.drop_slab(tools, index);
                Err(error.into())
            }
            Err(_) => Err(corrupt(record, slab, "lists of slabs are sound").into()),
        }
    }

    /// Gives the memory of a wholly free slab that is on no list back to the heap; its record is
    /// open. When the heap refuses nothing is changed.
    fn drop_slab<M: Memory>(&self, tools: &Tools<'_, M>, index: u32) -> Result<(), FreeError> {
        let words = &tools.words;
        let record = self.record(index);
        let (slab, class) = (words.get64(record), words.get32(record + REC_CLASS) as usize);
        assert!(slab != 0 && class < SLAB_CLASSES, "a record that is in use");
        tools.heap.free_exact(AreaOffset(slab), ByteLen(slab_bytes(class)))?;
        // Under the central lock nobody has got the memory yet.
        tools.map.remove(slab, slab_bytes(class));
        words.zero(record, RECORD_BYTES);
        words.set32(record + REC_NEXT, words.get32(self.directory + DIR_FREE_RECORD));
        words.set32(self.directory + DIR_FREE_RECORD, index + 1);
        Ok(())
    }

    /// Takes up to `most` blocks of a class with slabs, handing each to `keep`.
    pub(crate) fn take<M: Memory>(
        &mut self,
        tools: &Tools<'_, M>,
        class: usize,
        most: usize,
        mut keep: impl FnMut(u64),
    ) -> Result<(), AllocError> {
        let words = &tools.words;
        assert!(class < SLAB_CLASSES && most > 0);
        self.open_directory(words)?;
        let mut left = most as u32;
        while left > 0 {
            let index = match self.link(words, self.directory + dir_head(class))? {
                Some(index) => index,
                // One slab at most for a request: what it has is enough.
                None if left == most as u32 => self.add_slab(tools, class)?,
                None => break,
            };
            self.open_record(words, index)?;
            let record = self.record(index);
            let (slab, free) = (words.get64(record), words.get32(record + REC_FREE));
            let is_it = words.get32(record + REC_CLASS) as usize == class && slab != 0;
            if !is_it || free == 0 || self.free_blocks(words, index) != Some(free) {
                return Err(corrupt(record, free.into(), "a slab counts its free blocks").into());
            }
            let taken = free.min(left);
            if taken == free {
                self.unlist(words, index).map_err(|error| match error {
                    FreeError::Write(error) => AllocError::Write(error),
                    _ => corrupt(record, index.into(), "lists of slabs are sound").into(),
                })?;
            }
            let mut rest = taken;
            for word in 0..WORDS {
                let at = record + REC_BITS + word * 8;
                let mut bits = words.get64(at);
                while bits != 0 && rest > 0 {
                    let bit = u64::from(bits.trailing_zeros());
                    bits &= bits - 1;
                    rest -= 1;
                    keep(slab + (word * 64 + bit) * size_of(class));
                }
                words.set64(at, bits);
            }
            assert!(
                rest == 0 && taken > 0 && taken <= free,
                "each slab on the list gives something"
            );
            words.set32(record + REC_FREE, free - taken);
            left -= taken;
        }
        Ok(())
    }

    /// How many blocks of a slab are free by its bits; `None` if these stand for others, too.
    fn free_blocks<M: Memory>(&self, words: &Words<'_, M>, index: u32) -> Option<u32> {
        let record = self.record(index);
        let blocks = slab_blocks(words.get32(record + REC_CLASS) as usize);
        let mut free = 0;
        for word in 0..WORDS {
            let bits = words.get64(record + REC_BITS + word * 8);
            let all = blocks.saturating_sub(word * 64).min(64);
            if bits.checked_shr(all as u32).is_some_and(|beyond| beyond != 0) {
                return None;
            }
            free += bits.count_ones();
        }
        Some(free)
    }

    /// True if a block of a slab begins at `offset` and is not free.
    pub(crate) fn is_allocated<M: Memory>(&self, tools: &Tools<'_, M>, offset: u64) -> bool {
        let words = &tools.words;
        let Some(record) = tools.map.record(offset).map(|index| self.record(index)) else {
            return false;
        };
        let (slab, class) = (words.get64(record), words.get32(record + REC_CLASS) as usize);
        if !(slab..slab + slab_bytes(class)).contains(&offset) {
            return false;
        }
        let (block, rest) = ((offset - slab) / size_of(class), (offset - slab) % size_of(class));
        let bits = words.get64(record + REC_BITS + block / 64 * 8);
        rest == 0 && block < slab_blocks(class) && bits >> (block % 64) & 1 == 0
    }

    /// Puts one block of a slab back.
    fn put<M: Memory>(&self, tools: &Tools<'_, M>, offset: u64) -> Result<(), FreeError> {
        let words = &tools.words;
        let index = tools.map.record(offset).ok_or(FreeError::NotAllocated { offset })?;
        let record = self.record(index);
        let (slab, class) = (words.get64(record), words.get32(record + REC_CLASS) as usize);
        if !(slab..slab + slab_bytes(class)).contains(&offset) {
            return Err(FreeError::NotAllocated { offset });
        }
        let (size, inside) = (size_of(class), offset - slab);
        let block = inside / size;
        let at = record + REC_BITS + block / 64 * 8;
        let bit = 1 << (block % 64);
        if inside % size != 0 || block >= slab_blocks(class) || words.get64(at) & bit != 0 {
            return Err(FreeError::NotAllocated { offset });
        }
        self.open_directory(words)?;
        self.open_record(words, index)?;
        let free = words.get32(record + REC_FREE) + 1;
        if free == 1 {
            self.list(words, index)?;
        }
        words.set64(at, words.get64(at) | bit);
        words.set32(record + REC_FREE, free);
        let alone = words.get32(record + REC_NEXT) == 0 && words.get32(record + REC_PREVIOUS) == 0;
        // The last slab of a class with room stays, and one whose list cannot be written.
        let spare = u64::from(free) == slab_blocks(class) && !alone;
        if spare
            && self.free_blocks(words, index) == Some(free)
            && self.unlist(words, index).is_ok()
        {
            // All that this opens is open: it can be put back on its list.
            self.drop_slab(tools, index).or_else(|_| self.list(words, index))?;
        }
        Ok(())
    }

    /// One block, without a cache.
    pub(crate) fn take_one<M: Memory>(
        &mut self,
        tools: &Tools<'_, M>,
        class: usize,
    ) -> Result<u64, AllocError> {
        if class >= SLAB_CLASSES {
            let grant = tools.heap.allocate(ByteLen(size_of(class)))?;
            let class = large_class(grant.len.0).unwrap_or(class);
            tools.map.add_block(grant.offset.0, class);
            return Ok(grant.offset.0);
        }
        let mut block = None;
        self.take(tools, class, 1, |offset| block = Some(offset))?;
        block.ok_or_else(|| AllocError::Exhausted { len: size_of(class), largest: 0 })
    }

    /// Gives one block back to its slab or to the heap.
    pub(crate) fn put_one<M: Memory>(
        &self,
        tools: &Tools<'_, M>,
        offset: u64,
    ) -> Result<(), FreeError> {
        match tools.map.class(offset) {
            None => Err(FreeError::NotAllocated { offset }),
            Some(class) if class < SLAB_CLASSES => self.put(tools, offset),
            Some(_) => {
                tools.heap.free(AreaOffset(offset))?;
                tools.map.remove(offset, 1);
                Ok(())
            }
        }
    }
}
