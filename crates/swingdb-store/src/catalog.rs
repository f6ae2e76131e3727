//! The catalog: one immutable state of a database.
//!
//! In the area a state is a tree of records: root -> lists of tables -> tables -> pages -> column
//! data. The root has schemas, views, macros and sequences, and a short list of tables itself; what
//! is below it is read with its first use.
//! In the process the same tree is made of `Arc`s that versions share. A record exists only for
//! what was published: states in between (private databases, statements of a transaction) are never
//! written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use swing_tier::RecordId;
use swingdb_common::error::{Error, Result};

use super::codec::{Kind, Reader, Writer};
use super::durable::Link;
use super::foreign::References;
use super::macros::{Macro, MacroKind};
use super::notes::{self, Comments, RootNotes};
use super::raw::Loc;
use super::read::{read_loc, write_loc};
use super::sequences::Sequence;
use super::space::{Blocks, Ground, Space, corrupt};
use super::table::{Table, record_bytes};
use super::table_list::TableList;
use super::types::Types;

/// The schema that always exists.
pub(super) const MAIN: &str = "main";

/// A view: a name for a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Name.
    pub name: String,
    /// The query.
    pub sql: String,
    /// Names of the result columns, when given.
    pub columns: Option<Vec<String>>,
}

/// A table in a catalog: what the list knows, and the table once it was used.
#[derive(Debug)]
pub(super) struct TableEntry {
    pub id: u64,
    pub rows: u64,
    pub bytes: u64,
    pub segments: u64,
    pub record: OnceLock<Arc<Blocks>>,
    table: OnceLock<Arc<Table>>,
    /// The record in the store on a disk.
    stored: Mutex<Option<RecordId>>,
}

impl TableEntry {
    /// A table that is not in the area yet.
    pub fn new(table: Arc<Table>) -> Arc<Self> {
        Arc::new(Self {
            id: table.id(),
            rows: table.row_count(),
            bytes: table.bytes(),
            segments: table.segment_count() as u64,
            record: OnceLock::new(),
            table: OnceLock::from(table),
            stored: Mutex::default(),
        })
    }

    /// A table whose record is in the area; with the numbers of its rows, bytes and segments.
    pub fn of_record(id: u64, record: Arc<Blocks>, [rows, bytes, segments]: [u64; 3]) -> Arc<Self> {
        Arc::new(Self {
            id,
            rows,
            bytes,
            segments,
            record: OnceLock::from(record),
            table: OnceLock::new(),
            stored: Mutex::default(),
        })
    }

    /// Its record in the store on a disk, when it is there.
    pub fn stored(&self) -> Option<RecordId> {
        *self.stored.lock()
    }

    /// Notes its record in the store.
    pub fn set_stored(&self, record: Option<RecordId>) {
        *self.stored.lock() = record;
    }

    pub fn get(
        &self,
        space: &Arc<Space>,
        schema: &Arc<str>,
        name: &Arc<str>,
    ) -> Result<&Arc<Table>> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let record = self.record.get();
        let record = record.ok_or_else(|| Error::internal("a table that is nowhere"))?;
        let names = (schema.clone(), name.clone());
        let table = Table::read(self.id, names, space, record)?;
        let found = (table.row_count(), table.segment_count() as u64);
        if found != (self.rows, self.segments) {
            return Err(corrupt(format!("table {name:?}: other rows than the root says")));
        }
        Ok(self.table.get_or_init(|| table))
    }

    /// Writes its record when it has none.
    pub fn persist(&self, ground: &Ground, written: &mut Vec<Arc<Blocks>>) -> Result<()> {
        if self.record.get().is_none() {
            let table = self.table.get();
            let table = table.ok_or_else(|| Error::internal("a table that is nowhere"))?;
            let record = table.persist(ground, written)?;
            // Only the holder of the writer's slot persists: nobody else can have set it.
            let _ = self.record.set(record);
        }
        Ok(())
    }
}

/// A table with the names of its schema and of its own.
pub(super) type NamedEntry<'a> = (&'a Arc<str>, &'a Arc<str>, &'a Arc<TableEntry>);

/// The tables, views, macros, sequences and named types of a schema.
#[derive(Debug, Clone, Default)]
pub(super) struct SchemaNode {
    pub tables: TableList,
    pub views: BTreeMap<Arc<str>, Arc<View>>,
    pub macros: BTreeMap<(MacroKind, Arc<str>), Arc<Macro>>,
    pub sequences: BTreeMap<Arc<str>, Arc<Sequence>>,
    pub types: Types,
    pub references: References,
    pub comments: Comments,
}

impl SchemaNode {
    /// Writes all but the tables, the named types and the comments.
    pub fn write_rest(&self, w: &mut Writer) {
        w.len(self.views.len());
        for (name, view) in &self.views {
            w.text(name);
            w.text(&view.sql);
            w.option(view.columns.as_ref(), |w, columns| {
                w.len(columns.len());
                columns.iter().for_each(|c| w.text(c));
            });
        }
        w.len(self.macros.len());
        self.macros.values().for_each(|one| one.write(w));
        w.len(self.sequences.len());
        self.sequences.values().for_each(|one| one.write(w));
    }

