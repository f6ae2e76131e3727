//! Reading a stored state: its catalog, with blocks that come when they are needed (see `fetch`).
//!
//! The log checks each record against its checksum. What a record says is looked at all the same
//! before it is used: a store can come from anywhere.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use parking_lot::Mutex;
use swing_tier::{Lease, RecordId};
use swingdb_common::error::Result;
use swingdb_common::progress::Progress;
use swingdb_common::runtime::threads;

use crate::catalog::definition::Definition;
use crate::catalog::entry::TableEntry;
use crate::catalog::history::History;
use crate::catalog::page::Page;
use crate::catalog::schema::SchemaNode;
use crate::catalog::state::Catalog;
use crate::catalog::table::Table;
use crate::catalog::table_list::{Entries, TableList};
use crate::durable::format::{
    self, Head, StoredArray, StoredPage, StoredRoot, StoredSegment, to_place,
};
use crate::durable::ledger::{Known, Ledger, TableRecords};
use crate::durable::lists::StoredEntry;
use crate::errors::area::corrupt;
use crate::errors::log::{in_store, read_error};
use crate::memory::block_ref::BlockRef;
use crate::memory::fetch::{Cold, Source, fetch};
use crate::memory::raw::Reserved;
use crate::memory::space::{Blocks, Ground};
use crate::segments::chunk::Chunk;
use crate::segments::parallel::in_parallel;
use crate::segments::patch::{MAX_PATCH_ROWS, Patch, patch_type};
use crate::segments::read::Node;
use crate::segments::segment::{Deletion, Segment};

/// How many records are read by one request for many.
const READ_TOGETHER: usize = 256;
/// How many bytes of blocks are read together where all are read.
const FETCHED_TOGETHER: u64 = 64 << 20;

/// The catalog of a stored state.
pub(crate) struct StoredCatalog {
    /// The format version of the root.
    pub(super) format: u32,
    pub(super) root: StoredRoot,
    pub(super) tables: Vec<StoredTable>,
    pub(super) ledger: Ledger,
    pub(super) known: Known,
}

/// A table of a stored state.
pub(super) struct StoredTable {
    /// Its schema, list, and place in the list.
    at: (usize, usize, usize),
    pub definition: Definition,
    pub pages: Vec<(StoredPage, Vec<StoredSegment>)>,
}

/// Reads records whose lengths are not known, in order.
fn records(lease: &Lease, path: &Path, ids: &[RecordId]) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::with_capacity(ids.len());
    for some in ids.chunks(READ_TOGETHER) {
        all.extend(lease.read_many(some).map_err(|e| read_error(path, e))?);
    }
    Ok(all)
}

impl StoredCatalog {
    /// Reads the catalog of the state that `lease` holds; `None`: nothing was stored yet.
    pub fn read(lease: &Lease, path: &Path) -> Result<Option<Self>> {
        Self::read_whole(lease, path).map_err(|error| in_store(path, error))
    }

    fn read_whole(lease: &Lease, path: &Path) -> Result<Option<Self>> {
        let Some(head) = Head::decode(lease.root())? else { return Ok(None) };
        let bytes = lease.read(head.root).map_err(|e| read_error(path, e))?;
        let mut root = StoredRoot::read(&bytes, head.format)?;
        if root.version != head.version {
            return Err(corrupt("the root record is one of another state"));
        }
        let (mut tables, mut ledger) = (Vec::new(), Ledger::default());
        ledger.root = Some(head.root);
        let mut known = Known::default();
        read_lists(&mut root, &mut ledger, |ids| records(lease, path, ids))?;
        let entries: Vec<_> = all_entries(&root).collect();
        let ids: Vec<RecordId> = entries.iter().map(|(_, entry)| entry.record).collect();
        for ((at, entry), bytes) in entries.iter().zip(records(lease, path, &ids)?) {
            let (definition, pages) = format::read_table(&bytes)?;
            let page_ids: Vec<RecordId> = pages.iter().map(|page| page.record).collect();
            let bytes = records(lease, path, &page_ids)?;
            let mut whole = Vec::with_capacity(pages.len());
            for (page, bytes) in pages.into_iter().zip(bytes) {
                let segments = format::read_page(&bytes)?;
                check_page(&page, &segments, definition.columns.len())?;
                let blocks = || segments.iter().flat_map(StoredSegment::blocks);
                blocks().for_each(|block| known.add(block));
                ledger.add_page(page.record, blocks().map(|block| block.record).collect());
                whole.push((page, segments));
            }
            let records = TableRecords { record: entry.record, pages: page_ids };
            if ledger.tables.insert(entry.id, records).is_some() {
                return Err(corrupt(format!("two tables have the id {}", entry.id)));
            }
            tables.push(StoredTable { at: *at, definition, pages: whole });
        }
        Ok(Some(Self { format: head.format, root, tables, ledger, known }))
    }

