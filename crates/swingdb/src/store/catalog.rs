//! The catalog: one immutable state of a database.

use std::sync::Arc;

use super::table::Table;
use crate::error::Result;

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

/// One immutable state of a database.
#[derive(Debug)]
pub struct Catalog {}

impl Catalog {
    /// Distinguishes states of one store: every commit, also inside a transaction every change,
    /// makes a larger one.
    pub fn version(&self) -> u64 {
        todo!()
    }

    /// Schemas in alphabetical order; `main` always exists.
    pub fn schema_names(&self) -> Vec<String> {
        todo!()
    }

    /// Whether there is such a schema.
    pub fn has_schema(&self, _schema: &str) -> bool {
        todo!()
    }

    /// Tables of a schema in alphabetical order (none when there is no such schema).
    pub fn table_names(&self, _schema: &str) -> Vec<String> {
        todo!()
    }

    /// Views of a schema in alphabetical order.
    pub fn view_names(&self, _schema: &str) -> Vec<String> {
        todo!()
    }

    /// A table; its directory is read with the first use.
    pub fn table(&self, _schema: &str, _name: &str) -> Result<Option<Arc<Table>>> {
        todo!()
    }

    /// A view.
    pub fn view(&self, _schema: &str, _name: &str) -> Result<Option<Arc<View>>> {
        todo!()
    }
}
