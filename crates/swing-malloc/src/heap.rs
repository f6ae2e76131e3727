//! The heap: one allocator over one area.
//!
//! # Routing
//! Requests below 32 KiB live in the small zone, larger ones up to the limit in the data zone's
//! buddy part, larger ones still in the table of large blocks. Each falls back to the next when its
//! own part is exhausted (large requests to the buddy part), so that address space that exists is
//! found. Blocks of an extent or more begin at an extent.
//!
//! # Concurrency
//! One mutex around metadata; a section is two walks through a tree. The memory of whole extents
//! that are freed is given back outside the lock, before their blocks are marked free. A publish
//! must not fall between the barrier and the write of an operation: hold [`Heap::pause`] while
//! publishing.
//!
//! # Crash
//! Nothing to repair: metadata is part of the area, and an area that is adopted shows a published
//! state, which no operation was in the middle of. Blocks that were allocated in that state and
//! that the application has forgotten since can be found by [`Heap::blocks`].

use crate::blocks::{self, LargeBlock};
use crate::error::{AllocError, FreeError, HeapError};
use crate::header;
use crate::layout::{HEADER_BYTES, Layout, RESERVED_OFFSET, SMALL_LIMIT, Zone};
use crate::memory::{Bytes, Changes, Memory};
use crate::options::HeapOptions;
use crate::placement::Placement;
use crate::stats::HeapStats;
use crate::tree::{CLUSTER_BYTES, Node, UNAVAILABLE};
use crate::zone::Fault;
use parking_lot::{Mutex, MutexGuard};
use std::ops::Range;
use std::sync::Arc;
use swing::{Area, AreaOffset, ByteLen};

/// What an allocation got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Where the block begins.
    pub offset: AreaOffset,
    /// Bytes that may be used: at least what was asked for.
    pub len: ByteLen,
}

/// The allocator of one area. See the [module](self) for concurrency.
///
/// The offsets it grants are valid in every process that maps a published state of the area. It
/// does not make the granted memory writable: pass the write barrier of the area before the first
/// store to it.
#[derive(Debug)]
pub struct Heap<M = Area> {
    pub(crate) mem: Arc<M>,
    pub(crate) layout: Layout,
    pub(crate) state: Mutex<State>,
}

/// What only this process knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) small: Placement,
    pub(crate) data: Placement,
    /// Blocks whose memory is being given back right now, not yet marked free.
    pub(crate) freeing: Vec<u64>,
}

/// While it lives, no allocation or free changes metadata.
#[derive(Debug)]
pub struct Pause<'a> {
    _state: MutexGuard<'a, State>,
}

/// Where a block lies.
pub(crate) enum BlockKind {
    Small,
    Data,
    Large(LargeBlock),
    Nowhere,
}

impl<M: Memory> Heap<M> {
    /// Formats an area whose small zone nobody uses yet.
    ///
    /// # Errors
    /// [`HeapError::Options`] and [`HeapError::ZoneTooSmall`] if area and options do not fit
    /// together, [`HeapError::Write`] if there is no memory for the first extents.
    pub fn create(area: Arc<M>, options: HeapOptions) -> Result<Self, HeapError> {
        let layout = Layout::derive(area.space(), &options)?;
        assert!(layout.payload_start < layout.space.small_zone, "there is room for small blocks");
        let bytes = Bytes::new(&*area, layout.payload_start);
        bytes.barrier(0..HEADER_BYTES)?;
        for at in 0..HEADER_BYTES {
            bytes.set(at, 0);
        }
        // Absent memory reads as zero, and a tree of zeros is a free one; something was here only
        // if a format failed.
        let clusters = layout.small.tree.clusters_at..layout.payload_start;
        area.discard(clusters)?;
        for zone in [&layout.small, &layout.data] {
            let tree = &zone.tree;
            bytes.barrier(tree.top_at..tree.top_at + tree.top_bytes())?;
            for at in tree.top_at..tree.top_at + tree.top_bytes() {
                bytes.set(at, 0);
            }
            let outside = [0..tree.start, tree.end..tree.span()];
            for node in outside.into_iter().flat_map(|range| tree.cover(range)) {
                if node.level > tree.top {
                    let at = tree.cluster_at(node);
                    bytes.barrier(at..at + CLUSTER_BYTES)?;
                }
                tree.set(&bytes, node, UNAVAILABLE)?;
            }
        }
        for (at, byte) in header::encode(&layout).into_iter().enumerate() {
            bytes.set(at as u64, byte);
        }
        Ok(Self::with(area, layout))
    }

