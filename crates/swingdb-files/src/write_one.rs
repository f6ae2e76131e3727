//! Rows into one file: encoded on several threads, written in order.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamEncoder};
use parking_lot::Mutex;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use swingdb_common::error::{Error, Result};
use swingdb_common::progress::Progress;
use swingdb_common::runtime::cancel::CancelToken;
use swingdb_common::runtime::meter::Meter;
use swingdb_common::runtime::parallel::{Turnstile, caught, in_parallel};
use swingdb_common::time::zones::{Zone, rezoned, schema_in_zone};

use crate::csv::write::Format;
use crate::input::format_by_name;
use crate::json::write as json;
use crate::options::{ExportOptions, ExportReport, FileFormat};
use crate::output_file::OutputFile;
use crate::parquet::written;

/// Rows of text that one thread formats at a time.
const TEXT_ROWS: usize = 32_768;
/// Rows of an Arrow record batch in a file.
const ARROW_ROWS: usize = 131_072;
/// Rows of a Parquet row group: enough for good compression, and enough groups for all cores.
const ROW_GROUP_ROWS: usize = 262_144;
const GZIP_LEVEL: u32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// Who hears of progress and may interrupt, and on how many threads there may be work.
#[derive(Clone)]
pub struct Reporting {
    /// Ends the writing.
    pub token: Option<CancelToken>,
    /// Hears how many rows are written.
    pub progress: Option<Arc<dyn Progress>>,
    /// Threads that encode, unless the options say another number.
    pub threads: usize,
}

/// The format of a file to write.
pub(crate) fn format_of(path: &Path, options: &ExportOptions) -> Result<FileFormat> {
    options.format.or_else(|| format_by_name(path)).ok_or_else(|| {
        Error::plan(format!(
            "the name {:?} does not tell the format; give one of csv, parquet, json, arrow",
            path.display()
        ))
    })
}

/// Writes `rows` to one file.
pub(crate) fn write_one(
    schema: SchemaRef,
    rows: &mut (dyn Iterator<Item = Result<RecordBatch>> + Send),
    path: &Path,
    options: &ExportOptions,
    zone: Zone,
    reporting: &Reporting,
) -> Result<ExportReport> {
    let started = Instant::now();
    let format = format_of(path, options)?;
    options.check_for(format)?;
    let meter = Meter::new(reporting.progress.clone(), None, "rows");
    let threads = options.threads.unwrap_or(reporting.threads).max(1);
    let job = Job { rows, options, threads, meter: &meter, token: reporting.token.as_ref() };
    let file = OutputFile::create(path)?;
    let file = match format {
        FileFormat::Csv => {
            let packing = Packing::choose(path, options)?;
            let format = Format::new(options, &schema)?;
            let header = options.header.unwrap_or(true);
            text(job, file, packing, csv_encoder(format, header, &schema, zone), "")?
        }
        FileFormat::Json => {
            let packing = Packing::choose(path, options)?;
            let end = if options.array { json::ARRAY_END } else { "" };
            text(job, file, packing, json_encoder(&schema, zone, options.array), end)?
        }
        FileFormat::Parquet => parquet(job, &schema, file)?,
        FileFormat::Arrow => arrow_ipc(job, &schema, file)?,
    };
    let rows = meter.done();
    let bytes = file.commit()?;
    meter.finish();
    Ok(ExportReport { rows, bytes, duration: started.elapsed() })
}

/// What is written, and how.
struct Job<'a> {
    rows: &'a mut (dyn Iterator<Item = Result<RecordBatch>> + Send),
    options: &'a ExportOptions,
    threads: usize,
    meter: &'a Meter,
    token: Option<&'a CancelToken>,
}

