//! One suite for every back end that moves bytes: what is written is read, errors name the file and
//! the place, buffers belong to the device until the completion, forks are refused.

mod common;

use std::collections::HashMap;

use swing_tier::storage::{Access, Direction, FileRef, Queue, QueueOptions, Request, Storage};
use swing_tier::{BufferClass, Cause, IoBuffer};

const UNIT: u64 = 4096;

fn options(depth: u32) -> QueueOptions {
    let buffers =
        vec![BufferClass { len: 4096, count: depth }, BufferClass { len: 64 << 10, count: 4 }];
    QueueOptions { depth, buffers }
}

fn request(file: &FileRef, direction: Direction, unit: u64, buffer: IoBuffer) -> Request {
    let (file, len) = (file.clone(), buffer.len() as u32);
    Request { file, direction, offset: unit * UNIT, len, buffer, tag: unit }
}

/// Bytes that say which unit they belong to.
fn pattern(unit: u64, version: u8) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(unit * 256 + u64::from(version));
    (0..UNIT).map(|_| random.u8(..)).collect()
}

fn write_units(queue: &mut dyn Queue, file: &FileRef, units: u64) {
    for unit in 0..units {
        while queue.in_flight() == queue.depth() {
            queue.wait().unwrap().result.unwrap();
        }
        let mut buffer = loop {
            match queue.take_buffer(4096) {
                Some(buffer) if buffer.len() == 4096 => break buffer,
                other => {
                    drop(other);
                    queue.wait().unwrap().result.unwrap();
                }
            }
        };
        buffer.copy_from_slice(&pattern(unit, 1));
        queue.submit(request(file, Direction::Write, unit, buffer));
    }
    while let Some(done) = queue.wait() {
        done.result.unwrap();
    }
}

#[test]
fn many_requests_in_flight_read_what_was_written() {
    for (name, _folder, directory) in common::back_ends() {
        let file = directory.create("data").unwrap();
        file.preallocate(0, 256 * UNIT).unwrap();
        assert_eq!(file.len().unwrap(), 256 * UNIT, "{name}");
        let mut queue = directory.queue(&options(32)).unwrap();
        println!("{name}: {}", queue.describe());
        write_units(&mut *queue, &file, 256);
        file.sync().unwrap();
        directory.sync_directory().unwrap();
        let mut order: Vec<u64> = (0..256).collect();
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        let mut seen = HashMap::new();
        for chunk in order.chunks(32) {
            for &unit in chunk {
                let buffer = queue.take_buffer(4096).unwrap();
                queue.submit(request(&file, Direction::Read, unit, buffer));
            }
            queue.start();
            while let Some(done) = queue.wait() {
                done.result.unwrap();
                assert_eq!(done.buffer[..4096], pattern(done.tag, 1), "{name}: unit {}", done.tag);
                seen.insert(done.tag, ());
            }
        }
        assert_eq!(seen.len(), 256, "{name}");
    }
}

#[test]
fn a_read_past_the_end_is_an_error_with_its_place() {
    for (name, _folder, directory) in common::back_ends() {
        let file = directory.create("short").unwrap();
        file.preallocate(0, 2 * UNIT).unwrap();
        let mut queue = directory.queue(&options(4)).unwrap();
        let buffer = queue.take_buffer(64 << 10).unwrap();
        queue.submit(request(&file, Direction::Read, 1, buffer));
        let error = queue.wait().unwrap().result.unwrap_err();
        assert_eq!(error.cause, Cause::Short { moved: UNIT }, "{name}");
        assert_eq!((error.offset, error.len), (Some(UNIT), Some(64 << 10)), "{name}");
        assert!(error.path.ends_with("short") && error.action == "read", "{name}: {error}");
        assert!(queue.wait().is_none(), "{name}: nothing else is in flight");
    }
}

#[test]
fn the_operating_systems_reason_arrives() {
    for (name, _folder, directory) in common::back_ends() {
        let made = directory.create("readable").unwrap();
        made.preallocate(0, UNIT).unwrap();
        let file = directory.open("readable", Access::Read).unwrap().unwrap();
        let mut queue = directory.queue(&options(4)).unwrap();
        let buffer = queue.take_buffer(1).unwrap();
        queue.submit(request(&file, Direction::Write, 0, buffer));
        let error = queue.wait().unwrap().result.unwrap_err();
        assert_eq!(error.cause, Cause::Os(libc::EBADF), "{name}");
        assert!(error.to_string().contains("cannot write"), "{error}");
    }
}

#[test]
fn requests_that_are_not_whole_units_are_refused() {
    for (name, _folder, directory) in common::back_ends() {
        let file = directory.create("odd").unwrap();
        file.preallocate(0, 2 * UNIT).unwrap();
        let mut queue = directory.queue(&options(4)).unwrap();
        for (offset, len) in [(100, 4096), (0, 100), (0, 8192), (0, 0)] {
            let buffer = queue.take_buffer(4096).unwrap();
            let (file, direction) = (file.clone(), Direction::Read);
            queue.submit(Request { file, direction, offset, len, buffer, tag: 9 });
            let done = queue.wait().unwrap();
            let cause = done.result.unwrap_err().cause;
            assert_eq!((cause, done.tag), (Cause::Os(libc::EINVAL), 9), "{name}");
        }
    }
}

