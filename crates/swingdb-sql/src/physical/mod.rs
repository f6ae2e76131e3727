//! Physical planning: our own operators, and rules about operators.

pub(crate) mod aggregate_statistics;
pub(crate) mod asof;
pub(crate) mod beside_scan;
pub(crate) mod column_lineage;
pub(crate) mod drawn;
pub(crate) mod dynamic_filters;
pub(crate) mod first_groups;
pub(crate) mod grace_joins;
pub(crate) mod insertion_order;
pub(crate) mod large_limits;
pub(crate) mod large_sorts;
pub(crate) mod lost_order;
pub(crate) mod materialize;
pub(crate) mod memory;
pub(crate) mod query_planner;
pub(crate) mod result_batches;
pub(crate) mod settled_order;
pub(crate) mod slices;
pub(crate) mod sorted_limits;
pub(crate) mod whole_groups;
