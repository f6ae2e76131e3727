//! Plain pointers in heaps that lie in an area: states show what was stored up to one moment.

mod common;

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::in_area::{Contents, Place, name, open, place};
use common::seed;
use swing_heap::{Handle, HeapError, HeapOptions, HeapSnapshot, MAX_POINTER_BYTES, ObjectHeap};

fn options(budget: u64) -> HeapOptions {
    HeapOptions { budget, max_wait: Duration::from_secs(5), ..HeapOptions::default() }
}

fn snapshot(place: &Place) -> HeapSnapshot {
    HeapSnapshot::open(&place.ns, &name()).unwrap()
}

fn bytes_at<'a>(heap: &ObjectHeap, handle: Handle, len: usize) -> &'a mut [u8] {
    let address = heap.pointer(handle).unwrap().as_ptr();
    // SAFETY: the object has so many bytes, which the test uses from one thread at a time.
    unsafe { std::slice::from_raw_parts_mut(address, len) }
}

fn check(snapshot: &HeapSnapshot, then: &Contents, what: &str) {
    assert_eq!(snapshot.handles().count(), then.len(), "{what}");
    for (&handle, bytes) in then {
        assert_eq!(*snapshot.read(handle).unwrap(), **bytes, "{what}: {handle}");
    }
}

#[test]
fn states_show_what_was_stored_through_pointers_and_guards() {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let place = place();
    let heap = open(&place, options(8 << 20));
    let mut now = Contents::new();
    let mut handles: Vec<Handle> = Vec::new();
    let mut snapshots: Vec<(HeapSnapshot, Contents)> = Vec::new();
    for step in 0..20_000 {
        let chosen = handles.get(random.usize(..handles.len().max(1))).copied();
        match (random.u32(..1000), chosen) {
            (0..330, _) if handles.len() < 8000 => {
                let mut bytes = vec![0; random.usize(1..=MAX_POINTER_BYTES)];
                random.fill(&mut bytes);
                let handle = heap.alloc_zeroed(bytes.len()).unwrap();
                bytes_at(&heap, handle, bytes.len()).copy_from_slice(&bytes);
                handles.push(handle);
                now.insert(handle, bytes);
            }
            (330..600, Some(handle)) => {
                let bytes = now.get_mut(&handle).unwrap();
                let at = random.usize(..bytes.len());
                bytes[at] ^= 0x5a;
                bytes_at(&heap, handle, bytes.len())[at] ^= 0x5a;
            }
            (600..700, Some(handle)) => {
                let bytes = now.get_mut(&handle).unwrap();
                let at = random.usize(..bytes.len());
                bytes[at] ^= 0x33;
                heap.write(handle).unwrap()[at] ^= 0x33;
            }
            (700..760, Some(handle)) => {
                let mut bytes = vec![0; random.usize(1..=MAX_POINTER_BYTES)];
                random.fill(&mut bytes);
                heap.replace(handle, &bytes).unwrap();
                now.insert(handle, bytes);
            }
            (760..820, Some(handle)) => {
                heap.free(handle).unwrap();
                now.remove(&handle);
                handles.retain(|other| *other != handle);
            }
            (820..826, _) => {
                heap.share().unwrap();
                if snapshots.len() < 4 {
                    snapshots.push((snapshot(&place), now.clone()));
                }
            }
            (826..830, _) if !snapshots.is_empty() => {
                let (snapshot, then) = snapshots.swap_remove(random.usize(..snapshots.len()));
                check(&snapshot, &then, &format!("seed {seed}, step {step}"));
            }
            (830..833, _) => heap.set_budget(random.u64(8 << 20..16 << 20)).unwrap(),
            (_, Some(handle)) => {
                let bytes = &now[&handle];
                assert_eq!(bytes_at(&heap, handle, bytes.len()), &bytes[..]);
            }
            _ => {}
        }
    }
    heap.check().unwrap();
    let stats = heap.stats().unwrap();
    assert!(stats.evicted_objects > 1000, "{stats:?}");
    for (snapshot, then) in &snapshots {
        check(snapshot, then, &format!("seed {seed}, at the end"));
    }
    drop(heap);
    for (snapshot, then) in &snapshots {
        check(snapshot, then, &format!("seed {seed}, after the end"));
    }
}

