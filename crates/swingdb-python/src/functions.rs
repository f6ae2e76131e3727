//! Functions of SQL that are written in Python.
//!
//! The engine's threads call them, and hold the interpreter's lock for one batch at a time: to turn
//! the arguments into Python's values, or hand them over as Arrow arrays, to call, and to take the
//! result. So two statements compute side by side all but their functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3_arrow::PyArray;
use swingdb::arrow::array::ArrayRef;
use swingdb::arrow::datatypes::{DataType, Field};
use swingdb::{Connection, Error, Result, ScalarFunction};

use crate::called::Called;
use crate::columns::from_arrow;
use crate::declared::{of_type, stored};
use crate::rows;

/// Whether the process has ever added a function.
static ADDED: AtomicBool = AtomicBool::new(false);

/// Waits for the engine by `work`, on a thread that may hold the interpreter's lock: functions need
/// it meanwhile.
pub fn without_lock<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if ADDED.load(Ordering::Relaxed) { Python::attach(|py| py.detach(work)) } else { work() }
}

/// Functions that need the interpreter's lock may run from here on.
pub fn note_added() -> Result<()> {
    if !ADDED.swap(true, Ordering::Relaxed) {
        Python::attach(|py| {
            let end = pyo3::wrap_pyfunction!(end_functions, py)?;
            py.import("atexit")?.call_method1("register", (end,)).map(|_| ())
        })
        .map_err(|error: PyErr| Error::Execution { message: error.to_string() })?;
    }
    Ok(())
}

/// How many of the engine's threads are in Python or on their way.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Whether the interpreter is about to end.
static ENDED: AtomicBool = AtomicBool::new(false);
/// How long the interpreter's end waits for a function that runs.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Lets no thread of the engine into Python any more, and waits for those inside: a thread that is
/// there when the interpreter is taken down takes the process with it.
#[pyfunction]
fn end_functions(py: Python<'_>) {
    ENDED.store(true, Ordering::SeqCst);
    let end = Instant::now() + MAX_WAIT;
    py.detach(|| {
        while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// As long as it lives, this thread is in Python.
struct Inside;

impl Inside {
    fn enter() -> Self {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Calls into Python for the function `name`; an exception becomes an error with its traceback.
pub fn enter<T>(name: &str, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    let _inside = Inside::enter();
    if ENDED.load(Ordering::SeqCst) {
        return Err(Error::Interrupted);
    }
    Python::attach(|py| {
        let _called = Called::begin();
        work(py).map_err(|error| failed(py, name, error))
    })
}

/// Adds `call` to the session as the function `name`, with types as SQL writes them.
pub fn create(
    connection: &Connection,
    name: String,
    arguments: &[String],
    returns: &str,
    call: Py<PyAny>,
    volatile: bool,
    arrow: bool,
) -> Result<()> {
    note_added()?;
    let name = name.to_lowercase();
    let types = types(connection, arguments, returns)?;
    let (fields, returned) = types.split_at(arguments.len());
    let fields: Vec<Field> = fields.to_vec();
    let returns = returned[0].data_type().clone();
    let (of, kind) = (name.clone(), returns.clone());
    let compute = move |arrays: &[ArrayRef], count: usize| {
        enter(&of, |py| run(py, &call, &fields, arrays, count, &kind, arrow))
    };
    connection.create_function(ScalarFunction {
        name,
        arguments: types[..arguments.len()].iter().map(|field| field.data_type().clone()).collect(),
        returns,
        volatile,
        call: Arc::new(compute),
    })
}

/// The columns that values of these SQL types make; the last one is that of the result.
pub fn types(connection: &Connection, arguments: &[String], returns: &str) -> Result<Vec<Field>> {
    let all = arguments.iter().map(String::as_str).chain([returns]);
    all.map(|name| type_of(connection, name)).collect()
}

/// The column that values of this SQL type make.
pub fn type_of(connection: &Connection, name: &str) -> Result<Field> {
    let schema = connection.query(&format!("SELECT CAST(NULL AS {name}) AS value"))?.schema();
    match schema.fields().iter().as_slice() {
        [only] => Ok(Field::new("value", only.data_type().clone(), true)
            .with_metadata(only.metadata().clone())),
        _ => Err(Error::plan(format!("{name:?} is not a type"))),
    }
}

fn run(
    py: Python<'_>,
    call: &Py<PyAny>,
    fields: &[Field],
    arrays: &[ArrayRef],
    count: usize,
    returns: &DataType,
    arrow: bool,
) -> PyResult<ArrayRef> {
    let columns = columns(py, fields, arrays, arrow)?;
    let result = call.bind(py).call1((columns, count))?;
    match arrow {
        true => stored(&from_arrow(&result)?, returns),
        false => of_type(&result, returns),
    }
}

/// Arguments as Arrow arrays, or as lists of values.
pub fn columns<'py>(
    py: Python<'py>,
    fields: &[Field],
    arrays: &[ArrayRef],
    arrow: bool,
) -> PyResult<Bound<'py, PyList>> {
    let columns = PyList::empty(py);
    for (field, array) in fields.iter().zip(arrays) {
        if arrow {
            let array = PyArray::new(Arc::clone(array), Arc::new(field.clone()));
            columns.append(array.into_pyobject(py)?)?;
        } else {
            columns.append(PyList::new(py, rows::values(py, field, array)?)?)?;
        }
    }
    Ok(columns)
}

/// What the statement fails with: the exception with its traceback, as text.
fn failed(py: Python<'_>, name: &str, error: PyErr) -> Error {
    let trace = error.traceback(py).and_then(|trace| trace.format().ok());
    let trace = trace.map_or_else(String::new, |trace| format!("\n{}", trace.trim_end()));
    Error::Execution { message: format!("the function {name}: {error}{trace}") }
}
