//! Pages: some neighbouring segments of a table, with a record of their own in the area.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use swing_tier::RecordId;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::go_on;

use crate::codec::Reader;
use crate::errors::area::corrupt;
use crate::memory::raw::Loc;
use crate::memory::record::record_loc;
use crate::memory::space::{Blocks, Ground, Space};
use crate::segments::column_stats::{ColumnStats, Merged};
use crate::segments::directory::{self, Directory};
use crate::segments::rowids::SEGMENT_ROWS;
use crate::segments::segment::Segment;

/// Most segments of a page.
pub(crate) const MAX_PAGE_SEGMENTS: usize = 64;

/// A page should stay below this, so that it lies in the zone of small extents.
const PAGE_TARGET_BYTES: usize = 24 << 10;

/// About what one column of one segment takes in a page.
const CHUNK_RECORD_BYTES: usize = 116;

/// Some neighbouring segments of a table; shared by all versions of the table that have them.
#[derive(Debug)]
pub struct Page {
    /// How many segments.
    pub segments: usize,
    /// Their rows, with those that are deleted.
    pub rows: u64,
    /// Their rows that are not deleted.
    pub live: u64,
    /// Bytes of memory.
    pub bytes: u64,
    space: Arc<Space>,
    schema: SchemaRef,
    record: OnceLock<Arc<Blocks>>,
    decoded: OnceLock<Arc<[Arc<Segment>]>>,
    /// The record in the store on a disk.
    stored: Mutex<Option<RecordId>>,
    /// Statistics of each column over the page.
    stats: Box<[OnceLock<Merged>]>,
}

fn no_stats(schema: &SchemaRef) -> Box<[OnceLock<Merged>]> {
    schema.fields().iter().map(|_| OnceLock::new()).collect()
}

impl Page {
    /// A page that is not in the area yet.
    pub(crate) fn new(
        space: &Arc<Space>,
        schema: &SchemaRef,
        segments: Vec<Arc<Segment>>,
    ) -> Arc<Self> {
        let sum = |f: fn(&Segment) -> u64| segments.iter().map(|s| f(s)).sum();
        Arc::new(Self {
            segments: segments.len(),
            rows: sum(|s| s.rows() as u64),
            live: sum(|s| s.live_rows() as u64),
            bytes: sum(|s| s.bytes()),
            space: space.clone(),
            schema: schema.clone(),
            record: OnceLock::new(),
            decoded: OnceLock::from(Arc::from(segments)),
            stored: Mutex::default(),
            stats: no_stats(schema),
        })
    }

    /// A page whose record is in the area; `r` has what its table's record says of it.
    pub(crate) fn of_record(
        space: &Arc<Space>,
        schema: &SchemaRef,
        record: Arc<Blocks>,
        r: &mut Reader<'_>,
    ) -> Result<Arc<Self>> {
        let segments = r.bounded(MAX_PAGE_SEGMENTS as u64, "segments of a page")?;
        let rows = r.bounded((segments * SEGMENT_ROWS) as u64, "rows of a page")? as u64;
        Ok(Arc::new(Self {
            segments,
            rows,
            live: r.bounded(rows, "live rows of a page")? as u64,
            bytes: r.u64()?,
            space: space.clone(),
            schema: schema.clone(),
            record: OnceLock::from(record),
            decoded: OnceLock::new(),
            stored: Mutex::default(),
            stats: no_stats(schema),
        }))
    }

    /// Its segments, read with the first use.
    pub(crate) fn segments(&self) -> Result<&Arc<[Arc<Segment>]>> {
        if let Some(decoded) = self.decoded.get() {
            return Ok(decoded);
        }
        let record = self.record.get();
        let record = record.ok_or_else(|| Error::internal("a page that is nowhere"))?;
        let directory = Directory::open(&self.space, record, self.schema.fields().len())?;
        if directory.segments() != self.segments {
            return Err(corrupt("a page with other segments than its table says"));
        }
        let segments = Segment::of_page(&self.schema, &directory)?;
        let (rows, live): (u64, u64) = segments
            .iter()
            .fold((0, 0), |(r, l), s| (r + s.rows() as u64, l + s.live_rows() as u64));
        if (segments.len(), rows, live) != (self.segments, self.rows, self.live) {
            return Err(corrupt("a page with other rows than its table says"));
        }
        // Whoever comes first wins; the copy of the other is dropped here, unused.
        Ok(self.decoded.get_or_init(|| segments.into()))
    }

    /// Statistics of a column, read with the first use.
    pub(crate) fn merged(&self, column: usize) -> Result<&Merged> {
        let slot = self.stats.get(column).ok_or_else(|| Error::internal("no such column"))?;
        if let Some(stats) = slot.get() {
            return Ok(stats);
        }
        let mut stats = Merged::default();
        for segment in self.segments()?.iter() {
            stats.add(segment.chunk_stats(column)?, segment.rows(), segment.deletion().is_some());
        }
        Ok(slot.get_or_init(|| stats))
    }

    /// Statistics of a column over all its segments.
    pub fn column_stats(&self, column: usize) -> Result<ColumnStats> {
        let stats = self.merged(column).map_err(|e| self.space.named(e))?.clone();
        Ok(stats.finish(self.schema.field(column).data_type()))
    }

    /// As [`Page::segments`], with the name of the database in an error.
    pub fn named_segments(&self) -> Result<&Arc<[Arc<Segment>]>> {
        self.segments().map_err(|e| self.space.named(e))
    }

    /// Its record in the area, when it has one.
    pub(crate) fn record(&self) -> Option<&Arc<Blocks>> {
        self.record.get()
    }

    /// Its record in the store on a disk, when it is there.
    pub(crate) fn stored(&self) -> Option<RecordId> {
        *self.stored.lock()
    }

    /// Notes its record in the store.
    pub(crate) fn set_stored(&self, record: Option<RecordId>) {
        *self.stored.lock() = record;
    }

    /// Writes its record when it has none.
    pub(crate) fn persist(&self, ground: &Ground, written: &mut Vec<Arc<Blocks>>) -> Result<Loc> {
        if self.record.get().is_none() {
            go_on()?;
            let (columns, segments) = (self.schema.fields().len(), self.segments()?);
            let all_have = segments.iter().all(|segment| segment.columns() == columns);
            assert!(all_have, "segments of one table have its columns");
            let entries = segments.iter().map(|segment| segment.entry());
            let entries = entries.collect::<Result<Vec<_>>>()?;
            let record = directory::encode(columns, &entries, |segment, column, w| {
                segments[segment].describe(column, w)
            })?;
            let blocks = ground.store(&record)?;
            written.push(blocks.clone());
            // Only the holder of the writer's slot persists: nobody else can have set it.
            let _ = self.record.set(blocks);
        }
        record_loc(self.record.get())
    }
}

/// How many segments a page of a table with this many columns has.
pub(crate) fn page_segments(columns: usize) -> usize {
    (PAGE_TARGET_BYTES / (columns.max(1) * CHUNK_RECORD_BYTES)).clamp(1, MAX_PAGE_SEGMENTS)
}
