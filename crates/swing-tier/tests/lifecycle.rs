//! A log on every back end: commits, leases, checkpoints, collection, locks, read-only opening,
//! threads, forks, and files of an earlier version.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::model::{Model, contents, random_commit, seen, small_options};
use swing_tier::storage::Storage;
use swing_tier::{
    CommitError, Directory, DirectoryOptions, Engine, Log, LogOptions, OpenError, ReadError,
    RecordId,
};

fn directory(path: &Path) -> Arc<dyn Storage> {
    Arc::new(Directory::open(path, DirectoryOptions::default()).unwrap())
}

#[test]
fn random_work_on_every_back_end_matches_the_model() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    for (name, _folder, storage) in common::back_ends() {
        let mut random = fastrand::Rng::with_seed(seed);
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let mut model = Model::default();
        let mut log = Log::create(storage.clone(), small_options()).unwrap();
        for step in 0..common::rounds(60) {
            random_commit(&log, &mut model, &mut random).unwrap();
            match random.u32(0..8) {
                0 => drop(log.collect().unwrap()),
                1 => {
                    drop(log);
                    log = Log::open(storage.clone(), small_options()).unwrap();
                    assert_eq!(seen(&log), model, "{name}, step {step}");
                }
                _ => {}
            }
        }
        log.compact().unwrap();
        assert_eq!(seen(&log), model, "{name}");
        let stats = log.stats();
        let dead = stats.used_bytes - stats.live_bytes;
        // The part of a file that is reserved and not written yet counts as dead.
        let reserved = stats.files * small_options().reserve_bytes;
        let most = stats.used_bytes / 3 + reserved;
        assert!(dead < most, "{name}: {stats:?} after it was made small");
    }
}

#[test]
fn a_lease_shows_its_state_whatever_happens_later() {
    let folder = common::on_disk();
    let log = Log::create(directory(folder.path()), small_options()).unwrap();
    let mut random = fastrand::Rng::with_seed(4);
    let mut model = Model::default();
    let mut held = Vec::new();
    for _ in 0..30 {
        random_commit(&log, &mut model, &mut random).unwrap();
        held.push((log.lease(), model.now.clone()));
        log.collect().unwrap();
        let index = random.usize(0..held.len());
        let (lease, expected) = &held[index];
        assert_eq!(&contents(lease), expected);
        if random.bool() {
            held.swap_remove(index);
        }
    }
    let clone = held[0].0.clone();
    let expected = held[0].1.clone();
    held.clear();
    assert_eq!(contents(&clone), expected);
    // A lease keeps the log open, and locked, when the handle is gone.
    drop(log);
    let refused = Log::open(directory(folder.path()), small_options());
    assert!(matches!(refused, Err(OpenError::InUse { .. })), "{refused:?}");
    assert_eq!(contents(&clone), expected);
    drop(clone);
    Log::open(directory(folder.path()), small_options()).unwrap();
}

#[test]
fn what_nobody_can_ask_for_gives_its_room_back() {
    let folder = common::on_disk();
    let log = Log::create(directory(folder.path()), small_options()).unwrap();
    let mut batch = log.batch().unwrap();
    let ids: Vec<_> = (0..40).map(|i| batch.put(&[i; 200_000]).unwrap()).collect();
    batch.retain("before").unwrap();
    batch.commit().unwrap();
    let full = log.stats().used_bytes;
    let mut batch = log.batch().unwrap();
    ids.iter().for_each(|&id| batch.free(id).unwrap());
    batch.commit().unwrap();
    log.compact().unwrap();
    assert!(log.stats().live_bytes >= 8_000_000, "the checkpoint shows them");
    let lease = log.checkpoint("before").unwrap();
    let mut batch = log.batch().unwrap();
    batch.release("before");
    batch.commit().unwrap();
    assert_eq!(lease.read(ids[7]).unwrap(), [7; 200_000]);
    assert!(matches!(log.lease().read(ids[7]), Err(ReadError::NoRecord { .. })));
    drop(lease);
    log.compact().unwrap();
    let empty = log.stats();
    assert!(empty.used_bytes < full / 4, "{full} -> {empty:?}");
    let sum: u64 = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(sum < full / 4, "files of {sum} bytes");
}

