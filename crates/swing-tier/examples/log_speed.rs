//! How fast the log is in a directory: durable small commits, long records written and read, many
//! small reads. Prints one line each.
//!
//! ```text
//! cargo run --release -p swing-tier --example log_speed -- DIRECTORY [MEGABYTES]
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use swing_tier::{Directory, DirectoryOptions, Log, LogOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("give a directory")?).join("log-speed");
    let megabytes: usize = arguments.next().map_or(Ok(512), |text| text.parse())?;
    let options = DirectoryOptions { create: true, ..Default::default() };
    let directory = Directory::open(&path, options)?;
    println!("{}", directory.choice());
    let log = Log::create(Arc::new(directory), LogOptions::default())?;

    let commits = 500;
    let mut small = Vec::with_capacity(commits);
    let start = Instant::now();
    for number in 0..commits {
        let mut batch = log.batch()?;
        small.push(batch.put(&[number as u8; 100])?);
        batch.commit()?;
    }
    let us = start.elapsed().as_secs_f64() * 1e6 / commits as f64;
    println!("a durable commit of 100 bytes: {us:.0} us");

    let record = vec![7; 4 << 20];
    let start = Instant::now();
    let mut batch = log.batch()?;
    let long = (0..megabytes / 4).map(|_| batch.put(&record)).collect::<Result<Vec<_>, _>>()?;
    batch.commit()?;
    println!("written: {:.0} MB/s", speed(megabytes, start));

    let lease = log.lease();
    let start = Instant::now();
    let mut buffer = vec![0; record.len()];
    for id in &long {
        lease.read_into(&mut [(*id, &mut buffer)])?;
    }
    println!("read: {:.0} MB/s", speed(megabytes, start));

    let start = Instant::now();
    lease.read_many(&small)?;
    let us = start.elapsed().as_secs_f64() * 1e6 / commits as f64;
    println!("a small record, {commits} at a time: {us:.1} us");
    drop((lease, log));
    std::fs::remove_dir_all(path)?;
    Ok(())
}

fn speed(megabytes: usize, start: Instant) -> f64 {
    megabytes as f64 * 1.048_576 / start.elapsed().as_secs_f64()
}
