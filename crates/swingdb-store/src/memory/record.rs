//! Records of the catalog as blocks of the area: their bytes, and the places that they name.

use std::sync::Arc;

use swingdb_common::error::{Error, Result};

use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;
use crate::memory::raw::{self, Loc};
use crate::memory::space::Blocks;

/// The bytes of a record.
pub(crate) fn record_bytes(record: &Arc<Blocks>) -> Result<&[u8]> {
    match record.listed() {
        [loc] => raw::bytes(record, *loc),
        _ => Err(corrupt("a record in several blocks")),
    }
}

/// Where a record is.
pub(crate) fn record_loc(record: Option<&Arc<Blocks>>) -> Result<Loc> {
    match record.map(|r| r.listed()) {
        Some([loc]) => Ok(*loc),
        _ => Err(Error::internal("a record without a place")),
    }
}

pub(crate) fn write_loc(w: &mut Writer, loc: Loc) {
    w.u64(loc.offset);
    w.u64(loc.len);
}

pub(crate) fn read_loc(r: &mut Reader<'_>) -> Result<Loc> {
    Ok(Loc { offset: r.u64()?, len: r.u64()? })
}
