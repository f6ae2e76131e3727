//! Reading files of any format as one table, on several threads.
//!
//! [`FileScan::open`] finds the files and their schema; [`FileScan::run`] reads them. The batches
//! reach the sink from many threads at once, each with its place in the order of the files:
//! ascending, and for all formats but Parquet 0, 1, 2 ... without gaps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use parking_lot::{Condvar, Mutex};

use super::csv::CsvScan;
use super::ipc::IpcScan;
use super::json::JsonScan;
use super::meter::Meter;
use super::options::{FileFormat, ImportOptions};
use super::parquet::ParquetScan;
use super::source::{InputFile, find_files};
use crate::error::{Error, Result};
use crate::sql::interrupt::CancelToken;

/// Takes a batch that is number so-and-so.
pub(crate) type Sink<'a> = dyn Fn(u64, RecordBatch) -> Result<()> + Sync + 'a;

/// The circumstances of one reading.
#[derive(Clone)]
pub(crate) struct Run<'a> {
    pub(crate) threads: usize,
    /// Rows of a batch, at most (CSV and JSON: about).
    pub(crate) batch_rows: usize,
    /// Columns to read; `None`: all.
    pub(crate) projection: Option<&'a [usize]>,
    pub(crate) token: Option<&'a CancelToken>,
    /// Counts bytes.
    pub(crate) meter: Arc<Meter>,
    /// Told the number of a batch that will not reach the sink.
    pub(crate) on_failure: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl Run<'_> {
    /// Makes batch `order`; a failure, also a panic, is told to whom it concerns.
    pub(crate) fn made<T>(&self, order: u64, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|payload| {
            Err(Error::internal(crate::sql::runtime::panic_text(payload)))
        });
        if let (Err(_), Some(on_failure)) = (&result, self.on_failure) {
            on_failure(order);
        }
        result
    }

    /// [`Error::Interrupted`] when the reading is to end.
    pub(crate) fn check(&self) -> Result<()> {
        self.token.map_or(Ok(()), CancelToken::check)
    }
}

/// Files that are read as one table.
pub(crate) struct FileScan {
    files: Vec<InputFile>,
    kind: Kind,
}

enum Kind {
    Csv(CsvScan),
    Parquet(ParquetScan),
    Json(JsonScan),
    Ipc(IpcScan),
}

/// The columns of the table that the files are read into, where there is one.
pub(crate) struct Target<'a> {
    pub(crate) fields: &'a [Arc<Field>],
    /// Whether the file's columns are named by [`ImportOptions::columns`].
    pub(crate) listed: bool,
}

impl FileScan {
    /// Finds files, format and schema. With a `target`, text formats are read as the types of its
    /// columns; other formats keep their own, see [`super::import`].
    pub(crate) fn open(
        path: &str,
        options: &ImportOptions,
        target: Option<&Target<'_>>,
    ) -> Result<Self> {
        Self::open_files(find_files(path)?, options, target)
    }

    /// As [`FileScan::open`], of files that have been found.
    pub(crate) fn open_files(
        files: Vec<InputFile>,
        options: &ImportOptions,
        target: Option<&Target<'_>>,
    ) -> Result<Self> {
        let Some(first) = files.first() else {
            return Err(Error::internal("a search for files that found none is an error"));
        };
        let format = first.format(options.format);
        let kind = match format {
            FileFormat::Csv => Kind::Csv(CsvScan::open(&files, options, target)?),
            FileFormat::Parquet => Kind::Parquet(ParquetScan::open(&files)?),
            FileFormat::Json => Kind::Json(JsonScan::open(&files, options, target)?),
            FileFormat::Arrow => Kind::Ipc(IpcScan::open(&files)?),
        };
        Ok(Self { files, kind })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        match &self.kind {
            Kind::Csv(scan) => scan.schema(),
            Kind::Parquet(scan) => scan.schema(),
            Kind::Json(scan) => scan.schema(),
            Kind::Ipc(scan) => scan.schema(),
        }
    }

    /// The columns that are 16 bytes in the files, and UUIDs.
    pub(crate) fn uuids(&self) -> Vec<String> {
        match &self.kind {
            Kind::Parquet(scan) => scan.uuids(),
            _ => Vec::new(),
        }
    }

    /// For each column of [`Self::schema`], the target's column, when the format has decided that.
    pub(crate) fn target_columns(&self) -> Option<&[usize]> {
        match &self.kind {
            Kind::Csv(scan) => scan.target_columns(),
            Kind::Json(scan) => scan.target_columns(),
            _ => None,
        }
    }

    /// Bytes of all files, packed as they are.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The first file, for messages.
    pub(crate) fn first_file(&self) -> &InputFile {
        &self.files[0]
    }

