//! Moves a file through two processes into another file, in one of many ways, and prints what that
//! took as one JSON object.
//!
//!     swing-bulk list
//!     swing-bulk make FILE BYTES SEED
//!     swing-bulk run WAY SOURCE TARGET [--chunk-kib N] [--pipe-kib N] [--piece-kib N]
//!                    [--depth N] [--scratch DIR] [--cold] [--sync]
//!
//! The experiment is that of "Survey of methods for copying big data between processes" (2014):
//! source file, process 1, process 2, target file; the time of the sender and of the receiver. The
//! ways of the survey are `pipe`, `mmap` and `splice`. `bench/bulk.py` runs this.

mod job;
mod run;
mod sys;
mod ways;

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::job::Job;

/// Outcome of a command.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => {
            for (name, about, _) in ways::WAYS {
                println!("{name}\t{about}");
            }
        }
        ["make", file, bytes, seed] => make(Path::new(file), bytes.parse()?, seed.parse()?)?,
        ["run", way, source, target, ref options @ ..] => {
            let job = Job::parse(source, target, options)?;
            println!("{}", run::run(way, &job)?);
        }
        _ => return Err("usage: swing-bulk list | make FILE BYTES SEED | run WAY ...".into()),
    }
    Ok(())
}

/// Writes a file of random bytes; each seed has its own.
fn make(path: &Path, bytes: u64, seed: u64) -> Outcome {
    const BLOCK: usize = 1 << 20;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut file = BufWriter::with_capacity(BLOCK, File::create(path)?);
    let mut block = vec![0; BLOCK];
    let mut left = bytes;
    while left > 0 {
        random.fill(&mut block);
        let len = left.min(BLOCK as u64);
        file.write_all(&block[..len as usize])?;
        left -= len;
    }
    file.into_inner()?.sync_all()?;
    Ok(())
}
