//! What a database really holds, in the model's form.

use std::collections::BTreeMap;

use swingdb::arrow::array::{Array, AsArray};
use swingdb::arrow::datatypes::Int64Type;
use swingdb::{Connection, Database, Error, Result};

use crate::model::{Row, State};

/// Reads both tables completely.
pub fn read(database: &Database) -> Result<State> {
    let con = database.connect();
    let u = match rows(&con, "u") {
        Ok(rows) => Some(rows),
        Err(Error::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    let t = match rows(&con, "t") {
        // A child may die before it has made the first table.
        Err(Error::NotFound { .. }) => BTreeMap::new(),
        other => other?,
    };
    Ok(State { t, u })
}

fn rows(con: &Connection, table: &str) -> Result<BTreeMap<i64, Row>> {
    let mut found = BTreeMap::new();
    for batch in con.query(&format!("SELECT id, v, CAST(s AS VARCHAR) AS s FROM {table}"))? {
        let batch = batch?;
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let numbers = batch.column(1).as_primitive::<Int64Type>();
        let strings = swingdb::arrow::compute::cast(
            batch.column(2),
            &swingdb::arrow::datatypes::DataType::Utf8,
        )
        .map_err(Error::from)?;
        let texts = strings.as_string::<i32>();
        for i in 0..batch.num_rows() {
            let number = numbers.is_valid(i).then(|| numbers.value(i));
            let text = texts.is_valid(i).then(|| texts.value(i).to_string());
            let before = found.insert(ids.value(i), (number, text));
            assert!(before.is_none(), "key {} is in {table} twice", ids.value(i));
        }
    }
    Ok(found)
}

/// The first difference between two states, for the message of a failing test.
pub fn difference(found: &State, expected: &State) -> String {
    let sizes = format!("{} rows for {}", found.t.len(), expected.t.len());
    let missing = expected.t.iter().find(|(id, row)| found.t.get(id) != Some(row));
    let extra = found.t.keys().find(|id| !expected.t.contains_key(id));
    let u = if found.u == expected.u { "" } else { ", u differs" };
    format!("{sizes}, first missing or different {missing:?}, first extra {extra:?}{u}")
}
