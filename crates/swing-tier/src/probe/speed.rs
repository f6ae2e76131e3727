//! What reads cost: alone, and many at a time; and the length and depth that a scan does best with.
//!
//! Alone, a request takes `fixed + bytes * rate`: a straight line through the medians of its
//! lengths, by least squares of the relative errors. Many at a time, what counts is the time
//! between completions at the best depth; the line through these is
//! [`ReadCost`](crate::ReadCost): reading over a gap costs its bytes at this rate, and saves one
//! request.

use std::time::Duration;

use crate::probe::Random;
use crate::probe::device::{Device, Extent, place_in};
use crate::probe::period::median;
use crate::profile::Latency;
use crate::profile::ReadCost;
use crate::storage::IoResult;
use crate::units::{MAX_BLOCK_BYTES, UNIT_BYTES};

/// The lengths that are measured, in bytes.
const SIZES: [u32; 6] = [4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10];
/// How many requests are in flight.
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// The most bytes in flight.
const MAX_IN_FLIGHT: u64 = 8 << 20;
/// Requests of at least this length are read in order, as a scan does; shorter ones at random.
const SCAN_BYTES: u32 = 16 << 10;
/// What noise may hide of a throughput, as a part of it.
const HIDDEN: f64 = 0.03;
/// The part of the best throughput that is good enough, if it takes less memory.
const GOOD_ENOUGH: f64 = 0.97;
/// The same for random reads.
const GOOD_ENOUGH_READS: f64 = 0.95;
/// How long one measurement of throughput should take.
const BATCH: Duration = Duration::from_millis(10);
/// The most requests of one measurement.
const MAX_BATCH_READS: u64 = 4096;
/// The most rounds.
const MAX_ROUNDS: usize = 50;

/// The throughput at one length and depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Length of the requests, in bytes.
    pub request_bytes: u32,
    /// How many are in flight.
    pub depth: u32,
    /// The time by the number of requests, in nanoseconds; the median of the rounds.
    pub request_ns: f64,
    /// The standard error of that median, in nanoseconds.
    pub noise_ns: f64,
}

impl Throughput {
    /// In bytes a second.
    pub fn bytes_per_second(&self) -> f64 {
        f64::from(self.request_bytes) * 1e9 / self.request_ns.max(1.0)
    }

    fn in_flight(&self) -> u64 {
        u64::from(self.request_bytes) * u64::from(self.depth)
    }

    /// The throughput that noise may have hidden.
    fn at_best(&self) -> f64 {
        let hidden = (2.0 * self.noise_ns / self.request_ns.max(1.0)).min(HIDDEN);
        self.bytes_per_second() * (1.0 + hidden)
    }
}

/// What was measured, and what follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Speed {
    /// Medians of single requests: length in bytes, nanoseconds.
    pub alone: Vec<(u32, f64)>,
    /// Throughput at each length and depth that was measured.
    pub together: Vec<Throughput>,
}

/// Measures single requests for a quarter of the time, then many at a time.
pub fn measure(device: &mut dyn Device, time: Duration, random: &mut Random) -> IoResult<Speed> {
    let end = device.now() + time;
    let alone = alone(device, time / 4, random)?;
    let left = end.saturating_sub(device.now());
    let together = together(device, left, random)?;
    Ok(Speed { alone, together })
}

fn alone(
    device: &mut dyn Device,
    time: Duration,
    random: &mut Random,
) -> IoResult<Vec<(u32, f64)>> {
    let end = device.now() + time;
    let mut samples = SIZES.map(|size| (size, Vec::new()));
    for _ in 0..1000 {
        random.shuffle(&mut samples);
        for (size, samples) in &mut samples {
            let Some(offset) = anywhere(device, random, u64::from(*size), u64::from(*size)) else {
                continue;
            };
            let taken = device.read(&[Extent { offset, len: *size }], 1)?;
            samples.push(taken.as_nanos() as f64);
        }
        if device.now() >= end {
            break;
        }
    }
    samples.sort_unstable_by_key(|&(size, _)| size);
    let measured = samples.into_iter().filter(|(_, samples)| !samples.is_empty());
    Ok(measured.map(|(size, samples)| (size, median(samples))).collect())
}