#[test]
fn the_collector_works_in_the_background() {
    let folder = common::on_disk();
    let options = LogOptions { background: true, ..small_options() };
    let log = Log::create(directory(folder.path()), options).unwrap();
    let mut batch = log.batch().unwrap();
    let ids: Vec<_> = (0..40).map(|i| batch.put(&[i; 100_000]).unwrap()).collect();
    batch.commit().unwrap();
    let mut batch = log.batch().unwrap();
    ids.iter().filter(|id| id.0 % 8 != 0).for_each(|&id| batch.free(id).unwrap());
    batch.commit().unwrap();
    let begun = std::time::Instant::now();
    while log.stats().used_bytes > 2_500_000 {
        assert!(begun.elapsed().as_secs() < 120, "{:?}", log.stats());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    for id in ids.iter().filter(|id| id.0 % 8 == 0) {
        assert_eq!(log.lease().len_of(*id).unwrap(), 100_000);
    }
    log.verify().unwrap();
}

#[test]
fn one_writer_or_many_readers() {
    for (name, folder, storage) in common::back_ends() {
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let log = Log::create(storage, small_options()).unwrap();
        let second = Log::open(directory(folder.path()), small_options());
        let Err(OpenError::InUse { pid, .. }) = second else { panic!("{name}: {second:?}") };
        assert_eq!(pid, std::process::id(), "{name}");
        let reader = Log::open_read_only(directory(folder.path()), small_options());
        assert!(matches!(reader, Err(OpenError::InUse { .. })), "{name}: {reader:?}");
        drop(log);
        let one = Log::open_read_only(directory(folder.path()), small_options()).unwrap();
        let two = Log::open_read_only(directory(folder.path()), small_options()).unwrap();
        assert!(matches!(one.batch(), Err(CommitError::ReadOnly)), "{name}");
        assert!(matches!(two.collect(), Err(CommitError::ReadOnly)), "{name}");
        let writer = Log::open(directory(folder.path()), small_options());
        assert!(matches!(writer, Err(OpenError::InUse { .. })), "{name}: {writer:?}");
    }
}

#[test]
fn threads_commit_together_and_none_is_lost() {
    for (name, folder, storage) in common::back_ends() {
        let log = Log::create(Arc::new(storage), small_options()).unwrap();
        let done = AtomicBool::new(false);
        let ids: Vec<(RecordId, Vec<u8>)> = std::thread::scope(|scope| {
            let collector = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    log.collect().unwrap();
                }
            });
            let writers: Vec<_> = (0..4_u8)
                .map(|thread| {
                    let log = &log;
                    scope.spawn(move || write_and_free(log, thread))
                })
                .collect();
            let ids = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
            done.store(true, Ordering::Relaxed);
            collector.join().unwrap();
            ids
        });
        assert_eq!(ids.len(), 100, "{name}");
        drop(log);
        let log = Log::open(directory(folder.path()), small_options()).unwrap();
        for (id, bytes) in &ids {
            assert_eq!(&log.lease().read(*id).unwrap(), bytes, "{name}");
        }
        assert_eq!(log.stats().records, 100, "{name}");
    }
}

/// Fills a log with 10 MB, of which a tenth is shown by the checkpoint "kept" alone.
fn a_tenth_is_kept(log: &Log) -> Vec<RecordId> {
    let mut batch = log.batch().unwrap();
    let all: Vec<RecordId> = (0..100).map(|i| batch.put(&vec![i; 100_000]).unwrap()).collect();
    batch.commit().unwrap();
    let (kept, dropped): (Vec<_>, Vec<_>) = all.into_iter().partition(|id| id.0 % 10 == 0);
    let mut batch = log.batch().unwrap();
    dropped.iter().for_each(|id| batch.free(*id).unwrap());
    batch.retain("kept").unwrap();
    batch.commit().unwrap();
    let mut batch = log.batch().unwrap();
    kept.iter().for_each(|id| batch.free(*id).unwrap());
    batch.commit().unwrap();
    kept
}

