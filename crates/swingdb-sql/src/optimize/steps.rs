//! Rules of the optimizer at whose steps planning can be interrupted.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use swingdb_common::runtime::cancel::checkpoint;

use crate::optimize::rule::Rule;

/// A rule that looks at each step whether the statement is to end.
#[derive(Debug)]
struct Step(Rule);

/// The rules, each of which can be interrupted.
pub(crate) fn in_steps(rules: Vec<Rule>) -> Vec<Rule> {
    rules.into_iter().map(|rule| Arc::new(Step(rule)) as _).collect()
}

impl OptimizerRule for Step {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        checkpoint();
        self.0.rewrite(plan, config)
    }
}
