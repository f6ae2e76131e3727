//! Aggregates of SQL that are written in Python.
//!
//! `swingdb._functions` has an object for each aggregate, whose methods start the work on a group,
//! add rows, merge what another thread has of the group, and finish. The interpreter's lock is held
//! inside of them only.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use swingdb::arrow::array::{ArrayRef, new_empty_array};
use swingdb::arrow::datatypes::{DataType, Field};
use swingdb::{AggregateFunction, Aggregation, Connection, Result};

use crate::columns::from_arrow;
use crate::declared::{of_type, stored};
use crate::functions;

/// Rows for which the interpreter's lock is held.
const ROWS_AT_A_TIME: usize = 1024;

/// One aggregate.
struct Work {
    name: String,
    /// Of the arguments.
    fields: Vec<Field>,
    returns: DataType,
    /// The object of `swingdb._functions`.
    methods: Py<PyAny>,
    /// Whether arguments are Arrow arrays.
    arrow: bool,
}

impl Work {
    /// Calls into Python, as a function of the statement.
    fn call<T>(&self, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        functions::enter(&self.name, |py| work(self.methods.bind(py)))
    }
}

/// The work on one group.
struct Group {
    work: Arc<Work>,
    /// What Python knows of the group.
    state: Py<PyAny>,
    is_empty: bool,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("name", &self.work.name).finish_non_exhaustive()
    }
}

impl Aggregation for Group {
    fn update(&mut self, arguments: &[ArrayRef]) -> Result<()> {
        let work = &self.work;
        self.is_empty = false;
        work.call(|methods| {
            let columns: Bound<'_, PyList> =
                functions::columns(methods.py(), &work.fields, arguments, work.arrow)?;
            let rows = arguments[0].len();
            methods.call_method1("update", (&self.state, columns, rows)).map(|_| ())
        })
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        if self.is_empty {
            // A function of all values is called with none.
            let none = self.work.fields.iter().map(|field| new_empty_array(field.data_type()));
            self.update(&none.collect::<Vec<_>>())?;
            self.is_empty = true;
        }
        let work = &self.work;
        work.call(|methods| {
            let value = methods.call_method1("finish", (&self.state,))?;
            match value.hasattr("__arrow_c_array__")? {
                true => stored(&from_arrow(&value)?, &work.returns),
                false => of_type(PyList::new(methods.py(), [value])?.as_any(), &work.returns),
            }
        })
    }

    fn state(&mut self) -> Result<Vec<u8>> {
        self.work.call(|methods| methods.call_method1("dump", (&self.state,))?.extract())
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        self.is_empty = false;
        self.work.call(|methods| {
            let bytes = PyBytes::new(methods.py(), state);
            methods.call_method1("merge", (&self.state, bytes)).map(|_| ())
        })
    }
}

/// Adds an aggregate to the session, with types as SQL writes them.
pub fn create(
    connection: &Connection,
    name: String,
    arguments: &[String],
    returns: &str,
    methods: Py<PyAny>,
    (skips_nulls, merges, arrow): (bool, bool, bool),
) -> Result<()> {
    functions::note_added()?;
    let name = name.to_lowercase();
    let mut fields = functions::types(connection, arguments, returns)?;
    let returns = fields.split_off(arguments.len())[0].data_type().clone();
    let types = fields.iter().map(|field| field.data_type().clone()).collect();
    let kind = returns.clone();
    let work = Arc::new(Work { name: name.clone(), fields, returns, methods, arrow });
    let start = move || -> Result<Box<dyn Aggregation>> {
        let state = work.call(|methods| methods.call_method0("start").map(Bound::unbind))?;
        Ok(Box::new(Group { work: Arc::clone(&work), state, is_empty: true }))
    };
    connection.create_aggregate(AggregateFunction {
        name,
        arguments: types,
        returns: kind,
        skips_nulls,
        merges,
        rows_at_a_time: ROWS_AT_A_TIME,
        start: Arc::new(start),
    })
}
