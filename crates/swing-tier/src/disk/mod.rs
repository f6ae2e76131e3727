//! The real file system as a [`Storage`](crate::storage::Storage).

mod directory;
mod gate;
mod held;

pub use directory::{Directory, DirectoryOptions};
