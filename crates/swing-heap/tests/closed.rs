//! A program closes all descriptors, also those of a heap, and opens files of its own at their
//! numbers. No object is wrong, and no file of the program is touched. Each test in a child
//! process.

mod common;

#[path = "../../swing-tier/tests/common/filter.rs"]
#[allow(dead_code)]
mod filter;
#[path = "../../swing-tier/tests/common/taken.rs"]
mod taken;

use std::time::Duration;

use common::in_area;
use common::on_disk;
use filter::in_child;
use swing_heap::{Handle, HeapError, HeapOptions, HeapSnapshot, ObjectHeap};
use swing_tier::{Cause, IoError};
use taken::{Taken, is_overlay};

fn options() -> HeapOptions {
    let max_wait = Duration::from_secs(30);
    HeapOptions { budget: 8 << 20, max_wait, ..HeapOptions::default() }
}

fn bytes(number: usize, version: usize) -> Vec<u8> {
    ((number << 8 | version) as u64).to_le_bytes().repeat(125)
}

fn fill(heap: &ObjectHeap, count: usize) -> Vec<Handle> {
    (0..count).map(|number| heap.alloc_from(&bytes(number, 0)).unwrap()).collect()
}

/// The bytes at an object's plain address; `None` if the heap has no plain pointers here.
fn at<'a>(heap: &ObjectHeap, handle: Handle) -> Option<&'a mut [u8]> {
    match heap.pointer(handle) {
        // SAFETY: the object has so many bytes, and one thread uses them.
        Ok(pointer) => Some(unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), 1000) }),
        Err(HeapError::NoPointers { why }) => {
            println!("skipped: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_persistent_heap_goes_on_and_loses_nothing() {
    for rings in [false, true] {
        let folder = on_disk();
        if is_overlay(folder.path()) {
            return;
        }
        in_child(|| {
            let path = folder.path().join("heap");
            let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
            let handles = fill(&heap, 20_000);
            heap.flush().unwrap();
            let plain = at(&heap, handles[0]).is_some();
            for version in 1..4 {
                let taken = Taken::new(folder.path(), rings);
                for (number, &handle) in handles.iter().enumerate() {
                    let (before, now) = (bytes(number, version - 1), bytes(number, version));
                    // By plain address and by guard in turn; in pages that have been filled and in
                    // others.
                    if let Some(plain) = at(&heap, handle).filter(|_| number % 2 == 0) {
                        assert_eq!(plain[..], before[..], "{number}");
                        plain.copy_from_slice(&now);
                    } else {
                        assert_eq!(heap.copy_of(handle).unwrap(), before, "{number}");
                        heap.write(handle).unwrap().copy_from_slice(&now);
                    }
                }
                heap.flush().unwrap();
                assert!(taken.are_untouched());
                taken.leave();
            }
            let taken = Taken::new(folder.path(), rings);
            heap.check().unwrap();
            heap.close().unwrap();
            let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
            for (number, &handle) in handles.iter().enumerate() {
                assert_eq!(heap.copy_of(handle).unwrap(), bytes(number, 3), "{number}");
            }
            println!("with plain pointers: {plain}");
            heap.close().unwrap();
            taken.are_untouched()
        });
    }
}

/// Its file has no name, so it is lost with the descriptor; what is in memory stays.
#[test]
fn an_ephemeral_heap_keeps_what_is_in_memory_and_says_what_is_lost() {
    let folder = on_disk();
    in_child(|| {
        let heap = ObjectHeap::open(folder.path(), options()).unwrap();
        let handles = fill(&heap, 20_000);
        let taken = Taken::new(folder.path(), false);
        let is_closed = |error: &HeapError| {
            matches!(error, HeapError::Io(IoError { cause: Cause::Closed, .. }))
        };
        let (mut found, mut lost) = (0, 0);
        for (number, &handle) in handles.iter().enumerate() {
            match heap.copy_of(handle) {
                Ok(copy) => {
                    assert_eq!(copy, bytes(number, 0), "{number}");
                    found += 1;
                }
                Err(error) => {
                    assert!(is_closed(&error), "{error}");
                    lost += 1;
                }
            }
        }
        assert!(found > 3000 && lost > 3000, "{found} and {lost}");
        // Sooner or later memory is full of what cannot be written.
        let error = (0..50_000).find_map(|number| heap.alloc_from(&bytes(number, 1)).err());
        println!("{error:?}");
        assert!(error.is_some());
        drop(heap);
        taken.are_untouched()
    });
}

#[test]
fn pointers_into_memory_stay() {
    let folder = on_disk();
    in_child(|| {
        let heap = ObjectHeap::open(folder.path(), options()).unwrap();
        // Fewer than memory holds, more than the window.
        let handles = fill(&heap, 3000);
        if at(&heap, handles[0]).is_none() {
            return true;
        }
        let taken = Taken::new(folder.path(), false);
        for version in 0..3 {
            for (number, &handle) in handles.iter().enumerate() {
                let plain = at(&heap, handle).unwrap();
                assert_eq!(plain[..], bytes(number, version)[..], "{number}");
                plain.copy_from_slice(&bytes(number, version + 1));
            }
        }
        let pin = heap.pin_pointer(at(&heap, handles[7]).unwrap().as_ptr()).unwrap();
        drop(pin);
        drop(heap);
        taken.are_untouched()
    });
}

#[test]
fn a_snapshot_is_read_through_its_owner_or_not_at_all() {
    let place = in_area::place();
    let heap = in_area::open(&place, options());
    let handles = fill(&heap, 20_000);
    heap.share().unwrap();
    in_child(|| {
        let snapshot = HeapSnapshot::open(&place.ns, &in_area::name()).unwrap();
        let taken = Taken::new(place.disk.path(), false);
        for (number, &handle) in handles.iter().enumerate() {
            assert_eq!(*snapshot.read(handle).unwrap(), bytes(number, 0), "{number}");
        }
        drop(snapshot);
        taken.are_untouched()
    });
    // The owner does it itself: nobody else finds the file then.
    let place = in_area::place();
    in_child(|| {
        let heap = in_area::open(&place, options());
        let handles = fill(&heap, 20_000);
        heap.share().unwrap();
        let snapshot = HeapSnapshot::open(&place.ns, &in_area::name()).unwrap();
        let taken = Taken::new(place.disk.path(), false);
        let lost = handles.iter().enumerate().filter(|&(number, &handle)| {
            match snapshot.read(handle) {
                Ok(copy) => assert_eq!(*copy, bytes(number, 0), "{number}"),
                Err(HeapError::Io(IoError { cause: Cause::Closed, .. })) => return true,
                Err(error) => panic!("{error}"),
            }
            false
        });
        assert!(lost.count() > 3000);
        let gone = HeapSnapshot::open(&place.ns, &in_area::name());
        assert!(matches!(gone, Err(HeapError::OwnerGone { .. })), "{gone:?}");
        println!("{:?}", heap.share().unwrap_err());
        drop((snapshot, heap));
        taken.are_untouched()
    });
}

#[test]
fn all_again_by_mappings() {
    common::again_by_mappings("all_again_by_mappings");
}
