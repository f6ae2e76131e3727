//! Plans that look at few rows of one table: to wake another thread takes longer than they do.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source_as_provider;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::physical_name;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, TableScan};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use crate::scan::source::rows_to_scan;
use crate::scan::table::SwingTable;

/// Rows up to which the thread that asks for a result computes it.
const SHORT_ROWS: u64 = 1 << 16;

/// The physical plan of a [quick](crate::optimized::is_quick) one that is nothing but a scan of few
/// rows, and expressions of its columns. No rule about physical plans has anything to do there.
pub fn scan_alone(engine: &SessionState, plan: &LogicalPlan) -> Option<Arc<dyn ExecutionPlan>> {
    match plan {
        LogicalPlan::TableScan(scan) => short_scan(engine, scan),
        LogicalPlan::SubqueryAlias(alias) => scan_alone(engine, &alias.input),
        LogicalPlan::Projection(list) => {
            projected(engine, list, scan_alone(engine, &list.input)?).ok()
        }
        _ => None,
    }
}

fn short_scan(engine: &SessionState, scan: &TableScan) -> Option<Arc<dyn ExecutionPlan>> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<SwingTable>()?;
    let filters = unnormalize_cols(scan.filters.iter().cloned());
    let columns = scan.projection.as_deref();
    let scan = table.plan_scan(engine, columns, &filters, scan.fetch).ok()?;
    is_short(scan.as_ref()).then_some(scan)
}

/// A projection of a scan, with the names that the engine's planner gives.
fn projected(
    engine: &SessionState,
    list: &Projection,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (schema, context) = (list.input.schema(), PhysicalPlanningContext::default());
    let planned = list.expr.iter().map(|expr| {
        let alias = match expr {
            Expr::Column(column) => {
                input.schema().field(schema.index_of_column(column)?).name().clone()
            }
            other => physical_name(other)?,
        };
        let expr = create_physical_expr(expr, schema, engine.execution_props(), &context)?;
        Ok(ProjectionExpr { expr, alias })
    });
    let planned = planned.collect::<Result<Vec<_>>>()?;
    let output = list.schema.as_arrow();
    let projection = ProjectionExec::try_new_with_schema_metadata(planned, input, output)?;
    Ok(Arc::new(projection))
}

/// Whether a plan is one stream that looks at few rows.
pub fn is_short(plan: &dyn ExecutionPlan) -> bool {
    has_few_rows(plan) && is_one_stream(plan)
}

/// The plan without the exchanges that hand one stream of few rows on to several threads.
pub fn in_one_stream(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if !has_few_rows(plan.as_ref()) {
        return Ok(plan);
    }
    let without = |node: Arc<dyn ExecutionPlan>| {
        let input = node.downcast_ref::<RepartitionExec>().and_then(|exchange| {
            let deals_out = matches!(exchange.partitioning(), Partitioning::RoundRobinBatch(_));
            let input = exchange.input();
            let is_one = input.output_partitioning().partition_count() == 1;
            (deals_out && is_one).then(|| Arc::clone(input))
        });
        Ok(input.map_or_else(|| Transformed::no(node), Transformed::yes))
    };
    plan.transform_up(without).data()
}

fn has_few_rows(plan: &dyn ExecutionPlan) -> bool {
    rows_to_scan(plan).is_some_and(|rows| rows <= SHORT_ROWS)
}

fn is_one_stream(plan: &dyn ExecutionPlan) -> bool {
    plan.properties().output_partitioning().partition_count() == 1
        && plan.children().len() <= 1
        && plan.children().into_iter().all(|input| is_one_stream(input.as_ref()))
}
