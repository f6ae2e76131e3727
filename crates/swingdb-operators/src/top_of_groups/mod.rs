//! The first rows of each group, without a sort of all rows.
//!
//! `row_number() OVER (PARTITION BY g ORDER BY v) <= 2`: the engine deals the rows out by group,
//! sorts all of them and numbers them, to throw nearly all away. [`TopOfGroupsExec`] stands before
//! that. It leaves out a row when it has seen two others of the group that come before it.
//!
//! It keeps no rows, only the first keys of each group. The rows that are left are sorted and
//! numbered as before, and the result is the same.
//!
//! # Invariants
//!
//! - A row is left out only if as many rows of its group as are asked for are less than it. So rows
//!   of equal rank stay, and `rank()` is as right as `row_number()`.
//! - Where groups are too many, or too few rows are left out, or memory is short, it lets all rows
//!   through from then on.

mod exec;
mod leaders;
mod rule;

pub use exec::TopOfGroupsExec;
pub use rule::TopOfGroups;
