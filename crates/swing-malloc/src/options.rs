//! What a heap's creator may choose: the reserved part, the buddy part's limit, the table of large
//! blocks.
//!
//! Every default scales with the area, in the proportions of the SWING paper (section 4): in its
//! 512 GB area the buddy part serves requests up to 512 MB, the table has six sizes from 1 GB to 32
//! GB, and 512 MB are reserved.

use crate::memory::Space;

/// One size of the table of large blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockClass {
    /// Bytes of a block, a multiple of the data extent.
    pub size: u64,
    /// Number of blocks.
    pub count: u32,
}

/// The table of large blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BlockTable {
    /// Half of what the paper's table holds, 3/8 of the area: databases need more room for buddy
    /// blocks.
    #[default]
    Standard,
    /// The paper's table 1 scaled to the area: 3/4 of it.
    Paper,
    /// No large blocks: the buddy part is the whole data zone.
    None,
    /// The user's own, sizes ascending.
    Custom(Vec<BlockClass>),
}

/// Options of a new heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapOptions {
    /// Bytes of the application's reserved part, rounded up to 64 KiB; by default 1/1024 of the
    /// area.
    pub reserved_len: Option<u64>,
    /// Requests above it prefer large blocks; by default 1/1024 of the area, at least 4 MiB.
    pub buddy_limit: Option<u64>,
    /// The table of large blocks.
    pub blocks: BlockTable,
}

/// Number of sizes in the paper's table.
const PAPER_CLASSES: u32 = 6;
/// Smallest default limit: two extents of the default size.
const MIN_LIMIT: u64 = 4 << 20;

impl HeapOptions {
    pub(crate) fn limit(&self, reserve: u64) -> u64 {
        self.buddy_limit.unwrap_or_else(|| default_limit(reserve))
    }

    pub(crate) fn reserved_len(&self, space: &Space) -> u64 {
        // A small zone that is unusually short keeps at least 7/8 for other things.
        self.reserved_len.unwrap_or((space.reserve / 1024).min(space.small_zone / 8))
    }

    pub(crate) fn classes(&self, space: &Space) -> Vec<BlockClass> {
        let reserve = space.reserve;
        // Both are powers of two; blocks shorter than an extent are for the buddy part.
        let scaled = |budget| {
            let mut classes = scaled(reserve, budget);
            classes.retain(|class| class.size >= space.data_extent);
            classes
        };
        match &self.blocks {
            BlockTable::None => Vec::new(),
            BlockTable::Custom(classes) => classes.clone(),
            BlockTable::Paper => scaled(reserve / 8),
            BlockTable::Standard => scaled(reserve / 16),
        }
    }
}

fn default_limit(reserve: u64) -> u64 {
    let scaled = reserve / 1024;
    if scaled < MIN_LIMIT { MIN_LIMIT } else { 1 << scaled.ilog2() }
}

/// Sizes of twice the limit and up, each taking `budget` bytes; sizes above the budget are left
/// out.
fn scaled(reserve: u64, budget: u64) -> Vec<BlockClass> {
    assert!(budget * u64::from(PAPER_CLASSES) < reserve, "the table leaves room");
    let limit = default_limit(reserve);
    let class = |power: u32| {
        let size = limit << power;
        BlockClass { size, count: (budget / size) as u32 }
    };
    (1..=PAPER_CLASSES).map(class).filter(|class| class.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_scale_and_small_areas_have_none() {
        let options = HeapOptions::default();
        let space = |reserve: u64, data_extent: u64| Space {
            reserve,
            small_zone: reserve / 64,
            small_extent: 64 << 10,
            data_extent,
        };
        assert!(options.classes(&space(64 << 20, 2 << 20)).is_empty());
        let long = options.classes(&space(4 << 30, 32 << 20));
        assert_eq!(long.first(), Some(&BlockClass { size: 32 << 20, count: 8 }));
        let standard = options.classes(&space(128 << 30, 2 << 20));
        assert_eq!(standard.first(), Some(&BlockClass { size: 256 << 20, count: 32 }));
        assert_eq!(standard.last(), Some(&BlockClass { size: 8 << 30, count: 1 }));
        let bytes: u64 = standard.iter().map(|c| c.size * u64::from(c.count)).sum();
        assert_eq!(bytes, (128 << 30) / 8 * 3);
        assert_eq!(options.limit(128 << 30), 128 << 20);
        assert_eq!(options.limit(1 << 20), MIN_LIMIT);
    }
}
