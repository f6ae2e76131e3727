//! What the tests share: a private database, and rows as texts.

#![allow(dead_code, reason = "each test program uses a part")]

use swingdb::arrow::array::{Array, RecordBatch};
use swingdb::arrow::compute::concat_batches;
use swingdb::arrow::util::display::{ArrayFormatter, FormatOptions};
use swingdb::{Connection, Database};

/// A private database, which vanishes at the end.
pub struct Place {
    pub con: Connection,
    _database: Database,
    _home: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let database = Database::private_in(home.path()).unwrap();
        Self { con: database.connect(), _database: database, _home: home }
    }

    pub fn run(&self, sql: &str) {
        self.con.query(sql).and_then(|result| result.collect()).unwrap();
    }

    /// All rows of a query as texts; NULL is `NULL`.
    pub fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let result = self.con.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        result.collect().unwrap().iter().flat_map(texts).collect()
    }

    /// The only value of a query.
    pub fn value(&self, sql: &str) -> String {
        self.rows(sql).remove(0).remove(0)
    }

    /// All rows of a table in their order, which a query does not promise.
    pub fn table(&self, name: &str) -> RecordBatch {
        let scan = self.con.table(name).unwrap();
        let schema = scan.schema();
        let batches: Vec<RecordBatch> = scan.map(|batch| batch.unwrap()).collect();
        concat_batches(&schema, &batches).unwrap()
    }
}

fn texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns = batch.columns().iter();
    let columns: Vec<ArrayFormatter<'_>> =
        columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
    let cell = |row: usize, column: usize| match batch.column(column).is_null(row) {
        true => "NULL".to_string(),
        false => columns[column].value(row).to_string(),
    };
    let rows = 0..batch.num_rows();
    rows.map(|row| (0..columns.len()).map(|column| cell(row, column)).collect()).collect()
}
