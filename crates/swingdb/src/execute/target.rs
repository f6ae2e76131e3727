//! Names of what a statement changes: tables, columns, schemas, with errors that help.
//!
//! A table is named `table`, `schema.table` or `swingdb.schema.table`; the schema defaults to
//! `main`. Names match case-insensitively and keep the case they were created with. Attached
//! databases, views and `information_schema` can be read, and are refused here by name.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, TableFactor};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::build;
use swingdb_sql::ast::names::{find_name, last_part, parts, quoted};
use swingdb_sql::scan::hidden::{HiddenColumns, PLACE_COLUMN, ROWID_COLUMN};
use swingdb_store::{Catalog, IfExists, Table};

use crate::session::Session;

/// The schema of names without one.
pub(crate) const DEFAULT_SCHEMA: &str = "main";

/// The catalog of this database in names of three parts.
pub(crate) const OWN_CATALOG: &str = "swingdb";

const INFORMATION_SCHEMA: &str = "information_schema";

/// A table that a statement changes.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) table: Arc<Table>,
}

/// Schema and name of something in this database; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QualifiedName {
    pub(crate) schema: String,
    pub(crate) name: String,
}

impl QualifiedName {
    /// For messages: the schema only when it is not the default one.
    pub(crate) fn shown(&self) -> String {
        if self.schema == DEFAULT_SCHEMA {
            self.name.clone()
        } else {
            format!("{}.{}", self.schema, self.name)
        }
    }
}

/// Where `name` points inside this database.
pub(crate) fn place(
    session: &Session,
    catalog: &Catalog,
    name: &ObjectName,
) -> Result<QualifiedName> {
    let mut parts = parts(name)?;
    let Some(last) = parts.pop() else { return Err(Error::plan("an empty name")) };
    if parts.len() > 2 {
        return Err(Error::plan(format!("{name}: a name has at most three parts")));
    }
    if parts.len() == 2 {
        let first = parts.remove(0);
        if session.attached(&first).is_some() {
            return Err(read_only(&first));
        }
        if !first.eq_ignore_ascii_case(OWN_CATALOG) {
            return Err(Error::not_found(ObjectKind::Database, first, [OWN_CATALOG]));
        }
    }
    let Some(schema) = parts.pop() else {
        return Ok(QualifiedName { schema: DEFAULT_SCHEMA.to_string(), name: last });
    };
    if schema.eq_ignore_ascii_case(INFORMATION_SCHEMA) {
        return Err(Error::plan("information_schema describes the database and cannot be changed"));
    }
    match find_name(&catalog.schema_names(), &schema) {
        Some(schema) => Ok(QualifiedName { schema, name: last }),
        None if session.attached(&schema).is_some() => Err(read_only(&schema)),
        None => Err(Error::not_found(ObjectKind::Schema, schema, catalog.schema_names())),
    }
}

/// The table `name`, to be changed.
pub(crate) fn target(session: &Session, catalog: &Catalog, name: &ObjectName) -> Result<Target> {
    let place = place(session, catalog, name)?;
    match find_table(catalog, &place)? {
        Some(target) => Ok(target),
        None if find_name(&catalog.view_names(&place.schema), &place.name).is_some() => {
            Err(Error::plan(format!(
                "{:?} is a view; change the tables it reads instead",
                place.shown()
            )))
        }
        None => Err(unknown_table(catalog, &place)),
    }
}

/// The table at a place, if there is one.
pub(crate) fn find_table(catalog: &Catalog, place: &QualifiedName) -> Result<Option<Target>> {
    let Some(name) = catalog.find_table(&place.schema, &place.name)? else {
        return Ok(None);
    };
    let table = catalog.table(&place.schema, &name)?;
    Ok(table.map(|table| Target { schema: place.schema.clone(), name, table }))
}

/// The error for a table that does not exist.
pub(crate) fn unknown_table(catalog: &Catalog, place: &QualifiedName) -> Error {
    let names = catalog.table_names(&place.schema).unwrap_or_default();
    Error::not_found(ObjectKind::Table, place.shown(), names)
}

