//! One run: two processes are started, wait for each other, move the file, and say what it took;
//! then the contents are compared.
//!
//! Files are open and channels are there before time counts, as in the survey. When one process
//! fails the other is killed, since it may wait forever.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use crate::Outcome;
use crate::job::Job;
use crate::sys::{Counter, Map, call};
use crate::ways::{WAYS, Way, is_direct};

/// What the processes tell each other and their parent, in memory that they share.
#[derive(Default)]
#[repr(C)]
struct Board {
    /// Processes that are ready.
    ready: [Counter; 2],
    go: Counter,
    sides: [Side; 2],
}

/// What one process used, in nanoseconds.
#[derive(Default)]
#[repr(C)]
struct Side {
    wall: AtomicU64,
    user: AtomicU64,
    system: AtomicU64,
    handover: AtomicU64,
}

const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// Moves the file by the way of this name.
pub fn run(name: &str, job: &Job) -> Outcome<Value> {
    let (_, _, open) = WAYS
        .iter()
        .find(|(known, _, _)| *known == name)
        .ok_or_else(|| format!("no way {name:?}: see swing-bulk list"))?;
    let direct = if is_direct(name) { libc::O_DIRECT } else { 0 };
    let _ = std::fs::remove_file(&job.target);
    let source = OpenOptions::new().read(true).custom_flags(direct).open(&job.source)?;
    let mut options = OpenOptions::new();
    let target = options.read(true).write(true).create_new(true).custom_flags(direct);
    let target = target.open(&job.target)?;
    if job.cold {
        forget(&source)?;
    }
    let scratch = tempfile::Builder::new().prefix("swing-bulk-").tempdir_in(&job.scratch)?;
    let job = &Job { scratch: scratch.path().to_path_buf(), ..job.clone() };
    let way = open(job)?;
    let memory = Map::shared(std::mem::size_of::<Board>())?;
    // SAFETY: fresh zeroed memory, aligned to a page; zeros are a value of each field.
    let board = unsafe { &*memory.at(0, std::mem::size_of::<Board>()).cast::<Board>() };
    let children = start(way, job, board, &source, &target)?;
    board.ready.iter().for_each(|ready| ready.wait(1));
    let begin = Instant::now();
    board.go.set(1);
    wait_for(children)?;
    let whole = begin.elapsed();
    compare(&job.source, &job.target)?;
    let seconds = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64 / 1e9;
    let side = |at: usize| {
        let side = &board.sides[at];
        json!({
            "seconds": seconds(&side.wall), "user_s": seconds(&side.user),
            "system_s": seconds(&side.system),
        })
    };
    let used: f64 = board.sides.iter().map(|s| seconds(&s.user) + seconds(&s.system)).sum();
    let taken = seconds(&board.sides[SENDER].wall).max(seconds(&board.sides[RECEIVER].wall));
    let mut result = json!({
        "way": name, "bytes": job.bytes, "chunk_bytes": job.chunk, "pipe_bytes": job.pipe,
        "piece_bytes": job.piece, "depth": job.depth, "cold": job.cold, "sync": job.sync,
        "seconds": taken, "with_exit_s": whole.as_secs_f64(),
        "sender": side(SENDER), "receiver": side(RECEIVER), "cores": used / taken,
        "equal": true,
    });
    let handover = seconds(&board.sides[RECEIVER].handover);
    if handover > 0.0 {
        result["handover_s"] = json!(handover);
    }
    Ok(result)
}

/// Takes a file out of the page cache.
fn forget(file: &File) -> io::Result<()> {
    file.sync_all()?;
    let number = file.as_raw_fd();
    // SAFETY: no memory is involved.
    match unsafe { libc::posix_fadvise(number, 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Forks both processes; this one keeps no end of any channel, so that each process sees when the
/// other ends.
fn start(
    way: Box<dyn Way>,
    job: &Job,
    board: &Board,
    source: &File,
    target: &File,
) -> io::Result<[i32; 2]> {
    let mut children = [0; 2];
    let mut way = Some(way);
    for (side, child) in children.iter_mut().enumerate() {
        // SAFETY: this process has one thread, so the child may do whatever it likes.
        *child = call(|| unsafe { libc::fork() } as isize)? as i32;
        if *child == 0 {
            // SAFETY: no memory is involved: the child ends with its parent.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let status = way.take().map_or(1, |way| work(way, job, board, side, source, target));
            // SAFETY: what the parent has begun (temporary folders) is the parent's to end.
            unsafe { libc::_exit(status) };
        }
    }
    Ok(children)
}

/// What a child does; its exit status.
fn work(
    way: Box<dyn Way>,
    job: &Job,
    board: &Board,
    side: usize,
    source: &File,
    target: &File,
) -> i32 {
    board.ready[side].set(1);
    board.go.wait(1);
    let (before, begin) = (used(), Instant::now());
    let outcome = match side {
        SENDER => way.send(job, source).map(|()| 0),
        _ => way.receive(job, target).and_then(|handover| {
            if job.sync { target.sync_data() } else { Ok(()) }.map(|()| handover)
        }),
    };
    let (wall, after) = (begin.elapsed().as_nanos() as u64, used());
    let of = &board.sides[side];
    of.wall.store(wall, Ordering::Relaxed);
    of.user.store(after[0] - before[0], Ordering::Relaxed);
    of.system.store(after[1] - before[1], Ordering::Relaxed);
    match outcome {
        Ok(handover) => {
            of.handover.store(handover, Ordering::Relaxed);
            0
        }
        Err(error) => {
            eprintln!("{}: {error}", ["sender", "receiver"][side]);
            1
        }
    }
}

/// User and system time of this process, in nanoseconds; that of its threads, io_uring's included.
fn used() -> [u64; 2] {
    // SAFETY: all zeros are a value of the structure, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    [usage.ru_utime, usage.ru_stime]
        .map(|t| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000)
}

/// Waits until both have ended.
fn wait_for(children: [i32; 2]) -> Outcome {
    let mut failed = false;
    for _ in children {
        let mut status = 0;
        // SAFETY: the call writes one number.
        let ended = call(|| unsafe { libc::waitpid(-1, &mut status, 0) } as isize)? as i32;
        if status != 0 && !failed {
            failed = true;
            for child in children.into_iter().filter(|child| *child != ended) {
                // SAFETY: no memory is involved; the child has not been waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
        }
    }
    if failed { Err("a process has failed".into()) } else { Ok(()) }
}

/// An error unless both files have the same bytes.
fn compare(source: &Path, target: &Path) -> Outcome {
    const BLOCK: usize = 1 << 20;
    let (mut a, mut b) = (File::open(source)?, File::open(target)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Err("the target has another length than the source".into());
    }
    let (mut of_a, mut of_b) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0_u64;
    loop {
        let read = a.read(&mut of_a)?;
        if read == 0 {
            return Ok(());
        }
        b.read_exact(&mut of_b[..read])?;
        if of_a[..read] != of_b[..read] {
            return Err(format!("the target differs within {read} bytes from {at} on").into());
        }
        at += read as u64;
    }
}
