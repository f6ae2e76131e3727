//! The write barrier, and what else changes the tables by a call: giving up ranges, taking ranges
//! from snapshots, migrating to a memfd.
//!
//! Imports everything below, `hook` the last.

pub(crate) mod barrier;
pub(crate) mod discard;
pub(crate) mod map_foreign;
pub(crate) mod migrate;
pub(crate) mod perform;
pub(crate) mod plan;
