//! Writing a state of the database to the log: only what the log does not have yet.
//!
//! A catalog and all that it reaches never change, and whoever holds it keeps its blocks in memory.
//! So a state is written from a catalog while the database goes on. Blocks, pages and tables note
//! the records that they are in; what has one is not looked into again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use swing_tier::{Batch, RecordId};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::go_on;

use crate::catalog::entry::TableEntry;
use crate::catalog::history::History;
use crate::catalog::page::Page;
use crate::catalog::state::Catalog;
use crate::catalog::table::Table;
use crate::catalog::table_list::ListPage;
use crate::durable::encode::{AllPrepared, Gathered, Prepared, prepare_bytes};
use crate::durable::format::{
    self, StoredArray, StoredChunk, StoredPage, StoredRoot, StoredSegment,
};
use crate::durable::ledger::{Change, Known, Ledger, PageBlocks, TableRecords};
use crate::durable::lists::{StoredEntry, StoredList, write_list};
use crate::errors::log::commit_error;
use crate::memory::block_ref::BlockRef;
use crate::memory::raw;
use crate::memory::space::Blocks;
use crate::segments::read::Source;
use crate::segments::segment::Segment;

/// What notes the record that it is in.
#[derive(Debug)]
enum Noted {
    Blocks(Arc<Blocks>),
    Page(Arc<Page>),
    Table(Arc<TableEntry>),
    List(Arc<ListPage>),
}

/// What a checkpoint has put into a batch.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub change: Change,
    /// Records that were added.
    pub records: Vec<RecordId>,
    /// Bytes of the records of blocks that were added.
    pub bytes: u64,
    noted: Vec<Noted>,
}

impl Written {
    /// The batch was not committed, or was taken back: nothing is where it was noted.
    pub fn forget(&mut self) {
        for noted in self.noted.drain(..) {
            match noted {
                Noted::Blocks(blocks) => blocks.set_stored(None),
                Noted::Page(page) => page.set_stored(None),
                Noted::Table(entry) => entry.set_stored(None),
                Noted::List(list) => list.set_stored(None),
            }
        }
    }
}

/// Writes a state into a batch.
pub(super) struct Checkpoint<'a, 'log> {
    pub batch: &'a mut Batch<'log>,
    pub ledger: &'a Ledger,
    pub known: &'a Mutex<Known>,
    pub written: &'a mut Written,
    pub path: &'a std::path::Path,
    /// Whether the database's objects note their records. A copy elsewhere leaves no notes.
    pub notes: bool,
    /// Blocks that a copy has written, by their identity: tables can share them.
    pub copied: HashMap<*const Blocks, Arc<[BlockRef]>>,
    /// Blocks of the segments that are written next.
    pub prepared: AllPrepared,
}

impl Checkpoint<'_, '_> {
    fn put(&mut self, bytes: &[u8]) -> Result<RecordId> {
        let record = self.batch.put(bytes).map_err(|e| commit_error(self.path, e))?;
        self.written.records.push(record);
        Ok(record)
    }

    /// Writes the state `catalog`; `root` has everything but the schemas. Returns the root record.
    pub fn write(&mut self, catalog: &Catalog, root: &StoredRoot) -> Result<RecordId> {
        let mut w = root.begin(catalog.schemas.len());
        for (name, node) in &catalog.schemas {
            w.text(name);
            let pages = node.tables.pages();
            w.len(pages.len());
            for (first, page) in pages {
                if pages.len() > 1 {
                    let record = self.list(catalog, name, page)?;
                    StoredList::write(&mut w, first, Some((record, page.tables())), &[]);
                    continue;
                }
                let entries = self.entries(catalog, name, page)?;
                self.written.change.in_root.extend(entries.iter().map(|entry| entry.id));
                StoredList::write(&mut w, first, None, &entries);
                if self.notes {
                    page.set_stored(None);
                }
            }
            node.write_rest(&mut w);
        }
        catalog.write_comments(&mut w);
        self.written.change.drop_tables(self.ledger);
        let record = self.put(&w.into_bytes())?;
        self.written.change.new_root = Some(record);
        Ok(record)
    }

