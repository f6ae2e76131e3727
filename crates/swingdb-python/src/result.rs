//! The rows of a statement, pulled from the engine as they are asked for: [`Rows`].

use std::collections::VecDeque;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use swingdb::arrow::array::{RecordBatch, RecordBatchReader};
use swingdb::arrow::datatypes::SchemaRef;
use swingdb::arrow::error::ArrowError;
use swingdb::{Bar, InterruptHandle, QueryResult};

use crate::batches::Batches;
use crate::capsule::{schema_capsule, stream_capsule};
use crate::fork::Owned;
use crate::types::{self, Column};
use crate::{blocking, errors, functions, rows};

/// Up to so many rows at once are taken from rows converted ahead.
const FEW_ROWS: usize = 32;
/// Rows converted ahead when few are asked for, so that a loop over `fetchone` does not convert
/// each row by itself.
const ROWS_AHEAD: usize = 512;

/// What was pulled and what is still to come.
struct State {
    /// `None` at the end, after an error, and while a thread is pulling.
    stream: Option<QueryResult>,
    pulled: VecDeque<RecordBatch>,
    pulling: bool,
    ahead: Option<Ahead>,
    /// Why the stream ended before its end: whoever asks for more hears it again.
    failed: Option<swingdb::Error>,
}

/// Rows converted ahead, and the batch whose last rows they are.
struct Ahead {
    batch: RecordBatch,
    rows: std::vec::IntoIter<Py<PyTuple>>,
}

impl State {
    /// Puts rows converted ahead back among those to be read.
    fn put_back(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            let (all, left) = (ahead.batch.num_rows(), ahead.rows.len());
            if left > 0 {
                self.pulled.push_front(ahead.batch.slice(all - left, left));
            }
        }
    }
}

/// The result of a statement: a stream of rows that can be read once.
#[pyclass(frozen, module = "swingdb._internal")]
pub struct Rows {
    schema: SchemaRef,
    interrupt: Owned<InterruptHandle>,
    state: Owned<State>,
    /// Shown while rows are waited for.
    bar: Option<Arc<Bar>>,
    /// How many rows the statement changed; `None` for queries.
    #[pyo3(get)]
    rows_changed: Option<u64>,
}

impl Rows {
    /// The rows of `result`; `interrupt` ends their computation, `bar` shows it.
    pub fn new(result: QueryResult, interrupt: InterruptHandle, bar: Option<Arc<Bar>>) -> Self {
        let (schema, rows_changed) = (result.schema(), result.rows_changed());
        let state = State {
            stream: Some(result),
            pulled: VecDeque::new(),
            pulling: false,
            ahead: None,
            failed: None,
        };
        Self {
            schema,
            interrupt: Owned::new("result", interrupt),
            state: Owned::new("result", state),
            bar,
            rows_changed,
        }
    }

    /// Runs `with` on the state; `ClosedError` after `close`.
    fn with_state<T>(&self, with: impl FnOnce(&mut State) -> PyResult<T>) -> PyResult<T> {
        let mut state = self.state.lock()?;
        with(state.as_mut().ok_or_else(|| self.state.closed())?)
    }

    /// Converts the next rows ahead; false if there are none.
    fn look_ahead(&self, py: Python<'_>) -> PyResult<bool> {
        self.pull(py, Some(1))?;
        let Some(batch) = self.pop(ROWS_AHEAD)? else { return Ok(false) };
        let mut rows = Vec::new();
        rows::append(py, &batch, &mut rows)?;
        let rows: Vec<_> = rows.into_iter().map(Bound::unbind).collect();
        self.with_state(|state| {
            state.ahead = Some(Ahead { batch, rows: rows.into_iter() });
            Ok(true)
        })
    }

    /// Takes up to `count` of the pulled rows.
    fn pop(&self, count: usize) -> PyResult<Option<RecordBatch>> {
        self.with_state(|state| {
            let Some(batch) = state.pulled.pop_front() else { return Ok(None) };
            if batch.num_rows() > count {
                state.pulled.push_front(batch.slice(count, batch.num_rows() - count));
                return Ok(Some(batch.slice(0, count)));
            }
            Ok(Some(batch))
        })
    }

