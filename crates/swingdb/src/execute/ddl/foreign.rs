//! FOREIGN KEY and REFERENCES of CREATE TABLE. Their other clauses are refused before, by
//! `text::clauses` of `swingdb-sql`.

use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, ForeignKeyConstraint, Ident, TableConstraint,
};
use swingdb_common::error::{Error, Result};
use swingdb_store::{ColumnDef, Constraint, ForeignKey, WriteTxn};

use crate::execute::ddl::column_defs::find_columns;
use crate::execute::target::{QualifiedName, find_table, place, unknown_table};
use crate::session::Session;

/// What a table that is being defined is made of.
pub(crate) struct Own<'a> {
    pub(crate) place: &'a QualifiedName,
    pub(crate) columns: &'a [ColumnDef],
    pub(crate) constraints: &'a [Constraint],
}

/// The foreign keys of a CREATE TABLE: those of columns first.
pub(crate) fn keys(
    session: &Session,
    txn: &WriteTxn,
    own: &Own<'_>,
    create: &CreateTable,
) -> Result<Vec<ForeignKey>> {
    let mut all = Vec::new();
    for column in &create.columns {
        for option in &column.options {
            if let ColumnOption::ForeignKey(key) = &option.option {
                let columns = find_columns(own.columns, std::slice::from_ref(&column.name.value))?;
                all.push(one(session, txn, own, columns, key)?);
            }
        }
    }
    for constraint in &create.constraints {
        if let TableConstraint::ForeignKey(key) = constraint {
            let columns = find_columns(own.columns, &names(&key.columns))?;
            all.push(one(session, txn, own, columns, key)?);
        }
    }
    Ok(all)
}

fn names(idents: &[Ident]) -> Vec<String> {
    idents.iter().map(|ident| ident.value.clone()).collect()
}

fn one(
    session: &Session,
    txn: &WriteTxn,
    own: &Own<'_>,
    columns: Vec<usize>,
    key: &ForeignKeyConstraint,
) -> Result<ForeignKey> {
    let catalog = txn.view();
    let of = place(session, &catalog, &key.foreign_table)?;
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let is_own = same(&of.schema, &own.place.schema) && same(&of.name, &own.place.name);
    let found = if is_own { None } else { find_table(&catalog, &of)? };
    let (parent, known, constraints) = match &found {
        _ if is_own => (own.place.name.clone(), own.columns, own.constraints),
        Some(found) => (found.name.clone(), found.table.columns(), found.table.constraints()),
        None => return Err(unknown_table(&catalog, &of)),
    };
    let keys = match key.referred_columns.as_slice() {
        [] => {
            let primary = constraints.iter().find(|key| matches!(key, Constraint::Primary(_)));
            let primary = primary.ok_or_else(|| {
                Error::plan(format!(
                    "FOREIGN KEY: table {parent:?} has no PRIMARY KEY; name the columns of a key"
                ))
            })?;
            primary.columns().to_vec()
        }
        named => find_columns(known, &names(named))?,
    };
    if keys.len() != columns.len() {
        return Err(Error::plan(format!(
            "a FOREIGN KEY of {} columns that refers to {}",
            columns.len(),
            keys.len()
        )));
    }
    let keys = keys.iter().map(|at| known[*at].name.clone()).collect();
    Ok(ForeignKey { columns, schema: of.schema, table: parent, keys })
}
