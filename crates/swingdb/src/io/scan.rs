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
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::cancel::CancelToken;
use swingdb_common::runtime::threads::{WORKER_STACK_BYTES, panic_text};
use swingdb_common::time::zones::Zone;

use super::csv::CsvScan;
use super::file_columns::{Combined, FileColumns};
use super::ipc::IpcScan;
use super::json::JsonScan;
use super::matching::match_columns;
use super::meter::Meter;
use super::options::{FileFormat, ImportOptions};
use super::parquet::ParquetScan;
use super::source::{InputFile, find_files};

/// Takes a batch that is number so-and-so.
pub(crate) type Sink<'a> = dyn Fn(u64, RecordBatch) -> Result<()> + Sync + 'a;
/// Takes a batch and the number of the file that it comes from.
pub(crate) type FileSink<'a> = dyn Fn(u64, usize, RecordBatch) -> Result<()> + Sync + 'a;

/// The circumstances of one reading.
#[derive(Clone)]
pub(crate) struct Run<'a> {
    pub(crate) threads: usize,
    /// Rows of a batch, at most (CSV and JSON: about).
    pub(crate) batch_rows: usize,
    /// Columns to read; `None`: all.
    pub(crate) projection: Option<&'a [usize]>,
    pub(crate) token: Option<&'a CancelToken>,
    /// The time zone of points in time that name none in their text.
    pub(crate) zone: Zone,
    /// Counts bytes.
    pub(crate) meter: Arc<Meter>,
    /// Told the number of a batch that will not reach the sink.
    pub(crate) on_failure: Option<&'a (dyn Fn(u64) + Sync)>,
}

/// Runs `make`; a panic becomes an error.
pub(crate) fn caught<T>(make: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(make))
        .unwrap_or_else(|payload| Err(swingdb_common::error::panicked(panic_text(payload))))
}

