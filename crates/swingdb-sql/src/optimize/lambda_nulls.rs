//! Parameters of lambdas whose lists became known to have no NULLs: [`LAMBDA_NULLS`].
//!
//! The engine folds constants, also in what makes a list: `list_transform(l, x -> range(2))` has
//! elements that may be NULL when it is planned, and none after that. A lambda over that list has
//! its parameter from before, and the engine's physical planner refuses a parameter that differs
//! from its list.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::nodes::expressions::{any_node, any_part};
use crate::optimize::rule::OwnRule;

/// See the [module documentation](self). To run after all other rules.
pub(crate) const LAMBDA_NULLS: OwnRule = OwnRule::of_plan("lambda_nulls", resolve_again);

fn resolve_again(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let has_lambda =
        |node: &LogicalPlan| any_part(node, |part| matches!(part, Expr::HigherOrderFunction(_)));
    if !any_node(&plan, has_lambda)? {
        return Ok(Transformed::no(plan));
    }
    plan.transform_with_subqueries(|node| {
        let schema = match &node {
            // A condition that has come down to a table: its columns, shown or not.
            LogicalPlan::TableScan(scan) => {
                let columns = scan.source.schema();
                DFSchema::try_from_qualified_schema(scan.table_name.clone(), &columns)?
            }
            other => merge_schema(&other.inputs()),
        };
        node.map_expressions(|expr| expr.resolve_lambda_variables(&schema))
    })
}
