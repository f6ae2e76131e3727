//! One session on a database: [`Session`].
//!
//! **Cycle.** A database makes sessions; a session attaches other databases.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use swingdb::arrow::array::RecordBatch;
use swingdb::{Bar, Connection, InterruptHandle, Interruptible, QueryResult, place_of};

use crate::batches::Batches;
use crate::capsule::reader_of;
use crate::database::Database;
use crate::fork::Owned;
use crate::params::Params;
use crate::result::Rows;
use crate::{aggregates, blocking, errors, files, functions, progress, table_functions};

/// SQL, transactions and tables of one conversation with a database.
#[pyclass(frozen, module = "swingdb._internal")]
pub struct Session {
    inner: Owned<Connection>,
    interrupt: Owned<InterruptHandle>,
}

/// The result of a statement, and the bar that shows how far its rows are.
type Started = (QueryResult, Option<Arc<Bar>>);

/// A text of SQL, and a line and a column in it, from 1.
type Placed = (String, (u64, u64));

/// An error and its place, if that is known.
type PlacedError = (swingdb::Error, Option<Placed>);

/// An error of a text, with its place.
fn placed(error: swingdb::Error, sql: &str) -> PlacedError {
    let place = place_of(&error, sql);
    (error, place.map(|place| (sql.to_string(), place)))
}

/// An error of a text as an exception, which has a note that shows the line and the place in it.
fn raise_placed(py: Python<'_>, (error, place): PlacedError) -> PyErr {
    let raised = errors::raise(&error);
    if let Some((sql, place)) = place {
        errors::point(py, &raised, &sql, place);
    }
    raised
}

impl Session {
    /// A session around the engine's.
    pub fn new(connection: Connection) -> Self {
        let interrupt = connection.interrupt_handle();
        Self {
            inner: Owned::new("connection", connection),
            interrupt: Owned::new("connection", interrupt),
        }
    }

    /// As [`call`](Self::call), whose statements belong to `of_call`.
    fn call_placed<T: Send + 'static>(
        &self,
        py: Python<'_>,
        of_call: &Interruptible,
        work: impl FnOnce(Connection) -> Result<T, PlacedError> + Send + 'static,
    ) -> PyResult<T> {
        let connection = self.inner.get()?;
        let outcome = blocking::run_statements(py, of_call, move || work(connection))?;
        outcome.map_err(|error| raise_placed(py, error))
    }

    /// Starts a query whose plan is kept on this thread, where a worker would do it otherwise.
    fn start_again(
        &self,
        py: Python<'_>,
        of_call: &Interruptible,
        sql: &str,
        params: &Params,
    ) -> PyResult<Option<Started>> {
        let Params::Positional(values) = params else { return Ok(None) };
        if !blocking::hands_over() {
            return Ok(None);
        }
        let connection = self.inner.get()?;
        let work = || {
            let bar = progress::Statement::begin(&connection);
            let started = of_call.run(|| connection.execute_again(sql, values));
            let bar = bar.end();
            started.map(|started| started.map(|result| (result, bar)))
        };
        blocking::run_here(py, work)?.map_err(|error| raise_placed(py, placed(error, sql)))
    }

    /// Runs `work` where it can be interrupted; its error as an exception.
    fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(Connection) -> swingdb::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let connection = self.inner.get()?;
        blocking::run_statements(py, &Interruptible::default(), move || work(connection))?
            .map_err(|error| errors::raise(&error))
    }
}

