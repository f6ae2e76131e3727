//! Panics as exceptions of Python.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;

use crate::errors;

/// Runs `work`; a panic in it is an exception that `except Exception` catches.
pub fn caught<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| internal(panic_message(&*panic)))
}

/// A defect, as an exception.
pub fn internal(message: impl Into<String>) -> PyErr {
    errors::raise(&swingdb::Error::internal(message))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_string())
}