#[test]
fn freed_records_that_are_still_shown_hold_no_files() {
    for (name, folder, storage) in common::back_ends() {
        for leased in [false, true] {
            for entry in std::fs::read_dir(folder.path()).unwrap() {
                std::fs::remove_file(entry.unwrap().path()).unwrap();
            }
            let storage = directory(folder.path());
            let log = Log::create(storage, small_options()).unwrap();
            let kept = a_tenth_is_kept(&log);
            let lease = log.checkpoint("kept").unwrap();
            let expected = contents(&lease);
            assert_eq!(expected.records.len(), kept.len());
            if leased {
                let mut batch = log.batch().unwrap();
                batch.release("kept");
                batch.commit().unwrap();
            }
            assert!(log.stats().used_bytes > 10_000_000);
            log.collect().unwrap();
            let used = log.stats().used_bytes;
            assert!(used < 3_000_000, "{name}, leased: {leased}: {used} bytes");
            assert_eq!(contents(&lease), expected, "{name}, leased: {leased}");
            drop(lease);
            drop(log);
            let log = Log::open(directory(folder.path()), small_options()).unwrap();
            match log.checkpoint("kept") {
                Some(lease) => assert_eq!(contents(&lease), expected, "{name}"),
                None => assert!(leased, "{name}: the checkpoint is gone"),
            }
            assert_eq!(log.checkpoint("kept").is_none(), leased);
            log.compact().unwrap();
            let most = if leased { 500_000 } else { 2_000_000 };
            let used = log.stats().used_bytes;
            assert!(used < most, "{name}, leased: {leased}: {used} bytes");
        }
        drop(storage);
    }
}

#[test]
fn what_ends_while_records_are_moved_does_no_harm() {
    for (name, _folder, storage) in common::back_ends() {
        let log = Log::create(Arc::new(storage), small_options()).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let collector = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    log.collect().unwrap();
                }
            });
            for round in 0..20_u8 {
                let mut batch = log.batch().unwrap();
                let ids: Vec<_> =
                    (0..40).map(|_| batch.put(&vec![round; 40_000]).unwrap()).collect();
                batch.retain("kept").unwrap();
                batch.commit().unwrap();
                let lease = log.lease();
                let mut batch = log.batch().unwrap();
                ids.iter().for_each(|id| batch.free(*id).unwrap());
                batch.commit().unwrap();
                // Now only the lease and the checkpoint show them; both end at about the same time.
                std::thread::sleep(std::time::Duration::from_millis(u64::from(round % 5)));
                assert_eq!(lease.read(ids[7]).unwrap(), vec![round; 40_000], "{name}");
                let ends = scope.spawn(move || drop(lease));
                let mut batch = log.batch().unwrap();
                batch.release("kept");
                batch.commit().unwrap();
                ends.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
            collector.join().unwrap();
        });
        log.compact().unwrap();
        assert_eq!(log.stats().records, 0, "{name}");
    }
}

/// Commits 50 records and frees every other one; returns those that stay.
fn write_and_free(log: &Log, thread: u8) -> Vec<(RecordId, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(u64::from(thread));
    let mut kept = Vec::new();
    for i in 0..25 {
        let bytes = vec![thread * 50 + i; random.usize(1..60_000)];
        let mut batch = log.batch().unwrap();
        let stays = batch.put(&bytes).unwrap();
        let goes = batch.put(&bytes).unwrap();
        batch.commit().unwrap();
        let mut batch = log.batch().unwrap();
        batch.free(goes).unwrap();
        batch.commit().unwrap();
        assert_eq!(log.lease().read(stays).unwrap(), bytes);
        kept.push((stays, bytes));
    }
    kept
}

