//! Reads files in one of several ways for a while, and prints what happened over time, as JSON.
//!
//!     read_ways WAY PATTERN SECONDS THREADS DEPTH REQUEST_BYTES FILE...
//!
//! WAY: mmap-normal, mmap-random, mmap-sequential (advice for the mapping), pread (through the page
//! cache), uring (this crate's queues: direct I/O). PATTERN: random (4 KiB at a random place of a
//! random file) or scan (each thread its own part of the files, once, at most for SECONDS). DEPTH
//! counts for uring only, for each thread; REQUEST_BYTES is what a scan reads at a time.
//!
//! Every way adds up the bytes that it reads: the whole of them in a scan.
//! `bench/mapped.py` runs this under a limit on memory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use swing_tier::probe::Random;
use swing_tier::storage::{Access, Direction, FileRef, Queue, QueueOptions, Request, Storage};
use swing_tier::{BufferClass, Directory, DirectoryOptions, Engine};

const PAGE: u64 = 4096;
/// The length of a bin of the results.
const BIN: Duration = Duration::from_millis(100);

#[derive(Clone)]
struct Work {
    way: String,
    random: bool,
    time: Duration,
    threads: u64,
    depth: u32,
    request: u64,
    files: Vec<PathBuf>,
    begin: Instant,
}

/// What one thread did.
struct Done {
    /// For each bin: bytes, and the longest wait in nanoseconds.
    bins: Vec<(u64, u64)>,
    /// Waits in nanoseconds: eight buckets for each power of two.
    waits: Vec<u64>,
    longest: u64,
    sum: u64,
}

impl Done {
    fn new(work: &Work) -> Self {
        let bins = work.time.as_millis() / BIN.as_millis() + 1;
        Done { bins: vec![(0, 0); bins as usize], waits: vec![0; 64 * 8], longest: 0, sum: 0 }
    }

    fn note(&mut self, work: &Work, from: Instant, bytes: u64) {
        let now = Instant::now();
        let wait = (now - from).as_nanos() as u64;
        let bin = ((now - work.begin).as_millis() / BIN.as_millis()) as usize;
        let last = self.bins.len() - 1;
        let bin = &mut self.bins[bin.min(last)];
        bin.0 += bytes;
        bin.1 = bin.1.max(wait);
        self.waits[bucket(wait)] += 1;
        self.longest = self.longest.max(wait);
    }

    fn add(&mut self, other: &Done) {
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin = (bin.0 + more.0, bin.1.max(more.1));
        }
        self.waits.iter_mut().zip(&other.waits).for_each(|(a, b)| *a += b);
        self.longest = self.longest.max(other.longest);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    fn percentile(&self, part: f64) -> f64 {
        let total: u64 = self.waits.iter().sum();
        let mut seen = 0;
        for (index, count) in self.waits.iter().enumerate() {
            seen += count;
            if seen as f64 >= part * total as f64 {
                return 2_f64.powf((index as f64 + 0.5) / 8.0);
            }
        }
        0.0
    }
}

fn bucket(ns: u64) -> usize {
    ((ns.max(1) as f64).log2() * 8.0) as usize
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let mut work = Work {
        way: words[0].clone(),
        random: words[1] == "random",
        time: Duration::from_secs(number(2)),
        threads: number(3),
        depth: number(4) as u32,
        request: number(5),
        files: words[6..].iter().map(PathBuf::from).collect(),
        begin: Instant::now(),
    };
    let shared = work.random && work.way.starts_with("mmap");
    let maps = if shared { map(&work) } else { Vec::new() };
    let maps = Arc::new(maps);
    work.begin = Instant::now();
    let before = usage();
    let ended = Arc::new(AtomicBool::new(false));
    let sampler = std::thread::spawn({
        let (work, ended) = (work.clone(), ended.clone());
        move || shootdowns(&work, &ended)
    });
    let threads: Vec<_> = (0..work.threads)
        .map(|index| {
            let (work, maps) = (work.clone(), maps.clone());
            std::thread::spawn(move || match work.way.as_str() {
                "pread" => pread(&work, index),
                "uring" => uring(&work, index),
                // A scan opens and maps for itself: the kernel reads ahead for each open file.
                _ if maps.is_empty() => mapped(&work, &map(&work), index),
                _ => mapped(&work, &maps, index),
            })
        })
        .collect();
    let mut all = Done::new(&work);
    for thread in threads {
        all.add(&thread.join().unwrap());
    }
    let wall = work.begin.elapsed().as_secs_f64();
    ended.store(true, Ordering::Relaxed);
    let after = usage();
    print(&work, &all, wall, [after[0] - before[0], after[1] - before[1], after[2] - before[2]]);
    let samples: Vec<_> = sampler.join().unwrap().iter().map(u64::to_string).collect();
    println!("\"tlb_shootdowns\":[{}]}}", samples.join(","));
}

