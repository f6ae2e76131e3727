//! Statements of a transaction that change definitions: schemas, tables, columns, views.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::take;
use swingdb_common::error::{ConstraintKind, Error, ObjectKind, Result};
use swingdb_common::runtime::cancel::go_on;

use crate::catalog::definition::{ColumnDef, Constraint, Definition, MAX_COLUMNS, TableDef};
use crate::catalog::edit;
use crate::catalog::entry::TableEntry;
use crate::catalog::names::{IfExists, MAIN, check_name};
use crate::catalog::notes::Commented;
use crate::catalog::rules::Check;
use crate::catalog::schema::View;
use crate::catalog::state::Catalog;
use crate::catalog::table::Table;
use crate::codec::check_type;
use crate::segments::columns;
use crate::segments::parallel::in_parallel;
use crate::segments::segment::Segment;
use crate::txn::transaction::WriteTxn;

/// What a name is in a catalog.
fn kind_of(catalog: &Catalog, schema: &str, name: &str) -> Result<Option<ObjectKind>> {
    let Some(node) = catalog.schemas.get(schema) else { return Ok(None) };
    if node.tables.contains(name)? {
        return Ok(Some(ObjectKind::Table));
    }
    Ok(node.views.contains_key(name).then_some(ObjectKind::View))
}

/// The definition of a table with other columns.
fn redefined(table: &Table, columns: Vec<ColumnDef>) -> Definition {
    let definition =
        Definition::new(columns, table.constraints().to_vec(), table.checks().to_vec());
    definition.with_notes(table.notes().clone())
}

fn check_definition(columns: &[ColumnDef], constraints: &[Constraint]) -> Result<()> {
    if columns.is_empty() || columns.len() > MAX_COLUMNS {
        let n = columns.len();
        return Err(Error::plan(format!(
            "a table of {n} columns; 1 to {MAX_COLUMNS} are possible"
        )));
    }
    for (at, column) in columns.iter().enumerate() {
        check_name(&column.name)?;
        check_type(&column.data_type, 0)?;
        if columns[..at].iter().any(|c| c.name == column.name) {
            let (kind, name) = (ObjectKind::Column, column.name.clone());
            return Err(Error::AlreadyExists { kind, name });
        }
    }
    for constraint in constraints {
        let all = constraint.columns();
        if all.is_empty() || all.iter().any(|c| *c >= columns.len()) {
            return Err(Error::plan("a key over columns that do not exist"));
        }
    }
    if constraints.iter().filter(|c| matches!(c, Constraint::Primary(_))).count() > 1 {
        return Err(Error::plan("a table has at most one primary key"));
    }
    Ok(())
}

impl WriteTxn {
    /// Creates a schema; `false`: it existed and `if_exists` is `Skip`.
    pub fn create_schema(&mut self, name: &str, if_exists: IfExists) -> Result<bool> {
        check_name(name)?;
        if self.current.has_schema(name) {
            return match if_exists {
                IfExists::Skip => Ok(false),
                _ => {
                    let (kind, name) = (ObjectKind::Schema, name.to_owned());
                    Err(Error::AlreadyExists { kind, name })
                }
            };
        }
        self.change_catalog(|next| {
            next.schemas.insert(Arc::from(name), Arc::default());
        });
        Ok(true)
    }

    /// Drops a schema; with `cascade` also what is in it. `main` cannot be dropped.
    pub fn drop_schema(&mut self, name: &str, cascade: bool) -> Result<()> {
        let Some(node) = self.current.schemas.get(name).cloned() else {
            let names = self.current.schema_names();
            return Err(Error::not_found(ObjectKind::Schema, name, names));
        };
        if name == MAIN {
            return Err(Error::plan("the schema \"main\" cannot be dropped"));
        }
        let empty = node.tables.is_empty()
            && node.views.is_empty()
            && node.macros.is_empty()
            && node.sequences.is_empty()
            && node.types.is_empty();
        if !cascade && !empty {
            let message =
                format!("schema {name:?} is not empty; use CASCADE to drop what is in it");
            return Err(Error::plan(message));
        }
        self.check_schema_unreferenced(name)?;
        let mut dropped = Vec::new();
        let mut ids = Vec::new();
        for (table, entry) in node.tables.all()? {
            let table = self.table_of(name, table)?;
            dropped.extend(edit::all_blocks(&table)?);
            dropped.extend(entry.record.get().cloned());
            ids.push(table.id());
        }
        dropped.extend(node.tables.records().cloned());
        for id in ids {
            self.writer_mut()?.unique.forget(id);
        }
        self.change_catalog(|next| {
            next.schemas.remove(name);
        });
        self.effects.dropped.extend(dropped);
        Ok(())
    }

