//! A store whose disk fails at each of its operations in turn: opening, commits, checkpoints,
//! garbage collection, copies, restoring.
//!
//! Whatever fails: the error is a `StoreError` of its kind, what is in memory is untouched, what
//! was promised to be on the disk is there after a power cut, and once the disk works again the
//! database goes on.

#[path = "../../swing-tier/tests/common/recorder.rs"]
#[allow(dead_code, reason = "the tests of the log use more of it")]
mod recorder;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use recorder::{Failure, Loss, PANIC, Recorder};
use swing::Namespace;
use swing_tier::LogOptions;
use swing_tier::storage::Storage;
use swingdb_common::error::{Error, StoreProblem};
use swingdb_store::{ColumnDef, Durability, IfExists, Store, StoreOptions, TableDef, WriteTxn};

/// Rows of a table: more than go into a small record.
const ROWS: usize = 6000;
/// What the operating system may say.
const ERRORS: [i32; 4] = [libc::EIO, libc::ENOSPC, libc::EMFILE, libc::ENOMEM];
/// A run of more operations has no end.
const MAX_OPERATIONS: u64 = 2000;

/// A database: its tables, each with the one number that all its rows have.
type Model = BTreeMap<String, i64>;

fn memory() -> (tempfile::TempDir, Namespace) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(folder.path()).unwrap();
    (folder, namespace)
}

/// Files that are full soon, so that there is garbage to collect.
fn log(recorder: &Recorder) -> (Arc<dyn Storage>, LogOptions) {
    let options = LogOptions {
        file_bytes: 1 << 20,
        reserve_bytes: 64 << 10,
        journal_bytes: 64 << 10,
        dead_fraction: 0.3,
        background: false,
        ..LogOptions::default()
    };
    (Arc::new(recorder.clone()), options)
}

fn open(namespace: &Namespace, recorder: &Recorder, how: Durability) -> Result<Store, Error> {
    let options = StoreOptions::new(recorder.path()).durability(how);
    Store::open_stored_on(namespace, "db", &options, log(recorder))
}

/// The value of a row of a table whose number is `number`: no codec makes it shorter.
fn value(number: i64, row: usize) -> i64 {
    number ^ (row as i64 + 1).wrapping_mul(-0x61C8_8646_80B5_83EB)
}

/// What the database contains.
fn contents(store: &Store) -> Result<Model, Error> {
    let catalog = store.latest();
    let mut found = Model::new();
    for name in catalog.table_names("main").unwrap() {
        let table = catalog.table("main", &name)?.expect("a table that was listed");
        let mut rows = Vec::new();
        for segment in table.segments()?.iter() {
            rows.extend_from_slice(segment.array(0)?.as_primitive::<Int64Type>().values());
        }
        assert_eq!(rows.len(), ROWS, "{name}");
        let number = rows[0] ^ value(0, 0);
        assert!((0..ROWS).all(|row| rows[row] == value(number, row)), "{name}: other values");
        found.insert(name, number);
    }
    Ok(found)
}

/// What a power cut leaves, opened with memory that is empty.
fn after_power_cut(recorder: &Recorder, loss: Loss) -> Model {
    let left = recorder.after_power_cut(recorder.event_count(), loss, 7);
    let (_folder, namespace) = memory();
    let store = open(&namespace, &left, Durability::Manual).unwrap_or_else(|e| panic!("{e}"));
    contents(&store).unwrap_or_else(|e| panic!("{e}"))
}

fn put(txn: &mut WriteTxn, name: &str, number: i64) -> Result<(), Error> {
    let column = ColumnDef {
        name: "n".into(),
        data_type: DataType::Int64,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    };
    let (schema, constraints) = ("main".to_owned(), Vec::new());
    let table = TableDef { schema, name: name.to_owned(), columns: vec![column], constraints };
    txn.create_table(table, IfExists::Replace)?;
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let values = (0..ROWS).map(|row| value(number, row));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    txn.append("main", name, &[RecordBatch::try_new(Arc::new(schema), vec![values]).unwrap()])?;
    Ok(())
}

/// Commit number `step`: a table made, or made anew, and sometimes one dropped.
fn change(store: &Store, step: i64, model: &Model) -> (Model, Result<(), Error>) {
    let (name, other) = (format!("t{}", step % 3), format!("t{}", (step + 1) % 3));
    let mut next = model.clone();
    next.insert(name.clone(), step * 1000);
    let dropped = step % 4 == 3 && next.remove(&other).is_some();
    let run = || {
        let mut txn = store.begin()?;
        put(&mut txn, &name, step * 1000)?;
        if dropped {
            txn.drop_table("main", &other)?;
        }
        txn.commit().map(drop)
    };
    (next, run())
}

