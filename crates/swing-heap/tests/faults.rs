//! A full disk, failing reads and writes, and damaged blocks.

mod common;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use common::{Faulty, on_disk};
use swing_heap::{Handle, HeapError, HeapOptions, ObjectHeap};

fn options(disk_limit: u64) -> HeapOptions {
    // A busy disk may take long for a block.
    let max_wait = Duration::from_secs(20);
    HeapOptions { budget: 6 << 20, disk_limit, max_wait, ..HeapOptions::default() }
}

fn fill(heap: &ObjectHeap, most: usize) -> (Vec<Handle>, Option<HeapError>) {
    let mut handles = Vec::new();
    for i in 0..most {
        match heap.alloc_from(&(i as u64).to_le_bytes().repeat(128)) {
            Ok(handle) => handles.push(handle),
            Err(error) => return (handles, Some(error)),
        }
    }
    (handles, None)
}

fn expect(heap: &ObjectHeap, handles: &[Handle]) {
    for (i, &handle) in handles.iter().enumerate() {
        assert_eq!(heap.read(handle).unwrap()[..8], (i as u64).to_le_bytes(), "object {i}");
    }
}

#[test]
fn allocation_fails_cleanly_at_the_limit_of_the_file() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options(8 << 20)).unwrap();
    let (mut handles, error) = fill(&heap, 100_000);
    assert!(matches!(error, Some(HeapError::DiskFull(_))), "{error:?}");
    assert!(handles.len() > 8000, "{}", handles.len());
    heap.check().unwrap();
    // What is in memory is usable, and freeing makes room.
    let last = *handles.last().unwrap();
    heap.write(last).unwrap()[9] = 1;
    for handle in handles.split_off(handles.len() / 2) {
        heap.free(handle).unwrap();
    }
    expect(&heap, &handles);
    assert!(heap.alloc_zeroed(1000).is_ok());
    heap.check().unwrap();
}

#[test]
fn a_full_disk_and_failed_writes_lose_nothing() {
    for (at_write, errno) in [(true, libc::ENOSPC), (true, libc::EIO), (false, libc::ENOSPC)] {
        let folder = on_disk();
        let storage = Faulty::open(folder.path());
        let faults = storage.faults.clone();
        let heap = ObjectHeap::open_on(storage, options(1 << 40)).unwrap();
        let (mut handles, error) = fill(&heap, 8_000);
        assert_eq!(error, None);
        let knob = if at_write { &faults.write } else { &faults.reserve };
        knob.store(errno, SeqCst);
        let error = (0..100_000).find_map(|i| {
            let index = handles.len() as u64;
            match heap.alloc_from(&index.to_le_bytes().repeat(128)) {
                Ok(handle) => handles.push(handle),
                Err(error) => return Some(error),
            }
            assert!(i < 99_999, "no allocation failed");
            None
        });
        let full = matches!(error, Some(HeapError::DiskFull(_)));
        let io = matches!(error, Some(HeapError::Io(_)));
        assert!(if errno == libc::ENOSPC { full } else { io }, "{error:?}");
        heap.check().unwrap();
        heap.read(*handles.last().unwrap()).unwrap();
        knob.store(0, SeqCst);
        // The keeper tries again within its pause.
        std::thread::sleep(Duration::from_millis(300));
        expect(&heap, &handles);
        heap.check().unwrap();
    }
}

/// A disk that is full, not the heap's own limit: what is freed in many blocks can be used again.
#[test]
fn freeing_every_second_object_makes_room_on_a_full_disk() {
    let folder = on_disk();
    let storage = Faulty::open(folder.path());
    let faults = storage.faults.clone();
    let heap = ObjectHeap::open_on(storage, options(1 << 40)).unwrap();
    let (mut handles, error) = fill(&heap, 8_000);
    assert_eq!(error, None);
    faults.reserve.store(libc::ENOSPC, SeqCst);
    let (more, error) = fill(&heap, 100_000);
    assert!(matches!(error, Some(HeapError::DiskFull(_))), "{error:?}");
    // Nothing can leave memory, but copies need no room there.
    assert!(handles.iter().any(|&handle| heap.read(handle).is_err()));
    for (i, &handle) in handles.iter().enumerate().step_by(3) {
        assert_eq!(heap.copy_of(handle).unwrap()[..8], (i as u64).to_le_bytes());
    }
    assert_eq!(heap.get_many(&handles[..1000]).unwrap().len(), 1000);
    more.iter().chain(&handles).step_by(2).for_each(|&handle| heap.free(handle).unwrap());
    for i in 0..3_000_u64 {
        handles.push(heap.alloc_from(&i.to_le_bytes().repeat(128)).unwrap());
    }
    for (i, handle) in handles[8_000..].iter().enumerate() {
        assert_eq!(heap.read(*handle).unwrap()[..8], (i as u64).to_le_bytes());
    }
    heap.check().unwrap();
}

