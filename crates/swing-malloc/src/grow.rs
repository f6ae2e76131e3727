//! What the fast part needs of the heap: blocks for its metadata, aligned slabs, the place of its
//! directory, and growing a block where it is.

use crate::error::{AllocError, FreeError};
use crate::heap::{BlockKind, Heap};
use crate::layout::{FAST_ROOT_AT, HEADER_BYTES};
use crate::memory::{Changes, Memory};
use crate::tree::Node;
use swing::{AreaOffset, ByteLen, WriteError};

impl<M: Memory> Heap<M> {
    /// A block in the small zone, whatever its length; freed by `free_exact`.
    pub(crate) fn allocate_metadata(&self, len: u64) -> Result<u64, AllocError> {
        self.mem.check_writer()?;
        let _storing = self.mem.storing();
        let mut state = self.state.lock();
        let _changes = Changes::begin(&*self.mem)?;
        assert!(len.is_power_of_two(), "metadata lies at multiples of its length");
        let grant = self.in_zone(&self.layout.small, &mut state.small, len, len, true)?;
        match grant {
            Some(grant) => Ok(grant.offset.0),
            None => Err(AllocError::Exhausted { len, largest: 0 }),
        }
    }

    /// A block of a power of two of bytes at a multiple of it.
    pub(crate) fn allocate_aligned(&self, len: u64) -> Result<u64, AllocError> {
        debug_assert!(len.is_power_of_two());
        self.allocate_exact(ByteLen(len), ByteLen(len)).map(|offset| offset.0)
    }

    /// Where the fast part has its directory; zero: nowhere.
    pub(crate) fn fast_root(&self) -> u64 {
        let _state = self.state.lock();
        self.bytes().get_u64(FAST_ROOT_AT)
    }

    pub(crate) fn set_fast_root(&self, directory: u64) -> Result<(), WriteError> {
        let _state = self.state.lock();
        let _changes = Changes::begin(&*self.mem)?;
        let bytes = self.bytes();
        assert!(directory >= self.layout.payload_start && directory < self.layout.space.small_zone);
        bytes.barrier(0..HEADER_BYTES)?;
        bytes.set_u64(FAST_ROOT_AT, directory);
        Ok(())
    }

    /// Makes the block of [`Heap::allocate`] at `offset` at least `len` bytes long where it is;
    /// `None`, and nothing is changed, if something else lies behind it. Its bytes stay.
    ///
    /// # Errors
    /// [`FreeError::NotAllocated`] if no block begins there; [`FreeError::Write`] if there is no
    /// memory for metadata. The block is what it was then.
    pub fn grow(&self, offset: AreaOffset, len: ByteLen) -> Result<Option<ByteLen>, FreeError> {
        self.mem.check_writer()?;
        let _storing = self.mem.storing();
        let mut state = self.state.lock();
        let _changes = Changes::begin(&*self.mem)?;
        let offset = offset.0;
        let now = self.allocated(&state, offset, None)?;
        if len.0 <= now {
            return Ok(Some(ByteLen(now)));
        }
        let (zone, placement) = match self.kind_of(offset) {
            BlockKind::Small => (&self.layout.small, &mut state.small),
            BlockKind::Data => (&self.layout.data, &mut state.data),
            BlockKind::Large(_) | BlockKind::Nowhere => return Ok(None),
        };
        let tree = &zone.tree;
        let Some(size) = tree.block_for(len.0).filter(|size| offset.is_multiple_of(*size)) else {
            return Ok(None);
        };
        let bytes = self.bytes();
        let mut node = tree.node_at(tree.level_of(now), offset);
        let target = tree.level_of(size);
        while node.level > target {
            // Nothing above the block is allocated, so its neighbour's byte says all.
            if !tree.is_free(&bytes, Node { index: node.index | 1, ..node })? {
                return Ok(None);
            }
            node = node.parent();
        }
        if tree.offset(node) < tree.start || tree.offset(node) + size > tree.end {
            return Ok(None);
        }
        assert!(tree.offset(node) == offset && now < size, "it grows where it is");
        zone.give(&bytes, offset, now)?;
        if let Err(fault) = zone.take(&bytes, node, size) {
            // The metadata of the smaller block was written a moment ago, so this cannot fail.
            let smaller = tree.node_at(tree.level_of(now), offset);
            zone.take(&bytes, smaller, now)?;
            return Err(fault.into());
        }
        placement.trimmed(zone, offset + now);
        Ok(Some(ByteLen(size)))
    }
}
