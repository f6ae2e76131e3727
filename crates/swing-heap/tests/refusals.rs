//! What the system refuses to a heap: system calls, limits, writing, another user's directory. Each
//! in a child process.

mod common;

#[path = "../../swing-tier/tests/common/filter.rs"]
#[allow(dead_code)]
mod filter;
#[path = "../../swing-tier/tests/common/mount.rs"]
#[allow(dead_code)]
mod mount;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use common::on_disk;
use filter::{become_nobody, forbid, give_up_privileges, in_child, limit};
use mount::{Mount, is_root};
use swing_heap::{Handle, HeapError, HeapOptions, ObjectHeap};
use swing_tier::{Cause, OpenError};

fn options() -> HeapOptions {
    let max_wait = Duration::from_secs(30);
    HeapOptions { budget: 8 << 20, max_wait, ..HeapOptions::default() }
}

fn bytes(number: usize) -> Vec<u8> {
    (number as u64).to_le_bytes().repeat(125)
}

/// Objects, more than memory holds; the first error ends it.
fn fill(heap: &ObjectHeap, from: usize, count: usize) -> (Vec<Handle>, Option<HeapError>) {
    let mut handles = Vec::new();
    for number in from..from + count {
        match heap.alloc_from(&bytes(number)) {
            Ok(handle) => handles.push(handle),
            Err(error) => return (handles, Some(error)),
        }
    }
    (handles, None)
}

fn are_right(heap: &ObjectHeap, handles: &[Handle]) -> bool {
    let right =
        |(number, &handle): (usize, &Handle)| heap.copy_of(handle).unwrap() == bytes(number);
    handles.iter().enumerate().all(right)
}

/// Whether objects are right for this thread and for one that has no queue yet.
fn are_right_for_all(heap: &ObjectHeap, handles: &[Handle]) -> bool {
    let other = std::thread::scope(|scope| scope.spawn(|| are_right(heap, handles)).join());
    other.unwrap() && are_right(heap, handles)
}

#[test]
fn a_heap_goes_on_where_io_uring_is_forbidden_later() {
    let folder = on_disk();
    in_child(|| {
        let heap = ObjectHeap::open_persistent(folder.path(), options()).unwrap();
        let (mut handles, _) = fill(&heap, 0, 10_000);
        assert!(are_right(&heap, &handles));
        if !forbid(&[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter], libc::ENOSYS) {
            println!("skipped: no seccomp filters here");
            return true;
        }
        handles.extend(fill(&heap, 10_000, 10_000).0);
        assert_eq!(handles.len(), 20_000);
        heap.flush().unwrap();
        heap.check().unwrap();
        are_right_for_all(&heap, &handles) && heap.close().is_ok()
    });
}

/// Stores through pointers to more objects than the window has pages, and looks by guards.
fn pointers_work(heap: &ObjectHeap, handles: &[Handle]) -> bool {
    for &handle in handles {
        let pointer = heap.pointer(handle).unwrap().as_ptr();
        // SAFETY: the object exists, and has 1000 bytes.
        unsafe { pointer.add(999).write_volatile(7) };
    }
    handles.iter().all(|&handle| heap.copy_of(handle).unwrap()[999] == 7)
}

#[test]
fn without_userfaultfd_plain_pointers_work_by_mappings() {
    let folder = on_disk();
    in_child(|| {
        let heap = ObjectHeap::open(folder.path(), options()).unwrap();
        let (handles, _) = fill(&heap, 0, 10_000);
        if !forbid(&[libc::SYS_userfaultfd], libc::EPERM) {
            println!("skipped: no seccomp filters here");
            return true;
        }
        // By the device, if there is one.
        assert!(pointers_work(&heap, &handles));
        if is_root() {
            // The same without the right to the device.
            let heap = ObjectHeap::open(folder.path(), options()).unwrap();
            let (handles, _) = fill(&heap, 0, 10_000);
            become_nobody();
            assert!(pointers_work(&heap, &handles));
            heap.check().unwrap();
        }
        true
    });
}

/// Where one way is asked for and refused, no other one is taken.
#[test]
fn without_the_way_that_is_asked_for_plain_pointers_are_refused_and_guards_go_on() {
    let folder = on_disk();
    in_child(|| {
        // SAFETY: the child has one thread.
        unsafe { std::env::set_var("SWING_HEAP_POINTERS", "userfaultfd") };
        let heap = ObjectHeap::open(folder.path(), options()).unwrap();
        let (handles, _) = fill(&heap, 0, 100);
        if !is_root() || !forbid(&[libc::SYS_userfaultfd], libc::EPERM) {
            println!("skipped: no seccomp filters here");
            return true;
        }
        become_nobody();
        let error = heap.pointer(handles[1]).unwrap_err();
        assert!(matches!(error, HeapError::NoPointers { .. }), "{error}");
        assert!(error.to_string().contains("/dev/userfaultfd"), "{error}");
        are_right(&heap, &handles)
    });
}

