//! The checker: walks all metadata and verifies every invariant that can be seen
//! (`docs/invariants.md`, heap).
//!
//! It costs a visit of every byte of every cluster that has memory, so it is for tests, fuzzing and
//! `doctor`, not for a running system. It changes nothing, and it stops at the first violation.

use crate::blocks;
use crate::error::{CheckError, HeapError};
use crate::header;
use crate::heap::{Grant, Heap};
use crate::layout::{Layout, Zone};
use crate::memory::{Bytes, Memory};
use crate::tree::{CLUSTER_BYTES, FREE, Node, Tree, UNAVAILABLE, USED, join};
use swing::{AreaOffset, ByteLen, ExtentState};

/// What a successful check has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapReport {
    /// Allocated blocks (powers of two: one `allocate_exact` may be several).
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Clusters of the trees that have memory.
    pub clusters: u64,
}

impl<M: Memory> Heap<M> {
    /// Verifies every invariant.
    ///
    /// # Errors
    /// The first violation found, with the invariant's name.
    pub fn check(&self) -> Result<HeapReport, CheckError> {
        self.walk(|_| ())
    }

    /// Every allocated block in ascending order: what an application compares with what it knows,
    /// to find blocks that it has lost. One `allocate_exact` appears as its powers of two.
    ///
    /// # Errors
    /// As [`Heap::check`].
    pub fn blocks(&self) -> Result<Vec<Grant>, CheckError> {
        let mut blocks = Vec::new();
        self.walk(|grant| blocks.push(grant))?;
        Ok(blocks)
    }

    fn walk(&self, mut visit: impl FnMut(Grant)) -> Result<HeapReport, CheckError> {
        self.with_metadata(|mem, layout, bytes, freeing| {
            header_is(mem, layout)?;
            let mut report = HeapReport::default();
            for zone in [&layout.small, &layout.data] {
                let mut walk = Walk { mem, bytes, zone, freeing, used: 0, occupied: 0 };
                walk.run(&mut report, &mut visit)?;
            }
            large_blocks(mem, layout, bytes, freeing, &mut report, &mut visit)?;
            Ok(report)
        })
    }
}

/// INV-HEAP-1: the header says what all places were derived from.
fn header_is<M: Memory>(mem: &M, layout: &Layout) -> Result<(), CheckError> {
    let wrong = |at, found| {
        let (invariant, rule) = ("INV-HEAP-1", "the header is the one the heap was opened with");
        CheckError { invariant, at, found, expected: layout.fingerprint(), rule }
    };
    match header::read(mem) {
        Ok(read) if read == *layout => Ok(()),
        Ok(read) => Err(wrong(0, read.fingerprint())),
        Err(HeapError::Corrupt { at, found, .. }) => Err(wrong(at, found)),
        Err(HeapError::NoHeap { found }) => Err(wrong(0, found)),
        Err(_) => Err(wrong(0, 0)),
    }
}

/// The walk through one tree.
struct Walk<'a, 'b, M> {
    mem: &'a M,
    bytes: &'a Bytes<'b, M>,
    zone: &'a Zone,
    freeing: &'a [u64],
    used: u64,
    occupied: u64,
}

impl<M: Memory> Walk<'_, '_, M> {
    fn run(
        &mut self,
        report: &mut HeapReport,
        visit: &mut impl FnMut(Grant),
    ) -> Result<(), CheckError> {
        let tree = &self.zone.tree;
        let mut stack = vec![Node::ROOT];
        // The last occupied extent that was counted; blocks come in ascending order.
        let mut counted = None;
        while let Some(node) = stack.pop() {
            debug_assert!(stack.len() <= tree.depth as usize, "one sibling a level waits");
            let value = tree.get(self.bytes, node)?;
            self.bounds(node, value)?;
            match value {
                USED => {
                    let (offset, len) = (tree.offset(node), tree.size(node));
                    visit(Grant { offset: AreaOffset(offset), len: ByteLen(len) });
                    report.blocks += 1;
                    report.bytes += len;
                    self.used += len;
                    let extents = offset / tree.extent()..(offset + len).div_ceil(tree.extent());
                    let first = extents.start.max(counted.map_or(0, |last: u64| last + 1));
                    debug_assert!(extents.end > extents.start);
                    self.occupied += extents.end.saturating_sub(first);
                    counted = Some(extents.end - 1);
                    self.zeros_below(node)?;
                }
                UNAVAILABLE => self.zeros_below(node)?,
                FREE => {
                    self.zeros_below(node)?;
                    self.no_memory(node)?;
                }
                _ => {
                    self.inner(node, value)?;
                    stack.push(node.right());
                    stack.push(node.left());
                }
            }
        }
        for index in 0..tree.clusters() {
            let at = tree.clusters_at + index * CLUSTER_BYTES;
            report.clusters += u64::from(self.bytes.present(at..at + CLUSTER_BYTES));
        }
        let counters = [
            (self.zone.counters_at, self.zone.used(self.bytes), self.used),
            (self.zone.counters_at + 8, self.zone.occupied(self.bytes), self.occupied),
        ];
        for (at, found, expected) in counters {
            if found != expected {
                let rule = "a counter is what the tree holds";
                return Err(CheckError { invariant: "INV-HEAP-6", at, found, expected, rule });
            }
        }
        Ok(())
    }