impl Job<'_> {
    /// Gathers rows into groups of `group_rows`, encodes groups in parallel, and writes them in
    /// order. There is always a first group, be it empty.
    fn run<T: Send>(
        self,
        group_rows: usize,
        encode: impl Fn(u64, Vec<RecordBatch>) -> Result<T> + Sync,
        write: impl FnMut(T) -> Result<()> + Send,
    ) -> Result<()> {
        let Job { rows, threads, meter, token, .. } = self;
        let turnstile = Turnstile::default();
        let write = Mutex::new(write);
        let mut order = 0u64;
        let mut rest: Option<RecordBatch> = None;
        let next = || {
            token.map_or(Ok(()), CancelToken::check)?;
            let mut group = Vec::new();
            let mut gathered = 0;
            while gathered < group_rows {
                let Some(batch) = rest.take().map(Ok).or_else(|| rows.next()).transpose()? else {
                    break;
                };
                let taken = batch.num_rows().min(group_rows - gathered);
                if taken < batch.num_rows() {
                    rest = Some(batch.slice(taken, batch.num_rows() - taken));
                }
                gathered += taken;
                group.push(batch.slice(0, taken));
            }
            let piece = (gathered > 0 || order == 0).then_some((order, group));
            order += 1;
            Ok(piece)
        };
        let work = |order: u64, group: Vec<RecordBatch>| {
            let count: usize = group.iter().map(RecordBatch::num_rows).sum();
            let encoded =
                caught(|| encode(order, group)).inspect_err(|_| turnstile.close_at(order))?;
            turnstile.pass(order, || write.lock()(encoded))?;
            meter.add(count as u64);
            Ok(())
        };
        in_parallel(threads, next, work)
    }
}

/// How text is packed. Each group of rows is a gzip member or zstd frame of its own: readers take
/// them one after the other, and writers make them in parallel.
#[derive(Clone, Copy)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    fn choose(path: &Path, options: &ExportOptions) -> Result<Self> {
        let name = path.to_string_lossy().to_lowercase();
        let by_name = match () {
            () if name.ends_with(".gz") => "gzip",
            () if name.ends_with(".zst") || name.ends_with(".zstd") => "zstd",
            () => "none",
        };
        match options.compression.as_deref().unwrap_or(by_name) {
            "none" | "uncompressed" => Ok(Self::Plain),
            "gzip" | "gz" => Ok(Self::Gzip),
            "zstd" | "zst" => Ok(Self::Zstd),
            other => Err(unknown_codec(other, "none, gzip and zstd")),
        }
    }

    fn pack(self, text: Vec<u8>) -> Result<Vec<u8>> {
        match self {
            Self::Plain => Ok(text),
            Self::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(&text)?;
                Ok(encoder.finish()?)
            }
            Self::Zstd => Ok(zstd::bulk::compress(&text, ZSTD_LEVEL)?),
        }
    }
}

fn unknown_codec(name: &str, known: &str) -> Error {
    Error::plan(format!("unknown compression {name:?}; there are {known}"))
}

fn text(
    job: Job<'_>,
    mut file: OutputFile,
    packing: Packing,
    encode: impl Fn(u64, &[RecordBatch], &mut Vec<u8>) -> Result<()> + Sync,
    end: &str,
) -> Result<OutputFile> {
    let encode = |order: u64, group: Vec<RecordBatch>| {
        let mut out = Vec::new();
        encode(order, &group, &mut out)?;
        packing.pack(out)
    };
    let mut write =
        |bytes: Vec<u8>| file.write_all(&bytes).map_err(|error| Error::io(file.path(), error));
    job.run(TEXT_ROWS, encode, &mut write)?;
    if !end.is_empty() {
        write(packing.pack(end.into())?)?;
    }
    Ok(file)
}

fn csv_encoder(
    format: Format,
    header: bool,
    schema: &SchemaRef,
    zone: Zone,
) -> impl Fn(u64, &[RecordBatch], &mut Vec<u8>) -> Result<()> + Sync {
    let schema = Arc::new(schema_in_zone(schema, zone));
    move |order, group, out| {
        if order == 0 && header {
            format.header(schema.fields().iter().map(|field| field.name()), out);
        }
        group.iter().try_for_each(|batch| format.records(&rezoned(batch, &schema)?, out))
    }
}

fn json_encoder(
    schema: &SchemaRef,
    zone: Zone,
    array: bool,
) -> impl Fn(u64, &[RecordBatch], &mut Vec<u8>) -> Result<()> + Sync {
    let schema = Arc::new(schema_in_zone(schema, zone));
    move |order, group, out| {
        let rows = group.iter().map(|batch| rezoned(batch, &schema));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        match array {
            true => json::elements(&rows, order == 0, out),
            false => json::lines(&rows, out),
        }
    }
}

fn parquet_error(path: &Path, error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => Error::io(path, *error),
            Err(other) => Error::Execution { message: other.to_string() },
        },
        ParquetError::NYI(message) => Error::unsupported(format!("in Parquet: {message}")),
        other => Error::Execution { message: other.to_string() },
    }
}

