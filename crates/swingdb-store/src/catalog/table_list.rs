//! The tables of a schema, in pages: [`TableList`].
//!
//! A database may have thousands of tables, of which a snapshot uses a few. So the list is cut into
//! pages, in the order of the names. A page has a record of its own in the area, which is read when
//! a name of it is looked up, and written again only when one of its tables has changed. Neither a
//! snapshot nor a commit takes longer for more tables, but for one entry a page in the root. A list
//! of one page is written into the root itself. A store on a disk has the same pages
//! (`durable/write.rs`).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use swing_tier::RecordId;
use swingdb_common::error::{Error, Result};

use crate::catalog::entry::TableEntry;
use crate::codec::{Kind, Reader, Writer};
use crate::errors::area::corrupt;
use crate::memory::record::{read_loc, record_bytes, record_loc, write_loc};
use crate::memory::space::{Blocks, Ground, Space};

/// Tables of a page at most.
const MAX_PAGE_TABLES: usize = 64;

pub(crate) type Entries = BTreeMap<Arc<str>, Arc<TableEntry>>;

/// Tables by their names. Clones share their pages.
#[derive(Debug, Clone, Default)]
pub(crate) struct TableList {
    /// By the least name that belongs to a page; the first page has every smaller name, too, and
    /// is under the empty one.
    pages: BTreeMap<Arc<str>, Arc<ListPage>>,
}

/// One page. It never changes: with a table of it comes another page.
#[derive(Debug)]
pub(crate) struct ListPage {
    tables: usize,
    /// In the area, when it is there.
    record: OnceLock<Arc<Blocks>>,
    /// Once they are known.
    entries: OnceLock<Entries>,
    /// The record in the store on a disk, when it is there.
    stored: Mutex<Option<RecordId>>,
}

impl ListPage {
    fn new(entries: Entries) -> Arc<Self> {
        let (tables, entries) = (entries.len(), OnceLock::from(entries));
        Arc::new(Self { tables, record: OnceLock::new(), entries, stored: Mutex::default() })
    }

    /// Its record in the store on a disk, when it is there.
    pub fn stored(&self) -> Option<RecordId> {
        *self.stored.lock()
    }

    /// Notes its record in the store.
    pub fn set_stored(&self, record: Option<RecordId>) {
        *self.stored.lock() = record;
    }

    /// How many tables it has.
    pub fn tables(&self) -> usize {
        self.tables
    }

    /// Its tables.
    pub fn entries(&self) -> Result<&Entries> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let record = self.record.get();
        let record = record.ok_or_else(|| Error::internal("a list of tables that is nowhere"))?;
        let read = || {
            let mut r = Reader::record(record_bytes(record)?, Kind::TableList)?;
            let entries = read_entries(&mut r, record.space())?;
            r.finish()?;
            match entries.len() == self.tables {
                true => Ok(entries),
                false => Err(corrupt("a list of other tables than the root says")),
            }
        };
        let entries = read().map_err(|e| record.named(e))?;
        Ok(self.entries.get_or_init(|| entries))
    }

    fn persist(&self, ground: &Ground, written: &mut Vec<Arc<Blocks>>) -> Result<()> {
        let mut w = Writer::record();
        write_entries(&mut w, self.entries()?)?;
        let blocks = ground.store(&w.finish(Kind::TableList))?;
        written.push(blocks.clone());
        // Only the holder of the writer's slot persists: nobody else can have set it.
        let _ = self.record.set(blocks);
        Ok(())
    }
}

fn write_entries(w: &mut Writer, entries: &Entries) -> Result<()> {
    w.len(entries.len());
    for (name, entry) in entries {
        w.text(name);
        w.u64(entry.id);
        write_loc(w, record_loc(entry.record.get())?);
        w.u64(entry.rows);
        w.u64(entry.bytes);
        w.u64(entry.segments);
    }
    Ok(())
}

fn read_entries(r: &mut Reader<'_>, space: &Arc<Space>) -> Result<Entries> {
    let entries = r.list(|r| {
        let name = Arc::from(r.text()?);
        let id = r.u64()?;
        let record = Blocks::committed(space, vec![read_loc(r)?])?;
        let entry = TableEntry::of_record(id, record, [r.u64()?, r.u64()?, r.u64()?]);
        Ok((name, entry))
    })?;
    Ok(entries.into_iter().collect())
}

