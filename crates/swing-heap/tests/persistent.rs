//! Heaps that outlive the process: what a flush made durable is there again, and nothing else.
//!
//! A crash is an image of the directory, taken while the heap is open, or a killed process.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use common::{Faulty, on_disk, seed};
use swing_heap::{Handle, HeapError, HeapOptions, ObjectHeap, PolicyKind, Recovery};
use swing_tier::{Directory, DirectoryOptions};

fn options(budget_mib: u64, disk_limit: u64) -> HeapOptions {
    // A busy disk may take long for a block.
    let max_wait = Duration::from_secs(20);
    HeapOptions { budget: budget_mib << 20, disk_limit, max_wait, ..HeapOptions::default() }
}

fn open(path: &Path) -> ObjectHeap {
    ObjectHeap::open_persistent(path, options(8, 1 << 40)).unwrap()
}

/// A copy of all files, as a crash at this moment could leave them.
fn image(of: &Path, name: &str) -> PathBuf {
    let to = of.with_extension(name);
    let _ = std::fs::remove_dir_all(&to);
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(of).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

type Model = BTreeMap<Handle, Vec<u8>>;

fn expect(heap: &ObjectHeap, model: &Model) {
    heap.check().unwrap();
    assert_eq!(heap.stats().unwrap().objects, model.len() as u64);
    for (&handle, bytes) in model {
        assert_eq!(*heap.read(handle).unwrap(), **bytes, "{handle}");
    }
}

fn change(heap: &ObjectHeap, model: &mut Model, random: &mut fastrand::Rng, most: usize) {
    let from = Handle::from_bits(random.u64(1..20_000) << 32 | random.u64(..9000));
    let chosen = model.range(from..).chain(model.range(..)).next().map(|(&handle, _)| handle);
    let length = |random: &mut fastrand::Rng| match random.u32(..20) {
        0 => random.usize(1..=65_536),
        _ => random.usize(1..2000),
    };
    match (random.u32(..10), chosen) {
        (0..4, _) if model.len() < most => {
            let mut bytes = vec![0; length(random)];
            random.fill(&mut bytes);
            model.insert(heap.alloc_from(&bytes).unwrap(), bytes);
        }
        (4..7, Some(handle)) => {
            let bytes = model.get_mut(&handle).unwrap();
            let at = random.usize(..bytes.len());
            bytes[at] ^= 0x11;
            heap.write(handle).unwrap()[at] ^= 0x11;
        }
        (7, Some(handle)) => {
            let len = length(random);
            heap.realloc(handle, len).unwrap();
            model.get_mut(&handle).unwrap().resize(len, 0);
        }
        (8, Some(handle)) => {
            heap.free(handle).unwrap();
            model.remove(&handle);
        }
        (_, Some(handle)) => assert_eq!(*heap.read(handle).unwrap(), *model[&handle]),
        _ => {}
    }
}

#[test]
fn a_crash_leaves_the_newest_flush() {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for policy in [PolicyKind::TwoLists, PolicyKind::S3Fifo] {
        let folder = on_disk();
        let mut path = folder.path().join("heap");
        let mut model = Model::new();
        for round in 0..6 {
            let options = HeapOptions { policy, ..options(8, 1 << 40) };
            let heap = ObjectHeap::open_persistent(&path, options.clone()).unwrap();
            expect(&heap, &model);
            for _ in 0..random.usize(1..4) {
                (0..random.usize(1..3000)).for_each(|_| {
                    change(&heap, &mut model, &mut random, 9000);
                });
                heap.flush().unwrap();
                heap.check().unwrap();
            }
            let mut lost = model.clone();
            (0..random.usize(1..3000)).for_each(|_| {
                change(&heap, &mut lost, &mut random, 9000);
            });
            let crashed = image(&path, &format!("crash{round}"));
            drop(heap);
            // The close has flushed what the crash has lost.
            let closed = ObjectHeap::open_persistent(&path, options).unwrap();
            expect(&closed, &lost);
            path = crashed;
        }
    }
}

#[test]
fn blocks_of_the_newest_flush_are_not_written_anew() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = ObjectHeap::open_persistent(&path, options(8, 64 << 20)).unwrap();
    let mut model = Model::new();
    let bytes = |i: u64, round: u64| (i << 32 | round).to_le_bytes().repeat(125);
    for i in 0..8000 {
        model.insert(heap.alloc_from(&bytes(i, 0)).unwrap(), bytes(i, 0));
    }
    heap.flush().unwrap();
    let handles: Vec<_> = model.keys().copied().collect();
    // All blocks of the flush are garbage soon, for the heap as it is.
    for round in 1..5 {
        for (i, &handle) in handles.iter().enumerate() {
            heap.write(handle).unwrap().copy_from_slice(&bytes(i as u64, round));
        }
        expect(&open(&image(&path, "crash")), &model);
    }
    // A flush makes them free; their room is used again.
    let before = heap.stats().unwrap().file_bytes;
    for round in 5..9 {
        heap.flush().unwrap();
        for (i, &handle) in handles.iter().enumerate() {
            heap.write(handle).unwrap().copy_from_slice(&bytes(i as u64, round));
        }
    }
    assert!(heap.stats().unwrap().file_bytes <= before + (8 << 20));
}

