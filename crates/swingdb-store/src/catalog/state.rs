//! The catalog: one immutable state of a database.
//!
//! In the area a state is a tree of records: root -> lists of tables -> tables -> pages -> column
//! data. The root has schemas, views, macros and sequences, and a short list of tables itself; what
//! is below it is read with its first use.
//! In the process the same tree is made of `Arc`s that versions share. A record exists only for
//! what was published: states in between (private databases, statements of a transaction) are never
//! written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use swingdb_common::error::Result;

use crate::catalog::entry::NamedEntry;
use crate::catalog::link::Link;
use crate::catalog::names::MAIN;
use crate::catalog::notes;
use crate::catalog::schema::SchemaNode;
use crate::catalog::table::Table;
use crate::catalog::table_list::TableList;
use crate::codec::{Kind, Reader, Writer};
use crate::errors::area::corrupt;
use crate::memory::raw::Loc;
use crate::memory::record::{read_loc, record_bytes, write_loc};
use crate::memory::space::{Blocks, Ground, Space};

/// A foreign range and how many column chunks and records lie in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForeignUse {
    pub len: u64,
    pub chunks: u64,
}

/// One immutable state of a database.
#[derive(Debug, Clone)]
pub struct Catalog {
    pub(crate) space: Arc<Space>,
    pub(crate) version: u64,
    pub(crate) next_table: u64,
    /// Some column chunks belong to several tables.
    pub(crate) sharing: bool,
    pub(crate) schemas: BTreeMap<Arc<str>, Arc<SchemaNode>>,
    pub(crate) foreign: Arc<BTreeMap<u64, ForeignUse>>,
    /// The store on a disk that the database has.
    pub(crate) link: Option<Arc<Link>>,
    /// See [`definitions`](Self::definitions).
    pub(crate) definitions: u64,
}

