//! Scans and aggregates a table on a disk: what `bench/scan.py` measures.
//!
//! ```text
//! scan-bench fill DIRECTORY MIB PAGE_KIB    makes the table CUSTOMER in pages; prints what it made
//! scan-bench run DIRECTORY WAY DEPTH BUFFER_KIB WORKERS ROUNDS
//! ```
//!
//! `WAY` is `scan` (every byte is read and checked) or `aggregate` (COUNT, SUM, AVG, MAX, MIN of
//! the primary key at once, compared with what they must be). `DEPTH` single-domain scans with one
//! buffer of `BUFFER_KIB` each, on `WORKERS` threads; `shipped` as depth: as the device's profile
//! says, or without one the defaults. Each round prints a line of JSON.

mod customer;

use std::convert::Infallible;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use customer::Customers;
use swing_tier::scan::{
    Aggregate, Avg, Chunk, Count, Max, Min, Numbers, ScanOptions, ScanStats, Sum,
};
use swing_tier::{Directory, DirectoryOptions, Log, LogOptions, RecordId};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Pages that one commit adds.
const PAGES_A_COMMIT: usize = 8192;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument =
        |at: usize| arguments.get(at).map(String::as_str).ok_or("an argument is missing");
    let path = Path::new(argument(1)?);
    match argument(0)? {
        "fill" => fill(path, argument(2)?.parse()?, argument(3)?.parse()?),
        "run" => {
            let options = match argument(3)? {
                "shipped" => None,
                depth => Some(shape(depth.parse()?, argument(4)?.parse()?, argument(5)?.parse()?)),
            };
            run(path, argument(2)?, options, argument(6)?.parse()?)
        }
        other => Err(format!("unknown job {other}").into()),
    }
}

/// As the paper's operators: so many single-domain scans, each with one sub-buffer.
fn shape(depth: u32, buffer_kib: u32, workers: usize) -> ScanOptions {
    let bytes = buffer_kib << 10;
    let (request_bytes, ring_bytes) = (bytes, bytes);
    ScanOptions { depth, request_bytes, ring_bytes, workers, ..ScanOptions::default() }
}

fn log_options() -> LogOptions {
    // One file, so that others can read the same bytes.
    LogOptions { file_bytes: 64 << 30, background: false, ..Default::default() }
}

fn open(path: &Path, create: bool) -> Outcome<Directory> {
    Ok(Directory::open(path, DirectoryOptions { create, ..Default::default() })?)
}

/// Pages of exactly `page_kib` on the disk, but for the first of each block, which has its header.
fn fill(path: &Path, mib: usize, page_kib: u32) -> Outcome {
    let stripe = page_kib << 10;
    let options = LogOptions { stripe_bytes: Some(stripe.min(256 << 10)), ..log_options() };
    let log = Log::create(Arc::new(open(path, true)?), options)?;
    let mut customers = Customers::new(1);
    let page_bytes = stripe as usize - 64;
    let mut left = (mib << 20) / stripe as usize;
    while left > 0 {
        let mut batch = log.batch()?;
        let pages = left.min(PAGES_A_COMMIT);
        for _ in 0..pages {
            batch.put(&customers.page(page_bytes))?;
        }
        batch.set_root(&customers.count().to_le_bytes())?;
        batch.commit()?;
        left -= pages;
    }
    let records = log.stats().records;
    let (rows, bytes) = (customers.count(), records * page_bytes as u64);
    println!(r#"{{"rows": {rows}, "pages": {records}, "bytes": {bytes}}}"#);
    Ok(())
}

fn run(path: &Path, way: &str, options: Option<ScanOptions>, rounds: usize) -> Outcome {
    let log = Log::open_read_only(Arc::new(open(path, false)?), log_options())?;
    let lease = log.lease();
    let ids = lease.records();
    let options = &options.unwrap_or_else(|| lease.scan_options());
    let rows = u64::from_le_bytes(lease.root().try_into()?);
    for _ in 0..rounds {
        let before = cpu_seconds();
        let stats = match way {
            "scan" => lease.aggregate(&ids, options, &Nothing)?.stats,
            "aggregate" => aggregate(&lease, &ids, options, rows)?,
            other => return Err(format!("unknown way {other}").into()),
        };
        print(&stats, cpu_seconds() - before);
    }
    Ok(())
}

/// The function that looks at nothing: what is left is the scan.
struct Nothing;

impl Aggregate for Nothing {
    type Partial = ();
    type Output = ();
    type Error = Infallible;

    fn start(&self) {}

    fn update(&self, (): &mut (), _: &Chunk<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn merge(&self, (): &mut (), (): ()) -> Result<(), Infallible> {
        Ok(())
    }

    fn finish(&self, (): ()) -> Result<(), Infallible> {
        Ok(())
    }
}

fn aggregate(
    lease: &swing_tier::Lease,
    ids: &[RecordId],
    options: &ScanOptions,
    rows: u64,
) -> Outcome<ScanStats> {
    let decode = |page: &Chunk<'_>, into: &mut Vec<i64>| customer::keys(page.bytes, into);
    let five = Numbers::new(decode, (Count, Sum, Avg, Max, Min));
    let found = lease.aggregate(ids, options, &five)?;
    let most = rows as i64;
    let sum = i128::from(most) * i128::from(most + 1) / 2;
    let right = (rows, Some(sum), Some(sum as f64 / rows as f64), Some(most), Some(1));
    if found.value != right {
        return Err(format!("{:?} is not {right:?}", found.value).into());
    }
    Ok(found.stats)
}

fn print(stats: &ScanStats, cpu_s: f64) {
    let ScanStats { lanes, workers, depth, buffers, buffer_bytes, .. } = stats;
    let ScanStats { bytes, read_bytes, requests, engine, .. } = stats;
    let (seconds, wait_s) = (stats.elapsed.as_secs_f64(), stats.device_wait.as_secs_f64());
    print!(r#"{{"seconds": {seconds:.6}, "cpu_s": {cpu_s:.6}, "wait_s": {wait_s:.6}, "#);
    print!(r#""lanes": {lanes}, "workers": {workers}, "depth": {depth}, "buffers": {buffers}, "#);
    print!(r#""buffer_bytes": {buffer_bytes}, "bytes": {bytes}, "read_bytes": {read_bytes}, "#);
    println!(r#""requests": {requests}, "engine": "{engine}"}}"#);
}

/// Processor time of this process, user and system.
fn cpu_seconds() -> f64 {
    // SAFETY: a structure of integers, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid and writable.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
