//! Loads and stores through addresses, beside guards, flushes, forks and other handlers.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use common::{by_mappings, on_disk, seed};
use swing_heap::{Handle, HeapError, HeapOptions, MAX_POINTER_BYTES, ObjectHeap};

fn options() -> HeapOptions {
    HeapOptions { budget: 8 << 20, max_wait: Duration::from_secs(5), ..HeapOptions::default() }
}

/// An object as a program with plain pointers sees it.
#[derive(Clone, Copy)]
struct Object {
    address: *mut u8,
    len: usize,
}

// SAFETY: the address is valid in all threads, and each object is used by one at a time.
unsafe impl Send for Object {}

impl Object {
    fn new(heap: &ObjectHeap, len: usize) -> Self {
        Object { address: heap.alloc_pointer(len).unwrap().as_ptr(), len }
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self) -> &mut [u8] {
        // SAFETY: the object has so many bytes, and the test uses them from one thread at a time.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.len) }
    }
}

#[test]
fn threads_load_and_store_more_than_memory_holds() {
    let seed = seed();
    println!("SWING_SEED={seed}");
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let heap = &heap;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed ^ thread);
                let mut model: Vec<(Object, Vec<u8>)> = Vec::new();
                for _ in 0..15_000 {
                    let chosen = random.usize(..model.len().max(1));
                    match random.u32(..100) {
                        0..30 if model.len() < 3000 => {
                            let len = random.usize(1..=MAX_POINTER_BYTES);
                            let object = Object::new(heap, len);
                            assert!(object.bytes().iter().all(|&byte| byte == 0));
                            let mut bytes = vec![0; len];
                            random.fill(&mut bytes);
                            object.bytes().copy_from_slice(&bytes);
                            model.push((object, bytes));
                        }
                        _ if model.is_empty() => {}
                        0..60 => {
                            let (object, bytes) = &mut model[chosen];
                            let at = random.usize(..bytes.len());
                            bytes[at] ^= 0x5a;
                            object.bytes()[at] ^= 0x5a;
                        }
                        60..65 => {
                            let (object, bytes) = &mut model[chosen];
                            let handle = heap.handle_of(object.address).unwrap();
                            bytes[0] ^= 1;
                            heap.write(handle).unwrap()[0] ^= 1;
                        }
                        65..70 => {
                            let (object, _) = model.swap_remove(chosen);
                            heap.free(heap.handle_of(object.address).unwrap()).unwrap();
                        }
                        70..74 => {
                            let (object, bytes) = &mut model[chosen];
                            let handle = heap.handle_of(object.address).unwrap();
                            let len = random.usize(1..=MAX_POINTER_BYTES);
                            heap.realloc(handle, len).unwrap();
                            bytes.resize(len, 0);
                            let address = heap.pointer(handle).unwrap().as_ptr();
                            *object = Object { address, len };
                        }
                        74..84 => {
                            let (object, bytes) = &model[chosen];
                            let handle = heap.handle_of(object.address).unwrap();
                            assert_eq!(*heap.read(handle).unwrap(), **bytes);
                        }
                        _ => {
                            let (object, bytes) = &model[chosen];
                            assert_eq!(object.bytes(), &bytes[..]);
                        }
                    }
                }
                model.iter().for_each(|(object, bytes)| assert_eq!(object.bytes(), &bytes[..]));
            });
        }
    });
    heap.check().unwrap();
    let stats = heap.stats().unwrap();
    assert!(stats.evicted_objects > 1000 && stats.used_bytes <= 8 << 20, "{stats:?}");
}

