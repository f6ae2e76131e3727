//! What a store holds: the catalog and the blocks of one state, as records of a log.
//!
//! The root payload of the log names the root record. Root, tables and pages form the tree that the
//! catalog in memory is, with one difference: where that one has places in an area, these have
//! [`BlockRef`]s, the numbers of records. A position inside a column counts from its first block
//! on, as if its blocks lay one behind the other. So nothing here depends on an area.
//!
//! | record | contents |
//! |---|---|
//! | root payload | `SwDBdisk`, format version (4 bytes), state's version (8), root record (8) |
//! | root | name, history, version, next table id, flag: sharing, schemas |
//! | schema | name; lists of tables; views, macros, sequences |
//! | in it, a list | least name; record and number of tables, or the list itself |
//! | list | tables: name, id, record, rows, bytes, segments |
//! | table | definition; pages: record, segments, rows, live rows, bytes |
//! | page | 255, version (2); segments: rows, deleted rows, option of the bitmap's block, columns |
//! | column | statistics, blocks, node; option of the patch: blocks, node |
//! | block | bytes of the block; where its record is shorter, encoded (`swing_tier::pack`) |
//!
//! Before format version 3 a root has the tables of a schema as one list. The version is that of
//! the root: tables and pages of older ones stay as they are until they change.
//!
//! A page of version 1 begins with the number of its segments, and its blocks are not encoded. It
//! stays as it is until its table changes, so a store may have pages of both versions.
//!
//! Behind the root and behind a table's record may stand notes, in sections (`catalog/notes.rs`):
//! comments and indexes. A record without notes has none.
//!
//! Definitions, views, macros, sequences and statistics are encoded as in memory (`codec.rs`): a
//! change there is a new version here.

use swing_tier::RecordId;
use swingdb_common::error::{Error, Result};

use crate::catalog::definition::Definition;
use crate::catalog::history::History;
use crate::catalog::notes::{self, TableNotes};
use crate::catalog::page::MAX_PAGE_SEGMENTS;
use crate::codec::{Reader, Writer};
use crate::durable::lists::StoredSchema;
use crate::errors::area::corrupt;
use crate::errors::log::NOT_A_DATABASE;
use crate::memory::block_ref::BlockRef;
use crate::memory::raw::Loc;
use crate::segments::read::Node;
use crate::segments::rowids::SEGMENT_ROWS;
use crate::segments::stats::ChunkStats;

/// First bytes of a store's root payload.
const MAGIC: [u8; 8] = *b"SwDBdisk";
/// Version of the format.
pub(super) const FORMAT: u32 = 3;
/// The oldest version that is read.
pub(super) const OLDEST_FORMAT: u32 = 1;
/// First byte of a page that says its version: no page of version 1 begins with it.
const VERSIONED_PAGE: u8 = 255;
/// Version of a page.
const PAGE: u8 = 2;
const _: () = assert!(MAX_PAGE_SEGMENTS < 127, "the first byte of a page of version 1");
/// Bytes of the root payload.
const PAYLOAD_BYTES: usize = 28;
/// Most blocks of a column.
const MAX_BLOCKS: usize = 1 << 20;

/// Where the state of a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The format version of the root.
    pub format: u32,
    pub version: u64,
    pub root: RecordId,
}

impl Head {
    /// Of a root that was written now.
    pub fn new(version: u64, root: RecordId) -> Self {
        Self { format: FORMAT, version, root }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.format.to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.root.0.to_le_bytes());
        bytes
    }

    /// `None`: nothing was stored yet.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let word = |at: usize| bytes.get(at..).and_then(|b| b.first_chunk::<8>());
        let format = bytes.get(8..).and_then(|b| b.first_chunk::<4>());
        let (true, Some(format)) = (bytes.starts_with(&MAGIC), format) else {
            return Err(corrupt(NOT_A_DATABASE));
        };
        let format = u32::from_le_bytes(*format);
        if !(OLDEST_FORMAT..=FORMAT).contains(&format) {
            return Err(corrupt(format!(
                "the store has format version {format}; this program reads versions \
                 {OLDEST_FORMAT} to {FORMAT}"
            )));
        }
        match (bytes.len() == PAYLOAD_BYTES, word(12), word(20)) {
            (true, Some(version), Some(root)) => Ok(Some(Self {
                format,
                version: u64::from_le_bytes(*version),
                root: RecordId(u64::from_le_bytes(*root)),
            })),
            _ => Err(corrupt("the root payload has another length")),
        }
    }
}

/// A stored catalog.
#[derive(Debug)]
pub(super) struct StoredRoot {
    /// The database's name when it was stored.
    pub name: String,
    pub history: History,
    pub version: u64,
    pub next_table: u64,
    pub sharing: bool,
    pub schemas: Vec<StoredSchema>,
}

