//! What a node's database knows of the cluster, in schema `swingdb_cluster` of each node: how
//! tables are cut, and which changes of the cluster it has carried out.
//!
//! | table | rows |
//! |---|---|
//! | `tables` | for each table that was cut: its name and its [`Cut`] as JSON |
//! | `member` | what this node is in the cluster ([`Member`]); none: not known yet |
//! | `changes` | for each change of the cluster that this node has committed: number, coordinator |

use std::collections::BTreeMap;
use std::fmt;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, UInt64Type};
use serde::{Deserialize, Serialize};
use swingdb::Connection;
use swingdb::cutter::{first_words, split, words};

use crate::cut::{Cut, SCHEMA};
use crate::error::{Error, Result};

/// Statements that make the tables of schema `swingdb_cluster`.
pub const MADE_BY: &str = "CREATE SCHEMA IF NOT EXISTS swingdb_cluster;
    CREATE TABLE IF NOT EXISTS swingdb_cluster.tables (name VARCHAR PRIMARY KEY, cut VARCHAR);
    CREATE TABLE IF NOT EXISTS swingdb_cluster.changes (number UBIGINT PRIMARY KEY, \
     coordinator VARCHAR);
    CREATE TABLE IF NOT EXISTS swingdb_cluster.member (shards UBIGINT, copies UBIGINT, \
     shard UBIGINT, copy UBIGINT)";

/// What a node is in a cluster: one of the copies of one of its shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// How many shards the cluster has; 0: the node has left it.
    pub shards: u64,
    /// How many copies each has.
    pub copies: u64,
    /// The shard that the node has, from 0.
    pub shard: u64,
    /// Which of the copies, from 0.
    pub copy: u64,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shards, copies, shard, copy } = self;
        match (shards, copies) {
            (0, _) => f.write_str("no node of a cluster any more"),
            (_, 1) => write!(f, "number {} of {shards} nodes", shard + 1),
            _ => {
                write!(f, "copy {} of {copies} of shard {} of {shards}", copy + 1, shard + 1)
            }
        }
    }
}

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

/// What the node is in its cluster.
pub fn member(connection: &Connection) -> Result<Option<Member>> {
    if !knows(connection, "member")? {
        return Ok(None);
    }
    let sql = format!("SELECT shards, copies, shard, copy FROM {SCHEMA}.member");
    let all = rows(connection, &sql)?;
    let Some(first) = all.iter().find(|batch| batch.num_rows() > 0) else { return Ok(None) };
    let value = |column: usize| {
        first.column(column).as_primitive::<UInt64Type>().iter().next().flatten().unwrap_or(0)
    };
    let [shards, copies, shard, copy] = [0, 1, 2, 3].map(value);
    Ok(Some(Member { shards, copies, shard, copy }))
}

/// Who has begun the change of a number that a state shows; `None`: it shows none.
pub fn coordinator_of(connection: &Connection, number: u64) -> Result<Option<String>> {
    if !knows(connection, "changes")? {
        return Ok(None);
    }
    let sql = format!("SELECT coordinator FROM {SCHEMA}.changes WHERE number = {number}");
    Ok(texts(&rows(connection, &sql)?, 0)?.pop())
}

/// The statements that define views, macros and types; and all statements that make what there is,
/// without rows.
pub fn definitions(connection: &Connection) -> Result<(Vec<String>, Vec<String>)> {
    let all = connection.definitions()?;
    let is_wanted = |statement: &&str| {
        let words = first_words(statement, 4);
        let kind = words.iter().find(|word| !matches!(word.as_str(), "create" | "or" | "replace"));
        let kind = kind.map(String::as_str);
        matches!(kind, Some("view" | "macro" | "function" | "type"))
    };
    let script = split(&all.schema).all();
    let own = |statement: &&str| words(statement).all(|word| word.text.trim_matches('"') != SCHEMA);
    let texts = |some: Vec<&str>| some.into_iter().map(str::to_string).collect::<Vec<_>>();
    let definitions = texts(script.iter().copied().filter(is_wanted).collect());
    Ok((definitions, texts(script.into_iter().filter(own).collect())))
}
