//! The allocator's calls: `swing_alloc` and its relatives.
//!
//! An area gets its allocator with the first allocation; a hooked one continues its origin's.
//! All of it belongs to the allocator then, so an area in which the program has already stored
//! something gets none. Live hooks wait for the end of an allocation, so that
//! the allocator of a hooker is whole.

use std::ops::Range;

use swing::{AreaOffset, ByteLen};
use swing_malloc::{Grant, Heap, HeapError, HeapOptions, Malloc};

use crate::areas::{Entry, POPULATED_AREA, Registry};
use crate::error::{Code, Failure, Result};
use crate::heap_calls::swing_heap_stats;
use crate::hold;

/// An address and the bytes granted there.
pub(crate) type Block = (usize, u64);

/// The allocator of an area, made or continued at the first use.
pub(crate) fn malloc_of(entry: &Entry) -> Result<Malloc> {
    if hold::is_held(entry.token) {
        return Err(Failure::new(Code::Busy, "the allocator waits for swing_resume, too"));
    }
    if let Some(malloc) = &*entry.malloc.read() {
        return Ok(malloc.clone());
    }
    let mut slot = entry.malloc.write();
    if let Some(malloc) = &*slot {
        return Ok(malloc.clone());
    }
    let heap = match is_unused(entry) {
        true => made(entry, HeapOptions::default())?,
        false => Heap::open(entry.area.clone()).map_err(explain)?,
    };
    keep(entry, &mut slot, heap)
}

fn keep(entry: &Entry, slot: &mut Option<Malloc>, heap: Heap) -> Result<Malloc> {
    let malloc = Malloc::open(heap)?;
    let start = AreaOffset(0)..AreaOffset(1);
    assert!(entry.area.any_present(&start), "its header is where the next one looks for it");
    *slot = Some(malloc.clone());
    Ok(malloc)
}

/// Whether the program has stored nothing into the area: it has no memory, but for the zeros with
/// which a short one is made.
fn is_unused(entry: &Entry) -> bool {
    let head = entry.len.min(POPULATED_AREA);
    if entry.area.any_present(&(AreaOffset(head)..AreaOffset(entry.len))) {
        return false;
    }
    let step = swing::geometry::SMALL_EXTENT.0;
    let mut extents = (0..head).step_by(step as usize).map(|at| at..at + step);
    debug_assert!(head.is_multiple_of(step), "whole extents");
    extents.all(|Range { start, end }| {
        if !entry.area.any_present(&(AreaOffset(start)..AreaOffset(end))) {
            return true;
        }
        // SAFETY: the extent has memory, so its bytes may be read; that nobody stores there
        // meanwhile is the caller's promise to the allocator.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                (entry.base + start as usize) as *const u64,
                step as usize / 8,
            )
        };
        bytes.iter().all(|word| *word == 0)
    })
}

/// A new allocator in an area that nobody uses.
fn made(entry: &Entry, options: HeapOptions) -> Result<Heap> {
    let head = AreaOffset(0)..AreaOffset(entry.len.min(POPULATED_AREA));
    // What is free has no memory (INV-HEAP-7).
    entry.area.discard(head).map_err(|e| Failure::new(Code::NoMemory, e))?;
    Ok(Heap::create(entry.area.clone(), options)?)
}

fn explain(error: HeapError) -> Failure {
    match error {
        HeapError::NoHeap { .. } => Failure::new(
            Code::Argument,
            "the program has stored into the area itself: no room for an allocator; allocate \
             before, or in an area of its own",
        ),
        other => other.into(),
    }
}

/// Where a block of the area begins, and its length.
fn block(entry: &Entry, grant: Grant) -> Block {
    assert!(grant.offset.0 > 0 && grant.offset.0 + grant.len.0 <= entry.len, "inside the area");
    (entry.base + grant.offset.as_usize(), grant.len.0)
}

fn offset(entry: &Entry, address: usize) -> AreaOffset {
    assert!(entry.contains(address), "looked up by this address");
    AreaOffset((address - entry.base) as u64)
}

impl Registry {
    pub(crate) fn alloc(&self, token: i32, len: usize) -> Result<Block> {
        let entry = self.own(token)?;
        let grant = malloc_of(&entry)?.allocate(ByteLen(len as u64))?;
        assert!(grant.len.0 >= len as u64 && grant.offset.0.is_multiple_of(16), "as asked for");
        Ok(block(&entry, grant))
    }

