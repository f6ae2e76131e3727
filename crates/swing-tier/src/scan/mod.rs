//! Parallel scans of records, and aggregation beside them: ParaSSDScan and ParaSSDAggr (Fan, Lai,
//! Meng, "Database Table Scan and Aggregation by Exploiting Internal Parallelism of SSDs", Chinese
//! Journal of Computers 2012), on direct I/O with many requests in flight.
//!
//! # Words
//! * A *domain* is a unit of the device that works beside the others ([`Layout`]).
//! * A *single-domain scan*, or *lane*, reads one request after another into a *ring sub-buffer* of
//!   its own, which no other lane uses. There is one lane a domain where the device's profile knows
//!   domains and the records were placed for them
//!   ([`LogOptions::stripe_bytes`](crate::LogOptions::stripe_bytes)); elsewhere as many lanes as
//!   the depth that the device reads best with.
//! * A *chain* leads from one request of a domain to the next. The paper keeps the pointer in the
//!   block; here the chain is built from the references that the state holds anyway, because a
//!   pointer inside of a block could not be checked before it is followed.
//! * A *worker* is a thread with a [`Queue`](crate::storage::Queue) of its own, which drives some
//!   of the lanes.
//!
//! # What holds
//! * No byte is handed out before it has matched its checksum (INV-TIER-2).
//! * A scan's memory is fixed when it starts: at most [`MAX_RING_BYTES`] a lane. A consumer that is
//!   slow, or keeps what it got, parks the scan (INV-TIER-10).
//! * A scan holds a lease on the state that it reads and has its files open, so commits and garbage
//!   collection go on beside it.
//! * Dropping a scan returns when no request of it is in flight (INV-TIER-1).
//!
//! # Order to read in
//! `layout`, `options`, `plan`, `worker`, then `stream` for consumers in other threads, `aggregate`
//! and `numbers` for aggregation inside of the workers; `stats`.

mod aggregate;
mod locate;
mod lock;
mod numbers;
mod options;
mod plan;
mod stats;
mod stream;
mod worker;

pub use crate::layout::Layout;
pub use aggregate::{Aggregate, AggregateError, Aggregated, Chunk};
pub use numbers::{Avg, Count, Fold, Max, Min, Number, Numbers, Sum};
pub use options::{
    Gather, MAX_LANES, MAX_RING_BYTES, MAX_SCAN_RECORDS, MAX_WORKERS, Order, ScanOptions,
};

pub use stats::ScanStats;
pub use stream::{Part, Records, Scan};