/// The failure of run number `number`: of which operation, how often, for what reason.
fn failure(number: u64) -> Failure {
    let (after, forever) = (number / 2, number % 2);
    let errno = ERRORS[((after + 2 * forever + after / 4) % 4) as usize];
    Failure { after, times: if forever == 1 { u64::MAX } else { 1 }, errno }
}

/// That an error is one of the store's, of the kind that the operating system's reason is of.
/// Returns whether nobody knows what is on the disk.
fn check(error: &Error, errno: i32, context: &str) -> bool {
    let Error::Store { problem, path, message } = error else { panic!("{context}: {error}") };
    assert_eq!(path, Path::new("/recorded"), "{context}");
    assert!(!message.is_empty());
    match problem {
        StoreProblem::Unknown => return true,
        StoreProblem::Full => assert_eq!(errno, libc::ENOSPC, "{context}: {error}"),
        StoreProblem::Io => assert_ne!(errno, libc::ENOSPC, "{context}: {error}"),
        other => panic!("{context}: {other:?}: {error}"),
    }
    false
}

/// Runs `run` with a failure at each operation in turn, until it has run without meeting one.
fn with_each_failure(mut run: impl FnMut(&Recorder, Failure, &str)) {
    for number in 0.. {
        assert!(number < MAX_OPERATIONS, "so many operations");
        let failure = failure(number);
        let context = format!("{failure:?}");
        let recorder = Recorder::new(number);
        run(&recorder, failure, &context);
        if recorder.heal() == 0 {
            println!("{} operations", failure.after);
            return;
        }
    }
}

/// Opens, commits and checkpoints under a failure.
fn work(recorder: &Recorder, failure: Failure, context: &str, how: Durability) {
    let (_folder, namespace) = memory();
    recorder.fail(failure);
    let store = match open(&namespace, recorder, how) {
        Ok(store) => store,
        Err(error) => {
            check(&error, failure.errno, context);
            let failed = recorder.pause();
            assert!(failed.is_some(), "{context}: nothing failed");
            assert_eq!(after_power_cut(recorder, Loss::Nothing), Model::new(), "{context}");
            open(&namespace, recorder, how).unwrap_or_else(|e| panic!("{context}: {e}"));
            return;
        }
    };
    let (mut now, mut stored, mut unknown) = (Model::new(), Model::new(), None);
    // States that a checkpoint has stored before it failed in giving room back.
    let mut perhaps: Vec<Model> = Vec::new();
    for step in 0..8 {
        let (next, result) = change(&store, step, &now);
        match result {
            Ok(()) => now = next,
            Err(error) if how == Durability::Manual => panic!("{context}: in memory: {error}"),
            Err(error) if check(&error, failure.errno, context) => unknown = Some(next),
            Err(_) => {}
        }
        assert_eq!(contents(&store).unwrap(), now, "{context}, step {step}: in memory");
        if how == Durability::Commit {
            stored.clone_from(&now);
        }
        if unknown.is_none() && step % 3 == 2 {
            match store.checkpoint() {
                Ok(_) => {
                    stored.clone_from(&now);
                    perhaps.clear();
                }
                Err(error) if check(&error, failure.errno, context) => unknown = Some(now.clone()),
                Err(_) => perhaps.push(now.clone()),
            }
            assert_eq!(contents(&store).unwrap(), now, "{context}, step {step}: checkpoint");
        }
        if unknown.is_some() {
            break;
        }
    }
    recorder.pause();
    perhaps.extend(unknown.clone());
    for loss in [Loss::Nothing, Loss::Everything, Loss::Random] {
        let found = after_power_cut(recorder, loss);
        let right = found == stored || perhaps.contains(&found);
        assert!(right, "{context}, {loss:?}: {found:?}, stored {stored:?}, perhaps {perhaps:?}");
    }
    if unknown.is_none() {
        // It goes on without being opened again.
        let (next, result) = change(&store, 9, &now);
        result.unwrap_or_else(|e| panic!("{context}: {e}"));
        store.checkpoint().unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(after_power_cut(recorder, Loss::Everything), next, "{context}");
        now = next;
    }
    let _ = store.close();
    let store = open(&namespace, recorder, how).unwrap_or_else(|e| panic!("{context}: {e}"));
    let found = contents(&store).unwrap();
    assert!(found == now || unknown.as_ref() == Some(&found), "{context}: opened again: {found:?}");
}

