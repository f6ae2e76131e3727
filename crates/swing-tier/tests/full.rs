//! Full disks: what is dead comes back, and records can be freed, whatever else is refused.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::model::{Model, seen, small_options};
use common::mount::Mount;
use common::recorder::Recorder;
use swing_tier::storage::Storage;
use swing_tier::{CommitError, Directory, DirectoryOptions, Log, LogOptions, RecordId};

const LONG: usize = 100 << 10;

fn options(spare_bytes: u64) -> LogOptions {
    LogOptions { spare_bytes, ..small_options() }
}

fn put(log: &Log, model: &mut Model, byte: u8, len: usize) -> Result<RecordId, CommitError> {
    let mut batch = log.batch()?;
    let id = batch.put(&vec![byte; len])?;
    batch.commit()?;
    model.now.records.insert(id, vec![byte; len]);
    Ok(id)
}

fn free(log: &Log, model: &mut Model, ids: &[RecordId]) -> Result<(), CommitError> {
    let mut batch = log.batch()?;
    ids.iter().try_for_each(|&id| batch.free(id))?;
    batch.commit()?;
    ids.iter().for_each(|id| drop(model.now.records.remove(id)));
    Ok(())
}

/// Commits until the disk is full, the last ones small.
fn fill(log: &Log, model: &mut Model) {
    for len in [LONG, 5000, 300] {
        while match put(log, model, len as u8, len) {
            Ok(_) => true,
            Err(CommitError::Full(_)) => false,
            Err(error) => panic!("{error}"),
        } {
            assert!(model.now.records.len() < 100_000, "the disk is never full");
        }
    }
}

/// Some of the records.
fn every(model: &Model, step: usize) -> Vec<RecordId> {
    model.now.records.keys().copied().step_by(step).collect()
}

fn is_full<T: std::fmt::Debug>(outcome: &Result<T, CommitError>) -> bool {
    matches!(outcome, Err(CommitError::Full(_)))
}

/// Fills a disk, opens the log again, frees, and fills the room that has come back. Without holes
/// whole files have to die: there is no room to move what lives in others.
fn frees_after_opening(storage: &Arc<dyn Storage>, makes_holes: bool) {
    let log = Log::create(storage.clone(), options(256 << 10)).unwrap();
    let mut model = Model::default();
    fill(&log, &mut model);
    drop(log);
    let log = Log::open(storage.clone(), options(256 << 10)).unwrap();
    assert_eq!(seen(&log), model);
    assert!(is_full(&put(&log, &mut model, 1, LONG)), "the spare room is not for those who add");
    assert!(is_full(&put(&log, &mut model, 1, 10)), "the spare room is not for those who add");
    let count = model.now.records.len();
    let half = match makes_holes {
        true => every(&model, 2),
        false => model.now.records.keys().copied().take(count / 2).collect(),
    };
    free(&log, &mut model, &half).unwrap();
    assert!(done_or_full(log.collect()) || !makes_holes);
    assert_eq!(seen(&log), model);
    let again = model.now.records.len();
    fill(&log, &mut model);
    assert!(model.now.records.len() > again, "no room has come back");
    drop(log);
    let log = Log::open(storage.clone(), options(256 << 10)).unwrap();
    assert_eq!(seen(&log), model);
    // The room is kept for the next time.
    let most = every(&model, 1);
    free(&log, &mut model, &most).unwrap();
    drop(log);
    assert_eq!(seen(&Log::open(storage.clone(), options(256 << 10)).unwrap()), model);
}

#[test]
fn records_are_freed_on_a_full_disk_in_a_log_that_was_just_opened() {
    for discards in [true, false] {
        let recorder = Recorder::new(1);
        recorder.set_capacity(Some(4 << 20));
        if !discards {
            recorder.forbid_discarding();
        }
        frees_after_opening(&(Arc::new(recorder.clone()) as Arc<dyn Storage>), discards);
        assert_eq!(recorder.discards() > 0, discards);
    }
    match Mount::new(8) {
        Ok(mount) => {
            let options = DirectoryOptions { create: true, ..Default::default() };
            let directory = Directory::open(&mount.path().join("log"), options).unwrap();
            frees_after_opening(&(Arc::new(directory) as Arc<dyn Storage>), true);
        }
        Err(why) => println!("skipped on a file system: {why}"),
    }
}

#[test]
fn room_that_could_not_be_had_whole_is_not_kept_in_part() {
    let mount = match Mount::new(8) {
        Ok(mount) => mount,
        Err(why) => return println!("skipped: {why}"),
    };
    let directory = DirectoryOptions { create: true, ..Default::default() };
    let directory = Directory::open(&mount.path().join("log"), directory).unwrap();
    let (file_bytes, reserve_bytes) = (1 << 30, 1 << 30);
    let options = LogOptions { file_bytes, reserve_bytes, ..options(256 << 10) };
    let log = Log::create(Arc::new(directory), options).unwrap();
    let mut model = Model::default();
    for _ in 0..10 {
        put(&log, &mut model, 3, LONG).unwrap();
    }
    assert_eq!(seen(&log), model);
}

