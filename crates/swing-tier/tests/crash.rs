//! Power cuts and kills at every moment: the newest committed state comes back, exactly.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::model::{Model, open, random_commit, seen, small_options};
use common::recorder::{Loss, Recorder};
use swing_tier::storage::Storage;
use swing_tier::{CommitError, Log, LogOptions, OpenError};

/// What was run: the recorder, and the state of each epoch.
struct Run {
    recorder: Recorder,
    states: BTreeMap<u64, Model>,
    /// The event that it began with; what is before was there.
    first: usize,
    /// How often the disk was full.
    full: u32,
}

fn shared(recorder: &Recorder) -> Arc<dyn Storage> {
    Arc::new(recorder.clone())
}

/// As [`small_options`], with room for commits on a full disk.
fn spare_options() -> LogOptions {
    LogOptions { spare_bytes: 128 << 10, ..small_options() }
}

/// Random commits and collections from `model` on; each ends with a mark of its epoch.
fn run(recorder: Recorder, mut model: Model, commits: u64, random: &mut fastrand::Rng) -> Run {
    let mut states = BTreeMap::new();
    let first = recorder.event_count();
    let log = match Log::open(shared(&recorder), spare_options()) {
        Ok(log) => log,
        Err(OpenError::NotALog { .. }) => Log::create(shared(&recorder), spare_options()).unwrap(),
        Err(error) => panic!("{error}"),
    };
    let (mut known, mut full) = (log.stats().epoch.0, 0);
    states.insert(known, model.clone());
    recorder.mark(known);
    for _ in 0..commits {
        // A lease on some state, which a collection has to respect.
        let lease = random.bool().then(|| (log.lease(), model.now.clone()));
        let done = match random.u32(0..6) {
            0 => log.collect().map(|_| ()),
            1 if recorder.capacity().is_some() => grow(&log, &mut model, random),
            2 if recorder.capacity().is_some() => shrink(&log, &mut model),
            _ => random_commit(&log, &mut model, random).map(|_| ()),
        };
        match done {
            Err(CommitError::Full(_)) if recorder.capacity().is_some() => full += 1,
            done => done.unwrap(),
        }
        if let Some((lease, contents)) = lease {
            assert_eq!(common::model::contents(&lease), contents);
        }
        let epoch = log.stats().epoch.0;
        (known + 1..=epoch).for_each(|e| drop(states.insert(e, model.clone())));
        known = epoch;
        recorder.mark(epoch);
    }
    assert_eq!(seen(&log), model);
    if random.bool() {
        drop(log);
    } else {
        // As if the process had died: nothing is noted at the end.
        std::mem::forget(log);
    }
    Run { recorder, states, first, full }
}

/// A commit that only adds.
fn grow(log: &Log, model: &mut Model, random: &mut fastrand::Rng) -> Result<(), CommitError> {
    let mut batch = log.batch()?;
    let bytes = vec![random.u8(..); 200 << 10];
    let id = batch.put(&bytes)?;
    batch.commit()?;
    model.now.records.insert(id, bytes);
    Ok(())
}

/// A commit that only frees, the longest record.
fn shrink(log: &Log, model: &mut Model) -> Result<(), CommitError> {
    let longest = model.now.records.iter().max_by_key(|(_, bytes)| bytes.len());
    let Some((&id, _)) = longest else { return Ok(()) };
    let mut batch = log.batch()?;
    batch.free(id)?;
    batch.commit()?;
    model.now.records.remove(&id);
    Ok(())
}

/// Opens what is left, and compares it with what it has to be. Returns that, if there is a log.
fn check(run: &Run, at: usize, loss: Loss, seed: u64) -> Option<(Recorder, Model)> {
    let (acknowledged, next) = run.recorder.marks_around(at);
    let left = run.recorder.after_power_cut(at, loss, seed);
    let context = format!("event {at}, {loss:?}, seed {seed}");
    let log = match open(&shared(&left)) {
        Ok(log) => log,
        Err(OpenError::NotALog { .. }) if acknowledged.is_none() => return None,
        Err(error) => panic!("{}\n{context}: {error}", run.recorder.story(at)),
    };
    let epoch = log.stats().epoch.0;
    assert!(epoch >= acknowledged.unwrap_or(0), "{context}: {epoch} after {acknowledged:?}");
    let expected = &run.states[&epoch];
    assert_eq!(&seen(&log), expected, "{context}: epoch {epoch}");
    // At most what was under way has been added: a commit, or a collection's last one.
    assert!(epoch <= next.unwrap_or(epoch), "{context}: a commit of the future");
    std::mem::forget(log);
    Some((left, expected.clone()))
}

#[test]
fn every_prefix_of_writes_and_syncs_opens_at_the_newest_committed_state() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    for round in 0..common::rounds(3) {
        let mut random = fastrand::Rng::with_seed(seed + round);
        let run = run(Recorder::new(seed), Model::default(), 30, &mut random);
        let events = run.recorder.event_count();
        let all = common::rounds(3) > 3 || std::env::var_os("SWING_EVERY_PREFIX").is_some();
        let step = if all { 1 } else { 4 };
        for at in (0..=events).rev().step_by(step) {
            for loss in [Loss::Nothing, Loss::Everything, Loss::Random] {
                check(&run, at, loss, random.u64(..));
            }
        }
    }
}

#[test]
fn power_cuts_on_a_full_disk_leave_the_newest_committed_state() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    let (mut full, mut holes) = (0, 0);
    for round in 0..common::rounds(4) {
        let mut random = fastrand::Rng::with_seed(seed + round);
        let recorder = Recorder::new(seed);
        recorder.set_capacity(Some(2 << 20));
        let run = run(recorder, Model::default(), 60, &mut random);
        full += run.full;
        holes += run.recorder.discards();
        for at in (0..=run.recorder.event_count()).rev().step_by(7) {
            for loss in [Loss::Nothing, Loss::Everything, Loss::Random] {
                check(&run, at, loss, random.u64(..));
            }
        }
    }
    assert!(full > 0 && holes > 0, "full {full} times, {holes} holes");
}

#[test]
fn a_recovered_log_goes_on_and_survives_the_next_power_cut() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    for round in 0..common::rounds(40) {
        let mut random = fastrand::Rng::with_seed(seed + round);
        let mut recorder = Recorder::new(seed);
        let mut model = Model::default();
        for _ in 0..4 {
            let run = run(recorder, model, random.u64(1..12), &mut random);
            let at = random.usize(run.first..=run.recorder.event_count());
            let loss = [Loss::Nothing, Loss::Everything, Loss::Random][random.usize(0..3)];
            (recorder, model) = check(&run, at, loss, random.u64(..))
                .unwrap_or_else(|| (Recorder::new(seed), Model::default()));
            // The lock of the process that died is gone.
            recorder = recorder.after_power_cut(recorder.event_count(), Loss::Nothing, 1);
        }
    }
}
