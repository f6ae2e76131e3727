//! Arrow IPC: the file format (also called Feather) and the stream format.
//!
//! The batches of a file are decoded in parallel; those of a stream follow one another. Small
//! batches are joined, large ones cut, so that segments get their usual size.

use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use swingdb_common::error::{Error, Result};

use crate::input::InputFile;
use crate::input::decoder;
use crate::ipc::lengths::{CheckedStream, check_file};
use crate::parquet::scan::with_views;
use crate::reading::{FileSink, Run};

const FILE_MAGIC: &[u8] = b"ARROW1";
/// Batches of one piece of work have at least this many rows together, if there are as many.
const PIECE_ROWS: usize = 100_000;

/// The unpacked bytes of a stream.
type Stream = CheckedStream<BufReader<Box<dyn Read + Send>>>;

/// How a set of Arrow files is read.
pub(crate) struct IpcScan {
    /// The columns as tables keep them.
    schema: SchemaRef,
    /// Whether each file has the file format; the others are streams.
    indexed: Vec<bool>,
}

impl IpcScan {
    /// Reads the schemas; all files must have the columns of the first.
    pub(crate) fn open(files: &[InputFile]) -> Result<Self> {
        let mut schema: Option<SchemaRef> = None;
        let mut indexed = Vec::new();
        for file in files {
            let is_file = starts_with_magic(file)?;
            let found = match is_file {
                true => guarded(file, || Ok(open_file(file, None)?.schema()))?,
                false => guarded(file, || Ok(open_stream(file, None)?.schema()))?,
            };
            let found = with_views(&found);
            match &schema {
                Some(first) if first.fields() != found.fields() => {
                    return Err(file.broken("has other columns than the first file"));
                }
                Some(_) => {}
                None => schema = Some(found),
            }
            indexed.push(is_file);
        }
        let schema = schema.ok_or_else(|| Error::internal("no Arrow file"))?;
        Ok(Self { schema, indexed })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Reads all files; see [`crate::file_scan::FileScan::run`].
    pub(crate) fn run(
        &self,
        files: &[InputFile],
        run: &Run<'_>,
        sink: &FileSink<'_>,
    ) -> Result<()> {
        let schema = match run.projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        let next_order = AtomicU64::new(0);
        for (number, (file, indexed)) in files.iter().zip(&self.indexed).enumerate() {
            let one = One { number, file, run, schema: &schema, next_order: &next_order };
            match indexed {
                true => one.read_file(sink)?,
                false => one.read_stream(sink)?,
            }
        }
        Ok(())
    }
}

/// The reading of one file.
struct One<'a> {
    number: usize,
    file: &'a InputFile,
    run: &'a Run<'a>,
    schema: &'a SchemaRef,
    next_order: &'a AtomicU64,
}

impl One<'_> {
    /// Batches by their index, several threads with a reader each.
    ///
    /// Decoding happens inside `next` of one reader at a time for the numbers to have no gaps; what
    /// is parallel is the conversion and what the sink does, which is most of it.
    fn read_file(&self, sink: &FileSink<'_>) -> Result<()> {
        let mut reader = guarded(self.file, || open_file(self.file, self.run.projection))?;
        let batches = reader.num_batches().max(1) as u64;
        let share = self.file.bytes / batches;
        self.read(|| reader.next(), share, sink)
    }

    fn read_stream(&self, sink: &FileSink<'_>) -> Result<()> {
        let mut reader = guarded(self.file, || open_stream(self.file, self.run.projection))?;
        self.read(|| reader.next(), 0, sink)
    }

    fn read(
        &self,
        mut batches: impl FnMut() -> Option<Result<RecordBatch, ArrowError>> + Send,
        bytes_each: u64,
        sink: &FileSink<'_>,
    ) -> Result<()> {
        let mut rest: Option<RecordBatch> = None;
        let next = || {
            self.run.check()?;
            let mut rows = 0;
            let mut gathered = Vec::new();
            while rows < PIECE_ROWS {
                let batch = match rest.take() {
                    Some(batch) => Some(batch),
                    None => {
                        self.run.meter.add(bytes_each);
                        guarded(self.file, || batches().transpose())?
                    }
                };
                let Some(batch) = batch else { break };
                // A large batch is handed out in pieces.
                let limit = self.run.batch_rows.max(1);
                let taken = batch.num_rows().min(limit);
                if taken < batch.num_rows() {
                    rest = Some(batch.slice(taken, batch.num_rows() - taken));
                }
                rows += taken;
                gathered.push(batch.slice(0, taken));
                if rows + PIECE_ROWS / 4 > limit {
                    break;
                }
            }
            if gathered.is_empty() {
                return Ok(None);
            }
            Ok(Some((self.next_order.fetch_add(1, Ordering::Relaxed), gathered)))
        };
        let work = |order: u64, gathered: Vec<RecordBatch>| {
            let batch = self.join(gathered)?;
            sink(order, self.number, batch)
        };
        self.run.in_parallel(next, work)
    }

    fn join(&self, gathered: Vec<RecordBatch>) -> Result<RecordBatch> {
        let converted = gathered.into_iter().map(|batch| self.convert(batch));
        let converted: Vec<RecordBatch> = converted.collect::<Result<_>>()?;
        match &converted[..] {
            [only] => Ok(only.clone()),
            several => Ok(arrow::compute::concat_batches(self.schema, several)?),
        }
    }

    /// Strings become views, dictionaries their values.
    fn convert(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().zip(self.schema.fields()).map(|(column, field)| {
            match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => arrow::compute::cast(column, field.data_type()),
            }
        });
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        let options =
            arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(self.schema), columns, &options)?)
    }
}

fn starts_with_magic(file: &InputFile) -> Result<bool> {
    let mut magic = Vec::new();
    let read = file.open(None)?.take(FILE_MAGIC.len() as u64).read_to_end(&mut magic);
    read.map_err(|error| file.read_error(error))?;
    Ok(magic == FILE_MAGIC)
}

fn open_file(
    file: &InputFile,
    projection: Option<&[usize]>,
) -> Result<FileReader<BufReader<File>>, ArrowError> {
    let mut source = BufReader::with_capacity(1 << 20, file.file()?);
    check_file(&mut source, file.bytes)?;
    FileReader::try_new(source, projection.map(<[usize]>::to_vec))
}

fn open_stream(
    file: &InputFile,
    projection: Option<&[usize]>,
) -> Result<StreamReader<Stream>, ArrowError> {
    let source = file.open(None).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    let source = CheckedStream::new(BufReader::with_capacity(1 << 20, source));
    StreamReader::try_new(source, projection.map(<[usize]>::to_vec))
}

/// Runs a decoder; its errors and panics become errors about the file.
fn guarded<T>(file: &InputFile, decode: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    match decoder::run(decode) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ArrowError::ExternalError(inner))) => match inner.downcast::<Error>() {
            Ok(ours) => Err(*ours),
            Err(other) => Err(file.broken(&format!("is no readable Arrow file: {other}"))),
        },
        Ok(Err(error)) => Err(file.broken(&format!("is no readable Arrow file: {error}"))),
        Err(_) => Err(file.broken("is damaged: the Arrow decoder gave up")),
    }
}
