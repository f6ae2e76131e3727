//! Aggregates whose groups a scan gives whole: [`WholeGroups`].
//!
//! `GROUP BY l_orderkey` over a table that is sorted by it: the engine aggregates the rows of each
//! partition, deals the groups out by the hash of their key, and puts those of one key together.
//! Where the key is a column that the table is sorted by, the scan can cut the table between two
//! keys instead ([`SwingSource::with_whole_keys`]). Then no two partitions have rows of one group,
//! and each partition's aggregate is the result. With many threads dealing out takes far longer
//! than all the rest, because sorted groups are merged again in each of their partitions.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::Distribution;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::InterleaveExec;
use swingdb_operators::shared_join::SharedHashJoinExec;

use crate::physical::column_lineage;
use crate::scan::source::as_scan;

type Plan = Arc<dyn ExecutionPlan>;

/// What the rule meets in plans of one kind.
pub trait WholeKeys {
    /// The input of an operator that deals out rows by their keys within this process.
    fn dealt_out<'a>(&self, plan: &'a Plan) -> Option<&'a Plan>;

    /// A scan of which no two partitions have rows with one value of a column.
    fn of_scan(&self, scan: &Plan, column: usize) -> Result<Option<Plan>>;

    /// What comes in the place of an aggregate of parts that are dealt out: the aggregate at once.
    fn in_place(&self, of_parts: &Plan, at_once: Plan) -> Result<Option<Plan>>;
}

/// Plans of a session.
struct OfSession;

impl WholeKeys for OfSession {
    fn dealt_out<'a>(&self, plan: &'a Plan) -> Option<&'a Plan> {
        plan.downcast_ref::<RepartitionExec>().map(RepartitionExec::input)
    }

    fn of_scan(&self, scan: &Plan, column: usize) -> Result<Option<Plan>> {
        let Some(scan) = as_scan(scan.as_ref()) else { return Ok(None) };
        let whole = scan.with_whole_keys(column)?;
        Ok(whole.map(|scan| DataSourceExec::from_data_source(scan) as Plan))
    }

    fn in_place(&self, _of_parts: &Plan, at_once: Plan) -> Result<Option<Plan>> {
        Ok(Some(at_once))
    }
}

/// A scan of a table of which no two partitions have rows with one value of a column.
pub fn scan_with_whole_keys(scan: &Plan, column: usize) -> Result<Option<Plan>> {
    OfSession.of_scan(scan, column)
}

/// See the [module documentation](self). To run when partitions, orders and conditions are in
/// place: the engine does not know of a scan that no key is in two partitions of.
#[derive(Debug, Default)]
pub(crate) struct WholeGroups;

impl PhysicalOptimizerRule for WholeGroups {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> Result<Plan> {
        whole_groups(plan, &OfSession)
    }

    fn name(&self) -> &str {
        "WholeGroups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan without dealing out groups that a scan can give whole.
pub fn whole_groups(plan: Plan, keys: &dyn WholeKeys) -> Result<Plan> {
    rewrite(plan, keys, false)
}

/// `is_paired`: an operator above takes the partitions of this plan together with those of another
/// one, so that which rows are in which matters.
fn rewrite(plan: Plan, keys: &dyn WholeKeys, is_paired: bool) -> Result<Plan> {
    let deals_out = keys.dealt_out(&plan).is_some() || is_one_partition(&plan);
    let is_below_paired = pairs_partitions(&plan) || (is_paired && !deals_out);
    let children = plan.children().into_iter().cloned();
    let children = children.map(|child| rewrite(child, keys, is_below_paired));
    let children = children.collect::<Result<_>>()?;
    let plan = replace_children_if_necessary(plan, children)?;
    Ok(match is_paired {
        false => at_once(&plan, keys)?.unwrap_or(plan),
        true => plan,
    })
}

fn pairs_partitions(plan: &Plan) -> bool {
    let children = plan.children().len();
    let requirements = plan.input_distribution_requirements();
    let mut asked = requirements.per_child_distributions();
    let is_any = |asked: &Distribution| {
        matches!(asked, Distribution::UnspecifiedDistribution | Distribution::SinglePartition)
    };
    plan.is::<InterleaveExec>() || (children > 1 && !asked.all(is_any))
}

fn is_one_partition(plan: &Plan) -> bool {
    plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>()
}

/// The aggregate without dealing its groups out, if a scan can give them whole.
fn at_once(plan: &Plan, keys: &dyn WholeKeys) -> Result<Option<Plan>> {
    let of_mode = |plan: &Plan, mode| {
        let aggregate = plan.downcast_ref::<AggregateExec>();
        aggregate.filter(|a| *a.mode() == mode && a.limit_options().is_none()).is_some()
    };
    let Some(last) = plan.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let Some(dealt) = keys.dealt_out(last.input()) else { return Ok(None) };
    let Some(first) = dealt.downcast_ref::<AggregateExec>() else { return Ok(None) };
    if !of_mode(plan, AggregateMode::FinalPartitioned)
        || !of_mode(dealt, AggregateMode::Partial)
        || !first.group_expr().is_single()
    {
        return Ok(None);
    }
    for (key, _) in first.group_expr().expr() {
        let Some(key) = key.downcast_ref::<Column>() else { continue };
        let Some(input) = with_whole_keys(first.input(), keys, key.index())? else { continue };
        let once = AggregateExec::try_new(
            AggregateMode::SinglePartitioned,
            first.group_expr().clone(),
            first.aggr_expr().to_vec(),
            first.filter_expr().to_vec(),
            input,
            first.input_schema(),
        )?;
        if once.schema() != plan.schema() {
            return Ok(None);
        }
        return keys.in_place(plan, Arc::new(once));
    }
    Ok(None)
}

/// The plan over a scan of which no two partitions have rows with one value of a column.
fn with_whole_keys(plan: &Plan, keys: &dyn WholeKeys, column: usize) -> Result<Option<Plan>> {
    if plan.children().is_empty() {
        return keys.of_scan(plan, column);
    }
    let Some(place) = place_of_rows(plan) else { return Ok(None) };
    let mut children = plan.children().into_iter().cloned().collect::<Vec<_>>();
    let Some(below) = column_lineage::column_in_child(plan.as_ref(), place, column) else {
        return Ok(None);
    };
    let Some(child) = with_whole_keys(&children[place], keys, below)? else { return Ok(None) };
    children[place] = child;
    replace_children_if_necessary(Arc::clone(plan), children).map(Some)
}

/// The child whose partitions an operator keeps: each row it gives is made of rows of the child's
/// partition.
fn place_of_rows(plan: &Plan) -> Option<usize> {
    use JoinType as J;
    if plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>() {
        return Some(0);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let is_whole = *aggregate.mode() == AggregateMode::SinglePartitioned;
        return (is_whole && aggregate.group_expr().is_single()).then_some(0);
    }
    let shared = plan.downcast_ref::<SharedHashJoinExec>().map(SharedHashJoinExec::join);
    let join = shared.or_else(|| plan.downcast_ref::<HashJoinExec>())?;
    // Rows of the build side alone come in any partition.
    let is_of_probe = matches!(
        join.join_type(),
        J::Inner | J::Right | J::RightSemi | J::RightAnti | J::RightMark
    );
    (is_of_probe && *join.partition_mode() == PartitionMode::CollectLeft).then_some(1)
}
