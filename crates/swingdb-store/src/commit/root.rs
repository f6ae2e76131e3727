//! The payload of an area, which leads to the root record of its state.

use std::sync::Arc;

use swingdb_common::error::Result;
use xxhash_rust::xxh3::xxh3_64;

use crate::catalog::state::Catalog;
use crate::errors::area::corrupt;
use crate::memory::raw::Loc;
use crate::memory::record::record_loc;
use crate::memory::space::{Blocks, Space};

/// First bytes of a payload.
const PAYLOAD_MAGIC: [u8; 8] = *b"SwingDB1";

/// Magic, offset and length of the root, checksum.
const PAYLOAD_BYTES: usize = 32;

/// The payload that leads to a root.
pub(crate) fn payload(root: &Arc<Blocks>) -> Result<Vec<u8>> {
    let loc = record_loc(Some(root))?;
    let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
    payload.extend_from_slice(&PAYLOAD_MAGIC);
    payload.extend_from_slice(&loc.offset.to_le_bytes());
    payload.extend_from_slice(&loc.len.to_le_bytes());
    payload.extend_from_slice(&xxh3_64(&payload).to_le_bytes());
    Ok(payload)
}

/// The state a payload leads to, its root record, and the blocks in limbo.
pub(crate) fn read_state(
    space: &Arc<Space>,
    payload: &[u8],
) -> Result<(Catalog, Arc<Blocks>, Vec<Loc>)> {
    let word = |at: usize| -> Option<u64> {
        let bytes: [u8; 8] = payload.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let (true, Some(offset), Some(len), Some(sum)) = (
        payload.len() == PAYLOAD_BYTES && payload.starts_with(&PAYLOAD_MAGIC),
        word(8),
        word(16),
        word(24),
    ) else {
        return Err(space.named(corrupt("it holds no database of this version")));
    };
    if xxh3_64(&payload[..24]) != sum {
        return Err(space.named(corrupt("the root's place does not match its checksum")));
    }
    let read = || {
        let root = Blocks::committed(space, vec![Loc { offset, len }])?;
        let (catalog, limbo) = Catalog::read(space, &root)?;
        Ok((catalog, root, limbo))
    };
    read().map_err(|e| space.named(e))
}
