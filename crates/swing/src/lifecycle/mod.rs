//! How an area begins and ends: creating, deriving, adopting and closing it, leaving the namespace
//! at the end of the process, and what a fork does to it.
//!
//! Imports everything below.

pub(crate) mod adopt;
pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod derive;
pub(crate) mod fork;
pub(crate) mod unlink_at_exit;