#[pymethods]
impl Session {
    /// Runs one or several statements; the result of the last one.
    fn execute(
        &self,
        py: Python<'_>,
        sql: String,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Rows> {
        let params = Params::from_python(params)?;
        let of_call = Interruptible::default();
        let (result, bar) = match self.start_again(py, &of_call, &sql, &params)? {
            Some(started) => started,
            None => self.call_placed(py, &of_call, move |connection| {
                let bar = progress::Statement::begin(&connection);
                let result = params.execute(&connection, &sql);
                let bar = bar.end();
                result.map(|result| (result, bar)).map_err(|error| placed(error, &sql))
            })?,
        };
        Ok(Rows::new(result, of_call.handle(), bar))
    }

    /// Appends what an Arrow PyCapsule exporter streams; the number of rows.
    fn append(&self, py: Python<'_>, table: String, data: &Bound<'_, PyAny>) -> PyResult<u64> {
        let reader = reader_of(data)?;
        self.call(py, move |connection| connection.append(&table, reader))
    }

    /// The rows of a table over the database's memory; they are read when they are asked for, so
    /// this takes microseconds and no worker thread.
    fn table(&self, py: Python<'_>, name: String) -> PyResult<Batches> {
        let connection = self.inner.get()?;
        let scan = py.detach(|| connection.table(&name)).map_err(|error| errors::raise(&error))?;
        Ok(Batches::of_table(scan))
    }

    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |connection| connection.begin())
    }

    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |connection| connection.commit())
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |connection| connection.rollback())
    }

    #[getter]
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        let connection = self.inner.get()?;
        Ok(py.detach(|| connection.in_transaction()))
    }

    /// Refuses what would change the database, with an error that says `why`.
    fn set_read_only(&self, py: Python<'_>, why: String) -> PyResult<()> {
        let connection = self.inner.get()?;
        py.detach(|| connection.set_read_only(why));
        Ok(())
    }

    /// Adds a function that `call` computes: of lists of the arguments' values, or of Arrow arrays.
    /// `types` are those of the arguments and of the result.
    fn create_function(
        &self,
        py: Python<'_>,
        name: String,
        types: (Vec<String>, String),
        call: Py<PyAny>,
        volatile: bool,
        arrow: bool,
    ) -> PyResult<()> {
        self.call(py, move |connection| {
            functions::create(&connection, name, &types.0, &types.1, call, volatile, arrow)
        })
    }

    /// Adds an aggregate that the methods of `work` compute. `flags`: whether rows with a NULL are
    /// left out, whether states are merged, and whether arguments are Arrow arrays.
    fn create_aggregate(
        &self,
        py: Python<'_>,
        name: String,
        types: (Vec<String>, String),
        work: Py<PyAny>,
        flags: (bool, bool, bool),
    ) -> PyResult<()> {
        self.call(py, move |connection| {
            aggregates::create(&connection, name, &types.0, &types.1, work, flags)
        })
    }

    /// Adds a function of tables: `pieces` gives an iterator of tables for a list of arguments.
    fn create_table_function(
        &self,
        py: Python<'_>,
        name: String,
        arguments: Vec<String>,
        columns: Vec<(String, String)>,
        pieces: Py<PyAny>,
    ) -> PyResult<()> {
        self.call(py, move |connection| {
            table_functions::create(&connection, name, &arguments, &columns, pieces)
        })
    }

    fn remove_function(&self, py: Python<'_>, name: String) -> PyResult<()> {
        self.call(py, move |connection| connection.remove_function(&name))
    }

    fn attach(&self, py: Python<'_>, other: &Database, alias: String) -> PyResult<()> {
        let other = other.get()?;
        self.call(py, move |connection| connection.attach(&other, &alias))
    }

    fn detach(&self, py: Python<'_>, alias: String) -> PyResult<()> {
        self.call(py, move |connection| connection.detach(&alias))
    }

    /// Makes the rows of an Arrow PyCapsule exporter queryable under a name; their number.
    fn register(&self, py: Python<'_>, name: String, data: &Bound<'_, PyAny>) -> PyResult<usize> {
        let reader = reader_of(data)?;
        let connection = self.inner.get()?;
        // Two kinds of errors: reading the foreign stream, and the engine's.
        let work = move || {
            let schema = reader.schema();
            let batches = reader.collect::<Result<Vec<_>, _>>()?;
            let rows = batches.iter().map(RecordBatch::num_rows).sum();
            Ok(connection.register(&name, schema, batches).map(|()| rows))
        };
        let outcome = blocking::run_statements(py, &Interruptible::default(), work)?;
        outcome.map_err(errors::raise_arrow)?.map_err(|error| errors::raise(&error))
    }

    fn deregister(&self, py: Python<'_>, name: String) -> PyResult<()> {
        let connection = self.inner.get()?;
        py.detach(|| connection.deregister(&name));
        Ok(())
    }

    /// The names in `sql` that stand where a table does and name none.
    fn unresolved_tables(&self, py: Python<'_>, sql: String) -> PyResult<Vec<String>> {
        let connection = self.inner.get()?;
        py.detach(|| connection.unresolved_tables(&sql)).map_err(|error| errors::raise(&error))
    }

    /// Shares the last committed state: (epoch, seconds, whether it outlives the processes).
    fn share(&self, py: Python<'_>) -> PyResult<(u64, f64, bool)> {
        let info = self.call(py, |connection| {
            let bar = progress::Statement::begin(&connection);
            let shared = connection.share();
            bar.end();
            shared
        })?;
        Ok((info.epoch, info.duration.as_secs_f64(), info.outlives_processes))
    }

    /// Ends the running statements, and the results that are read.
    fn interrupt(&self) -> PyResult<()> {
        self.interrupt.get()?.interrupt();
        Ok(())
    }

    /// Appends a file to a table: (rows, bytes, seconds).
    fn import_file(
        &self,
        py: Python<'_>,
        path: std::path::PathBuf,
        table: String,
        options: &Bound<'_, PyDict>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, f64)> {
        let options = files::import_options(options)?;
        let report = self.call(py, move |connection| {
            files::with_progress(&connection, progress, |connection| {
                connection.import_file(&path, &table, options)
            })
        })?;
        Ok((report.rows, report.bytes, report.duration.as_secs_f64()))
    }

    /// Writes a table or a query's result to a file: (rows, bytes, seconds).
    fn export(
        &self,
        py: Python<'_>,
        query_or_table: String,
        path: std::path::PathBuf,
        options: &Bound<'_, PyDict>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, u64, f64)> {
        let options = files::export_options(options)?;
        let report = self.call(py, move |connection| {
            files::with_progress(&connection, progress, |connection| {
                connection.export_file(&query_or_table, &path, options)
            })
        })?;
        Ok((report.rows, report.bytes, report.duration.as_secs_f64()))
    }

    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.call(py, |connection| connection.tables())
    }

    fn columns(&self, py: Python<'_>, table: String) -> PyResult<Vec<String>> {
        self.call(py, move |connection| connection.columns(&table))
    }

    /// Ends the session, rolling back its transaction; may be called twice. Its results stay.
    fn close(&self, py: Python<'_>) {
        let taken = (self.inner.take(), self.interrupt.take());
        py.detach(|| drop(taken));
    }
}
