//! Files as tables of a query: `FROM 'file.csv'`, `read_csv('file.csv')`, `CREATE EXTERNAL TABLE`.
//!
//! Parquet goes through DataFusion's own scan ([`super::parquet_table`]), which skips row groups
//! and pages by their statistics. The other formats are read by the same code as imports, with only
//! the columns a query asks for.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{
    Session as EngineSession, TableFunctionArgs, TableFunctionImpl, TableProvider,
};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::meter::Meter;
use swingdb_common::runtime::threads;
use swingdb_common::time::zones::Zone;

use super::options::{FileFormat, ImportOptions, OptionValue};
use super::united::united;
use crate::file_scan::{FileScan, Run};
use crate::input_file::{InputFile, MAX_FILES, find_read};
use crate::parquet::table::ParquetTable;
use swingdb_common::runtime::parallel::{Turnstile, caught};

/// Text that is parsed into one batch of a query: small, so that the first rows come soon.
const QUERY_BATCH_ROWS: usize = 8_192;
/// Batches read ahead of the query.
const QUEUE_BATCHES: usize = 4;

/// A file, or a pattern of files, as a table: what `FROM 'file.parquet'` reads.
pub fn file_table(path: &str) -> Result<Arc<dyn TableProvider>> {
    file_table_with(&[path.to_string()], &ImportOptions::default())
}

/// As [`file_table`], of several files or patterns one after the other, with options.
pub fn file_table_with(
    paths: &[String],
    options: &ImportOptions,
) -> Result<Arc<dyn TableProvider>> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(find_read(path)?);
        if files.len() > MAX_FILES {
            return Err(Error::plan(format!("a table of more than {MAX_FILES} files")));
        }
    }
    match options.union_by_name && files.len() > 1 {
        true => united(files, options),
        false => one_table(files, options, paths.join(", ")),
    }
}

/// Files with the same columns as a table, which plans show as `path`.
pub(super) fn one_table(
    mut files: Vec<InputFile>,
    options: &ImportOptions,
    path: String,
) -> Result<Arc<dyn TableProvider>> {
    let Some(first) = files.first() else { return Err(Error::plan("a table of no files")) };
    // A copy has no path that the scan could open.
    if first.format(options.format) == FileFormat::Parquet && !first.is_copy() {
        options.check_for(FileFormat::Parquet)?;
        files = match ParquetTable::open(files, options)? {
            Ok(table) => return Ok(table),
            Err(files) => files,
        };
    }
    let scan = FileScan::open_files(files, options, None)?;
    Ok(Arc::new(FileTable { path, scan: Arc::new(scan) }))
}

/// Files read by this crate.
struct FileTable {
    path: String,
    scan: Arc<FileScan>,
}

impl fmt::Debug for FileTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTable").field("path", &self.path).finish_non_exhaustive()
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        self.scan.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn EngineSession,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let all = self.scan.schema();
        let projection: Vec<usize> = match projection {
            Some(projection) => projection.clone(),
            None => (0..all.fields().len()).collect(),
        };
        let schema = Arc::new(all.project(&projection)?);
        let partition = FilePartition {
            path: self.path.clone(),
            scan: Arc::clone(&self.scan),
            projection,
            schema: Arc::clone(&schema),
        };
        // The projection is already applied: the files' reader does it.
        let exec = StreamingTableExec::try_new(
            schema,
            vec![Arc::new(partition)],
            None,
            Vec::new(),
            false,
            limit,
        )?;
        Ok(Arc::new(exec))
    }
}

/// All files of a table as one stream in the files' order; several threads work for it.
struct FilePartition {
    path: String,
    scan: Arc<FileScan>,
    projection: Vec<usize>,
    schema: SchemaRef,
}

impl fmt::Debug for FilePartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilePartition").field("path", &self.path).finish_non_exhaustive()
    }
}

