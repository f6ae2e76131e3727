//! Parameters of lambdas whose lists became known to have no NULLs: [`LambdaNulls`].
//!
//! The engine folds constants, also in what makes a list: `list_transform(l, x -> range(2))` has
//! elements that may be NULL when it is planned, and none after that. A lambda over that list has
//! its parameter from before, and the engine's physical planner refuses a parameter that differs
//! from its list.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::sql::nodes::expressions::{any_node, any_part};

/// See the [module documentation](self). To run after all other rules.
#[derive(Debug)]
pub(crate) struct LambdaNulls;

impl OptimizerRule for LambdaNulls {
    fn name(&self) -> &str {
        "lambda_nulls"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let has_lambda = |node: &LogicalPlan| {
            any_part(node, |part| matches!(part, Expr::HigherOrderFunction(_)))
        };
        match any_node(&plan, has_lambda)? {
            true => plan.resolve_lambda_variables(),
            false => Ok(Transformed::no(plan)),
        }
    }
}
