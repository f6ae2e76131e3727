//! Whole numbers that do not fit are an error, never a wrong number.
//!
//! The query engine's own `+`, `-`, `*` and `<<` wrap around. The functions of [`checked`] are put
//! in their place when a statement is analyzed, before anything is simplified: constants are then
//! folded by the same functions, and a constant that overflows stays in the plan and fails when
//! (and only if) it is computed. Sums and averages are in [`aggregates`](crate::aggregates).
//! [`zeros`] compares floating point by `=` only.
//!
//! [`casts`] makes casts round, by functions of [`prepared`], and [`kept`] keeps them from being
//! left out. [`digits`] counts the digits of decimals, and [`exact`] computes with them where there
//! are enough. [`types`] knows the type of sums and casts. Not concerned: division and remainder of
//! whole numbers, intervals and dates, which the engine checks itself.

pub mod casts;
pub mod checked;
pub mod digits;
pub mod exact;
mod integers;
pub mod kept;
pub mod prepared;
pub mod types;
pub mod whole_quotient;
pub mod zeros;
