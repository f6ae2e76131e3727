//! Joins whose table may not fit into memory can spill: [`GraceJoins`].

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use swingdb_operators::grace_join::GraceHashJoinExec;

use crate::physical::memory::{memory_limit, table_bytes};

/// The part of the memory, one in so many, that a join's table may take before it has to be one
/// that can spill.
const SHARE: usize = 4;

/// Replaces hash joins by [`GraceHashJoinExec`] where their build side is expected to take much
/// of `memory_limit`. To run behind the choice of the build side, and before orders are settled:
/// such a join keeps none.
#[derive(Debug, Default)]
pub(crate) struct GraceJoins;

impl PhysicalOptimizerRule for GraceJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(large) = large_tables(&plan, config)? else { return Ok(plan) };
        let replaced = plan.transform_up(|node| {
            let own = match node.downcast_ref::<HashJoinExec>() {
                Some(join) if large.is_one(join.left(), 1) => GraceHashJoinExec::try_new(join)?,
                _ => None,
            };
            Ok(match own {
                Some(join) => Transformed::yes(Arc::new(join)),
                None => Transformed::no(node),
            })
        });
        replaced.data()
    }

    fn name(&self) -> &str {
        "GraceJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Tables of joins that are expected to take much of `memory_limit`.
#[derive(Clone, Copy, Debug)]
pub struct LargeTables {
    bytes: usize,
}

impl LargeTables {
    /// Whether a table of a plan's rows is one, of which one in so many parts is in memory.
    pub fn is_one(&self, rows: &Arc<dyn ExecutionPlan>, parts: usize) -> bool {
        table_bytes(rows).is_some_and(|bytes| bytes / parts.max(1) > self.bytes)
    }
}

/// Which tables of joins are large; `None`: no plan of so few rows has one.
pub fn large_tables(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Option<LargeTables>> {
    let Some(limit) = memory_limit(config) else { return Ok(None) };
    let bytes = limit / SHARE;
    Ok(reads_much(plan, bytes)?.then_some(LargeTables { bytes }))
}

/// Whether all that a plan reads would take more than so many bytes. To find out what is left of it
/// at each join takes longer.
fn reads_much(plan: &Arc<dyn ExecutionPlan>, most: usize) -> Result<bool> {
    let mut bytes = 0usize;
    plan.apply(|node| {
        if node.children().is_empty() {
            bytes = bytes.saturating_add(table_bytes(node).unwrap_or(0));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes > most)
}
