//! The operator that nothing moves through while a plan is optimized: [`FenceExec`].

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties,
};

use crate::nodes::one_input::{one_input, rows_of_input};

/// Stands for its input, and is gone before a plan runs.
#[derive(Debug)]
pub(crate) struct FenceExec {
    input: Arc<dyn ExecutionPlan>,
    /// The order that the input must have.
    order: Option<OrderingRequirements>,
    /// How many rows of the input there are to be at most.
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl FenceExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, order: Option<OrderingRequirements>) -> Self {
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, order, fetch: None, properties: Arc::new(properties) }
    }

    pub fn with_fetch(self, fetch: Option<usize>) -> Self {
        Self { fetch, ..self }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input, self.order.clone()).with_fetch(self.fetch)
    }

    /// What it stands for, without rows that a rule has brought back.
    pub fn opened(&self) -> Arc<dyn ExecutionPlan> {
        let input = Arc::clone(&self.input);
        match self.fetch {
            Some(most) if input.fetch().is_none_or(|fetch| fetch > most) => {
                Arc::new(GlobalLimitExec::new(input, 0, Some(most)))
            }
            _ => input,
        }
    }
}

impl DisplayAs for FenceExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FenceExec")
    }
}

impl ExecutionPlan for FenceExec {
    fn name(&self) -> &str {
        "FenceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// It does, but a rule that knew would move a sort from above it to below.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![self.order.clone()]
    }

    one_input!();
    rows_of_input!();

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        internal_err!("a fence was left in a plan that runs")
    }
}
