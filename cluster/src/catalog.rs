//! What a node's database knows of the cluster, in schema `swingdb_cluster` of each node: how
//! tables are cut, and which changes of the cluster it has carried out.
//!
//! | table | rows |
//! |---|---|
//! | `tables` | for each table that was cut: its name and its [`Cut`] as JSON |
//! | `place` | how many nodes the cluster has, and which of them this one is; none: not known yet |
//! | `changes` | for each change of the whole cluster that this node has committed: its number |

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, UInt64Type};
use swingdb::Connection;
use swingdb::cutter::{first_words, split};

use crate::cut::{Cut, SCHEMA};
use crate::error::{Error, Result};

/// Statements that make the tables of schema `swingdb_cluster`.
pub const MADE_BY: &str = "CREATE SCHEMA IF NOT EXISTS swingdb_cluster;
    CREATE TABLE IF NOT EXISTS swingdb_cluster.tables (name VARCHAR PRIMARY KEY, cut VARCHAR);
    CREATE TABLE IF NOT EXISTS swingdb_cluster.changes (number UBIGINT PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS swingdb_cluster.place (nodes UBIGINT, place UBIGINT)";

/// The rows of a query.
pub fn rows(connection: &Connection, sql: &str) -> Result<Vec<RecordBatch>> {
    Ok(connection.query(sql)?.collect()?)
}

/// A column of texts.
pub fn texts(batches: &[RecordBatch], column: usize) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for batch in batches {
        let texts = arrow::compute::cast(batch.column(column), &DataType::Utf8)?;
        all.extend(texts.as_string::<i32>().iter().map(|text| text.unwrap_or("").to_string()));
    }
    Ok(all)
}

fn knows(connection: &Connection, table: &str) -> Result<bool> {
    let name = format!("{SCHEMA}.{table}");
    Ok(connection.tables()?.contains(&name))
}

/// The tables of schema `main`, without views.
pub fn tables(connection: &Connection) -> Result<Vec<String>> {
    let all = rows(
        connection,
        "SELECT table_name FROM information_schema.tables \
         WHERE table_schema = 'main' AND table_type = 'BASE TABLE' ORDER BY 1",
    )?;
    texts(&all, 0)
}

/// How tables are cut.
pub fn cuts(connection: &Connection) -> Result<BTreeMap<String, Cut>> {
    if !knows(connection, "tables")? {
        return Ok(BTreeMap::new());
    }
    let all = rows(connection, &format!("SELECT name, cut FROM {SCHEMA}.tables"))?;
    let (names, cuts) = (texts(&all, 0)?, texts(&all, 1)?);
    let read = names.into_iter().zip(cuts).map(|(name, cut)| {
        let cut = serde_json::from_str(&cut).map_err(|error| Error::Table {
            table: name.clone(),
            message: format!("its cut cannot be read: {error}"),
        })?;
        Ok((name, cut))
    });
    read.collect()
}

/// The last change of the cluster that a state shows; 0: none.
pub fn change(connection: &Connection) -> Result<u64> {
    if !knows(connection, "changes")? {
        return Ok(0);
    }
    let all = rows(connection, &format!("SELECT max(number)::UBIGINT FROM {SCHEMA}.changes"))?;
    let last = all.first().map(|batch| batch.column(0).as_primitive::<UInt64Type>());
    Ok(last.and_then(|numbers| numbers.iter().next().flatten()).unwrap_or(0))
}

/// How many nodes the cluster has, and which of them this one is.
pub fn place(connection: &Connection) -> Result<Option<(u64, u64)>> {
    if !knows(connection, "place")? {
        return Ok(None);
    }
    let all = rows(connection, &format!("SELECT nodes, place FROM {SCHEMA}.place"))?;
    let first = all.iter().find(|batch| batch.num_rows() > 0);
    let value = |batch: &RecordBatch, column: usize| {
        batch.column(column).as_primitive::<UInt64Type>().iter().next().flatten()
    };
    Ok(first.and_then(|batch| Some((value(batch, 0)?, value(batch, 1)?))))
}

/// Whether a state shows a change.
pub fn has_change(connection: &Connection, number: u64) -> Result<bool> {
    if !knows(connection, "changes")? {
        return Ok(false);
    }
    let sql = format!("SELECT 1 FROM {SCHEMA}.changes WHERE number = {number}");
    Ok(rows(connection, &sql)?.iter().any(|batch| batch.num_rows() > 0))
}

/// The statements that define views, macros and types.
pub fn definitions(connection: &Connection) -> Result<Vec<String>> {
    let all = connection.definitions()?;
    let is_wanted = |statement: &&str| {
        let words = first_words(statement, 4);
        let kind = words.iter().find(|word| !matches!(word.as_str(), "create" | "or" | "replace"));
        let kind = kind.map(String::as_str);
        matches!(kind, Some("view" | "macro" | "function" | "type"))
    };
    Ok(split(&all.schema).all().into_iter().filter(is_wanted).map(str::to_string).collect())
}
