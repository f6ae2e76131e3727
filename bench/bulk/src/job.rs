//! What is to be moved, and the parameters that the ways share.

use std::path::PathBuf;

use crate::Outcome;

const KIB: usize = 1 << 10;

/// One file to move.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file to read.
    pub source: PathBuf,
    /// The file to write.
    pub target: PathBuf,
    /// Length of the source.
    pub bytes: u64,
    /// What one system call or one `memcpy` moves at most.
    pub chunk: usize,
    /// Capacity of a pipe.
    pub pipe: usize,
    /// What is handed over at once by the ways that hand over memory.
    pub piece: usize,
    /// Chunks in a ring of shared memory, and requests in flight of io_uring.
    pub depth: usize,
    /// A folder in memory: in a new folder there, a FIFO or a namespace.
    pub scratch: PathBuf,
    /// Whether the source is taken out of the page cache before.
    pub cold: bool,
    /// Whether the receiver also waits until the target is on the disk.
    pub sync: bool,
}

impl Job {
    /// From the words of the command line.
    pub fn parse(source: &str, target: &str, options: &[&str]) -> Outcome<Self> {
        let source = PathBuf::from(source);
        let bytes = std::fs::metadata(&source)?.len();
        let mut job = Self {
            source,
            target: PathBuf::from(target),
            bytes,
            chunk: 256 * KIB,
            pipe: 1024 * KIB,
            piece: 32 * 1024 * KIB,
            depth: 16,
            scratch: PathBuf::from("/dev/shm"),
            cold: false,
            sync: false,
        };
        let mut words = options.iter();
        while let Some(word) = words.next() {
            match *word {
                "--cold" => job.cold = true,
                "--sync" => job.sync = true,
                _ => {
                    let value = words.next().ok_or_else(|| format!("{word} without a value"))?;
                    match *word {
                        "--scratch" => job.scratch = PathBuf::from(value),
                        "--chunk-kib" => job.chunk = value.parse::<usize>()? * KIB,
                        "--pipe-kib" => job.pipe = value.parse::<usize>()? * KIB,
                        "--piece-kib" => job.piece = value.parse::<usize>()? * KIB,
                        "--depth" => job.depth = value.parse()?,
                        other => return Err(format!("no option {other}").into()),
                    }
                }
            }
        }
        if bytes == 0 || job.chunk == 0 || job.pipe == 0 || job.piece == 0 || job.depth == 0 {
            return Err("the source and all sizes must be larger than 0".into());
        }
        Ok(job)
    }

    /// Offset and length of the parts of the source of `step` bytes each.
    pub fn parts(&self, step: usize) -> impl Iterator<Item = (u64, usize)> + use<> {
        let bytes = self.bytes;
        let step = step as u64;
        (0..bytes.div_ceil(step)).map(move |i| (i * step, step.min(bytes - i * step) as usize))
    }
}
