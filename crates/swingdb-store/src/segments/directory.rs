//! The segments of a page as they lie in the area, read in place.
//!
//! A large table has thousands of segments, and a query on a fresh snapshot needs a few numbers of
//! each and all of hardly any. So the record of a page has fixed tables in front of it (see
//! `docs/format.md`): opening it makes one small object a segment, statistics are read where they
//! lie, and a chunk is decoded when its column is read.
//!
//! Frame and checksum are verified when the directory is opened. Everything behind that is hostile
//! all the same: each place in the tables is checked when it is used (INV-DB-5).
//!
//! A directory holds the record it reads from. A commit that replaces the page copies the record
//! out first ([`Directory::detach`]), so segments that go on living in other pages do not keep
//! blocks from being freed.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLock;
use swingdb_common::error::Result;

use crate::codec::{Kind, Reader, Writer};
use crate::errors::area::corrupt;
use crate::memory::raw::Loc;
use crate::memory::record::record_bytes;
use crate::memory::space::{Blocks, Space};
use crate::segments::rowids::SEGMENT_ROWS;

/// Bytes before the tables: number of columns, number of segments.
const HEAD_BYTES: usize = 8;
/// Bytes of a segment's entry.
const ENTRY_BYTES: usize = 24;
/// Bytes of the place of a chunk's description.
const PLACE_BYTES: usize = 4;

/// Where the bytes of a directory are.
#[derive(Debug)]
enum DirectoryBytes {
    Area(Arc<Blocks>),
    Copy(Box<[u8]>),
}

impl DirectoryBytes {
    /// The payload.
    fn bytes(&self) -> Result<&[u8]> {
        match self {
            DirectoryBytes::Area(record) => {
                let payload = record_bytes(record)?.get(crate::codec::FRAME_BYTES..);
                payload.ok_or_else(|| corrupt("a page is shorter than its frame"))
            }
            DirectoryBytes::Copy(bytes) => Ok(bytes),
        }
    }
}

/// What is known of a segment without reading a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub rows: usize,
    pub deleted: usize,
    pub bytes: u64,
    /// The block of the bitmap of deleted rows.
    pub bitmap: Option<Loc>,
}

/// The record of a page.
#[derive(Debug)]
pub(crate) struct Directory {
    pub space: Arc<Space>,
    columns: usize,
    segments: usize,
    held: RwLock<DirectoryBytes>,
}

impl Directory {
    /// Opens the record of a page of a table with `columns` columns.
    pub fn open(space: &Arc<Space>, record: &Arc<Blocks>, columns: usize) -> Result<Arc<Self>> {
        let payload = Reader::record(record_bytes(record)?, Kind::Page)?.rest();
        let (found, segments) = (word(payload, 0)? as usize, word(payload, 4)? as usize);
        if found != columns {
            return Err(corrupt(format!("a page of {found} columns in a table of {columns}")));
        }
        let directory = Self {
            space: space.clone(),
            columns,
            segments,
            held: RwLock::new(DirectoryBytes::Area(record.clone())),
        };
        // The tables are there; what they say is looked at when it is used.
        if directory.places_at(columns.saturating_mul(segments).saturating_add(1)) > payload.len() {
            return Err(corrupt(format!("a page of {segments} segments is too short")));
        }
        Ok(Arc::new(directory))
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Where the place of chunk number `chunk` stands.
    fn places_at(&self, chunk: usize) -> usize {
        let entries = self.segments.saturating_mul(ENTRY_BYTES);
        HEAD_BYTES.saturating_add(entries).saturating_add(chunk.saturating_mul(PLACE_BYTES))
    }

    /// The entries of all segments.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let held = self.held.read();
        let bytes = held.bytes()?;
        (0..self.segments).map(|segment| read_entry(bytes, segment)).collect()
    }

    /// Calls `read` with the description of a chunk.
    pub fn chunk<T>(
        &self,
        segment: usize,
        column: usize,
        read: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        assert!(segment < self.segments && column < self.columns, "a chunk of the page");
        let held = self.held.read();
        let bytes = held.bytes()?;
        let at = self.places_at(column * self.segments + segment);
        let (start, end) = (word(bytes, at)?, word(bytes, at + PLACE_BYTES)?);
        let range = Range { start: start as usize, end: end as usize };
        read(bytes.get(range).ok_or_else(|| corrupt("a chunk outside its page"))?)
    }

    /// Lets the record in the area go: from now on a copy of it is read.
    pub fn detach(&self) -> Result<()> {
        let mut held = self.held.write();
        if let DirectoryBytes::Area(_) = &*held {
            let copy = Box::from(held.bytes()?);
            *held = DirectoryBytes::Copy(copy);
        }
        Ok(())
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32> {
    let word = bytes.get(at..).and_then(|b| b.first_chunk::<4>());
    word.map(|w| u32::from_le_bytes(*w)).ok_or_else(|| corrupt("a page ends early"))
}

fn read_entry(bytes: &[u8], segment: usize) -> Result<Entry> {
    let at = HEAD_BYTES + segment * ENTRY_BYTES;
    let long = |at: usize| -> Result<u64> {
        Ok(u64::from(word(bytes, at)?) | u64::from(word(bytes, at + 4)?) << 32)
    };
    let (rows, deleted) = (word(bytes, at)? as usize, word(bytes, at + 4)? as usize);
    let (size, offset) = (long(at + 8)?, long(at + 16)?);
    if rows == 0 || rows > SEGMENT_ROWS || deleted > rows {
        return Err(corrupt(format!("a segment of {rows} rows, {deleted} of them deleted")));
    }
    if (deleted > 0) != (offset > 0) {
        return Err(corrupt(format!("{deleted} deleted rows with a bitmap at {offset:#x}")));
    }
    let bitmap = (offset > 0).then(|| Loc { offset, len: rows.div_ceil(8) as u64 });
    Ok(Entry { rows, deleted, bytes: size, bitmap })
}

/// The record of a page of so many columns whose segments have these entries; `describe` writes the
/// description of a segment's column.
pub(crate) fn encode(
    columns: usize,
    segments: &[Entry],
    mut describe: impl FnMut(usize, usize, &mut Writer) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut w = Writer::record();
    w.fixed(&(columns as u32).to_le_bytes());
    w.fixed(&(segments.len() as u32).to_le_bytes());
    for entry in segments {
        w.fixed(&(entry.rows as u32).to_le_bytes());
        w.fixed(&(entry.deleted as u32).to_le_bytes());
        w.fixed(&entry.bytes.to_le_bytes());
        w.fixed(&entry.bitmap.map_or(0, |loc| loc.offset).to_le_bytes());
    }
    let places = w.payload_len();
    let chunks = columns * segments.len();
    (0..=chunks).for_each(|_| w.fixed(&[0; PLACE_BYTES]));
    let mut at = places;
    for column in 0..columns {
        for segment in 0..segments.len() {
            let start = w.payload_len() as u32;
            w.set_fixed(at, &start.to_le_bytes());
            describe(segment, column, &mut w)?;
            at += PLACE_BYTES;
        }
    }
    let end = w.payload_len() as u32;
    w.set_fixed(at, &end.to_le_bytes());
    assert_eq!(at + PLACE_BYTES, places + (chunks + 1) * PLACE_BYTES, "one place a chunk");
    Ok(w.finish(Kind::Page))
}
