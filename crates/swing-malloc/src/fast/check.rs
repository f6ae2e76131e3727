//! The checker of the fast part (INV-MALLOC-1..4, 6), on top of the heap's.

use super::Malloc;
use super::cache::{CACHE_BYTES, Cache};
use super::central::Central;
use super::class::{CLASSES, SLAB_CLASSES, size_of, slab_blocks, slab_bytes};
use super::gate::Gate;
use super::record::*;
use crate::error::CheckError;
use crate::heap::Grant;
use crate::layout::FAST_ROOT_AT;
use crate::memory::Memory;
use std::collections::{HashMap, HashSet};
use swing::{AreaOffset, ByteLen};

/// What a successful check has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MallocReport {
    /// Blocks in use: in no cache and not free. Blocks of the heap's own users count, too.
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Slabs.
    pub slabs: u64,
    /// Free blocks in slabs.
    pub free: u64,
    /// Blocks in caches.
    pub cached: u64,
}

fn broken(invariant: &'static str, at: u64, found: u64, expected: u64) -> CheckError {
    let rule = match invariant {
        "INV-MALLOC-1" => "directory, records and slabs are blocks of the heap",
        "INV-MALLOC-2" => "a slab counts the bits of its free blocks",
        "INV-MALLOC-3" => "exactly the slabs with room are on their class's list",
        "INV-MALLOC-6" => "a stack's top is inside, and its ends are no blocks",
        _ => "a cached block is an allocated block of its class, once",
    };
    CheckError { invariant, at, found, expected, rule }
}

fn last(chunks: &[u64]) -> u64 {
    chunks.last().copied().unwrap_or(0)
}

