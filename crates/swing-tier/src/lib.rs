//! Blocks on a disk.

mod disk;
mod error;
mod io;
mod process;
pub mod storage;
mod units;

pub use disk::{Directory, DirectoryOptions};
pub use error::{Cause, CommitError, Damage, IoError, OpenError, ReadError};
pub use io::arena::{BufferClass, IoBuffer, MAX_ARENA_BYTES};
pub use io::{Choice, Engine};
pub use units::{Epoch, FileId, Generation, MAX_BLOCK_BYTES, RecordId, UNIT_BYTES};
