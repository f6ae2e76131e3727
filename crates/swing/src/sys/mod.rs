//! The thin layer over the kernel: one facility a file, such as address ranges, files in a folder,
//! locks, processes and signals.
//!
//! A function here is a system call with its error mapped; it knows no area, and decides nothing.
//! Imports `model`.

pub(crate) mod addresses;
pub(crate) mod atomics;
pub(crate) mod backoff;
pub(crate) mod block_signals;
pub(crate) mod copy_bytes;
pub mod descriptors;
pub(crate) mod extent_mapping;
pub(crate) mod file;
pub mod file_lock;
pub(crate) mod first_page;
pub(crate) mod futex;
pub(crate) mod kept_file;
pub(crate) mod limits;
pub(crate) mod memfd;
pub(crate) mod memory_limits;
pub(crate) mod notifier;
pub(crate) mod once;
pub(crate) mod page_tables;
pub(crate) mod pass_fd;
pub mod pipes;
pub(crate) mod process;
pub(crate) mod strict;
pub(crate) mod sync;
