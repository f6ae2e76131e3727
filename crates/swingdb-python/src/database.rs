//! An open database or snapshot: [`Database`].
//!
//! Making one takes microseconds, so nothing here goes through a worker thread; the session, which
//! is dearer, is made with the first statement.
//!
//! **Cycle.** A database makes sessions; a session attaches other databases.

use std::path::Path;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use swingdb::{OpenOptions, StoreOptions};

use crate::blocking::wait_in_slices;
use crate::errors;
use crate::fork::Owned;
use crate::session::Session;

/// When changes get to a store: "commit", "manual", or seconds.
struct Durability(swingdb::Durability);

impl<'py> FromPyObject<'_, 'py> for Durability {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let wrong = "durability is \"commit\", \"manual\", or a number of seconds";
        let wrong = || PyValueError::new_err(wrong);
        if let Ok(text) = value.extract::<String>() {
            return match text.as_str() {
                "commit" => Ok(Self(swingdb::Durability::Commit)),
                "manual" => Ok(Self(swingdb::Durability::Manual)),
                _ => Err(wrong()),
            };
        }
        let seconds: f64 = value.extract().map_err(|_| wrong())?;
        let every = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        Ok(Self(swingdb::Durability::Interval(every)))
    }
}

/// A handle on one open database or snapshot.
#[pyclass(frozen, module = "swingdb._internal")]
pub struct Database {
    inner: Owned<swingdb::Database>,
    #[pyo3(get)]
    name: Option<String>,
    #[pyo3(get)]
    is_snapshot: bool,
}

impl Database {
    fn wrap(database: swingdb::Result<swingdb::Database>) -> PyResult<Self> {
        let database = database.map_err(|error| errors::raise(&error))?;
        Ok(Self {
            name: database.name().map(str::to_string),
            is_snapshot: database.is_snapshot(),
            inner: Owned::new("database", database),
        })
    }

    /// The engine's handle.
    pub fn get(&self) -> PyResult<swingdb::Database> {
        self.inner.get()
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(swingdb::Database) -> swingdb::Result<T> + Send,
    ) -> PyResult<T> {
        let database = self.get()?;
        py.detach(|| work(database)).map_err(|error| errors::raise(&error))
    }
}

#[pymethods]
impl Database {
    /// Opens a database as its writer; a private one without a name.
    #[staticmethod]
    #[pyo3(signature = (name, home, store=None, durability=None))]
    fn open(
        py: Python<'_>,
        name: Option<String>,
        home: Option<String>,
        store: Option<String>,
        durability: Option<Durability>,
    ) -> PyResult<Self> {
        if let (Some(name), Some(directory)) = (&name, store) {
            let mut store = StoreOptions::new(directory);
            store.durability = durability.map(|durability| durability.0);
            let mut options = OpenOptions::default().store(store);
            if let Some(home) = home {
                options = options.home(home);
            }
            return Self::wrap(py.detach(|| swingdb::Database::open_with_options(name, &options)));
        }
        Self::wrap(py.detach(|| match (&name, &home) {
            (Some(name), Some(home)) => swingdb::Database::open_in(Path::new(home), name),
            (Some(name), None) => swingdb::Database::open(name),
            (None, Some(home)) => swingdb::Database::private_in(Path::new(home)),
            (None, None) => swingdb::Database::private(),
        }))
    }

    /// Takes a snapshot of the database `name`, named `target` if that is given.
    #[staticmethod]
    fn snapshot(
        py: Python<'_>,
        name: String,
        target: Option<String>,
        home: Option<String>,
    ) -> PyResult<Self> {
        Self::wrap(py.detach(|| match (&target, &home) {
            (Some(target), Some(home)) => {
                swingdb::Database::get_snapshot_in(Path::new(home), &name, target)
            }
            (Some(target), None) => swingdb::Database::get_snapshot(&name, target),
            (None, Some(home)) => swingdb::Database::snapshot_in(Path::new(home), &name),
            (None, None) => swingdb::Database::snapshot(&name),
        }))
    }

