//! Committing: which blocks become live, which die, and the records that others read.
//!
//! The [`writer`] is what the one holder of a store's slot has. It judges the [`effects`] of a
//! transaction, writes the records of the new state, and publishes the place of its [`root`]. A
//! [`group`] has transactions that are published together.

pub(crate) mod effects;
pub(crate) mod group;
pub(crate) mod root;
pub(crate) mod writer;
