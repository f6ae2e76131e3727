//! [`WriteTxn`]: the one write transaction of a process.
//!
//! A transaction makes new versions of the catalog, each sharing with the one before what is not
//! concerned. What it allocates is *fresh* and freed when dropped; what it makes unreachable is
//! noted and becomes *dead* with the commit (see [`super::space`]). So a rollback is nothing more
//! than dropping the versions, and a savepoint is an `Arc` and some positions.
//!
//! What a transaction does to rows is in [`super::rows`], to definitions in [`super::alter`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::memory_pool::MemoryPool;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::cancel::{go_on, to_the_end};
use swingdb_common::runtime::memory::Taken;

use super::catalog::{Catalog, SchemaNode, TableEntry, new_definitions};
use super::checks::Checker;
use super::commit::Committed;
use super::foreign::references_of;
use super::handle::{Store, Writer};
use super::segment::Segment;
use super::slot::Held;
use super::space::{Blocks, Foreign, Ground};
use super::table::Table;

/// How long [`Store::begin`] waits for another transaction of this process.
pub const WRITER_WAIT: Duration = Duration::from_secs(30);

/// What the memory of [`WriteTxn::set_memory`] is for, in errors.
const KEYS: &str = "keys";

/// A point inside a transaction to which [`WriteTxn::rollback_to`] returns.
#[derive(Debug, Clone)]
pub struct Savepoint {
    serial: u64,
    current: Arc<Catalog>,
    marks: Marks,
}

/// Positions in a transaction's lists.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    created: usize,
    dropped: usize,
    shared: usize,
    ranges: usize,
    unique: usize,
    /// Bytes of memory.
    taken: usize,
}

/// What a transaction did to blocks so far.
#[derive(Default)]
pub(super) struct Effects {
    /// Blocks it made.
    pub created: Vec<Arc<Blocks>>,
    /// Blocks its catalog reaches no more.
    pub dropped: Vec<Arc<Blocks>>,
    /// Chunks that one more table uses.
    pub shared: Vec<Arc<Blocks>>,
    /// Foreign ranges it mapped.
    pub ranges: Vec<Arc<Foreign>>,
}

/// The one write transaction of a process. Dropped without [`WriteTxn::commit`], it is rolled back.
///
/// Every call is atomic by itself: on an error the transaction is as before the call. The end of
/// the statement that the calling thread works for is such an error: calls that take long ask for
/// it between pieces of their work (`swingdb_common::runtime::cancel`), and [`WriteTxn::commit`]
/// does so up to the publish.
pub struct WriteTxn {
    pub(super) store: Store,
    /// Taken from the store for the time of the transaction; `None` only after the end.
    pub(super) writer: Option<Held>,
    pub(super) ground: Arc<Ground>,
    /// Announces stores into the area: a fork without one leaves the child a stable view.
    _session: swing::WriteSession,
    base: Arc<Catalog>,
    pub(super) current: Arc<Catalog>,
    pub(super) effects: Effects,
    /// Tables whose segments lost rows.
    pub(super) thinned: BTreeSet<u64>,
    savepoints: Vec<u64>,
    next_savepoint: u64,
    /// Decides CHECK constraints.
    pub(super) checker: Option<&'static dyn Checker>,
    /// Threads that write at one time.
    pub(super) threads: usize,
    /// Is asked for the memory of what it notes about keys.
    pub(super) memory: Taken,
    /// It began from the state of a group that is not published yet.
    pub(super) grouped: bool,
}

impl WriteTxn {
    pub(super) fn new(store: Store, writer: Held, ground: Arc<Ground>, base: Arc<Catalog>) -> Self {
        Self {
            store,
            writer: Some(writer),
            _session: ground.area().write_session(),
            ground,
            current: base.clone(),
            base,
            effects: Effects::default(),
            thinned: BTreeSet::new(),
            savepoints: Vec::new(),
            next_savepoint: 0,
            checker: None,
            threads: 1,
            memory: Taken::unbounded(KEYS),
            grouped: false,
        }
    }

    /// Says how many threads may write at one time. Until then one does.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    /// Says whose memory is asked for what the transaction takes beside rows. Until then there is
    /// memory without end.
    pub fn set_memory(&mut self, pool: &Arc<dyn MemoryPool>) {
        if !self.memory.is_of(pool) {
            self.memory = Taken::new(KEYS, pool);
        }
    }

    pub(super) fn writer_mut(&mut self) -> Result<&mut Writer> {
        let ended = || Error::internal("the transaction has ended");
        self.writer.as_deref_mut().ok_or_else(ended)
    }

    /// The store it belongs to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The state with this transaction's own changes.
    pub fn view(&self) -> Arc<Catalog> {
        self.current.clone()
    }

    /// The committed state this transaction started from.
    pub fn base(&self) -> Arc<Catalog> {
        self.base.clone()
    }

