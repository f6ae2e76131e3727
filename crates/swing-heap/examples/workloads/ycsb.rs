//! What programs do with a key-value store in YCSB (Cooper and others, SoCC 2010): its six
//! workloads, with its distributions. A store is a closure, so this file knows none.

use std::time::{Duration, Instant};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Read(u64),
    /// Replaces the whole value by that of a version.
    Update(u64, u64),
    Insert(u64),
    /// So many values in the order of keys, from a key on.
    Scan(u64, usize),
    /// Reads, and replaces by that of a version.
    Modify(u64, u64),
}

/// YCSB's zipfian distribution (Gray and others, SIGMOD 1994), of exponent 0.99.
struct Zipf {
    count: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(count: u64) -> Self {
        const THETA: f64 = 0.99;
        let zeta_of = |n: u64| (1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let (zeta, first) = (zeta_of(count), zeta_of(2));
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - first / zeta);
        Zipf { count: count as f64, alpha: 1.0 / (1.0 - THETA), zeta, eta }
    }

    fn next(&self, random: &mut fastrand::Rng) -> u64 {
        let u = random.f64();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5_f64.powf(0.99) {
            1
        } else {
            let at = self.count * (self.eta * u - self.eta + 1.0).powf(self.alpha);
            (at as u64).min(self.count as u64 - 1)
        }
    }
}

/// The key of a record: records that are asked for together lie apart.
pub fn key_of(record: u64) -> u64 {
    let mixed = (record ^ record >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// The value of a key and a version.
pub fn value_of(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![(key ^ version) as u8; bytes];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value[8..16].copy_from_slice(&version.to_le_bytes());
    value
}

/// What is kept of values that were read, to compare the sides.
pub fn sum_of(value: &[u8]) -> u64 {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&value[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let touched = value.iter().step_by(64).fold(0_u64, |sum, &byte| sum + u64::from(byte));
    word(0).wrapping_add(word(8).wrapping_mul(31)).wrapping_add(touched)
}

/// Calls `serve` for each request of a workload, 'a' to 'f'; it returns the sum of what it read.
/// Returns the sum over all.
pub fn run<E>(
    workload: char,
    records: u64,
    requests: usize,
    latencies: &mut Latencies,
    mut serve: impl FnMut(Request) -> Result<u64, E>,
) -> Result<u64, E> {
    let zipf = Zipf::new(records);
    let mut random = fastrand::Rng::with_seed(11);
    let (mut sum, mut known) = (0_u64, records);
    for version in 1..=requests as u64 {
        let percent = random.u64(..100);
        let rank = zipf.next(&mut random);
        // Popular records lie anywhere among the others.
        let some = key_of(key_of(rank) % records);
        let request = match (workload, percent) {
            ('a', 50..) | ('b', 95..) => Request::Update(some, version),
            ('d' | 'e', 95..) => {
                known += 1;
                Request::Insert(key_of(known - 1))
            }
            ('d', _) => Request::Read(key_of(known - 1 - rank)),
            ('e', _) => Request::Scan(some, random.usize(1..=100)),
            ('f', 50..) => Request::Modify(some, version),
            _ => Request::Read(some),
        };
        let started = Instant::now();
        sum = sum.wrapping_add(serve(request)?);
        latencies.add(started.elapsed());
    }
    Ok(sum)
}

/// Buckets of each power of two.
const PARTS: usize = 8;

/// How long accesses took: counts by buckets that are an eighth of a power of two wide.
pub struct Latencies {
    counts: Vec<u64>,
}

impl Latencies {
    pub fn new() -> Self {
        Latencies { counts: vec![0; 64 * PARTS] }
    }

    pub fn add(&mut self, took: Duration) {
        let ns = (took.as_nanos() as u64).max(PARTS as u64);
        let power = ns.ilog2() as usize;
        let part = (ns >> (power - PARTS.ilog2() as usize)) as usize % PARTS;
        self.counts[power * PARTS + part] += 1;
    }

    /// The microseconds that 50, 99 and 99.9 % of the accesses did not exceed.
    pub fn microseconds(&self) -> [f64; 3] {
        let all: u64 = self.counts.iter().sum();
        [500, 990, 999].map(|per_mille| {
            let mut left = (all * per_mille).div_ceil(1000);
            let bucket = self.counts.iter().position(|&count| {
                let found = count >= left && left > 0;
                left = left.saturating_sub(count);
                found
            });
            bucket.map_or(0.0, |bucket| {
                let width = (1_u64 << (bucket / PARTS)) as f64 / PARTS as f64;
                (width * (PARTS + 1 + bucket % PARTS) as f64) / 1000.0
            })
        })
    }
}

/// Bytes that this process has read from disks and written to them.
pub fn disk_bytes() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    (field("read_bytes:"), field("write_bytes:"))
}
