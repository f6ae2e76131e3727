//! Indexes and constraints.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;
use swingdb_store::ForeignKey;

use crate::ast::create::create_index;
use crate::ast::names::SCHEMA;
use crate::bind::system::constraints;
use crate::bind::system::objects::{Context, Database, Objects};
use crate::bind::system::postgres::is_key;
use crate::bind::system::rows::{Cell, Kind, Rows, cells};

use Cell::Null;
use Kind::{Big, Bigs, Bool, Int, Text};

/// The columns of `pg_index`.
const INDEX_COLUMNS: &[(&str, Kind)] = &[
    ("indexrelid", Big),
    ("indrelid", Big),
    ("indnatts", Int),
    ("indnkeyatts", Int),
    ("indisunique", Bool),
    ("indnullsnotdistinct", Bool),
    ("indisprimary", Bool),
    ("indisexclusion", Bool),
    ("indimmediate", Bool),
    ("indisclustered", Bool),
    ("indisvalid", Bool),
    ("indcheckxmin", Bool),
    ("indisready", Bool),
    ("indislive", Bool),
    ("indisreplident", Bool),
    ("indkey", Bigs),
    ("indcollation", Bigs),
    ("indclass", Bigs),
    ("indoption", Bigs),
    ("indexprs", Text),
    ("indpred", Text),
];

pub(in crate::bind::system) fn index(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(INDEX_COLUMNS);
    let objects = Objects::of(context)?;
    let mut add = |oid: i64, table: i64, columns: Vec<i64>, unique: bool, primary: bool| {
        let (count, zeros) = (columns.len(), vec![0; columns.len()]);
        rows.add(cells![
            oid,
            table,
            count,
            count,
            unique,
            false,
            primary,
            false,
            true,
            false,
            true,
            false,
            true,
            true,
            false,
            columns,
            zeros.clone(),
            zeros.clone(),
            zeros,
            Null,
            Null,
        ]);
    };
    for (database, _, relation, table) in objects.tables() {
        if database.attached {
            continue;
        }
        let numbers = |columns: &[usize]| columns.iter().map(|at| *at as i64 + 1).collect();
        for (one, oid) in constraints::of(table).iter().zip(&relation.constraints) {
            let primary = one.kind == constraints::Kind::Primary;
            if is_key(one.kind) {
                add(*oid, relation.oid, numbers(&one.columns), true, primary);
            }
        }
        for (index, oid) in table.notes().indexes.iter().zip(&relation.indexes) {
            // Of an expression the number of the column is 0.
            let columns = match index.columns.len() == index.on.len() {
                true => numbers(&index.columns),
                false => vec![0; index.on.len()],
            };
            add(*oid, relation.oid, columns, index.unique, false);
        }
    }
    rows.finish()
}

pub(in crate::bind::system) fn indexes(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("schemaname", Text),
        ("tablename", Text),
        ("indexname", Text),
        ("tablespace", Text),
        ("indexdef", Text),
    ]);
    for (database, schema, relation, table) in Objects::of(context)?.tables() {
        if database.attached {
            continue;
        }
        for index in &table.notes().indexes {
            let on = Some(schema.name.as_str()).filter(|name| *name != SCHEMA);
            let text = create_index(on, table.name(), index);
            rows.add(cells![&schema.name, &relation.name, &index.name, Null, text]);
        }
    }
    rows.finish()
}

/// The number of the parent of a foreign key, and those of the key's columns there.
fn parent_of(objects: &Objects, database: &Database, key: &ForeignKey) -> Option<(i64, Vec<i64>)> {
    let (_, _, relation, table) = objects.tables().find(|(of, schema, relation, _)| {
        of.name == database.name && schema.name == key.schema && relation.name == key.table
    })?;
    let columns = key.keys.iter().filter_map(|name| table.column_index(name));
    Some((relation.oid, columns.map(|at| at as i64 + 1).collect()))
}

pub(in crate::bind::system) fn constraint(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
    let mut rows = Rows::new(&[
        ("oid", Big),
        ("conname", Text),
        ("connamespace", Big),
        ("contype", Text),
        ("condeferrable", Bool),
        ("condeferred", Bool),
        ("convalidated", Bool),
        ("conrelid", Big),
        ("contypid", Big),
        ("conindid", Big),
        ("conparentid", Big),
        ("confrelid", Big),
        ("confupdtype", Text),
        ("confdeltype", Text),
        ("confmatchtype", Text),
        ("conislocal", Bool),
        ("coninhcount", Int),
        ("connoinherit", Bool),
        ("conkey", Bigs),
        ("confkey", Bigs),
        ("conbin", Text),
    ]);
    let objects = Objects::of(context)?;
    for (database, schema, relation, table) in objects.tables() {
        if database.attached {
            continue;
        }
        for (one, oid) in constraints::of(table).into_iter().zip(&relation.constraints) {
            let columns: Vec<i64> = one.columns.iter().map(|at| *at as i64 + 1).collect();
            let index = if is_key(one.kind) { *oid } else { 0 };
            let (parent, keys) =
                match one.references.as_ref().and_then(|key| parent_of(&objects, database, key)) {
                    Some((oid, keys)) => (oid, Cell::Numbers(keys)),
                    None => (0, Null),
                };
            let letter = |of: &'static str| if parent == 0 { " " } else { of };
            rows.add(cells![
                *oid,
                one.name,
                schema.oid,
                one.kind.letter(),
                false,
                false,
                true,
                relation.oid,
                0i64,
                index,
                0i64,
                parent,
                letter("a"),
                letter("a"),
                letter("s"),
                true,
                0i64,
                true,
                columns,
                keys,
                one.expression,
            ]);
        }
    }
    rows.finish()
}