    /// The record of a list of tables.
    fn list(
        &mut self,
        catalog: &Catalog,
        schema: &Arc<str>,
        list: &Arc<ListPage>,
    ) -> Result<RecordId> {
        if self.notes
            && let Some(record) = list.stored()
        {
            self.written.change.lists_kept.push(record);
            return Ok(record);
        }
        let entries = self.entries(catalog, schema, list)?;
        let record = self.put(&write_list(&entries))?;
        let ids = entries.iter().map(|entry| entry.id).collect();
        self.written.change.lists_added.push((record, ids));
        if self.notes {
            list.set_stored(Some(record));
            self.written.noted.push(Noted::List(list.clone()));
        }
        Ok(record)
    }

    /// The tables of a list, with their records.
    fn entries(
        &mut self,
        catalog: &Catalog,
        schema: &Arc<str>,
        list: &ListPage,
    ) -> Result<Vec<StoredEntry>> {
        let entries = list.entries()?.iter().map(|(name, entry)| {
            Ok(StoredEntry {
                name: name.to_string(),
                id: entry.id,
                record: self.table(catalog, (schema, name), entry)?,
                rows: entry.rows,
                bytes: entry.bytes,
                segments: entry.segments,
            })
        });
        entries.collect()
    }

    fn table(
        &mut self,
        catalog: &Catalog,
        (schema, name): (&Arc<str>, &Arc<str>),
        entry: &Arc<TableEntry>,
    ) -> Result<RecordId> {
        if self.notes
            && let Some(record) = entry.stored()
        {
            return Ok(record);
        }
        let table: Arc<Table> = entry.get(&catalog.space, schema, name)?.clone();
        let mut pages = Vec::with_capacity(table.pages.len());
        for page in &table.pages {
            pages.push(StoredPage {
                record: self.page(page)?,
                segments: page.segments,
                rows: page.rows,
                live: page.live,
                bytes: page.bytes,
            });
        }
        let record = self.put(&format::write_table(&table.definition, &pages))?;
        let pages = pages.iter().map(|page| page.record).collect();
        let old = self.ledger.tables.get(&entry.id).cloned();
        let new = Some(TableRecords { record, pages });
        self.written.change.tables.push((entry.id, old, new));
        if self.notes {
            entry.set_stored(Some(record));
            self.written.noted.push(Noted::Table(entry.clone()));
        }
        Ok(record)
    }

    fn page(&mut self, page: &Arc<Page>) -> Result<RecordId> {
        if self.notes
            && let Some(record) = page.stored()
        {
            return Ok(record);
        }
        let segments = self.segments(page.named_segments()?)?;
        let record = self.put(&format::write_page(&segments))?;
        let blocks = segments.iter().flat_map(|s| s.blocks()).map(|block| block.record).collect();
        let added: PageBlocks = (record, blocks);
        self.written.change.added.push(added);
        if self.notes {
            page.set_stored(Some(record));
            self.written.noted.push(Noted::Page(page.clone()));
        }
        Ok(record)
    }

    /// Writes segments. While some are on their way to the disk, those behind them are prepared.
    fn segments(&mut self, all: &[Arc<Segment>]) -> Result<Vec<StoredSegment>> {
        let mut stored = Vec::with_capacity(all.len());
        let known = self.known;
        let mut rest = all;
        let mut here = Gathered::of(rest, |blocks| !self.is_stored(blocks))?;
        let mut ready = here.prepare(known)?;
        while !rest.is_empty() {
            go_on()?;
            let (some, later) = rest.split_at(here.segments);
            let next = Gathered::of(later, |blocks| !self.is_stored(blocks))?;
            self.prepared = here.by_blocks(ready);
            ready = std::thread::scope(|scope| {
                let ahead = next.prepare_ahead(scope, known);
                for segment in some {
                    stored.push(self.segment(segment)?);
                }
                match ahead {
                    Some(ahead) => ahead.join().unwrap_or_else(|_| Err(died())),
                    None => next.prepare(known),
                }
            })?;
            (rest, here) = (later, next);
        }
        Ok(stored)
    }

