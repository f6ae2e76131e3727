//! The real file system as a [`Storage`](crate::storage::Storage), and files without a name.

mod directory;
mod gate;
mod held;
mod nameless;

pub use directory::{Directory, DirectoryOptions};
pub use nameless::{NamelessFile, longest_file, open_nameless, sweep};
