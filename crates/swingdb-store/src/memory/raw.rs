//! The only unsafe code of the database: offsets become bytes, buffers and arrays; bytes go into
//! fresh blocks.
//!
//! * [`Memory`] is an address range (of a snapshot or of an area open for writing) that is checked
//!   at every access: an offset outside it is an error, never an access.
//! * [`Fresh`] is a block that was just allocated: until it is turned into a [`Loc`] nobody else
//!   knows it, so it may be written through `&mut`. [`Reserved`] is one that is written later;
//!   while it exists no bytes of the block are lent.
//! * [`Blocks`] are allocated blocks that whoever reads them holds. Bytes of a block never change
//!   while a `Blocks` that lists it exists (INV-DB-1), which is what makes `&[u8]` and `Buffer` to
//!   them sound.
//!
//! **Cycle.** Bytes are lent from blocks (`space`); where these are still on the disk, `fetch`
//! reads them first, into memory that is made writable here.

#![allow(unsafe_code)]

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow::datatypes::DataType;
use swing::{AreaOffset, ByteLen, Mapping, WriteIntent, WriteSession};
use swing_malloc::Heap;
use swingdb_common::error::{Error, Result};

use crate::errors::area::{alloc_error, corrupt, write_error};
use crate::memory::fetch::fetch;
use crate::memory::space::Blocks;

/// Alignment of every buffer: what Arrow recommends, and enough for its widest type.
pub(crate) const BUFFER_ALIGN: u64 = 64;

/// A block or a part of one: offset and length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Loc {
    pub offset: u64,
    pub len: u64,
}

impl Loc {
    /// First byte after it.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Whether `other` lies inside.
    pub fn contains(self, other: Loc) -> bool {
        other.offset >= self.offset && other.end() <= self.end()
    }
}

/// The address range of an area or snapshot; pins it.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    mapping: Arc<Mapping>,
}

impl Memory {
    /// The range of `mapping`.
    pub fn new(mapping: Arc<Mapping>) -> Self {
        Self { mapping }
    }

    /// Length of the range.
    pub fn len(&self) -> u64 {
        self.mapping.len().0
    }

    fn address(&self, loc: Loc) -> Result<NonNull<u8>> {
        let end = loc.offset.checked_add(loc.len).filter(|end| *end <= self.len());
        if end.is_none() {
            return Err(corrupt(format!("{loc:?} lies outside the area")));
        }
        // SAFETY: offset + len is within the reserved range of the mapping, which `self.mapping`
        // keeps (checked above).
        Ok(unsafe { self.mapping.base().add(loc.offset as usize) })
    }
}

/// A block that nobody may read yet, and that takes no memory so far.
#[derive(Debug)]
pub(crate) struct Reserved {
    loc: Loc,
}

impl Reserved {
    /// Allocates `len` bytes.
    pub fn allocate(heap: &Heap, len: u64) -> Result<Self> {
        assert!(len > 0, "an empty block has no address");
        let offset = heap
            .allocate_exact(ByteLen(len), ByteLen(BUFFER_ALIGN))
            .map_err(|e| alloc_error(e, len))?;
        Ok(Self { loc: Loc { offset: offset.0, len } })
    }

    /// Where it is.
    pub fn loc(&self) -> Loc {
        self.loc
    }

    /// Makes it writable; contents are unspecified. On an error it is given back.
    pub fn open(self, heap: &Heap, memory: &Memory) -> std::result::Result<Fresh, (Self, Error)> {
        let session = heap.area().write_session();
        let range = AreaOffset(self.loc.offset)..AreaOffset(self.loc.end());
        match heap.area().make_writable(range, WriteIntent::Overwrite) {
            Ok(()) => Ok(Fresh { memory: memory.clone(), loc: self.loc, _session: session }),
            Err(error) => Err((self, write_error(error))),
        }
    }
}

/// A block nobody else knows yet; writable.
#[derive(Debug)]
pub(crate) struct Fresh {
    memory: Memory,
    loc: Loc,
    /// All stores of the database go through a `Fresh`, so each is announced: a fork meanwhile does
    /// not trap it, and a fork at any other time leaves the child a view that does not change.
    _session: WriteSession,
}