    /// The table of the present view.
    pub(super) fn table_of(&self, schema: &str, name: &str) -> Result<Arc<Table>> {
        if let Some(table) = self.current.table(schema, name)? {
            return Ok(table);
        }
        self.check_schema(schema)?;
        Err(Error::not_found(ObjectKind::Table, name, self.current.table_names(schema)?))
    }

    /// That there is such a schema.
    pub(super) fn check_schema(&self, schema: &str) -> Result<()> {
        if self.current.has_schema(schema) {
            return Ok(());
        }
        Err(Error::not_found(ObjectKind::Schema, schema, self.current.schema_names()))
    }

    /// Replaces the catalog by a copy in which something else is defined.
    pub(super) fn change_catalog(&mut self, change: impl FnOnce(&mut Catalog)) {
        let mut next = Catalog::clone(&self.current);
        next.version += 1;
        next.definitions = new_definitions();
        change(&mut next);
        self.current = Arc::new(next);
    }

    /// Replaces one schema by a copy in which something else is defined.
    pub(super) fn change_schema(&mut self, schema: &str, change: impl FnOnce(&mut SchemaNode)) {
        self.change_catalog(|next| {
            if let Some(node) = next.schemas.get_mut(schema) {
                change(Arc::make_mut(node));
            }
        });
    }

    /// As [`WriteTxn::change_schema`]; where the change fails, the present state stays.
    pub(super) fn try_change_schema(
        &mut self,
        schema: &str,
        change: impl FnOnce(&mut SchemaNode) -> Result<()>,
    ) -> Result<()> {
        self.try_change(schema, new_definitions(), change)
    }

    /// Replaces one schema by a changed copy, under a number for what is defined then.
    fn try_change(
        &mut self,
        schema: &str,
        definitions: u64,
        change: impl FnOnce(&mut SchemaNode) -> Result<()>,
    ) -> Result<()> {
        let mut next = Catalog::clone(&self.current);
        next.version += 1;
        next.definitions = definitions;
        if let Some(node) = next.schemas.get_mut(schema) {
            change(Arc::make_mut(node))?;
        }
        self.current = Arc::new(next);
        Ok(())
    }

    /// Puts a table into the catalog, in place of the one of its name.
    pub(super) fn put_table(
        &mut self,
        table: Arc<Table>,
        mut dropped: Vec<Arc<Blocks>>,
    ) -> Result<()> {
        let (schema, name) = (table.schema_name.clone(), table.name.clone());
        let is_defined = self.current.has_same_table(&table);
        let references = references_of(&table);
        let entry = TableEntry::new(table);
        let change = |node: &mut SchemaNode| {
            if !is_defined {
                match references {
                    Some(parents) => drop(node.references.insert(name.clone(), parents)),
                    None => drop(node.references.remove(&name)),
                }
            }
            node.tables.insert(name, entry, &mut dropped)
        };
        // Otherwise only its rows are others.
        let definitions = if is_defined { self.current.definitions } else { new_definitions() };
        self.try_change(&schema, definitions, change)?;
        self.effects.dropped.extend(dropped);
        Ok(())
    }

    /// Notes segments that were just made.
    pub(super) fn created(&mut self, segments: &[Arc<Segment>]) -> Result<()> {
        for segment in segments {
            let blocks = segment.blocks()?;
            self.effects.created.extend(blocks);
        }
        Ok(())
    }

    /// Remembers the present state.
    pub fn savepoint(&mut self) -> Savepoint {
        let serial = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push(serial);
        let marks = Marks {
            created: self.effects.created.len(),
            dropped: self.effects.dropped.len(),
            shared: self.effects.shared.len(),
            ranges: self.effects.ranges.len(),
            unique: self.writer.as_ref().map_or(0, |w| w.unique.mark()),
            taken: self.memory.bytes(),
        };
        Savepoint { serial, current: self.current.clone(), marks }
    }

    /// Forgets a savepoint, which must be the last one.
    pub(super) fn forget_savepoint(&mut self, savepoint: &Savepoint) {
        self.savepoints.pop_if(|serial| *serial == savepoint.serial);
    }

