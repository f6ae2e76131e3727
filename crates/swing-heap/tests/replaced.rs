//! New bytes for whole objects, without a read of the old ones.

mod common;

use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use common::{Faulty, on_disk, seed};
use swing_heap::{Handle, HeapError, HeapOptions, ObjectHeap, Remote};

fn options() -> HeapOptions {
    HeapOptions { budget: 8 << 20, max_wait: Duration::from_secs(5), ..HeapOptions::default() }
}

fn bytes_of(random: &mut fastrand::Rng) -> Vec<u8> {
    let len = if random.u32(..10) == 0 { random.usize(1..=65_536) } else { random.usize(1..3000) };
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

#[test]
fn replacing_objects_on_the_disk_reads_nothing() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    let handles: Vec<_> =
        (0..20_000_u32).map(|i| heap.alloc_from(&[i as u8; 1000]).unwrap()).collect();
    let values: Vec<Remote<[u64; 64]>> = (0..20_000).map(|i| heap.put([i; 64]).unwrap()).collect();
    let before = heap.stats().unwrap();
    assert!(before.evicted_objects > 20_000, "{before:?}");
    for (i, &handle) in handles.iter().enumerate() {
        match i % 3 {
            0 => assert!(heap.overwrite(handle, &[!i as u8; 1000]).unwrap()),
            1 => heap.replace(handle, &[!i as u8; 1000]).unwrap(),
            _ => heap.replace(handle, &vec![!i as u8; 1 + i % 3000]).unwrap(),
        }
        assert!(!heap.overwrite(handle, &[0; 4000]).unwrap(), "another length");
    }
    for (i, &value) in values.iter().enumerate() {
        heap.set(value, [i as u64 + 7; 64]).unwrap();
    }
    let after = heap.stats().unwrap();
    assert_eq!((after.read_bytes, after.misses), (before.read_bytes, before.misses));
    heap.check().unwrap();
    for (i, &handle) in handles.iter().enumerate() {
        let guard = heap.read(handle).unwrap();
        let len = if i % 3 == 2 { 1 + i % 3000 } else { 1000 };
        assert!(guard.len() == len && guard.iter().all(|&byte| byte == !i as u8), "{i}");
    }
    assert!(values.iter().enumerate().all(|(i, &v)| heap.get(v).unwrap() == [i as u64 + 7; 64]));
    let stats = heap.stats().unwrap();
    assert!(stats.read_bytes > after.read_bytes);
    let lens = (0..20_000).map(|i| if i % 3 == 2 { 1 + i % 3000 } else { 1000 }).sum::<u64>();
    assert_eq!(stats.object_bytes, lens + 20_000 * 512);
    // A value of another type.
    let wrong: Remote<[u64; 8]> = Remote::of(values[0].handle());
    assert!(matches!(heap.set(wrong, [0; 8]), Err(HeapError::Type { len: 512, .. })));
    assert_eq!(heap.get(values[0]).unwrap(), [7; 64]);
}

#[test]
fn threads_replace_read_and_free_against_models() {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let heap = &heap;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed ^ thread);
                let mut model: Vec<(Handle, Vec<u8>)> = Vec::new();
                for _ in 0..12_000 {
                    let chosen = random.usize(..model.len().max(1));
                    match random.u32(..100) {
                        0..30 if model.len() < 3000 => {
                            let bytes = bytes_of(&mut random);
                            model.push((heap.alloc_from(&bytes).unwrap(), bytes));
                        }
                        _ if model.is_empty() => {}
                        0..60 => {
                            let bytes = bytes_of(&mut random);
                            heap.replace(model[chosen].0, &bytes).unwrap();
                            model[chosen].1 = bytes;
                        }
                        60..65 => {
                            let (handle, _) = model.swap_remove(chosen);
                            heap.free(handle).unwrap();
                            let gone = heap.replace(handle, b"x");
                            assert_eq!(gone, Err(HeapError::NoObject { handle }));
                        }
                        65..68 => {
                            let other = model[random.usize(..model.len())].0;
                            heap.prefetch(&[other]).unwrap();
                        }
                        _ => {
                            let (handle, bytes) = &model[chosen];
                            assert_eq!(*heap.read(*handle).unwrap(), **bytes);
                        }
                    }
                }
            });
        }
    });
    heap.check().unwrap();
}

