//! Whole numbers that do not fit are an error, never a wrong number.
//!
//! The query engine's own `+`, `-`, `*` and `<<` wrap around, and so does its sum. [`rule`] puts
//! the functions of [`checked`] in their place when a statement is analyzed, before anything is
//! simplified: constants are then folded by the same functions, and a constant that overflows
//! stays in the plan and fails when (and only if) it is computed. [`sum`] adds up in 128 bits and
//! fails only when the total does not fit; [`average`] adds up alike, and fails never.
//! [`zeros`] compares floating point by `=` only.
//!
//! [`casts`] makes casts round, and [`kept`] keeps them from being left out. [`digits`] counts the
//! digits of decimals, and [`exact`] computes with them where there are enough. Not concerned:
//! division and remainder of whole numbers, intervals and dates, which the engine checks itself.

mod average;
mod average_groups;
mod casts;
mod checked;
mod digits;
mod exact;
mod integers;
mod kept;
mod rule;
mod sum;
mod sum_groups;
mod wide_sum;
mod zeros;

pub(crate) use average::exact_average;
pub(crate) use casts::{decimal_nearest_to, is_nearest_number};
pub(crate) use rule::{checked, checked_expr, plus_constant};
pub(crate) use sum::checked_sum;
pub(crate) use sum_groups::selected;
