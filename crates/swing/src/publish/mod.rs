//! Publishing: freezing an area's present state under a new epoch, and making its manifest current.
//!
//! Imports everything below: `model`, `policy`, `sys`, `namespace`, `memory`, `recovery`, `trap`,
//! `area` and `reclaim`.

pub(crate) mod anonymous;
pub(crate) mod commit;
pub(crate) mod consolidate;
pub(crate) mod describe;
pub(crate) mod detach_tables;
pub(crate) mod freeze;
pub(crate) mod made_ahead;
pub(crate) mod pin_sources;
pub(crate) mod protect;
pub(crate) mod protocol;