    /// The database's name when it was stored.
    pub fn name(&self) -> &str {
        &self.root.name
    }

    /// The version of the state.
    pub fn version(&self) -> u64 {
        self.root.version
    }

    /// Where the state came from.
    pub fn history(&self) -> &History {
        &self.root.history
    }

    /// The name of a table's schema, and what its list says.
    fn entry(&self, table: &StoredTable) -> (&str, &StoredEntry) {
        let (schema, list, place) = table.at;
        let schema = &self.root.schemas[schema];
        (&schema.name, &schema.lists[list].entries[place])
    }

    /// Bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        let pages = self.tables.iter().flat_map(|table| &table.pages);
        let segments = pages.flat_map(|(_, segments)| segments);
        segments.flat_map(StoredSegment::blocks).map(|block| block.len).sum()
    }

    /// Notes in the tables of `catalog`, which is this state, the records that they are in.
    pub fn note(&self, catalog: &Catalog) -> Result<()> {
        for stored in &self.tables {
            let (schema, entry) = self.entry(stored);
            let Some((schema, node)) = catalog.schemas.get_key_value(schema) else { continue };
            let Some((name, here)) = node.tables.get(&entry.name)? else {
                continue;
            };
            let table = here.get(&catalog.space, schema, name)?;
            let same = |(page, (stored, _)): (&Arc<Page>, &(StoredPage, _))| {
                (page.segments, page.rows, page.live) == (stored.segments, stored.rows, stored.live)
            };
            let fits = here.id == entry.id
                && table.pages.len() == stored.pages.len()
                && *table.definition == stored.definition
                && table.pages.iter().zip(&stored.pages).all(same);
            if !fits {
                // It is written anew; blocks are found by their contents.
                continue;
            }
            here.set_stored(Some(entry.record));
            for (page, (stored, _)) in table.pages.iter().zip(&stored.pages) {
                page.set_stored(Some(stored.record));
            }
        }
        self.note_lists(catalog)
    }

    /// Notes the records of the lists whose tables all have theirs.
    fn note_lists(&self, catalog: &Catalog) -> Result<()> {
        for schema in &self.root.schemas {
            let Some(node) = catalog.schemas.get(schema.name.as_str()) else { continue };
            for list in &schema.lists {
                let Some(here) = node.tables.pages().get(list.first.as_str()) else { continue };
                let entries = here.entries()?;
                let same = |((name, entry), stored): ((&Arc<str>, &Arc<TableEntry>), _)| {
                    let stored: &StoredEntry = stored;
                    **name == *stored.name
                        && entry.stored() == Some(stored.record)
                        && (entry.id, entry.rows, entry.bytes, entry.segments)
                            == (stored.id, stored.rows, stored.bytes, stored.segments)
                };
                let fits = entries.len() == list.entries.len();
                if fits && entries.iter().zip(&list.entries).all(same) {
                    here.set_stored(list.record);
                }
            }
        }
        Ok(())
    }
}

/// Each table of a root, whose lists have been read, with its place there.
fn all_entries(
    root: &StoredRoot,
) -> impl Iterator<Item = ((usize, usize, usize), &StoredEntry)> + use<'_> {
    root.schemas.iter().enumerate().flat_map(|(s, schema)| {
        schema.lists.iter().enumerate().flat_map(move |(l, list)| {
            list.entries.iter().enumerate().map(move |(t, entry)| ((s, l, t), entry))
        })
    })
}

