//! Databases, users, settings, ways of storing: what PostgreSQL has once for all databases.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;

use crate::bind::system::objects::{Context, Objects};
use crate::bind::system::postgres::{BTREE, HEAP, OWNER, USER};
use crate::bind::system::rows::{Cell, Kind, Rows, cells};
use crate::options::shown;

use Cell::Null;
use Kind::{Big, Bool, Int, Text, Texts};

/// The number of the one place for tables, as in PostgreSQL.
const TABLESPACE: i64 = 1663;

pub(crate) fn tablespaces(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("spcname", Text),
        ("spcowner", Big),
        ("spcacl", Texts),
        ("spcoptions", Texts),
    ]);
    rows.add(cells![TABLESPACE, "pg_default", OWNER, Null, Null]);
    rows.finish()
}

pub(crate) fn database(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("datname", Text),
        ("datdba", Big),
        ("encoding", Int),
        ("datlocprovider", Text),
        ("datistemplate", Bool),
        ("datallowconn", Bool),
        ("datconnlimit", Int),
        ("dattablespace", Big),
        ("datcollate", Text),
        ("datctype", Text),
        ("datacl", Texts),
        ("daticulocale", Text),
    ]);
    for database in Objects::of(context)?.0.iter().filter(|database| !database.temporary) {
        let (oid, name) = (database.oid, &database.name);
        rows.add(cells![
            oid, name, OWNER, 6i64, "c", false, true, -1i64, TABLESPACE, "C", "C", Null, Null
        ]);
    }
    rows.finish()
}

pub(crate) fn settings(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("name", Text),
        ("setting", Text),
        ("short_desc", Text),
        ("vartype", Text),
        ("unit", Text),
        ("category", Text),
        ("context", Text),
        ("source", Text),
    ]);
    for (name, value) in shown::all(context.state) {
        let kind = match shown::input_type(&name) {
            "BIGINT" => "integer",
            "BOOLEAN" => "bool",
            _ => "string",
        };
        rows.add(cells![name, value, Null, kind, Null, Null, "user", "session"]);
    }
    rows.finish()
}

pub(crate) fn roles(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("rolname", Text),
        ("rolsuper", Bool),
        ("rolinherit", Bool),
        ("rolcreaterole", Bool),
        ("rolcreatedb", Bool),
        ("rolcanlogin", Bool),
        ("rolreplication", Bool),
        ("rolconnlimit", Int),
        ("rolvaliduntil", Text),
        ("rolbypassrls", Bool),
    ]);
    rows.add(cells![OWNER, USER, true, true, false, false, true, false, -1i64, Null, false]);
    rows.finish()
}

pub(crate) fn users(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("usename", Text),
        ("usesysid", Big),
        ("usecreatedb", Bool),
        ("usesuper", Bool),
    ]);
    rows.add(cells![USER, OWNER, false, true]);
    rows.finish()
}

pub(crate) fn access_methods(_: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows =
        Rows::new(&[("oid", Big), ("amname", Text), ("amhandler", Text), ("amtype", Text)]);
    rows.add(cells![HEAP, "heap", Null, "t"]);
    rows.add(cells![BTREE, "btree", Null, "i"]);
    rows.finish()
}