#[test]
fn a_failed_read_is_an_error_of_its_object_only() {
    let folder = on_disk();
    let storage = Faulty::open(folder.path());
    let faults = storage.faults.clone();
    let heap = ObjectHeap::open_on(storage, options(1 << 40)).unwrap();
    let (handles, _) = fill(&heap, 20_000);
    faults.read.store(libc::EIO, SeqCst);
    let failed = handles.iter().filter(|&&handle| heap.read(handle).is_err()).count();
    assert!(failed > 5000 && failed < 20_000, "{failed}");
    assert!(matches!(heap.get_many(&handles), Err(HeapError::Io(_))));
    faults.read.store(0, SeqCst);
    expect(&heap, &handles);
    heap.check().unwrap();
}

#[test]
fn damaged_blocks_are_noticed_and_never_handed_out() {
    let folder = on_disk();
    let storage = Faulty::open(folder.path());
    storage.faults.keep_names.store(true, SeqCst);
    let heap = ObjectHeap::open_on(storage, options(1 << 40)).unwrap();
    let (handles, _) = fill(&heap, 20_000);
    std::thread::sleep(Duration::from_millis(200));
    let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&path).unwrap();
    // A flipped bit in each 4096 bytes of the first block, and two blocks exchanged.
    (0..262_144).step_by(4096).for_each(|at| bytes[at + 1500] ^= 4);
    let (left, right) = bytes.split_at_mut(2 * 262_144);
    left[262_144..].swap_with_slice(&mut right[..262_144]);
    std::fs::write(&path, &bytes).unwrap();
    let mut damaged = 0;
    for (i, &handle) in handles.iter().enumerate() {
        match heap.read(handle) {
            Ok(guard) => {
                let expected = (i as u64).to_le_bytes().repeat(128);
                assert_eq!(*guard, expected, "object {i}");
            }
            Err(HeapError::Damaged { .. }) => damaged += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(damaged >= 2 * 200 + 60, "{damaged}");
    heap.check().unwrap();
    handles.iter().for_each(|&handle| heap.free(handle).unwrap());
    assert_eq!(heap.stats().unwrap().objects, 0);
}

#[test]
fn a_limit_on_the_length_of_files_is_a_full_disk_and_no_signal() {
    const NAME: &str = "a_limit_on_the_length_of_files_is_a_full_disk_and_no_signal";
    let Ok(folder) = std::env::var("SWING_HEAP_LIMITED") else {
        let folder = on_disk();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("SWING_HEAP_LIMITED", folder.path())
            .status();
        assert!(status.unwrap().success());
        return;
    };
    // SAFETY: a valid structure; the limit is that of this process, which ends with the test.
    let limited = unsafe {
        let limit = libc::rlimit { rlim_cur: 20 << 20, rlim_max: 20 << 20 };
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    };
    assert_eq!(limited, 0);
    let heap = ObjectHeap::open(folder.as_ref(), options(1 << 40)).unwrap();
    let mut handles = Vec::new();
    let error = loop {
        match heap.alloc_from(&[handles.len() as u8; 1000]) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
        assert!(handles.len() < 40_000, "26 MiB");
    };
    assert!(matches!(error, HeapError::DiskFull(_)), "{error}");
    assert!(handles.len() > 20_000, "{}", handles.len());
    // Room comes free again.
    handles.iter().step_by(2).for_each(|&handle| heap.free(handle).unwrap());
    heap.alloc_from(&[1; 1000]).unwrap();
    for (i, &handle) in handles.iter().enumerate().skip(1).step_by(2) {
        assert_eq!(heap.read(handle).unwrap()[999], i as u8);
    }
    heap.check().unwrap();
}
