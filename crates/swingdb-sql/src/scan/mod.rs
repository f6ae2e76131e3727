//! Tables as the query engine sees them: what is read of which segments, and what is known of their
//! rows beforehand.
//!
//! [`table`] is the provider of a table, [`source`] and [`stream`] its scan, [`disk`] what of it is
//! on a disk still. [`statistics`], [`distinct`] and [`sample`] tell the optimizer how many rows
//! and values to expect; [`pruning`], [`narrow`], [`lookups`] and [`filter`] leave segments and
//! rows out, some of them by [`search`]; [`always`] tells where nothing has to be left out.
//! [`short`] tells scans of few rows from others.

pub(crate) mod always;
pub(crate) mod disk;
pub(crate) mod distinct;
pub(crate) mod filter;
pub mod hidden;
pub(crate) mod lookups;
pub mod named;
pub(crate) mod narrow;
pub(crate) mod pruning;
pub(crate) mod sample;
pub(crate) mod search;
pub mod short;
pub mod source;
pub(crate) mod statistics;
pub(crate) mod stream;
pub(crate) mod table;
