//! What an owner holds of its area: the tables behind its lock, the words of its extents, its
//! memory, and where the next versions go.
//!
//! An [`handle::Area`] is the handle, [`core::Core`] what outlives it, [`tables::Tables`] what its
//! lock protects. Everything above changes an area through these. Imports `model`, `policy`, `sys`,
//! `namespace`, `memory`, `recovery` and `trap`.

pub(crate) mod absorb;
pub(crate) mod announce;
pub(crate) mod check;
pub(crate) mod core;
pub(crate) mod handle;
pub(crate) mod in_advance;
pub(crate) mod live_slot;
pub(crate) mod locking;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod next_plane;
pub(crate) mod options;
pub(crate) mod own_memory;
pub(crate) mod presence;
pub(crate) mod registry;
pub(crate) mod sessions;
pub(crate) mod shared_link;
pub(crate) mod spare;
pub(crate) mod start;
pub(crate) mod stats;
pub(crate) mod tables;
pub(crate) mod tracking;
