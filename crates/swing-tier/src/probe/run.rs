//! A whole probe: its stages, its limits, and what comes of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::disk::DirectoryOptions;
use crate::error::IoError;
use crate::io::Engine;
use crate::probe::Random;
use crate::probe::device::Device;
use crate::probe::file::FileDevice;
use crate::probe::speed::{self, Speed};
use crate::probe::sweep::{self, OffsetSweep, StrideSweep};
use crate::profile::{DeviceId, DeviceProfile, Domains};
use crate::storage::IoResult;

/// The second step of offsets, in bytes: finds chunks up to 512 KiB, such as those of an array of
/// disks. The first is the device's own.
const COARSE_STEP: u64 = 4096;
/// Lengths of the reads whose distance is varied where no chunk was found, in bytes.
const TRIED_UNITS: [u64; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// The limits of a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeOptions {
    /// The length of the file that is written and read, in bytes; removed at the end.
    pub bytes: u64,
    /// How long the probe takes, about. A third of it at most is for writing.
    pub time: Duration,
    /// What moves the bytes.
    pub engine: Engine,
    /// Decides the places and their order.
    pub seed: u64,
}

impl Default for ProbeOptions {
    /// 512 MiB, 20 seconds.
    fn default() -> Self {
        ProbeOptions {
            bytes: 512 << 20,
            time: Duration::from_secs(20),
            engine: Engine::Auto,
            seed: 1,
        }
    }
}

/// A probe could not be made. Nothing is left of it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The operating system refused, or the device failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// There is no device to measure, or not past the page cache.
    #[error(
        "{} cannot be probed: {reason}; choose a directory on a disk",
        path.display()
    )]
    NotDirect {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The file system is too full.
    #[error(
        "{} has {free_bytes} bytes free, and the probe writes {bytes}; free some, or write fewer \
        (at least 33554432)",
        path.display()
    )]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// What the probe would write.
        bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// The device took fewer bytes than a probe needs.
    #[error(
        "{} took {bytes} bytes in {} s, and a probe needs 33554432; allow it more time",
        path.display(), time.as_secs_f64()
    )]
    TooSlow {
        /// The directory.
        path: PathBuf,
        /// What was written.
        bytes: u64,
        /// In which time.
        time: Duration,
    },
}

/// What a probe tells while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The file is written.
    Writing,
    /// Latency over the offset.
    Chunks,
    /// Bandwidth over the distance.
    Domains,
    /// Cost, length and depth of requests.
    Speed,
}

/// Everything that was measured, and the profile that follows from it.
#[derive(Clone, Debug)]
pub struct Report {
    /// What readers of the device go by.
    pub profile: DeviceProfile,
    /// How the device was read.
    pub engine: String,
    /// The length of the file that was read, in bytes.
    pub bytes: u64,
    /// How long it took.
    pub time: Duration,
    /// The sweeps over the offset that were made; the last one found the chunk, if one did.
    pub offsets: Vec<OffsetSweep>,
    /// The sweeps over the distance; the last one found the domains, if one did.
    pub strides: Vec<StrideSweep>,
    /// Single requests and throughput.
    pub speed: Speed,
}

/// Probes the device below a directory, within the limits. Nothing is saved.
///
/// # Errors
/// [`ProbeError`]; the file of the probe is gone then, too.
pub fn probe(
    directory: &Path,
    options: &ProbeOptions,
    told: &mut dyn FnMut(Stage),
) -> Result<Report, ProbeError> {
    told(Stage::Writing);
    let opening = DirectoryOptions { engine: options.engine, create: false };
    let mut device = FileDevice::create(directory, opening, options.bytes, options.time / 3)?;
    let left = options.time.saturating_sub(device.now());
    let mut report = probe_device(&mut device, left, options.seed, told)?;
    report.profile.device = DeviceId::of(directory)?;
    report.time = device.now();
    Ok(report)
}

/// Probes a device that is full of data.
///
/// # Errors
/// The failure of a read.
pub fn probe_device(
    device: &mut dyn Device,
    time: Duration,
    seed: u64,
    told: &mut dyn FnMut(Stage),
) -> IoResult<Report> {
    let mut random = Random::new(seed);
    let start = device.now();
    // Until which part of the time each stage goes on.
    let until =
        |device: &dyn Device, part: f64| (start + time.mul_f64(part)).saturating_sub(device.now());
    told(Stage::Chunks);
    let fine = device.step();
    let mut steps = vec![(fine, 0.2), (COARSE_STEP, 0.3)];
    steps.dedup_by(|b, a| b.0 <= a.0);
    let mut offsets = Vec::new();
    let mut chunk_bytes = None;
    for (step, part) in steps {
        let time = until(device, part);
        let sweep = sweep::offsets(device, step, time, &mut random)?;
        chunk_bytes = sweep.period.map(|period| period.steps as u64 * step);
        offsets.push(sweep);
        if chunk_bytes.is_some() {
            break;
        }
    }
    told(Stage::Domains);
    let units = chunk_bytes.map_or_else(|| TRIED_UNITS.to_vec(), |chunk| vec![chunk]);
    let mut strides = Vec::new();
    let mut domains = None;
    for (tried, &unit) in units.iter().enumerate() {
        let part = 0.3 + 0.2 * (tried + 1) as f64 / units.len() as f64;
        let time = until(device, part);
        let sweep = sweep::strides(device, unit, time, &mut random)?;
        domains = sweep.period.map(|period| Domains {
            count: period.steps as u32,
            unit_bytes: unit,
            inner: period.inner.map(|inner| inner as u32),
        });
        strides.push(sweep);
        if domains.is_some() {
            break;
        }
    }
    told(Stage::Speed);
    let left = until(device, 1.0);
    let speed = speed::measure(device, left, &mut random)?;
    let profile = profile_of(chunk_bytes, domains, &speed);
    let (engine, bytes) = (device.describe(), device.bytes());
    let time = device.now() - start;
    Ok(Report { profile, engine, bytes, time, offsets, strides, speed })
}

fn profile_of(chunk_bytes: Option<u64>, domains: Option<Domains>, speed: &Speed) -> DeviceProfile {
    let mut profile = DeviceProfile { chunk_bytes, domains, ..Default::default() };
    if let Some(best) = speed.best_scan() {
        profile.request_bytes = best.request_bytes;
        profile.depth = best.depth;
        profile.bytes_per_second = best.bytes_per_second() as u64;
    }
    if let Some(best) = speed.best_random() {
        profile.random_depth = best.depth;
        profile.reads_per_second = (1e9 / best.request_ns.max(1.0)) as u64;
    }
    profile.cost = speed.cost().unwrap_or(profile.cost);
    if speed.alone.len() >= 2 {
        profile.latency = speed.latency();
    }
    profile
}
