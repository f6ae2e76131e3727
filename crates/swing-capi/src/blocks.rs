//! The allocator's calls: `swing_alloc` and its relatives.
//!
//! An area gets its allocator with the first allocation; a hooked one continues its origin's.
//! The first bytes of an area belong to the allocator then, so an area in which the program has
//! already stored something there gets none. Live hooks wait for the end of an allocation, so that
//! the allocator of a hooker is whole.

use swing::{AreaOffset, ByteLen};
use swing_malloc::{Grant, Heap, HeapError, HeapOptions, Malloc};

use crate::areas::{Entry, Registry};
use crate::error::{Code, Failure, Result};
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
    let area = &entry.area;
    let start = AreaOffset(0)..AreaOffset(1);
    let heap = match area.any_present(&start) {
        false => Heap::create(area.clone(), HeapOptions::default())?,
        true => Heap::open(area.clone()).map_err(explain)?,
    };
    let malloc = Malloc::open(heap)?;
    assert!(area.any_present(&start), "an allocator's header is where the next one looks for it");
    *slot = Some(malloc.clone());
    Ok(malloc)
}

fn explain(error: HeapError) -> Failure {
    match error {
        HeapError::NoHeap { .. } => Failure::new(
            Code::Argument,
            "the program has stored into the area's first bytes: no room for an allocator",
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

    pub(crate) fn free(&self, address: usize) -> Result<()> {
        let entry = self.at(address)?;
        Ok(malloc_of(&entry)?.free(offset(&entry, address))?)
    }

    pub(crate) fn realloc(&self, address: usize, len: usize) -> Result<Block> {
        let entry = self.at(address)?;
        self.usable(address)?;
        let malloc = malloc_of(&entry)?;
        let grant = malloc.reallocate(offset(&entry, address), ByteLen(len as u64))?;
        assert!(grant.len.0 >= len as u64, "as long as was asked for");
        Ok(block(&entry, grant))
    }

    pub(crate) fn usable(&self, address: usize) -> Result<u64> {
        let entry = self.at(address)?;
        let usable = malloc_of(&entry)?.usable_size(offset(&entry, address));
        let none = || Failure::new(Code::Argument, "no block begins at the address");
        let len = usable.map(|len| len.0).ok_or_else(none)?;
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
