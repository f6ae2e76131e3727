//! What the tests of import and export share.

use std::path::PathBuf;

use swingdb::arrow::array::{Array, RecordBatch};
use swingdb::arrow::compute::concat_batches;
use swingdb::arrow::util::display::{ArrayFormatter, FormatOptions};
use swingdb::io::ImportOptions;
use swingdb::{Connection, Database, Error};

/// A private database and a directory for files; both vanish at the end.
pub struct Place {
    pub con: Connection,
    _database: Database,
    pub directory: tempfile::TempDir,
    _home: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        let database = Database::private_in(home.path()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        Self { con: database.connect(), _database: database, directory, _home: home }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file and returns its name.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    pub fn run(&self, sql: &str) {
        self.con.query(sql).unwrap().collect().unwrap();
    }

    /// Runs SQL in which `{}` stands for the directory of the files.
    pub fn run_in(&self, sql: &str) -> Result<(), Error> {
        self.con.query(&self.fill_in(sql)).and_then(|result| result.collect()).map(drop)
    }

    pub fn fill_in(&self, sql: &str) -> String {
        sql.replace("{}", self.directory.path().to_str().unwrap())
    }

    /// All rows of a query as text; NULL is `NULL`.
    pub fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        text_rows(&self.batch(sql))
    }

    /// All rows of a query as one batch.
    pub fn batch(&self, sql: &str) -> RecordBatch {
        let result = self.con.query(&self.fill_in(sql)).unwrap();
        let schema = result.schema();
        let batches = result.collect().unwrap();
        concat_batches(&schema, &batches).unwrap()
    }

    /// All rows of a table in their order, which a query does not promise.
    pub fn table(&self, name: &str) -> RecordBatch {
        let scan = self.con.table(name).unwrap();
        let schema = scan.schema();
        let batches: Vec<RecordBatch> = scan.map(|batch| batch.unwrap()).collect();
        concat_batches(&schema, &batches).unwrap()
    }

    /// The only value of a query.
    pub fn value(&self, sql: &str) -> String {
        self.rows(sql).remove(0).remove(0)
    }

    pub fn import(&self, name: &str, table: &str, options: ImportOptions) -> Result<u64, Error> {
        self.con.import_file(self.path(name), table, options).map(|report| report.rows)
    }
}

pub fn text_rows(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    let cell = |row: usize, column: usize| match batch.column(column).is_null(row) {
        true => "NULL".to_string(),
        false => columns[column].value(row).to_string(),
    };
    let rows = 0..batch.num_rows();
    rows.map(|row| (0..columns.len()).map(|column| cell(row, column)).collect()).collect()
}

/// A seed that a failing test prints.
pub fn seeded() -> fastrand::Rng {
    let seed = match std::env::var("SWINGDB_TEST_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => fastrand::u64(..),
    };
    println!("SWINGDB_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Path, line and message of an import error.
pub fn import_error(error: Error) -> (PathBuf, Option<u64>, String) {
    match error {
        Error::Import { path, line, message } => (path, line, message),
        other => panic!("not an import error: {other:?}"),
    }
}