#[test]
fn handles_of_a_lost_object_are_never_used_again() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = open(&path);
    let kept = heap.alloc_from(b"kept").unwrap();
    let freed = heap.alloc_from(b"freed").unwrap();
    heap.flush().unwrap();
    heap.free(freed).unwrap();
    // Ids that were used often, and a new one: none of these is flushed.
    let mut lost = Vec::new();
    for _ in 0..9000 {
        let handle = heap.alloc_from(b"lost").unwrap();
        lost.push(handle);
        heap.free(handle).unwrap();
    }
    lost.push(heap.alloc_from(b"lost").unwrap());
    let crashed = open(&image(&path, "crash"));
    assert_eq!(*crashed.read(kept).unwrap(), *b"kept");
    assert_eq!(*crashed.read(freed).unwrap(), *b"freed");
    crashed.free(freed).unwrap();
    for i in 0..10_000_u32 {
        let new = crashed.alloc_from(&i.to_le_bytes()).unwrap();
        assert!(!lost.contains(&new));
        if i % 2 == 0 {
            crashed.free(new).unwrap();
        }
    }
    assert!(lost.iter().all(|&h| matches!(crashed.read(h), Err(HeapError::NoObject { .. }))));
}

#[test]
fn the_root_object_is_found_again_and_one_process_has_the_heap() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = open(&path);
    assert_eq!(heap.root(), Ok(None));
    let root = heap.alloc_from(b"root").unwrap();
    heap.set_root(Some(root)).unwrap();
    assert!(matches!(heap.set_root(Some(Handle::from_bits(99))), Err(HeapError::NoObject { .. })));
    let again = ObjectHeap::open_persistent(&path, options(8, 1 << 40));
    assert!(matches!(again, Err(HeapError::Open(_))), "{again:?}");
    heap.close().unwrap();
    let heap = open(&path);
    assert_eq!(heap.root(), Ok(Some(root)));
    heap.free(root).unwrap();
    heap.set_root(None).unwrap();
    heap.close().unwrap();
    assert_eq!(open(&path).root(), Ok(None));
    // An ephemeral heap has neither.
    let heap = ObjectHeap::open(&path, options(8, 1 << 40)).unwrap();
    assert!(matches!(heap.flush(), Err(HeapError::Options(_))));
    assert!(matches!(heap.set_root(None), Err(HeapError::Options(_))));
}

#[test]
fn a_flush_waits_for_writers_and_takes_pinned_objects_each_time() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let options = HeapOptions { max_wait: Duration::from_millis(300), ..options(8, 1 << 40) };
    let heap = ObjectHeap::open_persistent(&path, options).unwrap();
    let (a, b) = (heap.alloc_from(b"a").unwrap(), heap.alloc_from(b"b").unwrap());
    let writer = heap.write(a).unwrap();
    assert!(matches!(heap.flush(), Err(HeapError::InUse { .. })));
    drop(writer);
    let (reader, pin) = (heap.read(a).unwrap(), heap.pin(b).unwrap());
    heap.flush().unwrap();
    for byte in *b"xyz" {
        // SAFETY: nobody else uses the object.
        unsafe { pin.as_ptr().write(byte) };
        heap.flush().unwrap();
        let crashed = open(&image(&path, "crash"));
        assert_eq!(*crashed.read(b).unwrap(), [byte]);
        assert_eq!(*crashed.read(a).unwrap(), *b"a");
    }
    // SAFETY: as above.
    unsafe { pin.as_ptr().write(b'!') };
    drop((reader, pin));
    heap.flush().unwrap();
    assert_eq!(*open(&image(&path, "crash")).read(b).unwrap(), *b"!");
}

