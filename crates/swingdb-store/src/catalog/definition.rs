//! What a table is made of: columns, keys, checks and notes ([`Definition`]).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use swingdb_common::enums::EnumType;
use swingdb_common::error::Result;
use swingdb_common::uuid;

use crate::catalog::notes::TableNotes;
use crate::catalog::rules::Check;
use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// Most columns of a table.
pub(crate) const MAX_COLUMNS: usize = 4096;

/// A column's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name.
    pub name: String,
    /// Arrow type.
    pub data_type: DataType,
    /// Whether it may hold NULLs.
    pub nullable: bool,
    /// Whether its texts are UUIDs, which the store keeps in one form.
    pub is_uuid: bool,
    /// The ENUM of which its texts are values, which the store checks.
    pub enumeration: Option<EnumType>,
    /// The SQL expression of its default value.
    pub default_sql: Option<String>,
}

impl ColumnDef {
    /// The column as a field of a schema.
    pub fn field(&self) -> Field {
        let field = Field::new(&self.name, self.data_type.clone(), self.nullable);
        match &self.enumeration {
            Some(values) => values.marked(field),
            None if self.is_uuid => uuid::marked(field),
            None => field,
        }
    }
}

/// A rule over columns (indices into [`Table::columns`](crate::Table::columns)). NULLs are
/// distinct; the columns of a primary key are NOT NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// The primary key.
    Primary(Vec<usize>),
    /// A UNIQUE constraint.
    Unique(Vec<usize>),
}

impl Constraint {
    /// The columns of the key.
    pub fn columns(&self) -> &[usize] {
        match self {
            Self::Primary(columns) | Self::Unique(columns) => columns,
        }
    }
}

/// What a table is made of, for `CREATE TABLE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDef {
    /// Schema it belongs to.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Columns in order.
    pub columns: Vec<ColumnDef>,
    /// Keys.
    pub constraints: Vec<Constraint>,
}

/// Columns, keys and checks, shared by all versions of a table that have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    pub schema: SchemaRef,
    pub columns: Vec<ColumnDef>,
    pub constraints: Vec<Constraint>,
    pub checks: Vec<Check>,
    pub notes: TableNotes,
}

impl Definition {
    pub fn new(columns: Vec<ColumnDef>, constraints: Vec<Constraint>, checks: Vec<Check>) -> Self {
        let fields = columns.iter().map(ColumnDef::field).collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        Self { schema, columns, constraints, checks, notes: TableNotes::default() }
    }

    /// That of a copy of the table.
    pub fn of_copy(self: &Arc<Self>) -> Arc<Self> {
        match self.notes.indexes.is_empty() && self.notes.foreign_keys.is_empty() {
            true => self.clone(),
            false => Arc::new(Self::clone(self).with_notes(self.notes.of_copy())),
        }
    }

    /// The same with other notes.
    pub fn with_notes(self, notes: TableNotes) -> Self {
        Self { notes, ..self }
    }

    /// Writes all but the notes.
    pub fn write(&self, w: &mut Writer) {
        w.len(self.columns.len());
        for column in &self.columns {
            w.field(&column.field());
            w.option(column.default_sql.as_deref(), |w, sql| w.text(sql));
        }
        w.len(self.constraints.len());
        for constraint in &self.constraints {
            w.bool(matches!(constraint, Constraint::Primary(_)));
            w.len(constraint.columns().len());
            constraint.columns().iter().for_each(|c| w.len(*c));
        }
        w.len(self.checks.len());
        for check in &self.checks {
            w.option(check.name.as_deref(), |w, name| w.text(name));
            w.text(&check.sql);
            w.len(check.columns.len());
            check.columns.iter().for_each(|c| w.len(*c));
        }
    }

    pub fn read(r: &mut Reader<'_>) -> Result<Self> {
        let columns = r.list(|r| {
            let field = r.field(0)?;
            let default_sql = r.option(|r| Ok(r.text()?.to_owned()))?;
            let (data_type, nullable) = (field.data_type().clone(), field.is_nullable());
            let (is_uuid, enumeration) = (uuid::is_marked(&field), EnumType::of_field(&field));
            let name = field.name().clone();
            Ok(ColumnDef { name, data_type, nullable, is_uuid, enumeration, default_sql })
        })?;
        if columns.is_empty() || columns.len() > MAX_COLUMNS {
            return Err(corrupt(format!("a table of {} columns", columns.len())));
        }
        let last = columns.len() as u64 - 1;
        let constraints = r.list(|r| {
            let primary = r.bool()?;
            let columns = r.list(|r| r.bounded(last, "a column"))?;
            Ok(if primary { Constraint::Primary(columns) } else { Constraint::Unique(columns) })
        })?;
        let checks = r.list(|r| {
            let name = r.option(|r| Ok(r.text()?.to_owned()))?;
            let sql = r.text()?.to_owned();
            let columns = r.list(|r| r.bounded(last, "a column"))?;
            Ok(Check { name, sql, columns })
        })?;
        Ok(Self::new(columns, constraints, checks))
    }
}
