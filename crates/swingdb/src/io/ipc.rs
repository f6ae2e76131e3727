//! Arrow IPC: the file format (also called Feather) and the stream format.
//!
//! The batches of a file are decoded in parallel; those of a stream follow one another. Small
//! batches are joined, large ones cut, so that segments get their usual size.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader, read_footer_length};
use arrow::ipc::{root_as_footer, root_as_message};

use super::parquet::with_views;
use super::scan::{Run, Sink, in_parallel};
use super::source::{InputFile, Packing};
use crate::error::{Error, Result};

const FILE_MAGIC: &[u8] = b"ARROW1";
/// Batches of one piece of work have at least this many rows together, if there are as many.
const PIECE_ROWS: usize = 100_000;

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

    /// Reads all files; see [`super::scan::FileScan::run`].
    pub(crate) fn run(&self, files: &[InputFile], run: &Run<'_>, sink: &Sink<'_>) -> Result<()> {
        let schema = match run.projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => Arc::clone(&self.schema),
        };
        let next_order = AtomicU64::new(0);
        for (file, indexed) in files.iter().zip(&self.indexed) {
            let one = One { file, run, schema: &schema, next_order: &next_order };
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
    fn read_file(&self, sink: &Sink<'_>) -> Result<()> {
        let mut reader = guarded(self.file, || open_file(self.file, self.run.projection))?;
        let batches = reader.num_batches().max(1) as u64;
        let share = self.file.bytes / batches;
        self.read(|| reader.next(), share, sink)
    }

    fn read_stream(&self, sink: &Sink<'_>) -> Result<()> {
        let mut reader = guarded(self.file, || open_stream(self.file, self.run.projection))?;
        self.read(|| reader.next(), 0, sink)
    }

    fn read(
        &self,
        mut batches: impl FnMut() -> Option<Result<RecordBatch, ArrowError>> + Send,
        bytes_each: u64,
        sink: &Sink<'_>,
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
            let batch = self.run.made(order, || self.join(gathered))?;
            sink(order, batch)
        };
        in_parallel(self.run.threads, next, work)
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
    let mut source = BufReader::with_capacity(1 << 20, File::open(&file.path)?);
    check_blocks(&mut source, file.bytes)?;
    FileReader::try_new(source, projection.map(<[usize]>::to_vec))
}

fn open_stream(
    file: &InputFile,
    projection: Option<&[usize]>,
) -> Result<StreamReader<BufReader<Box<dyn Read + Send>>>, ArrowError> {
    if file.packing == Packing::Plain {
        check_messages(file)?;
    }
    let source = file.open(None).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
    let source = BufReader::with_capacity(1 << 20, source);
    StreamReader::try_new(source, projection.map(<[usize]>::to_vec))
}

/// Refuses a file whose footer has batches that are longer than the file: the decoder would ask for
/// that much memory, and the process end when there is none.
fn check_blocks(source: &mut BufReader<File>, bytes: u64) -> Result<(), ArrowError> {
    const TRAILER: usize = 10;
    let broken = |why: &str| ArrowError::ParseError(why.to_string());
    let mut trailer = [0; TRAILER];
    source.seek(SeekFrom::Start(bytes.saturating_sub(TRAILER as u64)))?;
    source.read_exact(&mut trailer)?;
    let length = u64::try_from(read_footer_length(trailer)?).unwrap_or(u64::MAX);
    let start = bytes.checked_sub(TRAILER as u64).and_then(|end| end.checked_sub(length));
    let start = start.ok_or_else(|| broken("the footer is longer than the file"))?;
    let mut footer = Vec::new();
    source.seek(SeekFrom::Start(start))?;
    source.take(length).read_to_end(&mut footer)?;
    let footer = root_as_footer(&footer).map_err(|error| broken(&error.to_string()))?;
    let blocks = footer.recordBatches().into_iter().chain(footer.dictionaries());
    for block in blocks.flatten() {
        let parts = [
            u64::try_from(block.offset()).ok(),
            u64::try_from(block.metaDataLength()).ok(),
            u64::try_from(block.bodyLength()).ok(),
        ];
        let end = parts.into_iter().try_fold(0u64, |end, part| end.checked_add(part?));
        if end.is_none_or(|end| end > bytes) {
            return Err(broken("a batch lies outside of the file"));
        }
    }
    source.rewind()?;
    Ok(())
}

/// As [`check_blocks`], of the messages of a stream.
fn check_messages(file: &InputFile) -> Result<(), ArrowError> {
    const CONTINUES: [u8; 4] = [0xff; 4];
    let broken = |why: &str| ArrowError::ParseError(why.to_string());
    let mut source = BufReader::new(File::open(&file.path)?);
    loop {
        let mut length = [0; 4];
        if source.read_exact(&mut length).is_err() {
            return Ok(());
        }
        if length == CONTINUES && source.read_exact(&mut length).is_err() {
            return Ok(());
        }
        let length = u64::from(u32::from_le_bytes(length));
        if length == 0 {
            return Ok(());
        }
        if length > file.bytes {
            return Err(broken("a message is longer than the file"));
        }
        let mut header = Vec::new();
        source.by_ref().take(length).read_to_end(&mut header)?;
        let message = root_as_message(&header).map_err(|error| broken(&error.to_string()))?;
        match u64::try_from(message.bodyLength()) {
            Ok(body) if body <= file.bytes => source.seek_relative(body as i64)?,
            _ => return Err(broken("a message is longer than the file")),
        }
    }
}

/// Runs a decoder; its errors and panics become errors about the file.
fn guarded<T>(file: &InputFile, decode: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ArrowError::ExternalError(inner))) => match inner.downcast::<Error>() {
            Ok(ours) => Err(*ours),
            Err(other) => Err(file.broken(&format!("is no readable Arrow file: {other}"))),
        },
        Ok(Err(error)) => Err(file.broken(&format!("is no readable Arrow file: {error}"))),
        Err(_) => Err(file.broken("is damaged: the Arrow decoder gave up")),
    }
}
