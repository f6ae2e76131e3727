//! Random operations of many threads against a naive model.

mod common;

use std::time::Duration;

use common::{on_disk, seed};
use swing_heap::{Handle, HeapOptions, ObjectHeap, PolicyKind};

fn length(random: &mut fastrand::Rng) -> usize {
    match random.u32(..10) {
        0 => random.usize(1..64),
        1 => random.usize(4097..=65_536),
        _ => random.usize(64..=4096),
    }
}

/// One thread's objects and what they must hold.
fn work(heap: &ObjectHeap, seed: u64, operations: usize, most: usize) -> Vec<(Handle, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model: Vec<(Handle, Vec<u8>)> = Vec::new();
    for _ in 0..operations {
        let chosen = random.usize(..model.len().max(1));
        match random.u32(..100) {
            0..35 if model.len() < most => {
                let mut bytes = vec![0; length(&mut random)];
                random.fill(&mut bytes);
                model.push((heap.alloc_from(&bytes).unwrap(), bytes));
            }
            _ if model.is_empty() => {}
            0..55 => {
                let (handle, bytes) = &mut model[chosen];
                let mut guard = heap.write(*handle).unwrap();
                assert_eq!(*guard, **bytes);
                let at = random.usize(..bytes.len());
                bytes[at] ^= 0x5a;
                guard[at] ^= 0x5a;
            }
            55..62 => {
                let (handle, _) = model.swap_remove(chosen);
                heap.free(handle).unwrap();
                assert!(heap.read(handle).is_err());
            }
            62..66 => {
                let (handle, bytes) = &mut model[chosen];
                let len = length(&mut random);
                heap.realloc(*handle, len).unwrap();
                bytes.resize(len, 0);
            }
            66..69 => {
                let wanted: Vec<_> = (0..20).map(|_| random.usize(..model.len())).collect();
                let handles: Vec<_> = wanted.iter().map(|&i| model[i].0).collect();
                let found = heap.get_many(&handles).unwrap();
                assert!(wanted.iter().zip(found).all(|(&i, bytes)| model[i].1 == bytes));
            }
            _ => {
                let (handle, bytes) = &model[chosen];
                assert_eq!(*heap.read(*handle).unwrap(), **bytes);
            }
        }
    }
    model
}

fn run(policy: PolicyKind, disk_limit: u64) {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let folder = on_disk();
    let options = HeapOptions { budget: 12 << 20, policy, disk_limit, ..Default::default() };
    let heap = ObjectHeap::open(folder.path(), options).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let model = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|i| {
                scope.spawn({
                    let heap = &heap;
                    move || work(heap, seed + i, 6000, 1500)
                })
            })
            .collect();
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(seed);
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                heap.set_budget(random.u64(10 << 20..30 << 20)).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let all: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        all.into_iter().map(|part| part.expect("a thread failed")).collect::<Vec<_>>()
    });
    heap.check().unwrap();
    for (handle, bytes) in model.into_iter().flatten() {
        assert_eq!(*heap.read(handle).unwrap(), *bytes, "seed {seed}");
    }
    let stats = heap.stats().unwrap();
    assert!(stats.evicted_objects > 1000 && stats.misses > 1000, "{stats:?}");
    println!("{stats:?}");
    heap.check().unwrap();
}

#[test]
fn random_operations_with_two_lists() {
    run(PolicyKind::TwoLists, 1 << 40);
}

#[test]
fn random_operations_with_s3_fifo_and_a_small_file() {
    run(PolicyKind::S3Fifo, 64 << 20);
}
