//! Work that another thread can end: [`Work`].

use pyo3::prelude::*;
use swingdb::Interruptible;

/// What a program does with its sessions, and can end without their other statements.
#[pyclass(frozen, module = "swingdb._internal")]
#[derive(Default)]
pub struct Work {
    inner: Interruptible,
}

#[pymethods]
impl Work {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Calls `call`, whose statements belong to this work; what it returns.
    fn run<'py>(&self, call: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.inner.run(|| call.call0())
    }

    /// Ends what runs, what it would start next, and the results that are left of it.
    fn interrupt(&self) {
        self.inner.handle().interrupt();
    }
}
