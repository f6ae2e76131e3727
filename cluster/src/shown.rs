//! What EXPLAIN and EXPLAIN ANALYZE show of queries that come before a statement: those of its
//! subqueries, and of keys that are asked for first.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Explain, ExplainFormat, LogicalPlan, PlanType, StringifiedPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, displayable,
};
use datafusion_distributed::{DistributedMetricsFormat, explain_analyze};
use futures::{StreamExt, stream};

/// The plans of such queries, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// Whether they run, and their figures are shown.
    runs: bool,
    is_verbose: bool,
    texts: Vec<String>,
}

impl Shown {
    /// What a statement shows of them; `None`: nothing.
    pub(crate) fn of(statement: &LogicalPlan) -> Option<Self> {
        let (runs, is_verbose) = match statement {
            LogicalPlan::Explain(explain) if explain.explain_format == ExplainFormat::Indent => {
                (false, explain.verbose)
            }
            LogicalPlan::Analyze(analyze) => (true, analyze.verbose),
            _ => return None,
        };
        Some(Self { runs, is_verbose, texts: Vec::new() })
    }

    /// Of a part of the same statement.
    pub(crate) fn of_part(&self) -> Self {
        Self { texts: Vec::new(), ..*self }
    }

    /// Whether the queries run.
    pub(crate) fn runs(&self) -> bool {
        self.runs
    }

    /// Adds the plan of a query, which has run if such queries do.
    pub(crate) async fn add(&mut self, plan: Arc<dyn ExecutionPlan>) -> Result<()> {
        let format = match self.is_verbose {
            true => DistributedMetricsFormat::PerTask,
            false => DistributedMetricsFormat::Aggregated,
        };
        self.texts.push(match self.runs {
            true => explain_analyze(plan, format).await?,
            false => displayable(plan.as_ref()).indent(self.is_verbose).to_string(),
        });
        Ok(())
    }

    /// Adds what a part of the statement shows.
    pub(crate) fn extend(&mut self, of_part: Self) {
        self.texts.extend(of_part.texts);
    }

    fn numbered(&self) -> impl Iterator<Item = String> {
        let all = self.texts.iter().enumerate();
        all.map(|(nth, text)| format!("Query {}, whose rows are asked for first:\n{text}", nth + 1))
    }

    /// EXPLAIN of a plan, and of what comes before it.
    pub(crate) fn explained(
        &self,
        explain: &Explain,
        plan: &dyn ExecutionPlan,
    ) -> Arc<dyn ExecutionPlan> {
        let mut texts = explain.stringified_plans.clone();
        let logical = explain.plan.display_indent().to_string();
        let mut physical = displayable(plan).indent(explain.verbose).to_string();
        physical.extend(self.numbered());
        texts.push(StringifiedPlan::new(PlanType::FinalLogicalPlan, logical));
        texts.push(StringifiedPlan::new(PlanType::FinalPhysicalPlan, physical));
        if !explain.verbose {
            texts.retain(|text| text.should_display(false));
        }
        Arc::new(ExplainExec::new(Arc::clone(explain.schema.inner()), texts, explain.verbose))
    }

    /// EXPLAIN ANALYZE of a plan, and of what has come before it.
    pub(crate) fn analyzed(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if self.texts.is_empty() {
            return Ok(plan);
        }
        let texts = self.numbered().collect::<Vec<_>>();
        let kinds = vec!["Plan with Metrics"; texts.len()];
        let columns = [StringArray::from(kinds), StringArray::from(texts)];
        let columns = columns.into_iter().map(|column| Arc::new(column) as _).collect();
        let before = RecordBatch::try_new(plan.schema(), columns)?;
        Ok(Arc::new(AnalyzedExec { plan, before }))
    }
}

/// The rows of EXPLAIN ANALYZE, and those about the queries before.
#[derive(Debug)]
struct AnalyzedExec {
    plan: Arc<dyn ExecutionPlan>,
    before: RecordBatch,
}

impl DisplayAs for AnalyzedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnalyzedExec")
    }
}

impl ExecutionPlan for AnalyzedExec {
    fn name(&self) -> &str {
        "AnalyzedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = children.into_iter().next().unwrap_or_else(|| Arc::clone(&self.plan));
        Ok(Arc::new(Self { plan, before: self.before.clone() }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.plan.execute(partition, context)?;
        let rows = rows.chain(stream::iter([Ok(self.before.clone())]));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
