//! Rules of a table about its rows, as its definition keeps them: CHECK constraints, generated
//! columns, foreign keys.
//!
//! Conditions and expressions are SQL, which the store knows nothing about: it keeps the text. What
//! enforces the rules is in [`crate::txn`].

use std::collections::BTreeMap;
use std::sync::Arc;

use swingdb_common::error::Result;

use crate::codec::{Reader, Writer};
use crate::errors::area::corrupt;

/// A condition on the rows of a table. A row for which it is NULL fulfils it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The name after CONSTRAINT.
    pub name: Option<String>,
    /// The condition.
    pub sql: String,
    /// The columns it reads (indices into [`Table::columns`](crate::Table::columns)),
    /// ascending.
    pub columns: Vec<usize>,
}

/// How a column's values are computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The expression.
    pub sql: String,
    /// The columns that it reads (indices into [`Table::columns`](crate::Table::columns)),
    /// ascending.
    pub columns: Vec<usize>,
}

impl Generated {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.text(&self.sql);
        w.len(self.columns.len());
        self.columns.iter().for_each(|column| w.len(*column));
    }

    pub(crate) fn read(r: &mut Reader<'_>, last: u64) -> Result<Self> {
        let sql = r.text()?.to_owned();
        Ok(Self { sql, columns: r.list(|r| r.bounded(last, "a column"))? })
    }
}

/// A foreign key of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its columns (indices into [`Table::columns`](crate::Table::columns)).
    pub columns: Vec<usize>,
    /// Schema of the parent.
    pub schema: String,
    /// Name of the parent, which may be the table itself.
    pub table: String,
    /// The parent's columns that they refer to, in the same order: those of one of its keys.
    pub keys: Vec<String>,
}

/// For tables of a schema with foreign keys: the schemas and names of their parents.
pub(crate) type References = BTreeMap<Arc<str>, Parents>;

/// The schemas and names of the tables that one refers to.
pub(crate) type Parents = Arc<[(Arc<str>, Arc<str>)]>;

impl ForeignKey {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.len(self.columns.len());
        self.columns.iter().for_each(|column| w.len(*column));
        w.text(&self.schema);
        w.text(&self.table);
        w.len(self.keys.len());
        self.keys.iter().for_each(|key| w.text(key));
    }

    pub(crate) fn read(r: &mut Reader<'_>, last: u64) -> Result<Self> {
        let key = Self {
            columns: r.list(|r| r.bounded(last, "a column"))?,
            schema: r.text()?.to_owned(),
            table: r.text()?.to_owned(),
            keys: r.list(|r| Ok(r.text()?.to_owned()))?,
        };
        match key.columns.is_empty() || key.columns.len() != key.keys.len() {
            true => Err(corrupt("a foreign key of other columns than it refers to")),
            false => Ok(key),
        }
    }
}
