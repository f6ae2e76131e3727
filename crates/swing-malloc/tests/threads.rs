//! Many threads on one heap: no block is given twice, and nothing is lost.

mod common;

use common::{heap, seed};
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use swing::{AreaOffset, ByteLen};
use swing_malloc::FreeError;

const THREADS: u64 = 8;

#[test]
fn threads_never_share_a_block() {
    let seed = seed("threads_never_share_a_block");
    let (memory, heap) = heap(1 << 30);
    let start = Barrier::new(THREADS as usize);
    let kept: Vec<_> = thread::scope(|scope| {
        let work = |id: u64| {
            let (heap, start) = (&heap, &start);
            move || {
                let mut rng = fastrand::Rng::with_seed(seed + id);
                let mut mine: Vec<(AreaOffset, ByteLen)> = Vec::new();
                start.wait();
                for _ in 0..5000 {
                    if rng.u8(..5) < 3 || mine.is_empty() {
                        let shift = rng.u32(3..20);
                        let len = ByteLen(rng.u64(1..=1 << shift));
                        let Ok(offset) = heap.allocate_exact(len, ByteLen(1)) else { continue };
                        mine.push((offset, len));
                    } else {
                        let (offset, len) = mine.swap_remove(rng.usize(..mine.len()));
                        heap.free_exact(offset, len).unwrap();
                    }
                }
                mine
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|id| scope.spawn(work(id))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    heap.check().unwrap();
    let mut sorted = BTreeMap::new();
    for (offset, len) in &kept {
        assert!(sorted.insert(offset.0, len.0).is_none(), "given twice: {offset}");
    }
    let mut end = 0;
    for (offset, len) in sorted {
        assert!(offset >= end, "overlap at {offset}");
        end = offset + len;
    }
    for (offset, len) in kept {
        heap.free_exact(offset, len).unwrap();
    }
    assert_eq!(heap.check().unwrap().blocks, 0);
    drop(memory);
}

#[test]
fn one_of_several_frees_of_a_block_wins() {
    let (_memory, heap) = heap(256 << 20);
    for round in 0..200 {
        let len = if round % 2 == 0 { 4 << 20 } else { 1000 };
        let grant = heap.allocate(ByteLen(len)).unwrap();
        let start = Barrier::new(4);
        let won: usize = thread::scope(|scope| {
            let free = || {
                start.wait();
                match heap.free(grant.offset) {
                    Ok(()) => 1,
                    Err(FreeError::NotAllocated { .. }) => 0,
                    Err(error) => panic!("{error}"),
                }
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(free)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(won, 1);
    }
    assert_eq!(heap.check().unwrap().blocks, 0);
}

#[test]
fn publishing_under_a_pause_freezes_no_half_operation() {
    let seed = seed("publishing_under_a_pause_freezes_no_half_operation");
    let (memory, heap) = heap(256 << 20);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for id in 0..4 {
            let (heap, done) = (&heap, &done);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed + id);
                let mut mine = Vec::new();
                while !done.load(SeqCst) {
                    if let Ok(grant) = heap.allocate(ByteLen(rng.u64(1..100_000))) {
                        mine.push(grant.offset);
                    }
                    if mine.len() > 50 {
                        heap.free(mine.swap_remove(rng.usize(..mine.len()))).unwrap();
                    }
                }
            });
        }
        for _ in 0..50 {
            let pause = heap.pause();
            memory.publish();
            let child = memory.derive();
            memory.assert_frozen_is_intact();
            drop(pause);
            let derived = swing_malloc::Heap::open(child).unwrap();
            derived.blocks().unwrap();
        }
        done.store(true, SeqCst);
    });
    memory.assert_frozen_is_intact();
    heap.blocks().unwrap();
}
