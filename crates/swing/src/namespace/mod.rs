//! The directory that holds areas: the names in it, who owns an area, leases on its states, and
//! which state is the newest.
//!
//! Each area is a folder under its (encoded) name. Folders whose names begin with a dot are areas
//! without a name, areas in the making, and the remains of removed ones. Imports `model` and `sys`.

pub(crate) mod files;
pub(crate) mod handle;
pub(crate) mod info;
pub(crate) mod lease;
pub(crate) mod manifest_file;
pub(crate) mod newest;
pub(crate) mod owner_lock;