impl<M: Memory + 'static> Malloc<M> {
    /// Verifies every invariant of the heap and of the fast part. Other threads wait meanwhile.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<MallocReport, CheckError> {
        self.walk().map(|(report, _)| report)
    }

    /// Every block in use, ascending: what an application compares with what it knows.
    ///
    /// # Errors
    /// As [`Malloc::check`].
    pub fn blocks(&self) -> Result<Vec<Grant>, CheckError> {
        self.walk().map(|(_, blocks)| blocks)
    }

    fn walk(&self) -> Result<(MallocReport, Vec<Grant>), CheckError> {
        let inner = &*self.inner;
        let central = inner.central.lock();
        Gate::close_all(central.gates.iter().flatten().map(|gate| &**gate));
        let words = Words::new(&**inner.heap.area());
        let mut report = MallocReport::default();
        self.directory(&central, &words)?;
        let all = inner.heap.blocks()?;
        let mut heap: HashMap<u64, u64> = all.iter().map(|g| (g.offset.0, g.len.0)).collect();
        let mut own = |at: u64, len: u64| match heap.remove(&at) {
            Some(found) if found >= len => Ok(()),
            found => Err(broken("INV-MALLOC-1", at, found.unwrap_or(0), len)),
        };
        own(central.directory, DIRECTORY_BYTES)?;
        for chunk in &central.chunks {
            own(*chunk, CHUNK_BYTES)?;
        }
        for slot in 0..central.gates.len() as u32 {
            own(Self::place_of_cache(&central, &words, slot)?, CACHE_BYTES)?;
        }
        let mut used: HashMap<u64, u64> = HashMap::new();
        let mut with_room: HashMap<u32, usize> = HashMap::new();
        let mut free_records = Self::free_records(&central, &words)?;
        for index in 0..words.get32(central.directory + DIR_RECORDS) {
            let record = central.record(index);
            let slab = words.get64(record);
            let class = words.get32(record + REC_CLASS) as usize;
            if slab == 0 {
                // On the list of free records, which is linked one way.
                let rest = [REC_CLASS, REC_FREE, REC_PREVIOUS].map(|at| words.get32(record + at));
                if rest != [0; 3] || !free_records.remove(&index) {
                    return Err(broken("INV-MALLOC-1", record, rest[0].into(), 0));
                }
                continue;
            }
            if class >= SLAB_CLASSES {
                return Err(broken("INV-MALLOC-1", record, class as u64, SLAB_CLASSES as u64));
            }
            own(slab, slab_bytes(class))?;
            if inner.map.class(slab) != Some(class) || inner.map.record(slab) != Some(index) {
                let known = inner.map.class(slab).unwrap_or(CLASSES) as u64;
                return Err(broken("INV-MALLOC-1", record, class as u64, known));
            }
            let free = Self::slab(&words, record, slab, class, &mut used)?;
            if free > 0 {
                with_room.insert(index, class);
            }
            report.slabs += 1;
            report.free += free;
        }
        if let Some(used) = free_records.into_iter().next() {
            return Err(broken("INV-MALLOC-1", central.record(used), 1, 0));
        }
        Self::lists(&central, &words, with_room)?;
        used.extend(heap);
        let seen = Self::caches(&central, &words, &used)?;
        report.cached = seen.len() as u64;
        debug_assert!(report.slabs * 1024 >= report.free, "a slab has at most 1024 blocks");
        used.retain(|offset, _| !seen.contains(offset));
        let grant =
            |(offset, len): (u64, u64)| Grant { offset: AreaOffset(offset), len: ByteLen(len) };
        let mut blocks: Vec<Grant> = used.into_iter().map(grant).collect();
        blocks.sort_unstable_by_key(|grant| grant.offset);
        report.blocks = blocks.len() as u64;
        report.bytes = blocks.iter().map(|grant| grant.len.0).sum();
        Ok((report, blocks))
    }

    /// INV-MALLOC-1: the directory says what this process read when it opened the heap, and has
    /// written since.
    fn directory(&self, central: &Central, words: &Words<'_, M>) -> Result<(), CheckError> {
        let (dir, chunks) = (central.directory, &central.chunks);
        let most = chunks.len() as u64 * u64::from(RECORDS);
        let records = u64::from(words.get32(dir + DIR_RECORDS));
        let facts = [
            (FAST_ROOT_AT, self.inner.heap.fast_root(), dir),
            (dir, words.get64(dir), MAGIC),
            (dir + DIR_RECORDS, records, records.min(most)),
            (dir + DIR_CHUNKS, words.get32(dir + DIR_CHUNKS).into(), chunks.len() as u64),
            (dir + DIR_CACHES, words.get32(dir + DIR_CACHES).into(), central.gates.len() as u64),
            (dir + DIR_LAST_CHUNK, words.get64(dir + DIR_LAST_CHUNK), last(chunks)),
        ];
        let links = std::iter::once(dir + DIR_FIRST_CHUNK).chain(chunks.iter().copied());
        let expected = chunks.iter().copied().chain([0]);
        let links = links.zip(expected).map(|(at, expected)| (at, words.get64(at), expected));
        match facts.into_iter().chain(links).find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((at, found, expected)) => Err(broken("INV-MALLOC-1", at, found, expected)),
        }
    }

    /// The records on the list of those that no slab uses.
    fn free_records(central: &Central, words: &Words<'_, M>) -> Result<HashSet<u32>, CheckError> {
        let records = words.get32(central.directory + DIR_RECORDS);
        let (mut at, mut found) = (central.directory + DIR_FREE_RECORD, HashSet::new());
        loop {
            let next = words.get32(at);
            if next == 0 {
                return Ok(found);
            }
            if next > records || !found.insert(next - 1) {
                return Err(broken("INV-MALLOC-1", at, next.into(), records.into()));
            }
            at = central.record(next - 1) + REC_NEXT;
        }
    }

    /// The lists hold exactly the slabs with room, each on that of its class.
    fn lists(
        central: &Central,
        words: &Words<'_, M>,
        mut with_room: HashMap<u32, usize>,
    ) -> Result<(), CheckError> {
        for class in 0..SLAB_CLASSES {
            let mut next = words.get32(central.directory + dir_head(class));
            let mut previous = 0;
            while next > 0 {
                let records = words.get32(central.directory + DIR_RECORDS);
                if next > records {
                    let at = central.directory + dir_head(class);
                    return Err(broken("INV-MALLOC-3", at, next.into(), records.into()));
                }
                let record = central.record(next - 1);
                let back = words.get32(record + REC_PREVIOUS);
                if with_room.remove(&(next - 1)) != Some(class) || back != previous {
                    return Err(broken("INV-MALLOC-3", record, back.into(), previous.into()));
                }
                previous = next;
                next = words.get32(record + REC_NEXT);
            }
        }
        if let Some((index, _)) = with_room.iter().next() {
            return Err(broken("INV-MALLOC-3", central.record(*index), 0, 1));
        }
        Ok(())
    }

    /// Where a cache lies, if it may be read: a damaged place may be that of a large block in use,
    /// which is long enough.
    fn place_of_cache(
        central: &Central,
        words: &Words<'_, M>,
        slot: u32,
    ) -> Result<u64, CheckError> {
        let at = central.directory + dir_cache(slot);
        let cache = words.get64(at);
        if Cache::fits(words, cache) {
            Ok(cache)
        } else {
            Err(broken("INV-MALLOC-1", at, cache, 0))
        }
    }

    /// Every cached block, each allocated, of its class, and once.
    fn caches(
        central: &Central,
        words: &Words<'_, M>,
        used: &HashMap<u64, u64>,
    ) -> Result<HashSet<u64>, CheckError> {
        let mut seen = HashSet::new();
        for slot in 0..central.gates.len() as u32 {
            let cache = central.cache(words, slot);
            cache.shape().map_err(|fault| broken("INV-MALLOC-6", fault.at, fault.found, 0))?;
            for class in 0..CLASSES {
                for i in 0..cache.held(class) {
                    let (at, offset) = (cache.entry_at(class, i), cache.entry(class, i));
                    let fits = |len: &u64| {
                        *len == size_of(class) || (class >= SLAB_CLASSES && *len > size_of(class))
                    };
                    if !used.get(&offset).is_some_and(fits) || !seen.insert(offset) {
                        return Err(broken("INV-MALLOC-4", at, offset, size_of(class)));
                    }
                }
            }
        }
        Ok(seen)
    }

    /// One slab: its count and bits agree; its blocks that are not free are noted.
    fn slab(
        words: &Words<'_, M>,
        record: u64,
        slab: u64,
        class: usize,
        used: &mut HashMap<u64, u64>,
    ) -> Result<u64, CheckError> {
        let mut free = 0;
        for block in 0..WORDS * 64 {
            let at = record + REC_BITS + block / 64 * 8;
            let is_free = words.get64(at) >> (block % 64) & 1 == 1;
            if block >= slab_blocks(class) && is_free {
                return Err(broken("INV-MALLOC-2", at, block, slab_blocks(class)));
            }
            free += u64::from(is_free);
            if block < slab_blocks(class) && !is_free {
                used.insert(slab + block * size_of(class), size_of(class));
            }
        }
        let links = [REC_NEXT, REC_PREVIOUS].map(|at| words.get32(record + at));
        if free == 0 && links != [0; 2] {
            return Err(broken("INV-MALLOC-3", record, links[0].into(), 0));
        }
        let counted = words.get32(record + REC_FREE).into();
        if counted != free {
            return Err(broken("INV-MALLOC-2", record, counted, free));
        }
        Ok(free)
    }
}
