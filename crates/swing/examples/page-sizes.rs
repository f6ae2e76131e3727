//! What the size of pages does to shared memory: the figures behind the extents of 2 MiB.
//!
//! ```text
//! cargo run --release -p swing --example page-sizes -- [MiB] [DIRECTORY]
//! ```
//!
//! Fills a file in a memory file system (the default: 4096 MiB under `/dev/shm`) with pages of 4
//! KiB and again with pages of 2 MiB, and times the first scan of a new mapping, the second, write
//! protection, copying extent by extent, and unmapping; then `fork` of as much private memory, and
//! the copies that its first stores cost. Pages of 2 MiB need `mount -o remount,huge=advise`; the
//! program says when it did not get them.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
const EXTENT: usize = 2 * MIB;
const PAGE: usize = 4096;
/// One in so many extents is copied to memory that was never used.
const COPIED_PART: usize = 4;
/// Pages stored to after a fork.
const STORED_PAGES: usize = 4096;

/// A mapping, gone with its value.
struct Memory {
    at: *mut u8,
    len: usize,
}

impl Memory {
    /// Maps `file` from an offset, or private memory without one, and asks for the kind of pages.
    fn map(file: Option<(&File, usize)>, len: usize, huge: bool) -> std::io::Result<Self> {
        let (flags, fd, from) = match file {
            Some((file, from)) => (libc::MAP_SHARED, file.as_raw_fd(), from),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // Aligned to an extent by hand, as huge pages need it.
        let wanted = len + EXTENT;
        // SAFETY: a new mapping where the kernel likes; then a part of it is mapped again.
        let at = unsafe {
            let none = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let hole = libc::mmap(std::ptr::null_mut(), wanted, libc::PROT_NONE, none, -1, 0);
            if hole == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            let aligned = (hole as usize).next_multiple_of(EXTENT) as *mut c_void;
            libc::mmap(aligned, len, protection, flags | libc::MAP_FIXED, fd, from as i64)
        };
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the range has just been mapped.
        unsafe { libc::madvise(at, len, advice) };
        Ok(Self { at: at.cast(), len })
    }

    fn fill(&self) {
        // SAFETY: the range is mapped writable, and nobody else uses it.
        unsafe { self.at.write_bytes(7, self.len) };
    }

    fn scan(&self) -> u64 {
        // SAFETY: the range is mapped and initialised; its length is a multiple of 8.
        let words = unsafe { std::slice::from_raw_parts(self.at.cast::<u64>(), self.len / 8) };
        words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the range is this value's own.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let value = work();
    (begun.elapsed(), value)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// KiB of the file's pages that are mapped as huge ones by this process.
fn huge_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("ShmemPmdMapped:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn shared(file: &File, len: usize, huge: bool) -> std::io::Result<()> {
    file.set_len(0)?;
    let copied = (len / COPIED_PART).next_multiple_of(EXTENT);
    file.set_len((len + copied) as u64)?;
    let (filling, _) = {
        let memory = Memory::map(Some((file, 0)), len, huge)?;
        timed(|| memory.fill())
    };
    let memory = Memory::map(Some((file, 0)), len, huge)?;
    let (first, sum) = timed(|| memory.scan());
    let (second, again) = timed(|| memory.scan());
    assert_eq!(sum, again);
    let mapped = huge_kib();
    let fresh = Memory::map(Some((file, len)), copied, huge)?;
    let (copying, ()) = timed(|| {
        for at in (0..copied).step_by(EXTENT) {
            // SAFETY: both ranges are mapped and of this length, and do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(memory.at.add(at), fresh.at.add(at), EXTENT) };
        }
    });
    drop(fresh);
    // SAFETY: the range is this function's own, and nobody stores into it any more.
    let (protecting, done) =
        timed(|| unsafe { libc::mprotect(memory.at.cast(), len, libc::PROT_READ) });
    assert_eq!(done, 0);
    let (unmapping, ()) = timed(|| drop(memory));
    println!(
        "{:>6}  first fill {:7.0} ms  first scan {:6.1} ms  second {:6.1} ms  copy {:5.2} GB/s  \
         write-protect {:6.2} ms  unmap {:6.2} ms  ({} MiB in huge pages)",
        if huge { "2 MiB" } else { "4 KiB" },
        ms(filling),
        ms(first),
        ms(second),
        copied as f64 / 1e9 / copying.as_secs_f64(),
        ms(protecting),
        ms(unmapping),
        mapped / 1024,
    );
    Ok(())
}

/// `fork` of private memory: how long it takes, and what a page costs the parent afterwards.
fn forked(len: usize) -> std::io::Result<()> {
    let memory = Memory::map(None, len, false)?;
    memory.fill();
    // SAFETY: the child only waits to be killed.
    let (forking, child) = timed(|| unsafe { libc::fork() });
    if child == 0 {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
    if child < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let step = (len / STORED_PAGES).next_multiple_of(PAGE);
    let pages = len / step;
    let (storing, ()) = timed(|| {
        for at in (0..len).step_by(step) {
            // SAFETY: inside the mapping, which is writable.
            unsafe { memory.at.add(at).write_volatile(8) };
        }
    });
    // SAFETY: the child is this process's own.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    println!(
        "fork of {} MiB of private memory: {:.1} ms, then {:.1} us for each 4 KiB page stored to",
        len / MIB,
        ms(forking),
        storing.as_secs_f64() * 1e6 / pages as f64
    );
    Ok(())
}

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let mib = args.next().and_then(|a| a.parse().ok()).unwrap_or(4096usize).max(2);
    let directory = args.next().map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let len = (mib * MIB).next_multiple_of(EXTENT);
    let path = directory.join(format!("page-sizes-{}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    println!("{} MiB of shared memory under {}:", len / MIB, directory.display());
    for huge in [false, true] {
        shared(&file, len, huge)?;
    }
    drop(file);
    forked(len)
}
