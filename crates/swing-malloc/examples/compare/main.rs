//! Times allocator operations, without touching the memory: `compare ALLOCATOR JOB THREADS`.
//!
//! `ALLOCATOR` is `swing`, or `process` for whatever `malloc` of this process is (start it with
//! LD_PRELOAD to measure another). Jobs: `small` (below 1 KB), `medium` (1 KB to 64 MB), `large`
//! (64 MB to 16 GB): sizes spread evenly over the powers of two, each operation frees one of the
//! live blocks at random and allocates another. `growing`: arrays that grow by reallocation to what
//! a column of a million values needs, as rows are added, several columns at a time. Prints
//! nanoseconds for one free with one allocation, or for one reallocation, as JSON.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::Instant;
use swing::{AreaOffset, AreaOptions, ByteLen, Namespace};
use swing_malloc::{Heap, HeapOptions, Malloc};

unsafe extern "C" {
    fn malloc(len: usize) -> *mut u8;
    fn free(at: *mut u8);
}

trait Allocator: Sync {
    fn get(&self, len: u64) -> (u64, u64);
    fn put(&self, at: u64);
    /// Makes an array hold `len` bytes; nothing is copied.
    fn grow(&self, array: &mut (u64, u64), len: u64);
}

struct Swing(Malloc);

impl Allocator for Swing {
    #[inline]
    fn get(&self, len: u64) -> (u64, u64) {
        self.0.allocate(ByteLen(len)).map_or((0, 0), |grant| (grant.offset.0, grant.len.0))
    }

    #[inline]
    fn put(&self, at: u64) {
        if self.0.free(AreaOffset(at)).is_err() {
            panic!("no block at {at}");
        }
    }

    fn grow(&self, array: &mut (u64, u64), len: u64) {
        // The size granted is known, so most calls find that there is room.
        if len > array.1 {
            let new = self.get(len);
            self.put(array.0);
            *array = new;
        }
    }
}

struct Process;

impl Allocator for Process {
    #[inline]
    fn get(&self, len: u64) -> (u64, u64) {
        // SAFETY: any length may be asked for.
        (unsafe { malloc(len as usize) } as u64, len)
    }

    #[inline]
    fn put(&self, at: u64) {
        // SAFETY: `at` came from `malloc` and is freed once.
        unsafe { free(at as *mut u8) }
    }

    fn grow(&self, array: &mut (u64, u64), len: u64) {
        // As the paper's trace: a new array, then the old one is freed.
        if len > array.1 {
            let new = self.get(len);
            self.put(array.0);
            *array = new;
        }
    }
}

fn sizes(job: &str, rng: &mut fastrand::Rng) -> Vec<u64> {
    let (low, high) = match job {
        "small" => (3, 10),
        "medium" => (10, 26),
        _ => (26, 34),
    };
    let size = |_| {
        let shift = rng.u32(low..high);
        rng.u64((1 << shift)..(1 << (shift + 1)))
    };
    (0..4096).map(size).collect()
}

/// Free one, allocate one; nanoseconds each.
fn replace(allocator: &dyn Allocator, job: &str, seed: u64, start: &Barrier) -> f64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let sizes = sizes(job, &mut rng);
    let (live, rounds) = match job {
        "small" => (1000, 2_000_000),
        "medium" => (100, 100_000),
        _ => (8, 5_000),
    };
    let mut blocks: Vec<u64> = (0..live).map(|i| allocator.get(sizes[i]).0).collect();
    let order: Vec<u32> = (0..4099).map(|_| rng.u32(..live as u32)).collect();
    let mut best = f64::MAX;
    start.wait();
    for _ in 0..3 {
        let begun = Instant::now();
        for i in 0..rounds {
            let slot = order[i % order.len()] as usize;
            allocator.put(blocks[slot]);
            let block = allocator.get(sizes[i % sizes.len()]).0;
            assert!(block != 0, "out of memory");
            blocks[slot] = black_box(block);
        }
        best = best.min(begun.elapsed().as_nanos() as f64 / rounds as f64);
    }
    blocks.into_iter().for_each(|block| allocator.put(block));
    best
}

/// Columns that grow by half while rows are added in batches; nanoseconds a reallocation.
fn growing(allocator: &dyn Allocator, start: &Barrier) -> f64 {
    const COLUMNS: usize = 16;
    const BYTES: u64 = 1 << 30;
    let (mut begun, mut calls) = (Instant::now(), 0_u64);
    for round in 0..50 {
        if round == 1 {
            // The first round has made the allocator's own memory.
            start.wait();
            (begun, calls) = (Instant::now(), 0);
        }
        let mut columns: Vec<(u64, u64)> = (0..COLUMNS).map(|_| allocator.get(1024)).collect();
        let mut wanted = 1024;
        while wanted < BYTES {
            wanted += wanted / 2;
            for column in &mut columns {
                allocator.grow(column, wanted);
                calls += 1;
            }
        }
        columns.into_iter().for_each(|column| allocator.put(column.0));
    }
    begun.elapsed().as_nanos() as f64 / calls as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, job, threads] = &arguments[..] else {
        return Err("compare swing|process small|medium|large|growing THREADS".into());
    };
    let threads: usize = threads.parse()?;
    let home = std::env::temp_dir().join(format!("swing-compare-{}", std::process::id()));
    let allocator: Box<dyn Allocator> = if kind == "swing" {
        let namespace = Namespace::open(&home)?;
        let area = namespace.create_unnamed(&AreaOptions::with_reserve(ByteLen::gib(4096)))?;
        Box::new(Swing(Malloc::open(Heap::create(Arc::new(area), HeapOptions::default())?)?))
    } else {
        Box::new(Process)
    };
    let start = Barrier::new(threads);
    let (inner, start) = (&*allocator, &start);
    let times: Vec<f64> = std::thread::scope(|scope| {
        let run = |id| {
            move || match job.as_str() {
                "growing" => growing(inner, start),
                job => replace(inner, job, 7 + id, start),
            }
        };
        let threads: Vec<_> = (0..threads as u64).map(|id| scope.spawn(run(id))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    println!("{{\"ns\": {mean:.2}}}");
    drop(allocator);
    let _ = std::fs::remove_dir_all(&home);
    Ok(())
}