fn print(work: &Work, all: &Done, wall: f64, used: [f64; 3]) {
    let unit = if work.random { PAGE } else { work.request };
    let whole = (wall * 1000.0 / BIN.as_millis() as f64) as usize;
    let bins = &all.bins[..whole.clamp(1, all.bins.len() - 1)];
    let bytes: u64 = all.bins.iter().map(|bin| bin.0).sum();
    let list = |of: &dyn Fn(&(u64, u64)) -> u64| {
        bins.iter().map(|bin| of(bin).to_string()).collect::<Vec<_>>().join(",")
    };
    print!(
        "{{\"way\":\"{}\",\"random\":{},\"threads\":{},\"depth\":{},\"request_bytes\":{unit},\
         \"files\":{},\"seconds\":{wall:.3},\"bytes\":{bytes},\"user_s\":{:.3},\"system_s\":{:.3},\
         \"major_faults\":{},\"p50_us\":{:.1},\"p99_us\":{:.1},\"p999_us\":{:.1},\"most_us\":{:.1},\
         \"bin_ms\":{},\"bin_bytes\":[{}],\"bin_most_us\":[{}],\"sum\":{},",
        work.way,
        work.random,
        work.threads,
        work.depth,
        work.files.len(),
        used[0],
        used[1],
        used[2],
        all.percentile(0.5) / 1e3,
        all.percentile(0.99) / 1e3,
        all.percentile(0.999) / 1e3,
        all.longest as f64 / 1e3,
        BIN.as_millis(),
        list(&|bin| bin.0),
        list(&|bin| bin.1 / 1000),
        all.sum,
    );
}

/// User and system seconds, and major faults, of the process.
fn usage() -> [f64; 3] {
    // SAFETY: all zeros are a value of the structure, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    [seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_majflt as f64]
}

/// TLB shootdowns of the whole machine in each second until all has ended.
fn shootdowns(work: &Work, ended: &AtomicBool) -> Vec<u64> {
    let count = || {
        let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let line = text.lines().find(|line| line.trim_start().starts_with("TLB:"));
        let numbers = line.into_iter().flat_map(str::split_whitespace);
        numbers.filter_map(|word| word.parse::<u64>().ok()).sum::<u64>()
    };
    let (mut samples, mut before, mut from) = (Vec::new(), count(), work.begin);
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(BIN);
        let taken = from.elapsed();
        if taken >= Duration::from_secs(1) {
            let now = count();
            samples.push(((now - before) as f64 / taken.as_secs_f64()) as u64);
            (before, from) = (now, Instant::now());
        }
    }
    samples
}

/// Where a thread reads next: a random page, or the next piece of its part of all files.
struct Places {
    random: Option<Random>,
    /// Length of each file, in whole pages.
    lens: Vec<u64>,
    step: u64,
    /// The part of a scan: where it is, and its end, in bytes of all files together.
    part: (u64, u64),
}

impl Places {
    fn new(work: &Work, thread: u64) -> Self {
        let len =
            |file: &PathBuf| std::fs::metadata(file).unwrap().len() / work.request * work.request;
        let lens: Vec<_> = work.files.iter().map(len).collect();
        let pieces = lens.iter().sum::<u64>() / work.request;
        let at = |thread: u64| pieces * thread / work.threads * work.request;
        let random = work.random.then(|| Random::new(thread + 1));
        let part = (at(thread), at(thread + 1));
        Places { random, lens, step: work.request, part }
    }

    /// File, offset, length; `None` at the end of a scan.
    fn next(&mut self) -> Option<(usize, u64, u64)> {
        if let Some(random) = &mut self.random {
            let file = random.below(self.lens.len() as u64) as usize;
            return Some((file, random.below(self.lens[file] / PAGE) * PAGE, PAGE));
        }
        let (at, until) = &mut self.part;
        let mut offset = *at;
        if offset >= *until {
            return None;
        }
        *at += self.step;
        for (file, len) in self.lens.iter().enumerate() {
            if offset < *len {
                return Some((file, offset, self.step));
            }
            offset -= len;
        }
        None
    }
}

