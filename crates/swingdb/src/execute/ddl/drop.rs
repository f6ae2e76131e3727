//! DROP TABLE, DROP VIEW, DROP SCHEMA.
//!
//! Views keep the text of their query; dropping a table that a view reads makes the view fail when
//! it is used next, as in DuckDB. CASCADE matters for schemas only.

use datafusion::sql::sqlparser::ast::ObjectName;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::ast::names::find_name;
use swingdb_store::Catalog;

use crate::execute::atomic::{Outcome, with_txn};
use crate::execute::ddl::create::{is_default_schema, schema_name};
use crate::execute::target::{QualifiedName, place, unknown_table};
use crate::session::Session;

/// DROP TABLE.
pub(crate) fn tables(session: &Session, names: &[ObjectName], if_exists: bool) -> Result<Outcome> {
    each(session, names, if_exists, "DROP TABLE", |txn, place| {
        let catalog = txn.view();
        match catalog.find_table(&place.schema, &place.name)? {
            Some(name) => txn.drop_table(&place.schema, &name),
            None if is_view(&catalog, place) => {
                Err(Error::plan(format!("{:?} is a view; use DROP VIEW", place.shown())))
            }
            None => Err(unknown_table(&catalog, place)),
        }
    })
}

/// DROP VIEW.
pub(crate) fn views(session: &Session, names: &[ObjectName], if_exists: bool) -> Result<Outcome> {
    each(session, names, if_exists, "DROP VIEW", |txn, place| {
        let catalog = txn.view();
        let views = catalog.view_names(&place.schema);
        match find_name(&views, &place.name) {
            Some(name) => txn.drop_view(&place.schema, &name),
            None if catalog.find_table(&place.schema, &place.name)?.is_some() => {
                Err(Error::plan(format!("{:?} is a table; use DROP TABLE", place.shown())))
            }
            None => Err(Error::not_found(ObjectKind::View, place.shown(), views)),
        }
    })
}

/// DROP SCHEMA.
pub(crate) fn schemas(
    session: &Session,
    names: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    with_txn(session, |txn| {
        for name in names {
            let wanted = schema_name(name)?;
            if is_default_schema(&wanted) {
                return Err(Error::plan("schema \"main\" cannot be dropped"));
            }
            let known = txn.view().schema_names();
            match find_name(&known, &wanted) {
                Some(name) => txn.drop_schema(&name, cascade)?,
                None if if_exists => {}
                None => return Err(Error::not_found(ObjectKind::Schema, wanted, known)),
            }
        }
        Ok(Outcome::done("DROP SCHEMA"))
    })
}

fn is_view(catalog: &Catalog, place: &QualifiedName) -> bool {
    find_name(&catalog.view_names(&place.schema), &place.name).is_some()
}

fn each(
    session: &Session,
    names: &[ObjectName],
    if_exists: bool,
    tag: &'static str,
    mut remove: impl FnMut(&mut swingdb_store::WriteTxn, &QualifiedName) -> Result<()>,
) -> Result<Outcome> {
    with_txn(session, |txn| {
        for name in names {
            let done = place(session, &txn.view(), name).and_then(|place| remove(txn, &place));
            match done {
                Err(Error::NotFound { .. }) if if_exists => {}
                other => other?,
            }
        }
        Ok(Outcome::done(tag))
    })
}
