//! A log of records on a disk: commits, leases, checkpoints, garbage collection.
//!
//! # Words
//! * A *record* is a byte string with a number. It never changes; it is added by one commit and
//!   freed by another.
//! * A *commit* changes the state of the log as a whole: records added and freed, the root payload
//!   (bytes of the caller's by which it finds its records), checkpoints. Each has an *epoch*.
//! * A *block* is 4096-byte units in a row of one file. A *piece* is the reference to bytes in a
//!   block, with their checksum. A record is a list of pieces.
//! * The *journal* is a file of commits. The *manifest* is the whole state at one epoch. The *root*
//!   names a manifest and the journal of the commits that follow it.
//!
//! # Order to read in
//! `format`, `state`, `journal`, `root`, `files`, `write`, `batch`, `commit`, `manifest`,
//! `recover`, `read`, `lease`, `collect`, `room`. The invariants are in `docs/invariants.md`, why a
//! commit is correct in `docs/tier.md`.

mod batch;
mod codec;
mod collect;
mod commit;
pub(crate) mod files;
pub(crate) mod format;
#[doc(hidden)]
pub mod fuzz;
mod handle;
mod journal;
mod lease;
mod manifest;
mod options;
pub(crate) mod queues;
pub(crate) mod read;
mod recover;
mod room;
mod root;
pub(crate) mod shared;
mod spare;
mod state;
mod stripe;
mod write;

pub use batch::{Batch, MAX_BATCH_RECORDS, SMALL_BYTES};
pub use collect::CollectReport;
pub use format::{CHUNK_ALIGN, Piece};
pub use handle::{Log, LogStats};
pub use lease::{Lease, MAX_READ_RECORDS};
pub use options::{LogOptions, MAX_FILE_BYTES, MAX_JOURNAL_BYTES, MAX_STRIPE_BYTES};
pub use spare::Spare;
pub use state::{MAX_CHECKPOINTS, MAX_NAME_BYTES, MAX_ROOT_BYTES};
