//! Common table expressions that are computed once, however often a statement names them.
//!
//! The query engine puts the query of a `WITH` in place of each of its names, and would run it as
//! often. That is wrong where two runs may differ: `WITH r AS (SELECT random() AS x) SELECT a.x =
//! b.x FROM r a, r b` is true. So, before anything else looks at a plan, [`of_names`] finds the
//! queries named more than once that draw random numbers, number rows or take the first of them,
//! and puts a [node](crate::nodes::materialize) around each occurrence, which the optimizer does
//! not look through.
//!
//! All others are left to the optimizer, which may push other conditions into each occurrence.
//! What is still the same afterwards, and worth it, is computed once as well: [`of_equals`].
//!
//! The operators ([`exec`]) of one such part share what the first of them computes: in memory, or
//! on disk when the memory is needed. That is settled last ([`rule`]), anew for each execution.
//!
//! [`of_names`]: crate::plan::materialized_parts::of_names
//! [`of_equals`]: crate::plan::materialized_parts::of_equals

pub(crate) mod exec;
pub(crate) mod planner;
pub(crate) mod rule;