#[test]
fn a_torn_commit_leaves_the_flush_before() {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = open(&path);
    let mut model = Model::new();
    (0..4000).for_each(|_| change(&heap, &mut model, &mut random, 3000));
    heap.flush().unwrap();
    let (before, old) = (image(&path, "before"), model.clone());
    (0..4000).for_each(|_| change(&heap, &mut model, &mut random, 3000));
    heap.flush().unwrap();
    let journal = |of: &Path| {
        let names = std::fs::read_dir(of).unwrap().map(|e| e.unwrap().path());
        names.filter(|p| p.to_string_lossy().contains("commits-")).max().unwrap()
    };
    let (from, to) =
        (std::fs::read(journal(&before)).unwrap(), std::fs::read(journal(&path)).unwrap());
    let differs = |i: &usize| from.get(*i) != to.get(*i);
    let first = (0..to.len()).find(differs).unwrap();
    let last = (0..to.len()).rev().find(|&i| differs(&i) && to[i] != 0).unwrap();
    assert_eq!(journal(&before).file_name(), journal(&path).file_name());
    for cut in [first, first + 1, (first + last) / 2, last] {
        let torn = image(&path, "torn");
        let mut bytes = to.clone();
        bytes[cut..].fill(0);
        std::fs::write(journal(&torn), &bytes).unwrap();
        expect(&open(&torn), &old);
    }
    expect(&open(&image(&path, "whole")), &model);
}

#[test]
fn damaged_files_are_refused_or_errors_of_their_objects() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = open(&path);
    let handles: Vec<_> =
        (0..3000_u64).map(|i| heap.alloc_from(&i.to_le_bytes().repeat(100)).unwrap()).collect();
    heap.close().unwrap();
    let named = |of: &Path, part: &str| {
        let mut names = std::fs::read_dir(of).unwrap().map(|e| e.unwrap().path());
        names.find(|p| p.file_name().unwrap().to_string_lossy().starts_with(part)).unwrap()
    };
    // Every 4096 bytes of the blocks have a flipped bit.
    let damaged = image(&path, "blocks");
    let mut bytes = std::fs::read(named(&damaged, "objects-")).unwrap();
    bytes.iter_mut().skip(700).step_by(4096).for_each(|byte| *byte ^= 1);
    std::fs::write(named(&damaged, "objects-"), &bytes).unwrap();
    let heap = open(&damaged);
    let wrong = handles.iter().enumerate().filter(|&(i, &handle)| match heap.read(handle) {
        Ok(guard) => {
            assert_eq!(*guard, (i as u64).to_le_bytes().repeat(100));
            false
        }
        Err(error) => matches!(error, HeapError::Damaged { .. }),
    });
    assert!(wrong.count() > 300);
    drop(heap);
    // Blocks or the table are missing.
    let short = image(&path, "short");
    std::fs::File::options()
        .write(true)
        .open(named(&short, "objects-"))
        .unwrap()
        .set_len(300_000)
        .unwrap();
    let error = ObjectHeap::open_persistent(&short, options(8, 1 << 40)).unwrap_err();
    assert!(error.to_string().contains("the objects need"), "{error}");
    for part in ["objects-", "data-", "root"] {
        let missing = image(&path, "missing");
        std::fs::remove_file(named(&missing, part)).unwrap();
        let found = ObjectHeap::open_persistent(&missing, options(8, 1 << 40));
        assert!(matches!(found, Err(HeapError::Open(_))), "{part}: {found:?}");
    }
    // A flipped bit anywhere in the log is refused, or there is nothing wrong.
    for part in ["data-", "root", "commits-"] {
        for at in [0, 20, 100, 4096, 4200, 9000, 20_000] {
            let flipped = image(&path, "flipped");
            let mut bytes = std::fs::read(named(&flipped, part)).unwrap();
            let Some(byte) = bytes.get_mut(at) else { continue };
            *byte ^= 8;
            std::fs::write(named(&flipped, part), &bytes).unwrap();
            if let Ok(heap) = ObjectHeap::open_persistent(&flipped, options(8, 1 << 40)) {
                for (i, &handle) in handles.iter().enumerate() {
                    assert_eq!(*heap.read(handle).unwrap(), (i as u64).to_le_bytes().repeat(100));
                }
            }
        }
    }
}