fn parquet_properties(options: &ExportOptions, schema: &SchemaRef) -> Result<WriterProperties> {
    let compression = match options.compression.as_deref().unwrap_or("snappy") {
        "none" | "uncompressed" => Compression::UNCOMPRESSED,
        "snappy" => Compression::SNAPPY,
        "zstd" | "zst" => Compression::ZSTD(ZstdLevel::default()),
        "gzip" | "gz" => Compression::GZIP(GzipLevel::default()),
        "lz4" | "lz4_raw" => Compression::LZ4_RAW,
        other => return Err(unknown_codec(other, "none, snappy, zstd, gzip and lz4")),
    };
    let mut properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(None)
        .build();
    add_encoded_arrow_schema_to_metadata(schema, &mut properties);
    Ok(properties)
}

fn parquet(job: Job<'_>, schema: &SchemaRef, file: OutputFile) -> Result<OutputFile> {
    written::check(schema)?;
    let schema = &written::schema_of(schema);
    let path = file.path().to_path_buf();
    let fail = |error| parquet_error(&path, error);
    let properties = Arc::new(parquet_properties(job.options, schema)?);
    let described = ArrowSchemaConverter::new().convert(schema).map_err(fail)?;
    let mut writer =
        SerializedFileWriter::new(file, described.root_schema_ptr(), properties).map_err(fail)?;
    let factory = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(schema));
    let rows = job.options.row_group_rows.unwrap_or(ROW_GROUP_ROWS).max(1);
    let encode = |order: u64, group: Vec<RecordBatch>| {
        if group.iter().all(|batch| batch.num_rows() == 0) {
            return Ok(Vec::new());
        }
        row_group(&factory, schema, order, &group).map_err(fail)
    };
    let write = |chunks: Vec<ArrowColumnChunk>| {
        if chunks.is_empty() {
            return Ok(());
        }
        let mut group = writer.next_row_group().map_err(fail)?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group).map_err(fail)?;
        }
        group.close().map(drop).map_err(fail)
    };
    job.run(rows, encode, write)?;
    writer.into_inner().map_err(fail)
}

/// All columns of a row group, encoded in memory.
fn row_group(
    factory: &ArrowRowGroupWriterFactory,
    schema: &SchemaRef,
    order: u64,
    group: &[RecordBatch],
) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
    let mut writers = factory.create_column_writers(order as usize)?;
    for batch in group {
        let mut next = writers.iter_mut();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, &written::values_of(field, column)?)? {
                if let Some(writer) = next.next() {
                    writer.write(&leaf)?;
                }
            }
        }
    }
    writers.into_iter().map(|writer| writer.close()).collect()
}

/// The file format, or the stream format for names that end with `.arrows`, the standard output,
/// pipes and sockets.
fn arrow_ipc(job: Job<'_>, schema: &SchemaRef, mut file: OutputFile) -> Result<OutputFile> {
    let compression = match job.options.compression.as_deref().unwrap_or("none") {
        "none" | "uncompressed" => None,
        "zstd" | "zst" => Some(CompressionType::ZSTD),
        "lz4" | "lz4_frame" => Some(CompressionType::LZ4_FRAME),
        other => return Err(unknown_codec(other, "none, lz4 and zstd")),
    };
    let options = IpcWriteOptions::default().try_with_compression(compression)?;
    let ends_with_s =
        |path: &Path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("arrows"));
    let is_stream = ends_with_s(file.path()) || file.is_stream();
    let path = file.path().to_path_buf();
    let fail = |error| match error {
        arrow::error::ArrowError::IoError(_, source) => Error::io(&path, source),
        other => Error::from(other),
    };
    let encode =
        |_: u64, group: Vec<RecordBatch>| Ok(arrow::compute::concat_batches(schema, &group)?);
    if is_stream {
        if job.options.zero_copy {
            file.lend()?;
        }
        let token = job.token;
        let mut encoder = StreamEncoder::try_new_with_options(schema, options)?;
        job.run(ARROW_ROWS, encode, |batch| {
            file.write_parts(encoder.encode(&batch).map_err(fail)?, token)
        })?;
        file.write_parts(encoder.finish().map_err(fail)?, token)?;
        file.take_back(token)?;
        return Ok(file);
    }
    if job.options.zero_copy {
        file.lend()?;
    }
    let mut writer = FileWriter::try_new_with_options(file, schema, options).map_err(fail)?;
    job.run(ARROW_ROWS, encode, |batch: RecordBatch| match batch.num_rows() {
        0 => Ok(()),
        _ => writer.write(&batch).map_err(fail),
    })?;
    writer.into_inner().map_err(fail)
}
