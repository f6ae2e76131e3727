//! Statements that list what there is: `DESCRIBE`, `duckdb_tables()`, `information_schema`,
//! `pg_catalog`. `SHOW TABLES`, which counts rows, is the coordinator's.
//!
//! They are answered from a database of the session's own that has all definitions of the cluster,
//! and no rows. It is made with the first such statement of a state.

use std::sync::Arc;

use swingdb::cutter::words;
use swingdb::{Connection, Database};

use crate::client::Told;
use crate::error::Result;
use crate::names::{is_same, name_of};
use crate::session::State;

/// Functions and schemas of definitions. Others, as `duckdb_settings()`, are about the session.
const LISTINGS: [&str; 11] = [
    "information_schema",
    "duckdb_columns",
    "duckdb_constraints",
    "duckdb_indexes",
    "duckdb_schemas",
    "duckdb_sequences",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_views",
    "col_description",
    "obj_description",
];
/// What SHOW shows of them, without rows.
const SHOWN: [&str; 5] = ["columns", "create", "views", "macros", "indexes"];

/// A database with the definitions of a state.
pub(crate) struct Listing {
    of: Arc<Told>,
    connection: Connection,
}

impl Listing {
    /// Makes all that a state has.
    pub(crate) fn of(told: &Arc<Told>) -> Result<Self> {
        let connection = Database::private()?.connect();
        for statement in &told.script {
            // One that cannot be made is not listed.
            let _ = connection.query(statement);
        }
        connection.set_read_only("this is a session on a cluster");
        Ok(Self { of: Arc::clone(told), connection })
    }

    /// Whether it has what a state has.
    pub(crate) fn is_of(&self, told: &Arc<Told>) -> bool {
        Arc::ptr_eq(&self.of, told)
    }

    /// A session on it.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// Whether a statement lists definitions, and reads no table or view of the cluster.
pub(crate) fn is_listing(sql: &str, state: &State) -> bool {
    let all = words(sql).collect::<Vec<_>>();
    let word = |nth: usize| all.get(nth).map_or("", |word| word.text).to_lowercase();
    // A view has rows of tables. One with a column like `pg_x` lists nothing.
    let has_rows = |name: &str| state.table(name).is_some() || state.defines(name);
    match word(0).as_str() {
        "describe" | "desc" => all.get(1).and_then(name_of).is_some(),
        "show" => SHOWN.contains(&word(1).as_str()),
        "pragma" => word(1).starts_with("table_info") || word(1).starts_with("show"),
        "select" | "from" | "with" | "(" | "values" => {
            let names = || all.iter().filter_map(name_of);
            let lists = |name: &String| {
                name.to_lowercase().starts_with("pg_") || LISTINGS.iter().any(|l| is_same(l, name))
            };
            names().any(|name| lists(&name)) && !names().any(|name| has_rows(&name))
        }
        _ => false,
    }
}
