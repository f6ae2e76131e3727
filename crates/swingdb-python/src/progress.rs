//! Progress bars on `sys.stderr`, where a person looks at it: a terminal or a notebook.

use std::sync::Arc;

use pyo3::prelude::*;
use swingdb::{Bar, Connection, Progress};

/// The bar of one statement, if the session's settings want one.
pub struct Statement<'a> {
    connection: &'a Connection,
    bar: Option<Arc<Bar>>,
}

impl<'a> Statement<'a> {
    /// Shows a bar for what `connection` does next.
    pub fn begin(connection: &'a Connection) -> Self {
        let Some(after) = connection.progress_bar() else {
            return Statement { connection, bar: None };
        };
        let bar = Arc::new(Bar::new(after, write));
        let report: Arc<dyn Progress> = Arc::<Bar>::clone(&bar);
        connection.set_progress(Some(report));
        Statement { connection, bar: Some(bar) }
    }

    /// The call has ended; the bar, for the reading of the result.
    pub fn end(self) -> Option<Arc<Bar>> {
        if let Some(bar) = &self.bar {
            bar.clear();
            self.connection.set_progress(None);
        }
        self.bar
    }
}

/// Writes to what `sys.stderr` is now. The caller waits without the interpreter's lock.
fn write(text: &str) {
    Python::attach(|py| {
        // A bar that cannot be shown is no reason to fail.
        let _ = try_write(py, text);
    });
}

fn try_write(py: Python<'_>, text: &str) -> PyResult<()> {
    let sys = py.import("sys")?;
    let stderr = sys.getattr("stderr")?;
    if stderr.is_none() {
        return Ok(());
    }
    let in_notebook = sys.getattr("modules")?.contains("ipykernel")?;
    if in_notebook || stderr.call_method0("isatty")?.extract()? {
        stderr.call_method1("write", (text,))?;
        stderr.call_method0("flush")?;
    }
    Ok(())
}
