//! FOREIGN KEY: rows whose key another table, the parent, must have.
//!
//! Every change of rows goes through a few functions of [`WriteTxn`], which check both sides on the
//! state after the change: keys that come are looked up in the parent, keys that go from a parent
//! are looked for in the tables that refer to it. So a row may refer to one of the same change. A
//! key with a NULL refers to nothing.
//!
//! A parent knows nothing of its children. Each schema lists which of its tables refer to which
//! others, so that a change of a table needs to read no other table's record to find its children.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, is_null, not};
use arrow::datatypes::{Field, Schema};
use swingdb_common::error::{ConstraintKind, Error, ObjectKind, Result};
use swingdb_common::runtime::cancel::go_on;

use crate::catalog::rules::ForeignKey;
use crate::catalog::table::Table;
use crate::errors::values::shown;
use crate::keys::locate::Wanted;
use crate::segments::rowids::{RowId, RowIds};
use crate::txn::transaction::WriteTxn;

/// Foreign keys that a table may have.
const MAX_FOREIGN_KEYS: usize = 1_000;

impl ForeignKey {
    /// Whether a table is the parent.
    fn is_of(&self, parent: &Table) -> bool {
        self.schema == parent.schema_name() && self.table == parent.name()
    }

    /// The parent's columns, in the order of the key.
    fn key_columns(&self, parent: &Table) -> Result<Vec<usize>> {
        let column = |name: &String| {
            let missing = || Error::internal("a foreign key to a column that is not there");
            parent.column_index(name).ok_or_else(missing)
        };
        self.keys.iter().map(column).collect()
    }
}

/// The rows of columns of a key without a NULL.
fn complete(columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let field = |(at, column): (usize, &ArrayRef)| {
        Field::new(at.to_string(), column.data_type().clone(), true)
    };
    let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
    let mut whole: Option<BooleanArray> = None;
    for column in columns.iter().filter(|column| column.logical_null_count() > 0) {
        let there = not(&is_null(column)?)?;
        whole = Some(match whole {
            Some(before) => arrow::compute::and(&before, &there)?,
            None => there,
        });
    }
    let batch = RecordBatch::try_new(Arc::new(schema), columns)?;
    match whole {
        Some(whole) => Ok(filter_record_batch(&batch, &whole)?),
        None => Ok(batch),
    }
}

impl WriteTxn {
    /// Replaces the foreign keys of a table. The rows it has are not tested.
    pub fn set_foreign_keys(
        &mut self,
        schema: &str,
        table: &str,
        keys: Vec<ForeignKey>,
    ) -> Result<()> {
        let found = self.table_of(schema, table)?;
        if keys.len() > MAX_FOREIGN_KEYS {
            let message = format!("a table has at most {MAX_FOREIGN_KEYS} foreign keys");
            return Err(Error::plan(message));
        }
        for key in &keys {
            self.check_foreign_key(&found, key)?;
        }
        let mut notes = found.notes().clone();
        notes.foreign_keys = keys;
        self.set_notes(schema, table, notes)
    }

    /// That a foreign key refers to a key of its parent, whose columns have the same types.
    fn check_foreign_key(&self, table: &Table, key: &ForeignKey) -> Result<()> {
        let parent = self.table_of(&key.schema, &key.table)?;
        if key.columns.len() != key.keys.len() || key.columns.is_empty() {
            return Err(Error::plan("a FOREIGN KEY has as many columns as it refers to"));
        }
        for (column, name) in key.columns.iter().zip(&key.keys) {
            let Some(at) = parent.column_index(name) else {
                let known = parent.columns().iter().map(|column| column.name.as_str());
                return Err(Error::not_found(ObjectKind::Column, name, known));
            };
            let own = table.columns().get(*column);
            let own = own.ok_or_else(|| Error::internal("a foreign key without its column"))?;
            let other = &parent.columns()[at];
            if own.field().data_type() != other.field().data_type()
                || own.enumeration != other.enumeration
                || own.is_uuid != other.is_uuid
            {
                return Err(Error::plan(format!(
                    "FOREIGN KEY: column {:?} has another type than column {:?} of table {:?}",
                    own.name, other.name, key.table
                )));
            }
        }
        let columns = key.key_columns(&parent)?;
        let same = |known: &[usize]| {
            known.len() == columns.len() && known.iter().all(|column| columns.contains(column))
        };
        match parent.constraints().iter().any(|known| same(known.columns())) {
            true => Ok(()),
            false => Err(Error::plan(format!(
                "FOREIGN KEY: ({}) is no PRIMARY KEY and not UNIQUE in table {:?}",
                key.keys.join(", "),
                key.table
            ))),
        }
    }

