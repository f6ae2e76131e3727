//! Which extent a block smaller than an extent goes to.
//!
//! Writing to an extent that a publish has frozen copies the whole extent; writing to one that has
//! no memory does not. So a new block goes to
//!
//! 1. an extent that this process has opened since the last publish (private, or about to be),
//! 2. a wholly free extent, which has no memory,
//! 3. a frozen extent with a hole.
//!
//! Rule 2 alone would give every commit its own extents and let holes grow without bound. So it
//! holds only while the holes in occupied extents are less than [`FRESH_EXTENTS`] extents or a
//! quarter of what is allocated, whichever is more; above that, holes are filled first and the copy
//! is the price of using memory well.
//!
//! The list of open extents is the process's own, bounded, and only a hint: an entry is used after
//! its state and its byte in the tree have been looked at. It starts empty in a derived area, where
//! everything is frozen.

use crate::layout::Zone;
use crate::memory::{Bytes, Memory};
use crate::tree::{Corruption, FREE, Node};
use swing::ExtentState;

/// Most extents on the list.
const OPEN_EXTENTS: usize = 32;
/// Extents' worth of holes that are left alone in favour of fresh extents.
const FRESH_EXTENTS: u64 = 32;
/// Levels below an extent for which the last extent used is remembered.
const HINTS: usize = 16;
const NONE: u64 = u64::MAX;

/// The open extents of one zone.
#[derive(Debug)]
pub(crate) struct Placement {
    /// Index of an extent: its offset divided by the zone's extent size.
    open: [u64; OPEN_EXTENTS],
    len: usize,
    /// Where to replace when the list is full.
    hand: usize,
    /// The extent that served the last block of each level below an extent.
    hints: [u64; HINTS],
}

impl Placement {
    pub(crate) fn new() -> Self {
        Placement { open: [NONE; OPEN_EXTENTS], len: 0, hand: 0, hints: [NONE; HINTS] }
    }

    /// A wholly free block of `level`, in the best extent.
    pub(crate) fn choose<M: Memory>(
        &mut self,
        mem: &M,
        bytes: &Bytes<'_, M>,
        zone: &Zone,
        level: u32,
    ) -> Result<Option<Node>, Corruption> {
        let tree = &zone.tree;
        assert!(level <= tree.depth, "blocks are at least a granule");
        if level <= tree.extent_level {
            // Whole extents: the free ones have no memory, so one is as good as another.
            return tree.find(bytes, Node::ROOT, level);
        }
        let slot = (level - tree.extent_level) as usize % HINTS;
        assert!(self.len <= OPEN_EXTENTS && self.hand < OPEN_EXTENTS);
        if let Ok(Some(node)) = Self::look(mem, bytes, zone, self.hints[slot], level)? {
            return Ok(Some(node));
        }
        let mut i = 0;
        while i < self.len {
            let extent = self.open[i];
            match Self::look(mem, bytes, zone, extent, level)? {
                Ok(Some(node)) => {
                    self.hints[slot] = extent;
                    return Ok(Some(node));
                }
                Ok(None) => i += 1,
                Err(Useless) => {
                    self.len -= 1;
                    self.open[i] = self.open[self.len];
                }
            }
        }
        let node = self.open_another(bytes, zone, level)?;
        if let Some(node) = node {
            assert_eq!(node.level, level);
            let extent = node.index >> (level - tree.extent_level);
            self.hints[slot] = extent;
            self.push(extent);
        }
        Ok(node)
    }

    /// A block in an extent that is not on the list.
    fn open_another<M: Memory>(
        &self,
        bytes: &Bytes<'_, M>,
        zone: &Zone,
        level: u32,
    ) -> Result<Option<Node>, Corruption> {
        let tree = &zone.tree;
        assert!(level > tree.extent_level, "only blocks below an extent are placed");
        let extent = tree.extent();
        let used = zone.used(bytes);
        let holes = zone.occupied(bytes).saturating_mul(extent).saturating_sub(used);
        if holes < u64::max(FRESH_EXTENTS * extent, used / 4)
            && let Some(fresh) = tree.find(bytes, Node::ROOT, tree.extent_level)?
        {
            let index = fresh.index << (level - tree.extent_level);
            return Ok(Some(Node { level, index }));
        }
        tree.find(bytes, Node::ROOT, level)
    }

    /// A block in the given extent, `Ok(None)` if it is frozen or has no room for this level,
    /// `Useless` if nothing is to be expected of it.
    fn look<M: Memory>(
        mem: &M,
        bytes: &Bytes<'_, M>,
        zone: &Zone,
        extent: u64,
        level: u32,
    ) -> Result<Result<Option<Node>, Useless>, Corruption> {
        if extent == NONE {
            return Ok(Err(Useless));
        }
        let tree = &zone.tree;
        let node = Node { level: tree.extent_level, index: extent };
        // Where it was to be opened, and that failed, there may be no memory to look at.
        if !tree.reachable(bytes, node)? {
            return Ok(Err(Useless));
        }
        // A wholly free extent may have become part of a larger block: its own byte is zero then,
        // too.
        let value = tree.get(bytes, node)?;
        if value == FREE || value >= crate::tree::UNAVAILABLE {
            return Ok(Err(Useless));
        }
        if mem.state(tree.offset(node)) == ExtentState::Frozen {
            // Perhaps only for the moment in which another thread makes it private.
            return Ok(Ok(None));
        }
        Ok(Ok(tree.find(bytes, node, level)?))
    }

    /// Remembers an extent in which something was freed, if this process may write to it without a
    /// copy.
    pub(crate) fn freed<M: Memory>(&mut self, mem: &M, zone: &Zone, offset: u64) {
        debug_assert!((zone.tree.start..zone.tree.end).contains(&offset));
        let extent = offset / zone.tree.extent();
        if mem.state(offset) == ExtentState::Private {
            self.push(extent);
        }
    }

    /// Remembers the extent in which the trimmed rest of a block begins: whoever stores to the
    /// block opens it.
    pub(crate) fn trimmed(&mut self, zone: &Zone, rest: u64) {
        assert!(
            rest >= zone.tree.start && rest <= zone.tree.end,
            "the rest of a block of the zone"
        );
        if !rest.is_multiple_of(zone.tree.extent()) {
            self.push(rest / zone.tree.extent());
        }
    }

    fn push(&mut self, extent: u64) {
        debug_assert_ne!(extent, NONE);
        if self.open[..self.len].contains(&extent) {
            return;
        }
        if self.len < OPEN_EXTENTS {
            self.open[self.len] = extent;
            self.len += 1;
        } else {
            self.open[self.hand] = extent;
            self.hand = (self.hand + 1) % OPEN_EXTENTS;
        }
    }
}

/// The extent is full or wholly free.
struct Useless;
