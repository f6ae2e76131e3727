//! What happens inside the handler of SIGSEGV: a store into a protected extent of a tracked area is
//! turned into a store into a version of its own.
//!
//! A trapped thread can be anywhere and hold any lock, its allocator's too. So everything here that
//! a trapped store reaches allocates nothing, takes no lock and waits on futex words only, for what
//! ends by itself. Why that is enough is said in [`crate::tracked`]. Imports `model`, `policy`,
//! `sys` and `memory`.

pub(crate) mod gate;
#[cfg(all(test, loom))]
mod models;
pub(crate) mod pin_count;
pub(crate) mod pins;
pub(crate) mod requests;
pub(crate) mod resolve;
pub(crate) mod served;
pub(crate) mod shortage;
pub(crate) mod signal;
pub(crate) mod spare_wait;
pub(crate) mod store_log;
pub(crate) mod table;
pub(crate) mod trapped_area;
