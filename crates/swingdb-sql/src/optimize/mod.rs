//! Optimizer rules of our own: where exact statistics know better than the query engine's defaults,
//! and where the engine's rules change what a query means.

pub(crate) mod aggregate_rewrite;
pub(crate) mod asof_filters;
pub(crate) mod conditions_down;
pub(crate) mod constant_conditions;
pub(crate) mod cross_joins;
pub(crate) mod empty_sorts;
pub(crate) mod equal_keys;
pub(crate) mod estimate;
pub(crate) mod functional_dependencies;
pub(crate) mod grouping_sets;
pub(crate) mod groups_below_joins;
mod join_edges;
pub(crate) mod join_order;
pub(crate) mod keys_as_columns;
pub(crate) mod lambda_nulls;
pub(crate) mod leaf_unions;
pub(crate) mod literals_right;
pub(crate) mod moves;
pub(crate) mod nested_unions;
pub(crate) mod not_in;
pub(crate) mod offset_sums;
pub(crate) mod outer_joins;
pub(crate) mod rollups;
pub(crate) mod rule;
pub(crate) mod steps;
pub(crate) mod turns;
pub(crate) mod unseen_order;
pub(crate) mod where_true;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Join, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// A join rewritten by a rule of the engine, and then changed.
fn rewritten(
    rule: &dyn OptimizerRule,
    join: Join,
    config: &dyn OptimizerConfig,
    change: impl FnOnce(&mut Join) -> Result<()>,
) -> Result<Transformed<LogicalPlan>> {
    rule.rewrite(LogicalPlan::Join(join), config)?.map_data(|plan| match plan {
        LogicalPlan::Join(mut join) => {
            change(&mut join)?;
            Ok(LogicalPlan::Join(join))
        }
        other => internal_err!("a join became {}", other.display()),
    })
}