impl StoredRoot {
    /// The root record with these schemas, which the caller has written already.
    pub fn begin(&self, schemas: usize) -> Writer {
        let mut w = Writer::default();
        w.text(&self.name);
        self.history.write(&mut w);
        w.u64(self.version);
        w.u64(self.next_table);
        w.bool(self.sharing);
        w.len(schemas);
        w
    }

    /// Reads the root record of a store of this format version.
    pub fn read(bytes: &[u8], format: u32) -> Result<Self> {
        let mut r = Reader::part(bytes);
        let mut root = Self {
            name: r.text()?.to_owned(),
            history: History::read(&mut r)?,
            version: r.u64()?,
            next_table: r.u64()?,
            sharing: r.bool()?,
            schemas: r.list(|r| StoredSchema::read(r, format))?,
        };
        for (schema, noted) in notes::read_root(&mut r)? {
            let known = root.schemas.iter_mut().find(|known| *known.name == *schema);
            let Some(known) = known else {
                return Err(corrupt(format!("comments in a schema {schema:?} that is not there")));
            };
            known.rest.set_notes(noted);
        }
        r.finish()?;
        Ok(root)
    }
}

/// A page as its table's record knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredPage {
    pub record: RecordId,
    pub segments: usize,
    pub rows: u64,
    pub live: u64,
    pub bytes: u64,
}

/// A table's record.
pub(super) fn write_table(definition: &Definition, pages: &[StoredPage]) -> Vec<u8> {
    let mut w = Writer::default();
    definition.write(&mut w);
    w.len(pages.len());
    for page in pages {
        let numbers = [page.record.0, page.segments as u64, page.rows, page.live, page.bytes];
        numbers.iter().for_each(|n| w.u64(*n));
    }
    definition.notes.write(&mut w);
    w.into_bytes()
}

/// A table's definition and pages.
pub(super) fn read_table(bytes: &[u8]) -> Result<(Definition, Vec<StoredPage>)> {
    let mut r = Reader::part(bytes);
    let mut definition = Definition::read(&mut r)?;
    let pages = r.list(|r| {
        let record = RecordId(r.u64()?);
        let segments = r.bounded(MAX_PAGE_SEGMENTS as u64, "segments of a page")?;
        let rows = r.bounded((segments * SEGMENT_ROWS) as u64, "rows of a page")? as u64;
        let live = r.bounded(rows, "live rows of a page")? as u64;
        Ok(StoredPage { record, segments, rows, live, bytes: r.u64()? })
    })?;
    definition.notes = TableNotes::read(&mut r, definition.columns.len())?;
    r.finish()?;
    Ok((definition, pages))
}

/// The blocks of an array, and where its buffers are in them.
#[derive(Debug)]
pub(super) struct StoredArray {
    pub blocks: Vec<BlockRef>,
    /// Places count from the first block on.
    pub node: Node,
}

impl StoredArray {
    pub fn write(&self, w: &mut Writer) {
        w.len(self.blocks.len());
        self.blocks.iter().for_each(|block| block.write(w));
        self.node.write(w);
    }

    fn read(r: &mut Reader<'_>, version: u8) -> Result<Self> {
        let blocks = r.list(|r| BlockRef::read(r, version))?;
        if blocks.len() > MAX_BLOCKS {
            return Err(corrupt(format!("a column of {} blocks", blocks.len())));
        }
        Ok(Self { blocks, node: Node::read(r, 0)? })
    }
}

/// A column of a segment.
#[derive(Debug)]
pub(super) struct StoredChunk {
    pub stats: ChunkStats,
    pub array: StoredArray,
    pub patch: Option<StoredArray>,
}

/// A segment.
#[derive(Debug)]
pub(super) struct StoredSegment {
    pub rows: usize,
    pub deleted: usize,
    pub bitmap: Option<BlockRef>,
    pub chunks: Vec<StoredChunk>,
}

impl StoredSegment {
    pub fn write(&self, w: &mut Writer) {
        w.len(self.rows);
        w.len(self.deleted);
        w.option(self.bitmap.as_ref(), |w, block| block.write(w));
        w.len(self.chunks.len());
        for chunk in &self.chunks {
            chunk.stats.write(w);
            chunk.array.write(w);
            w.option(chunk.patch.as_ref(), |w, patch| patch.write(w));
        }
    }

