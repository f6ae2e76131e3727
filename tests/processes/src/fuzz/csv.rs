//! Text taken for CSV: rows or an error with a line, however it is cut into pieces; which of
//! several bad lines is named may depend on the pieces.

use std::path::Path;

use swingdb::arrow::array::RecordBatch;
use swingdb::io::{FileFormat, ImportOptions};
use swingdb::{Connection, Database, Error, Result};

use super::bytes::Bytes;
use crate::home::Home;

const TABLES: [&str; 3] = [
    "CREATE TABLE t (a VARCHAR, b VARCHAR)",
    "CREATE TABLE t (a BIGINT, b DOUBLE, c DATE)",
    "CREATE TABLE t (a INT NOT NULL, b VARCHAR DEFAULT 'x', c TIMESTAMP, d DECIMAL(6, 2))",
];
/// Pieces a file is cut into, in bytes.
const BLOCKS: [Option<usize>; 4] = [None, Some(1), Some(7), Some(64)];

/// What importing gives: rows and the table, or an error.
#[derive(Debug, PartialEq)]
enum Outcome {
    Rows(u64, Vec<RecordBatch>),
    Failed,
}

/// Imports the bytes into tables, cut in several ways, and compares.
pub fn csv(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let mut options = ImportOptions { format: Some(FileFormat::Csv), ..Default::default() };
    let flags = bytes.byte();
    options.header = [None, Some(true), Some(false), None][usize::from(flags & 3)];
    if flags & 4 != 0 {
        options.delimiter = Some((*bytes.pick(b",;|\t a")).into());
    }
    if flags & 8 != 0 {
        options.quote = Some([None, Some(b'"'), Some(b'\'')][usize::from(flags % 3)]);
    }
    let create = TABLES[usize::from(bytes.byte()) % TABLES.len()];
    let home = Home::new();
    let database = Database::private_in(home.path()).expect("a private database");
    let con = database.connect();
    con.query(create).expect("creating the table");
    let file = home.path().join("f.csv");
    std::fs::write(&file, bytes.rest()).expect("writing the file");
    let lines = 2 + bytes.rest().iter().filter(|b| **b == b'\n' || **b == b'\r').count() as u64;
    let mut first = None;
    for block_bytes in BLOCKS {
        let options = ImportOptions { block_bytes, ..options.clone() };
        let outcome = import(&con, &file, options, lines);
        match &first {
            None => first = Some(outcome),
            Some(first) => assert_eq!(*first, outcome, "in blocks of {block_bytes:?}"),
        }
        con.query("DELETE FROM t").expect("emptying the table");
    }
    // A table of its own, or an error; and never the columns of another call.
    let _ = typed(con.import_file(&file, "own", options));
}

fn import(con: &Connection, file: &Path, options: ImportOptions, lines: u64) -> Outcome {
    let report = typed(con.import_file(file, "t", options));
    let table = || con.query("SELECT * FROM t").and_then(|result| result.collect());
    match report {
        Ok(report) => {
            let rows = table().expect("reading the table");
            assert_eq!(report.rows, rows.iter().map(|b| b.num_rows() as u64).sum::<u64>());
            let schema = rows.first().map(|batch| batch.schema());
            let whole = schema.map(|schema| {
                swingdb::arrow::compute::concat_batches(&schema, &rows).expect("one schema")
            });
            Outcome::Rows(report.rows, whole.into_iter().collect())
        }
        Err(error) => {
            let rows: usize = table().expect("reading").iter().map(|b| b.num_rows()).sum();
            assert_eq!(rows, 0, "a failed import left rows: {error}");
            if let Error::Import { line: Some(line), .. } = error {
                assert!((1..=lines).contains(&line), "line {line} of {lines}");
            }
            Outcome::Failed
        }
    }
}

/// Errors must be of a kind that tells what is wrong with the file.
fn typed<T>(result: Result<T>) -> Result<T> {
    if let Err(Error::Internal { message }) = &result {
        panic!("an internal error: {message}");
    }
    result
}
