//! Parts of a plan that run at the nodes, where the plan as a whole cannot: [`placed`].
//!
//! A recursion, an ASOF join, a function of a program or a query of WITH that is computed once for
//! several names keep a plan at the coordinator. What it reads below these are often groups, joins
//! or a few rows of large tables: such a part is planned by itself, in stages, and the rest of the
//! plan reads its rows as those of a table.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::provider_as_source;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs, displayable,
};
use datafusion_distributed::{DistributedConfig, DistributedMetricsFormat, explain_analyze};
use futures::future::{self, BoxFuture};
use futures::{StreamExt, stream};
use swingdb_sql::engine::{PartId, expected, part_of, with_parts};

/// Makes a plan of stages; `None`: nodes cannot carry it out.
pub(crate) trait Stages: Sync {
    fn staged<'a>(
        &'a self,
        plan: &'a LogicalPlan,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn ExecutionPlan>>>>;
}

/// A plan that stays here, with the parts of it that run at nodes as tables. That nodes cannot
/// carry out the whole is known.
pub(crate) async fn placed(plan: &LogicalPlan, stages: &dyn Stages) -> Result<LogicalPlan> {
    let mut placing = Placing { stages, parts: HashMap::new() };
    let done = placing.below(plan).await?;
    // Names of one part read the same rows, in subqueries too.
    with_parts(done, &placing.parts)
}

struct Placing<'a> {
    stages: &'a dyn Stages,
    /// What has become of the parts that are computed once.
    parts: HashMap<PartId, Arc<LogicalPlan>>,
}

impl Placing<'_> {
    fn placed<'a>(&'a mut self, plan: &'a LogicalPlan) -> BoxFuture<'a, Result<LogicalPlan>> {
        Box::pin(async move {
            if let Some((part, input)) = part_of(plan) {
                if !self.parts.contains_key(&part) {
                    let input = self.placed(input).await?;
                    let input = with_parts(input, &self.parts)?;
                    self.parts.insert(part, Arc::new(input));
                }
                return Ok(plan.clone());
            }
            if does_more_than_read(plan)?
                && let Some(staged) = self.stages.staged(plan).await?
            {
                return Ok(table_of(plan, staged));
            }
            self.below(plan).await
        })
    }

    /// The plan with what has become of its inputs.
    async fn below(&mut self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let inputs = match plan {
            // The other input runs again for each step.
            LogicalPlan::RecursiveQuery(query) => vec![query.static_term.as_ref()],
            _ => plan.inputs(),
        };
        let mut placed = Vec::with_capacity(inputs.len());
        for input in inputs {
            placed.push(self.placed(input).await?);
        }
        let mut placed = placed.into_iter();
        let done = plan.clone().map_children(|input| match placed.next() {
            Some(placed) => Ok(Transformed::yes(placed)),
            None => Ok(Transformed::no(input)),
        });
        done.data()
    }
}

/// Whether a plan has operators that nodes had better carry out than send what they read.
fn does_more_than_read(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Sort(sort) => sort.fetch.is_some(),
            LogicalPlan::Aggregate(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Window(_) => true,
            _ => false,
        })
    })
}

/// How many rows a plan is expected to have.
fn rows_of(plan: &LogicalPlan) -> f64 {
    let first = plan.schema().columns().into_iter().next();
    first.map_or(1.0, |column| expected(plan, &Expr::Column(column)).0)
}

/// A table whose rows are those of a plan, with the columns' names as they were.
fn table_of(plan: &LogicalPlan, staged: Arc<dyn ExecutionPlan>) -> LogicalPlan {
    let mut statistics = Statistics::new_unknown(&staged.schema());
    statistics.num_rows = Precision::Inexact(rows_of(plan) as usize);
    let statistics = Arc::new(statistics);
    let rows = StagedRows(Arc::new(StagedExec { staged, statistics, measured: Arc::default() }));
    LogicalPlan::TableScan(TableScan {
        table_name: "rows of nodes".into(),
        source: provider_as_source(Arc::new(rows)),
        projection: None,
        projected_schema: Arc::clone(plan.schema()),
        filters: Vec::new(),
        fetch: None,
        statistics_requests: Default::default(),
    })
}

/// The rows of a plan of stages, as a table.
#[derive(Debug)]
struct StagedRows(Arc<StagedExec>);

#[async_trait]
impl TableProvider for StagedRows {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.0.statistics.as_ref().clone())
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Nothing asks for less: the optimizer has run.
        Ok(Arc::clone(&self.0) as Arc<dyn ExecutionPlan>)
    }
}

/// A plan of stages within another plan. It has no inputs: rules for the plan around it leave it
/// as it is.
#[derive(Debug)]
struct StagedExec {
    staged: Arc<dyn ExecutionPlan>,
    statistics: Arc<Statistics>,
    /// The plan with its figures, once it has run.
    measured: Arc<OnceLock<String>>,
}

impl StagedExec {
    /// Its rows, and then its figures.
    fn measured(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let (staged, measured) = (Arc::clone(&self.staged), Arc::clone(&self.measured));
        let measuring = async move {
            let text = explain_analyze(staged, DistributedMetricsFormat::Aggregated).await;
            text.map(|text| _ = measured.set(text)).err().map(Err)
        };
        let rows = rows.chain(stream::once(measuring).filter_map(future::ready));
        Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))
    }
}

impl DisplayAs for StagedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StagedExec")?;
        if format == DisplayFormatType::TreeRender {
            return Ok(());
        }
        let planned = || displayable(self.staged.as_ref()).indent(false).to_string();
        let text = self.measured.get().cloned().unwrap_or_else(planned);
        text.lines().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}

impl ExecutionPlan for StagedExec {
    fn name(&self) -> &str {
        "StagedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.staged.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let distributed = context.session_config().options().extensions.get::<DistributedConfig>();
        let is_measured = distributed.is_some_and(|distributed| distributed.collect_metrics);
        let rows = self.staged.execute(partition, context)?;
        Ok(if is_measured { self.measured(rows) } else { rows })
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&self.statistics))
    }
}
