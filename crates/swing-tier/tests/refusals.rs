//! What the system refuses: room, writing, another user's directory, io_uring. Each in a child
//! process or on a file system of its own.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use common::filter::{become_nobody, forbid, give_up_privileges, in_child, limit};
use common::model::{Model, random_commit, seen, small_options};
use common::mount::{Mount, is_root};
use swing_tier::storage::Storage;
use swing_tier::{CommitError, Directory, DirectoryOptions, Engine, Log, OpenError};

fn directory(path: &Path) -> Arc<dyn Storage> {
    Arc::new(
        Directory::open(path, DirectoryOptions { create: true, ..Default::default() }).unwrap(),
    )
}

/// A commit that only adds, so that the disk is full sooner or later whatever else is done.
fn grow(log: &Log, model: &mut Model, random: &mut fastrand::Rng) -> Result<(), CommitError> {
    let mut batch = log.batch()?;
    let bytes = vec![random.u8(..); 256 << 10];
    let id = batch.put(&bytes)?;
    batch.commit()?;
    model.now.records.insert(id, bytes);
    Ok(())
}

/// Random work until the disk is full, and on the full disk; the state stays the model's, and
/// comes back after opening.
fn fill(path: &Path, random: &mut fastrand::Rng) -> u32 {
    let log = Log::create(directory(path), small_options()).unwrap();
    let (mut model, mut full) = (Model::default(), 0);
    for _ in 0..400 {
        let done = match random.u32(0..6) {
            0 => log.collect().map(|_| ()),
            1 if full == 0 => grow(&log, &mut model, random),
            _ => random_commit(&log, &mut model, random).map(|_| ()),
        };
        match done {
            Ok(()) => {}
            Err(CommitError::Full(_)) => full += 1,
            Err(error) => panic!("{error}"),
        }
        if full > 40 {
            break;
        }
    }
    assert_eq!(seen(&log), model);
    drop(log);
    let log = Log::open(directory(path), small_options()).unwrap();
    assert_eq!(seen(&log), model);
    full
}