impl Run<'_> {
    /// As [`in_parallel`] on the run's threads. A piece of work that fails, also by a panic, is
    /// told to [`Run::on_failure`]: no batch of it will reach the sink.
    pub(crate) fn in_parallel<T: Send>(
        &self,
        next: impl FnMut() -> Result<Option<(u64, T)>> + Send,
        work: impl Fn(u64, T) -> Result<()> + Sync,
    ) -> Result<()> {
        in_parallel(self.threads, next, |order, piece| {
            let done = caught(|| work(order, piece));
            if let (Err(_), Some(on_failure)) = (&done, self.on_failure) {
                on_failure(order);
            }
            done
        })
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
    places: FileColumns,
    /// All columns, where the files have some by where they lie.
    combined: Option<Combined>,
    target_columns: Option<Vec<usize>>,
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

impl Kind {
    fn open(
        files: &[InputFile],
        options: &ImportOptions,
        target: Option<&Target<'_>>,
    ) -> Result<Self> {
        let Some(first) = files.first() else {
            return Err(Error::internal("a search for files that found none is an error"));
        };
        Ok(match first.format(options.format) {
            FileFormat::Csv => Self::Csv(CsvScan::open(files, options, target)?),
            FileFormat::Parquet => Self::Parquet(ParquetScan::open(files)?),
            FileFormat::Json => Self::Json(JsonScan::open(files, options, target)?),
            FileFormat::Arrow => Self::Ipc(IpcScan::open(files)?),
        })
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Self::Csv(scan) => scan.schema(),
            Self::Parquet(scan) => scan.schema(),
            Self::Json(scan) => scan.schema(),
            Self::Ipc(scan) => scan.schema(),
        }
    }

    /// For each column its place in the target.
    fn target_columns(&self, file: &InputFile, target: &Target<'_>) -> Result<Vec<usize>> {
        let decided = match self {
            Self::Csv(scan) => scan.target_columns(),
            Self::Json(scan) => scan.target_columns(),
            _ => None,
        };
        if let Some(columns) = decided {
            return Ok(columns.to_vec());
        }
        let schema = self.schema();
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(match_columns(&file.path, Some(&names), names.len(), target)?.target_columns)
    }

    fn run(&self, files: &[InputFile], run: &Run<'_>, sink: &FileSink<'_>) -> Result<()> {
        match self {
            Self::Csv(scan) => scan.run(files, run, sink),
            Self::Parquet(scan) => scan.run(files, run, sink),
            Self::Json(scan) => scan.run(files, run, sink),
            Self::Ipc(scan) => scan.run(files, run, sink),
        }
    }
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
        if let Some(first) = files.first() {
            options.check_for(first.format(options.format))?;
            first.check_packing(options)?;
        }
        let places = FileColumns::find(&files, options)?;
        match target {
            Some(target) => Self::into_target(files, options, places, target),
            None => {
                let kind = Kind::open(&files, options, None)?;
                let combined = match places.is_empty() {
                    true => None,
                    false => Some(Combined::new(&kind.schema(), &places, options)?),
                };
                Ok(Self { files, kind, places, combined, target_columns: None })
            }
        }
    }

    /// Columns of the table that the files do not have come from where the files lie, if these have
    /// such. Those that the caller asks for must be columns of the table.
    fn into_target(
        files: Vec<InputFile>,
        options: &ImportOptions,
        places: FileColumns,
        target: &Target<'_>,
    ) -> Result<Self> {
        let of_target = |name: &str| {
            target.fields.iter().position(|field| field.name().eq_ignore_ascii_case(name))
        };
        let asked = options.filename.is_some() || options.hive_partitioning == Some(true);
        if asked
            && let Some(missing) = places.fields().iter().find(|f| of_target(f.name()).is_none())
        {
            let known = target.fields.iter().map(|field| field.name());
            return Err(Error::not_found(ObjectKind::Column, missing.name().clone(), known));
        }
        let places = places.only(|name| of_target(name).is_some());
        // First as if there were no such columns: the files may have all that the table has.
        let whole = Kind::open(&files, options, Some(target))
            .and_then(|kind| Ok((kind.target_columns(&files[0], target)?, kind)));
        let (taken, kind) = match whole {
            Ok(whole) => whole,
            Err(error) if places.is_empty() => return Err(error),
            Err(error) => {
                let is_place = |field: &&Arc<Field>| {
                    places
                        .fields()
                        .iter()
                        .any(|place| place.name().eq_ignore_ascii_case(field.name()))
                };
                let numbered = target.fields.iter().enumerate();
                let (numbers, rest): (Vec<usize>, Vec<Arc<Field>>) = numbered
                    .filter(|(_, field)| !is_place(field))
                    .map(|(number, field)| (number, Arc::clone(field)))
                    .unzip();
                let smaller = Target { fields: &rest, listed: target.listed };
                let Ok(kind) = Kind::open(&files, options, Some(&smaller)) else {
                    return Err(error);
                };
                let Ok(columns) = kind.target_columns(&files[0], &smaller) else {
                    return Err(error);
                };
                (columns.into_iter().map(|column| numbers[column]).collect(), kind)
            }
        };
        let free = |name: &str| of_target(name).is_some_and(|place| !taken.contains(&place));
        let places = places.only(free);
        if places.is_empty() {
            return Ok(Self { files, kind, places, combined: None, target_columns: Some(taken) });
        }
        let combined = Combined::appended(&kind.schema(), &places);
        let added = places.fields().iter().filter_map(|field| of_target(field.name()));
        let target_columns = Some(taken.into_iter().chain(added).collect());
        Ok(Self { files, kind, places, combined: Some(combined), target_columns })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        match &self.combined {
            Some(combined) => combined.schema(),
            None => self.kind.schema(),
        }
    }

    /// For each column of [`Self::schema`], the target's column, where there is a target.
    pub(crate) fn target_columns(&self) -> Option<&[usize]> {
        self.target_columns.as_deref()
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
        let Some(combined) = &self.combined else {
            return self.kind.run(&self.files, run, &|order, _, batch| sink(order, batch));
        };
        let (combined, inner) = combined.project(run.projection)?;
        let run = Run { projection: Some(&inner), ..run.clone() };
        self.kind.run(&self.files, &run, &|order, file, batch| {
            sink(order, combined.complete(&batch, self.places.values(file))?)
        })
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
/// one in the order of the pieces, whichever thread was faster. A panic of either is such an error.
///
/// The caller's thread works too, and is enough: where the system gives fewer threads than asked
/// for, the work is done by those that there are.
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
    let take = || {
        let mut guard = next.lock();
        // What has failed once must not be asked again: its state means nothing any more.
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let (next, last) = &mut *guard;
        match caught(next) {
            Ok(Some((order, piece))) => {
                *last = order;
                return Some((order, piece));
            }
            Ok(None) => stop.store(true, Ordering::Relaxed),
            Err(error) => fail(*last + 1, error),
        }
        None
    };
    let body = || {
        while let Some((order, piece)) = take() {
            if let Err(error) = caught(|| work(order, piece)) {
                fail(order, error);
            }
        }
    };
    match threads {
        0 | 1 => body(),
        _ => std::thread::scope(|scope| {
            for _ in 1..threads {
                let thread = std::thread::Builder::new().stack_size(WORKER_STACK_BYTES);
                if thread.spawn_scoped(scope, body).is_err() {
                    break;
                }
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
        let result = caught(pass);
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

    /// A panic in any part is an error, whichever thread meets it; nobody waits for ever.
    #[test]
    fn a_panic_is_an_error() {
        for (part, threads) in (0..3).flat_map(|part| [1, 4].map(|threads| (part, threads))) {
            let turnstile = Turnstile::default();
            let mut count = 0;
            let mut after = 0;
            let next = || {
                count += 1;
                after += u64::from(count > 51);
                assert!(part != 0 || count != 51, "no luck with cutting");
                Ok((count <= 100).then_some((count - 1, ())))
            };
            let run = Run {
                threads,
                batch_rows: 1,
                projection: None,
                token: None,
                zone: Zone::UTC,
                meter: Meter::new(None, None, "bytes"),
                on_failure: Some(&|order| turnstile.close_at(order)),
            };
            let result = run.in_parallel(next, |order, ()| {
                assert!(part != 1 || order != 50, "no luck with parsing");
                turnstile.pass(order, || {
                    assert!(part != 2 || order != 50, "no luck with storing");
                    Ok(())
                })
            });
            let error = result.unwrap_err();
            assert!(error.to_string().contains("no luck"), "{part} {threads}: {error}");
            assert!(part != 0 || after == 0, "asked again after the panic");
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