#[test]
fn without_spare_room_a_full_disk_refuses_to_free() {
    let recorder = Recorder::new(1);
    recorder.set_capacity(Some(4 << 20));
    let storage = Arc::new(recorder.clone()) as Arc<dyn Storage>;
    let mut model = Model::default();
    let log = Log::create(storage.clone(), options(0)).unwrap();
    fill(&log, &mut model);
    drop(log);
    let log = Log::open(storage.clone(), options(0)).unwrap();
    let half = every(&model, 2);
    assert!(is_full(&free(&log, &mut model, &half)));
    assert_eq!(seen(&log), model);
    drop(log);
    // The room is there as soon as somebody else gives it back.
    recorder.set_capacity(Some(5 << 20));
    let log = Log::open(storage, options(0)).unwrap();
    free(&log, &mut model, &half).unwrap();
    assert_eq!(seen(&log), model);
}

#[test]
fn what_is_reserved_ahead_gives_way_to_a_journal() {
    let recorder = Recorder::new(1);
    recorder.set_capacity(Some((1 << 20) + (60 << 10)));
    let storage = Arc::new(recorder.clone()) as Arc<dyn Storage>;
    let options = || LogOptions { reserve_bytes: 1 << 20, ..options(0) };
    let log = Log::create(storage.clone(), options()).unwrap();
    let mut model = Model::default();
    // A manifest goes into a data file, which takes a megabyte; then the journal needs its part.
    put(&log, &mut model, 1, 10).unwrap();
    put(&log, &mut model, 2, LONG).unwrap();
    assert_eq!(seen(&log), model);
    drop(log);
    assert_eq!(seen(&Log::open(storage, options()).unwrap()), model);
}

#[test]
fn dead_bytes_come_back_where_files_are_too_full_of_life_to_be_emptied() {
    let recorder = Recorder::new(1);
    recorder.set_capacity(Some(12 << 20));
    let storage = Arc::new(recorder.clone()) as Arc<dyn Storage>;
    let options = || LogOptions { dead_fraction: 1.0, ..options(256 << 10) };
    let log = Log::create(storage.clone(), options()).unwrap();
    let mut model = Model::default();
    fill(&log, &mut model);
    let lease = log.lease();
    let before = seen(&log).now;
    let quarter: Vec<_> =
        model.now.records.iter().filter(|(_, b)| b.len() == LONG).map(|(&id, _)| id).collect();
    let quarter: Vec<_> = quarter.into_iter().step_by(4).collect();
    free(&log, &mut model, &quarter).unwrap();
    // A lease shows what was freed: only what is left of the spare room, a megabyte, can be had.
    let before_it_ends =
        (0..100).take_while(|_| done_or_full(put(&log, &mut model, 7, LONG))).count();
    assert!(before_it_ends <= 10 && quarter.len() > 20, "{before_it_ends} of {}", quarter.len());
    assert_eq!(common::model::contents(&lease), before);
    drop(lease);
    let behind = (0..100).take_while(|_| done_or_full(put(&log, &mut model, 7, LONG))).count();
    // But for the megabyte, which is kept again.
    assert!(behind + 11 > quarter.len(), "{behind} of {}", quarter.len());
    assert!(recorder.discards() > 0);
    assert_eq!(seen(&log), model);
    drop(log);
    assert_eq!(seen(&Log::open(storage, options()).unwrap()), model);
}

/// Tells other threads to end, also when this one panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether it was done; a full disk may refuse.
fn done_or_full<T: std::fmt::Debug>(outcome: Result<T, CommitError>) -> bool {
    let full = is_full(&outcome);
    assert!(full || outcome.is_ok(), "{outcome:?}");
    !full
}

#[test]
fn readers_see_no_hole() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    let recorder = Recorder::new(seed);
    recorder.set_capacity(Some(3 << 20));
    let storage = Arc::new(recorder.clone()) as Arc<dyn Storage>;
    let log = Log::create(storage, options(256 << 10)).unwrap();
    let mut model = Model::default();
    fill(&log, &mut model);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let lease = log.lease();
                    let first: BTreeMap<_, _> = common::model::contents(&lease).records;
                    assert_eq!(common::model::contents(&lease).records, first);
                }
            });
        }
        let _ends = Ends(&done);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut added = 0;
        for round in 0..common::rounds(40) {
            let some: Vec<_> =
                model.now.records.keys().copied().filter(|_| random.u8(..) < 60).collect();
            // What readers hold is not free yet.
            if !some.is_empty() {
                done_or_full(free(&log, &mut model, &some));
            }
            if random.bool() {
                done_or_full(log.collect());
            }
            for _ in 0..6 {
                added += usize::from(done_or_full(put(&log, &mut model, round as u8, LONG)));
            }
        }
        assert!(added > 0 && recorder.discards() > 0, "{added}, {}", recorder.discards());
    });
    assert_eq!(seen(&log), model);
}