#[test]
fn a_full_file_system_is_an_error_and_nothing_is_lost() {
    let mount = match Mount::new(8) {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: {why}"),
    };
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    let full = fill(&mount.path().join("log"), &mut fastrand::Rng::with_seed(seed));
    assert!(full > 0, "the disk was never full");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_nothing_is_lost() {
    let folder = common::on_disk();
    let path = folder.path().to_owned();
    in_child(move || {
        // SAFETY: changes the child's own signals only.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        limit(libc::RLIMIT_FSIZE, 700 << 10);
        // A file that may grow no more has no room for the rest of its megabyte.
        fill(&path.join("log"), &mut fastrand::Rng::with_seed(3)) > 0
    });
}

#[test]
fn a_read_only_file_system_can_be_read() {
    let mount = match Mount::new(24) {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: {why}"),
    };
    let path = mount.path().join("log");
    let log = Log::create(directory(&path), small_options()).unwrap();
    let mut model = Model::default();
    let mut random = fastrand::Rng::with_seed(5);
    (0..10).for_each(|_| assert!(random_commit(&log, &mut model, &mut random).is_ok()));
    drop(log);
    mount.remount("remount,ro");
    let open = || -> Arc<dyn Storage> {
        Arc::new(Directory::open(&path, DirectoryOptions::default()).unwrap())
    };
    match Log::open(open(), small_options()) {
        Err(OpenError::Io(error)) => {
            assert_eq!(error.cause, swing_tier::Cause::Os(libc::EROFS), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let log = Log::open_read_only(open(), small_options()).unwrap();
    assert_eq!(seen(&log), model);
    drop(log);
    mount.remount("remount,rw");
    assert_eq!(seen(&Log::open(open(), small_options()).unwrap()), model);
}

#[test]
fn another_users_directory_is_not_written() {
    if !is_root() {
        return println!("skipped: changing the user needs root");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    drop(Log::create(directory(&path), small_options()).unwrap());
    for entry in std::fs::read_dir(&path).unwrap() {
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(entry.unwrap().path(), open).unwrap();
    }
    for readable in [folder.path(), &path] {
        std::fs::set_permissions(readable, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    in_child(move || {
        become_nobody();
        let open = || -> Arc<dyn Storage> {
            Arc::new(Directory::open(&path, DirectoryOptions::default()).unwrap())
        };
        let refused = Log::open(open(), small_options());
        let foreign = matches!(refused, Err(OpenError::ForeignDirectory { owner: 0, .. }));
        foreign && Log::open_read_only(open(), small_options()).is_ok()
    });
}

#[test]
fn where_io_uring_is_forbidden_threads_do_the_work() {
    let folder = common::on_disk();
    let path = folder.path().to_owned();
    in_child(move || {
        if !forbid(&[libc::SYS_io_uring_setup], libc::EPERM) {
            println!("skipped: no seccomp filters here");
            return true;
        }
        let storage = Directory::open(&path, DirectoryOptions::default()).unwrap();
        let choice = storage.choice().clone();
        println!("{choice}");
        assert_eq!(choice.engine, Engine::Threads);
        assert!(choice.reason.contains("forbids io_uring"), "{choice}");
        let asked = DirectoryOptions { engine: Engine::Ring, create: false };
        assert!(Directory::open(&path, asked).is_err());
        let log = Log::create(Arc::new(storage), small_options()).unwrap();
        let mut model = Model::default();
        let mut random = fastrand::Rng::with_seed(6);
        (0..10).for_each(|_| assert!(random_commit(&log, &mut model, &mut random).is_ok()));
        seen(&log) == model
    });
}

#[test]
fn a_log_goes_on_where_io_uring_is_forbidden_later() {
    let folder = common::on_disk();
    let path = folder.path().to_owned();
    in_child(move || {
        let log = Log::create(directory(&path), small_options()).unwrap();
        let mut model = Model::default();
        let mut random = fastrand::Rng::with_seed(8);
        for step in 0..30 {
            // A program that goes into its sandbox after it has opened its files.
            let calls = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter];
            if step == 10 && !forbid(&calls, libc::EPERM) {
                println!("skipped: no seccomp filters here");
                return true;
            }
            assert!(random_commit(&log, &mut model, &mut random).is_ok());
            assert_eq!(seen(&log), model);
        }
        // A thread that has no ring yet.
        let again = std::thread::scope(|scope| scope.spawn(|| seen(&log) == model).join());
        again.unwrap() && log.collect().is_ok()
    });
}

#[test]
fn without_locked_memory_or_descriptors_a_log_is_used_or_refused() {
    let folder = common::on_disk();
    let path = folder.path().to_owned();
    in_child(move || {
        // Root is not held to the limit.
        if is_root() {
            give_up_privileges();
        }
        limit(libc::RLIMIT_MEMLOCK, 0);
        let path = path.join("log");
        let log = Log::create(directory(&path), small_options()).unwrap();
        let mut model = Model::default();
        let mut random = fastrand::Rng::with_seed(9);
        (0..20).for_each(|_| assert!(random_commit(&log, &mut model, &mut random).is_ok()));
        // SAFETY: asks for the number of the next descriptor.
        let next = unsafe { libc::dup(0) };
        limit(libc::RLIMIT_NOFILE, next as u64);
        // New rings and files are refused, and nothing that is there is lost.
        for _ in 0..20 {
            match random_commit(&log, &mut model, &mut random) {
                Ok(_) => {}
                Err(CommitError::Io(error)) => {
                    assert_eq!(error.cause, swing_tier::Cause::Os(libc::EMFILE), "{error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        let same = std::thread::scope(|scope| scope.spawn(|| seen(&log) == model).join());
        let second = Directory::open(&path, DirectoryOptions::default());
        same.unwrap() && second.is_err()
    });
}

#[test]
fn descriptors_that_the_program_closes_touch_no_file_of_its_own() {
    let folder = common::on_disk();
    in_child(|| {
        let log = Log::create(directory(&folder.path().join("log")), small_options()).unwrap();
        let mut model = Model::default();
        let mut random = fastrand::Rng::with_seed(11);
        (0..20).for_each(|_| assert!(random_commit(&log, &mut model, &mut random).is_ok()));
        assert_eq!(seen(&log), model);
        // SAFETY: as a program does that becomes a daemon.
        assert_eq!(unsafe { libc::close_range(3, u32::MAX, 0) }, 0);
        let path = |number| folder.path().join(format!("own-{number}"));
        let own: Vec<std::fs::File> = (0..64)
            .map(|number| {
                std::fs::write(path(number), "mine").unwrap();
                std::fs::File::options().read(true).write(true).open(path(number)).unwrap()
            })
            .collect();
        // The first change says why; then the log has to be opened again.
        let error = (0..20).find_map(|_| grow(&log, &mut model, &mut random).err());
        assert!(error.is_none_or(|error| error.to_string().contains("closed")));
        drop(log);
        own.iter().all(|file| file.metadata().is_ok_and(|data| data.len() == 4))
            && (0..64).all(|number| std::fs::read(path(number)).is_ok_and(|text| text == b"mine"))
    });
}