    /// Opens the heap of an existing area: one that was adopted, or one derived from a snapshot.
    ///
    /// Reads the header only, so it takes the same time for any amount of data.
    ///
    /// # Errors
    /// [`HeapError::NoHeap`], [`HeapError::Version`], [`HeapError::Geometry`],
    /// [`HeapError::Corrupt`]: what is there is not a heap that this program can use. Nothing is
    /// changed.
    pub fn open(area: Arc<M>) -> Result<Self, HeapError> {
        let layout = header::read(&*area)?;
        let bytes = Bytes::new(&*area, layout.payload_start);
        let (small, data) = (&layout.small.tree, &layout.data.tree);
        let tops = small.top_at..data.top_at + data.top_bytes();
        for range in [0..HEADER_BYTES, tops] {
            if !bytes.present(range.clone()) {
                let rule = "header and tops have memory";
                return Err(HeapError::Corrupt { at: range.start, found: 0, rule });
            }
        }
        Ok(Self::with(area, layout))
    }

    fn with(mem: Arc<M>, layout: Layout) -> Self {
        assert_eq!(
            layout.space,
            mem.space(),
            "a heap is used with the area that it is laid out for"
        );
        let state = State { small: Placement::new(), data: Placement::new(), freeing: Vec::new() };
        Heap { mem, layout, state: Mutex::new(state) }
    }

    /// A block of at least `len` bytes: the next power of two, or a block of the table.
    ///
    /// # Errors
    /// See [`AllocError`]; nothing is changed then.
    pub fn allocate(&self, len: ByteLen) -> Result<Grant, AllocError> {
        self.place(len.0, 1, false)
    }

    /// A block of `len` bytes, rounded up to 128 B (4 KiB from 32 KiB on), at a multiple of `align`
    /// (a power of two). The rest of the power of two stays free. To be freed with
    /// [`Heap::free_exact`] and the same length.
    ///
    /// # Errors
    /// See [`AllocError`]; nothing is changed then.
    pub fn allocate_exact(&self, len: ByteLen, align: ByteLen) -> Result<AreaOffset, AllocError> {
        if !align.0.is_power_of_two() || align.0 > self.layout.space.reserve {
            return Err(AllocError::Alignment { align: align.0 });
        }
        Ok(self.place(len.0, align.0, true)?.offset)
    }

    /// Whole extents of the data zone without memory, to map something there. To be freed with
    /// [`Heap::free_exact`] and the length rounded up to extents.
    ///
    /// # Errors
    /// See [`AllocError`]; nothing is changed then.
    pub fn reserve_extents(&self, len: ByteLen) -> Result<AreaOffset, AllocError> {
        let extent = self.layout.space.data_extent;
        let whole = len.0.checked_next_multiple_of(extent);
        let whole = whole.ok_or(AllocError::Length { len: len.0 })?;
        let at_least = if len.0 == 0 { 0 } else { whole.max(SMALL_LIMIT) };
        Ok(self.place(at_least, extent, true)?.offset)
    }

    fn place(&self, len: u64, align: u64, exact: bool) -> Result<Grant, AllocError> {
        if len == 0 || len > self.layout.space.reserve {
            return Err(AllocError::Length { len });
        }
        assert!(align.is_power_of_two());
        // Before the lock: in a forked child its holder may not exist.
        self.mem.check_writer()?;
        let _storing = self.mem.storing();
        let mut state = self.state.lock();
        let _changes = Changes::begin(&*self.mem)?;
        let State { small, data, .. } = &mut *state;
        let layout = &self.layout;
        let (small_zone, data_zone) = (&layout.small, &layout.data);
        let mut grant = None;
        if len < SMALL_LIMIT {
            grant = self.in_zone(small_zone, small, len, align, exact)?;
        }
        if grant.is_none() && len > layout.limit {
            grant = self.in_table(len, align)?;
        }
        if grant.is_none() {
            grant = self.in_zone(data_zone, data, len, align, exact)?;
        }
        if grant.is_none() && len <= layout.limit {
            grant = self.in_table(len, align)?;
        }
        let grant =
            grant.ok_or_else(|| AllocError::Exhausted { len, largest: self.largest(len) })?;
        let (offset, end) = (grant.offset.0, grant.offset.0 + grant.len.0);
        // Whatever the bytes of the trees say.
        assert!(offset >= layout.payload_start && end <= layout.space.reserve, "INV-HEAP-5");
        assert!(grant.len.0 >= len && offset.is_multiple_of(align));
        Ok(grant)
    }

