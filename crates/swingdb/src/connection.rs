//! A session on a database: [`Connection`], and what it hands out.
//!
//! A connection holds the state of one conversation: the open transaction, attached databases,
//! settings, registered Arrow tables. It is `Send + Sync`; clones share the session, and statements
//! of one session run one after the other. Use one connection per thread to run them side by side.
//!
//! Every statement is atomic, and commits itself unless `BEGIN` opened a transaction. A result
//! keeps the state of the database it started from: later statements, in this session or another,
//! do not disturb it.
//!
//! ```
//! use swingdb::{Database, Value};
//! # let home = tempfile::tempdir_in("/dev/shm").unwrap();
//! # let database = Database::private_in(home.path())?;
//! let con = database.connect();
//! con.query("CREATE TABLE city (name VARCHAR NOT NULL, people BIGINT)")?;
//! let added = con.execute("INSERT INTO city VALUES (?, ?), ('Bergen', 291940)", &[
//!     Value::from("Oslo"),
//!     Value::from(717710),
//! ])?;
//! assert_eq!(added.rows_changed(), Some(2));
//! let mut people = 0;
//! for batch in con.query("SELECT sum(people) AS n FROM city")? {
//!     people = swingdb::arrow::array::AsArray::as_primitive::<
//!         swingdb::arrow::datatypes::Int64Type,
//!     >(batch?.column(0))
//!     .value(0);
//! }
//! assert_eq!(people, 1_009_650);
//! # Ok::<(), swingdb::Error>(())
//! ```

use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{FieldRef, SchemaRef};
use swingdb_common::error::Result;
use swingdb_common::progress::Progress;
use swingdb_common::runtime::cancel::{InterruptHandle, Interruptible};
use swingdb_common::value::Value;
use swingdb_files::options::{ExportOptions, ExportReport, ImportOptions, ImportReport};
use swingdb_sql::bind::system::Version;
use swingdb_sql::engine::AggregateFunction;
use swingdb_sql::text::parameters::Params;
use swingdb_store::ShareInfo;

use crate::database::Database;
use crate::execute::appender::Appender;
use crate::execute::backup::write::Definitions;
use crate::execute::bulk::{BulkAppend, BulkPart};
use crate::execute::parameter_types::parameter_types;
use crate::session::Session;
use crate::session::result::QueryResult;
use crate::session::table_scan::TableScan;
use crate::session::user_functions::ScalarFunction;
use crate::session::user_tables::TableFunction;

/// A session on a [`Database`]; see the [module documentation](self).
#[derive(Clone)]
pub struct Connection {
    session: Arc<Session>,
}

impl Database {
    /// A new session on this database.
    pub fn connect(&self) -> Connection {
        Connection::of(Session::new(self.clone()))
    }
}

impl Connection {
    /// What speaks to a session.
    pub(crate) fn of(session: Session) -> Self {
        Self { session: Arc::new(session) }
    }

    /// The session itself.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The database this session was opened on.
    pub fn database(&self) -> &Database {
        self.session.database()
    }

    /// Runs one or several statements separated by `;` and returns the result of the last.
    ///
    /// `params` fill `?` in the order of the text, and `$1`, `$2` ... by number. The result of a
    /// query streams: rows are computed while it is read.
    pub fn execute(&self, sql: &str, params: &[Value]) -> Result<QueryResult> {
        self.session.execute(sql, Params::positional(params))
    }

    /// Starts the query of `sql` if it came before, also with other values, and its plan is kept;
    /// `None`: it is to be [executed](Self::execute), and nothing has happened. This never waits,
    /// neither for another statement nor for rows: for callers that let another thread execute
    /// what takes longer. One with the lines of several statements is none of these.
    pub fn execute_again(&self, sql: &str, params: &[Value]) -> Result<Option<QueryResult>> {
        self.session.execute_again(sql, &Params::positional(params))
    }

    /// As [`execute`](Self::execute), with parameters called by name: `$name`.
    pub fn execute_named<S: AsRef<str>>(
        &self,
        sql: &str,
        params: &[(S, Value)],
    ) -> Result<QueryResult> {
        self.session.execute(sql, Params::named(params))
    }

    /// As [`execute`](Self::execute), without parameters.
    pub fn query(&self, sql: &str) -> Result<QueryResult> {
        self.execute(sql, &[])
    }

    /// Appends Arrow batches to a table, in parallel; the number of rows. All or nothing.
    ///
    /// Columns are matched by name (case-insensitively) when all names match, by position
    /// otherwise; types that differ are cast, a value that does not fit is
    /// [`Error::Conversion`](crate::Error).
    pub fn append(&self, table: &str, batches: impl RecordBatchReader + Send) -> Result<u64> {
        crate::execute::append::append_batches(&self.session, table, batches)
    }

    /// Appends row by row through a buffer; the rows become visible when it is flushed.
    pub fn appender(&self, table: &str) -> Result<Appender> {
        Appender::new(Arc::clone(&self.session), table)
    }