/// A process that has nearly all its mappings gets on with fewer pages.
#[test]
fn few_mappings_make_a_small_window() {
    let folder = on_disk();
    in_child(|| {
        // SAFETY: the child has one thread.
        unsafe { std::env::set_var("SWING_HEAP_POINTERS", "mappings") };
        let heap =
            ObjectHeap::open(folder.path(), HeapOptions { budget: 64 << 20, ..options() }).unwrap();
        let (handles, _) = fill(&heap, 0, 20_000);
        assert!(heap.pointer(handles[0]).is_ok());
        // Pages of one mapping in turn with and without access, until there are no more.
        let len = 80_000 * 4096;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping, whose access is changed page by page.
        let taken = unsafe {
            let base = libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0);
            let changed =
                |page: usize| libc::mprotect(base.add(2 * page * 4096), 4096, libc::PROT_READ) == 0;
            let taken = (0..40_000).take_while(|&page| changed(page)).count();
            // Some are left.
            (0..150).for_each(|page| assert_eq!(libc::munmap(base.add(page * 8192), 8192), 0));
            taken
        };
        println!("{taken} pages");
        assert!(taken > 150 && taken < 40_000, "{taken}");
        let right = pointers_work(&heap, &handles);
        heap.check().unwrap();
        right
    });
}

#[test]
fn limits_on_files_and_locked_memory_lose_nothing() {
    let folder = on_disk();
    in_child(|| {
        if is_root() {
            // Root is not held to the limits.
            give_up_privileges();
        }
        limit(libc::RLIMIT_MEMLOCK, 0);
        let path = folder.path().join("heap");
        let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
        let (mut handles, _) = fill(&heap, 0, 10_000);
        heap.flush().unwrap();
        // SAFETY: asks for the number of the next descriptor.
        let next = unsafe { libc::dup(0) };
        limit(libc::RLIMIT_NOFILE, next as u64);
        assert!(are_right_for_all(&heap, &handles));
        limit(libc::RLIMIT_FSIZE, 16 << 20);
        let (more, error) = fill(&heap, 10_000, 40_000);
        assert!(matches!(error, Some(HeapError::DiskFull(_))), "{error:?}");
        handles.extend(more);
        let right = are_right_for_all(&heap, &handles);
        heap.check().unwrap();
        let second = ObjectHeap::open(folder.path(), options());
        let refused =
            matches!(&second, Err(HeapError::Io(e)) if e.cause == Cause::Os(libc::EMFILE));
        assert!(refused, "{second:?}");
        right
    });
}

/// What opening a heap says where nobody can write, ephemeral and persistent.
fn refusals(path: &Path) -> [HeapError; 2] {
    let named = ObjectHeap::open_persistent(path, options()).map(drop);
    [ObjectHeap::open(path, options()).map(drop).unwrap_err(), named.unwrap_err()]
}

#[test]
fn a_read_only_file_system_is_an_error_that_names_the_file() {
    let mount = match Mount::new(64) {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: {why}"),
    };
    let path = mount.path().join("heap");
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    let handle = heap.alloc_from(b"kept").unwrap();
    heap.set_root(Some(handle)).unwrap();
    heap.close().unwrap();
    mount.remount("remount,ro");
    for error in refusals(&path) {
        let (HeapError::Io(io) | HeapError::Open(OpenError::Io(io))) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(io.cause, Cause::Os(libc::EROFS), "{error}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
    mount.remount("remount,rw");
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    assert_eq!(*heap.read(heap.root().unwrap().unwrap()).unwrap(), *b"kept");
}

#[test]
fn a_full_file_system_is_an_error_and_the_flush_before_is_there() {
    let mount = match Mount::new(64) {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: {why}"),
    };
    let path = mount.path().join("heap");
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    let (mut handles, _) = fill(&heap, 0, 5000);
    heap.flush().unwrap();
    let (more, error) = fill(&heap, 5000, 60_000);
    assert!(matches!(error, Some(HeapError::DiskFull(_))), "{error:?}");
    handles.extend(more);
    heap.check().unwrap();
    assert!(are_right_for_all(&heap, &handles));
    let stored = match heap.flush() {
        Ok(()) => handles.len(),
        Err(HeapError::DiskFull(_) | HeapError::Flush(_)) => 5000,
        Err(error) => panic!("{error}"),
    };
    // Objects make room for others.
    for handle in handles.drain(4000..) {
        heap.free(handle).unwrap();
    }
    assert!(are_right_for_all(&heap, &handles));
    let flushed = heap.flush();
    drop(heap);
    let heap = ObjectHeap::open_persistent(&path, options()).unwrap();
    let expected = if flushed.is_ok() { 4000 } else { stored };
    assert_eq!(heap.stats().unwrap().objects, expected as u64, "{flushed:?}");
    assert!(are_right(&heap, &handles));
}

#[test]
fn another_users_directory_is_not_written() {
    if !is_root() {
        return println!("skipped: changing the user needs root");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap");
    ObjectHeap::open_persistent(&path, options()).unwrap().close().unwrap();
    for readable in [folder.path(), &path] {
        std::fs::set_permissions(readable, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let before = std::fs::read_dir(&path).unwrap().count();
    in_child(|| {
        become_nobody();
        let [ephemeral, persistent] = refusals(&path);
        let denied = matches!(&ephemeral, HeapError::Io(e) if e.cause == Cause::Os(libc::EACCES));
        let foreign =
            matches!(&persistent, HeapError::Open(OpenError::ForeignDirectory { owner: 0, .. }));
        println!("{ephemeral}; {persistent}");
        denied && foreign
    });
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), before);
}