#[test]
fn another_log_is_not_taken_for_a_heap() {
    let folder = on_disk();
    let directory =
        || Arc::new(Directory::open(folder.path(), DirectoryOptions::default()).unwrap());
    let log = swing_tier::Log::create(directory(), swing_tier::LogOptions::default()).unwrap();
    let mut batch = log.batch().unwrap();
    batch
        .set_root(b"something else, and long enough to be the root of an object heap too....")
        .unwrap();
    batch.commit().unwrap();
    drop(log);
    let error = ObjectHeap::open_persistent(folder.path(), options(8, 1 << 40)).unwrap_err();
    assert!(matches!(error, HeapError::NotAHeap { .. }), "{error}");
}

#[test]
fn a_full_disk_fails_the_flush_and_loses_nothing() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = ObjectHeap::open_persistent(&path, options(8, 8 << 20)).unwrap();
    let mut model = Model::new();
    let put = |heap: &ObjectHeap, model: &mut Model, i: u64| {
        let bytes = i.to_le_bytes().repeat(125);
        heap.alloc_from(&bytes).map(|handle| model.insert(handle, bytes))
    };
    (0..3000).for_each(|i| drop(put(&heap, &mut model, i).unwrap()));
    heap.flush().unwrap();
    let flushed = model.clone();
    let error = (3000..100_000).find_map(|i| {
        put(&heap, &mut model, i).err().or_else(|| {
            // Also a flush may be what finds no room.
            (i % 500 == 0).then(|| heap.flush().err()).flatten()
        })
    });
    assert!(matches!(error, Some(HeapError::DiskFull(_))), "{error:?}");
    assert!(matches!(heap.flush(), Err(HeapError::DiskFull(_))));
    heap.check().unwrap();
    let crashed = open(&image(&path, "full"));
    assert!(crashed.stats().unwrap().objects >= flushed.len() as u64);
    for (&handle, bytes) in &flushed {
        assert_eq!(*crashed.read(handle).unwrap(), **bytes);
    }
    // Freeing makes room, at the latest with the flush that forgets the objects.
    let gone: Vec<_> = model.keys().copied().skip(2500).collect();
    for handle in gone {
        heap.free(handle).unwrap();
        model.remove(&handle);
    }
    heap.flush().unwrap();
    heap.flush().unwrap();
    (0..500).for_each(|i| drop(put(&heap, &mut model, i).unwrap()));
    heap.flush().unwrap();
    expect(&heap, &model);
    expect(&open(&image(&path, "after")), &model);
}

#[test]
fn a_small_file_bears_changes_without_end() {
    change_without_end(options(8, 24 << 20), Duration::ZERO);
}

/// The keeper has time to collect all garbage that it wants to, and leaves room for changes.
#[test]
fn a_small_file_bears_changes_while_garbage_is_collected() {
    let options = HeapOptions { dead_fraction: 0.01, ..options(8, 24 << 20) };
    change_without_end(options, Duration::from_millis(3));
}

fn change_without_end(options: HeapOptions, pause: Duration) {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = on_disk();
    let path = folder.path().join("heap");
    // 10 MB of objects in a file of 24 MiB, 60 MB of changes.
    let heap = ObjectHeap::open_persistent(&path, options).unwrap();
    let mut model = Model::new();
    for i in 0..10_000_u64 {
        let bytes = i.to_le_bytes().repeat(125);
        model.insert(heap.alloc_from(&bytes).unwrap(), bytes);
    }
    heap.flush().unwrap();
    let handles: Vec<_> = model.keys().copied().collect();
    for round in 0..60 {
        for change in 0..1000 {
            if change % 50 == 0 {
                std::thread::sleep(pause);
            }
            let handle = handles[random.usize(..handles.len())];
            let bytes = random.u64(..).to_le_bytes().repeat(125);
            let mut guard = heap.write(handle).unwrap_or_else(|e| panic!("round {round}: {e}"));
            guard.copy_from_slice(&bytes);
            model.insert(handle, bytes);
        }
        heap.flush().unwrap_or_else(|e| panic!("round {round}: {e}"));
    }
    assert!(heap.stats().unwrap().file_bytes <= 24 << 20);
    expect(&heap, &model);
    expect(&open(&image(&path, "after")), &model);
}

