//! Functions of SQL that are written in Python and called as tables.
//!
//! The function returns an iterable of pieces, each of which is a table to Python. The engine's
//! thread that reads them holds the interpreter's lock while it asks for the next piece. It closes
//! a generator that it does not read to its end.

use std::sync::Arc;

use pyo3::prelude::*;
use swingdb::arrow::array::{ArrayRef, RecordBatch, RecordBatchReader};
use swingdb::arrow::datatypes::{Field, Schema};
use swingdb::{Connection, Pieces, Result, TableFunction};

use crate::capsule::reader_of;
use crate::functions;
use crate::rows;

/// One function of tables.
struct Call {
    name: String,
    /// Of the arguments.
    fields: Vec<Field>,
    /// Gives an iterator of pieces for arguments.
    pieces: Py<PyAny>,
}

impl Call {
    /// Calls into Python, as a function of the statement.
    fn call<T>(&self, work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
        functions::enter(&self.name, work)
    }

    fn begin(self: &Arc<Self>, arguments: &[ArrayRef]) -> Result<Reading> {
        let iterator = self.call(|py| {
            let mut values = Vec::with_capacity(arguments.len());
            for (field, array) in self.fields.iter().zip(arguments) {
                values.extend(rows::values(py, field, array)?);
            }
            self.pieces.bind(py).call1((values,)).map(Bound::unbind)
        })?;
        Ok(Reading { call: Arc::clone(self), iterator: Some(iterator), piece: None })
    }
}

/// The pieces of one call, as they are read.
struct Reading {
    call: Arc<Call>,
    /// `None` at the end.
    iterator: Option<Py<PyAny>>,
    /// What is left of the last piece.
    piece: Option<Box<dyn RecordBatchReader + Send>>,
}

impl Reading {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(piece) = &mut self.piece {
                // A reader may call into Python.
                match self
                    .call
                    .call(|_| piece.next().transpose().map_err(crate::errors::raise_arrow))?
                {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.piece = None,
                }
            }
            let Some(iterator) = &self.iterator else { return Ok(None) };
            let next = self.call.call(|py| {
                let mut iterator = iterator.bind(py).try_iter()?;
                iterator.next().map(|piece| reader_of(&piece?)).transpose()
            })?;
            match next {
                Some(piece) => self.piece = Some(piece),
                None => self.iterator = None,
            }
        }
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if next.is_err() {
            self.close();
        }
        next.transpose()
    }
}

impl Reading {
    /// Ends a generator that is not read to its end: its `finally` runs.
    fn close(&mut self) {
        self.piece = None;
        let Some(iterator) = self.iterator.take() else { return };
        // What goes wrong in a `finally` has nobody left to be told.
        let _ = self.call.call(|py| iterator.bind(py).call_method0("close").map(|_| ()));
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.close();
    }
}

/// Adds a function of tables to the session; `columns` are names and types as SQL writes them.
pub fn create(
    connection: &Connection,
    name: String,
    arguments: &[String],
    columns: &[(String, String)],
    pieces: Py<PyAny>,
) -> Result<()> {
    functions::note_added()?;
    let name = name.to_lowercase();
    let argument = |kind: &String| functions::type_of(connection, kind);
    let fields = arguments.iter().map(argument).collect::<Result<Vec<_>>>()?;
    let column = |(name, kind): &(String, String)| {
        functions::type_of(connection, kind).map(|field| field.with_name(name))
    };
    let schema = Arc::new(Schema::new(columns.iter().map(column).collect::<Result<Vec<_>>>()?));
    swingdb::io::check_columns(&schema)?;
    let types = fields.iter().map(|field| field.data_type().clone()).collect();
    let call = Arc::new(Call { name: name.clone(), fields, pieces });
    connection.create_table_function(TableFunction {
        name,
        arguments: types,
        columns: Arc::new(move |_| Ok(Arc::clone(&schema))),
        rows: Arc::new(move |arguments| Ok(Box::new(call.begin(arguments)?) as Pieces)),
    })
}