    pub(crate) fn in_zone(
        &self,
        zone: &Zone,
        placement: &mut Placement,
        len: u64,
        align: u64,
        exact: bool,
    ) -> Result<Option<Grant>, AllocError> {
        let tree = &zone.tree;
        let Some(size) = tree.block_for(len.max(align)) else {
            return Ok(None);
        };
        let bytes = self.bytes();
        let level = tree.level_of(size);
        let Some(node) = placement.choose(&*self.mem, &bytes, zone, level)? else {
            return Ok(None);
        };
        let granted = if exact { len.next_multiple_of(tree.granule()) } else { size };
        assert!((len..=size).contains(&granted), "the block found holds what is granted");
        zone.take(&bytes, node, granted)?;
        if granted < size {
            placement.trimmed(zone, tree.offset(node) + granted);
        }
        Ok(Some(Grant { offset: AreaOffset(tree.offset(node)), len: ByteLen(granted) }))
    }

    fn in_table(&self, len: u64, align: u64) -> Result<Option<Grant>, AllocError> {
        let bytes = self.bytes();
        let Some(block) = blocks::find(&self.layout, &bytes, len, align)? else {
            return Ok(None);
        };
        blocks::set(&bytes, block, true)?;
        Ok(Some(Grant { offset: AreaOffset(block.offset), len: ByteLen(block.size) }))
    }

    /// Frees a block of [`Heap::allocate`].
    ///
    /// # Errors
    /// See [`FreeError`]; the block stays allocated then.
    pub fn free(&self, offset: AreaOffset) -> Result<(), FreeError> {
        self.release(offset.0, None)
    }

    /// Frees a block of [`Heap::allocate_exact`] or [`Heap::reserve_extents`] of this length.
    ///
    /// # Errors
    /// See [`FreeError`]; the block stays allocated then.
    pub fn free_exact(&self, offset: AreaOffset, len: ByteLen) -> Result<(), FreeError> {
        self.release(offset.0, Some(len.0))
    }

    fn release(&self, offset: u64, exact: Option<u64>) -> Result<(), FreeError> {
        self.mem.check_writer()?;
        let _storing = self.mem.storing();
        let mut state = self.state.lock();
        let _changes = Changes::begin(&*self.mem)?;
        let len = self.allocated(&state, offset, exact)?;
        let extent = self.extent_at(offset);
        let whole = offset.next_multiple_of(extent)..(offset + len) / extent * extent;
        if whole.start < whole.end {
            // The block still belongs to nobody else, so its memory can go without the lock.
            assert!(whole.start >= offset && whole.end <= offset + len, "only the block's own");
            state.freeing.push(offset);
            drop(state);
            let discarded = self.mem.discard(whole.clone());
            state = self.state.lock();
            let before = state.freeing.len();
            state.freeing.retain(|other| *other != offset);
            assert_eq!(state.freeing.len() + 1, before, "INV-HEAP-9: a block is freed once");
            discarded?;
        }
        match self.kind_of(offset) {
            BlockKind::Large(block) => Ok(blocks::set(&self.bytes(), block, false)?),
            BlockKind::Small => self.give(&self.layout.small, &mut state.small, offset, len, whole),
            BlockKind::Data => self.give(&self.layout.data, &mut state.data, offset, len, whole),
            BlockKind::Nowhere => Err(FreeError::NotAllocated { offset }),
        }
    }

    fn give(
        &self,
        zone: &Zone,
        placement: &mut Placement,
        offset: u64,
        len: u64,
        discarded: Range<u64>,
    ) -> Result<(), FreeError> {
        let emptied = zone.give(&self.bytes(), offset, len)?;
        assert!(discarded.start >= discarded.end || discarded.end <= offset + len);
        // What became wholly free beyond the block's own extents: the shared ones at its ends.
        let end = offset + len;
        let parts = if discarded.start < discarded.end {
            [emptied.start..discarded.start.min(emptied.end), discarded.end..emptied.end]
        } else {
            [emptied.clone(), 0..0]
        };
        for part in parts.into_iter().filter(|part| part.start < part.end) {
            // The blocks are free already. If the system refuses, the extent keeps its memory until
            // it is used again.
            let _ = self.mem.discard(part);
        }
        if emptied.start > offset || emptied.start >= emptied.end {
            placement.freed(&*self.mem, zone, offset);
        }
        if emptied.end < end {
            placement.freed(&*self.mem, zone, end - 1);
        }
        Ok(())
    }

