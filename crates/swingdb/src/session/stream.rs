//! Running a physical plan and handing its batches to a waiting caller.
//!
//! A driver task on the library's threads pulls the plan's output and puts it into a short queue;
//! [`BatchStream`] takes from it on the caller's thread. Dropping the stream, or an interrupt,
//! aborts the driver and with it every task the plan has spawned.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream, execute_stream};
use futures::StreamExt;
use parking_lot::Mutex;
use swingdb_common::error::{Error, Result};
use swingdb_common::progress::Progress;
use swingdb_common::runtime::cancel::{CancelToken, InterruptHandle, Stoppable, stoppable};
use swingdb_common::runtime::threads;
use swingdb_common::runtime::threads::{OwnThreads, Task};
use swingdb_common::runtime::wait;
use tokio::sync::mpsc::{Receiver, channel};

/// Batches computed ahead of the caller.
const QUEUE_BATCHES: usize = 4;
/// How often progress is reported.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// The rows of a running plan.
pub(crate) struct BatchStream {
    schema: SchemaRef,
    /// Column names as the caller is to see them, where they differ from the plan's.
    rename: bool,
    queue: Receiver<Result<RecordBatch>>,
    driver: Task<()>,
    token: CancelToken,
    progress: Option<Watched>,
    done: bool,
    /// Dropped after the driver; nobody else waits for them.
    #[expect(dead_code, reason = "held for its drop")]
    own_threads: Option<OwnThreads>,
}

/// A plan whose progress somebody hears of.
struct Watched {
    report: Arc<dyn Progress>,
    plan: Arc<dyn ExecutionPlan>,
    last: Instant,
}

impl Watched {
    fn new(report: Arc<dyn Progress>, plan: Arc<dyn ExecutionPlan>) -> Self {
        Self { report, plan, last: Instant::now() }
    }

    fn tell(&mut self) {
        let total = swingdb_sql::scan::source::rows_to_scan(self.plan.as_ref());
        let done = swingdb_sql::scan::source::rows_scanned(self.plan.as_ref());
        // A plan may read a table several times.
        self.report.progress(total.map_or(done, |total| done.min(total)), total, "rows");
        self.last = Instant::now();
    }

    /// Reports also where the caller never waits long.
    fn tell_if_due(&mut self) {
        if self.last.elapsed() >= PROGRESS_PERIOD {
            self.tell();
        }
    }
}

/// Whether a plan has an operator that a cancel cannot reach for long: then it must not hold the
/// threads that other statements need.
fn computes_without_pause(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.children().into_iter().any(|child| computes_without_pause(child.as_ref()))
}

impl BatchStream {
    /// Starts `plan`; its output columns appear under the names of `schema`.
    pub(crate) fn start(
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        schema: Option<SchemaRef>,
        token: CancelToken,
        progress: Option<Arc<dyn Progress>>,
    ) -> Result<Self> {
        token.check()?;
        let (sender, queue) = channel(QUEUE_BATCHES);
        let running = Arc::clone(&plan);
        let work = async move {
            let mut stream = match execute_stream(running, context) {
                Ok(stream) => stream,
                Err(error) => {
                    // The receiver is gone when nobody wants the answer any more.
                    let _ = sender.send(Err(error.into())).await;
                    return;
                }
            };
            while let Some(batch) = stream.next().await {
                let batch = match batch {
                    Ok(batch) => Ok(batch),
                    Err(error) => {
                        // What the plan holds goes before the caller hears of it, and goes on.
                        drop(stream);
                        let _ = sender.send(Err(error.into())).await;
                        return;
                    }
                };
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        };
        let work = Stoppable::new(token.clone(), work);
        let (own_threads, driver) = match computes_without_pause(plan.as_ref()) {
            true => {
                let threads = OwnThreads::start()?;
                let driver = threads.spawn(work)?;
                (Some(threads), driver)
            }
            false => (None, threads::spawn(work)?),
        };
        let rename = schema.is_some();
        let schema = schema.unwrap_or_else(|| plan.schema());
        let progress = progress.map(|report| Watched::new(report, plan));
        Ok(Self { schema, rename, queue, driver, token, progress, done: false, own_threads })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// What another thread ends this stream with.
    pub(crate) fn interrupt_handle(&self) -> InterruptHandle {
        self.token.handle()
    }

    fn receive(&mut self) -> Option<Result<RecordBatch>> {
        let Self { queue, driver, token, progress, .. } = self;
        let received = async {
            tokio::select! {
                biased;
                () = token.cancelled() => Some(Err(token.error())),
                item = queue.recv() => match item {
                    Some(item) => Some(item),
                    // The driver has ended: at the last row, or by a panic.
                    None => driver.join().await.err().map(Err),
                },
            }
        };
        match progress {
            None => token.wait(received),
            Some(watched) => {
                let received = wait::block_on_ticking(received, PROGRESS_PERIOD, || {
                    token.look_at_clock();
                    watched.tell();
                });
                watched.tell_if_due();
                received
            }
        }
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.done {
                return None;
            }
            match self.receive() {
                Some(Ok(batch)) if batch.num_rows() == 0 => continue,
                Some(Ok(batch)) if self.rename => {
                    let renamed = batch.with_schema(Arc::clone(&self.schema));
                    return Some(renamed.map_err(Error::from));
                }
                Some(Ok(batch)) => return Some(Ok(batch)),
                end => {
                    self.done = true;
                    self.progress = None;
                    self.queue.close();
                    return end;
                }
            }
        }
    }
}

/// The rows of a short plan, computed by the thread that asks for them: to wake another one and to
/// wait for it takes longer than a few rows.
pub(crate) struct HereStream {
    schema: SchemaRef,
    /// Only so that results can be shared between threads.
    rows: Mutex<SendableRecordBatchStream>,
    token: CancelToken,
}

impl HereStream {
    /// Starts a plan of one stream.
    pub(crate) fn new(
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        token: CancelToken,
    ) -> Result<Self> {
        let schema = plan.schema();
        let start = || Ok(execute_stream(plan, context)?);
        let rows = stoppable(&token, || threads::within(start))?;
        Ok(Self { schema, rows: Mutex::new(rows), token })
    }

    /// What another thread ends this stream with.
    pub(crate) fn interrupt_handle(&self) -> InterruptHandle {
        self.token.handle()
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Iterator for HereStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { rows, token, .. } = self;
        let rows = rows.get_mut();
        loop {
            token.look_at_clock();
            let next = stoppable(token, || {
                token.check()?;
                // A sort that spills reads its files by tasks.
                threads::within(|| Ok(token.wait(rows.next()).transpose()?))
            });
            match next {
                Ok(Some(batch)) if batch.num_rows() == 0 => continue,
                other => return other.transpose(),
            }
        }
    }
}