/// Reads the lists of tables that have records of their own.
fn read_lists(
    root: &mut StoredRoot,
    ledger: &mut Ledger,
    read: impl FnOnce(&[RecordId]) -> Result<Vec<Vec<u8>>>,
) -> Result<()> {
    let mut lists: Vec<_> = root.schemas.iter_mut().flat_map(|s| &mut s.lists).collect();
    let ids: Vec<RecordId> = lists.iter().filter_map(|list| list.record).collect();
    let with_record = lists.iter_mut().filter(|list| list.record.is_some());
    for (list, bytes) in with_record.zip(read(&ids)?) {
        list.fill(&bytes)?;
    }
    for list in lists {
        let ids = list.entries.iter().map(|entry| entry.id);
        match list.record {
            Some(record) => drop(ledger.lists.insert(record, ids.collect())),
            None => ledger.in_root.extend(ids),
        }
    }
    Ok(())
}

fn check_page(page: &StoredPage, segments: &[StoredSegment], columns: usize) -> Result<()> {
    let sum = |f: fn(&StoredSegment) -> usize| segments.iter().map(|s| f(s) as u64).sum::<u64>();
    let (rows, live) = (sum(|s| s.rows), sum(|s| s.rows - s.deleted));
    if (page.segments, page.rows, page.live) != (segments.len(), rows, live) {
        return Err(corrupt("a page with other rows than its table says"));
    }
    if segments.iter().any(|segment| segment.chunks.len() != columns) {
        return Err(corrupt("a page with other columns than its table says"));
    }
    Ok(())
}

/// A stored state as a catalog, and the blocks that it is made of.
pub(crate) struct Loaded {
    pub catalog: Catalog,
    pub created: Vec<Arc<Blocks>>,
    /// Blocks that one more table uses, once for each.
    pub shared: Vec<Arc<Blocks>>,
    /// Where the bytes of the blocks come from.
    pub source: Arc<Source>,
}

impl Loaded {
    /// Reads everything into memory.
    pub fn fetch_all(&self, progress: Option<&dyn Progress>) -> Result<()> {
        fetch_all(self.created.iter().cloned(), threads::cores(), || {
            let (done, total) = self.source.progress();
            if let Some(progress) = progress {
                progress.progress(done, Some(total), "bytes");
            }
            Ok(())
        })
    }
}

/// Reads blocks into memory, some at a time, and decodes them on so many threads; `between` is
/// called before each time, and at the end. The statement that waits for them can be ended.
pub(super) fn fetch_all(
    mut all: impl Iterator<Item = Arc<Blocks>>,
    threads: usize,
    mut between: impl FnMut() -> Result<()>,
) -> Result<()> {
    loop {
        between()?;
        let (mut some, mut bytes) = (Vec::new(), 0);
        while bytes < FETCHED_TOGETHER
            && let Some(blocks) = all.next()
        {
            bytes += blocks.listed().iter().map(|loc| loc.len).sum::<u64>();
            some.push(blocks);
        }
        if some.is_empty() {
            return Ok(());
        }
        // All but the first take part in what it reads.
        in_parallel(threads, &vec![(); threads], |()| fetch(some.iter()))?;
    }
}

/// Blocks of arrays: those found, or of these the ones that were made here.
type Made = Vec<Arc<Blocks>>;

/// Blocks that tables share, by the record of the first: the table that read them first, and they.
type Shared = Mutex<HashMap<RecordId, (u64, Arc<Blocks>)>>;

/// Makes the catalog of a stored state.
struct Loader<'a> {
    ground: &'a Ground,
    source: Arc<Source>,
    sharing: bool,
    shared: Shared,
    reused: Mutex<Vec<Arc<Blocks>>>,
}

/// The catalog of a stored state, whose blocks have places in the area of `ground`.
pub(crate) fn load(
    stored: &StoredCatalog,
    lease: &Lease,
    path: &Path,
    ground: &Arc<Ground>,
) -> Result<Loaded> {
    let loader = Loader {
        ground,
        source: Source::new(lease, path, ground, stored.bytes()),
        sharing: stored.root.sharing,
        shared: Mutex::default(),
        reused: Mutex::default(),
    };
    ground.space.set_cold(true);
    loader.load(stored).map_err(|error| in_store(path, error))
}