/// Threads count in pairs of objects, first in one and then in the other. Another thread copies
/// what it sees. A state never has the later store without the earlier one.
#[test]
fn a_state_has_no_store_without_those_before_it() {
    const THREADS: usize = 3;
    let place = place();
    let heap = open(&place, options(8 << 20));
    heap.enable_pointers(Some(256 << 10)).unwrap();
    let pairs: Vec<[Handle; 3]> =
        (0..THREADS).map(|_| [(); 3].map(|()| heap.alloc_zeroed(8).unwrap())).collect();
    // What makes pages come and go, and objects leave memory.
    let others: Vec<Handle> = (0..6000).map(|_| heap.alloc_zeroed(2000).unwrap()).collect();
    let counter = |handle: Handle| {
        let address = heap.pointer(handle).unwrap().cast::<AtomicU64>();
        // SAFETY: objects of 8 bytes begin at multiples of 64, and are used as atomic words only.
        unsafe { address.as_ref() }
    };
    let done = AtomicBool::new(false);
    let word = |snapshot: &HeapSnapshot, handle| {
        u64::from_ne_bytes((*snapshot.read(handle).unwrap()).try_into().unwrap())
    };
    std::thread::scope(|scope| {
        for (thread, &[first, second, copy]) in pairs.iter().enumerate() {
            let (done, counter, others, heap) = (&done, &counter, &others, &heap);
            scope.spawn(move || {
                let (first, second) = (counter(first), counter(second));
                let mut random = fastrand::Rng::new();
                while !done.load(SeqCst) {
                    first.fetch_add(1, SeqCst);
                    if random.u32(..4) == thread as u32 {
                        bytes_at(heap, others[random.usize(..others.len() / 4)], 1)[0] = 1;
                    }
                    second.fetch_add(1, SeqCst);
                }
            });
            scope.spawn(move || {
                let (second, copy) = (counter(second), counter(copy));
                while !done.load(SeqCst) {
                    copy.store(second.load(SeqCst), SeqCst);
                }
            });
        }
        let mut last = vec![0; THREADS];
        let mut round = 0;
        // On a busy machine it takes longer until each has had its turn.
        while round < 60 || (round < 20_000 && last.contains(&0)) {
            round += 1;
            heap.share().unwrap();
            let snapshot = snapshot(&place);
            for (thread, &[first, second, copy]) in pairs.iter().enumerate() {
                let words = [first, second, copy].map(|handle| word(&snapshot, handle));
                let [first, second, copy] = words;
                assert!(first == second || first == second + 1, "round {round}: {words:?}");
                assert!(copy <= second && first >= last[thread], "round {round}: {words:?}");
                last[thread] = first;
            }
        }
        done.store(true, SeqCst);
        assert!(last.iter().all(|&count| count > 0), "all threads have counted: {last:?}");
    });
    heap.check().unwrap();
}

#[test]
fn a_read_guard_of_a_changed_object_keeps_a_state_from_being_shared() {
    let place = place();
    let heap =
        open(&place, HeapOptions { max_wait: Duration::from_millis(100), ..options(8 << 20) });
    let handle = heap.alloc_from(b"before").unwrap();
    let guard = heap.read(handle).unwrap();
    bytes_at(&heap, handle, 6)[0] = b'B';
    assert_eq!(*guard, *b"before");
    let error = heap.share().unwrap_err();
    assert!(matches!(error, HeapError::InUse { handle: of, .. } if of == handle), "{error}");
    drop(guard);
    heap.share().unwrap();
    assert_eq!(*snapshot(&place).read(handle).unwrap(), *b"Before");
    // A guard of what has not changed keeps nothing.
    let guard = heap.read(handle).unwrap();
    assert_eq!(bytes_at(&heap, handle, 6)[0], b'B');
    heap.share().unwrap();
    assert_eq!(*guard, *b"Before");
}

#[test]
fn system_calls_store_to_pinned_objects_while_states_are_shared() {
    let place = place();
    let heap =
        open(&place, HeapOptions { max_wait: Duration::from_millis(100), ..options(8 << 20) });
    let mut file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let mut expected = vec![0; 4000];
    file.read_exact(&mut expected).unwrap();
    let handle = heap.alloc_zeroed(4000).unwrap();
    let address = heap.pointer(handle).unwrap().as_ptr();
    for round in 0..3 {
        let pin = heap.pin_pointer(address.wrapping_add(7)).unwrap();
        assert!((pin.handle(), pin.as_ptr()) == (handle, address));
        heap.share().unwrap();
        use std::os::unix::fs::FileExt;
        let bytes = bytes_at(&heap, handle, 4000);
        assert_eq!(file.read_at(bytes, 0).unwrap(), 4000, "round {round}");
        heap.share().unwrap();
        assert_eq!(*snapshot(&place).read(handle).unwrap(), *expected);
        assert!(matches!(heap.read(handle), Err(HeapError::InUse { .. })));
        drop(pin);
        assert_eq!(*heap.read(handle).unwrap(), *expected);
        bytes_at(&heap, handle, 4000).fill(0);
    }
    assert!(place.home.path().exists());
}

#[test]
fn all_again_by_mappings() {
    common::again_by_mappings("all_again_by_mappings");
}
