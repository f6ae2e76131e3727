//! Files on a disk, for data that is larger than memory or has to outlive it.
//!
//! * [`storage`] is the seam: all that is asked of files, and the queue that moves their bytes.
//! * [`Directory`] is the real file system: direct I/O through io_uring where that is allowed,
//!   threads that call `pread` and `pwrite` elsewhere.
//! * [`Log`] keeps records in checksummed blocks; a [`Batch`] of changes is committed as a whole,
//!   and durable when `commit` returns; a [`Lease`] holds a state to read it.
//! * [`scan`] reads many records in parallel, and aggregates beside that.
//! * [`NamelessFile`] holds what need not outlive the process.
//!
//! Files are never mapped: reads are explicit and many at a time, every byte is checked against a
//! checksum before it is handed out, and a failure of the device is an ordinary error that names
//! the file and the offset. The crate knows nothing of what the records are.
//!
//! ```
//! use std::sync::Arc;
//! use swing_tier::{Directory, DirectoryOptions, Log, LogOptions};
//! # let temporary = tempfile::tempdir()?;
//! # let path = temporary.path();
//! let options = DirectoryOptions { create: true, ..Default::default() };
//! let log = Log::create(Arc::new(Directory::open(path, options)?), LogOptions::default())?;
//! let mut batch = log.batch()?;
//! let ids = [batch.put(b"one")?, batch.put(&[2; 1_000_000])?];
//! batch.commit()?;
//! drop(log);
//!
//! let log = Log::open(Arc::new(Directory::open(path, options)?), LogOptions::default())?;
//! let records = log.lease().read_many(&ids)?;
//! assert_eq!(records[0], b"one");
//! assert_eq!(records[1].len(), 1_000_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("direct I/O is built on Linux system calls and 64-bit offsets");

mod arena;
mod disk;
mod error;
mod io;
mod layout;
mod log;
pub mod pack;
pub mod probe;
mod process;
mod profile;
pub mod scan;
pub mod storage;
mod sync;
mod units;

pub use arena::{Arena, BufferClass, IoBuffer, MAX_ARENA_BYTES};
pub use disk::{
    Directory, DirectoryOptions, NamelessFile, longest_file, open_nameless, sweep as sweep_nameless,
};
pub use error::{Cause, CommitError, Damage, IoError, OpenError, ReadError};
pub use io::kept::KeptFile;
pub use io::{Choice, Engine};
#[doc(hidden)]
pub use log::fuzz::{decode_any_commit, decode_any_profile, decode_anything};
pub use log::queues::{QueueGuard, QueueOwner, queue as thread_queue};
pub use log::{
    Batch, CHUNK_ALIGN, CollectReport, Lease, Log, LogOptions, LogStats, MAX_BATCH_RECORDS,
    MAX_CHECKPOINTS, MAX_FILE_BYTES, MAX_JOURNAL_BYTES, MAX_NAME_BYTES, MAX_READ_RECORDS,
    MAX_ROOT_BYTES, MAX_STRIPE_BYTES, Piece, SMALL_BYTES, Spare,
};
pub use process::{ProcessMark, random_u64};
pub use profile::ReadCost;
pub use units::{Epoch, FileId, Generation, MAX_BLOCK_BYTES, RecordId, UNIT_BYTES};