fn add_up(bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(8)
        .fold(0, |sum, word| sum.wrapping_add(u64::from_ne_bytes(word.try_into().unwrap())))
}

/// Address and length of the mapping of a file.
struct Map(usize, usize);

fn map(work: &Work) -> Vec<Map> {
    let advice = match work.way.as_str() {
        "mmap-random" => libc::MADV_RANDOM,
        "mmap-sequential" => libc::MADV_SEQUENTIAL,
        "mmap-normal" => libc::MADV_NORMAL,
        other => panic!("no way {other}"),
    };
    let one = |path: &PathBuf| {
        let file = File::open(path).unwrap();
        let len = file.metadata().unwrap().len() as usize;
        // SAFETY: a fresh mapping at an address of the kernel's choice; the file is only read.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(address, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        // SAFETY: the advice concerns the mapping that has just been made.
        assert_eq!(unsafe { libc::madvise(address, len, advice) }, 0);
        Map(address as usize, len)
    };
    work.files.iter().map(one).collect()
}

fn mapped(work: &Work, maps: &[Map], thread: u64) -> Done {
    let (mut done, mut places) = (Done::new(work), Places::new(work, thread));
    while work.begin.elapsed() < work.time {
        let Some((file, offset, len)) = places.next() else { break };
        assert!(offset + len <= maps[file].1 as u64);
        // SAFETY: the range was just checked, is mapped until the process ends, and nobody writes.
        let bytes = unsafe {
            std::slice::from_raw_parts((maps[file].0 + offset as usize) as *const u8, len as usize)
        };
        let from = Instant::now();
        done.sum = done.sum.wrapping_add(add_up(bytes));
        done.note(work, from, len);
    }
    done
}

fn pread(work: &Work, thread: u64) -> Done {
    let (mut done, mut places) = (Done::new(work), Places::new(work, thread));
    let files: Vec<_> = work.files.iter().map(|path| File::open(path).unwrap()).collect();
    let mut buffer = vec![0; work.request.max(PAGE) as usize];
    while work.begin.elapsed() < work.time {
        let Some((file, offset, len)) = places.next() else { break };
        let bytes = &mut buffer[..len as usize];
        let from = Instant::now();
        files[file].read_exact_at(bytes, offset).unwrap();
        done.sum = done.sum.wrapping_add(add_up(bytes));
        done.note(work, from, len);
    }
    done
}

/// The files in one directory, opened past the page cache.
fn open_direct(work: &Work) -> (Directory, Vec<FileRef>) {
    let parent = work.files[0].parent().unwrap_or(Path::new("."));
    let options = DirectoryOptions { engine: Engine::Ring, create: false };
    let directory = Directory::open(parent, options).unwrap();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let open = |path| directory.open(&name(path), Access::Read).unwrap().unwrap();
    let files = work.files.iter().map(open).collect();
    (directory, files)
}

fn uring(work: &Work, thread: u64) -> Done {
    let (mut done, mut places) = (Done::new(work), Places::new(work, thread));
    let (directory, files) = open_direct(work);
    let len = if work.random { PAGE } else { work.request } as u32;
    let buffers = vec![BufferClass { len, count: work.depth }];
    let mut queue: Box<dyn Queue> =
        directory.queue(&QueueOptions { depth: work.depth, buffers }).unwrap();
    let mut begun = vec![work.begin; work.depth as usize];
    let mut free: Vec<usize> = (0..work.depth as usize).collect();
    loop {
        while work.begin.elapsed() < work.time {
            if free.is_empty() {
                break;
            }
            let Some((file, offset, len)) = places.next() else { break };
            let Some(slot) = free.pop() else { break };
            let buffer = queue.take_buffer(len as usize).unwrap();
            begun[slot] = Instant::now();
            let file = files[file].clone();
            let (direction, len, tag) = (Direction::Read, len as u32, slot as u64);
            queue.submit(Request { file, direction, offset, len, buffer, tag });
        }
        let Some(completion) = queue.wait() else { break };
        completion.result.unwrap();
        let (slot, bytes) = (completion.tag as usize, &completion.buffer[..len as usize]);
        done.sum = done.sum.wrapping_add(add_up(bytes));
        done.note(work, begun[slot], u64::from(len));
        free.push(slot);
    }
    done
}
