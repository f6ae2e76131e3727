//! Optimizer rules of our own: where exact statistics know better than the query engine's defaults,
//! and where the engine's rules change what a query means.

mod conditions_down;
mod cross_joins;
pub(crate) mod dependencies;
mod equal_keys;
mod estimate;
mod from_statistics;
mod grouping_sets;
mod hand_down;
mod in_order;
mod join_order;
mod lineage;
mod membership;
mod of_aggregates;
mod offset_sums;
pub(crate) mod sample;
mod settled_order;
mod unseen_order;
mod whole_order;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{Join, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

pub(crate) use conditions_down::ConditionsDown;
pub(crate) use cross_joins::CrossJoins;
pub(crate) use dependencies::{Dependencies, DistinctGroups};
pub(crate) use equal_keys::EqualKeys;
pub(crate) use estimate::remembered_distinct;
pub(crate) use from_statistics::FromStatistics;
pub(crate) use grouping_sets::GROUPING_SETS;
pub(crate) use hand_down::HandDown;
pub(crate) use in_order::InOrder;
pub(crate) use join_order::JoinOrder;
pub(crate) use membership::Membership;
pub(crate) use offset_sums::OFFSET_SUMS;
pub(crate) use settled_order::SettledOrder;
pub(crate) use unseen_order::UnseenOrder;
pub(crate) use whole_order::WholeOrder;

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
