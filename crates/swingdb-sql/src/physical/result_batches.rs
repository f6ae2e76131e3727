//! Large batches where rows of a table are the result: [`ResultBatches`].
//!
//! Operators work on batches that stay in the processor's caches. Rows that no operator works on go
//! to the caller as they are, who does something for each batch: calls a function on it, sends a
//! message, makes a Python object. So a scan that nothing but its order stands above gives as many
//! rows at once as make a megabyte, up to a whole segment.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use swingdb_store::SEGMENT_ROWS;

use crate::options::BATCH_ROWS;
use crate::physical::insertion_order::exec::InOrderExec;
use crate::scan::source::as_scan;

/// Bytes of a batch, about. Each thread holds some of them ahead of the caller.
const BYTES: usize = 1 << 20;

/// See the [module documentation](self). To run when nothing is put above scans any more.
#[derive(Debug, Default)]
pub(crate) struct ResultBatches;

impl PhysicalOptimizerRule for ResultBatches {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(in_order) = plan.downcast_ref::<InOrderExec>().filter(|_| plan.fetch().is_none())
        else {
            return Ok(plan);
        };
        let [input] = plan.children()[..] else { return Ok(plan) };
        let Some(source) = as_scan(input.as_ref()) else { return Ok(plan) };
        let Some(rows) = batch_rows(&source.schema) else { return Ok(plan) };
        let input = DataSourceExec::from_data_source(source.clone().with_batch_rows(rows));
        Ok(Arc::new(in_order.with_batches(input, rows)))
    }

    fn name(&self) -> &str {
        "ResultBatches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// How many rows make a large batch; `None` where rows may be of any width.
fn batch_rows(schema: &Schema) -> Option<usize> {
    let widths = schema.fields().iter().map(|field| field.data_type().primitive_width());
    let bytes = widths.sum::<Option<usize>>()?;
    Some((BYTES / bytes.max(1)).clamp(BATCH_ROWS, SEGMENT_ROWS) / BATCH_ROWS * BATCH_ROWS)
}
