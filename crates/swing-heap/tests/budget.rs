//! The budget as seen from outside: the resident memory of the process. The only test of its file,
//! so that no other one's memory is counted.

mod common;

use common::on_disk;
use swing_heap::{HeapOptions, ObjectHeap};

fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn the_budget_holds_as_seen_from_outside() {
    let folder = on_disk();
    let before = rss();
    let options = HeapOptions { budget: 64 << 20, ..Default::default() };
    let heap = ObjectHeap::open(folder.path(), options).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut handles = Vec::with_capacity(120_000);
    // The list of handles is the test's, not the heap's.
    handles.resize(120_000, heap.alloc(1).unwrap());
    let own = 120_000 * 8;
    for (i, handle) in handles.iter_mut().enumerate() {
        *handle = heap.alloc(random.usize(1..2000)).unwrap();
        if i % 10_000 == 0 {
            let taken = rss() - before - own;
            assert!(taken <= (64 << 20) * 105 / 100, "{taken}");
        }
    }
    for budget in [32_u64 << 20, 80 << 20, 24 << 20] {
        heap.set_budget(budget).unwrap();
        for _ in 0..10_000 {
            heap.write(handles[random.usize(..handles.len())]).unwrap();
        }
        let taken = rss() - before - own;
        println!("budget {budget}, taken {taken}");
        assert!(taken <= budget * 105 / 100, "{taken} of {budget}");
    }
}