    /// Undoes everything since `savepoint`, which stays usable; later savepoints do not.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let position = self.savepoints.binary_search(&savepoint.serial);
        let Ok(position) = position else {
            return Err(Error::transaction("the savepoint does not exist any more"));
        };
        self.savepoints.truncate(position + 1);
        let marks = savepoint.marks;
        self.writer_mut()?.unique.rollback(marks.unique);
        self.memory.shrink_to(marks.taken);
        self.current = savepoint.current.clone();
        self.effects.created.truncate(marks.created);
        self.effects.dropped.truncate(marks.dropped);
        self.effects.shared.truncate(marks.shared);
        for range in self.effects.ranges.drain(marks.ranges..) {
            self.ground.space.forget_foreign(range.loc.offset);
        }
        Ok(())
    }

    /// Makes the changes the latest state of the store, and for named databases lasting (a crash of
    /// this process does not lose them). Returns the epoch when something was published.
    pub fn commit(mut self) -> Result<Option<u64>> {
        if Arc::ptr_eq(&self.base, &self.current) {
            return self.end_unchanged();
        }
        self.tidy()?;
        go_on()?;
        let ended = || Error::internal("the transaction has ended");
        let mut writer = self.writer.take().ok_or_else(ended)?;
        let others_wait = self.store.others_wait();
        let (current, effects) = (self.current.clone(), &mut self.effects);
        let committed = writer.commit(&self.ground, &self.base, current, effects, others_wait);
        to_the_end(|| self.settle(writer, committed))
    }

    /// What follows a commit, or the attempt at one.
    fn settle(mut self, mut writer: Held, committed: Result<Committed>) -> Result<Option<u64>> {
        match committed {
            Ok(Committed::Joined(ticket)) => {
                writer.unique.commit();
                let store = self.store.clone();
                // The transaction is over for all but its caller; whoever publishes must not find
                // it under way.
                drop(self);
                store.give_back(writer);
                store.wait_for(&ticket).map(Some)
            }
            Ok(Committed::Done(catalog, epoch)) => {
                writer.unique.commit();
                self.base = catalog.clone();
                self.current = catalog.clone();
                let published = writer.group.published();
                self.store.install(catalog);
                if !published.is_empty() {
                    published.tell(epoch.unwrap_or_default());
                    self.store.wake_told();
                }
                // Nobody else holds what was dropped: it can be freed.
                self.effects = Effects::default();
                writer.prepare_share(&self.ground, &self.current);
                self.store.give_back(writer);
                Ok(epoch)
            }
            Err(error) => {
                self.writer = Some(writer);
                // Those that were to be published with it have the error, too.
                self.store.wake_told();
                Err(error)
            }
        }
    }

    /// The end of a transaction that has changed nothing. What it has read of a group it must not
    /// tell before the group is published (INV-DB-14).
    fn end_unchanged(mut self) -> Result<Option<u64>> {
        let grouped = |writer: &mut Held| self.grouped && !writer.group.is_empty();
        let Some(mut writer) = self.writer.take_if(grouped) else { return Ok(None) };
        self.forget(&mut writer);
        let (store, ticket) = (self.store.clone(), writer.group.attend());
        drop(self);
        store.give_back(writer);
        store.wait_for(&ticket).map(|_| None)
    }

    /// Forgets what of the changes is not undone by dropping it.
    fn forget(&mut self, writer: &mut Writer) {
        writer.unique.rollback(0);
        for range in self.effects.ranges.drain(..) {
            self.ground.space.forget_foreign(range.loc.offset);
        }
    }

    /// Replaces the whole state by another one, made of the blocks `created`; `shared` has those
    /// that one more table uses, once for each.
    pub(super) fn replace_all(
        &mut self,
        catalog: Catalog,
        created: Vec<Arc<Blocks>>,
        shared: Vec<Arc<Blocks>>,
    ) -> Result<()> {
        let mut dropped: Vec<Arc<Blocks>> = self.current.list_records().cloned().collect();
        for (_, _, entry) in self.current.entries()? {
            dropped.extend(entry.record.get().cloned());
        }
        for table in self.current.all_tables()? {
            dropped.extend(super::edit::all_blocks(&table)?);
        }
        self.effects.dropped.extend(dropped);
        self.effects.created.extend(created);
        self.effects.shared.extend(shared);
        self.current = Arc::new(catalog);
        Ok(())
    }

    /// Forgets which records of a store the state's tables are in.
    pub(super) fn forget_stored(&self) -> Result<()> {
        let nodes = self.current.schemas.values();
        nodes.flat_map(|node| node.tables.pages().values()).for_each(|page| page.set_stored(None));
        for (_, _, entry) in self.current.entries()? {
            entry.set_stored(None);
        }
        for table in self.current.all_tables()? {
            for page in &table.pages {
                page.set_stored(None);
                for segment in page.segments()?.iter() {
                    segment.blocks()?.iter().for_each(|blocks| blocks.set_stored(None));
                }
            }
        }
        Ok(())
    }

    /// Removes segments without live rows, and rewrites those with few.
    fn tidy(&mut self) -> Result<()> {
        let thinned = std::mem::take(&mut self.thinned);
        if thinned.is_empty() {
            return Ok(());
        }
        let all: Vec<(Arc<str>, Arc<str>)> = self
            .current
            .known_entries()
            .filter(|(_, _, entry)| thinned.contains(&entry.id))
            .map(|(schema, name, _)| (schema.clone(), name.clone()))
            .collect();
        for (schema, name) in all {
            let table = self.table_of(&schema, &name)?;
            self.compact(&table, |s| Ok(s.live_rows() * 4 <= s.rows()))?;
        }
        Ok(())
    }

    /// Forgets the changes.
    pub fn rollback(self) {
        drop(self);
    }
}

impl Drop for WriteTxn {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        self.forget(&mut writer);
        if self.grouped && !writer.group.is_empty() {
            // The error that ended it may come from rows of the group (INV-DB-14).
            self.store.flush(&mut writer);
        }
        self.store.give_back(writer);
    }
}