    /// Pulls until `count` rows are there, or (with `None`) to the end.
    fn pull(&self, py: Python<'_>, count: Option<usize>) -> PyResult<()> {
        let (stream, missing) = self.with_state(|state| {
            if state.pulling {
                let message = "another thread is reading this result";
                return Err(errors::new("ProgrammingError", message));
            }
            state.put_back();
            let present: usize = state.pulled.iter().map(RecordBatch::num_rows).sum();
            let missing = count.map_or(usize::MAX, |count| count.saturating_sub(present));
            if let Some(error) = state.failed.as_ref().filter(|_| missing > 0) {
                return Err(errors::raise(error));
            }
            let stream = if missing == 0 { None } else { state.stream.take() };
            state.pulling = stream.is_some();
            Ok((stream, missing))
        })?;
        let Some(mut stream) = stream else { return Ok(()) };
        let interrupt = self.interrupt.get()?;
        interrupt.join_here();
        let is_short = stream.is_short();
        let work = move || {
            let (mut batches, mut missing) = (VecDeque::new(), missing);
            while missing > 0 {
                match stream.next() {
                    Some(Ok(batch)) if batch.num_rows() == 0 => {}
                    Some(Ok(batch)) => {
                        missing = missing.saturating_sub(batch.num_rows());
                        batches.push_back(batch);
                    }
                    Some(Err(error)) => return Err(error),
                    None => return Ok((batches, None)),
                }
            }
            Ok((batches, Some(stream)))
        };
        let outcome = match is_short && blocking::hands_over() {
            true => blocking::run_here(py, work),
            false => blocking::run(py, || interrupt.interrupt(), work),
        };
        if let Some(bar) = &self.bar {
            // The bar's lock must not be waited for with the interpreter's: who holds it may write.
            py.detach(|| bar.clear());
        }
        // Closed meanwhile: the rows are nobody's, and that is what the caller hears.
        self.with_state(|state| {
            state.pulling = false;
            match outcome {
                Ok(Ok((batches, stream))) => {
                    state.pulled.extend(batches);
                    state.stream = stream;
                    Ok(())
                }
                Ok(Err(error)) => {
                    let raised = errors::raise(&error);
                    state.failed = Some(error);
                    Err(raised)
                }
                Err(raised) => {
                    state.failed = Some(swingdb::Error::Interrupted);
                    Err(raised)
                }
            }
        })
    }
}

#[pymethods]
impl Rows {
    /// (name, SQL type, family, precision, scale, nullable) of each column.
    #[getter]
    fn columns(&self) -> Vec<Column> {
        types::columns(&self.schema)
    }

    /// The next row, or `None` after the last.
    fn next_row<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        loop {
            let ready =
                self.with_state(|state| Ok(state.ahead.as_mut().and_then(|a| a.rows.next())))?;
            if ready.is_some() {
                return Ok(ready.map(|row| row.into_bound(py)));
            }
            if !self.look_ahead(py)? {
                return Ok(None);
            }
        }
    }

    /// The next `count` rows, or all that are left.
    fn next_rows<'py>(
        &self,
        py: Python<'py>,
        count: Option<usize>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        if let Some(count) = count
            && count <= FEW_ROWS
        {
            let mut out = Vec::with_capacity(count);
            while out.len() < count
                && let Some(row) = self.next_row(py)?
            {
                out.push(row);
            }
            return Ok(out);
        }
        self.pull(py, count)?;
        let mut left = count.unwrap_or(usize::MAX);
        let mut out = Vec::new();
        while left > 0 {
            let Some(batch) = self.pop(left)? else { break };
            left -= batch.num_rows();
            rows::append(py, &batch, &mut out)?;
            py.check_signals()?;
        }
        Ok(out)
    }

    /// At least `count` rows if there are so many, which stay to be read, and whether that is all.
    fn head(&self, py: Python<'_>, count: usize) -> PyResult<(Batches, bool)> {
        self.pull(py, Some(count))?;
        self.with_state(|state| {
            let batches = state.pulled.iter().cloned().collect();
            Ok((Batches::new(self.schema.clone(), batches), state.stream.is_none()))
        })
    }

    /// All rows that are left.
    fn collect(&self, py: Python<'_>) -> PyResult<Batches> {
        self.pull(py, None)?;
        self.with_state(|state| {
            let batches = state.pulled.drain(..).collect();
            Ok(Batches::new(self.schema.clone(), batches))
        })
    }

    /// Ends the computation and lets go of the rows; may be called twice.
    fn close(&self, py: Python<'_>) {
        let state = self.state.take();
        py.detach(|| drop(state));
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let mut state = self.state.take().ok_or_else(|| self.state.closed())?;
        state.put_back();
        if let Some(bar) = &self.bar {
            // Threads of the consumer may read: they must not wait for the interpreter's lock.
            py.detach(|| bar.stop());
        }
        let reader = Reader { schema: self.schema.clone(), state };
        stream_capsule(py, Box::new(reader), requested_schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}

/// The rest of a result as an Arrow reader, for consumers that hold the interpreter's lock or not.
struct Reader {
    schema: SchemaRef,
    state: State,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(batch) = self.state.pulled.pop_front() {
            return Some(Ok(batch));
        }
        if let Some(error) = self.state.failed.take() {
            return Some(Err(error.into()));
        }
        let stream = self.state.stream.as_mut()?;
        functions::without_lock(|| stream.next()).map(|batch| batch.map_err(ArrowError::from))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
