//! Operations on a small persistent heap against a naive model: objects that come and go, leave
//! memory and return, flushes, and openings of the newest flush.
//!
//! An operation is three bytes: its kind, the object, the length.

#![no_main]

use std::collections::BTreeMap;
use std::path::Path;

use swing_heap::{Handle, HeapError, HeapOptions, ObjectHeap, PolicyKind};

type Model = BTreeMap<Handle, Vec<u8>>;

fn open(path: &Path, policy: PolicyKind) -> ObjectHeap {
    let options =
        HeapOptions { budget: 8 << 20, disk_limit: 32 << 20, policy, ..Default::default() };
    ObjectHeap::open_persistent(path, options).unwrap()
}

/// A disk that is full is the program's problem, not a fault.
fn may_be_full<T>(result: Result<T, HeapError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(HeapError::DiskFull(_) | HeapError::NoMemory { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn compare(heap: &ObjectHeap, model: &Model) {
    heap.check().unwrap();
    assert_eq!(heap.stats().unwrap().objects, model.len() as u64);
    for (&handle, bytes) in model {
        assert_eq!(heap.copy_of(handle).unwrap(), *bytes);
    }
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((flags, input)) = input.split_first() else { return };
    let policy = if flags & 1 == 0 { PolicyKind::TwoLists } else { PolicyKind::S3Fifo };
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("heap");
    let mut heap = open(&path, policy);
    let (mut model, mut flushed) = (Model::new(), Model::new());
    for (step, operation) in input.chunks_exact(3).take(600).enumerate() {
        let (what, which) = (operation[0] % 12, usize::from(operation[1]));
        let len = match operation[2] {
            short @ 0..64 => usize::from(short) + 1,
            long => (usize::from(long) - 63) * 341,
        };
        let fill = vec![step as u8; len];
        let handle = model.keys().nth(which % model.len().max(1)).copied();
        match (what, handle) {
            (0..4, _) | (_, None) => {
                if let Some(handle) = may_be_full(heap.alloc_from(&fill)) {
                    assert!(model.insert(handle, fill).is_none(), "a handle is given out twice");
                }
            }
            (4, Some(handle)) => {
                heap.free(handle).unwrap();
                model.remove(&handle);
                assert!(heap.read(handle).is_err() && heap.free(handle).is_err());
            }
            (5, Some(handle)) => {
                if may_be_full(heap.realloc(handle, len)).is_some() {
                    model.get_mut(&handle).unwrap().resize(len, 0);
                }
            }
            (6, Some(handle)) => {
                if may_be_full(heap.replace(handle, &fill)).is_some() {
                    model.insert(handle, fill);
                }
            }
            (7 | 8, Some(handle)) => {
                if let Some(mut guard) = may_be_full(heap.write(handle)) {
                    let bytes = model.get_mut(&handle).unwrap();
                    assert_eq!(*guard, **bytes);
                    guard[0] ^= 1;
                    bytes[0] ^= 1;
                }
            }
            (9, Some(_)) => {
                if may_be_full(heap.flush()).is_some() {
                    flushed = model.clone();
                }
            }
            // Without room for the last flush it would be what the one before left.
            (10, Some(_)) if may_be_full(heap.flush()).is_some() => {
                drop(heap);
                heap = open(&path, policy);
                compare(&heap, &model);
                flushed = model.clone();
            }
            (_, Some(handle)) => {
                if let Some(guard) = may_be_full(heap.read(handle)) {
                    assert_eq!(*guard, *model[&handle]);
                }
            }
        }
    }
    compare(&heap, &model);
    // The copy has the files that a crash would leave now.
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(&path).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    compare(&open(&copy, policy), &flushed);
});