fn read_only(database: &str) -> Error {
    Error::unsupported(format!(
        "database {database:?} is attached, and can only be read; CREATE TABLE ... CLONE \
         {database}.<table> makes a table here that can be changed, without copying"
    ))
}

/// The index of a column of a table.
pub(crate) fn column(table: &Table, name: &str) -> Result<usize> {
    let columns = table.columns();
    let exact = columns.iter().position(|column| column.name == name);
    exact
        .or_else(|| columns.iter().position(|column| column.name.eq_ignore_ascii_case(name)))
        .ok_or_else(|| {
            let known = columns.iter().map(|column| column.name.as_str());
            Error::not_found(ObjectKind::Column, name, known)
        })
}

/// The indices of the columns of a list; each at most once.
pub(crate) fn column_list(table: &Table, names: &[ObjectName]) -> Result<Vec<usize>> {
    let mut seen = HashSet::new();
    let mut indices = Vec::with_capacity(names.len());
    for name in names {
        let index = column(table, &last_part(name)?)?;
        if !seen.insert(index) {
            return Err(twice(table, index));
        }
        indices.push(index);
    }
    Ok(indices)
}

/// That none of these columns is computed from others.
pub(crate) fn check_given(table: &Table, columns: &[usize]) -> Result<()> {
    match columns.iter().find(|column| table.is_generated(**column)) {
        None => Ok(()),
        Some(column) => Err(Error::plan(format!(
            "column {:?} is generated: its values are computed, and cannot be given",
            table.columns()[*column].name
        ))),
    }
}

/// The error for a column that is given twice.
pub(crate) fn twice(table: &Table, index: usize) -> Error {
    Error::plan(format!("column {:?} is given twice", table.columns()[index].name))
}

/// A changed table as the statement names it.
pub(crate) struct Named {
    pub(crate) target: Target,
    /// What expressions call it.
    pub(crate) alias: Ident,
    /// What queries call the database that has it.
    database: &'static str,
}

impl Named {
    pub(crate) fn new(session: &Session, target: Target, alias: Ident) -> Self {
        Self { target, alias, database: session.changed_database() }
    }

    /// The table after UPDATE, DELETE FROM or MERGE INTO.
    pub(crate) fn resolve(
        session: &Session,
        catalog: &Catalog,
        relation: &TableFactor,
        verb: &str,
    ) -> Result<Self> {
        let TableFactor::Table { name, alias, args: None, .. } = relation else {
            return Err(Error::plan(format!("{verb} {relation}: only a table can be changed")));
        };
        let target = target(session, catalog, name)?;
        let alias = match alias {
            Some(alias) if alias.columns.is_empty() => alias.name.clone(),
            Some(_) => return Err(Error::unsupported(format!("{verb} with renamed columns"))),
            None => quoted(&target.name),
        };
        Ok(Self::new(session, target, alias))
    }

    /// The table with its hidden row id, under its alias; with the places of its rows, too, unless
    /// it has a column of that name.
    pub(crate) fn relation(&self) -> TableFactor {
        let mut columns = self.target.table.columns().iter();
        let places = !columns.any(|column| column.name.eq_ignore_ascii_case(PLACE_COLUMN));
        let hidden = HiddenColumns { row_ids: true, places }.name(&self.target.name);
        build::table(&[self.database, &self.target.schema, &hidden], &self.alias)
    }

    /// The hidden row id.
    pub(crate) fn row_id(&self) -> Expr {
        build::field(&self.alias, ROWID_COLUMN)
    }

    /// What a SET list may call the table.
    pub(crate) fn names(&self) -> [&str; 2] {
        [&self.alias.value, &self.target.name]
    }
}

/// What OR REPLACE and IF NOT EXISTS mean together.
pub(crate) fn if_exists(or_replace: bool, if_not_exists: bool) -> Result<IfExists> {
    match (or_replace, if_not_exists) {
        (true, true) => Err(Error::plan("OR REPLACE and IF NOT EXISTS exclude each other")),
        (true, false) => Ok(IfExists::Replace),
        (false, true) => Ok(IfExists::Skip),
        (false, false) => Ok(IfExists::Fail),
    }
}
