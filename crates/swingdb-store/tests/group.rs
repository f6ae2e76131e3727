//! Group commit: threads that commit one after the other share the write and the sync of one
//! commit; all of them are there afterwards, or none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use swing::Namespace;
use swingdb_common::error::Error;
use swingdb_store::{
    Catalog, ColumnDef, Constraint, IfExists, RowId, RowIds, Store, StoreOptions, TableDef,
    WriteTxn,
};

/// Threads that commit.
const THREADS: i64 = 8;

struct Place {
    memory: tempfile::TempDir,
    disk: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        Self { memory, disk: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> Store {
        let namespace = Namespace::open(self.memory.path()).unwrap();
        Store::open_stored(&namespace, "group", &StoreOptions::new(self.disk.path()), None).unwrap()
    }

    /// Opens the database from its store, as after a restart of the machine.
    fn reboot(&mut self) -> Store {
        self.memory = tempfile::tempdir_in("/dev/shm").unwrap();
        self.open()
    }
}

/// A database with a table of numbers that has one row, 0.
fn database(place: &Place, constraints: Vec<Constraint>) -> Store {
    let store = place.open();
    let mut txn = store.begin().unwrap();
    let column = ColumnDef {
        name: "n".into(),
        data_type: DataType::Int64,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    };
    let (schema, name) = ("main".to_owned(), "t".to_owned());
    let table = TableDef { schema, name, columns: vec![column], constraints };
    txn.create_table(table, IfExists::Fail).unwrap();
    put(&mut txn, 0).unwrap();
    txn.commit().unwrap();
    store
}

fn put(txn: &mut WriteTxn, number: i64) -> Result<u64, Error> {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let values: ArrayRef = Arc::new(Int64Array::from(vec![number]));
    txn.append("main", "t", &[RecordBatch::try_new(Arc::new(schema), vec![values]).unwrap()])
}

fn insert(store: &Store, number: i64) -> Result<(), Error> {
    let mut txn = store.begin_short()?;
    put(&mut txn, number)?;
    txn.commit().map(drop)
}

fn numbers(store: &Store) -> BTreeSet<i64> {
    rows(&store.latest()).into_keys().collect()
}

/// The numbers of a state, and which rows they are.
fn rows(catalog: &Catalog) -> BTreeMap<i64, RowId> {
    let table = catalog.table("main", "t").unwrap().unwrap();
    let mut all = BTreeMap::new();
    for (at, segment) in table.segments().unwrap().iter().enumerate() {
        let values = segment.array(0).unwrap();
        for (row, number) in values.as_primitive::<Int64Type>().values().iter().enumerate() {
            if segment.deleted().is_none_or(|deleted| !deleted.value(row)) {
                let before = all.insert(*number, RowId::new(at as u32, row as u32));
                assert!(before.is_none(), "{number} is there twice");
            }
        }
    }
    all
}

/// Deletes a number, if it is there, as a short statement; says whether it was.
fn delete(store: &Store, number: i64) -> Result<bool, Error> {
    let mut txn = store.begin_short()?;
    let row = rows(&txn.view()).get(&number).copied();
    if let Some(row) = row {
        txn.delete_rows("main", "t", &RowIds::new(vec![row]))?;
    }
    txn.commit().map(|_| row.is_some())
}

/// Replaces a number by another one.
fn replace(store: &Store, number: i64, by: i64) -> Result<(), Error> {
    let mut txn = store.begin_short()?;
    let row = rows(&txn.view())[&number];
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let values: ArrayRef = Arc::new(Int64Array::from(vec![by]));
    let values = RecordBatch::try_new(Arc::new(schema), vec![values]).unwrap();
    txn.update_rows("main", "t", &RowIds::new(vec![row]), &[0], &[values])?;
    txn.commit().map(drop)
}

fn syncs(store: &Store) -> u64 {
    store.durable_info().unwrap().syncs
}

fn is_up_to_date(store: &Store) -> bool {
    let info = store.durable_info().unwrap();
    info.stored_version == Some(info.memory_version)
}

/// One transaction commits while threads wait for their turn; what came of all.
fn together(store: &Store, first: i64) -> Vec<(i64, Result<(), Error>)> {
    let mut txn = store.begin().unwrap();
    put(&mut txn, first).unwrap();
    std::thread::scope(|scope| {
        let inserts: Vec<_> = (first + 1..=first + THREADS)
            .map(|number| (number, scope.spawn(move || insert(store, number))))
            .collect();
        // Until all of them wait for the transaction.
        std::thread::sleep(Duration::from_millis(300));
        let mut results = vec![(first, txn.commit().map(drop))];
        let joined = inserts.into_iter().map(|(number, thread)| (number, thread.join().unwrap()));
        results.extend(joined);
        results
    })
}

#[test]
fn commits_that_wait_for_each_other_share_a_sync() {
    let mut place = Place::new();
    let store = database(&place, Vec::new());
    let before = syncs(&store);
    for result in together(&store, 1) {
        result.1.unwrap();
    }
    let shared = syncs(&store) - before;
    assert!(shared <= 4, "{shared} syncs of {} commits", THREADS + 1);
    assert_eq!(numbers(&store), (0..=1 + THREADS).collect());
    assert!(is_up_to_date(&store));
    // One at a time each has its own.
    let before = syncs(&store);
    (100..110).for_each(|number| insert(&store, number).unwrap());
    assert!(syncs(&store) - before >= 10);
    let all = numbers(&store);
    store.close().unwrap();
    let store = place.open();
    assert_eq!(numbers(&store), all, "in memory");
    store.close().unwrap();
    assert_eq!(numbers(&place.reboot()), all, "in the store");
}

/// Files with the names of the next manifests: no state can be published in memory.
struct Blocked(Vec<PathBuf>);

impl Blocked {
    fn new(place: &Path) -> Self {
        let next = (1..300).map(|epoch| place.join(format!("m.{epoch}")));
        let made: Vec<PathBuf> = next.filter(|path| File::create_new(path).is_ok()).collect();
        assert!(!made.is_empty(), "the manifests of {} have other names", place.display());
        Self(made)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}

#[test]
fn a_group_that_cannot_be_published_is_undone_whole() {
    let mut place = Place::new();
    let constraint = Constraint::Unique(vec![0]);
    let store = database(&place, vec![constraint]);
    insert(&store, 1000).unwrap();
    let before = numbers(&store);
    for round in 0..3 {
        let blocked = Blocked::new(&place.memory.path().join("group"));
        for (number, result) in together(&store, 1) {
            result.expect_err(&format!("{number} was not published"));
        }
        drop(blocked);
        assert_eq!(numbers(&store), before, "round {round}");
        assert!(is_up_to_date(&store), "the store has the state before");
    }
    // The keys of what was undone are free, those that were there before are not.
    for (_, result) in together(&store, 1) {
        result.unwrap();
    }
    for taken in [0, 1, THREADS, 1000] {
        let error = insert(&store, taken).unwrap_err();
        assert!(matches!(error, Error::Constraint { .. }), "{error}");
    }
    let all = numbers(&store);
    assert_eq!(all.len() as i64, 2 + 1 + THREADS);
    store.close().unwrap();
    assert_eq!(numbers(&place.reboot()), all);
}

/// One transaction commits while `work` waits for its turn in threads of its own.
fn behind<T: Send>(store: &Store, work: &[&(dyn Fn() -> T + Sync)]) -> (Result<(), Error>, Vec<T>) {
    let mut txn = store.begin().unwrap();
    put(&mut txn, 100).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = work
            .iter()
            .map(|work| {
                let thread = scope.spawn(work);
                // They wait in this order.
                std::thread::sleep(Duration::from_millis(60));
                thread
            })
            .collect();
        let first = txn.commit().map(drop);
        (first, threads.into_iter().map(|thread| thread.join().unwrap()).collect())
    })
}

