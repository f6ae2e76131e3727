//! Small batches where rows are wide.
//!
//! `SELECT unnest(range(20000000)), r FROM t` computes the list once, and puts a copy of it beside
//! each row: 160 MB times the rows of a batch. A table of documents has megabytes in a row, too.
//! Operators that gather rows into batches count rows, not bytes. So [`InSlices`] makes batches of
//! fewer rows in such statements, down to single ones:
//!
//! - Rows come in [slices](SlicesExec) to an operator that puts long constants beside them.
//! - Where rows hold long constants, or come from a table of wide rows, operators are told to make
//!   batches of so few rows, by the settings that they run with; above what gives numbers only, no
//!   more.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, InListExpr, LikeExpr, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt};

use crate::nodes::one_input::{one_input, rows_of_input};
use crate::options::BATCH_ROWS;
use crate::scan::source::SwingSource;

/// What the constants of a batch may take.
const MAX_CONSTANTS: usize = 16 << 20;
/// What the rows of a batch of a table should take.
const MAX_ROWS: usize = 64 << 20;

/// See the [module documentation](self). To run last: other rules know nothing of the operator.
#[derive(Debug, Default)]
pub(crate) struct InSlices;

impl PhysicalOptimizerRule for InSlices {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (plan, rows) = sliced(plan)?;
        // What gathers rows at the top, as a coordinator of partitions does, has the same settings.
        Ok(if rows < BATCH_ROWS { SlicesExec::wrap(plan, rows, rows) } else { plan })
    }

    fn name(&self) -> &str {
        "InSlices"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with slices, and how many rows its batches should have.
fn sliced(plan: Arc<dyn ExecutionPlan>) -> Result<(Arc<dyn ExecutionPlan>, usize)> {
    let mut rows = rows_of_scan(plan.as_ref()).unwrap_or(BATCH_ROWS);
    let narrow = is_narrow(&plan);
    let mut inputs = Vec::new();
    for input in plan.children() {
        let (input, below) = sliced(Arc::clone(input))?;
        if narrow && below < BATCH_ROWS {
            inputs.push(SlicesExec::wrap(input, BATCH_ROWS, below));
        } else {
            rows = rows.min(below);
            inputs.push(input);
        }
    }
    let most = (MAX_CONSTANTS / constants_of_row(plan.as_ref())?.max(1)).max(1);
    if most < rows
        && let [input] = inputs.as_mut_slice()
    {
        *input = SlicesExec::wrap(Arc::clone(input), most, rows);
    }
    rows = rows.min((MAX_CONSTANTS / constants_of_result(plan.as_ref()).max(1)).max(1));
    let plan = if inputs.is_empty() { plan } else { replace_children_if_necessary(plan, inputs)? };
    // This one does not look at the settings.
    let plan = match plan.downcast_ref::<FilterExec>() {
        Some(filter) if rows < filter.batch_size() => {
            Arc::new(FilterExecBuilder::from(filter).with_batch_size(rows).build()?)
        }
        _ => plan,
    };
    Ok((plan, rows))
}

/// Whether an operator and what is above need not care what is wide below: all its columns are
/// numbers, times and the like, or it makes rows of lists.
fn is_narrow(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_of_one_width =
        |of: &DataType| of.primitive_width().is_some() || *of == DataType::Boolean;
    plan.is::<UnnestExec>()
        || plan.schema().fields().iter().all(|field| is_of_one_width(field.data_type()))
}

/// Bytes of the constants in each row that an operator gives.
fn constants_of_result(plan: &dyn ExecutionPlan) -> usize {
    fn given(expr: &dyn PhysicalExpr) -> usize {
        if let Some(constant) = expr.downcast_ref::<Literal>() {
            return bytes_of(constant);
        }
        match expr.is::<CaseExpr>() {
            true => expr.children().into_iter().map(|part| given(part.as_ref())).max().unwrap_or(0),
            false => 0,
        }
    }
    let list = plan.downcast_ref::<ProjectionExec>();
    list.map_or(0, |list| list.expr().iter().map(|item| given(item.expr.as_ref())).sum())
}

/// Bytes that a constant takes in a row, without what each value takes, however short.
fn bytes_of(constant: &Literal) -> usize {
    constant.value().size().saturating_sub(size_of::<ScalarValue>())
}

/// How many rows of a table a batch should have, if they are wide.
fn rows_of_scan(plan: &dyn ExecutionPlan) -> Option<usize> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    let source = scan.data_source().downcast_ref::<SwingSource>()?;
    Some((MAX_ROWS / source.bytes_of_row().max(1)).clamp(1, BATCH_ROWS))
}

/// Bytes that an operator puts beside each row, as constants.
fn constants_of_row(plan: &dyn ExecutionPlan) -> Result<usize> {
    let mut bytes = 0;
    plan.apply_expressions(&mut |expr| {
        bytes += constants_of(expr.as_ref());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

/// Bytes of the constants of an expression that are copied for each row. Comparisons copy none.
fn constants_of(expr: &dyn PhysicalExpr) -> usize {
    if let Some(constant) = expr.downcast_ref::<Literal>() {
        return bytes_of(constant);
    }
    let compares = expr.is::<BinaryExpr>() || expr.is::<LikeExpr>() || expr.is::<InListExpr>();
    let parts = expr.children().into_iter();
    let copied = parts.filter(|part| !(compares && part.is::<Literal>()));
    copied.map(|part| constants_of(part.as_ref())).sum()
}

/// Cuts batches into ones of at most so many rows.
#[derive(Debug)]
struct SlicesExec {
    rows: usize,
    /// Rows of the batches that what is below makes.
    below: usize,
    input: Arc<dyn ExecutionPlan>,
}

impl SlicesExec {
    fn wrap(input: Arc<dyn ExecutionPlan>, rows: usize, below: usize) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { rows, below, input })
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self { rows: self.rows, below: self.below, input }
    }
}

/// The settings of a run with batches of so many rows.
pub(crate) fn with_batch_rows(context: &Arc<TaskContext>, rows: usize) -> Arc<TaskContext> {
    if context.session_config().batch_size() == rows {
        return Arc::clone(context);
    }
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone().with_batch_size(rows),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
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
        let context = with_batch_rows(&context, self.below);
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