    fn read(r: &mut Reader<'_>, version: u8) -> Result<Self> {
        let rows = r.bounded(SEGMENT_ROWS as u64, "rows of a segment")?;
        let deleted = r.bounded(rows as u64, "deleted rows of a segment")?;
        let bitmap = r.option(|r| BlockRef::read(r, version))?;
        if rows == 0 || (deleted > 0) != bitmap.is_some() {
            return Err(corrupt(format!("a segment of {rows} rows, {deleted} of them deleted")));
        }
        if bitmap.is_some_and(|block| block.len != rows.div_ceil(8) as u64) {
            return Err(corrupt("a bitmap of another length"));
        }
        let chunks = r.list(|r| {
            let stats = ChunkStats::read(r, rows as u64)?;
            let array = StoredArray::read(r, version)?;
            let patch = r.option(|r| StoredArray::read(r, version))?;
            if array.node.len != rows {
                return Err(corrupt("a column of another length than its segment"));
            }
            Ok(StoredChunk { stats, array, patch })
        })?;
        Ok(Self { rows, deleted, bitmap, chunks })
    }

    /// Every block that it names; one that it names twice comes twice.
    pub fn blocks(&self) -> impl Iterator<Item = &BlockRef> {
        let arrays = self.chunks.iter().flat_map(|c| std::iter::once(&c.array).chain(&c.patch));
        arrays.flat_map(|array| &array.blocks).chain(&self.bitmap)
    }
}

/// The segments of a page's record.
pub(super) fn read_page(bytes: &[u8]) -> Result<Vec<StoredSegment>> {
    let (version, bytes) = match bytes {
        [VERSIONED_PAGE, version, rest @ ..] => (*version, rest),
        _ => (1, bytes),
    };
    if version > PAGE {
        return Err(corrupt(format!("a page of format version {version}")));
    }
    let mut r = Reader::part(bytes);
    let segments = r.list(|r| StoredSegment::read(r, version))?;
    r.finish()?;
    Ok(segments)
}

/// The record of a page with these segments.
pub(super) fn write_page(segments: &[StoredSegment]) -> Vec<u8> {
    let mut w = Writer::default();
    w.fixed(&[VERSIONED_PAGE, PAGE]);
    w.len(segments.len());
    segments.iter().for_each(|segment| segment.write(&mut w));
    w.into_bytes()
}

/// Where a place of the area is when the blocks lie one behind the other.
pub(super) fn to_position(blocks: &[Loc], place: Loc) -> Result<Loc> {
    let mut start = 0;
    for block in blocks {
        if block.contains(place) {
            return Ok(Loc { offset: start + (place.offset - block.offset), len: place.len });
        }
        start += block.len;
    }
    Err(Error::internal("a buffer in no block of its column"))
}

/// The inverse of [`to_position`].
pub(super) fn to_place(blocks: &[Loc], position: Loc) -> Result<Loc> {
    let mut start = 0;
    for block in blocks {
        let end = start + block.len;
        if position.offset >= start && position.end() <= end {
            let offset = block.offset + (position.offset - start);
            return Ok(Loc { offset, len: position.len });
        }
        start = end;
    }
    Err(corrupt("a buffer in no block of its column"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_payload_reads_as_written_and_other_versions_are_refused() {
        let head = Head::new(7, RecordId(1 << 40));
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes).unwrap(), Some(head));
        assert_eq!(Head::decode(&[]).unwrap(), None);
        let mut newer = bytes.clone();
        newer[8] = FORMAT as u8 + 1;
        let text = Head::decode(&newer).unwrap_err().to_string();
        assert!(text.contains("format version 4; this program reads versions 1 to 3"), "{text}");
        let mut older = bytes.clone();
        older[8] = 1;
        let old = Head { format: 1, ..head };
        assert_eq!(Head::decode(&older).unwrap(), Some(old));
        assert_eq!(old.encode(), older, "a root is of its own version");
        older[8] = 0;
        assert!(Head::decode(&older).is_err());
        assert!(Head::decode(&bytes[..27]).is_err());
        assert!(Head::decode(b"somebody else's payload of bytes").is_err());
    }

    #[test]
    fn positions_and_places_are_inverse() {
        let blocks = [Loc { offset: 640, len: 100 }, Loc { offset: 64, len: 64 }];
        for (place, position) in [((650, 90), 10), ((64, 64), 100), ((100, 1), 136)] {
            let place = Loc { offset: place.0, len: place.1 };
            let position = Loc { offset: position, len: place.len };
            assert_eq!(to_position(&blocks, place).unwrap(), position);
            assert_eq!(to_place(&blocks, position).unwrap(), place);
        }
        assert!(to_place(&blocks, Loc { offset: 90, len: 20 }).is_err(), "in two blocks");
        assert!(to_place(&blocks, Loc { offset: 164, len: 1 }).is_err());
    }
}
