//! The engine's scan of Parquet files, whose errors and panics become errors about the file.
//!
//! The engine decodes in steps: it plans a file, waits for its bytes, and takes batches of its
//! rows. Each step runs as [`decoder::run`] says. The same steps compute expressions of the query,
//! whose errors and panics are not the file's: after a panic outside of Parquet's own library, the
//! row group is decoded again to see whether the file is damaged.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::{BoxStream, Stream};
use futures::{FutureExt, StreamExt};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use swingdb_common::error::Error;

use crate::input::decoder;
use crate::parquet::chunks::ranges;
use crate::parquet::damage;
use crate::parquet::known::Known;

/// Wraps the engine's source of Parquet files.
pub(super) struct GuardedSource {
    inner: Arc<dyn FileSource>,
}

impl GuardedSource {
    pub(super) fn new(inner: Arc<dyn FileSource>) -> Self {
        Self { inner }
    }

    fn wrap(inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self { inner })
    }
}

impl FileSource for GuardedSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> DfResult<Arc<dyn FileOpener>> {
        self.inner.create_file_opener(object_store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> DfResult<Box<dyn Morselizer>> {
        let inner = self.inner.create_morselizer(object_store, base_config, partition)?;
        Ok(Box::new(GuardedMorselizer { inner }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Self::wrap(self.inner.with_batch_size(batch_size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(kind, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> DfResult<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let FilterPushdownPropagation { filters, updated_node } =
            self.inner.try_pushdown_filters(filters, config)?;
        Ok(FilterPushdownPropagation { filters, updated_node: updated_node.map(Self::wrap) })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        properties: &EquivalenceProperties,
    ) -> DfResult<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(match self.inner.try_pushdown_sort(order, properties)? {
            SortOrderPushdownResult::Exact { inner } => {
                SortOrderPushdownResult::Exact { inner: Self::wrap(inner) }
            }
            SortOrderPushdownResult::Inexact { inner } => {
                SortOrderPushdownResult::Inexact { inner: Self::wrap(inner) }
            }
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> DfResult<Option<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_projection(projection)?.map(Self::wrap))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

/// The place in a file from which was read last.
#[derive(Debug, Default)]
pub(super) struct Progress {
    offset: AtomicU64,
}

impl Progress {
    pub(super) fn reads(&self, offset: u64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    /// The row group that was read last.
    fn row_group(&self, known: &Known) -> Option<usize> {
        let offset = self.offset.load(Ordering::Relaxed);
        known.metadata.row_groups().iter().position(|group| {
            group.columns().iter().any(|column| {
                let (start, length) = column.byte_range();
                offset.checked_sub(start).is_some_and(|inside| inside < length)
            })
        })
    }
}

/// Runs the steps of one file.
#[derive(Clone, Debug)]
struct Guard {
    known: Arc<Known>,
    progress: Arc<Progress>,
}

impl Guard {
    fn run<T>(&self, step: impl FnOnce() -> T) -> DfResult<T> {
        decoder::run(step).map_err(|panic| {
            let damage = if panic.has_text() { self.damage() } else { None };
            match damage {
                Some(damage) => damage.into(),
                None if panic.is_in_parquet() => {
                    damage::broken(self.known.path(), damage::GAVE_UP.to_string()).into()
                }
                None => panic.resume(),
            }
        })
    }

    /// What is damaged in the row group that was read last.
    fn damage(&self) -> Option<Error> {
        let row_group = self.progress.row_group(&self.known)?;
        let group = self.known.metadata.row_groups().get(row_group)?;
        let source = self.known.input.file_with(&ranges(group, None)).ok()?;
        let metadata = Arc::clone(&self.known.metadata);
        let metadata =
            decoder::run(|| ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new()));
        let found = damage::find(&source, &metadata.ok()?.ok()?, std::iter::once(row_group))?;
        Some(damage::broken(self.known.path(), found.to_string()))
    }

    /// An error of the decoder as one about the file; others as they are.
    fn about_file(&self, error: DataFusionError) -> DataFusionError {
        let error = match error {
            DataFusionError::ParquetError(error) => damage::error(self.known.path(), *error),
            DataFusionError::ArrowError(error, trace) => match *error {
                ArrowError::ParquetError(why) => damage::unreadable(self.known.path(), &why),
                other => return DataFusionError::ArrowError(Box::new(other), trace),
            },
            DataFusionError::Context(context, inner) => {
                return DataFusionError::Context(context, Box::new(self.about_file(*inner)));
            }
            other => return other,
        };
        match error {
            Error::Import { .. } => self.damage().unwrap_or(error).into(),
            other => other.into(),
        }
    }

    fn planned(&self, mut plan: MorselPlan) -> MorselPlan {
        let morsels = plan.take_morsels().into_iter().map(|inner| {
            let guard = self.clone();
            Box::new(GuardedMorsel { guard, inner }) as Box<dyn Morsel>
        });
        let planners = plan.take_ready_planners().into_iter().map(|inner| self.planner(inner));
        let pending = plan.take_pending_planner();
        let mut guarded =
            MorselPlan::new().with_morsels(morsels.collect()).with_planners(planners.collect());
        if let Some(pending) = pending {
            let guard = self.clone();
            let mut future = pending.into_future();
            guarded.set_pending_planner(std::future::poll_fn(move |context| {
                let polled = guard.run(|| future.poll_unpin(context));
                match polled {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(Ok(planner))) => Poll::Ready(Ok(guard.planner(planner))),
                    Ok(Poll::Ready(Err(error))) => Poll::Ready(Err(guard.about_file(error))),
                    Err(error) => Poll::Ready(Err(error)),
                }
            }));
        }
        guarded
    }

    fn planner(&self, inner: Box<dyn MorselPlanner>) -> Box<dyn MorselPlanner> {
        Box::new(GuardedPlanner { guard: self.clone(), inner })
    }
}

#[derive(Debug)]
struct GuardedMorselizer {
    inner: Box<dyn Morselizer>,
}

impl Morselizer for GuardedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> DfResult<Box<dyn MorselPlanner>> {
        let known = file.extension::<Arc<Known>>().map(Arc::clone);
        let known = known.ok_or_else(|| Error::internal("a Parquet file without a footer"))?;
        let progress = Arc::new(Progress::default());
        let guard = Guard { known, progress: Arc::clone(&progress) };
        let file = file.with_extension(progress);
        let planned = guard.run(|| self.inner.plan_file(file))?;
        planned.map(|inner| guard.planner(inner)).map_err(|error| guard.about_file(error))
    }
}

#[derive(Debug)]
struct GuardedPlanner {
    guard: Guard,
    inner: Box<dyn MorselPlanner>,
}

impl MorselPlanner for GuardedPlanner {
    fn plan(self: Box<Self>) -> DfResult<Option<MorselPlan>> {
        let Self { guard, inner } = *self;
        let plan = guard.run(|| inner.plan())?.map_err(|error| guard.about_file(error))?;
        Ok(plan.map(|plan| guard.planned(plan)))
    }
}

#[derive(Debug)]
struct GuardedMorsel {
    guard: Guard,
    inner: Box<dyn Morsel>,
}

impl Morsel for GuardedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, DfResult<RecordBatch>> {
        let Self { guard, inner } = *self;
        match guard.run(|| inner.into_stream()) {
            Ok(inner) => GuardedStream { guard, inner: Some(inner) }.boxed(),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }
}

/// The batches of a file, up to the first error: what panicked is not asked again.
struct GuardedStream {
    guard: Guard,
    inner: Option<BoxStream<'static, DfResult<RecordBatch>>>,
}

impl Stream for GuardedStream {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { guard, inner } = &mut *self;
        let Some(stream) = inner else { return Poll::Ready(None) };
        let error = match guard.run(|| stream.poll_next_unpin(context)) {
            Ok(Poll::Ready(Some(Err(error)))) => guard.about_file(error),
            Ok(polled) => return polled,
            Err(error) => error,
        };
        *inner = None;
        Poll::Ready(Some(Err(error)))
    }
}
