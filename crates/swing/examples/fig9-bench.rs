//! Figure 9 of the paper: what copy-on-write costs a process that updates its memory all the time
//! while another takes snapshots of it, by `hook` or by `fork`.
//!
//! `cargo run --release -p swing --example fig9-bench -- WAY MIB PATTERN=INTERVALS_MS ...`
//!
//! `WAY`: `swing` (a tracked area; another process hooks it live), `ahead` (the same, and a thread
//! of the owner copies ahead), `fork` (private memory; a thread of the same process forks a child
//! that keeps the snapshot), `fork-huge` (the same with transparent huge pages) or `copying` (no
//! snapshot: each 2 MiB of private memory are copied when the updates come to them for the first
//! time in an interval, which is the least that copy-on-write by the updating thread can cost; only
//! in order). Each snapshot is dropped right before the next. `PATTERN`: `sweep` (from start to
//! end, over and over) or `random:90` (90 % of the updates go to 10 % of the memory, 50 means
//! uniform); one process does them all, one after the other. `INTERVALS_MS`: comma-separated times
//! between snapshots; 0 is none at all. An update adds one to an eight-byte number. The namespace
//! is a temporary directory in `/dev/shm`, or in `$SWING_BENCH_DIR`. One line of JSON for each
//! interval.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use swing::{Area, AreaName, AreaOptions, ByteLen, Namespace, Publish};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const WAYS: [&str; 5] = ["swing", "ahead", "fork", "fork-huge", "copying"];
/// Updates between two looks whether to stop.
const STEP: u64 = 4096;
/// The shortest measurement, in seconds, unless `$SWING_BENCH_SECONDS` says otherwise; at least one
/// interval in any case.
const LEAST_S: f64 = 4.0;
/// The pattern that goes from start to end.
const SWEEP: u64 = 0;

/// What is copied at once.
const EXTENT: usize = 2 << 20;

static UPDATES: AtomicU64 = AtomicU64::new(0);
/// `SWEEP`, or the share of the updates that goes to few places, in percent.
static PATTERN: AtomicU64 = AtomicU64::new(SWEEP);
/// The interval that updates are in, of those that copy.
static INTERVAL: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["owner", way, mib, home] => own(way, mib.parse()?, Path::new(home)),
        [way, mib, runs @ ..] if WAYS.contains(way) && !runs.is_empty() => {
            let parent = std::env::var("SWING_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
            let dir = tempfile::Builder::new().prefix("swing-bench-").tempdir_in(parent)?;
            measure(way, mib, runs, dir.path())
        }
        _ => Err(format!("WAY MIB PATTERN=INTERVALS_MS ..., where WAY is one of {WAYS:?}").into()),
    }
}

/// The process that updates, seen from the one that takes snapshots.
struct Owner {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Owner {
    fn start(words: [&str; 2], home: &Path) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("owner")
            .args(words)
            .arg(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut owner = Self { child, answers };
        owner.answer()?;
        Ok(owner)
    }

    fn answer(&mut self) -> Outcome<u64> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }

    /// Says a word to the owner; its answer.
    fn ask(&mut self, word: &str) -> Outcome<u64> {
        let mut input = self.child.stdin.as_ref().ok_or("no input")?;
        input.write_all(format!("{word}\n").as_bytes())?;
        self.answer()
    }
}

/// The process that takes snapshots.
struct Taker<'a> {
    way: &'a str,
    ns: Namespace,
    name: AreaName,
    snapshot: Option<swing::Snapshot>,
    took: Vec<Duration>,
    least: Duration,
}

impl Taker<'_> {
    fn take(&mut self, owner: &mut Owner) -> Outcome<()> {
        self.snapshot = None;
        let begin = Instant::now();
        match self.way {
            "swing" | "ahead" => self.snapshot = Some(self.ns.hook_live(&self.name)?),
            "copying" => drop(owner.ask("copy")?),
            _ => drop(owner.ask("fork")?),
        }
        self.took.push(begin.elapsed());
        Ok(())
    }

    /// Updates in a second, while a snapshot is taken every so often.
    fn measure(&mut self, owner: &mut Owner, every: Duration) -> Outcome<f64> {
        self.took.clear();
        if every.is_zero() {
            // What was copied for the last snapshot is copied before.
            std::thread::sleep(self.least / 2);
            let (begin, before) = (Instant::now(), owner.ask("count")?);
            std::thread::sleep(self.least);
            return Ok((owner.ask("count")? - before) as f64 / begin.elapsed().as_secs_f64());
        }
        // The first snapshot only brings about the state that lasts from then on.
        self.take(owner)?;
        std::thread::sleep(every);
        let (begin, before) = (Instant::now(), owner.ask("count")?);
        let rounds = self.least.as_secs_f64().div_euclid(every.as_secs_f64()).max(1.0) as u32;
        for round in 1..=rounds {
            self.take(owner)?;
            std::thread::sleep((begin + every * round).saturating_duration_since(Instant::now()));
        }
        let updates = owner.ask("count")? - before;
        self.snapshot = None;
        owner.ask("drop")?;
        Ok(updates as f64 / begin.elapsed().as_secs_f64())
    }
}

