//! Times allocator operations, without touching the memory.
//!
//! ```text
//! compare ALLOCATOR JOB THREADS [TRACE]
//! ```
//!
//! `ALLOCATOR` is `swing`, or `process` for whatever `malloc` of this process is (start it with
//! LD_PRELOAD to measure another). Jobs:
//!
//! - `small` (below 1 KB), `medium` (1 KB to 64 MB), `large` (64 MB to 16 GB): sizes spread evenly
//!   over the powers of two, each operation frees one of the live blocks at random and allocates
//!   another.
//! - `pass`: as `small`, but the block that is freed is one that any thread has allocated.
//! - `growing`: arrays that grow by reallocation to what a column of a million values needs, as
//!   rows are added, several columns at a time.
//! - `trace`: what a program was recorded to do ([`trace`]).
//!
//! An operation is one free with one allocation, or one reallocation, or one event of the trace.
//! Prints as JSON the nanoseconds that a thread needed for one (the best of three rounds, mean of
//! the threads), and how many all threads did together in a second, from the start of the first to
//! the end of the last. Every operation is one call for every allocator: ours is not inlined.

mod trace;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use swing::{AreaOffset, AreaOptions, ByteLen, Namespace};
use swing_malloc::{Heap, HeapOptions, Malloc};
use trace::Event;

unsafe extern "C" {
    fn malloc(len: usize) -> *mut u8;
    fn free(at: *mut u8);
}

trait Allocator: Sync {
    /// Where a block of `len` bytes is, not zero, and how long it is.
    fn get(&self, len: u64) -> (u64, u64);
    fn put(&self, at: u64);
}

struct Swing(Malloc);

impl Allocator for Swing {
    #[inline(never)]
    fn get(&self, len: u64) -> (u64, u64) {
        self.0.allocate(ByteLen(len)).map_or((0, 0), |grant| (grant.offset.0, grant.len.0))
    }

    #[inline(never)]
    fn put(&self, at: u64) {
        if self.0.free(AreaOffset(at)).is_err() {
            panic!("no block at {at}");
        }
    }
}

struct Process;

impl Allocator for Process {
    #[inline(always)]
    fn get(&self, len: u64) -> (u64, u64) {
        // SAFETY: any length may be asked for.
        (unsafe { malloc(len as usize) } as u64, len)
    }

    #[inline(always)]
    fn put(&self, at: u64) {
        // SAFETY: `at` came from `malloc` and is freed once.
        unsafe { free(at as *mut u8) }
    }
}

/// What one thread did.
struct Done {
    begun: Instant,
    ended: Instant,
    operations: u64,
    /// Of the fastest of [`ROUNDS`].
    ns: f64,
}

const ROUNDS: u32 = 3;
/// How long each takes at least.
const ROUND: Duration = Duration::from_millis(50);

/// Times `ROUNDS` rounds of `work`, which says how many operations it did, after everybody has done
/// it once without being timed.
fn timed(start: &Barrier, mut work: impl FnMut() -> u64) -> Done {
    work();
    start.wait();
    let begun = Instant::now();
    let (mut ended, mut operations, mut ns) = (begun, 0, f64::MAX);
    for _ in 0..ROUNDS {
        let (before, mut count) = (ended, 0);
        while ended - before < ROUND {
            count += work();
            ended = Instant::now();
        }
        operations += count;
        ns = ns.min((ended - before).as_nanos() as f64 / count.max(1) as f64);
    }
    Done { begun, ended, operations, ns }
}

/// Entries of the tables of random numbers: a power of two, for a loop that costs little itself.
const RANDOM: usize = 4096;

/// Free one, allocate one.
fn replace(allocator: &impl Allocator, job: &str, seed: u64, start: &Barrier) -> Done {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (low, high, live, count) = match job {
        "small" => (3, 10, 1000, 100_000),
        "medium" => (10, 26, 100, 2_000),
        _ => (26, 34, 8, 200),
    };
    let size = |_| {
        let shift = rng.u32(low..high);
        rng.u64((1 << shift)..(1 << (shift + 1)))
    };
    let sizes: Vec<u64> = (0..RANDOM).map(size).collect();
    let order: Vec<u32> = (0..RANDOM).map(|_| rng.u32(..live as u32)).collect();
    let mut blocks: Vec<u64> = (0..live).map(|i| allocator.get(sizes[i]).0).collect();
    let mut at = 0;
    let done = timed(start, || {
        for i in at..at + count {
            let slot = order[i % RANDOM] as usize;
            allocator.put(blocks[slot]);
            // Not in step with the order, so that each slot gets each size.
            let block = allocator.get(sizes[(i + i / RANDOM) % RANDOM]).0;
            assert!(block != 0, "out of memory");
            blocks[slot] = black_box(block);
        }
        at += count;
        count as u64
    });
    blocks.into_iter().for_each(|block| allocator.put(block));
    done
}

