//! Large sorts get texts of their own: [`LargeSorts`].
//!
//! The texts of a batch of a table lie in the memory of a whole segment ([`own_texts`]). A sort
//! counts that memory for each batch that it holds, so it spills, or fails, long before its rows
//! fill its memory. Where rows are expected to take a part of `memory_limit`, each batch gets a
//! copy of its texts before it is sorted.
//!
//! [`own_texts`]: swingdb_common::own_texts

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt};
use swingdb_common::own_texts::with_own_texts;

use crate::nodes::one_input::{one_input, rows_of_input};
use crate::options::BATCH_ROWS;
use crate::physical::memory::{memory_limit, table_bytes};

/// The part of the memory, one in so many, that rows may take before they get texts of their own.
const SHARE: usize = 8;

/// See the [module documentation](self). To run when sorts are final.
#[derive(Debug, Default)]
pub(crate) struct LargeSorts;

impl PhysicalOptimizerRule for LargeSorts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(limit) = memory_limit(config) else { return Ok(plan) };
        let changed = plan.transform_up(|node| match node.downcast_ref::<SortExec>() {
            Some(sort) if is_large(sort, limit / SHARE) => {
                let input = OwnTextsExec { input: Arc::clone(sort.input()) };
                Ok(Transformed::yes(replace_children_if_necessary(node, vec![Arc::new(input)])?))
            }
            _ => Ok(Transformed::no(node)),
        });
        changed.data()
    }

    fn name(&self) -> &str {
        "LargeSorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a sort has texts to hold, in rows that are expected to take more than so many bytes.
fn is_large(sort: &SortExec, most: usize) -> bool {
    let has_texts = sort.schema().fields().iter().any(|field| is_view(field.data_type()));
    has_texts
        && sort.fetch().is_none_or(|rows| rows > BATCH_ROWS)
        && table_bytes(sort.input()).is_some_and(|bytes| bytes > most)
}

fn is_view(of: &DataType) -> bool {
    matches!(of, DataType::Utf8View | DataType::BinaryView)
}

/// Gives each batch texts of its own.
#[derive(Debug)]
struct OwnTextsExec {
    input: Arc<dyn ExecutionPlan>,
}

impl OwnTextsExec {
    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { input }
    }
}

impl DisplayAs for OwnTextsExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnTextsExec")
    }
}

impl ExecutionPlan for OwnTextsExec {
    fn name(&self) -> &str {
        "OwnTextsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    one_input!();
    rows_of_input!();

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let rows = rows.and_then(|batch| {
            std::future::ready(with_own_texts(&batch).map_err(DataFusionError::from))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows.boxed())))
    }
}
