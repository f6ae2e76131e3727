//! Random access, 80 % of it to a fifth of the objects: through the heap, or to plain memory that
//! the operating system may swap. One line of JSON with time and bytes.
//!
//!     random_access heap|malloc OBJECTS BYTES ACCESSES WRITES_PERCENT [BUDGET_MIB DIRECTORY]
//!
//! Run each form under the same limit of memory: `bench/heap/random_access.py` does.

use std::path::Path;
use std::time::Instant;

use swing_heap::{HeapOptions, ObjectHeap};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| -> Result<usize, Box<dyn std::error::Error>> {
        Ok(arguments.get(i).ok_or("too few arguments; see the source")?.parse()?)
    };
    let (objects, bytes, accesses, writes) = (number(2)?, number(3)?, number(4)?, number(5)?);
    let mut random = fastrand::Rng::with_seed(42);
    let mut order: Vec<u32> = (0..objects as u32).collect();
    random.shuffle(&mut order);
    let mut next = || {
        let hot = random.u32(..10) < 8;
        let place = random.usize(..if hot { objects / 5 } else { objects });
        (order[place] as usize, random.usize(..100) < writes)
    };
    if arguments[1] == "malloc" {
        let mut all: Vec<Box<[u8]>> =
            (0..objects).map(|i| vec![i as u8; bytes].into_boxed_slice()).collect();
        let started = Instant::now();
        let mut sum = 0_u64;
        for _ in 0..accesses {
            let (id, write) = next();
            sum += all[id].iter().step_by(64).map(|&b| u64::from(b)).sum::<u64>();
            if write {
                all[id][0] = all[id][0].wrapping_add(1);
            }
        }
        println!("{{\"seconds\": {:.3}, \"sum\": {sum}}}", started.elapsed().as_secs_f64());
        return Ok(());
    }
    let budget = (number(6)? as u64) << 20;
    let folder = arguments.get(7).ok_or("a directory is missing")?;
    let heap = ObjectHeap::open(Path::new(folder), HeapOptions { budget, ..Default::default() })?;
    let all = (0..objects)
        .map(|i| heap.alloc_from(&vec![i as u8; bytes]))
        .collect::<Result<Vec<_>, _>>()?;
    let before = heap.stats()?;
    let started = Instant::now();
    let mut sum = 0_u64;
    for _ in 0..accesses {
        let (id, write) = next();
        if write {
            let mut guard = heap.write(all[id])?;
            sum += guard.iter().step_by(64).map(|&b| u64::from(b)).sum::<u64>();
            guard[0] = guard[0].wrapping_add(1);
        } else {
            sum += heap.read(all[id])?.iter().step_by(64).map(|&b| u64::from(b)).sum::<u64>();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let stats = heap.stats()?;
    let (hits, misses) = (stats.hits - before.hits, stats.misses - before.misses);
    let [p50, p99, p999] = stats.miss_latencies.map(|d| d.as_micros());
    println!(
        "{{\"seconds\": {seconds:.3}, \"sum\": {sum}, \"hit_rate\": {:.4}, \"read_bytes\": {}, \
         \"written_bytes\": {}, \"write_amplification\": {:.3}, \"fragmentation\": {:.3}, \
         \"miss_us\": [{p50}, {p99}, {p999}]}}",
        hits as f64 / (hits + misses) as f64,
        stats.read_bytes - before.read_bytes,
        stats.written_bytes - before.written_bytes,
        stats.write_amplification(),
        stats.fragmentation(),
    );
    Ok(())
}