    /// The tables that refer to a table, itself too.
    fn children(&self, schema: &str, table: &str) -> Result<Vec<Arc<Table>>> {
        let mut all = Vec::new();
        for (of, node) in &self.current.schemas {
            for (child, parents) in &node.references {
                if parents.iter().any(|(s, t)| &**s == schema && &**t == table) {
                    all.extend(self.current.table(of, child)?);
                }
            }
        }
        Ok(all)
    }

    /// That no other table refers to a table, which is to be dropped, renamed or made anew.
    pub fn check_unreferenced(&self, schema: &str, table: &str, verb: &str) -> Result<()> {
        let children = self.children(schema, table)?;
        let is_other = |child: &&Arc<Table>| {
            (child.schema_name(), child.name()) != (schema, table) || verb != "dropped"
        };
        match children.iter().find(is_other) {
            None => Ok(()),
            Some(child) => Err(Error::plan(format!(
                "table {table:?} cannot be {verb}: a FOREIGN KEY of table {:?} refers to it",
                child.name()
            ))),
        }
    }

    /// The same for the tables of a schema, of tables in others.
    pub(crate) fn check_schema_unreferenced(&self, schema: &str) -> Result<()> {
        let others = self.current.schemas.iter().filter(|(name, _)| &***name != schema);
        for (child, parents) in others.flat_map(|(_, node)| &node.references) {
            if let Some((_, table)) = parents.iter().find(|(of, _)| &**of == schema) {
                return Err(Error::plan(format!(
                    "schema {schema:?} cannot be dropped: a FOREIGN KEY of table {child:?} refers \
                     to its table {table:?}"
                )));
            }
        }
        Ok(())
    }

    /// The same for one of its columns.
    pub(crate) fn check_unreferenced_column(
        &self,
        table: &Table,
        column: &str,
        verb: &str,
    ) -> Result<()> {
        for child in self.children(table.schema_name(), table.name())? {
            let mut keys = child.notes().foreign_keys.iter().filter(|key| key.is_of(table));
            if keys.any(|key| key.keys.iter().any(|name| name == column)) {
                return Err(Error::plan(format!(
                    "column {column:?} cannot be {verb}: a FOREIGN KEY of table {:?} refers to it",
                    child.name()
                )));
            }
        }
        Ok(())
    }

    /// Carries a change of rows out, and takes it back if a foreign key is violated by it.
    pub(crate) fn with_references<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T>,
        check: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<T> {
        let before = self.savepoint();
        let outcome = change(self).and_then(|changed| check(self).map(|()| changed));
        if outcome.is_err() {
            self.rollback_to(&before)?;
        }
        self.forget_savepoint(&before);
        outcome
    }

    /// Whether foreign keys have to be looked at when rows of a table change.
    pub(crate) fn has_references(&self, table: &Table) -> Result<bool> {
        let schemas = self.current.schemas.values();
        let any = schemas.into_iter().any(|node| !node.references.is_empty());
        Ok(any
            && (!table.notes().foreign_keys.is_empty()
                || !self.children(table.schema_name(), table.name())?.is_empty()))
    }

    /// That the parents have the keys of rows that came into a table. `column` gives the columns of
    /// these rows; only foreign keys with one of `touched` count (`None`: all do).
    pub(crate) fn check_parents(
        &mut self,
        table: &Table,
        touched: Option<&[usize]>,
        column: &dyn Fn(usize) -> Result<ArrayRef>,
    ) -> Result<()> {
        for key in &table.notes().foreign_keys {
            let concerned = |touched: &[usize]| key.columns.iter().any(|c| touched.contains(c));
            if !touched.is_none_or(concerned) {
                continue;
            }
            let columns = key.columns.iter().map(|c| column(*c)).collect::<Result<Vec<_>>>()?;
            let wanted = complete(columns)?;
            if wanted.num_rows() == 0 {
                continue;
            }
            let _keys = self.memory.part(wanted.get_array_memory_size())?;
            let parent = self.table_of(&key.schema, &key.table)?;
            let found = self.locate(&parent, &key.key_columns(&parent)?, &wanted)?;
            if let Some(row) = found.iter().position(Option::is_none) {
                let names = key.columns.iter().map(|c| table.columns()[*c].name.clone());
                return Err(Error::Constraint {
                    table: table.name().to_owned(),
                    kind: ConstraintKind::ForeignKey,
                    columns: names.collect(),
                    detail: format!(
                        "key ({}) is not in table {:?}",
                        values(&wanted, row),
                        key.table
                    ),
                });
            }
        }
        Ok(())
    }

