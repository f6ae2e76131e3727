//! What one allocation and one free cost, operations only (no touching of memory), on a real area,
//! with 1000 blocks alive; and what the first allocations after a publish copy.
//!
//! ```text
//! cargo run --release -p swing-malloc --example operations
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};
use swing::{Area, AreaOptions, ByteLen, Namespace, Publish};
use swing_malloc::{Heap, HeapOptions};

const ROUNDS: usize = 7;
const ALIVE: usize = 1000;
const OPERATIONS: usize = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir_in("/dev/shm")?;
    let namespace = Namespace::open(home.path())?;
    let area = Arc::new(namespace.create_unnamed(&AreaOptions::default())?);
    let heap = Heap::create(area.clone(), HeapOptions::default())?;
    println!("{:>12} {:>12} {:>12}", "bytes", "ns/pair", "spread");
    for len in [100, 1000, 10_000, 31_000, 100_000, 1 << 20, 10 << 20] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            times.push(pairs(&heap, len)?.as_nanos() as f64 / OPERATIONS as f64);
        }
        times.sort_by(f64::total_cmp);
        let (least, median, most) = (times[0], times[ROUNDS / 2], times[ROUNDS - 1]);
        println!("{len:>12} {median:>12.0} {:>12}", format!("{least:.0}-{most:.0}"));
    }
    heap.check()?;
    first_after_publish(&area, &heap)
}

/// Frees one of the living blocks and allocates another, in random order.
fn pairs(heap: &Heap, len: u64) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut rng = fastrand::Rng::with_seed(len);
    let alive = if len > 1 << 20 { ALIVE / 10 } else { ALIVE };
    let mut blocks = Vec::with_capacity(alive);
    for _ in 0..alive {
        blocks.push(heap.allocate(ByteLen(len))?.offset);
    }
    let start = Instant::now();
    for _ in 0..OPERATIONS {
        let slot = rng.usize(..alive);
        heap.free(blocks[slot])?;
        blocks[slot] = heap.allocate(ByteLen(len))?.offset;
    }
    let taken = start.elapsed();
    for block in blocks {
        heap.free(block)?;
    }
    Ok(taken)
}

fn first_after_publish(area: &Area, heap: &Heap) -> Result<(), Box<dyn std::error::Error>> {
    let mut times = Vec::new();
    let mut copied = 0;
    for _ in 0..100 {
        area.publish(Publish::Shared, b"")?;
        // A reader keeps the state, so that metadata cannot be written in place.
        let reader = area.freeze_view()?;
        let before = area.stats().copied.0;
        let start = Instant::now();
        heap.allocate(ByteLen(500))?;
        heap.allocate(ByteLen(50_000))?;
        times.push(start.elapsed());
        copied = u64::max(copied, area.stats().copied.0 - before);
        drop(reader);
    }
    times.sort();
    println!(
        "first two allocations after a publish: {:?} median, {copied} bytes copied",
        times[50]
    );
    Ok(())
}
