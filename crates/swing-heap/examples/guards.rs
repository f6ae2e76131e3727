//! What a guard costs on an object in memory, beside a plain load through an address of ordinary
//! memory; with more and more threads, each with objects of its own. Prints a line of JSON.
//!
//!     guards [MOST_THREADS]

use std::sync::Barrier;
use std::time::Instant;

use swing_heap::{Handle, HeapOptions, ObjectHeap};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Objects of a thread, which the processor's own cache holds.
const OBJECTS: usize = 512;
const BYTES: usize = 256;
const ACCESSES: usize = 4_000_000;

/// Time that this thread has used a processor: other programs do not count.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills a valid structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Nanoseconds of one access of the fastest of five rounds.
fn fastest(mut round: impl FnMut() -> u64) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let started = thread_seconds();
        std::hint::black_box(round());
        best = best.min(thread_seconds() - started);
    }
    best / ACCESSES as f64 * 1e9
}

fn through_guards(heap: &ObjectHeap, handles: &[Handle]) -> u64 {
    let mut sum = 0;
    for i in 0..ACCESSES {
        // The first byte of an object, which a guard that fails would lack.
        if let Ok(guard) = heap.read(handles[i % OBJECTS]) {
            sum += u64::from(guard[0]);
        }
    }
    sum
}

fn through_addresses(objects: &[Box<[u8]>]) -> u64 {
    let mut sum = 0;
    for i in 0..ACCESSES {
        sum += u64::from(std::hint::black_box(&objects[i % OBJECTS])[0]);
    }
    sum
}

fn objects(heap: &ObjectHeap) -> Result<Vec<Handle>> {
    let made = (0..OBJECTS).map(|i| heap.alloc_from(&[i as u8; BYTES]));
    Ok(made.collect::<std::result::Result<_, _>>()?)
}

fn main() -> Result<()> {
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let heap = ObjectHeap::open(folder.path(), HeapOptions::default())?;
    let handles = objects(&heap)?;
    let plain: Vec<Box<[u8]>> = (0..OBJECTS).map(|i| vec![i as u8; BYTES].into()).collect();
    assert_eq!(through_guards(&heap, &handles), through_addresses(&plain));
    let guard = fastest(|| through_guards(&heap, &handles));
    let address = fastest(|| through_addresses(&plain));
    let cores = std::thread::available_parallelism()?.get();
    let most = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => cores,
    };
    let mut rates = Vec::new();
    for threads in (0..).map(|power| 1 << power).take_while(|&threads| threads <= most) {
        let sets = (0..threads).map(|_| objects(&heap)).collect::<Result<Vec<_>>>()?;
        let barrier = Barrier::new(threads + 1);
        let seconds = std::thread::scope(|scope| {
            let work = |handles: &[Handle]| {
                barrier.wait();
                for _ in 0..4 {
                    std::hint::black_box(through_guards(&heap, handles));
                }
            };
            let running: Vec<_> = sets.iter().map(|set| scope.spawn(move || work(set))).collect();
            barrier.wait();
            let started = Instant::now();
            running.into_iter().for_each(|thread| drop(thread.join()));
            started.elapsed().as_secs_f64()
        });
        let rate = (4 * ACCESSES * threads) as f64 / seconds / 1e6;
        rates.push(format!("\"{threads}\": {rate:.1}"));
    }
    println!(
        "{{\"cores\": {cores}, \"guard_ns\": {guard:.2}, \"address_ns\": {address:.2}, \
         \"million_guards_per_second\": {{{}}}}}",
        rates.join(", ")
    );
    Ok(())
}
