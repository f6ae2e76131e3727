//! The metrics of a join, which EXPLAIN ANALYZE shows.

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time,
};

/// Of the build side, once for all partitions.
#[derive(Clone, Debug)]
pub(crate) struct BuildMetrics {
    /// From the first batch that is asked for until the table is published.
    pub(crate) time: Time,
    pub(crate) input_batches: Count,
    pub(crate) input_rows: Count,
    /// Bytes of the rows collected and of the table.
    pub(crate) memory: Gauge,
    /// Tasks that collected rows.
    pub(crate) collectors: Count,
    /// Tasks that built parts of the table.
    pub(crate) workers: Count,
    /// Whether the table is an array over whole numbers.
    pub(crate) arrays: Count,
}

impl BuildMetrics {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let new = || MetricBuilder::new(metrics);
        Self {
            time: new().subset_time("build_time", 0),
            input_batches: new().counter("build_input_batches", 0),
            input_rows: new().counter("build_input_rows", 0),
            memory: new().gauge("build_mem_used", 0),
            collectors: new().counter("build_collectors", 0),
            workers: new().counter("build_workers", 0),
            arrays: new().counter("array_map_created_count", 0),
        }
    }
}

/// Of one partition of the probe side.
#[derive(Debug)]
pub(crate) struct ProbeMetrics {
    pub(crate) baseline: BaselineMetrics,
    /// Time of looking up and putting rows together, without that of the inputs.
    pub(crate) time: Time,
    pub(crate) input_batches: Count,
    pub(crate) input_rows: Count,
}

impl ProbeMetrics {
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let new = || MetricBuilder::new(metrics);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            time: new().subset_time("join_time", partition),
            input_batches: new().counter("input_batches", partition),
            input_rows: new().counter("input_rows", partition),
        }
    }
}

impl Drop for ProbeMetrics {
    fn drop(&mut self) {
        self.baseline.elapsed_compute().add(&self.time);
    }
}
