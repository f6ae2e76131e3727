//! Where everything lies in an area: a pure function of the area's sizes and the heap's options.
//!
//! ```text
//! small zone                                                          data zone
//! | header | reserved part | clusters | small blocks .. | data blocks (buddy) .. | large blocks |
//! 0        64 KiB                     payload_start     small_zone               data_end
//! data_end         reserve
//! ```
//!
//! - the header's 64 KiB: static fields, counters, states of the large blocks, tops of both trees;
//! - the reserved part: the application's, at the fixed offset [`RESERVED_OFFSET`], never touched;
//! - clusters of the small tree, then of the data tree (see [`crate::tree`]), 64 KiB each;
//! - small blocks (requests below [`SMALL_LIMIT`]), data blocks (the others), and the table of
//!   large blocks.
//!
//! Both trees begin at offset 0 of the area, with what lies before their range unavailable: a
//! block's offset in the area is its offset in the tree, so every power-of-two alignment holds in
//! the area too.
//!
//! The header stores only the inputs; the layout is derived again when a heap is opened and
//! compared by a fingerprint, so no stored offset is ever trusted (INV-HEAP-1).

use crate::error::HeapError;
use crate::memory::Space;
use crate::options::{BlockClass, HeapOptions};
use crate::tree::{CLUSTER_BYTES, Tree};
use xxhash_rust::xxh3::xxh3_64;

/// Offset of the reserved part, in every heap.
pub const RESERVED_OFFSET: u64 = 64 << 10;
/// Requests below this go to the small zone.
pub const SMALL_LIMIT: u64 = 32 << 10;
/// log2 of the smallest block in the small zone: 128 B, as in the paper.
pub const SMALL_GRANULE_SHIFT: u32 = 7;
/// log2 of the smallest block in the data zone: 4 KiB.
pub const DATA_GRANULE_SHIFT: u32 = 12;
/// Offset of the counters in the header.
pub(crate) const COUNTERS_AT: u64 = 512;
/// Offset of the place of the fast part's directory; zero when there is none.
pub(crate) const FAST_ROOT_AT: u64 = 544;
/// Offset of the states of the large blocks, one byte each.
pub(crate) const BLOCK_STATES_AT: u64 = 1024;
/// Most large blocks a table may have.
pub const MAX_BLOCKS: u64 = 3072;
/// Offset of the tops of the trees when they fit into the header.
const TOPS_AT: u64 = BLOCK_STATES_AT + MAX_BLOCKS;
/// The header's length.
pub(crate) const HEADER_BYTES: u64 = RESERVED_OFFSET;
/// Version of everything below; a change of any constant above is a new version.
pub(crate) const VERSION: u32 = 1;

const _: () = assert!(TOPS_AT < HEADER_BYTES && BLOCK_STATES_AT >= COUNTERS_AT + 64);

/// One zone: its tree and its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    pub tree: Tree,
    /// Offset of the counter of allocated bytes; the counter of occupied extents follows it.
    pub counters_at: u64,
}

/// A class of the table with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedClass {
    pub size: u64,
    pub count: u64,
    /// Offset of its first block.
    pub start: u64,
    /// Offset of its first state byte.
    pub states_at: u64,
}

/// The whole layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub space: Space,
    pub reserved_len: u64,
    /// Requests above it go to the large blocks first.
    pub limit: u64,
    pub small: Zone,
    pub data: Zone,
    /// Ascending sizes.
    pub classes: Vec<PlacedClass>,
    /// End of all metadata clusters, start of the small blocks.
    pub payload_start: u64,
    /// End of the data blocks, start of the large blocks.
    pub data_end: u64,
}