impl PartitionStream for FilePartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (sender, receiver) = tokio::sync::mpsc::channel(QUEUE_BATCHES);
        let scan = Arc::clone(&self.scan);
        let projection = self.projection.clone();
        let failed = sender.clone();
        let config = context.session_config();
        let (threads, zone) = (config.target_partitions(), Zone::of(config.options()));
        let thread = std::thread::Builder::new().name("swingdb-file".into());
        let spawned = thread.stack_size(threads::WORKER_STACK_BYTES).spawn(move || {
            let end = caught(|| read(&scan, &projection, threads, zone, &sender));
            // Nobody listens any more when the query has ended.
            let _ = sender.blocking_send(end.map(|()| Message::End).map_err(Into::into));
        });
        if let Err(error) = spawned {
            let _ = failed.try_send(Err(DataFusionError::IoError(error)));
        }
        drop(failed);
        let stream = futures::stream::unfold(Some(receiver), |receiver| async move {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Some(Ok(Message::Batch(batch))) => Some((Ok(batch), Some(receiver))),
                Some(Ok(Message::End)) => None,
                Some(Err(error)) => Some((Err(error), None)),
                // The reader is gone, and has not said that it was at the end of the files.
                None => Some((Err(Error::internal(READER_GONE).into()), None)),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

const READER_GONE: &str = "the thread that reads a file ended before the file did";

/// What the reading thread says. A stream without [`Message::End`] is not whole.
enum Message {
    Batch(RecordBatch),
    End,
}

type Sender = tokio::sync::mpsc::Sender<datafusion::error::Result<Message>>;

fn read(
    scan: &FileScan,
    projection: &[usize],
    threads: usize,
    zone: Zone,
    sender: &Sender,
) -> Result<()> {
    let turnstile = Turnstile::default();
    let run = Run {
        threads,
        batch_rows: QUERY_BATCH_ROWS,
        projection: Some(projection),
        token: None,
        zone,
        meter: Meter::new(None, None, "bytes"),
        on_failure: None,
    };
    let send = |order: u64, batch: RecordBatch| {
        turnstile.pass(order, || {
            let mut start = 0;
            while start < batch.num_rows() {
                let len = QUERY_BATCH_ROWS.min(batch.num_rows() - start);
                let piece = Message::Batch(batch.slice(start, len));
                sender.blocking_send(Ok(piece)).map_err(|_| Error::Interrupted)?;
                start += len;
            }
            Ok(())
        })
    };
    scan.run_guarded(&run, &send, &turnstile)
}

/// The table functions `read_csv`, `read_parquet`, `read_json` and `read_arrow`, those that
/// [list files](crate::listing), and those that tell what is in files of
/// [Parquet](crate::parquet::described) and [CSV](crate::csv::described).
pub fn functions() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let one = |name, format| -> (&'static str, Arc<dyn TableFunctionImpl>) {
        (name, Arc::new(ReadFunction { name, format }))
    };
    let mut all = vec![
        one("read_csv", FileFormat::Csv),
        one("read_csv_auto", FileFormat::Csv),
        one("read_parquet", FileFormat::Parquet),
        one("parquet_scan", FileFormat::Parquet),
        one("read_json", FileFormat::Json),
        one("read_json_auto", FileFormat::Json),
        one("read_ndjson", FileFormat::Json),
        one("read_arrow", FileFormat::Arrow),
    ];
    all.extend(crate::listing::functions());
    all.extend(crate::parquet::described::functions());
    all.push(crate::csv::described::function());
    all
}

/// Whether a function of a table reads files.
pub fn is_file_function(name: &str) -> bool {
    functions().iter().any(|(known, _)| *known == name)
}

/// `read_x('path')`, with options `read_csv('path', delim = ';')`, which arrive as further
/// pairs of arguments.
#[derive(Debug)]
struct ReadFunction {
    name: &'static str,
    format: FileFormat,
}

impl TableFunctionImpl for ReadFunction {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let (paths, options) = given(self.name, self.format, args.exprs())?;
        file_table_with(&paths, &options).map_err(DataFusionError::from)
    }
}

/// The file names and the options of a call.
pub(crate) fn given(
    function: &str,
    format: FileFormat,
    args: &[Expr],
) -> datafusion::error::Result<(Vec<String>, ImportOptions)> {
    let usage = || {
        let text = format!(
            "{function} takes a file name or pattern, or a list of them, then options: \
             {function}('*.csv', option = value ...), {function}(['a.csv', 'b.csv'])"
        );
        DataFusionError::from(Error::plan(text))
    };
    let mut values = args.iter().skip(1).map(literal);
    let Some(paths) = args.first().and_then(paths) else { return Err(usage()) };
    let mut options = ImportOptions { format: Some(format), ..ImportOptions::default() };
    while let Some(name) = values.next() {
        let (Some(OptionValue::Text(name)), Some(Some(value))) = (name, values.next()) else {
            return Err(usage());
        };
        options.set(&name, &value).map_err(DataFusionError::from)?;
    }
    Ok((paths, options))
}

/// The file name, or the list of file names, that is the first argument.
pub(crate) fn paths(expr: &Expr) -> Option<Vec<String>> {
    match literal(expr)? {
        OptionValue::Text(path) => Some(vec![path]),
        OptionValue::List(paths) => Some(paths),
        _ => None,
    }
}

/// The texts of a list.
fn texts(list: &ScalarValue) -> Option<Vec<String>> {
    let list = match list {
        ScalarValue::List(list) => list.value(0),
        ScalarValue::LargeList(list) => list.value(0),
        ScalarValue::FixedSizeList(list) => list.value(0),
        _ => return None,
    };
    let text = |row| match ScalarValue::try_from_array(&list, row) {
        Ok(value) => value.try_as_str().flatten().map(str::to_string),
        Err(_) => None,
    };
    (0..list.len()).map(text).collect()
}

/// A constant argument.
fn literal(expr: &Expr) -> Option<OptionValue> {
    let value = match expr {
        Expr::Literal(value, _) => value.clone(),
        Expr::Negative(inner) => match literal(inner)? {
            OptionValue::Number(number) => return Some(OptionValue::Number(format!("-{number}"))),
            _ => return None,
        },
        _ => return None,
    };
    match &value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Some(OptionValue::Text(text.clone())),
        ScalarValue::List(_) | ScalarValue::LargeList(_) | ScalarValue::FixedSizeList(_) => {
            texts(&value).map(OptionValue::List)
        }
        ScalarValue::Boolean(Some(flag)) => Some(OptionValue::Text(flag.to_string())),
        ScalarValue::Struct(fields) => {
            let text = |column: &ArrayRef| match ScalarValue::try_from_array(column, 0) {
                Ok(value) => value.try_as_str().flatten().map(str::to_string),
                Err(_) => None,
            };
            let pairs = fields.fields().iter().zip(fields.columns());
            let pairs = pairs.map(|(field, column)| Some((field.name().clone(), text(column)?)));
            Some(OptionValue::Map(pairs.collect::<Option<Vec<_>>>()?))
        }
        number if number.data_type().is_numeric() && !number.is_null() => {
            Some(OptionValue::Number(number.to_string()))
        }
        _ => None,
    }
}
