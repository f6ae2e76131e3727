//! Functions of groups, and of the rows of windows: those that the engine lacks, and those whose
//! answer it gets wrong.
//!
//! [`sum`] adds up in 128 bits and fails only when the total does not fit; [`average`] adds up
//! alike, and fails never.

pub mod average;
pub mod average_groups;
pub mod compensated;
pub mod counted;
mod counted_groups;
mod counted_values;
pub mod distinct;
pub mod extremes;
pub mod firsts;
mod gathered_groups;
pub mod given;
mod group_rows;
mod interval_totals;
mod kept_rows;
pub mod moments;
mod nested_extremes;
mod number_groups;
pub mod ordered;
mod ordered_firsts;
pub mod ordered_windows;
pub mod picked;
pub mod quantile_groups;
pub mod quantiles;
mod quotients;
pub mod recomputed;
pub mod sliding;
pub mod sum;
pub mod sum_groups;
mod totals;
pub mod wide_sum;