    /// Appends the rows of `pieces` numbered pieces of work, which the threads of this session make
    /// side by side; the number of rows. `make` is called once for each piece, with its number, and
    /// hands its rows over in order. All or nothing; see [`BulkAppend`].
    pub fn bulk_append(
        &self,
        append: &BulkAppend,
        pieces: u64,
        make: impl Fn(u64, &mut BulkPart<'_>) -> Result<()> + Sync,
    ) -> Result<u64> {
        append.run(&self.session, pieces, make)
    }

    /// The rows of a table as Arrow batches over the database's own memory, without copying.
    pub fn table(&self, name: &str) -> Result<TableScan> {
        TableScan::new(&self.session, name)
    }

    /// Opens a transaction.
    pub fn begin(&self) -> Result<()> {
        self.query("BEGIN").map(drop)
    }

    /// Makes the open transaction's changes the state that others see.
    pub fn commit(&self) -> Result<()> {
        self.query("COMMIT").map(drop)
    }

    /// Drops the open transaction's changes. Work that was interrupted can do this, too; see
    /// [`Interruptible`](crate::Interruptible).
    pub fn rollback(&self) -> Result<()> {
        Interruptible::outside(|| self.query("ROLLBACK").map(drop))
    }

    /// Whether `BEGIN` has opened a transaction that is not finished yet.
    pub fn in_transaction(&self) -> bool {
        self.session.in_transaction()
    }

    /// Refuses what would change the database in this session from now on, with an error that says
    /// `why`. Temporary tables can still be made and changed.
    pub fn set_read_only(&self, why: impl Into<String>) {
        self.session.txn().lock().refusal = Some(why.into());
    }

    /// Sets what `version()` is in this session, for clients that read a version out of it.
    pub fn set_version(&self, version: impl Into<String>) -> Result<()> {
        let version = Version(version.into());
        self.session.configure(|state| {
            version.carry(state.config_mut());
            Ok(())
        })
    }

    /// Makes `other` readable in this session as `alias.table`, and clonable without copying.
    pub fn attach(&self, other: &Database, alias: &str) -> Result<()> {
        self.session.attach(other, alias)
    }

    /// Undoes [`attach`](Self::attach).
    pub fn detach(&self, alias: &str) -> Result<()> {
        self.session.detach(alias)
    }

    /// Makes Arrow data queryable under `name` in this session; a table of that name goes first.
    pub fn register(&self, name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<()> {
        self.session.register(name, schema, batches)
    }

    /// Undoes [`register`](Self::register); no error when nothing is registered under `name`.
    pub fn deregister(&self, name: &str) {
        self.session.deregister(name);
    }

    /// Adds a scalar function to this session, or replaces one that was added before; it is gone
    /// with the session. `AlreadyExists` for a name that SQL has a function or macro for.
    pub fn create_function(&self, function: ScalarFunction) -> Result<()> {
        self.session.create_function(function)
    }

    /// Adds an aggregate to this session; otherwise as [`create_function`](Self::create_function).
    pub fn create_aggregate(&self, function: AggregateFunction) -> Result<()> {
        self.session.create_aggregate(function)
    }

    /// Adds a function that is called as a table; otherwise as
    /// [`create_function`](Self::create_function).
    pub fn create_table_function(&self, function: TableFunction) -> Result<()> {
        self.session.create_table_function(function)
    }

    /// Takes away a function that the session added, of any kind.
    pub fn remove_function(&self, name: &str) -> Result<()> {
        self.session.remove_function(name)
    }

    /// The names in `sql` that stand where a table does and name none, in order of appearance.
    pub fn unresolved_tables(&self, sql: &str) -> Result<Vec<String>> {
        self.session.unresolved_tables(sql)
    }

    /// The types that `$1`, `$2` and so on of a query would best have, as far as their places say:
    /// `WHERE id = $1` compares with a column. Empty for other statements.
    pub fn parameter_types(&self, sql: &str) -> Result<Vec<Option<FieldRef>>> {
        parameter_types(&self.session, sql)
    }

    /// Shares the last committed state, as [`Database::share`] does. Where the database is still
    /// read from its store, the session's progress is told, and an interrupt or `statement_timeout`
    /// ends the waiting. Nothing is shared then, and what has been read is not read again.
    pub fn share(&self) -> Result<ShareInfo> {
        self.session.share_beside()
    }

    /// A handle with which another thread ends the statements this session is running, and the
    /// results that are read of it. To end some of them, start these within an
    /// [`Interruptible`](crate::Interruptible).
    pub fn interrupt_handle(&self) -> InterruptHandle {
        self.session.interrupt_handle()
    }

    /// Reports the progress of statements and imports of this session from now on.
    pub fn set_progress(&self, progress: Option<Arc<dyn Progress>>) {
        self.session.set_progress(progress);
    }

    /// How long a statement of this session should run before the program shows how far it is;
    /// `None` unless `SET enable_progress_bar = true`. A [`Bar`](crate::Bar) shows it.
    pub fn progress_bar(&self) -> Option<std::time::Duration> {
        self.session.progress_bar()
    }

    /// Appends a file to a table, creating the table when it does not exist. All or nothing.
    pub fn import_file(
        &self,
        path: impl AsRef<Path>,
        table: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        crate::execute::copy::import::import_file(&self.session, path.as_ref(), table, options)
    }

    /// Writes a table, or the result of a query, to a file.
    pub fn export_file(
        &self,
        sql_or_table: &str,
        path: impl AsRef<Path>,
        options: ExportOptions,
    ) -> Result<ExportReport> {
        crate::execute::copy::export::export_file(
            &self.session,
            sql_or_table,
            path.as_ref(),
            options,
        )
    }

    /// The tables and views a query can name, with their schemas' or aliases' names where needed.
    pub fn tables(&self) -> Result<Vec<String>> {
        self.session.table_names()
    }

    /// The SQL that makes all that the database has, without the rows. It was tried out: it can run
    /// in an empty database.
    pub fn definitions(&self) -> Result<Definitions> {
        crate::execute::backup::write::definitions(&self.session)
    }

    /// The names of the columns of a table or view.
    pub fn columns(&self, table: &str) -> Result<Vec<String>> {
        self.session.column_names(table)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("database", self.database()).finish_non_exhaustive()
    }
}
