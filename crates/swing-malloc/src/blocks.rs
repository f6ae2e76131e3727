//! The large blocks: a table of sizes, pre-cut, one state byte each (section 4 of the paper).
//!
//! A request gets a whole block of the smallest size that holds it. That costs address space, not
//! memory: extents that nobody writes to have none.

use crate::layout::{HEADER_BYTES, Layout, PlacedClass};
use crate::memory::{Bytes, Memory};
use crate::tree::{Corruption, FREE, USED};
use crate::zone::Fault;

/// A block of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LargeBlock {
    pub offset: u64,
    pub size: u64,
    pub state_at: u64,
}

fn block(class: &PlacedClass, index: u64) -> LargeBlock {
    assert!(index < class.count);
    LargeBlock {
        offset: class.start + index * class.size,
        size: class.size,
        state_at: class.states_at + index,
    }
}

/// The state byte of a block: true if it is allocated.
pub(crate) fn is_used<M: Memory>(
    bytes: &Bytes<'_, M>,
    block: LargeBlock,
) -> Result<bool, Corruption> {
    match bytes.get(block.state_at) {
        USED => Ok(true),
        FREE => Ok(false),
        found => {
            let rule = "a large block is free or used";
            Err(Corruption { at: block.state_at, found: found.into(), rule })
        }
    }
}

/// Every block of the table.
pub(crate) fn all(layout: &Layout) -> impl Iterator<Item = LargeBlock> + '_ {
    layout.classes.iter().flat_map(|class| (0..class.count).map(|i| block(class, i)))
}

/// A free block of the smallest size that holds `len` at this alignment.
pub(crate) fn find<M: Memory>(
    layout: &Layout,
    bytes: &Bytes<'_, M>,
    len: u64,
    align: u64,
) -> Result<Option<LargeBlock>, Corruption> {
    debug_assert!(align.is_power_of_two());
    for candidate in all(layout) {
        if candidate.size >= len
            && candidate.offset.is_multiple_of(align)
            && !is_used(bytes, candidate)?
        {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// The block that begins at `offset`, allocated or not.
pub(crate) fn at(layout: &Layout, offset: u64) -> Option<LargeBlock> {
    let class = layout.classes.iter().find(|class| {
        let end = class.start + class.size * class.count;
        (class.start..end).contains(&offset)
    })?;
    let inside = offset - class.start;
    inside.is_multiple_of(class.size).then(|| block(class, inside / class.size))
}

/// Sets the state of a block.
pub(crate) fn set<M: Memory>(
    bytes: &Bytes<'_, M>,
    block: LargeBlock,
    used: bool,
) -> Result<(), Fault> {
    assert!(block.state_at < HEADER_BYTES, "the states lie in the header");
    bytes.barrier(0..HEADER_BYTES)?;
    bytes.set(block.state_at, if used { USED } else { FREE });
    Ok(())
}
