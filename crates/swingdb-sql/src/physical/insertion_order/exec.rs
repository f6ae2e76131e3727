//! The operator that gives partitions one after the other: [`InOrderExec`].

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::equivalence::EquivalenceProperties;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{Stream, StreamExt};
use tokio::sync::Notify;

use crate::nodes::one_input::one_input;
use crate::options::BATCH_ROWS;
use crate::physical::slices::with_batch_rows;

/// Batches that a partition may be ahead of what is given; more only while all partitions together
/// hold less than [`HELD_BYTES`].
const HELD_BATCHES: usize = 4;
const HELD_BYTES: usize = 64 << 20;
/// Batches that a partition may be ahead at most, however small they are.
const QUEUE_BATCHES: usize = 1 << 10;

/// Gives the rows of the first partition, then those of the second, and so on. As many as there are
/// threads are computed ahead.
#[derive(Debug)]
pub(crate) struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    fetch: Option<usize>,
    /// Rows of a batch of the input, unless a session has chosen another number.
    batch_rows: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl InOrderExec {
    /// Ends after `fetch` rows.
    pub fn new(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let metrics = ExecutionPlanMetricsSet::new();
        let batch_rows = BATCH_ROWS;
        Self { input, fetch, batch_rows, properties: Arc::new(properties), metrics }
    }

    /// The same over another input, which gives batches of so many rows.
    pub(crate) fn with_batches(&self, input: Arc<dyn ExecutionPlan>, batch_rows: usize) -> Self {
        Self { batch_rows, ..self.over(input) }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { batch_rows: self.batch_rows, ..Self::new(input, self.fetch) }
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fetch {
            Some(fetch) => write!(f, "InOrderExec: fetch={fetch}"),
            None => write!(f, "InOrderExec"),
        }
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &str {
        "InOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    one_input!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let threads = context.session_config().target_partitions();
        let context = match context.session_config().batch_size() {
            BATCH_ROWS => with_batch_rows(&context, self.batch_rows),
            _ => context,
        };
        Ok(Box::pin(Parts {
            count: self.input.output_partitioning().partition_count(),
            input: Arc::clone(&self.input),
            started: 0,
            running: VecDeque::new(),
            at_once: threads + 1,
            left: self.fetch.unwrap_or(usize::MAX),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            context,
        }))
    }
}

/// The partitions being computed, and those to come.
struct Parts {
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// Of all partitions.
    count: usize,
    started: usize,
    /// In their order. Dropping one ends its task.
    running: VecDeque<(SendableRecordBatchStream, Arc<Backlog>)>,
    at_once: usize,
    /// Rows to give.
    left: usize,
    baseline: BaselineMetrics,
}

impl Parts {
    fn start(&mut self) {
        while self.started < self.count && self.running.len() < self.at_once {
            let mut part = RecordBatchReceiverStream::builder(self.input.schema(), QUEUE_BATCHES);
            let held = Arc::new(Backlog::new(HELD_BYTES / self.at_once));
            let (input, context) = (Arc::clone(&self.input), Arc::clone(&self.context));
            let (number, sender, own) = (self.started, part.tx(), Arc::clone(&held));
            part.spawn(async move {
                let mut rows = input.execute(number, context)?;
                while let Some(batch) = rows.next().await {
                    own.add(batch.as_ref()).await;
                    if sender.send(batch).await.is_err() {
                        break;
                    }
                }
                Ok(())
            });
            self.running.push_back((part.build(), held));
            self.started += 1;
        }
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        while self.left > 0 {
            self.start();
            let Some((first, held)) = self.running.front_mut() else { break };
            match ready!(first.poll_next_unpin(cx)) {
                Some(Ok(batch)) => {
                    held.remove(&batch);
                    let batch = match batch.num_rows() > self.left {
                        true => batch.slice(0, self.left),
                        false => batch,
                    };
                    self.left -= batch.num_rows();
                    return Poll::Ready(Some(Ok(batch)));
                }
                Some(Err(error)) => {
                    self.end();
                    return Poll::Ready(Some(Err(error)));
                }
                None => self.running.pop_front(),
            };
        }
        self.end();
        Poll::Ready(None)
    }

    fn end(&mut self) {
        self.left = 0;
        self.running.clear();
    }
}

/// What a partition has computed that was not given yet.
struct Backlog {
    batches: AtomicUsize,
    bytes: AtomicUsize,
    most_bytes: usize,
    removed: Notify,
}

impl Backlog {
    fn new(most_bytes: usize) -> Self {
        let (batches, bytes) = Default::default();
        Self { batches, bytes, most_bytes, removed: Notify::new() }
    }

    /// Waits until there is room.
    async fn add(&self, batch: Result<&RecordBatch, &DataFusionError>) {
        while self.batches.load(Ordering::Acquire) >= HELD_BATCHES
            && self.bytes.load(Ordering::Acquire) >= self.most_bytes
        {
            self.removed.notified().await;
        }
        if let Ok(batch) = batch {
            self.batches.fetch_add(1, Ordering::AcqRel);
            self.bytes.fetch_add(batch.get_array_memory_size(), Ordering::AcqRel);
        }
    }

    fn remove(&self, batch: &RecordBatch) {
        self.bytes.fetch_sub(batch.get_array_memory_size(), Ordering::AcqRel);
        self.batches.fetch_sub(1, Ordering::AcqRel);
        self.removed.notify_one();
    }
}

impl Stream for Parts {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let poll = self.poll_batch(cx);
        self.baseline.record_poll(poll)
    }
}

impl RecordBatchStream for Parts {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