    /// INV-HEAP-5: a terminal node lies wholly inside the managed range, or wholly outside and is
    /// unavailable.
    fn bounds(&self, node: Node, value: u8) -> Result<(), CheckError> {
        let tree = &self.zone.tree;
        let (start, end) = (tree.offset(node), tree.offset(node) + tree.size(node));
        let inside = start >= tree.start && end <= tree.end;
        let outside = end <= tree.start || start >= tree.end;
        let sound = match value {
            USED | FREE => inside,
            UNAVAILABLE => outside,
            _ => true,
        };
        if sound {
            return Ok(());
        }
        let expected = if outside { UNAVAILABLE.into() } else { FREE.into() };
        let rule = "exactly what lies outside the zone is unavailable";
        let at = tree.at(node);
        Err(CheckError { invariant: "INV-HEAP-5", at, found: value.into(), expected, rule })
    }

    /// INV-HEAP-4: an inner node's byte follows from its children's.
    fn inner(&self, node: Node, value: u8) -> Result<(), CheckError> {
        let tree = &self.zone.tree;
        let at = tree.at(node);
        let broken = |expected, rule| CheckError {
            invariant: "INV-HEAP-4",
            at,
            found: value.into(),
            expected,
            rule,
        };
        if node.level == tree.depth {
            return Err(broken(USED.into(), "a leaf is free, used or unavailable"));
        }
        if node.level == tree.top {
            let cluster = tree.cluster_at(node.left());
            if !self.bytes.present(cluster..cluster + CLUSTER_BYTES) {
                return Err(broken(FREE.into(), "a partly used cluster has memory"));
            }
        }
        let joined = join(tree.get(self.bytes, node.left())?, tree.get(self.bytes, node.right())?);
        if joined != value {
            return Err(broken(joined.into(), "a node's byte follows from its children's"));
        }
        Ok(())
    }

    /// INV-HEAP-3: all bytes below a free, used or unavailable node are zero (or have no memory).
    fn zeros_below(&self, node: Node) -> Result<(), CheckError> {
        let tree = &self.zone.tree;
        for level in node.level + 1..=tree.depth {
            let shift = level - node.level;
            let first = Node { level, index: node.index << shift };
            let in_one_cluster = node.level >= tree.top;
            if level <= tree.top || (in_one_cluster && self.cluster_present(first)) {
                self.zeros(tree.at(first), 1 << shift)?;
            } else if level == tree.top + 1 {
                self.zero_clusters(tree, first, 1 << (shift - 1))?;
            }
        }
        Ok(())
    }

    fn zero_clusters(&self, tree: &Tree, first: Node, count: u64) -> Result<(), CheckError> {
        for i in 0..count {
            let at = tree.cluster_at(first) + i * CLUSTER_BYTES;
            if self.bytes.present(at..at + CLUSTER_BYTES) {
                self.zeros(at, CLUSTER_BYTES)?;
            }
        }
        Ok(())
    }

    fn cluster_present(&self, node: Node) -> bool {
        let at = self.zone.tree.cluster_at(node);
        self.bytes.present(at..at + CLUSTER_BYTES)
    }

    fn zeros(&self, at: u64, count: u64) -> Result<(), CheckError> {
        match (at..at + count).find(|at| self.bytes.get(*at) != 0) {
            None => Ok(()),
            Some(at) => {
                let found = self.bytes.get(at).into();
                let rule = "all is zero below a block";
                Err(CheckError { invariant: "INV-HEAP-3", at, found, expected: 0, rule })
            }
        }
    }

    /// INV-HEAP-7: an extent that is wholly free has no memory.
    fn no_memory(&self, node: Node) -> Result<(), CheckError> {
        let tree = &self.zone.tree;
        let (start, end) = (tree.offset(node), tree.offset(node) + tree.size(node));
        let mut at = start.next_multiple_of(tree.extent());
        while at + tree.extent() <= end {
            absent(self.mem, self.freeing, at)?;
            at += tree.extent();
        }
        Ok(())
    }
}

fn absent<M: Memory>(mem: &M, freeing: &[u64], at: u64) -> Result<(), CheckError> {
    let state = mem.state(at);
    if state == ExtentState::Absent || freeing.contains(&at) {
        return Ok(());
    }
    let found = u64::from(state == ExtentState::Frozen) + 1;
    let rule = "a wholly free extent has no memory";
    Err(CheckError { invariant: "INV-HEAP-7", at, found, expected: 0, rule })
}

/// INV-HEAP-8: a large block's state is free or used; a free one has no memory at its start.
fn large_blocks<M: Memory>(
    mem: &M,
    layout: &Layout,
    bytes: &Bytes<'_, M>,
    freeing: &[u64],
    report: &mut HeapReport,
    visit: &mut impl FnMut(Grant),
) -> Result<(), CheckError> {
    for block in blocks::all(layout) {
        let used = blocks::is_used(bytes, block).map_err(|c| CheckError {
            invariant: "INV-HEAP-8",
            at: c.at,
            found: c.found,
            expected: USED.into(),
            rule: c.rule,
        })?;
        if used {
            visit(Grant { offset: AreaOffset(block.offset), len: ByteLen(block.size) });
            report.blocks += 1;
            report.bytes += block.size;
        } else {
            let mut at = block.offset;
            while at < block.offset + block.size {
                absent(mem, freeing, at)?;
                at += layout.space.data_extent;
            }
        }
    }
    Ok(())
}
