//! The buddy tree: a complete binary tree over an address range, kept as an array of one byte a
//! node.
//!
//! The source is section 4 of the SWING paper: a segment tree in a static array, one byte a node,
//! 128 B the smallest block. What is added here is the encoding and the order of the nodes in
//! memory.
//!
//! # Encoding
//! A byte says how much room a node's subtree has, as a *deficit*: the number of levels between the
//! node and the largest wholly free block below it.
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | the whole block is free |
//! | d in 1..=levels below | the largest free block is `size(node) >> d` |
//! | [`FULL`] | no free block below, but the node itself is no block |
//! | [`USED`] | the node is one allocated block |
//! | [`UNAVAILABLE`] | outside the range that the tree manages |
//!
//! A wholly free subtree is all zero bytes (INV-HEAP-3), so a tree over memory that was never
//! written is valid, needs no formatting and costs no memory: a 128 GiB range whose tree is 64 MiB
//! long starts with one extent.
//!
//! # Order of the nodes
//! A plain heap order spreads the path from a leaf to the root over as many extents as there are
//! deep levels, and each of them is copied by the first allocation after a publish. Here the tree
//! is cut into *clusters*, as in a van Emde Boas layout with one cut: the [`CLUSTER_DEPTH`] lowest
//! levels below each node of level `T` are one cluster of 64 KiB in heap order, exactly one small
//! extent, and the levels `0..=T` are one *top* array. The top lies beside the header. So any
//! operation writes at most the header's extent and one cluster.
//!
//! # Hostile bytes
//! Indices come from the shape, never from stored bytes, and every stored byte is checked against
//! the levels below its node; what does not fit is [`Corruption`], never an access outside the
//! tree.

use crate::memory::{Bytes, Memory};
use std::ops::Range;

/// Levels below the root of a cluster.
pub(crate) const CLUSTER_DEPTH: u32 = 15;
/// Bytes of one cluster: 2^16 nodes; the first two are not used (the root's byte is in the top
/// array).
pub(crate) const CLUSTER_BYTES: u64 = 1 << (CLUSTER_DEPTH + 1);
/// The node is one allocated block.
pub(crate) const USED: u8 = 0xFF;
/// Both children have no room.
pub(crate) const FULL: u8 = 0xFE;
/// The node lies outside the managed range.
pub(crate) const UNAVAILABLE: u8 = 0xFD;
/// The whole block is free.
pub(crate) const FREE: u8 = 0;
/// More levels than any tree can have; a stored deficit is always below it.
const MAX_LEVELS: u32 = 56;

const _: () = assert!((MAX_LEVELS as u8) < UNAVAILABLE);

/// A stored byte contradicts the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corruption {
    /// Offset of the byte in the area.
    pub at: u64,
    /// What was found there.
    pub found: u64,
    /// What must hold.
    pub rule: &'static str,
}

/// A node: `index` counts from the left in its `level`; the root is level 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub level: u32,
    pub index: u64,
}

impl Node {
    pub(crate) const ROOT: Node = Node { level: 0, index: 0 };

    pub(crate) fn parent(self) -> Node {
        debug_assert!(self.level > 0);
        Node { level: self.level - 1, index: self.index >> 1 }
    }

    pub(crate) fn left(self) -> Node {
        Node { level: self.level + 1, index: self.index << 1 }
    }

    pub(crate) fn right(self) -> Node {
        Node { level: self.level + 1, index: (self.index << 1) | 1 }
    }
}

/// Where a tree lies and what it manages. Derived from the header by [`crate::layout`], never read
/// from the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// log2 of the smallest block.
    pub granule_shift: u32,
    /// Level of the leaves.
    pub depth: u32,
    /// Level of the clusters' roots, the last level in the top array.
    pub top: u32,
    /// Level whose nodes are exactly one extent.
    pub extent_level: u32,
    /// First managed offset; everything before it is [`UNAVAILABLE`]. A multiple of the extent.
    pub start: u64,
    /// End of the managed range. A multiple of the extent.
    pub end: u64,
    /// Offset of the top array: `2 << top` bytes.
    pub top_at: u64,
    /// Offset of the first cluster.
    pub clusters_at: u64,
}

impl Tree {
    /// The shape of a tree over `[start, end)`; the places of its arrays are still zero.
    pub(crate) fn shape(granule_shift: u32, extent: u64, start: u64, end: u64) -> Tree {
        assert!(extent.is_power_of_two() && extent >> granule_shift >= 1);
        assert!(start < end && start.is_multiple_of(extent) && end.is_multiple_of(extent));
        let leaves = (end >> granule_shift).next_power_of_two();
        let depth = leaves.trailing_zeros();
        assert!(depth < MAX_LEVELS);
        Tree {
            granule_shift,
            depth,
            top: depth.saturating_sub(CLUSTER_DEPTH),
            extent_level: depth - (extent.trailing_zeros() - granule_shift),
            start,
            end,
            top_at: 0,
            clusters_at: 0,
        }
    }

    pub(crate) fn top_bytes(&self) -> u64 {
        2 << self.top
    }