    pub(crate) fn alloc_aligned(&self, token: i32, len: usize, align: usize) -> Result<Block> {
        let entry = self.own(token)?;
        let (size, alignment) = (ByteLen(len as u64), ByteLen(align as u64));
        let grant = malloc_of(&entry)?.allocate_aligned(size, alignment)?;
        let block = block(&entry, grant);
        assert!(block.1 >= len as u64 && block.0.is_multiple_of(align), "as asked for");
        Ok(block)
    }

    /// The allocator of an area that has none, in the shape that its program wants.
    pub(crate) fn make_heap(&self, token: i32, options: HeapOptions) -> Result<()> {
        let entry = self.own(token)?;
        if hold::is_held(entry.token) {
            return Err(Failure::new(Code::Busy, "the allocator waits for swing_resume, too"));
        }
        let mut slot = entry.malloc.write();
        if !is_unused(&entry) {
            if slot.is_some() || Heap::open(entry.area.clone()).is_ok() {
                return Err(Failure::new(Code::Exists, "the area has its allocator already"));
            }
            return Err(explain(HeapError::NoHeap { found: 0 }));
        }
        assert!(slot.is_none(), "an allocator has its header in the area");
        let heap = made(&entry, options)?;
        keep(&entry, &mut slot, heap).map(drop)
    }

    pub(crate) fn heap_stats(&self, token: i32) -> Result<swing_heap_stats> {
        let entry = self.own(token)?;
        let malloc = malloc_of(&entry)?;
        let (stats, reserved) = (malloc.stats(), malloc.heap().reserved());
        let heap = &stats.heap;
        let metadata = heap.metadata + stats.metadata;
        let largest =
            heap.small.largest_free.max(heap.data.largest_free).max(heap.large_largest_free);
        let capacity = entry.len - heap.metadata - (reserved.end - reserved.start).0;
        assert!(stats.used <= capacity && largest <= capacity, "blocks lie in the area");
        Ok(swing_heap_stats {
            capacity,
            used: stats.used,
            cached: stats.cached,
            spare: stats.slab_free,
            metadata,
            largest,
        })
    }

    /// Verifies the allocator, and tells how many blocks the program has.
    pub(crate) fn check_heap(&self, token: i32) -> Result<u64> {
        let report = malloc_of(&*self.own(token)?)?.check();
        let report = report.map_err(|e| Failure::new(Code::Corrupt, e))?;
        debug_assert!(report.blocks == 0 || report.bytes > 0, "a block has bytes");
        Ok(report.blocks)
    }

    pub(crate) fn free(&self, address: usize) -> Result<()> {
        let entry = self.at(address)?;
        let (malloc, offset) = (malloc_of(&entry)?, offset(&entry, address));
        malloc.block_at(offset)?;
        Ok(malloc.free(offset)?)
    }

    pub(crate) fn realloc(&self, address: usize, len: usize) -> Result<Block> {
        if address == 0 {
            let text = "null is no block: swing_alloc, which is told the area, makes one";
            return Err(Failure::new(Code::Argument, text));
        }
        let entry = self.at(address)?;
        self.usable(address)?;
        let malloc = malloc_of(&entry)?;
        let grant = malloc.reallocate(offset(&entry, address), ByteLen(len as u64))?;
        assert!(grant.len.0 >= len as u64, "as long as was asked for");
        Ok(block(&entry, grant))
    }

    pub(crate) fn usable(&self, address: usize) -> Result<u64> {
        let entry = self.at(address)?;
        let len = malloc_of(&entry)?.block_at(offset(&entry, address))?.0;
        assert!(len > 0 && len <= entry.len, "a block lies in its area");
        Ok(len)
    }

    /// The part of the area that the allocator leaves to the program.
    pub(crate) fn reserved(&self, token: i32) -> Result<Block> {
        let entry = self.own(token)?;
        let range = malloc_of(&entry)?.heap().reserved();
        assert!(range.start <= range.end && range.end.0 <= entry.len, "inside the area");
        Ok((entry.base + range.start.as_usize(), (range.end - range.start).0))
    }
}
