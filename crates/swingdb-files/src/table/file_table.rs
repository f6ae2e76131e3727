//! Files with the same columns as one table of a query.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session as EngineSession, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::meter::Meter;
use swingdb_common::runtime::parallel::{Turnstile, caught};
use swingdb_common::runtime::threads;
use swingdb_common::time::zones::Zone;

use crate::file_scan::FileScan;
use crate::input::InputFile;
use crate::options::{FileFormat, ImportOptions};
use crate::parquet::table::{Opened, ParquetTable};
use crate::reading::Run;

/// Text that is parsed into one batch of a query: small, so that the first rows come soon.
const QUERY_BATCH_ROWS: usize = 8_192;
/// Batches read ahead of the query.
const QUEUE_BATCHES: usize = 4;

/// A table, or the files where they have different columns.
pub(super) type OneTable = std::result::Result<Arc<dyn TableProvider>, Vec<InputFile>>;

/// Files with the same columns as a table, which plans show as `path`. Parquet files of different
/// columns are given back.
pub(super) fn one_table(
    mut files: Vec<InputFile>,
    options: &ImportOptions,
    path: String,
) -> Result<OneTable> {
    let Some(first) = files.first() else { return Err(Error::plan("a table of no files")) };
    if first.format(options.format) == FileFormat::Parquet {
        options.check_for(FileFormat::Parquet)?;
        files = match ParquetTable::open(files, options)? {
            Opened::Table(table) => return Ok(Ok(table)),
            Opened::Different(files) => return Ok(Err(files)),
            Opened::Intervals(files) => files,
        };
        // The thread that reads them belongs to no statement, and hears of no interrupt.
        files.iter().try_for_each(InputFile::whole)?;
    }
    let scan = FileScan::open_files(files, options, None)?;
    Ok(Ok(Arc::new(FileTable { path, scan: Arc::new(scan) })))
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
        turnstile: None,
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