fn measure(way: &str, mib: &str, runs: &[&str], home: &Path) -> Outcome<()> {
    let mut owner = Owner::start([way, mib], home)?;
    let (ns, name) = (Namespace::open(home)?, AreaName::new("fig9")?);
    let least = std::env::var("SWING_BENCH_SECONDS").map_or(Ok(LEAST_S), |text| text.parse())?;
    let least = Duration::try_from_secs_f64(least)?;
    let mut taker = Taker { way, ns, name, snapshot: None, took: Vec::new(), least };
    let runs = runs.iter().map(|run| run.split_once('=').ok_or("PATTERN=INTERVALS_MS"));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let each = runs.iter().flat_map(|(pattern, intervals)| {
        intervals.split(',').map(move |interval| (*pattern, interval))
    });
    for (pattern, interval) in each {
        owner.ask(pattern)?;
        let rate = taker.measure(&mut owner, Duration::from_millis(interval.parse()?))?;
        let took = &mut taker.took;
        took.sort_unstable();
        println!(
            "{{\"way\":\"{way}\",\"pattern\":\"{pattern}\",\"mib\":{mib},\
             \"interval_ms\":{interval},\"updates_per_s\":{rate:.0},\"snapshots\":{},\
             \"snapshot_us\":{:.1}}}",
            took.len(),
            took.get(took.len() / 2).map_or(0.0, |t| t.as_secs_f64() * 1e6),
        );
    }
    owner.ask("stop")?;
    owner.child.wait()?;
    Ok(())
}

/// The owner: updates in one thread, listens in another.
fn own(way: &str, mib: u64, home: &Path) -> Outcome<()> {
    let (area, base) = match way {
        "swing" | "ahead" => {
            let area = make_area(mib, home)?;
            let base = area.base().as_ptr().cast::<u64>();
            (Some(area), base)
        }
        _ => (None, private_memory(mib, way != "fork")?),
    };
    let words = (mib << 20) / 8;
    let memory = Memory { base: base as usize, words };
    memory.touch();
    let other = match way {
        "copying" => Some(Memory { base: private_memory(mib, true)? as usize, words }),
        _ => None,
    };
    other.iter().for_each(|other| other.touch());
    if let Some(area) = &area {
        // Both versions of each extent get memory that the machine has really given.
        for _ in 0..2 {
            area.publish(Publish::Shared, b"")?;
            memory.touch();
        }
        area.allow_live_hooks(true)?;
        area.copy_ahead(way == "ahead");
    }
    let updater = std::thread::spawn(move || {
        while !STOP.load(Ordering::Relaxed) {
            match (PATTERN.load(Ordering::Relaxed), other) {
                (SWEEP, None) => memory.sweep(),
                (SWEEP, Some(other)) => memory.sweep_copying(other),
                (share, _) => memory.update_random(share),
            }
        }
    });
    println!("1");
    listen()?;
    STOP.store(true, Ordering::Relaxed);
    updater.join().map_err(|_| "the updating thread died")?;
    println!("1");
    Ok(())
}

fn listen() -> Outcome<()> {
    let mut child = None;
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "stop" => break,
            "count" => println!("{}", UPDATES.load(Ordering::Relaxed)),
            "drop" => {
                end(child.take());
                println!("1");
            }
            "fork" => {
                end(child.take());
                child = Some(fork()?);
                println!("1");
            }
            "copy" => {
                INTERVAL.fetch_add(1, Ordering::Relaxed);
                println!("1");
            }
            "sweep" => update(SWEEP),
            random if random.starts_with("random:") => update(random[7..].parse()?),
            other => return Err(format!("what is {other:?}?").into()),
        }
    }
    end(child.take());
    Ok(())
}