    pub(crate) fn clusters(&self) -> u64 {
        1 << self.top
    }

    pub(crate) fn granule(&self) -> u64 {
        1 << self.granule_shift
    }

    pub(crate) fn extent(&self) -> u64 {
        self.size(Node { level: self.extent_level, index: 0 })
    }

    /// Bytes of the block a node stands for.
    pub(crate) fn size(&self, node: Node) -> u64 {
        debug_assert!(node.level <= self.depth);
        1 << (self.granule_shift + self.depth - node.level)
    }

    /// Offset of the block a node stands for.
    pub(crate) fn offset(&self, node: Node) -> u64 {
        debug_assert!(node.level <= self.depth && node.index < 1 << node.level);
        node.index << (self.granule_shift + self.depth - node.level)
    }

    /// Size of the smallest block that holds `len` bytes, or `None` above the root's.
    pub(crate) fn block_for(&self, len: u64) -> Option<u64> {
        let size = len.max(self.granule()).checked_next_power_of_two()?;
        (size <= self.size(Node::ROOT)).then_some(size)
    }

    /// The level whose blocks have exactly `size` bytes (a power of two, checked by the caller).
    pub(crate) fn level_of(&self, size: u64) -> u32 {
        assert!(size.is_power_of_two() && size >= self.granule());
        assert!(size <= self.size(Node::ROOT));
        self.depth - (size.trailing_zeros() - self.granule_shift)
    }

    /// The node of `level` that contains `offset`.
    pub(crate) fn node_at(&self, level: u32, offset: u64) -> Node {
        debug_assert!(level <= self.depth);
        Node { level, index: offset >> (self.granule_shift + self.depth - level) }
    }

    /// Where a node's byte is.
    #[inline]
    pub(crate) fn at(&self, node: Node) -> u64 {
        debug_assert!(node.level <= self.depth && node.index < 1 << node.level);
        if node.level <= self.top {
            return self.top_at + (1 << node.level) + node.index;
        }
        let below = node.level - self.top;
        let in_level = node.index & ((1 << below) - 1);
        self.cluster_at(node) + (1 << below) + in_level
    }

    /// Where the cluster that holds a node begins.
    #[inline]
    pub(crate) fn cluster_at(&self, node: Node) -> u64 {
        debug_assert!(node.level > self.top);
        self.clusters_at + (node.index >> (node.level - self.top)) * CLUSTER_BYTES
    }

    /// The byte of a node, checked against the levels below it.
    #[inline]
    pub(crate) fn get<M: Memory>(&self, mem: &Bytes<'_, M>, node: Node) -> Result<u8, Corruption> {
        let at = self.at(node);
        let found = mem.get(at);
        if u32::from(found) > self.depth - node.level && found < UNAVAILABLE {
            return Err(Corruption {
                at,
                found: found.into(),
                rule: "a deficit is within its subtree",
            });
        }
        Ok(found)
    }

    /// Checks that the cluster below a node of level `top` has memory; reading it otherwise would
    /// fault.
    fn enter<M: Memory>(&self, mem: &Bytes<'_, M>, node: Node) -> Result<(), Corruption> {
        debug_assert!(node.level > self.top);
        let at = self.cluster_at(node);
        if mem.present(at..at + CLUSTER_BYTES) {
            return Ok(());
        }
        Err(Corruption { at, found: 0, rule: "a partly used cluster has memory" })
    }

    /// True if a value promises a wholly free block at `target` or above.
    #[inline]
    fn fits(value: u8, level: u32, target: u32) -> bool {
        value < UNAVAILABLE && level + u32::from(value) <= target
    }