#[test]
fn failed_writes_and_syncs_leave_the_flush_before() {
    for fault in ["write", "sync", "reserve"] {
        let folder = on_disk();
        let storage = Faulty::open(folder.path());
        let faults = storage.faults.clone();
        let heap =
            ObjectHeap::open_persistent_on(storage, options(8, 1 << 40), &mut |_| ()).unwrap();
        let mut model = Model::new();
        let mut random = fastrand::Rng::with_seed(7);
        (0..3000).for_each(|_| change(&heap, &mut model, &mut random, 2000));
        heap.flush().unwrap();
        let old = model.clone();
        (0..300).for_each(|_| change(&heap, &mut model, &mut random, 2000));
        let knob = match fault {
            "write" => &faults.write,
            "sync" => &faults.sync,
            _ => &faults.reserve,
        };
        knob.store(if fault == "reserve" { libc::ENOSPC } else { libc::EIO }, SeqCst);
        let failed = heap.flush();
        if fault != "reserve" {
            assert!(failed.is_err(), "{fault}");
        }
        let failed = failed.is_err();
        for (&handle, bytes) in &model {
            if let Ok(guard) = heap.read(handle) {
                assert_eq!(*guard, **bytes);
            }
        }
        let crashed = image(folder.path(), "crash");
        expect(&open(&crashed), if failed { &old } else { &model });
        knob.store(0, SeqCst);
        std::thread::sleep(Duration::from_millis(300));
        let again = heap.flush();
        // A sync that failed is not tried again.
        assert_eq!(again.is_ok(), fault != "sync", "{fault}: {again:?}");
        let crashed = image(folder.path(), "crash");
        expect(&open(&crashed), if fault == "sync" { &old } else { &model });
        std::fs::remove_dir_all(&crashed).unwrap();
    }
}

#[test]
fn recovery_says_how_far_it_is_and_respects_the_budget() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = ObjectHeap::open_persistent(&path, options(32, 1 << 40)).unwrap();
    (0..300_000_u32).for_each(|i| assert!(heap.alloc_from(&i.to_le_bytes()).is_ok()));
    heap.close().unwrap();
    let storage = Arc::new(Directory::open(&path, DirectoryOptions::default()).unwrap());
    let mut seen: Vec<Recovery> = Vec::new();
    let heap = ObjectHeap::open_persistent_on(storage, options(16, 1 << 40), &mut |r| seen.push(r));
    assert_eq!(heap.unwrap().stats().unwrap().objects, 300_000);
    assert!(seen.len() > 5 && seen.windows(2).all(|w| w[0].done < w[1].done));
    assert_eq!(seen.last().map(|r| (r.done, r.all)), Some((300_000, 300_000)));
    // The table alone takes 4.8 MB.
    let error = ObjectHeap::open_persistent(&path, options(8, 1 << 40)).unwrap_err();
    assert!(matches!(error, HeapError::NoMemory { .. }), "{error}");
}

#[test]
fn flushes_beside_changes_of_other_threads_take_whole_objects() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = open(&path);
    let objects: Vec<_> = (0..6000).map(|_| heap.alloc_zeroed(1600).unwrap()).collect();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (heap, objects, done) = (&heap, &objects, &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                while !done.load(SeqCst) {
                    let handle = objects[random.usize(..objects.len())];
                    let value = random.u64(..).to_le_bytes();
                    heap.write(handle)
                        .unwrap()
                        .chunks_mut(8)
                        .for_each(|c| c.copy_from_slice(&value));
                    let short = heap.alloc_from(&value.repeat(50)).unwrap();
                    heap.realloc(short, 800).unwrap();
                    heap.free(short).unwrap();
                }
            });
        }
        // Also if this thread fails.
        let _stop = Stop(&done);
        for _ in 0..12 {
            heap.flush().unwrap();
            let crashed = open(&image(&path, "crash"));
            crashed.check().unwrap();
            for &handle in &objects {
                let guard = crashed.read(handle).unwrap();
                assert!(guard.len() == 1600 && guard.chunks(8).all(|c| c == &guard[..8]));
            }
        }
    });
    heap.check().unwrap();
}

