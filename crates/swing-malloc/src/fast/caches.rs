//! Between caches and the central part: filling, emptying, lending and checking caches. Everything
//! here runs under the central lock, on caches whose threads are not at work.

use super::cache::{CACHE_BYTES, Cache};
use super::central::{Central, Tools, corrupt};
use super::class::{CLASSES, SLAB_CLASSES, cached, size_of};
use super::gate::Gate;
use super::record::{DIR_CACHES, MAX_CACHES, dir_cache};
use crate::error::{AllocError, FreeError};
use crate::memory::Memory;
use crate::tree::Corruption;
use std::sync::Arc;
use swing::{AreaOffset, ByteLen};

impl Central {
    /// Fills a stack that is empty to half, in a cache that is open.
    pub(crate) fn refill<M: Memory>(
        &mut self,
        tools: &Tools<'_, M>,
        cache: &Cache<'_, M>,
        class: usize,
    ) -> Result<(), AllocError> {
        assert_eq!(cache.held(class), 0, "what a stack holds is not overwritten");
        assert!(class < SLAB_CLASSES, "only slabs give many blocks at once");
        let mut count = 0;
        let taken = self.take(tools, class, cached(class) / 2, |block| {
            cache.set_entry(class, count, block);
            count += 1;
        });
        // The lowest address is handed out first.
        for i in 0..count / 2 {
            let (low, high) = (cache.entry(class, i), cache.entry(class, count - 1 - i));
            cache.set_entry(class, i, high);
            cache.set_entry(class, count - 1 - i, low);
        }
        cache.set_held(class, count);
        if count > 0 { Ok(()) } else { taken }
    }

    /// Gives back the `count` oldest blocks of a stack, in a cache that is open. One that is not
    /// allocated, because it was freed twice, is nobody's: it is dropped, and told at the end.
    pub(crate) fn flush<M: Memory>(
        &self,
        tools: &Tools<'_, M>,
        cache: &Cache<'_, M>,
        class: usize,
        count: usize,
    ) -> Result<(), FreeError> {
        let held = cache.held(class);
        assert!(held <= cached(class), "INV-MALLOC-6");
        let mut done = 0;
        let mut outcome = Ok(());
        while done < count.min(held) {
            match self.put_one(tools, cache.entry(class, done)) {
                Ok(()) => {}
                Err(error @ FreeError::NotAllocated { .. }) => outcome = outcome.and(Err(error)),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
            done += 1;
        }
        for i in done..held {
            cache.set_entry(class, i - done, cache.entry(class, i));
        }
        cache.set_held(class, held - done);
        outcome
    }

    /// Gives back everything a cache holds.
    pub(crate) fn drain<M: Memory>(
        &self,
        tools: &Tools<'_, M>,
        slot: u32,
    ) -> Result<(), FreeError> {
        let cache = self.cache(&tools.words, slot);
        let mut outcome = Ok(());
        for class in (0..CLASSES).filter(|class| cache.held(*class) > 0) {
            cache.open()?;
            outcome = outcome.and(self.flush(tools, &cache, class, cached(class)));
        }
        outcome
    }

    /// A cache for a thread: one that nobody uses, or a new one; `None` when there are too many.
    pub(crate) fn attach<M: Memory>(
        &mut self,
        tools: &Tools<'_, M>,
    ) -> Result<Option<(u32, Arc<Gate>)>, AllocError> {
        let words = &tools.words;
        let slot = match self.gates.iter().position(Option::is_none) {
            Some(slot) => slot as u32,
            None if self.gates.len() as u32 == MAX_CACHES => return Ok(None),
            None => self.add_cache(tools)?,
        };
        self.check_cache(tools, slot)?;
        self.check_distinct(tools, slot)?;
        let at = words.get64(self.directory + dir_cache(slot));
        let gate = Arc::new(Gate::new(words.address(at, CACHE_BYTES)));
        self.gates[slot as usize] = Some(gate.clone());
        Ok(Some((slot, gate)))
    }

    /// What another process left: no block is in a cache twice.
    fn check_distinct<M: Memory>(&self, tools: &Tools<'_, M>, slot: u32) -> Result<(), Corruption> {
        let cache = self.cache(&tools.words, slot);
        for class in 0..CLASSES {
            let mut blocks: Vec<_> =
                (0..cache.held(class)).map(|i| cache.entry(class, i)).collect();
            blocks.sort_unstable();
            if let Some(twice) = blocks.windows(2).find(|pair| pair[0] == pair[1]) {
                let at = cache.entry_at(class, 0);
                return Err(corrupt(at, twice[0], "a cache holds each block once"));
            }
        }
        Ok(())
    }

    /// One more cache, that nobody uses yet.
    fn add_cache<M: Memory>(&mut self, tools: &Tools<'_, M>) -> Result<u32, AllocError> {
        let words = &tools.words;
        let slot = self.gates.len() as u32;
        assert!(slot < MAX_CACHES, "the directory has room for it");
        self.open_directory(words)?;
        let at = tools.heap.allocate_metadata(CACHE_BYTES)?;
        let cache = Cache::new(words, at);
        if let Err(error) = cache.open() {
            let _ = tools.heap.free_exact(AreaOffset(at), ByteLen(CACHE_BYTES));
            return Err(error.into());
        }
        cache.format();
        words.set64(self.directory + dir_cache(slot), at);
        words.set32(self.directory + DIR_CACHES, slot + 1);
        self.gates.push(None);
        Ok(slot)
    }

    /// What another process left in a cache: its shape, and that each entry is a block of its
    /// class. Blocks without a slab become known this way.
    pub(crate) fn check_cache<M: Memory>(
        &self,
        tools: &Tools<'_, M>,
        slot: u32,
    ) -> Result<(), Corruption> {
        let cache = self.cache(&tools.words, slot);
        cache.shape()?;
        for class in 0..CLASSES {
            for i in 0..cache.held(class) {
                let offset = cache.entry(class, i);
                let large = class >= SLAB_CLASSES && tools.is_place_of_large(offset);
                if large && tools.map.class(offset).is_none() {
                    let usable = tools.heap.usable_size(AreaOffset(offset));
                    if matches!(usable, Ok(Some(len)) if len.0 >= size_of(class)) {
                        tools.map.add_block(offset, class);
                    }
                }
                let allocated = large || self.is_allocated(tools, offset);
                if tools.map.class(offset) != Some(class) || !allocated {
                    let at = cache.entry_at(class, i);
                    return Err(corrupt(at, offset, "a cache holds blocks of its classes"));
                }
            }
        }
        Ok(())
    }
}