    /// The length of the allocation at `offset`; checks that it is one.
    pub(crate) fn allocated(
        &self,
        state: &State,
        offset: u64,
        exact: Option<u64>,
    ) -> Result<u64, FreeError> {
        let missing = FreeError::NotAllocated { offset };
        debug_assert!(self.state.is_locked());
        if state.freeing.contains(&offset) {
            return Err(missing);
        }
        let zone = match self.kind_of(offset) {
            BlockKind::Small => &self.layout.small,
            BlockKind::Data => &self.layout.data,
            BlockKind::Large(block) => {
                if !blocks::is_used(&self.bytes(), block)? {
                    return Err(missing);
                }
                assert!(block.offset == offset && block.size > 0);
                return match exact {
                    Some(len) if len > block.size => Err(FreeError::Length { offset, len }),
                    _ => Ok(block.size),
                };
            }
            BlockKind::Nowhere => return Err(missing),
        };
        let bytes = self.bytes();
        let Some(node) = zone.tree.locate(&bytes, offset)? else {
            return Err(missing);
        };
        let Some(len) = exact else {
            return Ok(zone.tree.size(node));
        };
        let wrong = FreeError::Length { offset, len };
        match len.checked_next_multiple_of(zone.tree.granule()) {
            Some(whole) if zone.is_taken(&bytes, offset, whole)? => Ok(whole),
            _ => Err(wrong),
        }
    }

    /// Bytes that may be used at the block that begins at `offset`, `None` if no block does. For a
    /// block of [`Heap::allocate_exact`] it is the length of its first power of two.
    ///
    /// # Errors
    /// [`FreeError::Corrupt`] if metadata contradicts itself.
    pub fn usable_size(&self, offset: AreaOffset) -> Result<Option<ByteLen>, FreeError> {
        let state = self.state.lock();
        match self.allocated(&state, offset.0, None) {
            Ok(len) => Ok(Some(ByteLen(len))),
            Err(FreeError::NotAllocated { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps metadata from changing until the guard is dropped: to be held while the area is
    /// published.
    pub fn pause(&self) -> Pause<'_> {
        Pause { _state: self.state.lock() }
    }

    /// The part of the area that belongs to the application: a fixed offset, the same in every
    /// heap.
    pub fn reserved(&self) -> Range<AreaOffset> {
        let end = RESERVED_OFFSET + self.layout.reserved_len;
        assert!(end <= self.layout.payload_start, "metadata and blocks lie behind it");
        AreaOffset(RESERVED_OFFSET)..AreaOffset(end)
    }

    /// The memory below.
    pub fn area(&self) -> &Arc<M> {
        &self.mem
    }

    /// Numbers, from counters: it takes the same time for any amount of data.
    pub fn stats(&self) -> HeapStats {
        let _state = self.state.lock();
        HeapStats::read(&self.layout, &self.bytes())
    }

    pub(crate) fn with_metadata<R>(
        &self,
        f: impl FnOnce(&M, &Layout, &Bytes<'_, M>, &[u64]) -> R,
    ) -> R {
        let state = self.state.lock();
        f(&self.mem, &self.layout, &self.bytes(), &state.freeing)
    }

    pub(crate) fn bytes(&self) -> Bytes<'_, M> {
        Bytes::new(&*self.mem, self.layout.payload_start)
    }

    pub(crate) fn kind_of(&self, offset: u64) -> BlockKind {
        if offset < self.layout.space.small_zone {
            BlockKind::Small
        } else if offset < self.layout.data_end {
            BlockKind::Data
        } else {
            match blocks::at(&self.layout, offset) {
                Some(block) => BlockKind::Large(block),
                None => BlockKind::Nowhere,
            }
        }
    }

    fn extent_at(&self, offset: u64) -> u64 {
        let space = &self.layout.space;
        debug_assert!(offset < space.reserve);
        if offset < space.small_zone { space.small_extent } else { space.data_extent }
    }

    /// Largest free block of the parts that serve `len`, for the error message.
    fn largest(&self, len: u64) -> u64 {
        let bytes = self.bytes();
        let root = |zone: &Zone| {
            let tree = &zone.tree;
            let value = bytes.get(tree.at(Node::ROOT));
            if value < UNAVAILABLE { tree.span().checked_shr(value.into()).unwrap_or(0) } else { 0 }
        };
        let table =
            blocks::all(&self.layout).filter(|b| matches!(blocks::is_used(&bytes, *b), Ok(false)));
        let table = table.map(|block| block.size).max().unwrap_or(0);
        let small = if len < SMALL_LIMIT { root(&self.layout.small) } else { 0 };
        small.max(root(&self.layout.data)).max(table)
    }
}

impl From<Fault> for AllocError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Corrupt(corruption) => corruption.into(),
            Fault::Write(error) => error.into(),
        }
    }
}

impl From<Fault> for FreeError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Corrupt(corruption) => corruption.into(),
            Fault::Write(error) => error.into(),
        }
    }
}
