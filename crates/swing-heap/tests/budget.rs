//! The budget as seen from outside: the resident memory of the process and its page tables, while
//! threads allocate, read, write and resize, and another one changes the budget. Each kind of heap
//! runs in a process of its own, so that nobody else's memory is counted.

mod common;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use common::{in_area, on_disk, seed};
use swing_heap::{Handle, HeapOptions, ObjectHeap};

const CASE: &str = "SWING_BUDGET_CASE";
const CASES: [&str; 5] = ["ephemeral", "persistent", "pointers", "persistent-pointers", "area"];
const THREADS: usize = 3;
const OBJECTS: usize = 40_000;
/// What a thread of the test takes itself: touched stack, its allocator, its table of handles.
const OWN_BYTES: u64 = 256 << 10;

/// Resident memory and page tables.
fn taken() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (kib("VmRSS") + kib("VmPTE")) << 10
}

/// Compares what is taken with the larger of two budgets while one becomes the other.
struct Watch {
    before: u64,
    allowed: AtomicU64,
    /// The most that was taken of the budget, in thousandths.
    most: AtomicU64,
}

impl Watch {
    fn look(&self) {
        let budget = self.allowed.load(SeqCst);
        let taken = taken().saturating_sub(self.before);
        let budget = budget.max(self.allowed.load(SeqCst));
        self.most.fetch_max(taken * 1000 / budget, SeqCst);
        assert!(taken <= budget * 105 / 100, "{taken} of {budget}");
    }
}

/// Allocates, then touches objects until time is up; the handles lie in memory made before.
fn work(heap: &ObjectHeap, seed: u64, by_address: bool, handles: &mut [Handle], until: Instant) {
    let mut random = fastrand::Rng::with_seed(seed);
    for handle in &mut *handles {
        let len = if by_address { random.usize(1..2000) } else { random.usize(1..3000) };
        *handle = heap.alloc(len).unwrap();
    }
    while Instant::now() < until {
        let handle = &mut handles[random.usize(..OBJECTS)];
        match random.u32(..100) {
            0..4 => {
                heap.free(*handle).unwrap();
                *handle = heap.alloc(random.usize(1..2000)).unwrap();
            }
            4..6 => heap.realloc(*handle, random.usize(1..2000)).unwrap(),
            6..50 if by_address => {
                let at = heap.pointer(*handle).unwrap().as_ptr();
                // SAFETY: the object has a byte at least, which only this thread uses.
                unsafe { at.write_volatile(at.read_volatile().wrapping_add(1)) };
            }
            6..40 => heap.write(*handle).unwrap()[0] ^= 1,
            _ => drop(heap.read(*handle).unwrap()),
        }
    }
}

fn run(case: &str) {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let seconds = std::env::var("SWING_SECONDS").map_or(4, |text| text.parse().unwrap());
    let (folder, place) = (on_disk(), in_area::place());
    let mut random = fastrand::Rng::with_seed(seed);
    // Threads, their stacks and the handles are the test's, not the heap's.
    let filler = Handle::from_bits(1);
    let mut handles = vec![vec![filler; OBJECTS]; THREADS];
    let before = taken() + (THREADS as u64 + 1) * OWN_BYTES;
    let options = HeapOptions { budget: 48 << 20, ..HeapOptions::default() };
    let heap = match case {
        "persistent" | "persistent-pointers" => ObjectHeap::open_persistent(folder.path(), options),
        "area" => Ok(in_area::open(&place, options)),
        _ => ObjectHeap::open(folder.path(), options),
    }
    .unwrap();
    let by_address = case.ends_with("pointers");
    if by_address && heap.enable_pointers(None).is_err() {
        return; // The system gives this process no userfaultfd.
    }
    let watch = Watch { before, allowed: AtomicU64::new(48 << 20), most: AtomicU64::new(0) };
    let until = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        for (index, handles) in handles.iter_mut().enumerate() {
            let heap = &heap;
            scope.spawn(move || work(heap, seed + index as u64, by_address, handles, until));
        }
        while Instant::now() < until {
            for _ in 0..20 {
                watch.look();
                std::thread::sleep(Duration::from_millis(2));
            }
            let (old, new) = (watch.allowed.load(SeqCst), random.u64(24 << 20..96 << 20));
            watch.allowed.store(old.max(new), SeqCst);
            heap.set_budget(new).unwrap();
            watch.allowed.store(new, SeqCst);
            watch.look();
            if case.starts_with("persistent") && random.bool() {
                heap.flush().unwrap();
                watch.look();
            }
        }
    });
    println!("{case}: at most {} thousandths of the budget", watch.most.load(SeqCst));
    heap.check().unwrap();
}

/// Only what a child process of the next test runs.
#[test]
fn the_case_of_the_environment() {
    if let Ok(case) = std::env::var(CASE) {
        run(&case);
    }
}

#[test]
fn the_budget_holds_as_seen_from_outside_also_while_it_changes() {
    if std::env::var_os(CASE).is_some() {
        return;
    }
    for case in CASES {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "the_case_of_the_environment", "--nocapture"]).env(CASE, case);
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.starts_with(case)).unwrap_or("not run");
        println!("{line}");
        assert!(
            output.status.success(),
            "{case}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn all_again_by_mappings() {
    common::again_by_mappings("all_again_by_mappings");
}
