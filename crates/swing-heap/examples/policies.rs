//! Hit rates of the heap's policies on traces of accesses, beside those of LRU and of the best
//! choice that there is (Belady). Prints a line of JSON for each trace and share of memory.
//!
//!     policies DIRECTORY [ACCESSES] [TRACE.trace ...]
//!
//! `bench/heap/policies.py` runs this, and makes the table. Hits do not depend on the disk, so the
//! directory may lie in memory.

#[path = "policies/simulated.rs"]
mod simulated;
#[path = "../../swing-malloc/examples/compare/trace.rs"]
mod trace;
#[path = "policies/traces.rs"]
mod traces;

use std::path::Path;

use swing_heap::{Handle, HeapOptions, ObjectHeap, PolicyKind};
use trace::Event;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const POLICIES: [PolicyKind; 2] = [PolicyKind::TwoLists, PolicyKind::S3Fifo];
/// Eight chunks of objects, buffers, and half of a chunk for lists of blocks.
const BUDGET: u64 = 21 << 19;
/// What the heap keeps of each object, in memory or not.
const ENTRY_BYTES: u64 = 16;
/// For recorded programs: their objects have many lengths, and a chunk has one.
const RECORDED_BUDGET: u64 = 64 << 20;
/// Programs run beside each other until their objects take about so much.
const RECORDED_BYTES: u64 = 160 << 20;
/// Fills a cell of 1 KiB.
const OBJECT_BYTES: usize = 1024;
/// Parts of the objects that memory has room for, in percent.
const SHARES: [usize; 3] = [5, 20, 50];
/// Of a hundred accesses so many are writes.
const WRITES: usize = 20;

/// What one policy did in the second half of a trace.
struct Found {
    hit_rate: f64,
    written: u64,
    capacity: usize,
}

/// All objects once, then the trace. The first half of its accesses is not counted.
fn run(folder: &Path, policy: PolicyKind, objects: usize, accesses: &[u32]) -> Result<Found> {
    let budget = BUDGET + ENTRY_BYTES * objects as u64;
    let options = HeapOptions { budget, policy, ..Default::default() };
    let heap = ObjectHeap::open(folder, options)?;
    let mut handles = Vec::with_capacity(objects);
    for id in 0..objects {
        handles.push(heap.alloc_from(&[id as u8; OBJECT_BYTES])?);
    }
    let (first, second) = accesses.split_at(accesses.len() / 2);
    let touch = |ids: &[u32]| -> Result<()> {
        for (number, &id) in ids.iter().enumerate() {
            let handle = handles[id as usize];
            match number * 7 % 100 < WRITES {
                true => heap.write(handle)?[0] ^= 1,
                false => drop(heap.read(handle)?),
            }
        }
        Ok(())
    };
    touch(first)?;
    let before = heap.stats()?;
    touch(second)?;
    let after = heap.stats()?;
    Ok(Found {
        hit_rate: (after.hits - before.hits) as f64 / second.len() as f64,
        written: after.written_bytes - before.written_bytes,
        capacity: after.resident_objects as usize,
    })
}

fn length(len: u64) -> usize {
    len.clamp(1, swing_heap::MAX_OBJECT_BYTES as u64) as usize
}

/// The most bytes that a recorded program has at a time.
fn most_bytes(events: &[Event]) -> u64 {
    let (mut live, mut sum, mut most) = (vec![0; trace::slots(events)], 0, 0);
    for event in events {
        let (slot, len) = match *event {
            Event::Free { slot } => (slot, 0),
            Event::Allocate { slot, len } | Event::Reallocate { slot, len } => (slot, length(len)),
        };
        sum = sum + len - std::mem::replace(&mut live[slot], len);
        most = most.max(sum);
    }
    most as u64
}

/// Copies of a recorded program: an allocation makes an object, other events use it.
fn replay(folder: &Path, policy: PolicyKind, copies: usize, events: &[Event]) -> Result<Found> {
    let options = HeapOptions { budget: RECORDED_BUDGET, policy, ..Default::default() };
    let heap = ObjectHeap::open(folder, options)?;
    let mut live = vec![vec![None::<Handle>; trace::slots(events)]; copies];
    let mut places: Vec<usize> = vec![0; copies];
    let mut random = fastrand::Rng::with_seed(3);
    let mut turns = 0;
    while turns < copies * events.len() {
        // A program runs a while, then another one.
        let copy = random.usize(..copies);
        for _ in 0..random.usize(1..64) {
            turns += 1;
            let (slots, place) = (&mut live[copy], &mut places[copy]);
            match events[*place] {
                Event::Allocate { slot, len } => slots[slot] = Some(heap.alloc(length(len))?),
                Event::Free { slot } => {
                    let handle = slots[slot].take().ok_or("a free slot is freed")?;
                    drop(heap.read(handle)?);
                    heap.free(handle)?;
                }
                Event::Reallocate { slot, len } => {
                    heap.realloc(slots[slot].ok_or("a free slot is used")?, length(len))?;
                }
            }
            *place += 1;
            if *place == events.len() {
                for handle in slots.iter_mut().filter_map(Option::take) {
                    heap.free(handle)?;
                }
                *place = 0;
            }
        }
    }
    let stats = heap.stats()?;
    let capacity = stats.resident_objects as usize;
    Ok(Found { hit_rate: stats.hit_rate(), written: stats.written_bytes, capacity })
}

fn print(trace: &str, share: Option<usize>, objects: usize, found: &[Found], others: &[f64]) {
    let rates: Vec<String> = found.iter().map(|f| format!("{:.4}", f.hit_rate)).collect();
    let written: Vec<String> = found.iter().map(|f| f.written.to_string()).collect();
    let others: Vec<String> = others.iter().map(|rate| format!("{rate:.4}")).collect();
    println!(
        "{{\"trace\": \"{trace}\", \"share\": {}, \"objects\": {objects}, \"capacity\": {}, \
         \"two_lists_s3fifo\": [{}], \"written_bytes\": [{}], \"lru_best\": [{}]}}",
        share.map_or("null".to_owned(), |share| share.to_string()),
        found[0].capacity,
        rates.join(", "),
        written.join(", "),
        others.join(", "),
    );
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = Path::new(arguments.get(1).ok_or("a directory is missing")?);
    let accesses: usize = arguments.get(2).map_or(Ok(400_000), |text| text.parse())?;
    // Room for objects of this length, as the heap has it.
    let capacity = run(folder, PolicyKind::TwoLists, 20_000, &[0, 1])?.capacity;
    for (name, make) in traces::ALL {
        for share in SHARES {
            let objects = capacity * 100 / share;
            let ids = make(objects, accesses);
            let runs = POLICIES.iter().map(|&policy| run(folder, policy, objects, &ids));
            let found = runs.collect::<Result<Vec<_>>>()?;
            let others = [
                simulated::lru(objects, &ids, found[0].capacity),
                simulated::best(objects, &ids, found[0].capacity),
            ];
            print(name, Some(share), objects, &found, &others);
        }
    }
    for path in arguments.iter().skip(3) {
        let events = trace::read(&std::fs::read(path)?)?;
        let copies = (RECORDED_BYTES / most_bytes(&events).max(1)).max(1) as usize;
        let runs = POLICIES.iter().map(|&policy| replay(folder, policy, copies, &events));
        let found = runs.collect::<Result<Vec<_>>>()?;
        let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
        print(&name, None, copies * trace::slots(&events), &found, &[]);
    }
    Ok(())
}