    /// That no row refers to keys that went from a table: those of `rows` of its version `before`,
    /// unless it has them still. `touched`: the columns that changed (`None`: the rows are gone).
    pub(crate) fn check_children(
        &mut self,
        before: &Table,
        rows: &RowIds,
        touched: Option<&[usize]>,
    ) -> Result<()> {
        let (schema, name) = (before.schema_name(), before.name());
        let now = self.table_of(schema, name)?;
        for child in self.children(schema, name)? {
            if child.row_count() == 0 {
                continue;
            }
            let keys = child.notes().foreign_keys.iter().filter(|key| key.is_of(before));
            for key in keys {
                let columns = key.key_columns(before)?;
                let concerned = |touched: &[usize]| columns.iter().any(|c| touched.contains(c));
                if !touched.is_none_or(concerned) {
                    continue;
                }
                let live = live_rows(before, rows)?;
                let gone = before.take(&live, &columns)?;
                let gone = complete(gone.columns().to_vec())?;
                let _keys = self.memory.part(gone.get_array_memory_size())?;
                let still = self.locate(&now, &columns, &gone)?;
                let gone_rows = still.iter().enumerate().filter(|(_, found)| found.is_none());
                let gone_rows: UInt32Array =
                    gone_rows.map(|(row, _)| row as u32).collect::<Vec<_>>().into();
                if gone_rows.is_empty() {
                    continue;
                }
                let gone = arrow::compute::take_record_batch(&gone, &gone_rows)?;
                let referring = self.locate(&child, &key.columns, &gone)?;
                if let Some(row) = referring.iter().position(Option::is_some) {
                    return Err(still_referenced(before, &child, key, &values(&gone, row)));
                }
            }
        }
        Ok(())
    }

    /// For each key a row of a table that has it in `columns`.
    fn locate(
        &self,
        table: &Table,
        columns: &[usize],
        keys: &RecordBatch,
    ) -> Result<Vec<Option<RowId>>> {
        let keys = &[keys.columns().to_vec()];
        let wanted = Wanted { columns, keys, threads: self.threads, memory: &self.memory };
        wanted.locate(table, |_| true)
    }

    /// That no row of another table refers to one of a table that is to lose all rows.
    pub(crate) fn check_emptied(&self, table: &Table) -> Result<()> {
        for child in self.children(table.schema_name(), table.name())? {
            if child.id() == table.id() {
                continue;
            }
            for key in child.notes().foreign_keys.iter().filter(|key| key.is_of(table)) {
                for segment in child.segments()?.iter() {
                    go_on()?;
                    let columns = key.columns.iter().map(|c| segment.array(*c));
                    let columns = columns.collect::<Result<Vec<_>>>()?;
                    let live = |row: &usize| segment.deleted().is_none_or(|d| !d.value(*row));
                    let nulls: Vec<_> = columns.iter().map(|c| c.logical_nulls()).collect();
                    let whole = |row: &usize| nulls.iter().flatten().all(|n| n.is_valid(*row));
                    let mut rows = (0..segment.rows()).filter(live);
                    if let Some(row) = rows.find(whole) {
                        let shown: Vec<_> = columns.iter().map(|c| shown(c, row)).collect();
                        return Err(still_referenced(table, &child, key, &shown.join(", ")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Those of some rows that are not deleted.
fn live_rows(table: &Table, rows: &RowIds) -> Result<Vec<RowId>> {
    let segments = table.segments()?;
    let mut all = Vec::with_capacity(rows.len());
    for (at, ids) in rows.by_segment() {
        let segment = segments.get(at as usize).ok_or_else(|| Error::internal("no segment"))?;
        let live = |id: &&RowId| segment.deleted().is_none_or(|d| !d.value(id.row() as usize));
        all.extend(ids.iter().filter(live).copied());
    }
    Ok(all)
}

fn values(batch: &RecordBatch, row: usize) -> String {
    batch.columns().iter().map(|column| shown(column, row)).collect::<Vec<_>>().join(", ")
}

fn still_referenced(parent: &Table, child: &Table, key: &ForeignKey, values: &str) -> Error {
    Error::Constraint {
        table: parent.name().to_owned(),
        kind: ConstraintKind::ForeignKey,
        columns: key.keys.clone(),
        detail: format!("rows of table {:?} still refer to key ({values})", child.name()),
    }
}