#[test]
fn threads_store_to_one_object_while_guards_read_it() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    let object = Object::new(&heap, 64);
    let handle = heap.handle_of(object.address).unwrap();
    let done = AtomicBool::new(false);
    let counters = object.address.cast::<AtomicUsize>();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                // SAFETY: the object has 8 words, which are used as atomic ones only.
                let counter = unsafe { &*counters.add(thread) };
                scope.spawn(|| {
                    (0..200_000).for_each(|_| assert!(counter.fetch_add(1, SeqCst) < 200_000))
                })
            })
            .collect();
        let watcher = scope.spawn(|| {
            let mut last = [0; 3];
            while !done.load(SeqCst) {
                let guard = heap.read(handle).unwrap();
                for (i, last) in last.iter_mut().enumerate() {
                    let word = usize::from_ne_bytes(guard[8 * i..8 * i + 8].try_into().unwrap());
                    assert!(word >= *last, "a store is lost");
                    *last = word;
                }
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, SeqCst);
        watcher.join().unwrap();
    });
    let guard = heap.read(handle).unwrap();
    assert!(guard[..24].chunks(8).all(|c| c == 200_000_usize.to_ne_bytes()));
}

#[test]
fn a_flush_takes_what_was_stored_through_pointers() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    let objects: Vec<_> = (0..5000).map(|_| Object::new(&heap, 1000)).collect();
    let handles: Vec<_> =
        objects.iter().map(|object| heap.handle_of(object.address).unwrap()).collect();
    for (round, close) in [(1, false), (2, true)] {
        objects.iter().enumerate().for_each(|(i, object)| object.bytes().fill((i + round) as u8));
        heap.flush().unwrap();
        objects[7].bytes()[0] = 99;
        if close {
            break;
        }
        heap.check().unwrap();
    }
    heap.close().unwrap();
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    for (i, &handle) in handles.iter().enumerate() {
        let first = if i == 7 { 99 } else { (i + 2) as u8 };
        let guard = heap.read(handle).unwrap();
        assert!(guard[0] == first && guard[1..].iter().all(|&b| b == (i + 2) as u8), "{i}");
        drop(guard);
        // SAFETY: the object has 1000 bytes.
        assert_eq!(unsafe { heap.pointer(handle).unwrap().add(999).read() }, (i + 2) as u8);
    }
}

#[test]
fn wrong_addresses_are_errors() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    let none = |found| matches!(found, Err(HeapError::NoPointer { .. }));
    assert!(none(heap.handle_of(std::ptr::null())));
    let object = Object::new(&heap, 100);
    assert!(none(heap.handle_of(object.address.wrapping_add(1))));
    assert!(none(heap.handle_of(object.address.wrapping_add(4096))));
    let handle = heap.handle_of(object.address).unwrap();
    heap.free(handle).unwrap();
    assert!(none(heap.handle_of(object.address)));
    assert!(matches!(heap.pointer(handle), Err(HeapError::NoObject { .. })));
    assert_eq!(heap.alloc_pointer(4097).unwrap_err(), HeapError::PointerSize { len: 4097 });
    let long = heap.alloc_zeroed(4097).unwrap();
    assert!(matches!(heap.pointer(long), Err(HeapError::PointerSize { .. })));
    // Bytes of an object may be the source of another.
    let object = Object::new(&heap, 4096);
    object.bytes().fill(7);
    heap.read(heap.handle_of(object.address).unwrap()).unwrap();
    let copy = heap.alloc_from(object.bytes()).unwrap();
    assert!(heap.read(copy).unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn a_budget_that_metadata_fills_is_an_error_and_no_signal() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    let mut objects = Vec::new();
    let error = loop {
        match heap.alloc_pointer(100) {
            Ok(address) => objects.push(address.as_ptr()),
            Err(error) => break error,
        }
        assert!(objects.len() < 1_000_000, "8 MiB of metadata");
    };
    assert!(matches!(error, HeapError::NoMemory { .. }), "{error}");
    assert!(objects.len() > 100_000, "{}", objects.len());
    // What has an address is there.
    for (i, &address) in objects.iter().enumerate().step_by(7) {
        Object { address, len: 100 }.bytes()[i % 100] = 1;
    }
    for (i, &address) in objects.iter().enumerate().step_by(7) {
        assert_eq!(Object { address, len: 100 }.bytes()[i % 100], 1);
    }
    let stats = heap.stats().unwrap();
    assert!(stats.used_bytes <= (8 << 20) + (1 << 20), "{stats:?}");
    heap.check().unwrap();
}

