//! Damaged files: bit flips, stale and misdirected blocks, files that are short, missing or
//! exchanged. A log then refuses to open, or a read fails, or nothing that counts was hit. Never is
//! a wrong byte handed out, never an older state taken for the newest.

mod common;

use std::sync::Arc;

use common::model::{Model, contents, open, random_commit, small_options};
use common::recorder::Recorder;
use swing_tier::storage::Storage;
use swing_tier::{Log, OpenError, ReadError};

fn shared(recorder: &Recorder) -> Arc<dyn Storage> {
    Arc::new(recorder.clone())
}

/// A log that has been closed, and what it contains.
fn closed_log(seed: u64) -> (Recorder, Model) {
    let mut random = fastrand::Rng::with_seed(seed);
    let recorder = Recorder::new(seed);
    let log = Log::create(shared(&recorder), small_options()).unwrap();
    let mut model = Model::default();
    for _ in 0..random.u32(3..25) {
        random_commit(&log, &mut model, &mut random).unwrap();
    }
    drop(log);
    (recorder, model)
}

/// Opens a damaged copy. Whether the damage was noticed.
fn notices(recorder: &Recorder, model: &Model, context: &str) -> bool {
    let log = match open(&shared(recorder)) {
        Ok(log) => log,
        Err(OpenError::Damaged(_) | OpenError::Missing { .. } | OpenError::NotALog { .. }) => {
            return true;
        }
        Err(error) => panic!("{context}: {error}"),
    };
    let states = log
        .checkpoints()
        .into_iter()
        .map(|(name, _)| (log.checkpoint(&name).unwrap(), model.checkpoints.get(&name).cloned()));
    let mut noticed = false;
    for (lease, expected) in states.chain([(log.lease(), Some(model.now.clone()))]) {
        let expected = expected.unwrap_or_else(|| panic!("{context}: a checkpoint of its own"));
        let ids: Vec<_> = expected.records.keys().copied().collect();
        assert_eq!(lease.records(), ids, "{context}: another state");
        assert_eq!(lease.root(), expected.root, "{context}: another root payload");
        for (id, bytes) in &expected.records {
            match lease.read(*id) {
                Ok(read) => assert_eq!(&read, bytes, "{context}: wrong bytes of {id}"),
                Err(ReadError::Damaged(damage)) => {
                    assert!(damage.len > 0 && damage.path.starts_with("/recorded"), "{context}");
                    noticed = true;
                }
                Err(error) => panic!("{context}: {error}"),
            }
        }
    }
    noticed
}

#[test]
fn each_kind_of_damage_is_noticed_or_harmless() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    let mut noticed = [0; 6];
    for round in 0..common::rounds(400) {
        let mut random = fastrand::Rng::with_seed(seed + round);
        let (recorder, model) = closed_log(seed + round / 8);
        let names = recorder.file_names();
        let mut files: Vec<_> = names.iter().filter(|name| *name != "lock").cloned().collect();
        random.shuffle(&mut files);
        let (name, other) = (files[0].clone(), files[1].clone());
        let len = recorder.bytes(&name).len();
        let unit = |random: &mut fastrand::Rng| random.usize(0..len / 4096) * 4096;
        let (from, to) = (unit(&mut random), unit(&mut random));
        let kind = random.usize(0..6);
        match kind {
            0 => recorder.damage(&name, |b| b[random.usize(0..len)] ^= 1 << random.u32(0..8)),
            1 => recorder.damage(&name, |b| b[from..from + 4096].fill(0)),
            2 => recorder.damage(&name, |b| b.copy_within(from..from + 4096, to)),
            3 => recorder.damage(&name, |b| b.truncate(from)),
            4 => {
                // A block of another file in this one's place.
                let stray = recorder.bytes(&other);
                recorder.damage(&name, |b| {
                    let at = to.min(stray.len() - 4096);
                    b[from..from + 4096].copy_from_slice(&stray[at..at + 4096]);
                });
            }
            _ => {
                let (a, b) = (recorder.bytes(&name), recorder.bytes(&other));
                recorder.damage(&name, |bytes| *bytes = b);
                recorder.damage(&other, |bytes| *bytes = a);
            }
        }
        let context = format!("round {round} of SWING_SEED={seed}, kind {kind}, {name}");
        noticed[kind] += u32::from(notices(&recorder, &model, &context));
    }
    println!("noticed {noticed:?}");
    assert!(noticed.iter().all(|&count| count > 0), "each kind hits something: {noticed:?}");
}

