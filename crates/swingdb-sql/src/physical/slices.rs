//! Small batches where each row gets a long constant.
//!
//! `SELECT unnest(range(20000000)), r FROM t` computes the list once, and puts a copy of it beside
//! each row: 160 MB times the rows of a batch. So the rows come to such a list in smaller batches,
//! down to single ones. [`InSlices`] puts the operator [`SlicesExec`] where that is so.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt};

use crate::nodes::one_input::{one_input, rows_of_input};
use crate::options::BATCH_ROWS;

/// What the constants of a batch may take.
const MAX_BYTES: usize = 16 << 20;

/// See the [module documentation](self). To run last: other rules know nothing of the operator.
#[derive(Debug, Default)]
pub(crate) struct InSlices;

impl PhysicalOptimizerRule for InSlices {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sliced = plan.transform_up(|node| match rows_at_once(node.as_ref()) {
            Some((rows, input)) => {
                let input = Arc::new(SlicesExec { rows, input });
                Ok(Transformed::yes(replace_children_if_necessary(node, vec![input])?))
            }
            None => Ok(Transformed::no(node)),
        });
        sliced.data()
    }

    fn name(&self) -> &str {
        "InSlices"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// How many rows a projection with long constants is to get at once, and from where.
fn rows_at_once(node: &dyn ExecutionPlan) -> Option<(usize, Arc<dyn ExecutionPlan>)> {
    let list = node.downcast_ref::<ProjectionExec>()?;
    let constants = list.expr().iter().filter_map(|item| item.expr.downcast_ref::<Literal>());
    let bytes: usize = constants.map(|constant| constant.value().size()).sum();
    let rows = MAX_BYTES / bytes.max(1);
    (rows < BATCH_ROWS).then(|| (rows.max(1), Arc::clone(list.input())))
}

/// Cuts batches into ones of at most so many rows.
#[derive(Debug)]
struct SlicesExec {
    rows: usize,
    input: Arc<dyn ExecutionPlan>,
}

impl SlicesExec {
    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { rows: self.rows, input }
    }
}

impl DisplayAs for SlicesExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlicesExec: rows={}", self.rows)
    }
}

impl ExecutionPlan for SlicesExec {
    fn name(&self) -> &str {
        "SlicesExec"
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
        let most = self.rows;
        let slices = self.input.execute(partition, context)?.map_ok(move |batch| {
            let begins = (0..batch.num_rows()).step_by(most);
            futures::stream::iter(
                begins.map(move |begin| Ok(batch.slice(begin, most.min(batch.num_rows() - begin)))),
            )
        });
        let slices = slices.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), slices.boxed())))
    }
}
