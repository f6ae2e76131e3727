//! Reading columns from the store on a disk ahead of those who need them: [`ReadAhead`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use swingdb_common::error::Result;

use crate::memory::fetch::{Begun, Fetch, fetch};
use crate::memory::space::Blocks;
use crate::segments::segment::Segment;

/// What a [`ReadAhead`] has read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskRead {
    /// Bytes of blocks, checked.
    pub bytes: u64,
    /// Requests to the device.
    pub requests: u64,
    /// The most requests in flight.
    pub depth: u32,
    /// Domains of the device that work beside each other; `None` where depth alone decides.
    pub domains: Option<u32>,
    /// Bytes of all buffers.
    pub buffer_bytes: u64,
    /// How long it took, or takes.
    pub elapsed: Duration,
}

/// Some columns of some segments that are read from the store together, by a parallel scan of the
/// log. Dropped early, it leaves what has not arrived to others.
#[derive(Debug)]
pub struct ReadAhead {
    fetch: Option<Arc<Fetch>>,
    wanted: Vec<Arc<Blocks>>,
    /// Of what was read at once, by the thread that began.
    at_once: DiskRead,
}

impl ReadAhead {
    /// Begins to read what of `columns` is not in memory, and nobody else reads.
    pub fn begin<'a>(
        segments: impl Iterator<Item = &'a Segment>,
        columns: &[usize],
    ) -> Result<Self> {
        let start = Instant::now();
        let wanted: Vec<_> = segments.flat_map(|s| s.cold_blocks(columns)).collect();
        let Begun { fetch, .. } = Fetch::begin(&wanted.iter().collect::<Vec<_>>())?;
        let mut at_once = DiskRead::default();
        if let Some(fetch) = &fetch {
            let (bytes, requests) = fetch.size();
            at_once = DiskRead { bytes, requests, depth: 1, ..at_once };
            at_once.elapsed = start.elapsed();
        }
        Ok(Self { fetch, wanted, at_once })
    }

    /// Whether everything is in memory.
    pub fn is_done(&self) -> bool {
        self.wanted.iter().all(|blocks| blocks.in_memory())
    }

    /// What it has read so far; what others were reading already does not count.
    pub fn read(&self) -> DiskRead {
        let Some(fetch) = &self.fetch else { return DiskRead::default() };
        let Some(stats) = fetch.stats() else { return self.at_once };
        DiskRead {
            bytes: stats.bytes,
            requests: stats.requests,
            depth: stats.depth,
            domains: stats.domains,
            buffer_bytes: stats.ring_bytes(),
            elapsed: stats.elapsed,
        }
    }
}

impl Segment {
    /// Bytes of some columns that are in the store on a disk still, and not in memory: as they lie
    /// there, and as they will be in memory.
    pub fn cold_bytes(&self, columns: &[usize]) -> (u64, u64) {
        let cold = self.cold_blocks(columns);
        let memory = cold.iter().flat_map(|blocks| blocks.listed()).map(|loc| loc.len).sum();
        (cold.iter().filter_map(|blocks| Some(blocks.cold()?.stored_bytes())).sum(), memory)
    }

    /// Waits until some columns are in memory; reads what nobody else reads.
    pub fn fetch(&self, columns: &[usize]) -> Result<()> {
        fetch(self.cold_blocks(columns).iter())
    }
}
