//! Optimizer rules of our own, where exact statistics know better than the query engine's defaults.

mod estimate;
mod join_order;
pub(crate) mod sample;

pub(crate) use estimate::remembered_distinct;
pub(crate) use join_order::JoinOrder;
