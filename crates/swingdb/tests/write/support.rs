//! What all tests of this binary share: a private database in a namespace of its own.

use swingdb::arrow::array::{Array, RecordBatch};
use swingdb::arrow::util::display::{ArrayFormatter, FormatOptions};
use swingdb::{Connection, Database, Error, QueryResult, Value};
use tempfile::TempDir;

/// A database that ends with the test.
pub struct Db {
    pub home: TempDir,
    pub database: Database,
    pub con: Connection,
}

impl Db {
    /// An unnamed, empty database.
    pub fn new() -> Self {
        let home = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let database = Database::private_in(home.path()).expect("a private database");
        let con = database.connect();
        Self { home, database, con }
    }

    /// As [`new`](Self::new), after these statements.
    pub fn with(sql: &str) -> Self {
        let db = Self::new();
        db.run(sql);
        db
    }

    /// Runs statements that must succeed; the rows the last one changed.
    pub fn run(&self, sql: &str) -> u64 {
        self.result(sql).rows_changed().unwrap_or(0)
    }

    /// The result of statements that must succeed.
    pub fn result(&self, sql: &str) -> QueryResult {
        self.con.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The error of a statement that must fail.
    pub fn error(&self, sql: &str) -> Error {
        match self.con.query(sql).and_then(QueryResult::collect) {
            Ok(rows) => panic!("{sql}: succeeded with {rows:?}"),
            Err(error) => error,
        }
    }

    /// Asserts that a statement fails with a message that contains all of `parts`.
    pub fn fails(&self, sql: &str, parts: &[&str]) {
        let message = self.error(sql).to_string();
        for part in parts {
            assert!(message.contains(part), "{sql}: {message:?} does not contain {part:?}");
        }
    }

    /// The rows of a query as text: values separated by `|`, rows in the query's order.
    pub fn rows(&self, sql: &str) -> Vec<String> {
        rows(&self.con, sql)
    }

    /// Asserts what a query returns.
    pub fn check(&self, sql: &str, expected: &[&str]) {
        assert_eq!(self.rows(sql), expected, "{sql}");
    }

    /// Runs a statement with parameters.
    pub fn execute(&self, sql: &str, params: &[Value]) -> u64 {
        let result = self.con.execute(sql, params);
        result.unwrap_or_else(|error| panic!("{sql}: {error}")).rows_changed().unwrap_or(0)
    }
}

/// The rows of a query as text.
pub fn rows(con: &Connection, sql: &str) -> Vec<String> {
    let result = con.query(sql).and_then(QueryResult::collect);
    text(&result.unwrap_or_else(|error| panic!("{sql}: {error}")))
}

/// The rows of batches as text.
pub fn text(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a format"))
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            lines.push(cells.join("|"));
        }
        assert!(batch.columns().iter().all(|column| column.len() == batch.num_rows()));
    }
    lines
}
