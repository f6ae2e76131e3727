//! What a plan says of tables on a disk: [`BesideScan`].
//!
//! A scan of a table that is in its store only reads it by single-domain scans, each with its own
//! ring of buffers, and the query's threads take what arrives (see [`disk`](crate::scan::disk)).
//! An aggregate right above it, or with conditions and computed columns in between, is computed by
//! the same threads, a partial result for each partition, while the device fills the other buffers
//! (ParaSSDAggr: Fan, Lai, Meng 2012). When a partition has ended, its partial result goes up to
//! the final aggregate. The engine places its aggregates there by itself, each that has a partial
//! and a final form; this rule changes nothing, it notes in the scan what EXPLAIN is to show.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::scan::disk::Beside;
use crate::scan::source::as_scan;

type Plan = Arc<dyn ExecutionPlan>;

/// See the [module documentation](self). To run last: rules make new scans of old ones.
#[derive(Debug, Default)]
pub(crate) struct BesideScan;

impl PhysicalOptimizerRule for BesideScan {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> Result<Plan> {
        note(&plan, None);
        Ok(plan)
    }

    fn name(&self) -> &str {
        "BesideScan"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Notes in the scans of a plan what is on a disk. `beside`: the aggregate above the plan that
/// gets the rows of each of its partitions in that partition.
fn note(plan: &Plan, beside: Option<&Beside>) {
    if let Some(scan) = as_scan(plan.as_ref()) {
        return scan.note_on_disk(beside);
    }
    let own = beside_input(plan);
    let keeps_partitions =
        plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>();
    let below = own.as_ref().or(beside.filter(|_| keeps_partitions));
    plan.children().into_iter().for_each(|child| note(child, below));
}

/// The aggregate that a plan is, if it reads rows and no partial results.
fn beside_input(plan: &Plan) -> Option<Beside> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let is_partial = match aggregate.mode() {
        AggregateMode::Partial => true,
        AggregateMode::Single | AggregateMode::SinglePartitioned => false,
        _ => return None,
    };
    let all: Vec<&str> = aggregate.aggr_expr().iter().map(|one| one.name()).collect();
    let keys = aggregate.group_expr().expr();
    let keys: Vec<&str> = keys.iter().map(|(_, name)| name.as_str()).collect();
    let mut text = all.join(", ");
    if !keys.is_empty() {
        let gap = if text.is_empty() { "" } else { " " };
        text = format!("{text}{gap}by {}", keys.join(", "));
    }
    Some(Beside { text, is_partial })
}
