//! The paper's two algorithms: chunk size by latency over the offset, number of domains by the
//! bandwidth of two reads over their distance.
//!
//! Source: Fan, Lai, Meng, "Database Table Scan and Aggregation by Exploiting Internal Parallelism
//! of SSDs", Chinese Journal of Computers 2012, section 3.
//!
//! What is different: the paper reads each place a thousand times in a row and averages. Here every
//! round reads each place once, in another order and on another part of the device, until the time
//! is over; a point is the median of its rounds. So neither a drift of a shared machine nor a cache
//! of the device makes a pattern. Whether there is a period is a test, not a look at the plot.

use std::time::Duration;

use crate::probe::Random;
use crate::probe::device::{Device, Extent};
use crate::probe::period::{Curve, LEAST_ROUNDS, Period, find_period};
use crate::storage::IoResult;

/// How many offsets a sweep has. It spans two of the largest chunks it can find, as the paper's.
pub(crate) const OFFSETS: u64 = 256;
/// How many distances a sweep has: four times the most domains it can find for sure, as the
/// paper's.
pub(crate) const DISTANCES: u64 = 256;
/// Request lengths of an offset sweep, in steps of the offset: with the least step of 512 bytes the
/// paper's 0.5, 4 and 8 KiB, and 16 KiB.
const SIZES: [u64; 4] = [1, 8, 16, 32];
/// Windows begin at multiples of so many windows: so chunks whose number of steps has no factors
/// but 2, 3 and 5 lie alike in all of them.
const WINDOWS_APART: u64 = 15;
/// The most rounds; the paper's number of repetitions.
const MAX_ROUNDS: usize = 1000;

/// Latency over the offset, for a few request lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetSweep {
    /// The step between offsets, in bytes.
    pub step: u64,
    /// How often each point was measured.
    pub rounds: usize,
    /// A curve for each request length.
    pub curves: Vec<Curve>,
    /// The period that they share: the chunk.
    pub period: Option<Period>,
}

/// The time of two reads at once over their distance.
#[derive(Clone, Debug, PartialEq)]
pub struct StrideSweep {
    /// The step between distances, and the length of each read, in bytes.
    pub unit_bytes: u64,
    /// How often each point was measured.
    pub rounds: usize,
    /// The time of both reads at distances of 1, 2, ... units.
    pub curve: Curve,
    /// Its period: the domains.
    pub period: Option<Period>,
}

impl StrideSweep {
    /// The bandwidth at each distance, in bytes a second: what the paper draws.
    pub fn bandwidth(&self) -> Vec<f64> {
        let bytes = 2.0 * self.unit_bytes as f64;
        self.curve.values.iter().map(|ns| bytes * 1e9 / ns.max(1.0)).collect()
    }
}

/// The first algorithm, with offsets in steps of `step` bytes.
pub fn offsets(
    device: &mut dyn Device,
    step: u64,
    time: Duration,
    random: &mut Random,
) -> IoResult<OffsetSweep> {
    let window = OFFSETS * step;
    let sizes = SIZES.map(|steps| (steps * step) as u32);
    let span = window + u64::from(sizes[sizes.len() - 1]);
    let cells = sizes.len() * OFFSETS as usize;
    let samples = rounds(device, cells, time, random, |device, random, cell| {
        let (size, at) = (sizes[cell / OFFSETS as usize], cell as u64 % OFFSETS);
        let Some(base) = device.place(random, span, window * WINDOWS_APART) else {
            return Ok(None);
        };
        let extent = Extent { offset: base + at * step, len: size };
        Ok(Some(device.read(&[extent], 1)?))
    })?;
    let by_size = samples.chunks(OFFSETS as usize).zip(sizes);
    let curves: Vec<_> = by_size.map(|(samples, size)| Curve::of(size, samples)).collect();
    let rounds = samples.first().map_or(0, Vec::len);
    let period = if rounds < LEAST_ROUNDS { None } else { find_period(&curves, random) };
    Ok(OffsetSweep { step, rounds, curves, period })
}

/// The second algorithm, with chunks of `unit` bytes.
pub fn strides(
    device: &mut dyn Device,
    unit: u64,
    time: Duration,
    random: &mut Random,
) -> IoResult<StrideSweep> {
    let span = (DISTANCES + 1) * unit;
    let len = unit as u32;
    let samples = rounds(device, DISTANCES as usize, time, random, |device, random, cell| {
        let Some(base) = device.place(random, span, unit) else { return Ok(None) };
        let far = base + (cell as u64 + 1) * unit;
        let pair = [Extent { offset: base, len }, Extent { offset: far, len }];
        Ok(Some(device.read(&pair, 2)?))
    })?;
    let curve = Curve::of(len, &samples);
    let rounds = samples.first().map_or(0, Vec::len);
    let measured = rounds >= LEAST_ROUNDS;
    let period = measured.then(|| find_period(std::slice::from_ref(&curve), random)).flatten();
    Ok(StrideSweep { unit_bytes: unit, rounds, curve, period })
}

/// Measures every cell once a round, in another order each time, until the time is over; only whole
/// rounds count. A cell without room ends it with no samples.
fn rounds(
    device: &mut dyn Device,
    cells: usize,
    time: Duration,
    random: &mut Random,
    mut measure: impl FnMut(&mut dyn Device, &mut Random, usize) -> IoResult<Option<Duration>>,
) -> IoResult<Vec<Vec<f64>>> {
    let end = device.now() + time;
    let mut samples = vec![Vec::new(); cells];
    let mut order: Vec<usize> = (0..cells).collect();
    'rounds: for _ in 0..MAX_ROUNDS {
        random.shuffle(&mut order);
        let mut round = vec![0.0; cells];
        for &cell in &order {
            match measure(device, random, cell)? {
                Some(taken) if device.now() <= end => round[cell] = taken.as_nanos() as f64,
                _ => break 'rounds,
            }
        }
        for (all, taken) in samples.iter_mut().zip(round) {
            all.push(taken);
        }
    }
    Ok(samples)
}