/// The status of a forked child, when it has ended.
fn ended(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

#[test]
fn a_forked_child_does_not_see_zeros() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    let object = Object::new(&heap, 100);
    object.bytes().fill(5);
    // SAFETY: the child loads one byte and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child; the load is what is tested.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            let found = object.address.read_volatile();
            libc::_exit(i32::from(found));
        }
    }
    let status = ended(child);
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status}");
    object.bytes()[3] = 6;
    heap.read(heap.handle_of(object.address).unwrap()).unwrap();
    assert_eq!(object.bytes()[..4], [5, 5, 5, 6]);
}

/// The holder of a guard brings other objects by their addresses while many threads wait for it.
#[test]
fn threads_that_wait_for_a_guard_do_not_hold_up_its_owner() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    let shared = Object::new(&heap, 100);
    let others: Vec<_> = (0..3000).map(|_| Object::new(&heap, 1000)).collect();
    let handle = heap.handle_of(shared.address).unwrap();
    let begun = std::time::Instant::now();
    for round in 1..=3_u8 {
        let mut guard = heap.write(handle).unwrap();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..40)
                .map(|_| {
                    scope.spawn(move || {
                        let object = shared;
                        // SAFETY: the object has 100 bytes, which are only read meanwhile.
                        unsafe { object.address.add(7).read_volatile() }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(100));
            for object in &others {
                object.bytes()[3] = round;
            }
            guard[7] = round;
            drop(guard);
            assert!(waiting.into_iter().all(|thread| thread.join().unwrap() == round));
        });
    }
    // As long as a guard may be waited for, it was not.
    assert!(begun.elapsed() < 3 * options().max_wait, "{:?}", begun.elapsed());
}

/// The child's window may get the addresses of its parent's, which it has not.
#[test]
fn a_forked_child_has_pointers_of_its_own() {
    let folder = on_disk();
    let heap = ObjectHeap::open(folder.path(), options()).unwrap();
    let object = Object::new(&heap, 100);
    object.bytes().fill(5);
    // SAFETY: the child works with a heap of its own, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let works = std::panic::catch_unwind(|| {
            let path = folder.path().join("child");
            let own = ObjectHeap::open_persistent(&path, options()).unwrap();
            let objects: Vec<_> = (0..9000).map(|_| Object::new(&own, 1000)).collect();
            for round in 0..2 {
                for (number, object) in objects.iter().enumerate() {
                    let before = if round == 0 { 0 } else { number as u8 };
                    assert!(object.bytes().iter().all(|&byte| byte == before));
                    object.bytes().fill(number as u8);
                }
            }
            own.check().unwrap();
            own.close().unwrap();
        });
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(works.is_err())) };
    }
    let status = ended(child);
    assert_eq!(status, 0);
    assert_eq!(object.bytes()[..], [5; 100]);
}

/// Runs one test of this file in a process of its own, as the only one.
fn alone(name: &str, folder: &Path) -> std::process::ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("SWING_HEAP_ALONE", folder)
        .status()
        .unwrap()
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn own_handler(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CALLS.fetch_add(1, SeqCst);
    // SAFETY: the kernel passes a valid structure. The page gets memory, so the load succeeds.
    unsafe {
        let page = ((*info).si_addr() as usize & !4095) as *mut libc::c_void;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(page, 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
    }
}

/// The signal by which pages are filled.
fn signal() -> i32 {
    if by_mappings() { libc::SIGSEGV } else { libc::SIGBUS }
}

/// A page behind the end of its file: touching it is a SIGBUS that is none of ours; or a page
/// without access.
fn foreign_fault() -> u8 {
    if by_mappings() {
        // SAFETY: a fresh mapping, of which one byte is read.
        return unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            page.cast::<u8>().read_volatile()
        };
    }
    let file = tempfile::tempfile().unwrap();
    use std::os::fd::AsRawFd;
    // SAFETY: a fresh mapping, of which one byte is read.
    unsafe {
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        let page = libc::mmap(std::ptr::null_mut(), 4096, read, shared, file.as_raw_fd(), 0);
        assert_ne!(page, libc::MAP_FAILED);
        page.cast::<u8>().read_volatile()
    }
}