    fn segment(&mut self, segment: &Segment) -> Result<StoredSegment> {
        let mut chunks = Vec::with_capacity(segment.columns());
        for chunk in segment.chunks()? {
            let patch = match &chunk.patch {
                Some(patch) => Some(self.array(patch.source())?),
                None => None,
            };
            let (stats, array) = (chunk.stats.clone(), self.array(chunk.source())?);
            chunks.push(StoredChunk { stats, array, patch });
        }
        let bitmap = match segment.deletion() {
            None => None,
            Some(deletion) => match self.blocks(&deletion.blocks)?.as_ref() {
                [one] => Some(*one),
                _ => return Err(Error::internal("a bitmap in several blocks")),
            },
        };
        let (rows, deleted) = (segment.rows(), segment.rows() - segment.live_rows());
        Ok(StoredSegment { rows, deleted, bitmap, chunks })
    }

    fn array(&mut self, source: Source<'_>) -> Result<StoredArray> {
        let blocks = self.blocks(source.blocks)?.to_vec();
        let mut node = source.node.clone();
        node.relocate(&|place| format::to_position(source.blocks.listed(), place))?;
        Ok(StoredArray { blocks, node })
    }

    /// Whether blocks were written before.
    fn is_stored(&self, blocks: &Blocks) -> bool {
        match self.notes {
            true => blocks.is_stored(),
            false => self.copied.contains_key(&std::ptr::from_ref(blocks)),
        }
    }

    /// The records of blocks that were written before.
    fn stored(&self, blocks: &Arc<Blocks>) -> Option<Arc<[BlockRef]>> {
        match self.notes {
            true => blocks.stored(),
            false => self.copied.get(&Arc::as_ptr(blocks)).cloned(),
        }
    }

    /// A record that the log has already.
    fn take_known(&self, prepared: &Prepared, len: u64) -> Option<BlockRef> {
        self.known.lock().take(prepared.check, len, self.ledger)
    }

    /// The records of blocks; those that the log does not have are written.
    fn blocks(&mut self, blocks: &Arc<Blocks>) -> Result<Arc<[BlockRef]>> {
        if let Some(known) = self.stored(blocks) {
            return Ok(known);
        }
        let prepared = match self.prepared.remove(&Arc::as_ptr(blocks)) {
            Some(prepared) => prepared,
            None => prepare_bytes(blocks, self.known)?,
        };
        let mut all = Vec::with_capacity(blocks.listed().len());
        for (loc, prepared) in blocks.listed().iter().zip(prepared) {
            if let Some(known) = self.take_known(&prepared, loc.len) {
                all.push(known);
                continue;
            }
            let record = match &prepared.encoded {
                Some(encoded) => self.put(encoded)?,
                None => self.put(raw::bytes(blocks, *loc)?)?,
            };
            let stored = prepared.encoded.map_or(loc.len, |encoded| encoded.len() as u64);
            self.written.bytes += stored;
            all.push(BlockRef { record, len: loc.len, stored, check: prepared.check });
        }
        let all: Arc<[BlockRef]> = all.into();
        if self.notes {
            blocks.set_stored(Some(all.clone()));
            self.written.noted.push(Noted::Blocks(blocks.clone()));
        } else {
            self.copied.insert(Arc::as_ptr(blocks), all.clone());
        }
        Ok(all)
    }
}

/// Panics are errors there already.
fn died() -> Error {
    Error::internal("a thread that prepares blocks has died")
}

/// A root that lacks its schemas.
pub(super) fn root_of(catalog: &Catalog, name: &str, history: &History) -> StoredRoot {
    StoredRoot {
        name: name.to_owned(),
        history: history.clone(),
        version: catalog.version,
        next_table: catalog.next_table,
        sharing: catalog.sharing,
        schemas: Vec::new(),
    }
}
