//! A program closes all descriptors, also those of this library, and opens files of its own at
//! their numbers. Reads and writes go on, and no file of the program is touched. Each test in a
//! child process.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::filter::{forbid, in_child};
use common::model::{Model, random_commit, seen, small_options};
use common::taken::{Taken, is_overlay};
use swing_tier::storage::{Direction, FileRef, Locked, Queue, QueueOptions, Request, Storage};
use swing_tier::{BufferClass, Cause, Directory, DirectoryOptions, Engine, Log};

const UNIT: u64 = 4096;
const UNITS: u64 = 64;

fn options() -> QueueOptions {
    QueueOptions { depth: 64, buffers: vec![BufferClass { len: 4096, count: 64 }] }
}

fn pattern(unit: u64, version: u8) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(unit * 256 + u64::from(version));
    (0..UNIT).map(|_| random.u8(..)).collect()
}

fn submit(queue: &mut dyn Queue, file: &FileRef, direction: Direction, version: u8) {
    for unit in 0..UNITS {
        let mut buffer = queue.take_buffer(4096).unwrap();
        if direction == Direction::Write {
            buffer.copy_from_slice(&pattern(unit, version));
        }
        let (file, len) = (file.clone(), 4096);
        queue.submit(Request { file, direction, offset: unit * UNIT, len, buffer, tag: unit });
    }
}

/// Waits for all: whether they were right.
fn are_read(queue: &mut dyn Queue, version: u8) -> bool {
    let mut right = 0;
    while let Some(done) = queue.wait() {
        done.result.unwrap();
        right += u64::from(done.buffer[..] == pattern(done.tag, version)[..]);
    }
    right == UNITS
}

fn are_written(queue: &mut dyn Queue) -> bool {
    std::iter::from_fn(|| queue.wait()).filter(|done| done.result.is_ok()).count() as u64 == UNITS
}

