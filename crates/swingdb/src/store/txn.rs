//! [`WriteTxn`]: the one write transaction of a process.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};

use super::catalog::{Catalog, View};
use super::handle::Store;
use super::rowids::{RowId, RowIds};
use super::table::{ColumnDef, Table, TableDef};
use super::writer::TableWriter;
use crate::error::Result;

/// How long [`Store::begin`] waits for another transaction of this process.
pub const WRITER_WAIT: Duration = Duration::from_secs(30);

/// What to do when the name to be created is taken. A name belongs to either a table or a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// [`Error::AlreadyExists`](crate::Error::AlreadyExists).
    Fail,
    /// Leave the existing one; the call returns `false`.
    Skip,
    /// Drop the existing one of the same kind first.
    Replace,
}

/// A point inside a transaction to which [`WriteTxn::rollback_to`] returns.
#[derive(Debug, Clone)]
pub struct Savepoint {}

/// The one write transaction of a process. Dropped without [`WriteTxn::commit`], it is rolled back.
///
/// Every call is atomic by itself: on an error the transaction is as before the call.
pub struct WriteTxn {}

impl WriteTxn {
    /// The state with this transaction's own changes.
    pub fn view(&self) -> Arc<Catalog> {
        todo!()
    }

    /// The committed state this transaction started from.
    pub fn base(&self) -> Arc<Catalog> {
        todo!()
    }

    /// The live row with each of the keys (`None`: there is none, or the key has a NULL). `keys`
    /// has the columns of constraint `constraint` of the table, in its order. For ON CONFLICT.
    pub fn find_keys(
        &mut self,
        _schema: &str,
        _table: &str,
        _constraint: usize,
        _keys: &RecordBatch,
    ) -> Result<Vec<Option<RowId>>> {
        todo!()
    }

    /// Creates a schema; `false`: it existed and `if_exists` is `Skip`.
    pub fn create_schema(&mut self, _name: &str, _if_exists: IfExists) -> Result<bool> {
        todo!()
    }

    /// Drops a schema; with `cascade` also what is in it. `main` cannot be dropped.
    pub fn drop_schema(&mut self, _name: &str, _cascade: bool) -> Result<()> {
        todo!()
    }

    /// Creates an empty table; `false`: it existed and `if_exists` is `Skip`.
    pub fn create_table(&mut self, _def: TableDef, _if_exists: IfExists) -> Result<bool> {
        todo!()
    }

    /// Drops a table.
    pub fn drop_table(&mut self, _schema: &str, _name: &str) -> Result<()> {
        todo!()
    }

    /// Renames a table inside its schema.
    pub fn rename_table(&mut self, _schema: &str, _name: &str, _new_name: &str) -> Result<()> {
        todo!()
    }

    /// Adds a column; existing rows get `value` (an array of one row; `None`: NULL).
    pub fn add_column(
        &mut self,
        _schema: &str,
        _table: &str,
        _column: ColumnDef,
        _value: Option<ArrayRef>,
    ) -> Result<()> {
        todo!()
    }

    /// Drops a column that no constraint uses.
    pub fn drop_column(&mut self, _schema: &str, _table: &str, _column: &str) -> Result<()> {
        todo!()
    }

    /// Renames a column.
    pub fn rename_column(
        &mut self,
        _schema: &str,
        _table: &str,
        _column: &str,
        _new_name: &str,
    ) -> Result<()> {
        todo!()
    }

    /// Changes default or nullability of a column (`None`: as it was; `Some(None)`: no default).
    /// Existing rows are checked.
    pub fn alter_column(
        &mut self,
        _schema: &str,
        _table: &str,
        _column: &str,
        _default_sql: Option<Option<String>>,
        _nullable: Option<bool>,
    ) -> Result<()> {
        todo!()
    }

    /// Creates a view; `false`: it existed and `if_exists` is `Skip`.
    pub fn create_view(
        &mut self,
        _schema: &str,
        _view: View,
        _if_exists: IfExists,
    ) -> Result<bool> {
        todo!()
    }

    /// Drops a view.
    pub fn drop_view(&mut self, _schema: &str, _name: &str) -> Result<()> {
        todo!()
    }

    /// A writer for appending to a table from many threads. Nothing of it is in [`WriteTxn::view`]
    /// before [`TableWriter::finish`] and [`WriteTxn::adopt`].
    pub fn writer(&self, _schema: &str, _table: &str) -> Result<TableWriter> {
        todo!()
    }

    /// Ends `writer` and appends what it wrote to its table: NOT NULL and keys were checked.
    /// Returns the rows.
    pub fn adopt(&mut self, _writer: TableWriter) -> Result<u64> {
        todo!()
    }

    /// Appends batches. Columns by position; types must be equal to the table's.
    pub fn append(&mut self, _schema: &str, _table: &str, _batches: &[RecordBatch]) -> Result<u64> {
        todo!()
    }

    /// Deletes rows of the present [`WriteTxn::view`] of a table. Returns how many were live.
    pub fn delete_rows(&mut self, _schema: &str, _table: &str, _rows: &RowIds) -> Result<u64> {
        todo!()
    }

    /// Deletes all rows at once.
    pub fn truncate(&mut self, _schema: &str, _table: &str) -> Result<u64> {
        todo!()
    }

    /// Gives the rows `rows` of the present view new values: `values` has one column for each of
    /// `columns`, its rows in the order of `rows` (ascending), in any number of batches. Row order
    /// and row ids stay.
    pub fn update_rows(
        &mut self,
        _schema: &str,
        _table: &str,
        _rows: &RowIds,
        _columns: &[usize],
        _values: &[RecordBatch],
    ) -> Result<u64> {
        todo!()
    }

    /// `CREATE TABLE target CLONE source` without copying column data: inside one store the
    /// segments are shared, from another store (attached snapshot, another database of this
    /// process) its memory is mapped into this one.
    pub fn clone_table(
        &mut self,
        _target_schema: &str,
        _target_name: &str,
        _source: &Table,
        _source_store: &Store,
        _if_exists: IfExists,
    ) -> Result<bool> {
        todo!()
    }

    /// Remembers the present state.
    pub fn savepoint(&self) -> Savepoint {
        todo!()
    }

    /// Undoes everything since `savepoint`, which stays usable.
    pub fn rollback_to(&mut self, _savepoint: &Savepoint) -> Result<()> {
        todo!()
    }

    /// Makes the changes the latest state of the store, and for named databases lasting (a crash of
    /// this process does not lose them). Returns the epoch when something was published.
    pub fn commit(self) -> Result<Option<u64>> {
        todo!()
    }

    /// Forgets the changes.
    pub fn rollback(self) {
        todo!()
    }
}
