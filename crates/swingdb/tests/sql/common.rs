//! A database of its own for each test, and rows as text.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use swingdb::{Connection, Database, QueryResult};
use tempfile::TempDir;

/// A private database in a namespace of its own, removed with the value.
pub struct Fixture {
    pub con: Connection,
    pub database: Database,
    pub home: TempDir,
}

pub fn fixture() -> Fixture {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let database = Database::private_in(home.path()).unwrap();
    Fixture { con: database.connect(), database, home }
}

impl Fixture {
    /// Runs statements that must succeed.
    pub fn run(&self, sql: &str) -> QueryResult {
        self.con.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// The rows of a query, columns separated by `|`, NULL as `-`.
    pub fn rows(&self, sql: &str) -> Vec<String> {
        rows(self.run(sql)).unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// The one value of a query.
    pub fn value(&self, sql: &str) -> String {
        let rows = self.rows(sql);
        assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
        rows[0].clone()
    }

    /// The error of a statement that must fail.
    pub fn error(&self, sql: &str) -> swingdb::Error {
        match self.con.query(sql).and_then(|result| result.collect()) {
            Ok(batches) => panic!("{sql} succeeded: {batches:?}"),
            Err(error) => error,
        }
    }

    /// Runs statements that must fail, each with an error that says so.
    pub fn refuses(&self, cases: &[(&str, &str)]) {
        for (sql, expected) in cases {
            let error = self.error(sql).to_string();
            assert!(error.contains(expected), "{sql}: {error}");
        }
    }
}

/// A generator, and its seed, which is printed and can be given by SWINGDB_TEST_SEED.
pub fn seeded() -> (fastrand::Rng, u64) {
    let given = std::env::var("SWINGDB_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("SWINGDB_TEST_SEED={seed}");
    (fastrand::Rng::with_seed(seed), seed)
}

pub fn rows(result: QueryResult) -> swingdb::Result<Vec<String>> {
    let batches = result.collect()?;
    Ok(batches.iter().flat_map(batch_rows).collect())
}

pub fn batch_rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("-");
    let columns = batch.columns().iter();
    let columns = columns.map(|c| ArrayFormatter::try_new(c, &options).unwrap());
    let columns = columns.collect::<Vec<_>>();
    let row = |i| columns.iter().map(|c| c.value(i).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

/// The plans of a query as text.
pub fn planned(fixture: &Fixture, sql: &str) -> String {
    fixture.rows(&format!("EXPLAIN {sql}")).join("\n")
}

/// The physical plan of a query as text, after it ran.
pub fn analyzed(fixture: &Fixture, sql: &str) -> String {
    fixture.rows(&format!("EXPLAIN ANALYZE {sql}")).join("\n")
}
