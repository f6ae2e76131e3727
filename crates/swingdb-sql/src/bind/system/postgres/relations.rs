//! Schemas, tables, views and the rows of `pg_class`.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;

use crate::bind::system::constraints;
use crate::bind::system::objects::{Context, INFORMATION_SCHEMA_OID, Objects, PG_CATALOG, What};
use crate::bind::system::postgres::{BTREE, HEAP, OWNER, USER, is_key};
use crate::bind::system::rows::{Cell, Kind, Rows, cells};

use Cell::Null;
use Kind::{Big, Bool, Int, Real, Text, Texts};

pub(crate) fn namespace(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows =
        Rows::new(&[("oid", Big), ("nspname", Text), ("nspowner", Big), ("nspacl", Texts)]);
    for (oid, name) in [(PG_CATALOG, "pg_catalog"), (INFORMATION_SCHEMA_OID, "information_schema")]
    {
        rows.add(cells![oid, name, OWNER, Null]);
    }
    for (database, schema) in Objects::of(context)?.own_schemas() {
        let name = if database.temporary { "pg_temp" } else { schema.name.as_str() };
        rows.add(cells![schema.oid, name, OWNER, Null]);
    }
    rows.finish()
}

/// The columns of `pg_class`.
const CLASS_COLUMNS: &[(&str, Kind)] = &[
    ("oid", Big),
    ("relname", Text),
    ("relnamespace", Big),
    ("reltype", Big),
    ("reloftype", Big),
    ("relowner", Big),
    ("relam", Big),
    ("relfilenode", Big),
    ("reltablespace", Big),
    ("relpages", Big),
    ("reltuples", Real),
    ("relallvisible", Big),
    ("reltoastrelid", Big),
    ("relhasindex", Bool),
    ("relisshared", Bool),
    ("relpersistence", Text),
    ("relkind", Text),
    ("relnatts", Int),
    ("relchecks", Int),
    ("relhasoids", Bool),
    ("relhaspkey", Bool),
    ("relhasrules", Bool),
    ("relhastriggers", Bool),
    ("relhassubclass", Bool),
    ("relrowsecurity", Bool),
    ("relforcerowsecurity", Bool),
    ("relispopulated", Bool),
    ("relreplident", Text),
    ("relispartition", Bool),
    ("relrewrite", Big),
    ("relfrozenxid", Big),
    ("relminmxid", Big),
    ("relacl", Texts),
    ("reloptions", Texts),
    ("relpartbound", Text),
];

pub(crate) fn class(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let objects = Objects::of(context)?;
    let mut rows = Rows::new(CLASS_COLUMNS);
    let mut add = |of: &OneClass<'_>| rows.add(of.cells());
    add_relations(context, &objects, &mut add);
    for (database, schema) in objects.own_schemas() {
        for one in &schema.sequences {
            add(&OneClass {
                oid: one.oid,
                name: &one.sequence.name,
                schema: schema.oid,
                temporary: database.temporary,
                kind: "S",
                columns: 3,
                rows: 1,
                ..OneClass::default()
            });
        }
    }
    rows.finish()
}

/// Tables with their indexes, and views.
fn add_relations(context: &Context<'_>, objects: &Objects, add: &mut dyn FnMut(&OneClass<'_>)) {
    for (database, schema, relation) in objects.own_relations() {
        let empty = OneClass {
            oid: relation.oid,
            name: &relation.name,
            schema: schema.oid,
            temporary: database.temporary,
            ..OneClass::default()
        };
        match &relation.what {
            What::Table(table) => {
                let all = constraints::of(table);
                let primary = all.iter().any(|one| one.kind == constraints::Kind::Primary);
                let keys = all.iter().filter(|one| is_key(one.kind)).zip(0..).count();
                add(&OneClass {
                    kind: "r",
                    columns: table.columns().len(),
                    rows: i64::try_from(table.row_count()).unwrap_or(i64::MAX),
                    checks: table.checks().len(),
                    indexed: keys + relation.indexes.len() > 0,
                    primary,
                    ..empty
                });
                for (index, oid) in table.notes().indexes.iter().zip(&relation.indexes) {
                    let columns = index.on.len();
                    add(&OneClass { oid: *oid, name: &index.name, kind: "i", columns, ..empty });
                }
                for (one, oid) in all.iter().zip(&relation.constraints) {
                    if is_key(one.kind) {
                        let columns = one.columns.len();
                        add(&OneClass { oid: *oid, name: &one.name, kind: "i", columns, ..empty });
                    }
                }
            }
            What::View(_) | What::Registered => {
                let columns = context.columns(database, schema, relation);
                let columns = columns.map_or(0, |columns| columns.len());
                add(&OneClass { kind: "v", columns, ..empty });
            }
        }
    }
}

/// A row of `pg_class`.
#[derive(Clone, Copy, Default)]
struct OneClass<'a> {
    oid: i64,
    name: &'a str,
    schema: i64,
    temporary: bool,
    kind: &'a str,
    columns: usize,
    rows: i64,
    checks: usize,
    indexed: bool,
    primary: bool,
}

impl OneClass<'_> {
    fn cells(&self) -> Vec<Cell> {
        let of = self;
        let persistence = if of.temporary { "t" } else { "p" };
        cells![
            of.oid,
            of.name,
            of.schema,
            0i64,
            0i64,
            OWNER,
            match of.kind {
                "r" => HEAP,
                "i" => BTREE,
                _ => 0,
            },
            of.oid,
            0i64,
            Null,
            of.rows,
            0i64,
            0i64,
            of.indexed,
            false,
            persistence,
            of.kind,
            of.columns,
            of.checks,
            false,
            of.primary,
            false,
            false,
            false,
            false,
            false,
            true,
            "d",
            false,
            0i64,
            0i64,
            0i64,
            Null,
            Null,
            Null,
        ]
    }
}

pub(crate) fn tables(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("tablename", Text),
        ("tableowner", Text),
        ("tablespace", Text),
        ("hasindexes", Bool),
        ("hasrules", Bool),
        ("hastriggers", Bool),
        ("rowsecurity", Bool),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        if database.attached {
            continue;
        }
        let indexed = !relation.indexes.is_empty() || !table.constraints().is_empty();
        let name = &relation.name;
        rows.add(cells![&schema.name, name, USER, Null, indexed, false, false, false]);
    }
    rows.finish()
}

pub(crate) fn views(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("viewname", Text),
        ("viewowner", Text),
        ("definition", Text),
    ]);
    for (_, schema, relation) in Objects::of(context)?.own_relations() {
        match &relation.what {
            What::Table(_) => {}
            What::View(view) => {
                rows.add(cells![&schema.name, &relation.name, USER, &view.sql]);
            }
            What::Registered => rows.add(cells![&schema.name, &relation.name, USER, Null]),
        }
    }
    rows.finish()
}