#[test]
fn wrong_use_is_refused() {
    let folder = common::on_disk();
    let log = Log::create(directory(folder.path()), small_options()).unwrap();
    let mut batch = log.batch().unwrap();
    let id = batch.put(b"x").unwrap();
    batch.commit().unwrap();
    let mut twice = log.batch().unwrap();
    twice.free(id).unwrap();
    twice.free(id).unwrap();
    assert!(matches!(twice.commit(), Err(CommitError::NotThere { .. })));
    let mut unknown = log.batch().unwrap();
    unknown.release("nothing");
    assert!(matches!(unknown.commit(), Err(CommitError::NotThere { .. })));
    let mut large = log.batch().unwrap();
    assert!(matches!(large.set_root(&[0; 1 << 20]), Err(CommitError::Limit { .. })));
    let lease = log.lease();
    assert_eq!(lease.read(id).unwrap(), b"x");
    let mut short = [0; 3];
    let error = lease.read_into(&mut [(id, &mut short)]).unwrap_err();
    assert_eq!(error, ReadError::Length { id, len: 1, given: 3 });
    assert!(matches!(lease.read(RecordId(99)), Err(ReadError::NoRecord { .. })));
    assert_eq!(log.stats().epoch.0, 1, "what was refused changed nothing");
}

#[test]
fn a_forked_child_changes_nothing() {
    for (name, folder, storage) in common::back_ends() {
        let log = Log::create(Arc::new(storage), small_options()).unwrap();
        let mut batch = log.batch().unwrap();
        let id = batch.put(b"parent").unwrap();
        batch.commit().unwrap();
        let before = log.lease();
        // SAFETY: the child works with what it inherited, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = matches!(log.batch(), Err(CommitError::Io(_)))
                && matches!(before.read(id), Err(ReadError::Io(_)))
                && matches!(log.collect(), Err(CommitError::Io(_)));
            drop(before);
            drop(log);
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{name}: {status}");
        // The parent still holds the lock, and goes on.
        let second = Log::open(directory(folder.path()), small_options());
        assert!(matches!(second, Err(OpenError::InUse { .. })), "{name}: {second:?}");
        let mut batch = log.batch().unwrap();
        batch.free(id).unwrap();
        batch.commit().unwrap();
        assert_eq!(before.read(id).unwrap(), b"parent", "{name}");
    }
}

#[test]
fn a_copy_of_the_files_opens() {
    let folder = common::on_disk();
    let log = Log::create(directory(folder.path()), small_options()).unwrap();
    let mut model = Model::default();
    let mut random = fastrand::Rng::with_seed(8);
    (0..20).for_each(|_| assert!(random_commit(&log, &mut model, &mut random).is_ok()));
    drop(log);
    let copy = common::on_disk();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    for path in [copy.path(), folder.path()] {
        assert_eq!(seen(&Log::open(directory(path), small_options()).unwrap()), model);
    }
    let reader =
        Directory::open(copy.path(), DirectoryOptions { engine: Engine::Threads, create: false });
    let reader = Log::open_read_only(Arc::new(reader.unwrap()), small_options()).unwrap();
    assert_eq!(seen(&reader), model);
}

/// The model of the fixture; the same at each run.
fn fixture_model(log: Option<&Log>) -> Model {
    let mut model = Model::default();
    let scratch = common::on_disk();
    let made;
    let log = match log {
        Some(log) => log,
        None => {
            made = Log::create(directory(scratch.path()), small_options()).unwrap();
            &made
        }
    };
    let mut random = fastrand::Rng::with_seed(2026);
    (0..12).for_each(|_| assert!(random_commit(log, &mut model, &mut random).is_ok()));
    model
}

#[test]
fn logs_of_format_version_1_open() {
    let fixture = common::fixtures().join("version-1");
    if std::env::var_os("SWING_WRITE_FIXTURE").is_some() {
        std::fs::create_dir_all(&fixture).unwrap();
        fixture_model(Some(&Log::create(directory(&fixture), small_options()).unwrap()));
        std::fs::remove_file(fixture.join("lock")).unwrap();
    }
    // A copy: the repository's files stay as they are.
    let copy = common::on_disk();
    for entry in std::fs::read_dir(&fixture).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let expected = fixture_model(None);
    let log = Log::open_read_only(directory(copy.path()), small_options()).unwrap();
    assert_eq!(seen(&log), expected);
    drop(log);
    let log = Log::open(directory(copy.path()), small_options()).unwrap();
    let mut model = expected;
    random_commit(&log, &mut model, &mut fastrand::Rng::with_seed(1)).unwrap();
    assert_eq!(seen(&log), model);
}
