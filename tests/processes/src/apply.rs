//! Does the model's changes to a real database.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use swingdb::Connection;
use swingdb::arrow::array::{Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use swingdb::arrow::datatypes::{DataType, Field, Schema};

use crate::model::{self, Change};

/// What can go wrong in a child is for the test to read.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The table that all changes are about.
pub const CREATE: &str =
    "CREATE TABLE IF NOT EXISTS t (id BIGINT PRIMARY KEY, v BIGINT, s VARCHAR)";

/// Writes the file that an import will read.
pub fn prepare(change: &Change, csv: &Path) -> Outcome {
    match change {
        Change::Import { first, rows } => {
            write_csv(&csv.with_extension(first.to_string()), *first, *rows)
        }
        Change::Transaction(several) | Change::RolledBack(several) => {
            several.iter().try_for_each(|change| prepare(change, csv))
        }
        _ => Ok(()),
    }
}

fn write_csv(path: &Path, first: i64, rows: i64) -> Outcome {
    let mut text = String::from("id,v,s\n");
    for id in first..first + rows {
        let (v, s) = model::row(id);
        let v = v.map(|v| v.to_string()).unwrap_or_default();
        text.push_str(&format!("{id},{v},{}\n", s.unwrap_or_default()));
    }
    Ok(std::fs::write(path, text)?)
}

/// Does to the database what [`model::State::apply`] does to the model.
pub fn apply(con: &Connection, change: &Change, csv: &Path) -> Outcome {
    match change {
        Change::Insert { first, rows } => insert(con, *first, *rows)?,
        Change::Append { first, rows } => append(con, *first, *rows)?,
        Change::Import { first, .. } => {
            let file = csv.with_extension(first.to_string());
            let sql = format!("COPY t FROM '{}' (FORMAT CSV, HEADER true)", file.display());
            con.query(&sql)?;
            std::fs::remove_file(file)?;
        }
        Change::Update { add, modulus, remainder } => {
            let which = format!("id % {modulus} = {remainder}");
            con.query(&format!("UPDATE t SET v = v + ({add}) WHERE {which}"))?;
        }
        Change::Delete { modulus, remainder } => {
            con.query(&format!("DELETE FROM t WHERE id % {modulus} = {remainder}"))?;
        }
        Change::Forget { below } => {
            con.query(&format!("DELETE FROM t WHERE id < {below}"))?;
        }
        Change::Transaction(several) => {
            con.begin()?;
            several.iter().try_for_each(|change| apply(con, change, csv))?;
            con.commit()?;
        }
        Change::RolledBack(several) => {
            con.begin()?;
            several.iter().try_for_each(|change| apply(con, change, csv))?;
            con.rollback()?;
        }
        Change::Duplicate { first, rows } => duplicate(con, *first, *rows)?,
        Change::Derive { modulus } => {
            let some = format!("SELECT id, v, s FROM t WHERE id % {modulus} = 0");
            con.query(&format!("CREATE OR REPLACE TABLE u AS {some}"))?;
        }
        Change::Alter => {
            con.begin()?;
            con.query("ALTER TABLE t ADD COLUMN extra DOUBLE DEFAULT 1.5")?;
            con.query("ALTER TABLE t DROP COLUMN extra")?;
            con.commit()?;
        }
    }
    Ok(())
}

/// The rows of the model as a batch.
fn batch(first: i64, rows: i64) -> Outcome<RecordBatch> {
    let (ids, others): (Vec<i64>, Vec<model::Row>) =
        (first..first + rows).map(|id| (id, model::row(id))).unzip();
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("v", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
    ]);
    let numbers = Int64Array::from_iter(others.iter().map(|(v, _)| *v));
    let texts = StringArray::from_iter(others.iter().map(|(_, s)| s.as_deref()));
    let columns: Vec<swingdb::arrow::array::ArrayRef> =
        vec![Arc::new(Int64Array::from(ids)), Arc::new(numbers), Arc::new(texts)];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

/// Appends rows of the model as an Arrow batch.
pub fn append(con: &Connection, first: i64, rows: i64) -> Outcome {
    let batch = batch(first, rows)?;
    let schema = batch.schema();
    con.append("t", RecordBatchIterator::new([Ok(batch)], schema))?;
    Ok(())
}

fn insert(con: &Connection, first: i64, rows: i64) -> Outcome {
    let batch = batch(first, rows)?;
    con.register("fresh", batch.schema(), vec![batch])?;
    con.query("INSERT INTO t (s, id, v) SELECT s, id, v FROM fresh")?;
    con.deregister("fresh");
    Ok(())
}

/// Rows of which the last repeats the key of the first: must fail and change nothing.
fn duplicate(con: &Connection, first: i64, rows: i64) -> Outcome {
    let (good, again) = (batch(first, rows)?, batch(first, 1)?);
    let schema = good.schema();
    match con.append("t", RecordBatchIterator::new([Ok(good), Ok(again)], schema)) {
        Err(swingdb::Error::Constraint { .. }) => Ok(()),
        Err(other) => Err(other.into()),
        Ok(rows) => Err(format!("{rows} rows with a repeated key were taken").into()),
    }
}
