//! Sorted limits that need more memory than a sort of all rows: [`LargeLimits`].
//!
//! `ORDER BY a LIMIT 100000` keeps the first 100 000 rows, and cannot spill. It keeps them as parts
//! of the batches that they came in. Texts of a table's rows lie in the memory of a whole segment,
//! which counts for each of these batches. Where that would be much of `memory_limit`, all rows are
//! sorted instead, which can spill, and the first ones are taken.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::options::BATCH_ROWS;
use crate::physical::memory::{memory_limit, row_bytes};

/// The part of the memory, one in so many, that all partitions of a sorted limit may take.
const SHARE: usize = 4;
/// Rows that are kept for each one that is wanted, before those between them are let go of.
const SLACK: usize = 2;
/// Bytes of a value that has no fixed width: those of the texts of its segment, by the rows of a
/// batch.
const VALUE_BYTES: usize = 512;
/// Bytes of the encoded key of a row, and its place in the order.
const KEY_BYTES: usize = 112;

/// See the [module documentation](self). To run when limits are in place, before conditions are
/// handed down.
#[derive(Debug, Default)]
pub(crate) struct LargeLimits;

impl PhysicalOptimizerRule for LargeLimits {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(limit) = memory_limit(config) else { return Ok(plan) };
        let changed = plan.transform_up(|node| {
            let sort = node.downcast_ref::<SortExec>();
            let whole = sort.and_then(|sort| sorted_whole(sort, limit / SHARE));
            Ok(whole.map_or_else(|| Transformed::no(node), Transformed::yes))
        });
        changed.data()
    }

    fn name(&self) -> &str {
        "LargeLimits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sort of all rows below the limit, where the limited one would need more than `most` bytes.
fn sorted_whole(sort: &SortExec, most: usize) -> Option<Arc<dyn ExecutionPlan>> {
    let rows = sort.fetch().filter(|rows| *rows > BATCH_ROWS)?;
    let streams = match sort.preserve_partitioning() {
        true => sort.input().output_partitioning().partition_count(),
        false => 1,
    };
    let of_row = SLACK * row_bytes(&sort.schema(), VALUE_BYTES) + KEY_BYTES;
    (rows.saturating_mul(of_row).saturating_mul(streams) > most).then(|| {
        let whole = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()))
            .with_preserve_partitioning(sort.preserve_partitioning());
        Arc::new(LocalLimitExec::new(Arc::new(whole), rows)) as _
    })
}
