//! What callers rely on: contents, handles, guards, lengths, errors.

mod common;

use std::time::Duration;

use common::on_disk;
use swing_heap::{Handle, HeapError, HeapOptions, MAX_OBJECT_BYTES, ObjectHeap};

fn small() -> HeapOptions {
    HeapOptions { budget: 6 << 20, max_wait: Duration::from_secs(60), ..HeapOptions::default() }
}

/// Does not wait long for objects in use; but as long as a busy disk may take.
fn impatient() -> HeapOptions {
    HeapOptions { max_wait: Duration::from_secs(3), ..small() }
}

#[test]
fn objects_of_every_length_come_back_from_the_disk() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), small()).unwrap();
    let lengths = [1, 2, 15, 16, 17, 100, 129, 512, 1000, 4096, 5000, 33_000, MAX_OBJECT_BYTES];
    let bytes = |i: usize| vec![(i * 7 + 1) as u8; lengths[i % lengths.len()]];
    let handles: Vec<_> = (0..5000).map(|i| heap.alloc_from(&bytes(i)).unwrap()).collect();
    let stats = heap.stats().unwrap();
    assert!(stats.object_bytes > 3 * stats.budget_bytes && stats.evicted_objects > 0, "{stats:?}");
    for (i, &handle) in handles.iter().enumerate() {
        assert_eq!(*heap.read(handle).unwrap(), bytes(i), "object {i}");
    }
    let copies = heap.get_many(&handles[..200]).unwrap();
    assert!(copies.iter().enumerate().all(|(i, copy)| *copy == bytes(i)));
    heap.check().unwrap();
    assert!(heap.stats().unwrap().used_bytes <= 6 << 20);
    for handle in handles {
        heap.free(handle).unwrap();
    }
    heap.check().unwrap();
    assert_eq!(heap.stats().unwrap().live_bytes, 0);
}

#[test]
fn wrong_handles_are_errors() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), small()).unwrap();
    let first = heap.alloc_zeroed(8).unwrap();
    heap.free(first).unwrap();
    let gone = HeapError::NoObject { handle: first };
    assert_eq!(heap.free(first), Err(gone.clone()));
    let second = heap.alloc_zeroed(8).unwrap();
    assert_ne!(first, second);
    assert_eq!(heap.read(first).err(), Some(gone.clone()));
    assert_eq!(heap.write(first).err(), Some(gone.clone()));
    assert_eq!(heap.pin(first).err(), Some(gone.clone()));
    assert_eq!(heap.realloc(first, 9), Err(gone.clone()));
    assert_eq!(heap.get_many(&[second, first]), Err(gone));
    for bits in [0, 5, 77 << 32, u64::MAX] {
        assert!(heap.read(Handle::from_bits(bits)).is_err(), "{bits}");
    }
    assert_eq!(heap.alloc(0), Err(HeapError::Size { len: 0 }));
    assert_eq!(heap.alloc(65_537), Err(HeapError::Size { len: 65_537 }));
    assert_eq!(heap.read(second).unwrap().len(), 8);
}

#[test]
fn an_object_in_use_is_neither_freed_nor_written_nor_moved() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), impatient()).unwrap();
    let handle = heap.alloc_from(b"used").unwrap();
    let reader = heap.read(handle).unwrap();
    let again = heap.read(handle).unwrap();
    assert!(matches!(heap.write(handle), Err(HeapError::InUse { .. })));
    assert!(matches!(heap.free(handle), Err(HeapError::InUse { .. })));
    let others: Vec<_> = (0..20_000).map(|_| heap.alloc_zeroed(1000).unwrap()).collect();
    assert_eq!((&*reader, &*again), (&b"used"[..], &b"used"[..]));
    drop((reader, again));
    let pin = heap.pin(handle).unwrap();
    heap.write(handle).unwrap()[0] = b'U';
    // SAFETY: the pin keeps the object there, and nobody else writes.
    assert_eq!(unsafe { *pin.as_ptr() }, b'U');
    assert!(matches!(heap.realloc(handle, 90), Err(HeapError::InUse { .. })));
    drop(pin);
    others.into_iter().for_each(|other| heap.free(other).unwrap());
    assert_eq!(&*heap.read(handle).unwrap(), b"Used");
    heap.check().unwrap();
}

#[test]
fn realloc_keeps_bytes_and_clears_new_ones() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), small()).unwrap();
    let handle = heap.alloc_from(&[9; 20]).unwrap();
    for len in [25, 4000, 10, 30, 65_536, 1, 32] {
        let before = heap.read(handle).unwrap().to_vec();
        heap.realloc(handle, len).unwrap();
        let after = heap.read(handle).unwrap().to_vec();
        let kept = before.len().min(len);
        assert_eq!((after.len(), &after[..kept]), (len, &before[..kept]));
        assert!(after[kept..].iter().all(|&byte| byte == 0), "{len}");
    }
    heap.check().unwrap();
}

#[test]
fn typed_handles_check_the_length() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), small()).unwrap();
    let point = heap.put([1.5_f64, -2.0]).unwrap();
    heap.set(point, [3.0, 4.0]).unwrap();
    assert_eq!(heap.get(point).unwrap(), [3.0, 4.0]);
    let wrong = swing_heap::Remote::<u64>::of(point.handle());
    assert!(matches!(heap.get(wrong), Err(HeapError::Type { len: 16, expected: 8, .. })));
}

#[test]
fn everything_in_use_is_an_error_and_no_loss() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), impatient()).unwrap();
    let mut guards = Vec::new();
    let error = loop {
        match heap.alloc_zeroed(MAX_OBJECT_BYTES) {
            Ok(handle) => guards.push((handle, heap.pin(handle).unwrap())),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, HeapError::NoMemory { .. }), "{error}");
    assert!(guards.len() > 30, "{}", guards.len());
    let handles: Vec<_> = guards.into_iter().map(|(handle, _)| handle).collect();
    heap.alloc_zeroed(MAX_OBJECT_BYTES).unwrap();
    assert!(handles.iter().all(|&handle| heap.read(handle).is_ok()));
    heap.check().unwrap();
}

#[test]
fn a_forked_child_is_refused() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), small()).unwrap();
    let handle = heap.alloc_from(b"parent").unwrap();
    // SAFETY: the child calls the heap, which refuses without a lock, and exits at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = matches!(heap.read(handle), Err(HeapError::Forked))
            && matches!(heap.alloc(1), Err(HeapError::Forked))
            && matches!(heap.free(handle), Err(HeapError::Forked))
            && matches!(heap.set_budget(8 << 20), Err(HeapError::Forked));
        drop(heap);
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(&*heap.read(handle).unwrap(), b"parent");
}