fn together(
    device: &mut dyn Device,
    time: Duration,
    random: &mut Random,
) -> IoResult<Vec<Throughput>> {
    let end = device.now() + time;
    let mut cells: Vec<_> = SIZES
        .iter()
        .flat_map(|&size| DEPTHS.map(|depth| (size, depth)))
        .filter(|&(size, depth)| u64::from(size) * u64::from(depth) <= MAX_IN_FLIGHT)
        .filter(|&(size, depth)| u64::from(size) * u64::from(depth) * 2 <= device.bytes())
        .map(|cell| (cell, Vec::new()))
        .collect();
    'rounds: for _ in 0..MAX_ROUNDS {
        random.shuffle(&mut cells);
        // The fewest requests first in the first round: a slow device gets through all lengths, if
        // not through all depths.
        if cells.iter().all(|(_, samples): &(_, Vec<f64>)| samples.is_empty()) {
            cells.sort_by_key(|&((size, depth), _)| (depth, size));
        }
        for ((size, depth), samples) in &mut cells {
            if device.now() >= end {
                break 'rounds;
            }
            let before = median(samples.clone());
            samples.extend(batch(device, *size, *depth, before, random)?);
        }
    }
    cells.sort_unstable_by_key(|&(cell, _)| cell);
    let measured = cells.into_iter().filter(|(_, samples)| !samples.is_empty());
    let to_throughput = |((request_bytes, depth), samples): (_, Vec<f64>)| {
        let request_ns = median(samples.clone());
        let away = samples.iter().map(|sample| (sample - request_ns).abs()).collect();
        // 1.4826: from the median deviation to the standard one; 1.2533: from mean to median.
        let noise_ns = 1.4826 * 1.2533 * median(away) / (samples.len() as f64).sqrt();
        Throughput { request_bytes, depth, request_ns, noise_ns }
    };
    Ok(measured.map(to_throughput).collect())
}

/// A random place; how it lies to the device's chunks does not matter here.
fn anywhere(device: &dyn Device, random: &mut Random, span: u64, align: u64) -> Option<u64> {
    place_in(random, 0, device.bytes(), span, align)
}

/// Reads for some [`BATCH`], going by what a request took before; the time by their number.
fn batch(
    device: &mut dyn Device,
    size: u32,
    depth: u32,
    before_ns: f64,
    random: &mut Random,
) -> IoResult<Option<f64>> {
    let len = u64::from(size);
    let guess = if before_ns > 0.0 { BATCH.as_nanos() as f64 / before_ns } else { 0.0 };
    // Filling and draining the queue is a part of the time: it should be a small one.
    let least = u64::from(depth) * 3;
    let room = device.bytes() / len / 2;
    let count = (guess as u64).clamp(least, MAX_BATCH_READS.max(least)).min(room.max(1));
    let mut extents = Vec::with_capacity(count as usize);
    if size >= SCAN_BYTES {
        let Some(base) = anywhere(device, random, count * len, len) else { return Ok(None) };
        extents.extend((0..count).map(|n| Extent { offset: base + n * len, len: size }));
    } else {
        for _ in 0..count {
            let Some(offset) = anywhere(device, random, len, len) else { return Ok(None) };
            extents.push(Extent { offset, len: size });
        }
    }
    let taken = device.read(&extents, depth)?;
    Ok(Some(taken.as_nanos() as f64 / count as f64))
}

impl Speed {
    /// What a request takes alone.
    pub fn latency(&self) -> Latency {
        let (fixed, rate) = line(&self.alone);
        Latency { fixed_ns: fixed.round() as u64, kib_ns: (rate * 1024.0).round() as u64 }
    }

    /// What a request costs while many are in flight; `None` if nothing was measured.
    pub fn cost(&self) -> Option<ReadCost> {
        let best = SIZES.iter().filter_map(|&size| {
            let of_size = self.together.iter().filter(|t| t.request_bytes == size);
            let best = of_size.map(|t| t.request_ns).min_by(f64::total_cmp)?;
            Some((size, best))
        });
        let points: Vec<_> = best.collect();
        let (fixed, rate) = line(&points);
        let kib_ns = ((rate * 1024.0).round() as u64).max(1);
        (points.len() >= 2).then_some(ReadCost { request_ns: fixed.round() as u64, kib_ns })
    }

    /// The length and depth that a scan does best with: of those that are nearly the fastest, or
    /// could be for all that noise leaves to see, the one with the fewest bytes in flight.
    pub fn best_scan(&self) -> Option<Throughput> {
        let scans = || {
            self.together
                .iter()
                .filter(|t| t.request_bytes >= SCAN_BYTES)
                .filter(|t| u64::from(t.request_bytes) <= MAX_BLOCK_BYTES)
        };
        let fastest = scans().map(Throughput::bytes_per_second).max_by(f64::total_cmp)?;
        scans()
            .filter(|t| t.at_best() >= GOOD_ENOUGH * fastest)
            .min_by_key(|t| (t.in_flight(), t.depth))
            .copied()
    }

    /// The depth that short random reads need.
    pub fn best_random(&self) -> Option<Throughput> {
        let short = || self.together.iter().filter(|t| u64::from(t.request_bytes) == UNIT_BYTES);
        let fastest = short().map(Throughput::bytes_per_second).max_by(f64::total_cmp)?;
        short()
            .filter(|t| t.at_best() >= GOOD_ENOUGH_READS * fastest)
            .min_by_key(|t| t.depth)
            .copied()
    }
}

