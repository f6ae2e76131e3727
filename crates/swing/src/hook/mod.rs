//! Snapshots: hooking the newest shared state of an area, and waiting for a newer one.
//!
//! Imports everything below, `publish` the last: an owner's snapshots of its own area are anonymous
//! states.

pub(crate) mod freeze_view;
pub(crate) mod hook_newest;
pub(crate) mod options;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod wait_newer;
