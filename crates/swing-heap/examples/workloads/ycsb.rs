//! What programs do with a key-value store in YCSB (Cooper and others, SoCC 2010): its six
//! workloads, with its distributions. A store is a closure, so this file knows none.

#[path = "zipf.rs"]
mod zipf;

use std::time::{Duration, Instant};

use zipf::Zipf;

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

/// The key of a record: records that are asked for together lie apart.
pub fn key_of(record: u64) -> u64 {
    let mixed = (record ^ record >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// How long objects are.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    Fixed(usize),
    /// By the object's key, from a quarter to seven quarters of this; this on average.
    Random(usize),
}

impl Length {
    /// From a text like `1024` or, for random lengths, `~1024`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (random, digits) = match text.strip_prefix('~') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        match digits.parse() {
            Ok(bytes) if bytes >= 256 && random => Ok(Length::Random(bytes)),
            Ok(bytes) if bytes >= 64 && !random => Ok(Length::Fixed(bytes)),
            _ => Err(format!("{text} is no length: a number from 64 on, or ~ and one from 256 on")),
        }
    }

    /// That of an object.
    pub fn of(self, key: u64) -> usize {
        match self {
            Length::Fixed(bytes) => bytes,
            Length::Random(bytes) => bytes / 4 + key_of(!key) as usize % (bytes * 3 / 2 + 1),
        }
    }

    /// The shortest one.
    pub fn least(self) -> usize {
        match self {
            Length::Fixed(bytes) => bytes,
            Length::Random(bytes) => bytes / 4,
        }
    }

    /// The longest one.
    pub fn most(self) -> usize {
        match self {
            Length::Fixed(bytes) => bytes,
            Length::Random(bytes) => bytes / 4 + bytes * 3 / 2,
        }
    }
}

/// The value of a key and a version.
pub fn value_of(key: u64, version: u64, length: Length) -> Vec<u8> {
    let mut value = vec![(key ^ version) as u8; length.of(key)];
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