    /// Makes room for a new table or view; `false`: the name is taken and that is fine.
    fn make_room(
        &mut self,
        schema: &str,
        name: &str,
        kind: ObjectKind,
        if_exists: IfExists,
    ) -> Result<bool> {
        check_name(name)?;
        self.check_schema(schema)?;
        let Some(found) = kind_of(&self.current, schema, name)? else { return Ok(true) };
        match if_exists {
            IfExists::Skip => Ok(false),
            IfExists::Replace if found == kind && kind == ObjectKind::Table => {
                self.drop_table(schema, name).map(|()| true)
            }
            IfExists::Replace if found == kind => self.drop_view(schema, name).map(|()| true),
            _ => Err(Error::AlreadyExists { kind: found, name: name.to_owned() }),
        }
    }

    /// Creates an empty table; `false`: it existed and `if_exists` is `Skip`.
    pub fn create_table(&mut self, def: TableDef, if_exists: IfExists) -> Result<bool> {
        let TableDef { schema, name, mut columns, constraints } = def;
        check_definition(&columns, &constraints)?;
        for constraint in &constraints {
            if let Constraint::Primary(key) = constraint {
                key.iter().for_each(|c| columns[*c].nullable = false);
            }
        }
        if !self.make_room(&schema, &name, ObjectKind::Table, if_exists)? {
            return Ok(false);
        }
        let definition = Arc::new(Definition::new(columns, constraints, Vec::new()));
        self.add_table(&schema, &name, definition, Vec::new())?;
        Ok(true)
    }

    /// Replaces, where allowed, what has the name of a clone.
    pub(crate) fn room_for_table(
        &mut self,
        schema: &str,
        name: &str,
        if_exists: IfExists,
    ) -> Result<bool> {
        self.make_room(schema, name, ObjectKind::Table, if_exists)
    }

    /// Drops a table.
    pub fn drop_table(&mut self, schema: &str, name: &str) -> Result<()> {
        let table = self.table_of(schema, name)?;
        self.check_unreferenced(schema, name, "dropped")?;
        let mut dropped = edit::all_blocks(&table)?;
        self.writer_mut()?.unique.forget(table.id());
        self.try_change_schema(schema, |node| {
            node.tables.remove(name, &mut dropped)?;
            node.references.remove(name);
            Ok(())
        })?;
        self.effects.dropped.extend(dropped);
        Ok(())
    }

    /// Renames a table inside its schema.
    pub fn rename_table(&mut self, schema: &str, name: &str, new_name: &str) -> Result<()> {
        let table = self.table_of(schema, name)?;
        self.check_unreferenced(schema, name, "renamed")?;
        self.make_room(schema, new_name, ObjectKind::Table, IfExists::Fail)?;
        let names = (table.schema_name.clone(), Arc::from(new_name));
        let (id, definition) = (table.id(), table.definition.clone());
        let renamed = Table::new(id, names, definition, table.space.clone(), table.pages.clone());
        let entry = TableEntry::new(renamed);
        let mut dropped = Vec::new();
        self.try_change_schema(schema, |node| {
            node.tables.remove(name, &mut dropped)?;
            node.tables.insert(Arc::from(new_name), entry, &mut dropped)?;
            if let Some(parents) = node.references.remove(name) {
                node.references.insert(Arc::from(new_name), parents);
            }
            Ok(())
        })?;
        self.effects.dropped.extend(dropped);
        Ok(())
    }

