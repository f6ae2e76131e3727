//! [`WriteTxn`]: the one write transaction of a process.
//!
//! A transaction makes new versions of the catalog, each sharing with the one before what is not
//! concerned. What it allocates is *fresh* and freed when dropped; what it makes unreachable is
//! noted and becomes *dead* with the commit (see [`crate::memory::space`]). So a rollback is
//! nothing more than dropping the versions, and a savepoint is an `Arc` and some positions.
//!
//! What a transaction does to rows is in [`crate::txn::rows`], to definitions in
//! [`crate::txn::alter`].

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::execution::memory_pool::MemoryPool;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::memory::Taken;

use crate::catalog::entry::TableEntry;
use crate::catalog::rules::{Check, Generated};
use crate::catalog::schema::SchemaNode;
use crate::catalog::state::{Catalog, new_definitions};
use crate::catalog::table::Table;
use crate::commit::effects::Effects;
use crate::commit::writer::Writer;
use crate::memory::space::{Blocks, Ground};
use crate::segments::segment::Segment;
use crate::store::handle::Store;
use crate::store::slot::Held;

/// What the memory of [`WriteTxn::set_memory`] is for, in errors.
const KEYS: &str = "keys";

/// Finds the first row that does not fulfil a condition, in batches of the columns that
/// [`Check::columns`] lists.
pub type Test = Arc<dyn Fn(&RecordBatch) -> Result<Option<usize>> + Send + Sync>;

/// Computes the values of a column from batches of the columns that [`Generated::columns`] lists.
pub type Compute = Arc<dyn Fn(&RecordBatch) -> Result<ArrayRef> + Send + Sync>;

/// Makes tests of conditions, and what computes generated columns.
pub trait Checker: Sync {
    /// The test of a check of a table.
    fn compile(&self, txn: &WriteTxn, table: &Table, check: &Check) -> Result<Test>;

    /// What computes a generated column of a table.
    fn generate(
        &self,
        txn: &WriteTxn,
        table: &Table,
        column: usize,
        generated: &Generated,
    ) -> Result<Compute>;
}

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

/// The one write transaction of a process. Dropped without [`WriteTxn::commit`], it is rolled back.
///
/// Every call is atomic by itself: on an error the transaction is as before the call. The end of
/// the statement that the calling thread works for is such an error: calls that take long ask for
/// it between pieces of their work (`swingdb_common::runtime::cancel`), and [`WriteTxn::commit`]
/// does so up to the publish.
pub struct WriteTxn {
    pub(crate) store: Store,
    /// Taken from the store for the time of the transaction; `None` only after the end.
    pub(crate) writer: Option<Held>,
    pub(crate) ground: Arc<Ground>,
    /// Announces stores into the area: a fork without one leaves the child a stable view.
    _session: swing::WriteSession,
    pub(crate) base: Arc<Catalog>,
    pub(crate) current: Arc<Catalog>,
    pub(crate) effects: Effects,
    /// Tables whose segments lost rows.
    pub(crate) thinned: BTreeSet<u64>,
    savepoints: Vec<u64>,
    next_savepoint: u64,
    /// Decides CHECK constraints.
    pub(crate) checker: Option<&'static dyn Checker>,
    /// Threads that write at one time.
    pub(crate) threads: usize,
    /// Is asked for the memory of what it notes about keys.
    pub(crate) memory: Taken,
    /// It began from the state of a group that is not published yet.
    pub(crate) grouped: bool,
}

impl WriteTxn {
    pub(crate) fn new(store: Store, writer: Held, ground: Arc<Ground>, base: Arc<Catalog>) -> Self {
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

    pub(crate) fn writer_mut(&mut self) -> Result<&mut Writer> {
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
    pub(crate) fn table_of(&self, schema: &str, name: &str) -> Result<Arc<Table>> {
        if let Some(table) = self.current.table(schema, name)? {
            return Ok(table);
        }
        self.check_schema(schema)?;
        Err(Error::not_found(ObjectKind::Table, name, self.current.table_names(schema)?))
    }

    /// That there is such a schema.
    pub(crate) fn check_schema(&self, schema: &str) -> Result<()> {
        if self.current.has_schema(schema) {
            return Ok(());
        }
        Err(Error::not_found(ObjectKind::Schema, schema, self.current.schema_names()))
    }

    /// Replaces the catalog by a copy in which something else is defined.
    pub(crate) fn change_catalog(&mut self, change: impl FnOnce(&mut Catalog)) {
        let mut next = Catalog::clone(&self.current);
        next.version += 1;
        next.definitions = new_definitions();
        change(&mut next);
        self.current = Arc::new(next);
    }

    /// Replaces one schema by a copy in which something else is defined.
    pub(crate) fn change_schema(&mut self, schema: &str, change: impl FnOnce(&mut SchemaNode)) {
        self.change_catalog(|next| {
            if let Some(node) = next.schemas.get_mut(schema) {
                change(Arc::make_mut(node));
            }
        });
    }

    /// As [`WriteTxn::change_schema`]; where the change fails, the present state stays.
    pub(crate) fn try_change_schema(
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
    pub(crate) fn put_table(
        &mut self,
        table: Arc<Table>,
        mut dropped: Vec<Arc<Blocks>>,
    ) -> Result<()> {
        let (schema, name) = (table.schema_name.clone(), table.name.clone());
        let is_defined = self.current.has_same_table(&table);
        let references = table.notes().references();
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
    pub(crate) fn created(&mut self, segments: &[Arc<Segment>]) -> Result<()> {
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
    pub(crate) fn forget_savepoint(&mut self, savepoint: &Savepoint) {
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

    /// Forgets what of the changes is not undone by dropping it.
    pub(crate) fn forget(&mut self, writer: &mut Writer) {
        writer.unique.rollback(0);
        for range in self.effects.ranges.drain(..) {
            self.ground.space.forget_foreign(range.loc.offset);
        }
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