fn install() {
    // SAFETY: a valid structure and a handler of the right type.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = own_handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(signal(), &raw const action, std::ptr::null_mut());
    }
}

#[test]
fn other_handlers_get_what_is_theirs() {
    let Ok(folder) = std::env::var("SWING_HEAP_ALONE") else {
        let folder = on_disk();
        assert!(alone("other_handlers_get_what_is_theirs", folder.path()).success());
        return;
    };
    install();
    let heap = ObjectHeap::open(Path::new(&folder), options()).unwrap();
    let object = Object::new(&heap, 10);
    let handle = heap.handle_of(object.address).unwrap();
    object.bytes()[0] = 1;
    assert_eq!((foreign_fault(), CALLS.load(SeqCst)), (0, 1));
    // Installed again, in front: the next address that is asked for mends that.
    install();
    heap.pointer(handle).unwrap();
    drop(heap.read(handle).unwrap());
    assert_eq!(object.bytes()[0], 1);
    assert_eq!((foreign_fault(), CALLS.load(SeqCst)), (0, 2));
}

#[test]
fn a_damaged_object_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let Ok(folder) = std::env::var("SWING_HEAP_ALONE") else {
        let folder = on_disk();
        let status = alone("a_damaged_object_ends_the_process", folder.path());
        assert_eq!(status.signal(), Some(signal()));
        return;
    };
    let path = Path::new(&folder).join("heap");
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    let handle = heap.alloc_from(&[3; 500]).unwrap();
    heap.close().unwrap();
    let blocks = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path());
    for file in blocks.filter(|p| p.to_string_lossy().contains("objects-")) {
        std::fs::write(&file, vec![9; std::fs::metadata(&file).unwrap().len() as usize]).unwrap();
    }
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    let address = heap.pointer(handle).unwrap();
    // SAFETY: what is tested.
    println!("{}", unsafe { address.read_volatile() });
}

/// Time that this thread has used a processor: other programs do not count.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills a valid structure.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[test]
fn a_fault_on_an_object_in_memory_is_short() {
    let folder = on_disk();
    let options = HeapOptions { budget: 64 << 20, ..options() };
    let heap = ObjectHeap::open(folder.path(), options).unwrap();
    heap.enable_pointers(Some(4 << 20)).unwrap();
    let objects: Vec<_> = (0..20_000).map(|_| Object::new(&heap, 1000)).collect();
    let handles: Vec<Handle> =
        objects.iter().map(|object| heap.handle_of(object.address).unwrap()).collect();
    let mut best = [f64::MAX; 2];
    for _ in 0..5 {
        let started = thread_seconds();
        let sum: usize = objects.iter().map(|object| usize::from(object.bytes()[0])).sum();
        best[0] = best[0].min(thread_seconds() - started);
        let started = thread_seconds();
        let guards: usize = handles.iter().map(|&h| usize::from(heap.read(h).unwrap()[0])).sum();
        best[1] = best[1].min(thread_seconds() - started);
        assert_eq!(sum + guards, 0);
    }
    let [fault, guard] = best.map(|seconds| seconds / 20_000.0 * 1e6);
    println!("a fault takes {fault:.2} us, a guard {guard:.3} us");
    assert!(fault < 200.0, "{fault}");
}