    /// A wholly free block of level `target` below `from`: the tightest subtree first, then the
    /// lower address.
    pub(crate) fn find<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        from: Node,
        target: u32,
    ) -> Result<Option<Node>, Corruption> {
        assert!(from.level <= target && target <= self.depth);
        let mut node = from;
        let mut value = self.get(mem, node)?;
        if !Self::fits(value, node.level, target) {
            return Ok(None);
        }
        while value != FREE {
            if node.level == self.top {
                self.enter(mem, node.left())?;
            }
            let (left, right) = (node.left(), node.right());
            let (a, b) = (self.get(mem, left)?, self.get(mem, right)?);
            let (fits_a, fits_b) =
                (Self::fits(a, left.level, target), Self::fits(b, left.level, target));
            // The larger deficit is the smaller hole: filling it first keeps the large holes whole.
            (node, value) = match (fits_a, fits_b) {
                (true, false) => (left, a),
                (false, true) => (right, b),
                (true, true) if b > a => (right, b),
                (true, true) => (left, a),
                (false, false) => {
                    let at = self.at(node);
                    let rule = "a node's deficit is that of one of its children";
                    return Err(Corruption { at, found: value.into(), rule });
                }
            };
        }
        Ok(Some(Node { level: target, index: node.index << (target - node.level) }))
    }

    /// The allocated block that begins at `offset`, or `None`.
    pub(crate) fn locate<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        offset: u64,
    ) -> Result<Option<Node>, Corruption> {
        if offset < self.start || offset >= self.end || !offset.is_multiple_of(self.granule()) {
            return Ok(None);
        }
        // From the largest block that can begin here downwards, so that no byte below a block is
        // read: the cluster below a large block may have no memory.
        let up = (offset >> self.granule_shift).trailing_zeros().min(self.depth);
        let mut node = self.node_at(self.depth - up, offset);
        if !self.reachable(mem, node)? {
            return Ok(None);
        }
        loop {
            match self.get(mem, node)? {
                USED if offset + self.size(node) <= self.end => return Ok(Some(node)),
                USED => {
                    let at = self.at(node);
                    let rule = "allocated blocks lie in the zone";
                    return Err(Corruption { at, found: offset, rule });
                }
                FREE | UNAVAILABLE => return Ok(None),
                _ if node.level == self.depth => return Ok(None),
                _ => {}
            }
            if node.level == self.top {
                self.enter(mem, node.left())?;
            }
            node = node.left();
        }
    }

    /// True if a node's byte says something: its cluster is neither wholly free nor part of a
    /// larger block.
    pub(crate) fn reachable<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        node: Node,
    ) -> Result<bool, Corruption> {
        if node.level <= self.top {
            return Ok(true);
        }
        let root = Node { level: self.top, index: node.index >> (node.level - self.top) };
        if matches!(self.get(mem, root)?, FREE | USED | UNAVAILABLE) {
            return Ok(false);
        }
        self.enter(mem, node)?;
        Ok(true)
    }

    /// True if `node` is exactly one allocated block.
    pub(crate) fn is_used<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        node: Node,
    ) -> Result<bool, Corruption> {
        Ok(self.reachable(mem, node)? && self.get(mem, node)? == USED)
    }

    /// True if `node`, an extent or larger, is wholly free. The caller knows that no block above it
    /// is allocated.
    pub(crate) fn is_free<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        node: Node,
    ) -> Result<bool, Corruption> {
        if node.level > self.top {
            let root = Node { level: self.top, index: node.index >> (node.level - self.top) };
            match self.get(mem, root)? {
                FREE => return Ok(true),
                USED | UNAVAILABLE => return Ok(false),
                _ => self.enter(mem, node)?,
            }
        }
        Ok(self.get(mem, node)? == FREE)
    }

    /// Sets a node's byte and brings its ancestors up to date, as far as they change.
    pub(crate) fn set<M: Memory>(
        &self,
        mem: &Bytes<'_, M>,
        node: Node,
        value: u8,
    ) -> Result<(), Corruption> {
        debug_assert!(matches!(value, FREE | USED | UNAVAILABLE));
        mem.set(self.at(node), value);
        let mut child = node;
        while child.level > 0 {
            debug_assert!(child.level <= node.level);
            let parent = child.parent();
            let (left, right) = (parent.left(), parent.right());
            let joined = join(self.get(mem, left)?, self.get(mem, right)?);
            let old = self.get(mem, parent)?;
            if old == USED || old == UNAVAILABLE {
                let rule = "nothing changes below an allocated block";
                return Err(Corruption { at: self.at(parent), found: old.into(), rule });
            }
            if old == joined {
                break;
            }
            mem.set(self.at(parent), joined);
            child = parent;
        }
        Ok(())
    }

    /// The blocks of `[offset, offset + len)` when `offset` is aligned to the power of two that
    /// holds `len`: descending powers of two, at most one of each.
    pub(crate) fn pieces(&self, offset: u64, len: u64) -> impl Iterator<Item = Node> + use<> {
        let tree = *self;
        debug_assert!(len.is_multiple_of(self.granule()));
        let (mut at, mut rest) = (offset, len);
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let size = 1 << rest.ilog2();
            let node = tree.node_at(tree.level_of(size), at);
            (at, rest) = (at + size, rest - size);
            Some(node)
        })
    }

    /// The blocks that make up any range aligned to the granule: ascending, then descending sizes.
    pub(crate) fn cover(&self, range: Range<u64>) -> Vec<Node> {
        assert!(
            range.start.is_multiple_of(self.granule()) && range.end.is_multiple_of(self.granule())
        );
        let mut nodes = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let aligned = if at == 0 { self.size(Node::ROOT) } else { 1 << at.trailing_zeros() };
            let fitting = 1 << (range.end - at).ilog2();
            let size = u64::min(aligned, fitting).min(self.size(Node::ROOT));
            nodes.push(self.node_at(self.level_of(size), at));
            at += size;
        }
        nodes
    }

    /// End of the range the tree's array covers, at or after `end`.
    pub(crate) fn span(&self) -> u64 {
        self.size(Node::ROOT)
    }
}

/// A parent's byte from its children's.
#[inline]
pub(crate) fn join(a: u8, b: u8) -> u8 {
    if a == FREE && b == FREE {
        return FREE;
    }
    let least = a.min(b);
    if least >= UNAVAILABLE { FULL } else { least + 1 }
}