    /// A schema without tables, named types and comments.
    pub fn read_rest(r: &mut Reader<'_>) -> Result<Self> {
        let views = r.list(|r| {
            let name: Arc<str> = Arc::from(r.text()?);
            let sql = r.text()?.to_owned();
            let columns = r.option(|r| r.list(|r| Ok(r.text()?.to_owned())))?;
            Ok((name.clone(), Arc::new(View { name: name.to_string(), sql, columns })))
        })?;
        let macros = r.list(|r| {
            let one = Macro::read(r)?;
            Ok((one.key(), Arc::new(one)))
        })?;
        let sequences = r.list(|r| {
            let one = Sequence::read(r)?;
            Ok((Arc::from(one.name.as_str()), Arc::new(one)))
        })?;
        Ok(Self {
            tables: TableList::default(),
            views: views.into_iter().collect(),
            macros: macros.into_iter().collect(),
            sequences: sequences.into_iter().collect(),
            types: Types::new(),
            references: References::new(),
            comments: Comments::new(),
        })
    }
}

/// A foreign range and how many column chunks and records lie in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForeignUse {
    pub len: u64,
    pub chunks: u64,
}

/// One immutable state of a database.
#[derive(Debug, Clone)]
pub struct Catalog {
    pub(super) space: Arc<Space>,
    pub(super) version: u64,
    pub(super) next_table: u64,
    /// Some column chunks belong to several tables.
    pub(super) sharing: bool,
    pub(super) schemas: BTreeMap<Arc<str>, Arc<SchemaNode>>,
    pub(super) foreign: Arc<BTreeMap<u64, ForeignUse>>,
    /// The store on a disk that the database has.
    pub(super) link: Option<Arc<Link>>,
    /// See [`definitions`](Self::definitions).
    pub(super) definitions: u64,
}

/// A number for definitions that no catalog of this process has had.
pub(super) fn new_definitions() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Catalog {
    /// The state of a new database.
    pub(super) fn empty(space: Arc<Space>) -> Self {
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

    /// Views of a schema in alphabetical order.
    pub fn view_names(&self, schema: &str) -> Vec<String> {
        let views = self.schemas.get(schema).map(|s| s.views.keys());
        views.into_iter().flatten().map(|n| n.to_string()).collect()
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

    /// A view.
    pub fn view(&self, schema: &str, name: &str) -> Result<Option<Arc<View>>> {
        Ok(self.schemas.get(schema).and_then(|s| s.views.get(name)).cloned())
    }

    /// Every table.
    pub(super) fn all_tables(&self) -> Result<Vec<Arc<Table>>> {
        let mut all = Vec::new();
        for (schema, node) in &self.schemas {
            for (name, entry) in node.tables.all()? {
                all.push(entry.get(&self.space, schema, name)?.clone());
            }
        }
        Ok(all)
    }

    /// Every table as its schema's list knows it.
    pub(super) fn entries(&self) -> Result<Vec<NamedEntry<'_>>> {
        let mut all = Vec::new();
        for (schema, node) in &self.schemas {
            let tables = node.tables.all()?;
            all.extend(tables.into_iter().map(|(name, entry)| (schema, name, entry)));
        }
        Ok(all)
    }

    /// Those that were looked up, and their neighbours in the lists.
    pub(super) fn known_entries(&self) -> impl Iterator<Item = NamedEntry<'_>> {
        self.schemas
            .iter()
            .flat_map(|(schema, node)| node.tables.all_known().map(move |(n, e)| (schema, n, e)))
    }

    /// The records of the lists of tables.
    pub(super) fn list_records(&self) -> impl Iterator<Item = &Arc<Blocks>> {
        self.schemas.values().flat_map(|node| node.tables.records())
    }

    /// Whether a table would take the place of another version of itself that is defined as it is.
    pub(super) fn has_same_table(&self, table: &Table) -> bool {
        let node = self.schemas.get(&table.schema_name);
        let entry = node.and_then(|node| node.tables.known(&table.name));
        entry.and_then(|entry| entry.table.get()).is_some_and(|known| {
            known.id() == table.id() && Arc::ptr_eq(&known.definition, &table.definition)
        })
    }

    /// Whether no schema has a table.
    pub(super) fn has_no_tables(&self) -> bool {
        self.schemas.values().all(|node| node.tables.is_empty())
    }

    /// Writes the records of tables, and of lists of them, that have none.
    pub(super) fn persist_tables(
        &self,
        ground: &Ground,
        written: &mut Vec<Arc<Blocks>>,
    ) -> Result<()> {
        self.schemas.values().try_for_each(|node| node.tables.persist(ground, written))
    }

    /// The root record of this state; `limbo` are the blocks that are allocated but not reached by
    /// it.
    pub(super) fn root(&self, limbo: &[Loc]) -> Result<Vec<u8>> {
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
    pub(super) fn write_comments(&self, w: &mut Writer) {
        let all = self.schemas.iter().map(|(name, node)| (name, RootNotes::of(node)));
        notes::write_root(w, all);
    }

    /// Reads the comments and named types behind a root record whose schemas have been read.
    fn read_comments(&mut self, r: &mut Reader<'_>) -> Result<()> {
        for (schema, noted) in notes::read_root(r)? {
            let Some(node) = self.schemas.get_mut(&schema) else {
                return Err(corrupt(format!("comments in a schema {schema:?} that is not there")));
            };
            noted.put(Arc::make_mut(node));
        }
        Ok(())
    }

    /// Reads a root record. Returns the state and the blocks its writer left in limbo.
    pub(super) fn read(space: &Arc<Space>, record: &Arc<Blocks>) -> Result<(Self, Vec<Loc>)> {
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