    /// Adds a column; existing rows get `value` (an array of one row; `None`: NULL).
    pub fn add_column(
        &mut self,
        schema: &str,
        table: &str,
        column: ColumnDef,
        value: Option<ArrayRef>,
    ) -> Result<()> {
        let table = self.table_of(schema, table)?;
        let mut all = table.columns().to_vec();
        all.push(column.clone());
        check_definition(&all, table.constraints())?;
        let value = value.unwrap_or_else(|| new_null_array(&column.data_type, 1));
        if value.len() != 1 || value.data_type() != &column.data_type {
            return Err(Error::internal("a column's value must be one row of its type"));
        }
        let mut table = table;
        if !column.nullable && value.logical_null_count() > 0 {
            if table.row_count() > 0 {
                return Err(not_null(&table, &column.name, "existing rows would be NULL"));
            }
            // Deleted rows may be left, which would be NULL too.
            self.truncate_table(schema, table.name())?;
            table = self.table_of(schema, table.name())?;
        }
        let segments = table.segments()?;
        let longest = segments.iter().map(|s| s.rows()).max().unwrap_or(0);
        let values = repeated(&value, longest)?;
        let ground = &self.ground;
        let chunks = in_parallel(self.threads, &segments, |segment| {
            let piece = values.slice(0, segment.rows());
            columns::write(ground, &column.data_type, &[piece]).map(Arc::new)
        })?;
        let created: Vec<_> = chunks.iter().map(|c| c.blocks.clone()).collect();
        let definition = redefined(&table, all);
        let mut next = chunks.into_iter();
        self.redefine_with(&table, definition, |segment| {
            let mut all = segment.chunks()?;
            all.extend(next.next());
            Ok(all)
        })?;
        self.effects.created.extend(created);
        Ok(())
    }

    fn column_of(&self, table: &Table, column: &str) -> Result<usize> {
        let names = || table.columns().iter().map(|c| c.name.as_str());
        let missing = || Error::not_found(ObjectKind::Column, column, names());
        table.column_index(column).ok_or_else(missing)
    }

    /// Drops a column that no constraint uses.
    pub fn drop_column(&mut self, schema: &str, table: &str, column: &str) -> Result<()> {
        let table = self.table_of(schema, table)?;
        let at = self.column_of(&table, column)?;
        let mut all = table.columns().to_vec();
        all.remove(at);
        if table.constraints().iter().any(|c| c.columns().contains(&at)) {
            let message = format!("column {column:?} is part of a key and cannot be dropped");
            return Err(Error::plan(message));
        }
        if let Some(check) = table.checks().iter().find(|check| check.columns.contains(&at)) {
            let sql = &check.sql;
            let message = format!("column {column:?} is part of CHECK ({sql}), cannot be dropped");
            return Err(Error::plan(message));
        }
        if table.notes().foreign_keys.iter().any(|key| key.columns.contains(&at)) {
            let message = format!("column {column:?} is part of a FOREIGN KEY, cannot be dropped");
            return Err(Error::plan(message));
        }
        self.check_ungenerated(&table, at, "dropped")?;
        if let Some(index) = table.notes().indexes.iter().find(|i| i.columns.contains(&at)) {
            let name = &index.name;
            return Err(Error::plan(format!(
                "column {column:?} is part of the index {name:?}; DROP INDEX first"
            )));
        }
        if all.is_empty() {
            return Err(Error::plan("the only column of a table cannot be dropped"));
        }
        let moved = |c: &usize| if *c > at { c - 1 } else { *c };
        let constraints = table.constraints().iter().map(|constraint| match constraint {
            Constraint::Primary(c) => Constraint::Primary(c.iter().map(moved).collect()),
            Constraint::Unique(c) => Constraint::Unique(c.iter().map(moved).collect()),
        });
        let checks = table.checks().iter().map(|check| {
            let columns = check.columns.iter().map(moved).collect();
            Check { columns, ..check.clone() }
        });
        let definition = Definition::new(all, constraints.collect(), checks.collect())
            .with_notes(table.notes().without_column(at));
        self.redefine_with(&table, definition, |segment| {
            let mut chunks = segment.chunks()?;
            chunks.remove(at);
            Ok(chunks)
        })
    }

