//! The circumstances of reading files: [`Run`], and the table that they are read into: [`Target`].

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Field;
use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::CancelToken;
use swingdb_common::runtime::meter::Meter;
use swingdb_common::runtime::parallel::{Turnstile, caught, in_parallel};
use swingdb_common::time::zones::Zone;

/// Takes a batch that is number so-and-so.
pub(crate) type Sink<'a> = dyn Fn(u64, RecordBatch) -> Result<()> + Sync + 'a;
/// Takes a batch and the number of the file that it comes from.
pub(crate) type FileSink<'a> = dyn Fn(u64, usize, RecordBatch) -> Result<()> + Sync + 'a;

/// The circumstances of one reading.
#[derive(Clone)]
pub struct Run<'a> {
    /// Threads that read.
    pub threads: usize,
    /// Rows of a batch, at most (CSV and JSON: about).
    pub batch_rows: usize,
    /// Columns to read; `None`: all.
    pub projection: Option<&'a [usize]>,
    /// Ends the reading.
    pub token: Option<&'a CancelToken>,
    /// The time zone of points in time that name none in their text.
    pub zone: Zone,
    /// Counts bytes.
    pub meter: Arc<Meter>,
    /// What the sink passes: told the number of a batch that will not reach it, and the numbers of
    /// those that there are not.
    pub turnstile: Option<&'a Turnstile>,
}

impl Run<'_> {
    /// As [`in_parallel`] on the run's threads. A piece of work that fails, also by a panic, is
    /// told to [`Run::turnstile`]: no batch of it will reach the sink.
    pub(crate) fn in_parallel<T: Send>(
        &self,
        next: impl FnMut() -> Result<Option<(u64, T)>> + Send,
        work: impl Fn(u64, T) -> Result<()> + Sync,
    ) -> Result<()> {
        in_parallel(self.threads, next, |order, piece| {
            let done = caught(|| work(order, piece));
            if let (Err(_), Some(turnstile)) = (&done, self.turnstile) {
                turnstile.close_at(order);
            }
            done
        })
    }

    /// [`Error::Interrupted`] when the reading is to end.
    pub(crate) fn check(&self) -> Result<()> {
        self.token.map_or(Ok(()), CancelToken::check)
    }
}

/// The columns of the table that the files are read into, where there is one.
pub struct Target<'a> {
    /// Its columns.
    pub fields: &'a [Arc<Field>],
    /// Whether the file's columns are named by [`ImportOptions::columns`].
    pub listed: bool,
}