#[test]
fn dropping_a_queue_waits_for_the_device() {
    for (name, _folder, directory) in common::back_ends() {
        let file = directory.create("dropped").unwrap();
        file.preallocate(0, 64 * UNIT).unwrap();
        let mut queue = directory.queue(&options(64)).unwrap();
        for unit in 0..64 {
            let mut buffer = queue.take_buffer(4096).unwrap();
            buffer[..4096].copy_from_slice(&pattern(unit, 2));
            let mut request = request(&file, Direction::Write, unit, buffer);
            request.len = 4096;
            queue.submit(request);
        }
        queue.start();
        drop(queue);
        // Every write that had been submitted happened, from memory that nobody reused.
        let mut queue = directory.queue(&options(64)).unwrap();
        for unit in 0..64 {
            let buffer = queue.take_buffer(4096).unwrap();
            let mut request = request(&file, Direction::Read, unit, buffer);
            request.len = 4096;
            queue.submit(request);
        }
        while let Some(done) = queue.wait() {
            done.result.unwrap();
            assert_eq!(done.buffer[..4096], pattern(done.tag, 2), "{name}");
        }
    }
}

#[test]
fn buffers_come_back_and_run_out_cleanly() {
    for (name, _folder, directory) in common::back_ends() {
        let mut queue = directory.queue(&options(4)).unwrap();
        let all: Vec<_> = std::iter::from_fn(|| queue.take_buffer(1)).collect();
        assert_eq!(all.len(), 8, "{name}");
        drop(all);
        assert_eq!(queue.longest_buffer(), 64 << 10);
        assert!(queue.take_buffer((64 << 10) + 1).is_none(), "{name}");
        assert!(queue.take_buffer(64 << 10).is_some(), "{name}");
    }
}

#[test]
fn each_thread_has_a_queue_of_its_own() {
    for (name, _folder, directory) in common::back_ends() {
        let file = directory.create("threads").unwrap();
        file.preallocate(0, 64 * UNIT).unwrap();
        write_units(&mut *directory.queue(&options(8)).unwrap(), &file, 64);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (directory, file, name) = (&directory, &file, &name);
                scope.spawn(move || {
                    let mut queue = directory.queue(&options(8)).unwrap();
                    for round in 0..32 {
                        let unit = (round * 7 + thread * 13) % 64;
                        let buffer = queue.take_buffer(4096).unwrap();
                        queue.submit(request(file, Direction::Read, unit, buffer));
                        let done = queue.wait().unwrap();
                        done.result.unwrap();
                        assert_eq!(done.buffer[..4096], pattern(unit, 1), "{name}");
                    }
                });
            }
        });
    }
}

/// Runs `check` in a forked child; its exit status has to be zero.
fn in_child(check: impl FnOnce() -> bool) {
    // SAFETY: the child works with what it inherited, takes no lock that another thread may have
    // held, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(!check());
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status}");
}

#[test]
fn a_forked_child_cannot_use_its_parents_queue_and_gets_a_new_one() {
    for (name, _folder, directory) in common::back_ends() {
        let file = directory.create("forked").unwrap();
        file.preallocate(0, 8 * UNIT).unwrap();
        let mut queue = directory.queue(&options(8)).unwrap();
        write_units(&mut *queue, &file, 8);
        in_child(|| {
            // The parent's queue hands out no memory that the child does not have.
            let refused = queue.take_buffer(1).is_none();
            // A file of the parent's can be read, by a queue of the child's own.
            let mut own = directory.queue(&options(8)).unwrap();
            let buffer = own.take_buffer(4096).unwrap();
            own.submit(request(&file, Direction::Read, 3, buffer));
            let done = own.wait().unwrap();
            let read = done.result.is_ok() && done.buffer[..4096] == pattern(3, 1)[..];
            // Changes are refused.
            let unchanged = file.sync().is_err_and(|e| e.cause == Cause::Forked)
                && directory.create("child").is_err_and(|e| e.cause == Cause::Forked)
                && directory.remove("forked").is_err_and(|e| e.cause == Cause::Forked);
            let dropped = own;
            drop(dropped);
            refused && read && unchanged
        });
        // The parent's goes on.
        let buffer = queue.take_buffer(4096).unwrap();
        queue.submit(request(&file, Direction::Read, 5, buffer));
        let done = queue.wait().unwrap();
        assert_eq!(done.buffer[..4096], pattern(5, 1), "{name}");
    }
}

#[test]
fn the_directory_does_what_the_seam_promises() {
    for (name, folder, directory) in common::back_ends() {
        let a = directory.create("a").unwrap();
        let taken = directory.create("a").unwrap_err();
        assert_eq!(taken.cause, Cause::Os(libc::EEXIST), "{name}");
        assert!(directory.open("none", Access::Write).unwrap().is_none(), "{name}");
        directory.rename("a", "b").unwrap();
        assert_eq!(directory.list().unwrap(), ["b"], "{name}");
        a.preallocate(0, 4 * UNIT).unwrap();
        a.truncate(2 * UNIT).unwrap();
        assert_eq!(a.len().unwrap(), 2 * UNIT, "{name}");
        directory.remove("b").unwrap();
        assert_eq!(a.len().unwrap(), 2 * UNIT, "{name}: open files stay");
        assert_eq!(directory.foreign_owner().unwrap(), None, "{name}");
        drop(folder);
    }
}

#[test]
fn limits_on_locked_memory_make_unregistered_buffers() {
    // Root may lock as much as it wants; the limit counts for others only.
    let (name, _folder, directory) = common::back_ends().remove(0);
    in_child(|| {
        // SAFETY: these calls change the child's own limits and user only.
        unsafe {
            let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit);
            if libc::geteuid() == 0 && libc::setresuid(65534, 65534, 65534) != 0 {
                return true;
            }
        }
        let file = directory.open("any", Access::Read);
        let queue = directory.queue(&options(8)).unwrap();
        println!("{name}, {file:?}: {}", queue.describe());
        !queue.describe().contains(", registered")
    });
}
