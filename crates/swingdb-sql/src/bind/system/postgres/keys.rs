//! Indexes and constraints.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use swingdb_common::error::Result;
use swingdb_store::{ForeignKey, Table};

use crate::ast::create::{create_index, quoted};
use crate::ast::names::SCHEMA;
use crate::bind::system::constraints;
use crate::bind::system::objects::{Context, Database, Objects, Relation};
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
    ("indoption", Text),
    ("indexprs", Text),
    ("indpred", Text),
];

pub(crate) fn index(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
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
            zeros,
            // Clients read this one as a text.
            vec!["0"; count].join(" "),
            Null,
            Null,
        ]);
    };
    for (database, _, relation, table) in objects.tables() {
        if database.attached {
            continue;
        }
        // Of an expression the number of the column is 0.
        let number = |column: Option<usize>| column.map_or(0, |at| at as i64 + 1);
        let all = constraints::of(table);
        for (oid, columns) in columns_of_indexes(relation, table) {
            let columns = columns.into_iter().map(number).collect();
            let key = relation.constraints.iter().zip(&all).find(|(of, _)| **of == oid);
            let mut indexes = relation.indexes.iter().zip(&table.notes().indexes);
            let unique = indexes.any(|(of, index)| *of == oid && index.unique);
            let primary = key.is_some_and(|(_, key)| key.kind == constraints::Kind::Primary);
            add(oid, relation.oid, columns, unique || key.is_some(), primary);
        }
    }
    rows.finish()
}

/// The number of each index of a table, also of those that its keys have in PostgreSQL, and the
/// columns that it is on; `None`: an expression.
pub(super) fn columns_of_indexes(
    relation: &Relation,
    table: &Table,
) -> Vec<(i64, Vec<Option<usize>>)> {
    let all = constraints::of(table);
    let keys = relation.constraints.iter().zip(&all).filter(|(_, one)| is_key(one.kind));
    let of_keys = keys.map(|(oid, one)| (*oid, one.columns.iter().copied().map(Some).collect()));
    // An index keeps the texts of what it is on, in its own order.
    let column = |on: &String| {
        let is_named = |name: &str| *on == quoted(name) || on.eq_ignore_ascii_case(name);
        table.columns().iter().position(|column| is_named(&column.name))
    };
    let indexes = relation.indexes.iter().zip(&table.notes().indexes);
    let of_indexes = indexes.map(|(oid, index)| (*oid, index.on.iter().map(column).collect()));
    of_keys.chain(of_indexes).collect()
}

pub(crate) fn indexes(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
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

pub(crate) fn constraint(context: &Context<'_>) -> Result<Arc<dyn TableProvider>> {
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