impl Fresh {
    /// Allocates `len` bytes and makes them writable. Contents are unspecified.
    pub fn allocate(heap: &Heap, memory: &Memory, len: u64) -> Result<Self> {
        assert!(len > 0, "an empty block has no address");
        Reserved::allocate(heap, len)?.open(heap, memory).map_err(|(Reserved { loc }, error)| {
            // The block was never handed out; a failure to free it again could only leak it.
            let _ = heap.free_exact(AreaOffset(loc.offset), ByteLen(len));
            error
        })
    }

    /// Where it is.
    pub fn loc(&self) -> Loc {
        self.loc
    }

    /// It is written later.
    pub fn into_reserved(self) -> Reserved {
        Reserved { loc: self.loc }
    }

    /// Its bytes.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        let address = self.memory.address(self.loc)?;
        // SAFETY: INV-DB-2: the heap granted this range to this `Fresh` alone, `make_writable` made
        // it writable, and `&mut self` makes this the only reference.
        Ok(unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), self.loc.len as usize) })
    }
}

/// The bytes of `loc`, which must lie in one of `blocks`.
///
/// Where they are in the store on a disk still, they are read from there first.
pub(crate) fn bytes(blocks: &Arc<Blocks>, loc: Loc) -> Result<&[u8]> {
    if !blocks.in_memory() {
        fetch(std::iter::once(blocks))?;
    }
    let memory = blocks.memory();
    if loc.len == 0 {
        return Ok(&[]);
    }
    if !blocks.covers(loc) {
        return Err(corrupt(format!("{loc:?} is in no block of its owner")));
    }
    let address = memory.address(loc)?;
    // SAFETY: INV-DB-1: the range lies in a block that `blocks` pins for the lifetime of the
    // result, is mapped (checked when the block was read from the catalog, or made by us), and does
    // not change while pinned: what was still on its way from a store has arrived (above).
    Ok(unsafe { std::slice::from_raw_parts(address.as_ptr(), loc.len as usize) })
}

/// What keeps a buffer's memory.
struct Owner(#[allow(dead_code, reason = "held for its drop")] Arc<Blocks>);

// A panic cannot leave a `Blocks` in a half-changed state that a buffer would notice: it reads no
// field of it.
impl RefUnwindSafe for Owner {}
impl UnwindSafe for Owner {}

/// An Arrow buffer over `loc` without copying; it pins `blocks`.
pub(crate) fn buffer(blocks: &Arc<Blocks>, loc: Loc) -> Result<Buffer> {
    let slice = bytes(blocks, loc)?;
    if slice.is_empty() {
        return Ok(MutableBuffer::new(0).into());
    }
    let address = NonNull::from(slice).cast::<u8>();
    let owner = Arc::new(Owner(blocks.clone()));
    // SAFETY: INV-DB-1: `owner` pins the bytes, which do not change, as long as any clone of the
    // buffer lives.
    Ok(unsafe { Buffer::from_custom_allocation(address, loc.len as usize, owner) })
}

/// An array from parts read from the catalog. Lengths and types of the buffers are checked; offsets
/// and text inside them are not read here (they are data that our own writer checked, under the
/// area's write protection).
pub(crate) fn array(
    data_type: &DataType,
    len: usize,
    offset: usize,
    nulls: Option<NullBuffer>,
    buffers: Vec<Buffer>,
    children: Vec<ArrayData>,
) -> Result<ArrayRef> {
    let builder = ArrayData::builder(data_type.clone()).len(len).offset(offset);
    let builder = builder.nulls(nulls).buffers(buffers).child_data(children);
    // SAFETY: the layout (number and sizes of buffers, child types and lengths, first and last
    // offset) is validated by `validate` below before the data is used as an array; the contents
    // were written from valid arrays (INV-DB-1).
    let data = unsafe { builder.build_unchecked() };
    data.validate().map_err(|e| corrupt(format!("column data: {e}")))?;
    Ok(make_array(data))
}
