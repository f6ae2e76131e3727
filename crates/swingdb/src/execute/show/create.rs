//! `SHOW CREATE TABLE t` and `SHOW CREATE VIEW v`: the statement that makes it.

use datafusion::common::TableReference;
use swingdb_common::error::{Error, Result};
use swingdb_sql::ast::create::{create_table, create_view};
use swingdb_sql::ast::names::SCHEMA;
use swingdb_sql::bind::catalogs::{Catalogs, Found};

/// The statement that makes what `name` stands for.
pub(crate) fn text(view: &Catalogs, name: &TableReference) -> Result<String> {
    let schema = name.schema().filter(|schema| !schema.eq_ignore_ascii_case(SCHEMA));
    match view.find(name)? {
        Some(Found::Table { table, .. }) => Ok(create_table(schema, &table)),
        Some(Found::View { view, .. }) => Ok(create_view(schema, &view)),
        Some(_) => Err(Error::plan(format!("{name} was made by no statement"))),
        None => Err(view.unknown_table(name)),
    }
}