impl Loader<'_> {
    fn load(&self, stored: &StoredCatalog) -> Result<Loaded> {
        let definitions: Vec<Arc<Definition>> =
            stored.tables.iter().map(|table| Arc::new(table.definition.clone())).collect();
        let pages: Vec<_> = stored
            .tables
            .iter()
            .zip(&definitions)
            .enumerate()
            .flat_map(|(at, (table, definition))| {
                table.pages.iter().map(move |page| (at, definition, page))
            })
            .collect();
        let loaded =
            in_parallel(threads::cores(), &pages, |(at, definition, (page, segments))| {
                let read = self.page(*at as u64, definition, segments)?;
                Ok((*at, page.record, read))
            })?;
        let mut of_table: BTreeMap<usize, Vec<Arc<Page>>> = BTreeMap::new();
        let mut created = Vec::new();
        for (at, record, (segments, blocks)) in loaded {
            created.extend(blocks);
            let page = Page::new(&self.ground.space, &definitions[at].schema, segments);
            page.set_stored(Some(record));
            of_table.entry(at).or_default().push(page);
        }
        let mut catalog = Catalog::empty(self.ground.space.clone());
        catalog.version = stored.root.version;
        catalog.next_table = stored.root.next_table;
        let mut of_list: HashMap<(usize, usize), Entries> = HashMap::new();
        for (at, table) in stored.tables.iter().enumerate() {
            let (schema, entry) = stored.entry(table);
            let names: (Arc<str>, Arc<str>) = (Arc::from(schema), Arc::from(entry.name.as_str()));
            let pages = of_table.remove(&at).unwrap_or_default();
            let space = self.ground.space.clone();
            let made = Table::new(entry.id, names.clone(), definitions[at].clone(), space, pages);
            if (made.row_count(), made.segment_count() as u64) != (entry.rows, entry.segments) {
                return Err(corrupt(format!("table {:?}: other rows than the root says", names.1)));
            }
            let made = TableEntry::new(made);
            made.set_stored(Some(entry.record));
            let (schema, list, _) = table.at;
            of_list.entry((schema, list)).or_default().insert(names.1, made);
        }
        for (at, schema) in stored.root.schemas.iter().enumerate() {
            let lists = schema.lists.iter().enumerate().map(|(nth, list)| {
                let entries = of_list.remove(&(at, nth)).unwrap_or_default();
                (Arc::from(list.first.as_str()), entries, list.record)
            });
            let tables = TableList::of_pages(lists.collect())?;
            let node = SchemaNode { tables, ..schema.rest.clone() };
            catalog.schemas.insert(Arc::from(schema.name.as_str()), Arc::new(node));
        }
        let shared = std::mem::take(&mut *self.reused.lock());
        Ok(Loaded { catalog, created, shared, source: self.source.clone() })
    }

    /// The segments of a page. Bitmaps of deleted rows are read here, all together.
    fn page(
        &self,
        table: u64,
        definition: &Definition,
        segments: &[StoredSegment],
    ) -> Result<(Vec<Arc<Segment>>, Made)> {
        let mut arrays: Vec<&[BlockRef]> = Vec::new();
        for segment in segments {
            for chunk in &segment.chunks {
                arrays.push(&chunk.array.blocks);
                arrays.extend(chunk.patch.as_ref().map(|patch| patch.blocks.as_slice()));
            }
            arrays.extend(segment.bitmap.as_ref().map(std::slice::from_ref));
        }
        let (blocks, created) = self.blocks(table, &arrays)?;
        let with_bitmap = segments.iter().zip(bitmaps(segments));
        let with_bitmap = with_bitmap.filter(|(segment, _)| segment.bitmap.is_some());
        fetch(with_bitmap.map(|(_, at)| &blocks[at]))?;
        let mut next = blocks.into_iter();
        let mut take = || {
            next.next().ok_or_else(|| swingdb_common::error::Error::internal("a block is missing"))
        };
        let mut all = Vec::with_capacity(segments.len());
        for segment in segments {
            let mut chunks = Vec::with_capacity(segment.chunks.len());
            for (stored, field) in segment.chunks.iter().zip(definition.schema.fields()) {
                let (blocks, node) = placed(take()?, &stored.array)?;
                let data_type = field.data_type();
                let chunk = Chunk::new(blocks, data_type.clone(), node, stored.stats.clone());
                let chunk = match &stored.patch {
                    None => chunk,
                    Some(patch) => {
                        let rows = patch.node.len;
                        if rows == 0 || rows > MAX_PATCH_ROWS.min(segment.rows) {
                            return Err(corrupt(format!("a patch of {rows} rows")));
                        }
                        let (blocks, node) = placed(take()?, patch)?;
                        let data_type = patch_type(data_type);
                        chunk.with_patch(Patch::new(blocks, data_type, node, segment.rows))
                    }
                };
                chunks.push(Arc::new(chunk));
            }
            let deletion = match segment.bitmap {
                None => None,
                Some(_) => Some(Deletion::over(take()?, segment.rows, segment.deleted)?),
            };
            if let Some(deletion) = &deletion
                && count(&deletion.bits) != segment.deleted
            {
                return Err(corrupt("a bitmap of another number of rows"));
            }
            all.push(Segment::new(definition.schema.clone(), segment.rows, deletion, chunks));
        }
        Ok((all, created))
    }

    /// The blocks of each array, and which of them were made here.
    fn blocks(&self, table: u64, arrays: &[&[BlockRef]]) -> Result<(Made, Made)> {
        let mut found: Vec<Option<Arc<Blocks>>> = vec![None; arrays.len()];
        if self.sharing {
            let shared = self.shared.lock();
            for (at, array) in arrays.iter().enumerate() {
                let known = array.first().and_then(|first| shared.get(&first.record));
                // Twice in one table are two blocks: sharing is counted between tables.
                let known = known.filter(|(of, blocks)| *of != table && is_of(blocks, array));
                found[at] = known.map(|(_, blocks)| blocks.clone());
            }
            self.reused.lock().extend(found.iter().flatten().cloned());
        }
        let mut created = Vec::new();
        for (array, found) in arrays.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            let blocks = self.reserve(array)?;
            created.push(blocks.clone());
            *found = Some(blocks);
        }
        if self.sharing {
            let mut shared = self.shared.lock();
            for (array, blocks) in arrays.iter().zip(&found) {
                if let (Some(first), Some(blocks)) = (array.first(), blocks) {
                    shared.entry(first.record).or_insert_with(|| (table, blocks.clone()));
                }
            }
        }
        Ok((found.into_iter().flatten().collect(), created))
    }

    /// Places for an array's blocks, which are freed with the last who holds them.
    fn reserve(&self, array: &[BlockRef]) -> Result<Arc<Blocks>> {
        let mut places = Vec::with_capacity(array.len());
        let mut failed = None;
        for block in array {
            match self.ground.reserve_block(block.len) {
                Ok(place) => places.push(place),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let space = &self.ground.space;
        let locs = places.iter().map(Reserved::loc).collect();
        if let Some(error) = failed {
            drop(Blocks::fresh(space, locs));
            return Err(error);
        }
        let records: Arc<[BlockRef]> = array.into();
        let blocks =
            Blocks::in_store(space, locs, Cold::new(&self.source, records.clone(), places));
        blocks.set_stored(Some(records));
        Ok(blocks)
    }
}

/// Where the bitmap of each segment is among all arrays of a page, if it has one: the last of its
/// segment.
fn bitmaps(segments: &[StoredSegment]) -> impl Iterator<Item = usize> {
    segments.iter().scan(0, |next, segment| {
        let patches = segment.chunks.iter().filter(|chunk| chunk.patch.is_some()).count();
        *next += segment.chunks.len() + patches + usize::from(segment.bitmap.is_some());
        Some(next.saturating_sub(1))
    })
}

fn is_of(blocks: &Arc<Blocks>, array: &[BlockRef]) -> bool {
    blocks.stored().is_some_and(|stored| *stored == *array)
}

fn count(bits: &BooleanBuffer) -> usize {
    bits.count_set_bits()
}

/// Where the buffers of a stored array are in its blocks.
fn placed(blocks: Arc<Blocks>, stored: &StoredArray) -> Result<(Arc<Blocks>, Node)> {
    let mut node = stored.node.clone();
    node.relocate(&|position| to_place(blocks.listed(), position))?;
    Ok((blocks, node))
}
