//! Conditions that stay above an aggregate that makes a row of nothing: [`AboveAggregates`].
//!
//! `SELECT count(*) FROM t HAVING (SELECT false)` has no rows. The query engine moves conditions
//! below an aggregate whose columns are all grouped by, and a condition without any column meets
//! that: below, it leaves the aggregate no rows, of which a count makes one.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The engine's rule that moves conditions down, but for those above such an aggregate.
#[derive(Debug, Default)]
pub(crate) struct AboveAggregates(PushDownFilter);

impl AboveAggregates {
    /// The name of the rule, its own and that of the one it stands for.
    pub(crate) const NAME: &str = "push_down_filter";
}

impl OptimizerRule for AboveAggregates {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Filter(filter) if makes_a_row_of_nothing(&filter.input) => {
                Ok(Transformed::no(plan))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}

/// Whether below any filters comes an aggregate of all rows. With grouping sets, one of them may be
/// that; no condition on their columns moves down anyway.
fn makes_a_row_of_nothing(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => makes_a_row_of_nothing(&filter.input),
        LogicalPlan::Aggregate(aggregate) => {
            let is_set = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
            aggregate.group_expr.is_empty() || aggregate.group_expr.iter().any(is_set)
        }
        _ => false,
    }
}
