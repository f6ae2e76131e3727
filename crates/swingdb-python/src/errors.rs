//! The engine's errors as exceptions of `swingdb.errors`, with their fields as attributes.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use swingdb::Error;
use swingdb::arrow::error::ArrowError;

/// The exception for an error of the engine. Needs the interpreter's lock, and takes it if need be.
pub fn raise(error: &Error) -> PyErr {
    Python::attach(|py| make(py, error).unwrap_or_else(|failure| failure))
}

/// The exception for an error of Arrow; one that wraps an error of the engine or of Python, which
/// has travelled through a stream, comes out as what it was.
pub fn raise_arrow(error: ArrowError) -> PyErr {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<PyErr>() {
            Ok(exception) => *exception,
            Err(inner) => raise(&Error::from(ArrowError::ExternalError(inner))),
        },
        other => raise(&Error::from(other)),
    }
}

/// Adds a note to an exception: the line of `sql` that it is about, and a caret below the place.
pub fn point(py: Python<'_>, error: &PyErr, sql: &str, (line, column): (u64, u64)) {
    let add = || {
        let note = py.import(intern!(py, "swingdb.errors"))?.getattr("_pointed")?;
        let note = note.call1((sql, line, column))?;
        if !note.is_none() {
            error.value(py).call_method1(intern!(py, "add_note"), (note,))?;
        }
        PyResult::Ok(())
    };
    // The error itself matters more than its note.
    let _ = add();
}

/// An exception of class `class` of `swingdb.errors` that does not come from the engine.
pub fn new(class: &str, message: impl Into<String>) -> PyErr {
    let message = message.into();
    Python::attach(|py| {
        let made = class_of(py, class).and_then(|class| class.call1((message,)));
        made.map_or_else(|failure| failure, PyErr::from_value)
    })
}

fn class_of<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "swingdb.errors"))?.getattr(name)
}

fn make(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    let class = describe(error, &details)?;
    let exception = class_of(py, class)?.call((error.to_string(),), Some(&details))?;
    Ok(PyErr::from_value(exception))
}

/// The class for `error`, and its fields in `details`.
fn describe(error: &Error, details: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    let class = match error {
        Error::Parse { message, line, column } => {
            details.set_item("detail", message)?;
            details.set_item("line", line)?;
            details.set_item("column", column)?;
            "ParseError"
        }
        Error::Plan { .. } => "PlanError",
        Error::NotFound { kind, name, suggestion } => {
            details.set_item("kind", kind.to_string())?;
            details.set_item("name", name)?;
            details.set_item("suggestion", suggestion)?;
            "NotFoundError"
        }
        Error::AlreadyExists { kind, name } => {
            details.set_item("kind", kind.to_string())?;
            details.set_item("name", name)?;
            "AlreadyExistsError"
        }
        Error::Constraint { table, kind, columns, detail } => {
            details.set_item("table", table)?;
            details.set_item("kind", kind.to_string())?;
            details.set_item("constraint", format!("{kind} ({})", columns.join(", ")))?;
            details.set_item("columns", columns)?;
            details.set_item("detail", detail)?;
            "ConstraintError"
        }
        Error::Conversion { message, column } => {
            details.set_item("detail", message)?;
            details.set_item("column", column)?;
            "ConversionError"
        }
        Error::Import { path, line, message } => {
            details.set_item("path", path.to_string_lossy())?;
            details.set_item("line", line)?;
            details.set_item("detail", message)?;
            "FileImportError"
        }
        Error::Io { path, source } => {
            details.set_item("path", path.as_ref().map(|path| path.to_string_lossy()))?;
            details.set_item("errno", source.raw_os_error())?;
            "FileError"
        }
        other => describe_state(other, details)?,
    };
    Ok(class)
}

/// As [`describe`], for errors about the state of databases and handles.
fn describe_state(error: &Error, details: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    let class = match error {
        Error::OutOfMemory { .. } | Error::TemporaryFile { .. } => describe_room(error, details)?,
        Error::Busy { name, pid, command } => {
            details.set_item("name", name)?;
            details.set_item("pid", pid)?;
            details.set_item("command", command)?;
            "BusyError"
        }
        Error::Refused { name, message: _ } => {
            details.set_item("name", name)?;
            details.set_item("pid", None::<u32>)?;
            details.set_item("command", None::<String>)?;
            "BusyError"
        }
        Error::Store { path, problem, message } => {
            details.set_item("path", path.to_string_lossy())?;
            details.set_item("problem", problem.to_string())?;
            details.set_item("detail", message)?;
            "StoreError"
        }
        Error::NotShared { name } => {
            details.set_item("name", name)?;
            "NotSharedError"
        }
        Error::Corrupt { name, message } => {
            details.set_item("name", name)?;
            details.set_item("detail", message)?;
            "CorruptError"
        }
        Error::MemoryGone { name, folder } => {
            details.set_item("name", name)?;
            details.set_item("path", folder.to_string_lossy())?;
            "MemoryGoneError"
        }
        Error::Closed { what } => {
            details.set_item("kind", what)?;
            "ClosedError"
        }
        Error::Transaction { .. } => "TransactionError",
        Error::Interrupted => "QueryInterruptedError",
        Error::TimedOut { .. } => "StatementTimeoutError",
        Error::LimitReached { setting, .. } => {
            details.set_item("kind", "setting")?;
            details.set_item("name", setting)?;
            "LimitReachedError"
        }
        Error::NotAllowed { .. } => "NotAllowedError",
        Error::Forked => "ForkedError",
        Error::Unsupported { .. } => "NotSupportedError",
        Error::Execution { .. } => "ExecutionError",
        Error::Internal { .. } => "InternalError",
        Error::InStatement { line, error } => {
            let class = describe(error, details)?;
            // That of a file stays.
            if !details.contains("line")? {
                details.set_item("line", line)?;
            }
            class
        }
        _ => "DatabaseError",
    };
    Ok(class)
}

/// As [`describe`], for want of memory or of room for temporary files.
fn describe_room(error: &Error, details: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    let (path, class) = match error {
        Error::TemporaryFile { folder, is_full, errno, message } => {
            details.set_item("errno", errno)?;
            details.set_item("detail", message)?;
            (folder.as_ref(), if *is_full { "OutOfMemoryError" } else { "FileError" })
        }
        Error::OutOfMemory { needed, free, file_system } => {
            details.set_item("needed", needed)?;
            details.set_item("free", free)?;
            (file_system.as_ref(), "OutOfMemoryError")
        }
        _ => (None, "DatabaseError"),
    };
    details.set_item("path", path.map(|path| path.to_string_lossy()))?;
    Ok(class)
}
