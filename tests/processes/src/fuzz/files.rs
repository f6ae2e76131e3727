//! Damaged Parquet, Arrow and JSON files: rows or an error, and a table as it was.

use std::sync::OnceLock;

use swingdb::io::{ExportOptions, ImportOptions};
use swingdb::{Database, Error};

use super::bytes::{Bytes, damage};
use crate::home::Home;

const NAMES: [&str; 5] = ["f.parquet", "f.arrow", "f.arrows", "f.json", "f.csv.gz"];
const COLUMNS: &str = "id BIGINT, s VARCHAR, x DOUBLE, l INT[], at TIMESTAMP, d DECIMAL(9, 2)";
const ROWS: &str = "SELECT i, CASE WHEN i % 3 > 0 THEN 'row ' || i END, i / 8.0, \
    [CAST(i AS INT), NULL], TIMESTAMP '2020-01-01 00:00:00', i * 0.25 FROM range(200) AS i";

/// Each format's file, as it is written.
fn intact() -> &'static Vec<Vec<u8>> {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let home = Home::new();
        let database = Database::private_in(home.path()).expect("a private database");
        let con = database.connect();
        con.query(&format!("CREATE TABLE t ({COLUMNS})")).expect("creating the table");
        con.query(&format!("INSERT INTO t {ROWS}")).expect("filling the table");
        let written = NAMES.iter().map(|name| {
            let file = home.path().join(name);
            let columns = if name.contains("csv") { "SELECT id, s, x FROM t" } else { "t" };
            con.export_file(columns, &file, ExportOptions::default()).expect("exporting");
            std::fs::read(&file).expect("reading the export")
        });
        written.collect()
    })
}

/// Damages a file and imports it, into a table that fits and into a new one.
pub fn files(input: &[u8]) {
    let mut bytes = Bytes::new(input);
    let kind = usize::from(bytes.byte()) % NAMES.len();
    let mut contents = intact()[kind].clone();
    damage(&mut contents, &mut bytes);
    let home = Home::new();
    let database = Database::private_in(home.path()).expect("a private database");
    let con = database.connect();
    con.query(&format!("CREATE TABLE t ({COLUMNS})")).expect("creating the table");
    con.query("INSERT INTO t (id) VALUES (-1)").expect("inserting");
    let file = home.path().join(NAMES[kind]);
    std::fs::write(&file, &contents).expect("writing the file");
    for (table, before) in [("t", 1), ("own", 0)] {
        let imported = con.import_file(&file, table, ImportOptions::default());
        let rows = match imported {
            Ok(report) => report.rows + before,
            Err(Error::Internal { message }) => panic!("an internal error: {message}"),
            Err(_) => before,
        };
        let found = con.query(&format!("SELECT * FROM {table}")).and_then(|r| r.collect());
        let found = found.map(|b| b.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
        match found {
            Ok(found) => assert_eq!(found, rows, "{table}"),
            Err(error) => assert!(table == "own", "{table}: {error}"),
        }
    }
}