    /// Reads everything; ends with the first error in the order of the files.
    pub(crate) fn run(&self, run: &Run<'_>, sink: &Sink<'_>) -> Result<()> {
        match &self.kind {
            Kind::Csv(scan) => scan.run(&self.files, run, sink),
            Kind::Parquet(scan) => scan.run(&self.files, run, sink),
            Kind::Json(scan) => scan.run(&self.files, run, sink),
            Kind::Ipc(scan) => scan.run(&self.files, run, sink),
        }
    }

    /// As [`FileScan::run`] with a sink that passes `turnstile`: an error that keeps a batch from
    /// reaching the sink must end the waiting of those behind it.
    pub(crate) fn run_guarded(
        &self,
        run: &Run<'_>,
        sink: &Sink<'_>,
        turnstile: &Turnstile,
    ) -> Result<()> {
        let guarded = Run { on_failure: Some(&|order| turnstile.close_at(order)), ..run.clone() };
        self.run(&guarded, sink)
    }
}

/// Runs `work` on several threads until it has no more to do, and reports the earliest error.
///
/// `next` hands out pieces of work in order, one thread at a time; `work` does one. After an error
/// no new piece is handed out, but those before it are finished: so the error reported is the first
/// one in the order of the pieces, whichever thread was faster.
pub(crate) fn in_parallel<T: Send>(
    threads: usize,
    next: impl FnMut() -> Result<Option<(u64, T)>> + Send,
    work: impl Fn(u64, T) -> Result<()> + Sync,
) -> Result<()> {
    let next = Mutex::new((next, 0u64));
    let stop = AtomicBool::new(false);
    let failed: Mutex<Option<(u64, Error)>> = Mutex::new(None);
    let fail = |order: u64, error: Error| {
        stop.store(true, Ordering::Relaxed);
        let mut failed = failed.lock();
        if failed.as_ref().is_none_or(|(earlier, _)| order < *earlier) {
            *failed = Some((order, error));
        }
    };
    let body = || {
        while !stop.load(Ordering::Relaxed) {
            let piece = {
                let mut guard = next.lock();
                let (next, last) = &mut *guard;
                match next() {
                    Ok(Some((order, piece))) => {
                        *last = order;
                        Some((order, piece))
                    }
                    Ok(None) => None,
                    Err(error) => {
                        fail(*last + 1, error);
                        None
                    }
                }
            };
            let Some((order, piece)) = piece else {
                stop.store(true, Ordering::Relaxed);
                return;
            };
            if let Err(error) = work(order, piece) {
                fail(order, error);
            }
        }
    };
    match threads {
        0 | 1 => body(),
        _ => std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(body);
            }
            body();
        }),
    }
    match failed.into_inner() {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// Lets threads pass one after the other in the order of their numbers 0, 1, 2 ...
pub(crate) struct Turnstile {
    state: Mutex<Turn>,
    moved: Condvar,
}

struct Turn {
    /// Who passes next.
    next: u64,
    /// This number failed and will never pass; nor will those behind it.
    closed_at: u64,
}

impl Default for Turnstile {
    fn default() -> Self {
        let state = Mutex::new(Turn { next: 0, closed_at: u64::MAX });
        Self { state, moved: Condvar::new() }
    }
}

impl Turnstile {
    /// Waits until it is `order`'s turn and runs `pass`; [`Error::Interrupted`] when one before it
    /// failed.
    pub(crate) fn pass<T>(&self, order: u64, pass: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut state = self.state.lock();
        while state.next != order && order <= state.closed_at {
            self.moved.wait(&mut state);
        }
        if order > state.closed_at {
            return Err(Error::Interrupted);
        }
        drop(state);
        let result = pass();
        if result.is_err() {
            self.close_at(order);
        }
        self.state.lock().next = order + 1;
        self.moved.notify_all();
        result
    }

    /// `order` failed before its turn: those before it still pass, those behind it end.
    pub(crate) fn close_at(&self, order: u64) {
        let mut state = self.state.lock();
        state.closed_at = state.closed_at.min(order);
        drop(state);
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_in_order_wins() {
        for round in 0..50 {
            let mut count = 0;
            let next = || {
                count += 1;
                Ok((count <= 100).then_some((count, count)))
            };
            let result = in_parallel(4, next, |order, piece: u64| {
                if piece % 10 == 7 {
                    // Later pieces fail faster.
                    let wait = std::time::Duration::from_micros(200u64.saturating_sub(order * 10));
                    std::thread::sleep(wait);
                    return Err(Error::plan(format!("{piece}")));
                }
                Ok(())
            });
            assert_eq!(result.unwrap_err().to_string(), "7", "round {round}");
        }
    }

    #[test]
    fn a_turnstile_keeps_the_order() {
        let turnstile = Turnstile::default();
        let seen = Mutex::new(Vec::new());
        let mut count = 0;
        let next = || {
            count += 1;
            Ok((count <= 200).then_some((count - 1, ())))
        };
        let work = |order, ()| {
            turnstile.pass(order, || {
                seen.lock().push(order);
                Ok(())
            })
        };
        in_parallel(4, next, work).unwrap();
        assert!(seen.into_inner().into_iter().eq(0..200));
    }
}
