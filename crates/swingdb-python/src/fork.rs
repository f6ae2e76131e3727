//! Handles and `fork`: what a forked child may do with the handles it inherits.
//!
//! A child inherits the parent's memory, but none of its threads, and the locks and leases of its
//! databases stay the parent's. So every handle remembers the process that made it. In another
//! process its methods raise `ForkedError`, and dropping it does nothing at all: neither waits for
//! a thread that is not there, nor gives back what the parent still holds. What it leaks is a copy
//! of the parent's memory, which goes with the child.
//!
//! A child opens databases and takes snapshots of its own as any process does.

use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::errors;

/// A value that only the process that made it may use, until it is taken out.
pub struct Owned<T> {
    pid: u32,
    what: &'static str,
    value: ManuallyDrop<Mutex<Option<T>>>,
}

impl<T> Owned<T> {
    /// Holds `value`; `what` names it in errors.
    pub fn new(what: &'static str, value: T) -> Self {
        Self { pid: std::process::id(), what, value: ManuallyDrop::new(Mutex::new(Some(value))) }
    }

    /// Whether this process made it.
    pub fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Access to the value: `ForkedError` in another process.
    ///
    /// Never held while waiting for the interpreter's lock or the engine.
    pub fn lock(&self) -> PyResult<MutexGuard<'_, Option<T>>> {
        if !self.is_ours() {
            return Err(errors::raise(&swingdb::Error::Forked));
        }
        // The value is replaced as a whole, so it is never half-changed by a panic.
        Ok(self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy of the value: `ClosedError` when it was taken out.
    pub fn get(&self) -> PyResult<T>
    where
        T: Clone,
    {
        self.lock()?.clone().ok_or_else(|| self.closed())
    }

    /// Takes the value out, for closing it; `None` when that happened before, or in another
    /// process.
    pub fn take(&self) -> Option<T> {
        if !self.is_ours() {
            return None;
        }
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The error for a value that was taken out.
    pub fn closed(&self) -> PyErr {
        errors::raise(&swingdb::Error::Closed { what: self.what })
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