#[test]
fn every_bit_of_the_last_commit_of_a_closed_journal_counts() {
    let recorder = Recorder::new(1);
    let log = Log::create(shared(&recorder), small_options()).unwrap();
    log.batch().unwrap().commit().unwrap();
    let mut batch = log.batch().unwrap();
    let id = batch.put(b"the last one").unwrap();
    batch.commit().unwrap();
    drop(log);
    let name = recorder.file_names().into_iter().find(|n| n.starts_with("commits")).unwrap();
    for byte in 0..64 + 24 + 12 + 40 {
        if (32..64).contains(&byte) {
            continue;
        }
        let copy = recorder.copy();
        copy.damage(&name, |bytes| bytes[byte] ^= 4);
        match open(&shared(&copy)) {
            Err(OpenError::Damaged(damage)) => assert!(damage.path.ends_with(&name)),
            other => panic!("byte {byte}: {other:?}"),
        }
    }
    assert_eq!(open(&shared(&recorder)).unwrap().lease().read(id).unwrap(), b"the last one");
}

#[test]
fn a_hole_in_the_journal_is_not_taken_for_its_end() {
    let recorder = Recorder::new(1);
    let log = Log::create(shared(&recorder), small_options()).unwrap();
    for i in 0..6_u8 {
        let mut batch = log.batch().unwrap();
        batch.put(&[i; 10]).unwrap();
        batch.commit().unwrap();
    }
    // The process dies: nothing says how far the journal goes.
    std::mem::forget(log);
    let recorder = recorder.copy();
    let name = recorder.file_names().into_iter().find(|n| n.starts_with("commits")).unwrap();
    // The first commit was a manifest, so the journal has five.
    for commit in 0..5 {
        let copy = recorder.copy();
        copy.damage(&name, |bytes| bytes[commit * 4096 + 100] ^= 1);
        let opened = open(&shared(&copy));
        if commit == 4 {
            // What a torn write leaves looks the same: the state before is the newest whole one.
            assert_eq!(contents(&opened.unwrap().lease()).records.len(), 5);
        } else {
            assert!(matches!(opened, Err(OpenError::Damaged(_))), "commit {commit}: {opened:?}");
        }
    }
}

#[test]
fn missing_files_and_other_versions_are_named() {
    let (recorder, _) = closed_log(11);
    for name in recorder.file_names() {
        let copy = recorder.copy();
        copy.remove(&name).unwrap();
        match open(&shared(&copy)) {
            Err(OpenError::Missing { path }) => assert!(path.ends_with(&name), "{name}"),
            Ok(log) => panic!("{name} is not needed: {:?}", log.stats()),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    let empty: Arc<dyn Storage> = Arc::new(Recorder::new(1));
    assert!(matches!(open(&empty), Err(OpenError::NotALog { .. })));
    let again = Log::create(shared(&recorder), small_options());
    assert!(matches!(again, Err(OpenError::AlreadyThere { .. })), "{again:?}");
}

#[test]
fn random_bytes_never_make_a_decoder_panic() {
    let seed = common::seed();
    println!("SWING_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..common::rounds(300) {
        let (recorder, _) = closed_log(random.u64(0..20));
        for name in recorder.file_names() {
            recorder.damage(&name, |bytes| {
                for _ in 0..random.usize(1..40) {
                    let at = random.usize(0..bytes.len().min(9000));
                    bytes[at] = random.u8(..);
                }
            });
        }
        if let Ok(log) = open(&shared(&recorder)) {
            let _ = log.verify();
        }
    }
}