#[test]
fn changes_of_all_kinds_share_a_sync_and_are_undone_together() {
    let mut place = Place::new();
    let store = database(&place, vec![Constraint::Unique(vec![0])]);
    (1..=3).for_each(|number| insert(&store, number).unwrap());
    let work: [&(dyn Fn() -> Result<(), Error> + Sync); 4] = [
        &|| delete(&store, 1).map(|found| assert!(found)),
        &|| replace(&store, 2, 20),
        &|| insert(&store, 1),
        &|| replace(&store, 20, 21),
    ];
    let before = numbers(&store);
    let blocked = Blocked::new(&place.memory.path().join("group"));
    let (first, others) = behind(&store, &work);
    first.expect_err("it was not published");
    others.into_iter().for_each(|other| drop(other.expect_err("nor were the others")));
    drop(blocked);
    assert_eq!(numbers(&store), before);
    let syncs_before = syncs(&store);
    let (first, others) = behind(&store, &work);
    first.unwrap();
    others.into_iter().for_each(|other| other.unwrap());
    assert!(syncs(&store) - syncs_before < 5, "{} syncs", syncs(&store) - syncs_before);
    let expected: BTreeSet<i64> = [0, 1, 3, 21, 100].into();
    assert_eq!(numbers(&store), expected);
    // The keys are those of the rows that are there.
    assert!(matches!(insert(&store, 21), Err(Error::Constraint { .. })));
    insert(&store, 2).unwrap();
    store.close().unwrap();
    assert_eq!(numbers(&place.reboot()), [0, 1, 2, 3, 21, 100].into());
}

