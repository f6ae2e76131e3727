//! Options and progress of import and export.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt};
use swingdb::io::OptionValue;
use swingdb::{Connection, ExportOptions, ImportOptions, Progress};

use crate::{errors, progress};

/// The options of `Connection.import_file`: those of SQL.
pub fn import_options(given: &Bound<'_, PyDict>) -> PyResult<ImportOptions> {
    let mut options = ImportOptions::default();
    each(given, |name, value| options.set(name, value))?;
    Ok(options)
}

/// The options of `Connection.export`: those of SQL.
pub fn export_options(given: &Bound<'_, PyDict>) -> PyResult<ExportOptions> {
    let mut options = ExportOptions::default();
    each(given, |name, value| options.set(name, value))?;
    Ok(options)
}

/// Calls `set` for every option that is given; `None` is none.
fn each(
    given: &Bound<'_, PyDict>,
    mut set: impl FnMut(&str, &OptionValue) -> swingdb::Result<()>,
) -> PyResult<()> {
    for (name, value) in given {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        let value = option_value(&name, &value)?;
        set(&name, &value).map_err(|error| errors::raise(&error))?;
    }
    Ok(())
}

/// A Python value as that of an option in SQL.
fn option_value(name: &str, value: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    if value.is_instance_of::<PyBool>() {
        return Ok(OptionValue::Text(value.extract::<bool>()?.to_string()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(OptionValue::Number(value.str()?.extract()?));
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(OptionValue::Text(text));
    }
    if let Ok(map) = value.cast::<PyDict>() {
        let mut pairs = Vec::new();
        for (name, value) in map {
            pairs.push((name.extract::<String>()?, value.str()?.extract::<String>()?));
        }
        return Ok(OptionValue::Map(pairs));
    }
    value.extract::<Vec<String>>().map(OptionValue::List).map_err(|_| {
        let message = format!("option {name} takes a text, a number, a bool, a list or a dict");
        errors::new("ProgrammingError", message)
    })
}

/// Runs `work` while `callback(done, total, unit)` hears of its progress.
pub fn with_progress<T>(
    connection: &Connection,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&Connection) -> swingdb::Result<T>,
) -> swingdb::Result<T> {
    let Some(callback) = callback else {
        let bar = progress::Statement::begin(connection);
        let outcome = work(connection);
        bar.end();
        return outcome;
    };
    connection.set_progress(Some(Arc::new(Callback(callback))));
    let outcome = work(connection);
    connection.set_progress(None);
    outcome
}

struct Callback(Py<PyAny>);

impl Progress for Callback {
    fn progress(&self, done: u64, total: Option<u64>, unit: &str) {
        // The caller waits with the interpreter's lock released, so this does not wait for it.
        Python::attach(|py| {
            if let Err(error) = self.0.call1(py, (done, total, unit)) {
                error.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}