#[test]
fn a_flush_has_what_was_replaced() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let mut random = fastrand::Rng::with_seed(seed());
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    let mut model: HashMap<Handle, Vec<u8>> = HashMap::new();
    for _ in 0..8000 {
        let bytes = bytes_of(&mut random);
        model.insert(heap.alloc_from(&bytes).unwrap(), bytes);
    }
    heap.flush().unwrap();
    for (handle, bytes) in model.iter_mut().filter(|(handle, _)| handle.to_bits() % 2 == 0) {
        *bytes = bytes_of(&mut random);
        heap.replace(*handle, bytes).unwrap();
    }
    heap.close().unwrap();
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    heap.check().unwrap();
    model.iter().for_each(|(handle, bytes)| assert_eq!(*heap.read(*handle).unwrap(), **bytes));
}

#[test]
fn what_cannot_be_replaced_stays() {
    let folder = on_disk();
    let storage = Faulty::open(folder.path());
    let short = HeapOptions { max_wait: Duration::from_millis(200), ..options() };
    let heap = ObjectHeap::open_on(storage.clone(), short).unwrap();
    let handles: Vec<_> =
        (0..12_000_u32).map(|i| heap.alloc_from(&[i as u8; 1000]).unwrap()).collect();
    let guard = heap.read(handles[11_999]).unwrap();
    let in_use = heap.replace(handles[11_999], &[1; 1000]);
    assert!(matches!(in_use, Err(HeapError::InUse { .. })), "{in_use:?}");
    drop(guard);
    assert_eq!(heap.replace(handles[0], &[]), Err(HeapError::Size { len: 0 }));
    let long = heap.replace(handles[0], &vec![0; 65_537]);
    assert_eq!(long, Err(HeapError::Size { len: 65_537 }));
    storage.faults.write.store(libc::ENOSPC, SeqCst);
    storage.faults.reserve.store(libc::ENOSPC, SeqCst);
    let mut replaced = vec![false; handles.len()];
    let mut failures = 0;
    for (i, &handle) in handles.iter().enumerate() {
        match heap.replace(handle, &[!i as u8; 1000]) {
            Ok(()) => replaced[i] = true,
            Err(HeapError::DiskFull(_)) => failures += 1,
            Err(error) => panic!("{error}"),
        }
        if failures > 5 {
            break;
        }
    }
    assert!(failures > 5, "the disk is full");
    storage.faults.write.store(0, SeqCst);
    storage.faults.reserve.store(0, SeqCst);
    // The keeper tries again after a tenth of a second.
    let started = Instant::now();
    while heap.prefetch(&handles).is_err() {
        assert!(started.elapsed() < Duration::from_secs(20));
    }
    for (i, &handle) in handles.iter().enumerate() {
        let expected = if replaced[i] { !i as u8 } else { i as u8 };
        assert!(heap.read(handle).unwrap().iter().all(|&byte| byte == expected), "{i}");
    }
    heap.check().unwrap();
}

/// A few chunks for many lengths: each thread wants a cell while others have objects of theirs.
#[test]
fn threads_that_change_lengths_do_not_keep_room_from_each_other() {
    let folder = on_disk();
    let budget = HeapOptions { budget: 8 << 20, max_wait: Duration::from_secs(20), ..options() };
    let heap = ObjectHeap::open(folder.path(), budget).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            let heap = &heap;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed() ^ thread);
                let mut objects: Vec<(Handle, Vec<u8>)> = Vec::new();
                for step in 0..1500 {
                    if objects.len() < 40 {
                        let bytes = bytes_of(&mut random);
                        objects.push((heap.alloc_from(&bytes).unwrap(), bytes));
                        continue;
                    }
                    let chosen = random.usize(..objects.len());
                    let (handle, bytes) = &mut objects[chosen];
                    if step % 2 == 0 {
                        *bytes = bytes_of(&mut random);
                        heap.replace(*handle, bytes).unwrap();
                    } else {
                        bytes.resize(bytes_of(&mut random).len(), 0);
                        heap.realloc(*handle, bytes.len()).unwrap();
                    }
                    assert_eq!(*heap.read(*handle).unwrap(), **bytes);
                }
            });
        }
    });
    heap.check().unwrap();
}
