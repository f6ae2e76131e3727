//! How a heap is opened, and what is refused.

use std::time::Duration;

use crate::chunk::{CHUNK_BYTES, MAX_CHUNKS};
use crate::disk::BLOCK_BYTES;
use crate::error::HeapError;
use crate::policy::PolicyKind;

/// The smallest budget of a heap.
pub const MIN_BUDGET_BYTES: u64 = 6 << 20;
/// The largest budget of a heap.
pub const MAX_BUDGET_BYTES: u64 = ((MAX_CHUNKS - 1) * CHUNK_BYTES) as u64;
/// How a heap is opened.
#[derive(Clone, Debug, PartialEq)]
pub struct HeapOptions {
    /// Memory for objects, metadata and buffers together, in bytes.
    pub budget: u64,
    /// The most bytes of the heap's file.
    pub disk_limit: u64,
    /// What is evicted first.
    pub policy: PolicyKind,
    /// How long a call waits for an object in use, or for the disk, before it fails.
    pub max_wait: Duration,
    /// The part of the file's blocks that may be garbage before it is collected.
    pub dead_fraction: f64,
}

impl Default for HeapOptions {
    /// 64 MiB of memory, 1 TiB of disk, S3-FIFO, 10 seconds, a quarter.
    fn default() -> Self {
        HeapOptions {
            budget: 64 << 20,
            disk_limit: 1 << 40,
            policy: PolicyKind::default(),
            max_wait: Duration::from_secs(10),
            dead_fraction: 0.25,
        }
    }
}

/// Whether options make sense.
pub(crate) fn check_options(options: &HeapOptions) -> Result<(), HeapError> {
    check_budget(options.budget)?;
    if options.disk_limit < 8 * BLOCK_BYTES as u64 {
        return Err(HeapError::Options("disk_limit must be at least 2 MiB"));
    }
    if !(options.dead_fraction > 0.0 && options.dead_fraction < 1.0) {
        return Err(HeapError::Options("dead_fraction must lie between 0 and 1"));
    }
    Ok(())
}

pub(crate) fn check_budget(budget: u64) -> Result<(), HeapError> {
    if !(MIN_BUDGET_BYTES..=MAX_BUDGET_BYTES).contains(&budget) {
        return Err(HeapError::Options("a budget is 6 MiB to 64 GiB"));
    }
    Ok(())
}
