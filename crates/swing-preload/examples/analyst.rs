//! The analysing process of the paper's figure 10: gets all memory of a server that goes on serving
//! (or not), and scans it once.
//!
//! ```text
//! analyst hook NAME             hooks the heap of that name; the server does not wait
//! analyst shared FILE PID       maps the server's memory file; the server is stopped meanwhile
//! analyst fifo PATH PID         has the server write its memory through a FIFO (dump_heap.c)
//! ```
//!
//! Prints JSON: nanoseconds until it had the memory, nanoseconds in all, bytes, their sum.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use swing::{AreaName, ExtentId, Namespace};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// What a pipe is read by.
const PIECE: usize = 1 << 20;
/// As `nice -n`.
const LEAST_PRIORITY: i32 = 19;
/// How long a server may take to stop.
const PATIENCE: Duration = Duration::from_secs(10);

struct Seen {
    had: Duration,
    bytes: u64,
    sum: u64,
}

fn sum(bytes: &[u8]) -> u64 {
    // SAFETY: any bytes are numbers.
    let (head, words, tail) = unsafe { bytes.align_to::<u64>() };
    let rest = head.iter().chain(tail).map(|b| u64::from(*b)).fold(0, u64::wrapping_add);
    words.iter().fold(rest, |sum, word| sum.wrapping_add(*word))
}

fn hook(name: &str, begun: Instant) -> Fallible<Seen> {
    let snapshot = Namespace::open_default()?.hook_live(&AreaName::new(name)?)?;
    let mut seen = Seen { had: begun.elapsed(), bytes: 0, sum: 0 };
    // SAFETY: concerns this process only. Nobody waits for the rest of it.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LEAST_PRIORITY) };
    let geometry = snapshot.geometry();
    for extent in (0..geometry.extent_count()).map(ExtentId) {
        let range = geometry.range(extent);
        if snapshot.is_mapped(&range) {
            let len = geometry.len(extent).as_usize();
            // SAFETY: mapped in the snapshot, whose bytes never change while it lives.
            let bytes = unsafe {
                let at = snapshot.base().as_ptr().add(range.start.as_usize());
                std::slice::from_raw_parts(at, len)
            };
            seen.sum = seen.sum.wrapping_add(sum(bytes));
            seen.bytes += len as u64;
        }
    }
    Ok(seen)
}

/// The next begin of data or of a hole in a sparse file; `None` after the last.
fn seek(file: &File, from: i64, whence: i32) -> Option<i64> {
    // SAFETY: a valid descriptor.
    let at = unsafe { libc::lseek(file.as_raw_fd(), from, whence) };
    (at >= 0).then_some(at)
}

/// Sends a signal to the server; it is an error when it is gone.
fn signal(pid: i32, number: i32) -> Fallible<()> {
    // SAFETY: only sends a signal.
    match unsafe { libc::kill(pid, number) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// All threads of the process stand still.
fn stopped(pid: i32) -> Fallible<bool> {
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        if !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The one lock that an unmodified server has: that it does not run.
fn shared(path: &str, pid: i32, begun: Instant) -> Fallible<Seen> {
    signal(pid, libc::SIGSTOP)?;
    let seen = scan_stopped(path, pid, begun);
    signal(pid, libc::SIGCONT)?;
    seen
}

fn scan_stopped(path: &str, pid: i32, begun: Instant) -> Fallible<Seen> {
    while !stopped(pid)? {
        if begun.elapsed() > PATIENCE {
            return Err("the server does not stop".into());
        }
    }
    let file = File::open(path)?;
    let mut seen = Seen { had: begun.elapsed(), bytes: 0, sum: 0 };
    let mut at = 0;
    while let Some(start) = seek(&file, at, libc::SEEK_DATA) {
        let Some(end) = seek(&file, start, libc::SEEK_HOLE) else { break };
        let len = (end - start) as usize;
        // SAFETY: a mapping of its own, of a part of the file that has memory; the process that
        // writes there is stopped.
        let bytes = unsafe {
            let (read, kind) = (libc::PROT_READ, libc::MAP_SHARED);
            let map = libc::mmap(std::ptr::null_mut(), len, read, kind, file.as_raw_fd(), start);
            if map == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error().into());
            }
            std::slice::from_raw_parts(map.cast::<u8>(), len)
        };
        seen.sum = seen.sum.wrapping_add(sum(bytes));
        seen.bytes += len as u64;
        at = end;
    }
    Ok(seen)
}

fn fifo(path: &str, pid: i32, begun: Instant) -> Fallible<Seen> {
    signal(pid, libc::SIGUSR2)?;
    let mut from = File::open(path)?;
    let mut piece = vec![0; PIECE];
    let mut seen = Seen { had: Duration::ZERO, bytes: 0, sum: 0 };
    loop {
        let n = from.read(&mut piece)?;
        if n == 0 {
            break;
        }
        seen.sum = seen.sum.wrapping_add(sum(&piece[..n]));
        seen.bytes += n as u64;
    }
    seen.had = begun.elapsed();
    Ok(seen)
}

fn main() -> Fallible<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let seen = match words[..] {
        ["hook", name] => hook(name, begun)?,
        ["shared", path, pid] => shared(path, pid.parse()?, begun)?,
        ["fifo", path, pid] => fifo(path, pid.parse()?, begun)?,
        _ => return Err("usage: analyst hook NAME | shared FILE PID | fifo PATH PID".into()),
    };
    let Seen { had, bytes, sum } = seen;
    let (had, all) = (had.as_nanos(), begun.elapsed().as_nanos());
    println!("{{\"had_ns\": {had}, \"all_ns\": {all}, \"bytes\": {bytes}, \"sum\": {sum}}}");
    Ok(())
}