/// A file of units in version 1, and the lock.
fn prepare(path: &Path, engine: Engine) -> Option<(Directory, FileRef, Locked)> {
    let directory = match Directory::open(path, DirectoryOptions { engine, create: true }) {
        Ok(directory) => directory,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let lock = directory.lock("lock", true).unwrap();
    let file = directory.create("data").unwrap();
    file.preallocate(0, UNITS * UNIT).unwrap();
    let mut queue = directory.queue(&options()).unwrap();
    submit(&mut *queue, &file, Direction::Write, 1);
    assert!(are_written(&mut *queue));
    Some((directory, file, lock))
}

#[test]
fn a_queue_goes_on_when_its_descriptors_are_closed() {
    for (engine, rings) in [(Engine::Ring, false), (Engine::Ring, true), (Engine::Threads, false)] {
        let folder = common::on_disk();
        in_child(|| {
            let path = folder.path().join("log");
            let Some((directory, file, lock)) = prepare(&path, engine) else { return true };
            if is_overlay(&path) {
                return true;
            }
            let mut queue = directory.queue(&options()).unwrap();
            let mut other = directory.queue(&options()).unwrap();
            submit(&mut *other, &file, Direction::Read, 1);
            submit(&mut *queue, &file, Direction::Read, 1);
            // The one's are with the kernel, the other's are not.
            queue.start();
            let taken = Taken::new(folder.path(), rings);
            assert!(are_read(&mut *queue, 1) && are_read(&mut *other, 1));
            drop(other);
            submit(&mut *queue, &file, Direction::Write, 2);
            assert!(are_written(&mut *queue));
            file.sync().unwrap();
            directory.sync_directory().unwrap();
            submit(&mut *queue, &file, Direction::Read, 2);
            assert!(are_read(&mut *queue, 2));
            println!("{}", queue.describe());
            assert_eq!(queue.describe().contains("io_uring"), engine == Engine::Ring);
            drop((queue, file, lock, directory));
            taken.are_untouched()
        });
    }
}

#[test]
fn a_file_without_a_name_is_not_read_any_more() {
    for engine in [Engine::Ring, Engine::Threads] {
        let folder = common::on_disk();
        in_child(|| {
            let path = folder.path().join("log");
            let Some((directory, file, lock)) = prepare(&path, engine) else { return true };
            directory.remove("data").unwrap();
            // Another file has its name.
            std::fs::write(path.join("data"), vec![7; (UNITS * UNIT) as usize]).unwrap();
            let taken = Taken::new(folder.path(), false);
            for direction in [Direction::Read, Direction::Write] {
                let mut queue = directory.queue(&options()).unwrap();
                submit(&mut *queue, &file, direction, 3);
                let refused = std::iter::from_fn(|| queue.wait()).filter(|done| {
                    done.result.as_ref().is_err_and(|error| error.cause == Cause::Closed)
                });
                assert_eq!(refused.count() as u64, UNITS);
            }
            let right = std::fs::read(path.join("data")).unwrap().iter().all(|&byte| byte == 7);
            drop((file, lock, directory));
            right && taken.are_untouched()
        });
    }
}

#[test]
fn requests_in_flight_are_done_when_io_uring_is_forbidden() {
    for direction in [Direction::Read, Direction::Write] {
        let folder = common::on_disk();
        in_child(|| {
            let path = folder.path().join("log");
            let prepared = prepare(&path, Engine::Ring);
            let Some((directory, file, _lock)) = prepared else { return true };
            let mut queue = directory.queue(&options()).unwrap();
            submit(&mut *queue, &file, direction, 2);
            queue.start();
            if !forbid(&[libc::SYS_io_uring_enter], libc::EPERM) {
                println!("skipped: no seccomp filters here");
                return true;
            }
            assert!(match direction {
                Direction::Read => are_read(&mut *queue, 1),
                Direction::Write => are_written(&mut *queue),
            });
            let version = if direction == Direction::Read { 1 } else { 2 };
            // The buffers that the kernel had are its own for ever.
            let buffers: Vec<_> = std::iter::from_fn(|| queue.take_buffer(4096)).collect();
            assert!(buffers.len() < 64, "{}", buffers.len());
            drop(buffers);
            let mut queue = directory.queue(&options()).unwrap();
            submit(&mut *queue, &file, Direction::Read, 2);
            are_read(&mut *queue, version)
        });
    }
}

#[test]
fn a_log_goes_on_when_its_descriptors_are_closed() {
    for rings in [false, true] {
        let folder = common::on_disk();
        if is_overlay(folder.path()) {
            return;
        }
        in_child(|| {
            let open = || -> Arc<dyn Storage> {
                let options = DirectoryOptions { create: true, ..Default::default() };
                Arc::new(Directory::open(&folder.path().join("log"), options).unwrap())
            };
            let log = Log::create(open(), small_options()).unwrap();
            let mut model = Model::default();
            let mut random = fastrand::Rng::with_seed(11);
            (0..20).for_each(|_| assert!(random_commit(&log, &mut model, &mut random).is_ok()));
            let taken = Taken::new(folder.path(), rings);
            assert_eq!(seen(&log), model);
            for _ in 0..20 {
                random_commit(&log, &mut model, &mut random).unwrap();
            }
            log.collect().unwrap();
            assert_eq!(seen(&log), model);
            // A second owner is kept out.
            assert!(Log::open(open(), small_options()).is_err());
            drop(log);
            let log = Log::open(open(), small_options()).unwrap();
            assert_eq!(seen(&log), model);
            // A reader's lock keeps a writer out.
            drop(log);
            let reader = Log::open_read_only(open(), small_options()).unwrap();
            let again = Taken::new(folder.path(), rings);
            assert_eq!(seen(&reader), model);
            assert!(Log::open(open(), small_options()).is_err());
            drop(reader);
            let log = Log::open(open(), small_options()).unwrap();
            let same = seen(&log) == model;
            taken.leave();
            drop(log);
            same && again.are_untouched()
        });
    }
}

/// Closing and opening all the time, beside a thread that reads and writes.
#[test]
fn descriptors_that_come_and_go_spoil_nothing() {
    let folder = common::on_disk();
    in_child(|| {
        let path = folder.path().join("log");
        let Some((directory, file, lock)) = prepare(&path, Engine::Auto) else { return true };
        if is_overlay(&path) {
            return true;
        }
        let mut queue = directory.queue(&options()).unwrap();
        for version in 2..60 {
            let taken = Taken::new(folder.path(), version % 2 == 0);
            submit(&mut *queue, &file, Direction::Write, version);
            if version % 3 == 0 {
                queue.start();
            }
            assert!(are_written(&mut *queue));
            submit(&mut *queue, &file, Direction::Read, version);
            assert!(are_read(&mut *queue, version));
            assert!(taken.are_untouched());
            taken.leave();
        }
        drop((queue, file, lock, directory));
        true
    });
}

/// A file system of this process alone, which maps other files than were opened.
fn mount_overlay(at: &Path) -> Option<()> {
    use std::ffi::CString;
    let text = |text: &str| CString::new(text).unwrap();
    let mount = |from: &str, to: &Path, kind: &str, flags, options: &str| {
        let [from, kind, options] = [from, kind, options].map(text);
        let to = text(to.to_str().unwrap());
        // SAFETY: valid strings; the mount is in a namespace of this process's own.
        let done = unsafe {
            libc::mount(from.as_ptr(), to.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
        };
        (done == 0).then_some(())
    };
    // SAFETY: concerns this process alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return None;
    }
    mount("none", Path::new("/"), "none", libc::MS_REC | libc::MS_PRIVATE, "")?;
    mount("tmpfs", at, "tmpfs", 0, "size=64m")?;
    let [lower, upper, work, all] = ["lower", "upper", "work", "all"].map(|name| at.join(name));
    [&lower, &upper, &work, &all].iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let shown = |path: &Path| path.display().to_string();
    let [lower, upper, work] = [&lower, &upper, &work].map(|path| shown(path));
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    mount("overlay", &all, "overlay", 0, &options)
}

/// There the lock is lost with its descriptor, so nothing is read or changed any more: another
/// owner may be there.
#[test]
fn on_an_overlay_file_system_nothing_goes_on_beside_another_owner() {
    let folder = common::on_disk();
    in_child(|| {
        let Some(()) = mount_overlay(folder.path()) else {
            println!("skipped: no overlay file system can be mounted");
            return true;
        };
        let path = folder.path().join("all/log");
        let open = || -> Arc<dyn Storage> {
            let options = DirectoryOptions { create: true, ..Default::default() };
            Arc::new(Directory::open(&path, options).unwrap())
        };
        let log = Log::create(open(), small_options()).unwrap();
        let mut model = Model::default();
        let mut random = fastrand::Rng::with_seed(12);
        (0..20).for_each(|_| assert!(random_commit(&log, &mut model, &mut random).is_ok()));
        let taken = Taken::new(folder.path(), false);
        let second = Log::open(open(), small_options()).unwrap();
        let mut theirs = model.clone();
        for _ in 0..20 {
            random_commit(&second, &mut theirs, &mut random).unwrap();
            let changed = log.batch().and_then(|mut batch| {
                batch.put(&[1; 5000])?;
                batch.commit()
            });
            assert!(changed.is_err(), "two owners");
            assert!(log.collect().is_err() || seen(&second) == theirs);
        }
        assert_eq!(seen(&second), theirs);
        drop((log, second));
        let log = Log::open(open(), small_options()).unwrap();
        let same = seen(&log) == theirs;
        drop(log);
        same && taken.are_untouched()
    });
}
