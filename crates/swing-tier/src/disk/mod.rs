//! The real file system as a [`Storage`](crate::storage::Storage).

mod directory;
mod file;
mod gate;
mod held;

pub use directory::{Directory, DirectoryOptions};
pub(crate) use file::DiskFile;