#[test]
fn who_finds_nothing_to_change_waits_for_what_it_has_seen() {
    let place = Place::new();
    let store = database(&place, vec![Constraint::Unique(vec![0])]);
    insert(&store, 1).unwrap();
    let work: [&(dyn Fn() -> Result<bool, Error> + Sync); 4] = [
        &|| delete(&store, 1),
        &|| delete(&store, 1),
        // The row is there twice: an error, unless the row before is never published.
        &|| insert(&store, 100).map(|()| true),
        &|| insert(&store, 5).map(|()| true),
    ];
    let blocked = Blocked::new(&place.memory.path().join("group"));
    let (first, others) = behind(&store, &work);
    drop(blocked);
    first.expect_err("it was not published");
    assert!(others[0].is_err());
    assert!(others[1].is_err(), "the row was deleted by a change that was undone: {others:?}");
    assert!(others[2].is_err());
    assert_eq!(numbers(&store), [0, 1].into());
    let (first, others) = behind(&store, &work);
    first.unwrap();
    assert!(*others[0].as_ref().unwrap());
    assert!(!*others[1].as_ref().unwrap(), "it is gone already");
    assert!(matches!(others[2], Err(Error::Constraint { .. })), "{others:?}");
    assert!(*others[3].as_ref().unwrap());
    assert_eq!(numbers(&store), [0, 5, 100].into());
    assert!(is_up_to_date(&store));
}

#[test]
fn what_others_read_is_in_the_store() {
    let mut place = Place::new();
    let store = database(&place, Vec::new());
    let done = AtomicBool::new(false);
    let mut expected: BTreeSet<i64> = [0].into();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=THREADS)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for turn in 0..30 {
                        let number = thread * 1000 + turn;
                        // Some give up, some are no short statements.
                        let mut txn = match turn % 5 {
                            0 => store.begin().unwrap(),
                            _ => store.begin_short().unwrap(),
                        };
                        put(&mut txn, number).unwrap();
                        if turn % 7 == 3 {
                            txn.rollback();
                            continue;
                        }
                        txn.commit().unwrap();
                        assert!(numbers(store).contains(&number), "one's own commit shows");
                        kept.push(number);
                    }
                    kept
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // The state that others read is looked at first.
                let info = store.durable_info().unwrap();
                let (seen, stored) = (info.memory_version, info.stored_version.unwrap());
                assert!(seen <= stored, "version {seen} was read, {stored} is in the store");
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        for writer in writers {
            expected.extend(writer.join().unwrap());
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(numbers(&store), expected);
    assert!(is_up_to_date(&store));
    store.close().unwrap();
    assert_eq!(numbers(&place.reboot()), expected);
}

#[test]
fn closing_does_not_lose_a_commit() {
    for _ in 0..20 {
        let mut place = Place::new();
        let store = database(&place, Vec::new());
        let mut expected: BTreeSet<i64> = [0].into();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (1..=THREADS)
                .map(|number| {
                    let store = &store;
                    scope.spawn(move || insert(store, number).map(|()| number))
                })
                .collect();
            store.clone().close().unwrap();
            for writer in writers {
                match writer.join().unwrap() {
                    Ok(number) => drop(expected.insert(number)),
                    Err(Error::Closed { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
        drop(store);
        let found = numbers(&place.reboot());
        assert!(expected.is_subset(&found), "{expected:?}, found {found:?}");
    }
}