#[test]
fn each_commit_is_on_the_disk_or_nowhere() {
    with_each_failure(|recorder, failure, context| {
        work(recorder, failure, context, Durability::Commit);
    });
}

/// The power goes after every write, of commits, checkpoints and collections; what is left goes on
/// as a database. `SWING_SEED` repeats a run, `SWING_ROUNDS` makes it longer.
#[test]
fn a_power_cut_at_any_write_leaves_the_last_commit_or_the_one_under_way() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("SWING_SEED").unwrap_or_else(swing_tier::random_u64);
    println!("SWING_SEED={seed}");
    for round in 0..number("SWING_ROUNDS").unwrap_or(1) {
        cut_at_any_write(seed.wrapping_add(round));
    }
}

fn cut_at_any_write(seed: u64) {
    let (recorder, (_folder, namespace)) = (Recorder::new(seed), memory());
    let store = open(&namespace, &recorder, Durability::Commit).unwrap();
    let mut states = vec![Model::new()];
    recorder.mark(0);
    for step in 0..8 {
        let (next, result) = change(&store, step, &states[states.len() - 1]);
        result.unwrap();
        states.push(next);
        recorder.mark(states.len() as u64 - 1);
        if step % 3 == 2 {
            store.checkpoint().unwrap();
        }
    }
    let events = recorder.event_count();
    for at in 1..=events {
        let promised = recorder.marks_around(at).0.unwrap_or(0) as usize;
        for loss in [Loss::Nothing, Loss::Everything, Loss::Random] {
            let left = recorder.after_power_cut(at, loss, seed ^ at as u64);
            let context = format!("event {at} of {events}, {loss:?}, seed {seed}");
            let (_folder, namespace) = memory();
            let store = open(&namespace, &left, Durability::Commit);
            let store = store.unwrap_or_else(|e| panic!("{context}: {e}"));
            let found = contents(&store).unwrap_or_else(|e| panic!("{context}: {e}"));
            let under_way = states.get(promised + 1);
            assert!(
                found == states[promised] || Some(&found) == under_way,
                "{context}: {found:?}, promised {:?}",
                states[promised]
            );
            let (next, result) = change(&store, 20, &found);
            result.unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(after_power_cut(&left, Loss::Everything), next, "{context}: gone on");
        }
    }
}

#[test]
fn a_checkpoint_that_fails_leaves_the_last_one_and_memory() {
    with_each_failure(|recorder, failure, context| {
        work(recorder, failure, context, Durability::Manual);
    });
}

/// INV-DB-15: a commit that panics, at each of its operations in turn.
#[test]
fn after_a_panic_in_a_commit_nothing_is_changed_and_the_last_state_is_there() {
    for after in 0..MAX_OPERATIONS {
        let (recorder, (folder, namespace)) = (Recorder::new(after), memory());
        let store = open(&namespace, &recorder, Durability::Commit).unwrap();
        let (before, result) = change(&store, 0, &Model::new());
        result.unwrap();
        recorder.fail(Failure { after, times: 1, errno: PANIC });
        let panics = std::thread::scope(|scope| {
            let (sent, told) = std::sync::mpsc::channel();
            let (store, before) = (&store, &before);
            let commits = scope.spawn(move || {
                let mut txn = store.begin().unwrap();
                put(&mut txn, "t1", 1000).unwrap();
                sent.send(()).unwrap();
                // Until the other thread waits for this one.
                std::thread::sleep(std::time::Duration::from_millis(20));
                txn.commit().unwrap();
            });
            told.recv().unwrap();
            let begun = std::time::Instant::now();
            // It may have to publish a group that the other thread joined, and panics then itself.
            let begins = || store.begin().map(WriteTxn::rollback);
            let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(begins));
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "it waits for nobody");
            let committed = commits.join();
            let panics = committed.is_err();
            assert_eq!(!matches!(waited, Ok(Ok(()))), panics, "{after}");
            if panics {
                if let Ok(waited) = waited {
                    assert!(matches!(waited.err(), Some(Error::Internal { .. })), "{after}");
                }
                assert_eq!(contents(store).unwrap(), *before, "{after}: the last state is read");
                assert!(matches!(store.begin().err(), Some(Error::Internal { .. })), "{after}");
                assert!(matches!(store.share().err(), Some(Error::Internal { .. })), "{after}");
                assert!(store.checkpoint().is_err(), "{after}");
            }
            panics
        });
        recorder.pause();
        let mut next = before.clone();
        next.insert("t1".to_owned(), 1000);
        let on_disk = after_power_cut(&recorder, Loss::Everything);
        let right = on_disk == next || (panics && on_disk == before);
        assert!(right, "{after}: {on_disk:?}");
        drop(store);
        let store = open(&namespace, &recorder, Durability::Commit);
        let found = contents(&store.unwrap_or_else(|e| panic!("{after}: {e}"))).unwrap();
        assert!(found == next || (panics && found == before), "{after}: opened again: {found:?}");
        drop(folder);
        if !panics {
            assert!(after > 2, "a commit has operations");
            return;
        }
    }
    panic!("so many operations");
}

