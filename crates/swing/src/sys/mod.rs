//! The thin layer over the kernel: address ranges, files in a folder, process identity.
//!
//! Everything here is a system call with its error mapped; policy lives in the modules above.

pub(crate) mod bell;
pub mod descriptors;
pub(crate) mod file;
pub mod file_lock;
pub(crate) mod futex;
pub(crate) mod kept_file;
pub(crate) mod lift;
pub(crate) mod mem;
pub(crate) mod memfd;
pub(crate) mod page;
pub(crate) mod pass;
pub(crate) mod process;
pub(crate) mod quiet;
pub(crate) mod room;
pub(crate) mod strict;