impl TableList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.pages.values().map(|page| page.tables).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The page that has a name, or would have it.
    fn page_of(&self, name: &str) -> Option<(&Arc<str>, &Arc<ListPage>)> {
        self.pages.range::<str, _>((Bound::Unbounded, Bound::Included(name))).next_back()
    }

    /// The table of a name.
    pub fn get(&self, name: &str) -> Result<Option<(&Arc<str>, &Arc<TableEntry>)>> {
        let Some((_, page)) = self.page_of(name) else { return Ok(None) };
        Ok(page.entries()?.get_key_value(name))
    }

    /// Whether there is a table of this name.
    pub fn contains(&self, name: &str) -> Result<bool> {
        self.get(name).map(|found| found.is_some())
    }

    /// The table of a name, if its page was looked at already.
    pub fn known(&self, name: &str) -> Option<&Arc<TableEntry>> {
        self.page_of(name)?.1.entries.get()?.get(name)
    }

    /// All of them, by name.
    pub fn all(&self) -> Result<Vec<(&Arc<str>, &Arc<TableEntry>)>> {
        let mut all = Vec::with_capacity(self.len());
        for page in self.pages.values() {
            all.extend(page.entries()?);
        }
        Ok(all)
    }

    /// Those of pages that were looked at already.
    pub fn all_known(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<TableEntry>)> {
        self.pages.values().filter_map(|page| page.entries.get()).flatten()
    }

    /// Puts a table in, in place of the one of its name. To `dropped` go the records that the list
    /// does not need any more.
    pub fn insert(
        &mut self,
        name: Arc<str>,
        entry: Arc<TableEntry>,
        dropped: &mut Vec<Arc<Blocks>>,
    ) -> Result<()> {
        let (first, mut entries) = self.taken_out(&name, dropped)?;
        let old = entries.insert(name, entry);
        dropped.extend(old.and_then(|old| old.record.get().cloned()));
        if entries.len() > MAX_PAGE_TABLES {
            let middle = entries.keys().nth(entries.len() / 2).cloned();
            let upper = middle.map(|middle| (middle.clone(), entries.split_off(&middle)));
            self.pages.extend(upper.map(|(middle, upper)| (middle, ListPage::new(upper))));
        }
        self.pages.insert(first, ListPage::new(entries));
        Ok(())
    }

    /// Takes a table out; what it was.
    pub fn remove(
        &mut self,
        name: &str,
        dropped: &mut Vec<Arc<Blocks>>,
    ) -> Result<Option<Arc<TableEntry>>> {
        if !self.contains(name)? {
            return Ok(None);
        }
        let (first, mut entries) = self.taken_out(name, dropped)?;
        let old = entries.remove(name);
        dropped.extend(old.as_ref().and_then(|old| old.record.get().cloned()));
        if !entries.is_empty() {
            self.pages.insert(first, ListPage::new(entries));
        } else if first.is_empty()
            && let Some((_, next)) = self.pages.pop_first()
        {
            self.pages.insert(first, next);
        }
        Ok(old)
    }

    /// Takes the page of a name out, to be put back under the name that comes with it.
    fn taken_out(
        &mut self,
        name: &str,
        dropped: &mut Vec<Arc<Blocks>>,
    ) -> Result<(Arc<str>, Entries)> {
        let Some((first, page)) = self.page_of(name) else { return Ok(Default::default()) };
        let (first, entries) = (first.clone(), page.entries()?.clone());
        dropped.extend(page.record.get().cloned());
        self.pages.remove(&first);
        Ok((first, entries))
    }

    /// Writes the records of tables and of pages that have none.
    pub fn persist(&self, ground: &Ground, written: &mut Vec<Arc<Blocks>>) -> Result<()> {
        for page in self.pages.values().filter(|page| page.record.get().is_none()) {
            page.entries()?.values().try_for_each(|entry| entry.persist(ground, written))?;
            if self.pages.len() > 1 {
                page.persist(ground, written)?;
            }
        }
        Ok(())
    }

    /// The records of the pages.
    pub fn records(&self) -> impl Iterator<Item = &Arc<Blocks>> {
        self.pages.values().filter_map(|page| page.record.get())
    }

    /// Writes it into a root, when all records are there.
    pub fn write(&self, w: &mut Writer) -> Result<()> {
        w.len(self.pages.len());
        for (first, page) in &self.pages {
            w.text(first);
            let record = page.record.get();
            w.bool(record.is_some());
            if record.is_some() {
                w.len(page.tables);
                write_loc(w, record_loc(record)?);
            } else {
                write_entries(w, page.entries()?)?;
            }
        }
        Ok(())
    }

    /// Reads what [`TableList::write`] has written.
    pub fn read(r: &mut Reader<'_>, space: &Arc<Space>) -> Result<Self> {
        let pages = r.list(|r| {
            let first: Arc<str> = Arc::from(r.text()?);
            let page = match r.bool()? {
                true => {
                    let tables = r.u64()? as usize;
                    let record = Blocks::committed(space, vec![read_loc(r)?])?;
                    let record = OnceLock::from(record);
                    let (entries, stored) = (OnceLock::new(), Mutex::default());
                    Arc::new(ListPage { tables, record, entries, stored })
                }
                false => ListPage::new(read_entries(r, space)?),
            };
            Ok((first, page))
        })?;
        Self { pages: pages.into_iter().collect() }.checked()
    }

    /// A list with the pages of a store, each with the least name that belongs to it.
    pub fn of_pages(pages: Vec<(Arc<str>, Entries, Option<RecordId>)>) -> Result<Self> {
        let count = pages.len();
        let mut list = Self::default();
        for (first, entries, stored) in pages {
            let page = ListPage::new(entries);
            page.set_stored(stored);
            list.pages.insert(first, page);
        }
        for ((first, page), next) in
            list.pages.iter().zip(list.pages.keys().skip(1).map(Some).chain([None]))
        {
            let names = page.entries()?;
            let fits = |name: &Arc<str>| name >= first && next.is_none_or(|next| name < next);
            if names.is_empty() || !names.keys().all(fits) {
                return Err(corrupt("a list of tables with names of another list"));
            }
        }
        if list.pages.len() != count {
            return Err(corrupt("two lists of tables with one first name"));
        }
        list.checked()
    }

    fn checked(self) -> Result<Self> {
        match self.pages.keys().next().is_none_or(|first| first.is_empty()) {
            true => Ok(self),
            false => Err(corrupt("a list of tables without its first page")),
        }
    }

    /// The pages, each with the least name that belongs to it.
    pub fn pages(&self) -> &BTreeMap<Arc<str>, Arc<ListPage>> {
        &self.pages
    }
}
