//! One zone: taking and giving back blocks of its tree, with its two counters.
//!
//! Every change is prepared by reading only, then the barrier is passed for all that will be
//! written, then it is written: a barrier that fails (no memory) leaves the zone as it was. An
//! operation writes at most the header's extent and one cluster, since a block larger than a
//! cluster lives in the top array, and the pieces of a trimmed block are all above cluster size but
//! those at its end.

use crate::layout::{HEADER_BYTES, Zone};
use crate::memory::{Bytes, Memory};
use crate::tree::{CLUSTER_BYTES, Corruption, FREE, Node, USED};
use std::ops::Range;
use swing::WriteError;

/// What stops a change of metadata.
#[derive(Debug)]
pub(crate) enum Fault {
    Corrupt(Corruption),
    Write(WriteError),
}

impl From<Corruption> for Fault {
    fn from(corruption: Corruption) -> Self {
        Fault::Corrupt(corruption)
    }
}

impl From<WriteError> for Fault {
    fn from(error: WriteError) -> Self {
        Fault::Write(error)
    }
}

impl Zone {
    /// Bytes in allocated blocks.
    pub(crate) fn used<M: Memory>(&self, mem: &Bytes<'_, M>) -> u64 {
        mem.get_u64(self.counters_at)
    }

    /// Extents that are not wholly free.
    pub(crate) fn occupied<M: Memory>(&self, mem: &Bytes<'_, M>) -> u64 {
        mem.get_u64(self.counters_at + 8)
    }

    /// Passes the barrier for everything that a change of `[offset, offset + len)` writes.
    fn open_metadata<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        offset: u64,
        len: u64,
    ) -> Result<(), WriteError> {
        let tree = &self.tree;
        assert!(len > 0 && offset >= tree.start && offset + len <= tree.end, "INV-HEAP-5");
        mem.barrier(0..HEADER_BYTES)?;
        if tree.top_at >= HEADER_BYTES {
            mem.barrier(tree.top_at..tree.top_at + tree.top_bytes())?;
        }
        for piece in tree.pieces(offset, len) {
            if piece.level > tree.top {
                let at = tree.cluster_at(piece);
                // Smaller pieces follow in the same cluster.
                return mem.barrier(at..at + CLUSTER_BYTES);
            }
        }
        Ok(())
    }

    fn count<M: Memory>(&self, mem: &Bytes<'_, M>, used: i64, occupied: i64) {
        debug_assert!(used != 0 && used.signum() * occupied.signum() >= 0);
        // A hostile header may hold any number; it is only a number, and the checker compares it.
        mem.set_u64(self.counters_at, self.used(mem).wrapping_add_signed(used));
        mem.set_u64(self.counters_at + 8, self.occupied(mem).wrapping_add_signed(occupied));
    }

    /// Marks the first `len` bytes of the wholly free block `node` as allocated.
    pub(crate) fn take<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        node: Node,
        len: u64,
    ) -> Result<(), Fault> {
        let tree = &self.tree;
        let offset = tree.offset(node);
        assert!((1..=tree.size(node)).contains(&len) && len.is_multiple_of(tree.granule()));
        if offset < tree.start || offset + len > tree.end {
            // Only bytes that were damaged lead here: what lies outside is marked unavailable at
            // creation.
            let at = tree.at(Node::ROOT);
            return Err(
                Corruption { at, found: offset, rule: "free blocks lie in the zone" }.into()
            );
        }
        self.open_metadata(mem, offset, len)?;
        let extent = tree.extent();
        let opened = if tree.size(node) >= extent {
            len.div_ceil(extent) as i64
        } else {
            let around = tree.node_at(tree.extent_level, offset);
            i64::from(tree.is_free(mem, around)?)
        };
        for piece in tree.pieces(offset, len) {
            debug_assert!(tree.offset(piece) >= offset);
            tree.set(mem, piece, USED)?;
        }
        self.count(mem, len as i64, opened);
        Ok(())
    }

    /// True if `[offset, offset + len)` is made of exactly the blocks that `take` leaves.
    pub(crate) fn is_taken<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        offset: u64,
        len: u64,
    ) -> Result<bool, Corruption> {
        let tree = &self.tree;
        let inside = offset >= tree.start && offset.checked_add(len).is_some_and(|e| e <= tree.end);
        if len == 0 || !inside || !offset.is_multiple_of(len.next_power_of_two()) {
            return Ok(false);
        }
        for piece in tree.pieces(offset, len) {
            if !tree.is_used(mem, piece)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Marks a range for which [`Zone::is_taken`] holds as free; returns the extents that became
    /// wholly free.
    pub(crate) fn give<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        offset: u64,
        len: u64,
    ) -> Result<Range<u64>, Fault> {
        self.open_metadata(mem, offset, len)?;
        let tree = &self.tree;
        for piece in tree.pieces(offset, len) {
            tree.set(mem, piece, FREE)?;
        }
        let extent = tree.extent();
        let mut first = offset / extent;
        let mut end = (offset + len).div_ceil(extent);
        let free = |index| tree.is_free(mem, Node { level: tree.extent_level, index });
        // Only the extents at both ends can be shared with other blocks.
        if !free(first)? {
            first += 1;
        }
        if first < end && !free(end - 1)? {
            end -= 1;
        }
        let emptied = first.min(end)..end;
        assert!(emptied.end * extent <= tree.end, "extents of the zone");
        self.count(mem, -(len as i64), -((emptied.end - emptied.start) as i64));
        Ok(emptied.start * extent..emptied.end * extent)
    }
}
