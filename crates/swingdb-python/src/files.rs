//! Options and progress of import and export.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use swingdb::io::FileFormat;
use swingdb::{Connection, ExportOptions, ImportOptions, Progress};

use crate::errors;

/// The options of `Connection.import_file`.
pub fn import_options(given: &Bound<'_, PyDict>) -> PyResult<ImportOptions> {
    Ok(ImportOptions {
        format: format(given)?,
        header: option(given, "header")?,
        delimiter: delimiter(given)?,
        null: option(given, "null")?,
        ..ImportOptions::default()
    })
}

/// The options of `Connection.export`.
pub fn export_options(given: &Bound<'_, PyDict>) -> PyResult<ExportOptions> {
    Ok(ExportOptions {
        format: format(given)?,
        header: option(given, "header")?,
        delimiter: delimiter(given)?,
        compression: option(given, "compression")?,
        ..ExportOptions::default()
    })
}

fn option<'py, T>(given: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match given.get_item(name)? {
        Some(value) => value.extract(),
        None => Ok(None),
    }
}

fn format(given: &Bound<'_, PyDict>) -> PyResult<Option<FileFormat>> {
    let Some(name) = option::<String>(given, "format")? else { return Ok(None) };
    Ok(Some(match name.to_ascii_lowercase().as_str() {
        "parquet" => FileFormat::Parquet,
        "csv" | "tsv" => FileFormat::Csv,
        "json" | "jsonl" | "ndjson" => FileFormat::Json,
        "arrow" | "ipc" | "feather" => FileFormat::Arrow,
        _ => {
            let message = format!("format {name:?} is not one of parquet, csv, json, arrow");
            return Err(errors::new("ProgrammingError", message));
        }
    }))
}

fn delimiter(given: &Bound<'_, PyDict>) -> PyResult<Option<u8>> {
    let Some(text) = option::<String>(given, "delimiter")? else { return Ok(None) };
    match text.as_bytes() {
        [byte] => Ok(Some(*byte)),
        _ => {
            let message = format!("delimiter {text:?} is not one ASCII character");
            Err(errors::new("ProgrammingError", message))
        }
    }
}

/// Runs `work` while `callback(done, total, unit)` hears of its progress.
pub fn with_progress<T>(
    connection: &Connection,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(&Connection) -> swingdb::Result<T>,
) -> swingdb::Result<T> {
    let Some(callback) = callback else { return work(connection) };
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
