//! Taking back memory that nobody can see any more: retiring manifests, punching spare memory,
//! giving up leases on other areas.
//!
//! Imports everything below: `model`, `policy`, `sys`, `namespace`, `memory`, `recovery`, `trap`
//! and `area`.

pub(crate) mod punch;
pub(crate) mod retire;
pub(crate) mod sources;