/// From now on the updates follow a pattern.
fn update(pattern: u64) {
    PATTERN.store(pattern, Ordering::Relaxed);
    println!("1");
}

fn make_area(mib: u64, home: &Path) -> Outcome<Area> {
    let options = AreaOptions {
        small_zone: ByteLen(0),
        ..AreaOptions::with_reserve(ByteLen::mib(mib.next_multiple_of(64)))
    };
    let area = Namespace::open(home)?.create(&AreaName::new("fig9")?, &options)?;
    area.track()?;
    Ok(area)
}

fn private_memory(mib: u64, huge: bool) -> Outcome<*mut u64> {
    let len = (mib << 20) as usize;
    // SAFETY: a new mapping, and advice about it.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        libc::madvise(at, len, advice);
        Ok(at.cast())
    }
}

/// A child that does nothing but keep the snapshot.
fn fork() -> Outcome<i32> {
    // SAFETY: the child calls nothing but async-signal-safe functions.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: waits to be killed; dies with its parent.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pause();
            }
        }
    }
    if child < 0 { Err(std::io::Error::last_os_error().into()) } else { Ok(child) }
}

fn end(child: Option<i32>) {
    if let Some(child) = child {
        // SAFETY: a child of this process that nobody has waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}

/// Copies an extent in the way that is fastest where memory is in no cache.
///
/// # Safety
/// Both belong to the caller and do not overlap.
unsafe fn copy(from: *const u8, to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads and writes exactly the two ranges; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") EXTENT => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, EXTENT);
    }
}

/// Whether the updates go on following a pattern.
fn is_on(pattern: u64) -> bool {
    PATTERN.load(Ordering::Relaxed) == pattern && !STOP.load(Ordering::Relaxed)
}

#[derive(Clone, Copy)]
struct Memory {
    base: usize,
    words: u64,
}

impl Memory {
    fn add(self, at: u64) {
        let word = (self.base as *mut u64).wrapping_add(at as usize);
        // SAFETY: inside memory that only this thread stores to.
        unsafe { word.write_volatile(word.read_volatile() + 1) };
    }

    /// Updates some words one after the other, in the way that the compiler finds best.
    fn add_all(self, at: u64, words: u64) {
        let first = (self.base as *mut u64).wrapping_add(at as usize);
        // SAFETY: inside memory that only this thread stores to.
        let words = unsafe { std::slice::from_raw_parts_mut(first, words as usize) };
        words.iter_mut().for_each(|word| *word = word.wrapping_add(1));
    }

    fn touch(self) {
        (0..self.words).step_by(512).for_each(|at| self.add(at));
    }

    fn sweep(self) {
        let mut at = 0;
        while is_on(SWEEP) {
            self.add_all(at, STEP);
            at = (at + STEP) % self.words;
            UPDATES.fetch_add(STEP, Ordering::Relaxed);
        }
    }

    /// As `sweep`; each extent moves to its place in `other`, or back, once an interval.
    fn sweep_copying(self, other: Memory) {
        let words = (EXTENT / 8) as u64;
        assert!(self.words.is_multiple_of(words) && words.is_multiple_of(STEP));
        let extents = (self.words / words) as usize;
        let mut places = vec![(self, other, 0u64); extents];
        for extent in (0..extents).cycle().take_while(|_| is_on(SWEEP)) {
            let (here, there, since) = &mut places[extent];
            let now = INTERVAL.load(Ordering::Relaxed);
            if std::mem::replace(since, now) != now {
                let at = extent * EXTENT;
                // SAFETY: an extent of both memories, which do not overlap.
                unsafe { copy((here.base + at) as *const u8, (there.base + at) as *mut u8) };
                std::mem::swap(here, there);
            }
            let first = extent as u64 * words;
            for step in (first..first + words).step_by(STEP as usize) {
                here.add_all(step, STEP);
                UPDATES.fetch_add(STEP, Ordering::Relaxed);
            }
        }
    }

    /// `share` percent of the updates go to the first `100 - share` percent.
    fn update_random(self, share: u64) {
        let mut rng = fastrand::Rng::with_seed(1);
        let border = self.words * (100 - share) / 100;
        while is_on(share) {
            for _ in 0..STEP {
                let many = rng.u64(..100) < share;
                self.add(if many { rng.u64(..border) } else { rng.u64(border..self.words) });
            }
            UPDATES.fetch_add(STEP, Ordering::Relaxed);
        }
    }
}
