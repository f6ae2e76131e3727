//! What a scan did, for reports.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::scan::lock::lock;

/// What a scan has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// The domains that the records were placed for; `None` where depth alone decides.
    pub domains: Option<u32>,
    /// Single-domain scans.
    pub lanes: u32,
    /// Threads.
    pub workers: u32,
    /// The most requests that all single-domain scans together have in flight.
    pub depth: u32,
    /// Buffers of all single-domain scans.
    pub buffers: u32,
    /// Length of each buffer, in bytes.
    pub buffer_bytes: u32,
    /// Bytes of records that have been read and checked.
    pub bytes: u64,
    /// Bytes that the device was asked for: with block headers and gaps.
    pub read_bytes: u64,
    /// Requests to the device.
    pub requests: u64,
    /// Gaps between records that were read over, to spare a request.
    pub merged_gaps: u64,
    /// Time that workers waited for the device; all together.
    pub device_wait: Duration,
    /// Time that workers were parked because consumers had all buffers; all together.
    pub parked: Duration,
    /// From the start to the last byte, or to now.
    pub elapsed: Duration,
    /// What moves the bytes: "io_uring, registered buffers", ...
    pub engine: String,
}

impl ScanStats {
    /// Bytes of records a second, in units of 10^6.
    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Memory of all ring sub-buffers, in bytes.
    pub fn ring_bytes(&self) -> u64 {
        u64::from(self.buffers) * u64::from(self.buffer_bytes)
    }
}

/// What the workers of a scan count.
#[derive(Debug)]
pub(crate) struct Counters {
    fixed: ScanStats,
    start: Instant,
    bytes: AtomicU64,
    read_bytes: AtomicU64,
    requests: AtomicU64,
    merged_gaps: AtomicU64,
    device_wait_ns: AtomicU64,
    parked_ns: AtomicU64,
    /// Nanoseconds from the start to the end; zero before it.
    ended_ns: AtomicU64,
    engine: Mutex<String>,
}

impl Counters {
    /// Counts from zero; `fixed` has what is known at the start.
    pub(crate) fn new(fixed: ScanStats) -> Self {
        Counters {
            fixed,
            start: Instant::now(),
            bytes: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            merged_gaps: AtomicU64::new(0),
            device_wait_ns: AtomicU64::new(0),
            parked_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            engine: Mutex::default(),
        }
    }

    pub(crate) fn set_engine(&self, engine: String) {
        *lock(&self.engine) = engine;
    }

    pub(crate) fn add_request(&self, len: u64, gaps: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(len, Ordering::Relaxed);
        self.merged_gaps.fetch_add(gaps, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_device_wait(&self, since: Instant) {
        self.device_wait_ns.fetch_add(nanoseconds(since), Ordering::Relaxed);
    }

    pub(crate) fn add_parked(&self, since: Instant) {
        self.parked_ns.fetch_add(nanoseconds(since), Ordering::Relaxed);
    }

    /// A worker has ended; the last one's time counts.
    pub(crate) fn end(&self) {
        self.ended_ns.fetch_max(nanoseconds(self.start).max(1), Ordering::Relaxed);
    }

    pub(crate) fn stats(&self, running: bool) -> ScanStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ended = Duration::from_nanos(of(&self.ended_ns));
        ScanStats {
            bytes: of(&self.bytes),
            read_bytes: of(&self.read_bytes),
            requests: of(&self.requests),
            merged_gaps: of(&self.merged_gaps),
            device_wait: Duration::from_nanos(of(&self.device_wait_ns)),
            parked: Duration::from_nanos(of(&self.parked_ns)),
            elapsed: if running { self.start.elapsed() } else { ended },
            engine: lock(&self.engine).clone(),
            ..self.fixed.clone()
        }
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
