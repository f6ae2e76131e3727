//! Live hooks: the state of this moment, of an owner that goes on storing.
//!
//! The server ([`server`], [`clients`], [`affinity`]) and the hooker ([`hook_live`], [`ask`],
//! [`pending`]) share only the [`protocol`]. Imports everything below, `tracked` the last.

pub(crate) mod affinity;
pub(crate) mod ask;
pub(crate) mod clients;
pub(crate) mod connect;
pub(crate) mod hook_live;
pub(crate) mod pending;
pub(crate) mod protocol;
pub(crate) mod server;
