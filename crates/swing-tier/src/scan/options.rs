//! How a scan reads, and its limits.

use crate::layout::Layout;
use crate::profile::DeviceProfile;
use crate::profile::ReadCost;
use crate::storage::MAX_QUEUE_DEPTH;
use crate::units::{MAX_BLOCK_BYTES, round_down};

/// The most bytes of buffers that a single-domain scan has.
pub const MAX_RING_BYTES: u32 = 1 << 20;
/// The most single-domain scans of one scan; domains beyond share them.
pub const MAX_LANES: u32 = 256;
/// The most threads of one scan.
pub const MAX_WORKERS: usize = 64;
/// The most records of one scan.
pub const MAX_SCAN_RECORDS: usize = 1 << 24;

/// The most workers that a scan has unless it is told a number: one keeps a disk busy, and
/// checksums take a part of a second one.
const USUAL_WORKERS: usize = 2;

/// In which order a scan hands out what it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As it comes from the device; requests go by place.
    #[default]
    Any,
    /// The records as they were asked for, each from its begin to its end. Requests go in this
    /// order, too.
    AsAsked,
}

/// How the final aggregate gets the partial ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gather {
    /// Each single-domain scan pushes its partial aggregate up when it has read its last byte.
    #[default]
    PushUp,
    /// The final aggregate pulls them down, one domain after the other: always in the same order.
    PullDown,
}

/// How a scan reads. [`ScanOptions::of`] makes it from what is known of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanOptions {
    /// In which order parts are handed out. An aggregation takes any.
    pub order: Order,
    /// The domains of the device. They count where each piece of the records lies in one of them;
    /// elsewhere `depth` decides.
    pub layout: Option<Layout>,
    /// How many single-domain scans there are without domains, 1 to [`MAX_LANES`].
    pub depth: u32,
    /// How long requests are made by merging, in bytes, 4096 to
    /// [`MAX_BLOCK_BYTES`](crate::MAX_BLOCK_BYTES). A longer piece of a record is still read by
    /// one.
    pub request_bytes: u32,
    /// The ring sub-buffer of each single-domain scan, in bytes, up to [`MAX_RING_BYTES`]. It has
    /// at least one buffer of the longest request.
    pub ring_bytes: u32,
    /// Threads, each with a queue of its own, 1 to [`MAX_WORKERS`].
    pub workers: usize,
    /// Decides which gaps between pieces are read over.
    pub cost: ReadCost,
    /// How the final aggregate gets the partial ones.
    pub gather: Gather,
}

impl Default for ScanOptions {
    /// For a device that nobody has probed.
    fn default() -> Self {
        Self::of(&DeviceProfile::default())
    }
}

impl ScanOptions {
    /// Reads as suits the device: its best request and depth; two buffers a single-domain scan, so
    /// that one is read into while the other is worked on.
    pub fn of(profile: &DeviceProfile) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        ScanOptions {
            order: Order::Any,
            layout: Layout::of(profile),
            depth: profile.depth,
            request_bytes: profile.request_bytes,
            ring_bytes: profile.request_bytes.saturating_mul(2),
            workers: cores.min(USUAL_WORKERS),
            cost: profile.cost,
            gather: Gather::PushUp,
        }
    }

    /// The same within the limits.
    pub(crate) fn limited(&self) -> Self {
        let longest = MAX_BLOCK_BYTES as u32;
        let unit = crate::units::UNIT_BYTES as u32;
        let request_bytes = round_down(u64::from(self.request_bytes)) as u32;
        ScanOptions {
            layout: self.layout.filter(Layout::is_usable),
            depth: self.depth.clamp(1, MAX_LANES),
            request_bytes: request_bytes.clamp(unit, longest),
            ring_bytes: self.ring_bytes.min(MAX_RING_BYTES),
            workers: self.workers.clamp(1, MAX_WORKERS),
            ..self.clone()
        }
    }
}

const _: () = assert!(MAX_BLOCK_BYTES * 2 <= MAX_RING_BYTES as u64);
const _: () = assert!(MAX_LANES <= MAX_QUEUE_DEPTH);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_kept_within_their_limits() {
        let wild = ScanOptions {
            layout: Some(Layout { unit_bytes: 0, domains: 0 }),
            depth: 0,
            request_bytes: 5000,
            ring_bytes: u32::MAX,
            workers: 0,
            ..Default::default()
        };
        let tame = wild.limited();
        assert_eq!((tame.layout, tame.depth, tame.request_bytes), (None, 1, 4096));
        assert_eq!((tame.ring_bytes, tame.workers), (MAX_RING_BYTES, 1));
        let wild = ScanOptions { request_bytes: 0, depth: 100_000, workers: 9999, ..wild };
        let tame = wild.limited();
        assert_eq!((tame.depth, tame.request_bytes, tame.workers), (MAX_LANES, 4096, MAX_WORKERS));
    }
}
