//! Garbage collection while objects are overwritten at random, the file 80 % full.

mod common;

use common::{on_disk, seed};
use swing_heap::{HeapOptions, ObjectHeap};

#[test]
fn a_file_that_is_80_percent_full_takes_random_changes() {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let folder = on_disk();
    let options = HeapOptions { budget: 8 << 20, disk_limit: 40 << 20, ..Default::default() };
    let heap = ObjectHeap::open(folder.path(), options).unwrap();
    let mut model = vec![0_u8; 32_000];
    let handles: Vec<_> = model.iter().map(|_| heap.alloc_zeroed(1016).unwrap()).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..60_000 {
        let chosen = random.usize(..model.len());
        model[chosen] = model[chosen].wrapping_add(1);
        heap.write(handles[chosen]).unwrap().fill(model[chosen]);
    }
    let stats = heap.stats().unwrap();
    println!("amplification {:.2}, {stats:?}", stats.write_amplification());
    assert!(stats.moved_bytes > 0 && stats.file_bytes <= 40 << 20, "{stats:?}");
    heap.check().unwrap();
    for (&handle, &value) in handles.iter().zip(&model) {
        assert!(heap.read(handle).unwrap().iter().all(|&byte| byte == value), "seed {seed}");
    }
    heap.check().unwrap();
}
