//! Operations that fail, once or from some moment on, and disks that are full: the error is typed,
//! the state before stays, and the log goes on.

mod common;

use std::sync::Arc;

use common::model::{Model, open, random_commit, seen, small_options};
use common::recorder::{Failure, Loss, Recorder};
use swing_tier::storage::Storage;
use swing_tier::{CommitError, Log, OpenError};

fn shared(recorder: &Recorder) -> Arc<dyn Storage> {
    Arc::new(recorder.clone())
}

/// A commit under failures. `true` if nobody knows what became of it.
fn commit(log: &Log, model: &mut Model, random: &mut fastrand::Rng) -> bool {
    match random_commit(log, model, random) {
        Ok(_) | Err(CommitError::Io(_) | CommitError::Full(_) | CommitError::Lost { .. }) => false,
        Err(CommitError::Unknown(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Opens what a power cut leaves and compares it with one of the states it may have.
fn after_power_cut(recorder: &Recorder, loss: Loss, seed: u64, allowed: &[&Model]) -> Recorder {
    let left = recorder.after_power_cut(recorder.event_count(), loss, seed);
    let log = open(&shared(&left)).unwrap_or_else(|e| panic!("{loss:?}, seed {seed}: {e}"));
    let found = seen(&log);
    assert!(allowed.contains(&&found), "{loss:?}, seed {seed}: epoch {}", log.stats().epoch);
    left
}

#[test]
fn a_failure_at_any_operation_leaves_the_state_before() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    for round in 0..common::rounds(300) {
        let mut random = fastrand::Rng::with_seed(seed + round);
        let context = format!("round {round} of SWING_SEED={seed}");
        let recorder = Recorder::new(seed);
        let log = Log::create(shared(&recorder), small_options()).unwrap();
        let mut model = Model::default();
        for _ in 0..random.u32(0..8) {
            random_commit(&log, &mut model, &mut random).unwrap();
        }
        let errno = [libc::EIO, libc::ENOSPC, libc::EDQUOT][random.usize(0..3)];
        let times = [1, 2, 5, u64::MAX][random.usize(0..4)];
        recorder.fail(Failure { after: random.u64(0..40), times, errno });
        let mut unknown = None;
        for _ in 0..6 {
            let before = model.clone();
            if random.u32(0..6) == 0 {
                match log.collect() {
                    Ok(_) | Err(CommitError::Io(_) | CommitError::Full(_)) => {}
                    Err(CommitError::Lost { .. }) => {}
                    Err(CommitError::Unknown(_) | CommitError::Broken) => unknown = Some(before),
                    Err(error) => panic!("{context}: {error}"),
                }
            } else if commit(&log, &mut model, &mut random) {
                unknown = Some(before);
            }
            if unknown.is_some() {
                break;
            }
            let failure = recorder.pause();
            assert_eq!(seen(&log), model, "{context}: not the state before");
            recorder.resume(failure);
        }
        recorder.heal();
        let loss = [Loss::Nothing, Loss::Everything, Loss::Random][random.usize(0..3)];
        if unknown.is_none() {
            after_power_cut(&recorder, loss, random.u64(..), &[&model]);
            // And it goes on without a restart.
            random_commit(&log, &mut model, &mut random)
                .unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(seen(&log), model, "{context}");
            after_power_cut(&recorder, Loss::Everything, random.u64(..), &[&model]);
        } else {
            let refused = random_commit(&log, &mut model.clone(), &mut random);
            let broken = matches!(refused, Err(CommitError::Broken)) || refused.is_ok();
            assert!(broken, "{context}: {refused:?}");
        }
        drop(log);
        // Whatever happened, the log opens, whole.
        let log = open(&shared(&recorder)).unwrap_or_else(|e| panic!("{context}: {e}"));
        log.verify().unwrap();
        if unknown.is_none() {
            assert_eq!(seen(&log), model, "{context}");
        }
    }
}

#[test]
fn a_failed_sync_is_never_tried_again_on_the_same_file() {
    let recorder = Recorder::new(1);
    let log = Log::create(shared(&recorder), small_options()).unwrap();
    let mut first = log.batch().unwrap();
    let kept = first.put(b"kept").unwrap();
    first.commit().unwrap();
    // The next operations of the first commit of a journal: write, zeros behind it, sync. The sync
    // fails once.
    recorder.fail(Failure { after: 2, times: 1, errno: libc::EIO });
    let mut second = log.batch().unwrap();
    let lost = second.put(b"lost").unwrap();
    let error = second.commit().unwrap_err();
    assert!(matches!(&error, CommitError::Io(e) if e.action == "sync"), "{error}");
    assert_eq!(recorder.heal(), 1);
    // The commit has been taken back: it is in no state, whatever a power cut leaves.
    for loss in [Loss::Nothing, Loss::Everything] {
        let left = recorder.after_power_cut(recorder.event_count(), loss, 1);
        let log = open(&shared(&left)).unwrap();
        assert_eq!(log.lease().records(), [kept], "{loss:?}");
    }
    let mut third = log.batch().unwrap();
    let next = third.put(b"next").unwrap();
    third.commit().unwrap();
    assert!(next > lost);
    let left = recorder.after_power_cut(recorder.event_count(), Loss::Everything, 1);
    assert_eq!(open(&shared(&left)).unwrap().lease().records(), [kept, next]);
}

#[test]
fn records_in_a_file_that_failed_to_sync_are_not_committed() {
    let recorder = Recorder::new(1);
    let log = Log::create(shared(&recorder), small_options()).unwrap();
    log.batch().unwrap().commit().unwrap();
    // Two batches with blocks in the same file; the sync of the first fails.
    let (mut first, mut second) = (log.batch().unwrap(), log.batch().unwrap());
    first.put(&[1; 100_000]).unwrap();
    second.put(&[2; 100_000]).unwrap();
    recorder.fail(Failure { after: 0, times: 1, errno: libc::EIO });
    assert!(matches!(first.commit(), Err(CommitError::Io(_))));
    let error = second.commit().unwrap_err();
    assert!(matches!(error, CommitError::Lost { .. }), "{error}");
    let mut third = log.batch().unwrap();
    let id = third.put(&[3; 100_000]).unwrap();
    third.commit().unwrap();
    let left = recorder.after_power_cut(recorder.event_count(), Loss::Everything, 1);
    assert_eq!(open(&shared(&left)).unwrap().lease().read(id).unwrap(), [3; 100_000]);
}

#[test]
fn a_full_disk_is_an_error_and_room_makes_it_work_again() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    for round in 0..common::rounds(40) {
        let mut random = fastrand::Rng::with_seed(seed + round);
        let context = format!("round {round} of SWING_SEED={seed}");
        let recorder = Recorder::new(seed);
        let log = Log::create(shared(&recorder), small_options()).unwrap();
        let mut model = Model::default();
        random_commit(&log, &mut model, &mut random).unwrap();
        recorder.set_capacity(Some(recorder.used() + random.usize(0..3_000_000)));
        let mut full = 0;
        for _ in 0..60 {
            let done = if random.u32(0..5) == 0 {
                log.collect().map(|_| ())
            } else {
                random_commit(&log, &mut model, &mut random).map(|_| ())
            };
            match done {
                Ok(()) => {}
                Err(CommitError::Full(error)) => {
                    full += 1;
                    assert!(error.cause.is_full(), "{context}: {error}");
                }
                Err(error) => panic!("{context}: {error}"),
            }
            assert_eq!(seen(&log), model, "{context}");
        }
        let left = after_power_cut(&recorder, Loss::Random, random.u64(..), &[&model]);
        drop(left);
        recorder.set_capacity(None);
        random_commit(&log, &mut model, &mut random).unwrap();
        log.compact().unwrap();
        assert_eq!(seen(&log), model, "{context}, full {full} times");
    }
}

#[test]
fn on_a_full_disk_records_can_be_freed_and_their_room_comes_back() {
    let recorder = Recorder::new(1);
    let log = Log::create(shared(&recorder), small_options()).unwrap();
    log.batch().unwrap().commit().unwrap();
    recorder.set_capacity(Some(recorder.used() + (5 << 20)));
    let mut ids = Vec::new();
    let error = loop {
        let mut batch = log.batch().unwrap();
        let put = batch.put(&[ids.len() as u8; 300_000]);
        match put.and_then(|id| batch.commit().map(|_| id)) {
            Ok(id) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CommitError::Full(_)), "{error}");
    assert!(ids.len() > 10, "{}", ids.len());
    let used = log.stats().used_bytes;
    // Freeing takes room in the journal only, which is reserved.
    let mut batch = log.batch().unwrap();
    ids.iter().for_each(|&id| batch.free(id).unwrap());
    batch.commit().unwrap();
    assert!(log.stats().used_bytes < used / 2, "{used} -> {}", log.stats().used_bytes);
    let mut batch = log.batch().unwrap();
    let id = batch.put(&[9; 300_000]).unwrap();
    batch.commit().unwrap();
    assert_eq!(log.lease().read(id).unwrap(), [9; 300_000]);
}

#[test]
fn opening_fails_cleanly_at_each_operation() {
    let mut random = fastrand::Rng::with_seed(3);
    let recorder = Recorder::new(1);
    let log = Log::create(shared(&recorder), small_options()).unwrap();
    let mut model = Model::default();
    (0..10).for_each(|_| assert!(random_commit(&log, &mut model, &mut random).is_ok()));
    std::mem::forget(log);
    for after in 0.. {
        let left = recorder.copy();
        left.fail(Failure { after, times: u64::MAX, errno: libc::EIO });
        let opened = open(&shared(&left));
        if left.heal() == 0 {
            opened.unwrap();
            return;
        }
        match opened {
            Err(OpenError::Io(_)) => {}
            other => panic!("operation {after}: {other:?}"),
        }
        assert_eq!(seen(&open(&shared(&left)).unwrap()), model, "operation {after}");
    }
}
