//! Plain data and pure functions: identities and sizes, how an area is cut into extents, which
//! versions of an extent there are, what a manifest says.
//!
//! Nothing here makes a system call, takes a lock or starts a thread, so all of it can be tested
//! without an area. Imports nothing of this crate.

pub(crate) mod backing;
pub(crate) mod error;
pub(crate) mod extent_word;
pub mod geometry;
pub(crate) mod manifest;
pub(crate) mod name;
pub(crate) mod old_versions;
pub(crate) mod own_versions;
pub(crate) mod planes;
pub(crate) mod runs;
pub(crate) mod sparse;
pub(crate) mod units;