/// Allocate one, put it where any thread takes it from, free the one that was there.
fn pass(allocator: &impl Allocator, seed: u64, shared: &[AtomicU64], start: &Barrier) -> Done {
    let mut rng = fastrand::Rng::with_seed(seed);
    let sizes: Vec<u64> = (0..RANDOM).map(|_| 1 << rng.u32(3..10)).collect();
    let order: Vec<u32> = (0..RANDOM).map(|_| rng.u32(..shared.len() as u32)).collect();
    let mut at = 0;
    timed(start, || {
        for i in at..at + 20_000 {
            let block = allocator.get(sizes[i % RANDOM]).0;
            let slot = &shared[order[(i + i / RANDOM) % RANDOM] as usize];
            match slot.swap(block, Ordering::AcqRel) {
                0 => {}
                other => allocator.put(other),
            }
        }
        at += 20_000;
        20_000
    })
}

/// Makes an array hold `len` bytes, as the paper's trace: a new one, then the old one is freed.
/// Nothing is copied. When the size granted is known, most calls find that there is room.
fn grow(allocator: &impl Allocator, array: &mut (u64, u64), len: u64) {
    if len > array.1 {
        let new = allocator.get(len);
        assert!(new.0 != 0, "out of memory");
        allocator.put(array.0);
        *array = new;
    }
}

/// Columns that grow by half while rows are added in batches.
fn growing(allocator: &impl Allocator, start: &Barrier) -> Done {
    const COLUMNS: usize = 16;
    const BYTES: u64 = 1 << 30;
    timed(start, || {
        let mut calls = 0;
        let mut columns: Vec<(u64, u64)> = (0..COLUMNS).map(|_| allocator.get(1024)).collect();
        let mut wanted = 1024;
        while wanted < BYTES {
            wanted += wanted / 2;
            for column in &mut columns {
                grow(allocator, column, wanted);
                calls += 1;
            }
        }
        columns.into_iter().for_each(|column| allocator.put(column.0));
        calls
    })
}

/// A recorded program again and again.
fn replay(allocator: &impl Allocator, events: &[Event], slots: usize, start: &Barrier) -> Done {
    let mut live = vec![(0, 0); slots];
    timed(start, || {
        for event in events {
            match *event {
                Event::Allocate { slot, len } => live[slot] = allocator.get(len),
                Event::Free { slot } => allocator.put(std::mem::take(&mut live[slot]).0),
                Event::Reallocate { slot, len } => grow(allocator, &mut live[slot], len),
            }
        }
        // What the program left to its end.
        let left = live.iter_mut().map(std::mem::take);
        left.filter(|block| block.0 != 0).for_each(|block| allocator.put(block.0));
        events.len() as u64
    })
}

/// One job on so many threads at the same time.
fn measure(allocator: &impl Allocator, job: &str, threads: usize, events: &[Event]) -> Vec<Done> {
    let start = Barrier::new(threads);
    let slots = trace::slots(events);
    let shared: Vec<AtomicU64> = (0..1000).map(|_| AtomicU64::new(0)).collect();
    let done: Vec<Done> = std::thread::scope(|scope| {
        let (start, shared) = (&start, &shared[..]);
        let run = |id| {
            move || match job {
                "pass" => pass(allocator, 7 + id, shared, start),
                "growing" => growing(allocator, start),
                "trace" => replay(allocator, events, slots, start),
                job => replace(allocator, job, 7 + id, start),
            }
        };
        let threads: Vec<_> = (0..threads as u64).map(|id| scope.spawn(run(id))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let left = shared.into_iter().map(AtomicU64::into_inner);
    left.filter(|block| *block != 0).for_each(|block| allocator.put(block));
    assert_eq!(done.len(), threads, "every thread came to its end");
    done
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, job, threads, rest @ ..] = &arguments[..] else {
        return Err("compare swing|process JOB THREADS [TRACE]".into());
    };
    let threads: usize = threads.parse()?;
    let events = match rest.first() {
        Some(path) => trace::read(&std::fs::read(path)?)?,
        None => Vec::new(),
    };
    let done = if kind == "swing" {
        let home = std::env::temp_dir().join(format!("swing-compare-{}", std::process::id()));
        let namespace = Namespace::open(&home)?;
        let area = namespace.create_unnamed(&AreaOptions::with_reserve(ByteLen::gib(4096)))?;
        let malloc = Malloc::open(Heap::create(Arc::new(area), HeapOptions::default())?)?;
        let swing = Swing(malloc);
        let done = measure(&swing, job, threads, &events);
        drop(swing);
        std::fs::remove_dir_all(&home)?;
        done
    } else {
        measure(&Process, job, threads, &events)
    };
    let ns = done.iter().map(|done| done.ns).sum::<f64>() / done.len() as f64;
    let begun = done.iter().map(|done| done.begun).min().ok_or("no thread")?;
    let ended = done.iter().map(|done| done.ended).max().ok_or("no thread")?;
    let operations: u64 = done.iter().map(|done| done.operations).sum();
    let per_second = operations as f64 / (ended - begun).as_secs_f64();
    println!("{{\"ns\": {ns:.2}, \"per_second\": {per_second:.0}}}");
    Ok(())
}