/// Tells threads to end when it is dropped.
struct Stop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

const SLOTS: usize = 3000;

fn content(slot: usize, version: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(slot as u64 * 1_000_003 + version);
    let mut bytes = vec![0; random.usize(8..3000)];
    random.fill(&mut bytes);
    bytes
}

/// The root object: the number of flushes, then handle and version of each slot.
fn slots(heap: &ObjectHeap) -> (u64, Vec<(u64, u64)>) {
    let root = heap.root().unwrap().unwrap();
    let bytes = heap.read(root).unwrap();
    let words: Vec<_> =
        bytes.chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
    (words[0], words[1..].chunks(2).map(|pair| (pair[0], pair[1])).collect())
}

/// What the process does that is killed: changes slots, flushes, says so; for ever.
fn victim(path: &Path) -> ! {
    let heap = open(path);
    if heap.root().unwrap().is_none() {
        let root = heap.alloc_zeroed(8 + 16 * SLOTS).unwrap();
        heap.set_root(Some(root)).unwrap();
        heap.flush().unwrap();
    }
    let root = heap.root().unwrap().unwrap();
    let mut random = fastrand::Rng::new();
    let (mut flushes, mut table) = slots(&heap);
    println!("open {flushes}");
    loop {
        for _ in 0..random.usize(1..400) {
            let slot = random.usize(..SLOTS);
            let (bits, version) = table[slot];
            let bytes = content(slot, version + 1);
            let handle = Handle::from_bits(bits);
            table[slot] = match random.u32(..10) {
                _ if bits == 0 => (heap.alloc_from(&bytes).unwrap().to_bits(), version + 1),
                0 => {
                    heap.free(handle).unwrap();
                    (0, version)
                }
                _ => {
                    heap.realloc(handle, bytes.len()).unwrap();
                    heap.write(handle).unwrap().copy_from_slice(&bytes);
                    (bits, version + 1)
                }
            };
        }
        flushes += 1;
        let words = std::iter::once(flushes).chain(table.iter().flat_map(|&(h, v)| [h, v]));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        heap.write(root).unwrap().copy_from_slice(&bytes);
        heap.flush().unwrap();
        println!("flush {flushes}");
    }
}

#[test]
fn killed_processes_lose_what_they_have_not_flushed() {
    if let Ok(path) = std::env::var("SWING_HEAP_VICTIM") {
        victim(Path::new(&path));
    }
    let folder = on_disk();
    let path = folder.path().join("heap");
    let mut said = 0;
    let rounds = std::env::var("SWING_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(15);
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed_processes_lose_what_they_have_not_flushed", "--nocapture"])
            .env("SWING_HEAP_VICTIM", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let pid = rustix::process::Pid::from_child(&child);
        let wait = Duration::from_millis(fastrand::u64(50..400));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(wait);
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        });
        let words = lines.lines().map_while(Result::ok);
        let flushed = words.filter_map(|line| line.split_once("flush ")?.1.parse::<u64>().ok());
        said = flushed.last().unwrap_or(said);
        killer.join().unwrap();
        child.wait().unwrap();
        let heap = open(&path);
        heap.check().unwrap();
        if heap.root().unwrap().is_none() {
            assert_eq!(said, 0);
            continue;
        }
        let (flushes, table) = slots(&heap);
        assert!((said..=said + 1).contains(&flushes), "round {round}: {flushes}, said {said}");
        said = flushes;
        let mut objects = 1;
        for (slot, &(bits, version)) in table.iter().enumerate().filter(|(_, s)| s.0 != 0) {
            objects += 1;
            let guard = heap.read(Handle::from_bits(bits)).unwrap();
            assert_eq!(*guard, *content(slot, version), "round {round}, slot {slot}");
        }
        assert_eq!(heap.stats().unwrap().objects, objects, "round {round}");
        drop(heap);
    }
    assert!(said > 0, "no flush was finished");
}