/// A store with some tables, closed.
fn made() -> (Recorder, Model) {
    let recorder = Recorder::new(1);
    let (_folder, namespace) = memory();
    let store = open(&namespace, &recorder, Durability::Commit).unwrap();
    let mut model = Model::new();
    for step in 0..6 {
        let (next, result) = change(&store, step, &model);
        result.unwrap();
        model = next;
    }
    store.close().unwrap();
    (recorder, model)
}

#[test]
fn reading_a_store_fails_cleanly_at_each_operation() {
    let (source, model) = made();
    with_each_failure(|recorder, failure, context| {
        for name in source.file_names() {
            recorder.install(&name, source.bytes(&name));
        }
        let (_folder, namespace) = memory();
        recorder.fail(failure);
        let failed = |error: &Error| assert!(!check(error, failure.errno, context), "{context}");
        match open(&namespace, recorder, Durability::Commit) {
            Err(error) => failed(&error),
            Ok(store) => {
                match contents(&store) {
                    Ok(found) => assert_eq!(found, model, "{context}"),
                    Err(error) => failed(&error),
                }
                // This waits until everything is in memory, or says why it is not.
                match store.begin() {
                    Ok(txn) => txn.rollback(),
                    Err(error) => failed(&error),
                }
                recorder.pause();
                if let Ok(found) = contents(&store) {
                    assert_eq!(found, model, "{context}: the disk works again");
                }
            }
        }
        recorder.pause();
        let store = open(&namespace, recorder, Durability::Commit);
        let store = store.unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(contents(&store).unwrap(), model, "{context}: opened again");
        let (next, result) = change(&store, 7, &model);
        result.unwrap_or_else(|e| panic!("{context}: {e}"));
        drop(store);
        let (_folder, namespace) = memory();
        let store = open(&namespace, &recorder.copy(), Durability::Commit).unwrap();
        assert_eq!(contents(&store).unwrap(), next, "{context}: as after a reboot");
    });
}

#[test]
fn restoring_makes_the_database_or_none() {
    let (source, model) = made();
    with_each_failure(|recorder, failure, context| {
        for name in source.file_names() {
            recorder.install(&name, source.bytes(&name));
        }
        let (_folder, namespace) = memory();
        recorder.fail(failure);
        if let Err(error) = Store::restore_on(&namespace, log(recorder), Some("back")) {
            assert!(!check(&error, failure.errno, context), "{context}");
            recorder.pause();
            assert!(Store::hook(&namespace, "back").is_err(), "{context}: a part of it is there");
            let store = Store::restore_on(&namespace, log(recorder), Some("back"));
            drop(store.unwrap_or_else(|e| panic!("{context}: {e}")));
        }
        let store = Store::open(&namespace, "back").unwrap();
        assert_eq!(contents(&store).unwrap(), model, "{context}");
    });
}

#[test]
fn a_copy_is_whole_or_none() {
    let (source, model) = made();
    let (_folder, namespace) = memory();
    let store = open(&namespace, &source, Durability::Commit).unwrap();
    with_each_failure(|recorder, failure, context| {
        recorder.fail(failure);
        let copied = store.copy_on(log(recorder), "copy");
        recorder.pause();
        let (_folder, other) = memory();
        let left = recorder.after_power_cut(recorder.event_count(), Loss::Nothing, 3);
        let back = Store::restore_on(&other, log(&left), None);
        let unknown = match copied {
            Ok(_) => false,
            Err(error) => {
                let unknown = check(&error, failure.errno, context);
                assert!(unknown || back.is_err(), "{context}: the copy failed, and is there");
                unknown
            }
        };
        match back {
            Ok(back) => assert_eq!(contents(&back).unwrap(), model, "{context}"),
            Err(Error::Store { problem: StoreProblem::NotAStore, .. }) => {}
            Err(error) => assert!(unknown, "{context}: {error}"),
        }
        assert_eq!(contents(&store).unwrap(), model, "{context}");
    });
}