    #[getter]
    fn epoch(&self) -> PyResult<Option<u64>> {
        Ok(self.get()?.epoch())
    }

    /// A new session.
    fn session(&self, py: Python<'_>) -> PyResult<Session> {
        let database = self.get()?;
        Ok(Session::new(py.detach(|| database.connect())))
    }

    /// Whether a named database stays when no process uses it any more.
    #[getter]
    fn outlives_processes(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |database| Ok(database.outlives_processes()))
    }

    /// Whether it is still read from its store.
    #[getter]
    fn is_loading(&self) -> PyResult<bool> {
        Ok(self.get()?.loading().is_some())
    }

    /// Shares the last committed state: (epoch, seconds, whether it outlives the processes).
    fn share(&self, py: Python<'_>) -> PyResult<(u64, f64, bool)> {
        let info = self.call(py, |database| database.share())?;
        Ok((info.epoch, info.duration.as_secs_f64(), info.outlives_processes))
    }

    /// Brings the store to the last committed state, or copies it into a directory: (version, bytes
    /// written, seconds).
    #[pyo3(signature = (directory=None))]
    fn checkpoint(&self, py: Python<'_>, directory: Option<String>) -> PyResult<(u64, u64, f64)> {
        let info = self.call(py, |database| match directory {
            None => database.checkpoint(),
            Some(directory) => database.checkpoint_to(Path::new(&directory)),
        })?;
        Ok((info.version, info.written_bytes, info.duration.as_secs_f64()))
    }

    /// The store on a disk; None if there is none.
    fn store<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(info) = self.call(py, |database| Ok(database.durable_info()))? else {
            return Ok(None);
        };
        let dict = PyDict::new(py);
        dict.set_item("path", info.path.to_string_lossy())?;
        dict.set_item("durability", info.durability.to_string())?;
        dict.set_item("memory_version", info.memory_version)?;
        dict.set_item("stored_version", info.stored_version)?;
        dict.set_item("used_bytes", info.used_bytes)?;
        dict.set_item("live_bytes", info.live_bytes)?;
        dict.set_item("syncs", info.syncs)?;
        dict.set_item("loading", info.loading)?;
        dict.set_item("failure", info.failure)?;
        Ok(Some(dict))
    }

    /// Reads a store into memory as a new database.
    #[staticmethod]
    fn restore(
        py: Python<'_>,
        directory: String,
        name: Option<String>,
        home: Option<String>,
    ) -> PyResult<Self> {
        let mut options = OpenOptions::default();
        if let Some(home) = home {
            options = options.home(home);
        }
        let path = Path::new(&directory);
        Self::wrap(py.detach(|| swingdb::Database::restore(path, name.as_deref(), &options)))
    }

    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |database| database.refresh())
    }

    /// Waits for a newer shared state, for ever without a time-out.
    fn wait_newer(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<bool> {
        let database = self.get()?;
        // Not a number, negative and too large are all "as long as possible" or "not at all".
        let timeout = timeout_s.and_then(|s| Duration::try_from_secs_f64(s.max(0.0)).ok());
        wait_in_slices(py, timeout, |slice| database.wait_newer(slice))
    }

    /// Name, epoch, number of tables and rows.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.call(py, |database| Ok(database.info()))?;
        let dict = PyDict::new(py);
        dict.set_item("name", info.name)?;
        dict.set_item("is_snapshot", info.is_snapshot)?;
        dict.set_item("epoch", info.epoch)?;
        dict.set_item("tables", info.tables)?;
        dict.set_item("rows", info.rows)?;
        Ok(dict)
    }

    /// Lets go of the database; may be called twice, and does nothing in a forked child.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.inner.take() {
            Some(database) => py.detach(|| database.close()).map_err(|error| errors::raise(&error)),
            None => Ok(()),
        }
    }
}