#[test]
fn pinned_objects_stay_for_system_calls_and_the_others_fail() {
    let folder = on_disk();
    let path = folder.path().join("heap");
    let short = HeapOptions { max_wait: Duration::from_millis(100), ..options() };
    let heap = ObjectHeap::open_persistent(&path, short.clone()).unwrap();
    heap.enable_pointers(Some(256 << 10)).unwrap();
    let objects: Vec<_> = (0..20_000).map(|_| Object::new(&heap, 1000)).collect();
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let read = |object: &Object| {
        use std::os::fd::AsRawFd;
        // SAFETY: the object has so many bytes; what is tested is whether the kernel can store.
        let got = unsafe { libc::read(zero.as_raw_fd(), object.address.cast(), object.len) };
        (got, std::io::Error::last_os_error().raw_os_error())
    };
    objects[0].bytes().fill(1);
    objects[1].bytes().fill(1);
    let pin = heap.pin_pointer(objects[0].address).unwrap();
    objects.iter().skip(1).for_each(|object| assert!(object.bytes()[999] < 2));
    assert_eq!(read(&objects[0]).0, 1000);
    assert_eq!(read(&objects[1]), (-1, Some(libc::EFAULT)), "documented: not in its page");
    assert!(objects[0].bytes().iter().all(|&byte| byte == 0));
    objects[0].bytes()[5] = 5;
    // Pinned twice, ended twice; guards and free wait.
    let handle = pin.handle();
    heap.pin_address(objects[0].address.wrapping_add(999)).unwrap();
    drop(pin);
    assert!(matches!(heap.read(handle), Err(HeapError::InUse { .. })));
    assert!(matches!(heap.free(handle), Err(HeapError::InUse { .. })));
    assert!(matches!(heap.replace(handle, b"x"), Err(HeapError::InUse { .. })));
    // A flush has its bytes of that moment, and the next one those of later.
    heap.flush().unwrap();
    objects[0].bytes()[6] = 6;
    heap.unpin_address(objects[0].address).unwrap();
    assert!(matches!(heap.unpin_address(objects[0].address), Err(HeapError::NoPointer { .. })));
    assert_eq!(heap.read(handle).unwrap()[4..8], [0, 5, 6, 0]);
    // Beyond objects, and more than half of the window.
    let beyond = objects[0].address.wrapping_add(1000);
    assert!(matches!(heap.pin_pointer(beyond), Err(HeapError::NoPointer { .. })));
    let pins: Vec<_> = objects.iter().map_while(|o| heap.pin_pointer(o.address).ok()).collect();
    assert_eq!(pins.len(), 32);
    let error = heap.pin_pointer(objects[32].address).unwrap_err();
    assert_eq!(error, HeapError::TooManyHeld { held: 32 });
    objects.iter().for_each(|object| object.bytes()[7] = 7);
    assert!(pins.iter().zip(&objects).all(|(_, object)| read(object).0 == 1000));
    drop(pins);
    heap.check().unwrap();
    heap.close().unwrap();
    let heap = ObjectHeap::open_persistent(&path, short).unwrap();
    assert_eq!(heap.read(handle).unwrap()[..8], [0; 8]);
}

#[test]
fn the_window_follows_the_budget() {
    let folder = on_disk();
    let heap =
        ObjectHeap::open(folder.path(), HeapOptions { budget: 64 << 20, ..options() }).unwrap();
    let objects: Vec<_> = (0..40_000).map(|_| Object::new(&heap, 1000)).collect();
    let touch = |value: u8| objects.iter().for_each(|object| object.bytes().fill(value));
    touch(1);
    for (round, budget) in [12_u64 << 20, 40 << 20, 9 << 20].into_iter().enumerate() {
        heap.set_budget(budget).unwrap();
        let stats = heap.stats().unwrap();
        assert!(stats.used_bytes <= budget, "{stats:?}");
        assert!(objects.iter().all(|object| object.bytes()[999] == round as u8 + 1));
        touch(round as u8 + 2);
        let stats = heap.stats().unwrap();
        assert!(stats.used_bytes <= budget, "{stats:?}");
    }
    heap.check().unwrap();
}

#[test]
fn all_again_by_mappings() {
    common::again_by_mappings("all_again_by_mappings");
}