impl Layout {
    pub(crate) fn derive(space: Space, options: &HeapOptions) -> Result<Layout, HeapError> {
        check_space(&space)?;
        let classes = options.classes(&space);
        check_classes(&classes, &space)?;
        let limit = options.limit(space.reserve);
        if limit < SMALL_LIMIT {
            return Err(HeapError::Options { what: "the buddy limit is below 32 KiB" });
        }
        let reserved_len = options.reserved_len(&space);
        if reserved_len >= space.reserve {
            return Err(HeapError::Options { what: "the reserved part is larger than the area" });
        }
        let reserved_len = reserved_len.next_multiple_of(RESERVED_OFFSET);

        let large: u64 = classes.iter().map(|class| class.size * u64::from(class.count)).sum();
        let data_end = space.reserve - large;
        if data_end <= space.small_zone {
            return Err(HeapError::Options { what: "the table leaves nothing to the buddy part" });
        }
        let mut data =
            Tree::shape(DATA_GRANULE_SHIFT, space.data_extent, space.small_zone, data_end);
        // The small tree's range begins where all metadata ends, which depends on its number of
        // clusters only.
        let first = space.small_zone - space.small_extent;
        let mut small =
            Tree::shape(SMALL_GRANULE_SHIFT, space.small_extent, first, space.small_zone);

        let mut at = RESERVED_OFFSET + reserved_len;
        let tops = small.top_bytes() + data.top_bytes();
        if TOPS_AT + tops <= HEADER_BYTES {
            small.top_at = TOPS_AT;
        } else {
            small.top_at = at;
            at = (at + tops).next_multiple_of(CLUSTER_BYTES);
        }
        data.top_at = small.top_at + small.top_bytes();
        small.clusters_at = at;
        data.clusters_at = at + small.clusters() * CLUSTER_BYTES;
        let end = data.clusters_at + data.clusters() * CLUSTER_BYTES;
        let payload_start = end.next_multiple_of(space.small_extent);
        if payload_start >= space.small_zone {
            let needed = payload_start + space.small_extent;
            return Err(HeapError::ZoneTooSmall { needed, small_zone: space.small_zone });
        }
        small.start = payload_start;
        assert!(data.start == space.small_zone && data.end == data_end);
        assert!(small.top_at >= TOPS_AT && data.clusters_at >= small.clusters_at);
        Ok(Layout {
            space,
            reserved_len,
            limit,
            small: Zone { tree: small, counters_at: COUNTERS_AT },
            data: Zone { tree: data, counters_at: COUNTERS_AT + 16 },
            classes: place_classes(&classes, data_end),
            payload_start,
            data_end,
        })
    }

    /// The table that leads to this layout again.
    #[cfg(test)]
    pub(crate) fn table(&self) -> Vec<BlockClass> {
        let class = |c: &PlacedClass| BlockClass { size: c.size, count: c.count as u32 };
        self.classes.iter().map(class).collect()
    }

    /// A number that differs when any derived place differs.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut bytes = Vec::with_capacity(256);
        for tree in [&self.small.tree, &self.data.tree] {
            let shape = [tree.granule_shift, tree.depth, tree.top, tree.extent_level];
            bytes.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
            let places = [tree.start, tree.end, tree.top_at, tree.clusters_at];
            bytes.extend(places.iter().flat_map(|n| n.to_le_bytes()));
        }
        for class in &self.classes {
            bytes.extend(
                [class.size, class.count, class.start].iter().flat_map(|n| n.to_le_bytes()),
            );
        }
        bytes.extend(self.payload_start.to_le_bytes());
        bytes.extend(self.data_end.to_le_bytes());
        xxh3_64(&bytes)
    }
}

fn check_space(space: &Space) -> Result<(), HeapError> {
    let extents = [space.small_extent, space.data_extent];
    let sound = extents.iter().all(|e| e.is_power_of_two() && *e >= 1 << DATA_GRANULE_SHIFT)
        && space.small_zone.is_multiple_of(space.data_extent)
        && space.small_zone.is_multiple_of(space.small_extent)
        && space.reserve.is_multiple_of(space.data_extent)
        && space.small_zone > 0
        && space.small_zone < space.reserve
        && space.reserve <= 1 << 47;
    if sound { Ok(()) } else { Err(HeapError::Options { what: "the area's sizes are no heap's" }) }
}

fn check_classes(classes: &[BlockClass], space: &Space) -> Result<(), HeapError> {
    let mut blocks = 0_u64;
    let mut bytes = 0_u64;
    let mut previous = 0;
    for class in classes {
        if class.size <= previous || class.count == 0 {
            return Err(HeapError::Options { what: "the table's sizes must ascend" });
        }
        if !class.size.is_multiple_of(space.data_extent) {
            return Err(HeapError::Options { what: "a block size is no multiple of an extent" });
        }
        previous = class.size;
        blocks += u64::from(class.count);
        bytes = class
            .size
            .checked_mul(class.count.into())
            .and_then(|sum| sum.checked_add(bytes))
            .ok_or(HeapError::Options { what: "the table is larger than the area" })?;
    }
    if blocks > MAX_BLOCKS || classes.len() > crate::header::MAX_CLASSES {
        return Err(HeapError::Options { what: "the table has too many blocks" });
    }
    if bytes > space.reserve - space.small_zone {
        return Err(HeapError::Options { what: "the table is larger than the area" });
    }
    Ok(())
}

