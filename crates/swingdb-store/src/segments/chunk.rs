//! [`Chunk`]: one column of a segment, and the rows of it that a patch changes.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use swingdb_common::error::Result;

use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;
use crate::memory::record::read_loc;
use crate::memory::space::{Blocks, Space};
use crate::segments::patch::{MAX_PATCH_ROWS, Patch, patch_type};
use crate::segments::read::{Node, Source};
use crate::segments::stats::ChunkStats;

/// Most blocks a chunk may list: more than any type's buffers at the deepest nesting need.
const MAX_BLOCKS: u64 = 1 << 20;

/// One column of a segment.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub blocks: Arc<Blocks>,
    pub data_type: DataType,
    pub node: Node,
    pub stats: ChunkStats,
    /// Rows that have other values than the array says.
    pub patch: Option<Arc<Patch>>,
    whole: OnceLock<ArrayRef>,
}

impl Chunk {
    pub fn new(blocks: Arc<Blocks>, data_type: DataType, node: Node, stats: ChunkStats) -> Self {
        Self { blocks, data_type, node, stats, patch: None, whole: OnceLock::new() }
    }

    /// The same array with a patch, in place of the one it has; `stats` are of both together.
    pub fn patched(&self, patch: Arc<Patch>, stats: ChunkStats) -> Self {
        assert!(patch.len() < self.node.len, "a patch of some rows");
        let (blocks, data_type) = (self.blocks.clone(), self.data_type.clone());
        Self::new(blocks, data_type, self.node.clone(), stats).with_patch(patch)
    }

    /// The same with a patch, whose rows its statistics take in.
    pub fn with_patch(self, patch: Arc<Patch>) -> Self {
        assert!(self.whole.get().is_none(), "nobody has read it without");
        Self { patch: Some(patch), ..self }
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.node.bytes() + self.patch.as_ref().map_or(0, |patch| patch.bytes())
    }

    /// Everything in the area that belongs to it.
    pub fn all_blocks(&self) -> impl Iterator<Item = &Arc<Blocks>> {
        std::iter::once(&self.blocks).chain(self.patch.iter().map(|patch| patch.blocks()))
    }

    /// The array, whatever the patch does.
    pub fn source(&self) -> Source<'_> {
        Source { blocks: &self.blocks, data_type: &self.data_type, node: &self.node }
    }

    /// All rows.
    pub fn array(&self) -> Result<ArrayRef> {
        if let Some(array) = self.whole.get() {
            return Ok(array.clone());
        }
        let array = self.read(0..self.node.len)?;
        Ok(self.whole.get_or_init(|| array).clone())
    }

    /// What the array says of all rows, whatever the patch does.
    pub fn base(&self) -> Result<ArrayRef> {
        self.source().rows(0..self.node.len)
    }

    /// The rows `range`: without a copy, unless one of them is in the patch.
    pub fn read(&self, range: Range<usize>) -> Result<ArrayRef> {
        let base = self.source().rows(range.clone())?;
        match &self.patch {
            None => Ok(base),
            Some(patch) => patch.apply(base, &range),
        }
    }

    /// Its description: the statistics first, which are often all that is read.
    pub fn write(&self, w: &mut Writer) {
        self.stats.write(w);
        self.source().write(w);
        w.option(self.patch.as_ref(), |w, patch| patch.source().write(w));
    }

    /// What [`Chunk::write`] has written, of a column of so many rows.
    pub fn decode(
        bytes: &[u8],
        space: &Arc<Space>,
        data_type: &DataType,
        rows: usize,
    ) -> Result<Self> {
        let mut r = Reader::part(bytes);
        let stats = ChunkStats::read(&mut r, rows as u64)?;
        let (blocks, node) = (read_blocks(&mut r, space)?, Node::read(&mut r, 0)?);
        let patch = r.option(|r| Ok((read_blocks(r, space)?, Node::read(r, 0)?)))?;
        r.finish()?;
        if node.len != rows {
            return Err(corrupt(format!("a column of {} rows in a segment of {rows}", node.len)));
        }
        let patch = patch.map(|(blocks, node)| {
            if node.len == 0 || node.len > MAX_PATCH_ROWS.min(rows) {
                return Err(corrupt(format!("a patch of {} of {rows} rows", node.len)));
            }
            Ok(Patch::new(blocks, patch_type(data_type), node, rows))
        });
        let patch = patch.transpose()?;
        Ok(Self { patch, ..Self::new(blocks, data_type.clone(), node, stats) })
    }
}

fn read_blocks(r: &mut Reader<'_>, space: &Arc<Space>) -> Result<Arc<Blocks>> {
    let count = r.bounded(MAX_BLOCKS, "a count of blocks")?;
    let listed = (0..count).map(|_| read_loc(r)).collect::<Result<Vec<_>>>()?;
    Blocks::committed(space, listed)
}