/// The straight line `fixed + rate * x` with the least relative errors at these points; neither
/// number is negative.
fn line(points: &[(u32, f64)]) -> (f64, f64) {
    let (mut w, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(x, y) in points {
        let (x, weight) = (f64::from(x), 1.0 / (y * y).max(1.0));
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    let determinant = w * wxx - wx * wx;
    if points.len() < 2 || determinant <= f64::EPSILON * w * wxx {
        return (if w > 0.0 { wy / w } else { 0.0 }, 0.0);
    }
    let rate = (w * wxy - wx * wy) / determinant;
    let fixed = (wy - rate * wx) / w;
    if rate < 0.0 {
        (wy / w, 0.0)
    } else if fixed < 0.0 {
        (0.0, wxy / wxx)
    } else {
        (fixed, rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::simulated::{Model, SimulatedDevice};

    fn at(request_bytes: u32, depth: u32, request_ns: f64) -> Throughput {
        Throughput { request_bytes, depth, request_ns, noise_ns: 0.0 }
    }

    #[test]
    fn the_line_goes_through_exact_points() {
        let points: Vec<_> = SIZES.iter().map(|&x| (x, 70_000.0 + f64::from(x) * 0.5)).collect();
        let (fixed, rate) = line(&points);
        assert!((fixed - 70_000.0).abs() < 1.0 && (rate - 0.5).abs() < 1e-5);
        assert_eq!(line(&[]), (0.0, 0.0));
        assert_eq!(line(&[(4096, 50.0)]), (50.0, 0.0));
        let falling = line(&[(4096, 100.0), (8192, 50.0)]);
        assert!(falling.0 > 0.0 && falling.1 == 0.0);
        let steep = line(&[(4096, 10.0), (8192, 50.0)]);
        assert!(steep.0 == 0.0 && steep.1 > 0.0);
    }

    #[test]
    fn a_scan_takes_the_least_memory_of_the_fast_ones() {
        let together = vec![
            at(4096, 32, 1.0),
            at(64 << 10, 16, 64.0),
            at(256 << 10, 2, 500.0),
            at(256 << 10, 4, 257.0),
            at(512 << 10, 8, 512.0),
        ];
        let speed = Speed { alone: Vec::new(), together };
        assert_eq!(speed.best_scan(), Some(at(256 << 10, 4, 257.0)), "1 MiB in fewer requests");
        assert_eq!(speed.best_random(), Some(at(4096, 32, 1.0)));
        let noisy = Throughput { noise_ns: 200.0, ..at(256 << 10, 2, 280.0) };
        let speed = Speed { together: vec![noisy, at(256 << 10, 4, 257.0)], ..speed };
        assert_eq!(speed.best_scan().map(|t| t.depth), Some(4));
        let noisier = Throughput { request_ns: 270.0, ..noisy };
        let speed = Speed { together: vec![noisier, at(256 << 10, 4, 257.0)], ..speed };
        assert_eq!(speed.best_scan().map(|t| t.depth), Some(2));
        assert_eq!(Speed::default().best_scan(), None);
        assert_eq!(Speed::default().cost(), None);
    }

    #[test]
    fn the_numbers_of_a_model_come_out() {
        let [intel, ..] = Model::of_the_paper();
        // One domain, one channel: all requests queue up behind each other.
        let model = Model { chunk_bytes: 16 << 20, domains: 1, channels: 1, ..intel };
        let mut device = SimulatedDevice::new(model, 3);
        let speed = measure(&mut device, Duration::from_secs(60), &mut Random::new(1)).unwrap();
        let (latency, cost) = (speed.latency(), speed.cost().unwrap());
        let near = |found: u64, truth: f64| (found as f64 - truth).abs() <= 0.1 * truth;
        assert!(near(latency.fixed_ns, 27_000.0), "{latency:?}");
        assert!(near(latency.kib_ns, 13.6 * 1024.0), "{latency:?}");
        // Together the controller and the link work beside the channel.
        assert!(near(cost.request_ns, 25_000.0), "{cost:?}");
        assert!(near(cost.kib_ns, 10.0 * 1024.0), "{cost:?}");
    }

    #[test]
    fn more_domains_want_more_depth() {
        let [intel, ..] = Model::of_the_paper();
        let depth = |domains: u32| {
            let model = Model { domains, channels: domains, link_byte_ns: 0.1, ..intel.clone() };
            let model = Model { controller_ns: 100.0, ..model };
            let mut device = SimulatedDevice::new(model, 4);
            let speed = measure(&mut device, Duration::from_secs(60), &mut Random::new(1)).unwrap();
            speed.best_random().unwrap().depth
        };
        let depths = [1, 4, 16].map(depth);
        assert!(depths[0] <= 2 && depths[0] < depths[1] && depths[1] < depths[2], "{depths:?}");
    }
}
