//! What is written to the disk: garbage collection while objects are overwritten at random, with a
//! file that is 80 % full; and nothing for objects that are only read.

mod common;

use common::{on_disk, seed};
use swing_heap::{HeapOptions, ObjectHeap, PolicyKind};

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

/// Objects that are read once come and go without a write, and do not displace what is used often.
#[test]
fn what_is_read_once_does_not_fill_the_file() {
    for policy in [PolicyKind::TwoLists, PolicyKind::S3Fifo] {
        let folder = on_disk();
        let options = HeapOptions { budget: 8 << 20, policy, ..Default::default() };
        let heap = ObjectHeap::open(folder.path(), options).unwrap();
        let handles: Vec<_> =
            (0..16_000_u64).map(|i| heap.alloc_from(&i.to_le_bytes().repeat(100))).collect();
        let handles: Vec<_> = handles.into_iter().map(Result::unwrap).collect();
        // Once through all, so that the disk has each object.
        let scan = || handles.iter().for_each(|&handle| drop(heap.read(handle).unwrap()));
        scan();
        let before = heap.stats().unwrap();
        let hot: Vec<_> = handles.iter().copied().step_by(80).collect();
        for (i, &handle) in handles.iter().enumerate() {
            drop(heap.read(handle).unwrap());
            drop(heap.read(hot[i % hot.len()]).unwrap());
        }
        let after = heap.stats().unwrap();
        // What was in memory and on no disk, when the reading began, is all that was written.
        let written = after.written_bytes - before.written_bytes;
        assert!(written <= before.resident_bytes * 11 / 10 + (1 << 20), "{policy:?}: {after:?}");
        assert!(after.dropped_objects - before.dropped_objects > 8000, "{after:?}");
        assert!(after.hits - before.hits > 14_000, "{policy:?}: {after:?}");
        scan();
        let last = heap.stats().unwrap();
        assert_eq!(last.written_bytes, after.written_bytes, "{policy:?}: {last:?}");
        heap.check().unwrap();
    }
}
