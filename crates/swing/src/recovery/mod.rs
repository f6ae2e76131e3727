//! Folders without a living owner: what is really in them, giving back what nobody needs, removing
//! areas, and taking over a folder for a new owner.
//!
//! Whoever changes a folder here holds its owner's lock, if only for a moment. Imports `model`,
//! `sys`, `namespace` and `memory`.

pub(crate) mod claim;
pub(crate) mod dismantle;
pub(crate) mod gc;
pub(crate) mod inventory;
pub(crate) mod list;
pub(crate) mod lost;
pub(crate) mod remove;
pub(crate) mod sweep;