fn place_classes(classes: &[BlockClass], data_end: u64) -> Vec<PlacedClass> {
    let (mut start, mut states_at) = (data_end, BLOCK_STATES_AT);
    let mut placed = Vec::with_capacity(classes.len());
    for class in classes {
        let count = u64::from(class.count);
        placed.push(PlacedClass { size: class.size, count, start, states_at });
        start += class.size * count;
        states_at += count;
    }
    assert!(states_at <= BLOCK_STATES_AT + MAX_BLOCKS, "the header has room for their states");
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::BlockTable;

    pub(crate) fn space(reserve: u64) -> Space {
        let small_zone = (reserve / 64).next_multiple_of(2 << 20);
        Space { reserve, small_zone, small_extent: 64 << 10, data_extent: 2 << 20 }
    }

    #[test]
    fn the_papers_area_has_the_papers_table() {
        let options = HeapOptions { blocks: BlockTable::Paper, ..HeapOptions::default() };
        let layout = Layout::derive(space(512 << 30), &options).unwrap();
        assert_eq!(layout.limit, 512 << 20);
        assert_eq!(layout.reserved_len, 512 << 20);
        assert_eq!(layout.data_end, 128 << 30);
        let table: Vec<_> = layout.classes.iter().map(|c| (c.size >> 30, c.count)).collect();
        assert_eq!(table, [(1, 64), (2, 32), (4, 16), (8, 8), (16, 4), (32, 2)]);
    }

    #[test]
    fn parts_do_not_overlap() {
        for shift in 23..=46 {
            let layout = Layout::derive(space(1 << shift), &HeapOptions::default()).unwrap();
            let (small, data) = (&layout.small.tree, &layout.data.tree);
            assert!(small.top_at >= TOPS_AT);
            assert_eq!(data.top_at, small.top_at + small.top_bytes());
            let tops_end = data.top_at + data.top_bytes();
            assert!(tops_end <= RESERVED_OFFSET || tops_end <= small.clusters_at);
            assert!(RESERVED_OFFSET + layout.reserved_len <= small.clusters_at);
            assert_eq!(data.clusters_at, small.clusters_at + small.clusters() * CLUSTER_BYTES);
            assert!(data.clusters_at + data.clusters() * CLUSTER_BYTES <= layout.payload_start);
            assert!(layout.payload_start < layout.space.small_zone);
            // At least half of the small zone is the user's.
            assert!(layout.payload_start <= layout.space.small_zone / 2, "reserve 1 << {shift}");
            assert_eq!((small.end, data.start), (layout.space.small_zone, layout.space.small_zone));
            let last =
                layout.classes.last().map_or(layout.data_end, |c| c.start + c.size * c.count);
            assert_eq!(last, layout.space.reserve);
        }
    }

    #[test]
    fn a_stored_table_gives_the_same_layout() {
        let first = Layout::derive(space(1 << 36), &HeapOptions::default()).unwrap();
        let again = HeapOptions {
            reserved_len: Some(first.reserved_len),
            buddy_limit: Some(first.limit),
            blocks: BlockTable::Custom(first.table()),
        };
        assert_eq!(Layout::derive(first.space, &again).unwrap(), first);
    }

    #[test]
    fn unsound_options_are_refused() {
        let table =
            |classes| HeapOptions { blocks: BlockTable::Custom(classes), ..HeapOptions::default() };
        let gib = 1 << 30;
        for classes in [
            vec![BlockClass { size: 3, count: 1 }],
            vec![BlockClass { size: gib, count: 0 }],
            vec![BlockClass { size: gib, count: 1 }, BlockClass { size: gib, count: 1 }],
            vec![BlockClass { size: gib, count: 64 }],
            vec![BlockClass { size: 2 << 20, count: 4000 }],
            vec![BlockClass { size: 1 << 60, count: u32::MAX }],
        ] {
            let found = Layout::derive(space(64 << 30), &table(classes.clone()));
            assert!(matches!(found, Err(HeapError::Options { .. })), "{classes:?}: {found:?}");
        }
        for reserved in [1 << 30, u64::MAX - (64 << 10), u64::MAX] {
            let options = HeapOptions { reserved_len: Some(reserved), ..HeapOptions::default() };
            let found = Layout::derive(space(1 << 30), &options);
            assert!(matches!(found, Err(HeapError::Options { .. })), "{reserved}: {found:?}");
        }
        let mut odd = space(1 << 30);
        odd.small_zone += 1;
        assert!(Layout::derive(odd, &HeapOptions::default()).is_err());
        let tiny = Space { small_zone: 128 << 10, data_extent: 128 << 10, ..space(1 << 30) };
        let found = Layout::derive(tiny, &HeapOptions::default());
        assert!(matches!(found, Err(HeapError::ZoneTooSmall { .. })), "{found:?}");
    }
}