    /// Removes the unique key over these columns from a table. The rows stay as they are.
    pub fn drop_unique(&mut self, schema: &str, table: &str, columns: &[usize]) -> Result<()> {
        let table = self.table_of(schema, table)?;
        let is_it =
            |key: &Constraint| matches!(key, Constraint::Unique(key) if key.as_slice() == columns);
        self.check_unreferenced(schema, table.name(), "changed")?;
        let keys = table.constraints();
        let Some(at) = keys.iter().position(is_it) else {
            let names = columns.iter().filter_map(|c| table.columns().get(*c));
            let name = names.map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(Error::not_found(ObjectKind::Constraint, name, [""; 0]));
        };
        let mut keys = keys.to_vec();
        keys.remove(at);
        let definition = Definition::new(table.columns().to_vec(), keys, table.checks().to_vec());
        self.redefine(&table, definition.with_notes(table.notes().clone()))
    }

    /// Renames a column.
    pub fn rename_column(
        &mut self,
        schema: &str,
        table: &str,
        column: &str,
        new_name: &str,
    ) -> Result<()> {
        let table = self.table_of(schema, table)?;
        let at = self.column_of(&table, column)?;
        self.check_unreferenced_column(&table, column, "renamed")?;
        let mut all = table.columns().to_vec();
        all[at].name = new_name.to_owned();
        check_definition(&all, table.constraints())?;
        let definition = redefined(&table, all);
        self.redefine(&table, definition)
    }

    /// Changes default or nullability of a column (`None`: as it was; `Some(None)`: no default).
    /// Existing rows are checked.
    pub fn alter_column(
        &mut self,
        schema: &str,
        table: &str,
        column: &str,
        default_sql: Option<Option<String>>,
        nullable: Option<bool>,
    ) -> Result<()> {
        let mut table = self.table_of(schema, table)?;
        let at = self.column_of(&table, column)?;
        let mut all = table.columns().to_vec();
        if let Some(default_sql) = default_sql {
            all[at].default_sql = default_sql;
        }
        if let Some(nullable) = nullable {
            let primary = |c: &Constraint| matches!(c, Constraint::Primary(k) if k.contains(&at));
            if nullable && table.constraints().iter().any(primary) {
                return Err(Error::plan(format!("column {column:?} is part of the primary key")));
            }
            if !nullable && has_live_null(&table, at)? {
                return Err(not_null(&table, column, "existing rows are NULL"));
            }
            if !nullable {
                // Deleted rows that are NULL there have to go: arrays of the column may have none.
                let has_null = |s: &Segment| Ok(s.chunk_stats(at)?.nulls > 0);
                self.compact(&table, has_null)?;
                table = self.table_of(schema, table.name())?;
            }
            all[at].nullable = nullable;
        }
        let definition = redefined(&table, all);
        self.redefine(&table, definition)
    }

    /// Creates a view; `false`: it existed and `if_exists` is `Skip`.
    pub fn create_view(&mut self, schema: &str, view: View, if_exists: IfExists) -> Result<bool> {
        if !self.make_room(schema, &view.name, ObjectKind::View, if_exists)? {
            return Ok(false);
        }
        self.change_schema(schema, |node| {
            node.forget_comment(Commented::View, &view.name);
            node.views.insert(Arc::from(view.name.as_str()), Arc::new(view));
        });
        Ok(true)
    }

    /// Drops a view.
    pub fn drop_view(&mut self, schema: &str, name: &str) -> Result<()> {
        if self.current.view(schema, name)?.is_none() {
            let names = self.current.view_names(schema);
            return Err(Error::not_found(ObjectKind::View, name, names));
        }
        self.change_schema(schema, |node| {
            node.views.remove(name);
            node.forget_comment(Commented::View, name);
        });
        Ok(())
    }
}

fn not_null(table: &Table, column: &str, detail: &str) -> Error {
    Error::Constraint {
        table: table.name().to_owned(),
        kind: ConstraintKind::NotNull,
        columns: vec![column.to_owned()],
        detail: detail.to_owned(),
    }
}

fn has_live_null(table: &Table, column: usize) -> Result<bool> {
    for segment in table.segments()?.iter() {
        if segment.chunk_stats(column)?.nulls == 0 {
            continue;
        }
        go_on()?;
        let Some(nulls) = segment.array(column)?.logical_nulls() else { continue };
        let live = |row: &usize| segment.deleted().is_none_or(|d| !d.value(*row));
        if (0..segment.rows()).filter(live).any(|row| nulls.is_null(row)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `rows` copies of the one value in `value`.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    Ok(take(value.as_ref(), &UInt32Array::from(vec![0; rows]), None)?)
}