/// A number for definitions that no catalog of this process has had.
pub(crate) fn new_definitions() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Catalog {
    /// The state of a new database.
    pub(crate) fn empty(space: Arc<Space>) -> Self {
        let schemas = BTreeMap::from([(Arc::from(MAIN), Arc::default())]);
        Self {
            space,
            version: 0,
            next_table: 1,
            sharing: false,
            schemas,
            foreign: Arc::default(),
            link: None,
            definitions: new_definitions(),
        }
    }

    /// Whether both are one state of one database. Versions alone do not tell: every commit, also
    /// inside a transaction every change, makes a larger one, but a snapshot that is refreshed may
    /// have come to another database of the name, which counts anew.
    pub fn is_same_state(&self, other: &Catalog) -> bool {
        Arc::ptr_eq(&self.space, &other.space) && self.version == other.version
    }

    /// A number that says what is defined: in all catalogs of this process that have it, every name
    /// means the same table, with the same columns and constraints, the same view, macro and
    /// sequence. Only rows may differ between them.
    pub fn definitions(&self) -> u64 {
        self.definitions
    }

    /// Schemas in alphabetical order; `main` always exists.
    pub fn schema_names(&self) -> Vec<String> {
        self.schemas.keys().map(|n| n.to_string()).collect()
    }

    /// Whether there is such a schema.
    pub fn has_schema(&self, schema: &str) -> bool {
        self.schemas.contains_key(schema)
    }

    /// Tables of a schema in alphabetical order (none when there is no such schema).
    pub fn table_names(&self, schema: &str) -> Result<Vec<String>> {
        let Some(node) = self.schemas.get(schema) else { return Ok(Vec::new()) };
        Ok(node.tables.all()?.into_iter().map(|(name, _)| name.to_string()).collect())
    }

    /// Whether a schema has a table of exactly this name.
    fn has_table(&self, schema: &str, name: &str) -> Result<bool> {
        self.schemas.get(schema).map_or(Ok(false), |node| node.tables.contains(name))
    }

    /// The name of a table as it was created: an exact match goes before one that differs in case.
    pub fn find_table(&self, schema: &str, wanted: &str) -> Result<Option<String>> {
        if self.has_table(schema, wanted)? {
            return Ok(Some(wanted.to_owned()));
        }
        let names = self.table_names(schema)?;
        Ok(names.into_iter().find(|name| name.eq_ignore_ascii_case(wanted)))
    }

    /// A table; its directory is read with the first use.
    pub fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        let Some((schema, node)) = self.schemas.get_key_value(schema) else { return Ok(None) };
        let Some((name, entry)) = node.tables.get(name)? else { return Ok(None) };
        let table = entry.get(&self.space, schema, name);
        table.map(|t| Some(t.clone())).map_err(|e| self.space.named(e))
    }

    /// How many rows a table has, without reading its own record.
    pub fn row_count(&self, schema: &str, name: &str) -> Result<Option<u64>> {
        let Some(node) = self.schemas.get(schema) else { return Ok(None) };
        Ok(node.tables.get(name)?.map(|(_, entry)| entry.rows))
    }

    /// Every table.
    pub(crate) fn all_tables(&self) -> Result<Vec<Arc<Table>>> {
        let mut all = Vec::new();
        for (schema, node) in &self.schemas {
            for (name, entry) in node.tables.all()? {
                all.push(entry.get(&self.space, schema, name)?.clone());
            }
        }
        Ok(all)
    }

    /// Every table as its schema's list knows it.
    pub(crate) fn entries(&self) -> Result<Vec<NamedEntry<'_>>> {
        let mut all = Vec::new();
        for (schema, node) in &self.schemas {
            let tables = node.tables.all()?;
            all.extend(tables.into_iter().map(|(name, entry)| (schema, name, entry)));
        }
        Ok(all)
    }

    /// Those that were looked up, and their neighbours in the lists.
    pub(crate) fn known_entries(&self) -> impl Iterator<Item = NamedEntry<'_>> {
        self.schemas
            .iter()
            .flat_map(|(schema, node)| node.tables.all_known().map(move |(n, e)| (schema, n, e)))
    }

    /// The records of the lists of tables.
    pub(crate) fn list_records(&self) -> impl Iterator<Item = &Arc<Blocks>> {
        self.schemas.values().flat_map(|node| node.tables.records())
    }

    /// Whether a table would take the place of another version of itself that is defined as it is.
    pub(crate) fn has_same_table(&self, table: &Table) -> bool {
        let node = self.schemas.get(&table.schema_name);
        let entry = node.and_then(|node| node.tables.known(&table.name));
        entry.and_then(|entry| entry.known()).is_some_and(|known| {
            known.id() == table.id() && Arc::ptr_eq(&known.definition, &table.definition)
        })
    }

    /// Whether no schema has a table.
    pub(crate) fn has_no_tables(&self) -> bool {
        self.schemas.values().all(|node| node.tables.is_empty())
    }

    /// Writes the records of tables, and of lists of them, that have none.
    pub(crate) fn persist_tables(
        &self,
        ground: &Ground,
        written: &mut Vec<Arc<Blocks>>,
    ) -> Result<()> {
        self.schemas.values().try_for_each(|node| node.tables.persist(ground, written))
    }

    /// The root record of this state; `limbo` are the blocks that are allocated but not reached by
    /// it.
    pub(crate) fn root(&self, limbo: &[Loc]) -> Result<Vec<u8>> {
        let mut w = Writer::record();
        w.u64(self.version);
        w.u64(self.next_table);
        w.bool(self.sharing);
        w.len(self.foreign.len());
        for (&offset, used) in self.foreign.iter() {
            write_loc(&mut w, Loc { offset, len: used.len });
            w.u64(used.chunks);
        }
        w.len(self.schemas.len());
        for (name, node) in &self.schemas {
            w.text(name);
            node.tables.write(&mut w)?;
            node.write_rest(&mut w);
        }
        w.option(self.link.as_ref(), |w, link| link.write(w));
        w.len(limbo.len());
        limbo.iter().for_each(|loc| write_loc(&mut w, *loc));
        self.write_comments(&mut w);
        Ok(w.finish(Kind::Root))
    }

    /// Writes the comments and named types behind a root record.
    pub(crate) fn write_comments(&self, w: &mut Writer) {
        let all = self.schemas.iter().map(|(name, node)| (name, node.notes()));
        notes::write_root(w, all);
    }

    /// Reads the comments and named types behind a root record whose schemas have been read.
    fn read_comments(&mut self, r: &mut Reader<'_>) -> Result<()> {
        for (schema, noted) in notes::read_root(r)? {
            let Some(node) = self.schemas.get_mut(&schema) else {
                return Err(corrupt(format!("comments in a schema {schema:?} that is not there")));
            };
            Arc::make_mut(node).set_notes(noted);
        }
        Ok(())
    }

    /// Reads a root record. Returns the state and the blocks its writer left in limbo.
    pub(crate) fn read(space: &Arc<Space>, record: &Arc<Blocks>) -> Result<(Self, Vec<Loc>)> {
        let mut r = Reader::record(record_bytes(record)?, Kind::Root)?;
        let mut catalog = Self::empty(space.clone());
        catalog.version = r.u64()?;
        catalog.next_table = r.u64()?;
        catalog.sharing = r.bool()?;
        space.set_sharing(catalog.sharing);
        let foreign = r.list(|r| {
            let loc = read_loc(r)?;
            space.check_range(loc)?;
            Ok((loc.offset, ForeignUse { len: loc.len, chunks: r.u64()? }))
        })?;
        for (offset, used) in &foreign {
            space.add_foreign(Loc { offset: *offset, len: used.len }, true);
        }
        catalog.foreign = Arc::new(foreign.into_iter().collect());
        let schemas = r.list(|r| Ok((Arc::from(r.text()?), Arc::new(read_schema(r, space)?))))?;
        catalog.schemas.extend(schemas);
        catalog.link = r.option(Link::read)?.map(Arc::new);
        let limbo = r.list(|r| {
            let loc = read_loc(r)?;
            space.check_range(loc).map(|()| loc)
        })?;
        catalog.read_comments(&mut r)?;
        r.finish()?;
        Ok((catalog, limbo))
    }
}

fn read_schema(r: &mut Reader<'_>, space: &Arc<Space>) -> Result<SchemaNode> {
    let tables = TableList::read(r, space)?;
    Ok(SchemaNode { tables, ..SchemaNode::read_rest(r)? })
}
