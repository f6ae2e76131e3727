//! Parameters of a statement: a sequence for `?` and `$1`, a dict for `$name`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyMapping, PySequence, PyString};
use swingdb::arrow::datatypes::DataType;
use swingdb::{Connection, QueryResult, ScalarValue, Value};

use crate::columns::build;
use crate::errors;
use crate::infer::{normal, type_of};

/// The values of a statement's parameters.
pub enum Params {
    /// For `?` and `$1`, `$2` ...
    Positional(Vec<Value>),
    /// For `$name`.
    Named(Vec<(String, Value)>),
}

impl Params {
    /// The values given to `execute`.
    pub fn from_python(given: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(given) = given else { return Ok(Self::Positional(Vec::new())) };
        if let Ok(named) = given.cast::<PyDict>() {
            return Self::named(named);
        }
        // Text is a sequence of characters to Python, and never meant as one here.
        if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() {
            return Err(errors::new(
                "ProgrammingError",
                "parameters must be a sequence or a dict: write [value] for a single one",
            ));
        }
        if let Ok(mapping) = given.cast::<PyMapping>() {
            let dict = PyDict::new(given.py());
            dict.update(mapping)?;
            return Self::named(&dict);
        }
        if given.cast::<PySequence>().is_err() && !given.hasattr("__iter__")? {
            let message = format!(
                "parameters must be a sequence or a dict, not {}",
                given.get_type().name()?
            );
            return Err(errors::new("ProgrammingError", message));
        }
        let values = given.try_iter()?.map(|value| value_of(&value?)).collect::<PyResult<_>>()?;
        Ok(Self::Positional(values))
    }

    fn named(given: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut values = Vec::with_capacity(given.len());
        for (name, value) in given.iter() {
            let name = name.extract::<String>().map_err(|_| {
                errors::new("ProgrammingError", "the names of parameters must be strings")
            })?;
            values.push((name, value_of(&value)?));
        }
        Ok(Self::Named(values))
    }

    /// Runs `sql` with these values.
    pub fn execute(&self, connection: &Connection, sql: &str) -> swingdb::Result<QueryResult> {
        match self {
            Self::Positional(values) => connection.execute(sql, values),
            Self::Named(values) => {
                let values: Vec<_> =
                    values.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
                connection.execute_named(sql, &values)
            }
        }
    }
}

/// One Python value as the engine's.
pub fn value_of(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let value = normal(value)?;
    // The frequent ones directly; bool first, since it is an int to Python.
    if value.is_none() {
        return Ok(Value::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>()
        && let Ok(narrow) = value.extract::<i64>()
    {
        return Ok(Value::Int64(narrow));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Float64(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::Text(value.extract()?));
    }
    if value.is_instance_of::<PyBytes>() {
        return Ok(Value::Blob(value.extract::<&[u8]>()?.to_vec()));
    }
    let data_type = type_of(&value)?;
    if data_type == DataType::Utf8View {
        return Ok(Value::Text(value.str()?.extract()?));
    }
    let array = build(&[value], &data_type)?;
    let scalar = ScalarValue::try_from_array(&array, 0)
        .map_err(|error| errors::raise(&swingdb::Error::from(error)))?;
    Ok(Value::Scalar(scalar))
}
