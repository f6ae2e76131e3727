//! [`BlockRef`]: which record of a store on a disk has the bytes of a block.

use swing_tier::RecordId;
use swingdb_common::error::Result;

use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// A block of memory in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRef {
    pub record: RecordId,
    /// Bytes in memory.
    pub len: u64,
    /// Bytes of the record; if these are fewer, it has the block encoded.
    pub stored: u64,
    /// XXH3 of the bytes in memory: finds the record of a block after the database was opened anew.
    pub check: u128,
}

impl BlockRef {
    pub fn write(&self, w: &mut Writer) {
        w.u64(self.record.0);
        w.u64(self.len);
        w.u64(self.stored);
        w.i128(self.check as i128);
    }

    pub fn read(r: &mut Reader<'_>, version: u8) -> Result<Self> {
        let (record, len) = (RecordId(r.u64()?), r.u64()?);
        let stored = if version == 1 { len } else { r.u64()? };
        if len == 0 || len > u64::from(u32::MAX) << 8 || stored == 0 || stored > len {
            return Err(corrupt(format!("a block of {len} bytes, {stored} of them stored")));
        }
        Ok(Self { record, len, stored, check: r.i128()? as u128 })
    }

    /// Whether the record has the block encoded.
    pub fn is_encoded(&self) -> bool {
        self.stored < self.len
    }
}
