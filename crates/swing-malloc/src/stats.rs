//! Numbers about a heap, read from its counters.

use crate::blocks;
use crate::layout::{Layout, Zone};
use crate::memory::{Bytes, Memory};
use crate::tree::{Node, UNAVAILABLE};

/// Numbers about one zone. Bytes unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStats {
    /// What the zone can hold.
    pub capacity: u64,
    /// In allocated blocks.
    pub used: u64,
    /// Extents that are not wholly free.
    pub occupied_extents: u64,
    /// Bytes of one extent.
    pub extent: u64,
    /// Largest free block.
    pub largest_free: u64,
}

impl ZoneStats {
    /// Free bytes in extents that also hold blocks.
    pub fn holes(&self) -> u64 {
        (self.occupied_extents.saturating_mul(self.extent)).saturating_sub(self.used)
    }
}

/// Numbers about a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapStats {
    /// Requests below 32 KiB.
    pub small: ZoneStats,
    /// Requests up to the limit.
    pub data: ZoneStats,
    /// Number of large blocks.
    pub large_blocks: u64,
    /// Number of those allocated.
    pub large_used: u64,
    /// Bytes of those allocated.
    pub large_bytes: u64,
    /// Bytes of the largest that is free.
    pub large_largest_free: u64,
    /// Bytes of metadata, address space; only what was touched has memory.
    pub metadata: u64,
}

impl HeapStats {
    pub(crate) fn read<M: Memory>(layout: &Layout, bytes: &Bytes<'_, M>) -> HeapStats {
        let zone = |zone: &Zone| {
            let tree = &zone.tree;
            let root = bytes.get(tree.at(Node::ROOT));
            let largest = tree.span().checked_shr(root.into()).unwrap_or(0);
            ZoneStats {
                capacity: tree.end - tree.start,
                used: zone.used(bytes),
                occupied_extents: zone.occupied(bytes),
                extent: tree.extent(),
                largest_free: if root < UNAVAILABLE { largest } else { 0 },
            }
        };
        let mut stats = HeapStats {
            small: zone(&layout.small),
            data: zone(&layout.data),
            metadata: layout.payload_start - layout.reserved_len,
            ..HeapStats::default()
        };
        for block in blocks::all(layout) {
            stats.large_blocks += 1;
            if matches!(blocks::is_used(bytes, block), Ok(true)) {
                stats.large_used += 1;
                stats.large_bytes += block.size;
            } else {
                stats.large_largest_free = stats.large_largest_free.max(block.size);
            }
        }
        stats
    }
}
