//! Named snapshots: their commits are not published before the first share, which large ones
//! prepare. Random large and small changes, shares, failures in between, against a list of numbers.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use common::{Blocked, Home, numbers_def, seeded};
use fastrand::Rng;
use swing::AreaName;
use swingdb::store::{Catalog, IfExists, RowId, RowIds, Store, TableDef};

/// Enough for the preparation, in a column of numbers.
const LARGE_ROWS: usize = 800_000;

type Tables = BTreeMap<String, Vec<i64>>;

fn batch(values: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap()
}

fn def(name: &str) -> TableDef {
    numbers_def(name, Vec::new())
}

fn check(catalog: &Catalog, wanted: &Tables, what: &str) {
    assert_eq!(
        catalog.table_names("main").unwrap(),
        wanted.keys().cloned().collect::<Vec<_>>(),
        "{what}"
    );
    for (name, values) in wanted {
        let table = catalog.table("main", name).unwrap().unwrap();
        let mut found: Vec<i64> = Vec::with_capacity(values.len());
        for segment in table.segments().unwrap().iter() {
            let column = segment.array(0).unwrap();
            let column = column.as_primitive::<Int64Type>().values().to_vec();
            let live = |row: &usize| segment.deleted().is_none_or(|bits| !bits.value(*row));
            found.extend((0..column.len()).filter(live).map(|row| column[row]));
        }
        assert!(found == *values, "{what}: contents of {name}");
    }
}

/// One transaction; not always committed.
fn change(rng: &mut Rng, store: &Store, tables: &mut Tables, serial: i64) {
    let mut txn = store.begin().unwrap();
    let mut now = tables.clone();
    let some = now.keys().nth(rng.usize(..now.len().max(1))).cloned();
    match (rng.u8(..6), some) {
        (0..=2, _) | (_, None) => {
            let name = format!("t{serial}");
            let rows = if rng.bool() { LARGE_ROWS } else { 10 };
            let values: Vec<i64> = (0..rows as i64).map(|n| n * serial).collect();
            txn.create_table(def(&name), IfExists::Fail).unwrap();
            txn.append("main", &name, &[batch(&values)]).unwrap();
            now.insert(name, values);
        }
        (3, Some(name)) => {
            txn.drop_table("main", &name).unwrap();
            now.remove(&name);
        }
        (4, Some(name)) => {
            let values = vec![serial; 10];
            txn.append("main", &name, &[batch(&values)]).unwrap();
            now.entry(name).or_default().extend(values);
        }
        (_, Some(name)) => {
            // No row of these tables is ever deleted, so ids count up in each segment.
            let table = txn.view().table("main", &name).unwrap().unwrap();
            let segments = table.segments().unwrap();
            let ids = segments.iter().enumerate().flat_map(|(at, segment)| {
                (0..segment.rows()).map(move |row| RowId::new(at as u32, row as u32))
            });
            let ids = RowIds::new(ids.collect());
            let values: Vec<i64> = now[&name].iter().map(|n| n + 1).collect();
            txn.update_rows("main", &name, &ids, &[0], &[batch(&values)]).unwrap();
            now.insert(name, values);
        }
    }
    if rng.u8(..5) == 0 {
        txn.rollback();
    } else {
        txn.commit().unwrap();
        *tables = now;
    }
}

#[test]
fn named_snapshots_are_shared_after_large_and_small_changes() {
    let mut rng = seeded("named_snapshots_are_shared_after_large_and_small_changes");
    for round in 0..3 {
        let home = Home::new();
        let origin = Store::open(&home.namespace, "origin").unwrap();
        let mut first = Tables::new();
        change(&mut rng, &origin, &mut first, 1);
        origin.share().unwrap();
        let mine = Store::hook_named(&home.namespace, "origin", "mine").unwrap();
        let mut tables = first.clone();
        let mut held: Option<(Arc<Catalog>, Tables)> = None;
        let mut taken: Option<(Store, Tables)> = None;
        for serial in 2..12 {
            match rng.u8(..9) {
                // Who reads an older state keeps what was dropped.
                0 => held = Some((mine.latest(), tables.clone())),
                1 => held = None,
                2 => {
                    mine.share().unwrap();
                    let snapshot = Store::hook(&home.namespace, "mine").unwrap();
                    check(&snapshot.latest(), &tables, "a snapshot");
                    taken = Some((snapshot, tables.clone()));
                }
                3 => {
                    let blocked = Blocked::new(&home, "mine");
                    assert!(mine.share().is_err());
                    drop(blocked);
                }
                _ => change(&mut rng, &mine, &mut tables, serial),
            }
            let place = format!("round {round}, step {serial}");
            check(&mine.latest(), &tables, &place);
            mine.verify().unwrap();
            if let Some((catalog, then)) = &held {
                check(catalog, then, &place);
            }
            if let Some((snapshot, then)) = &taken {
                check(&snapshot.latest(), then, &place);
            }
        }
        mine.share().unwrap();
        drop(held);
        mine.close().unwrap();
        let again = Store::open(&home.namespace, "mine").unwrap();
        check(&again.latest(), &tables, "opened again");
        let report = again.verify().unwrap();
        assert_eq!(report.limbo_blocks, 0, "what a share left is freed: {report:?}");
        check(&origin.latest(), &first, "the origin");
    }
}

/// The epochs of a database that was dropped and made anew begin anew.
#[test]
fn snapshots_move_on_to_another_database_of_the_name() {
    const LONG: Duration = Duration::from_secs(600);
    let home = Home::new();
    let origin = AreaName::new("origin").unwrap();
    let filled = |value: i64, shares: i64| {
        let store = Store::open(&home.namespace, "origin").unwrap();
        for round in 0..shares {
            let mut txn = store.begin().unwrap();
            txn.create_table(def("t"), IfExists::Replace).unwrap();
            txn.append("main", "t", &[batch(&[value, round])]).unwrap();
            txn.commit().unwrap();
            store.share().unwrap();
        }
        store
    };
    let wanted = |value, shares| Tables::from([("t".to_owned(), vec![value, shares - 1])]);
    drop(filled(1, 9));
    let unnamed = Store::hook(&home.namespace, "origin").unwrap();
    let named = Store::hook_named(&home.namespace, "origin", "named").unwrap();
    let all = [&unnamed, &named];
    let before = unnamed.latest();
    assert!(all.iter().all(|store| !store.wait_newer(Duration::ZERO).unwrap()));
    for (value, shares) in [(2, 1), (3, 4), (4, 2)] {
        home.namespace.remove(&origin).unwrap();
        assert!(all.iter().all(|store| store.refresh().is_err()), "there is none");
        let waiting = unnamed.clone();
        let _anew = std::thread::scope(|scope| {
            let anew = filled(value, shares);
            let waiting = scope.spawn(move || waiting.wait_newer(LONG).unwrap());
            assert!(waiting.join().unwrap());
            anew
        });
        for store in all {
            assert!(store.wait_newer(Duration::ZERO).unwrap() && store.refresh().unwrap());
            check(&store.latest(), &wanted(value, shares), "after the refresh");
            assert!(!store.wait_newer(Duration::ZERO).unwrap() && !store.refresh().unwrap());
        }
    }
    check(&before, &wanted(1, 9), "what was read before");
    named.share().unwrap();
    drop(named);
    let again = Store::open(&home.namespace, "named").unwrap();
    check(&again.latest(), &wanted(4, 2), "opened again");
}

#[test]
fn a_share_that_failed_loses_nothing() {
    let home = Home::new();
    let origin = Store::open(&home.namespace, "origin").unwrap();
    let mut tables = Tables::new();
    let large: Vec<i64> = (0..LARGE_ROWS as i64).collect();
    let make = |store: &Store, name: &str, values: &[i64]| {
        let mut txn = store.begin().unwrap();
        txn.create_table(def(name), IfExists::Fail).unwrap();
        txn.append("main", name, &[batch(values)]).unwrap();
        txn.commit().unwrap();
    };
    make(&origin, "seed", &[1]);
    tables.insert("seed".into(), vec![1]);
    origin.share().unwrap();
    let mine = Store::hook_named(&home.namespace, "origin", "mine").unwrap();
    // Prepared for the first share, which fails.
    make(&mine, "large", &large);
    tables.insert("large".into(), large);
    let blocked = Blocked::new(&home, "mine");
    assert!(mine.share().is_err());
    drop(blocked);
    mine.share().unwrap();
    mine.verify().unwrap();
    make(&mine, "small", &[7]);
    tables.insert("small".into(), vec![7]);
    mine.verify().unwrap();
    mine.close().unwrap();
    for serial in 0..20 {
        let again = Store::open(&home.namespace, "mine").unwrap();
        check(&again.latest(), &tables, "opened again");
        make(&again, &format!("t{serial}"), &[serial]);
        tables.insert(format!("t{serial}"), vec![serial]);
        again.verify().unwrap();
        again.close().unwrap();
    }
}

/// A share frees little; what it leaves is freed by the next change, and by who takes over.
#[test]
fn a_share_leaves_what_was_dropped_to_the_next_change() {
    let home = Home::new();
    let origin = Store::open(&home.namespace, "origin").unwrap();
    origin.share().unwrap();
    let mine = Store::hook_named(&home.namespace, "origin", "mine").unwrap();
    let mut txn = mine.begin().unwrap();
    txn.create_table(def("t"), IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(&vec![7; LARGE_ROWS])]).unwrap();
    txn.commit().unwrap();
    let reader = mine.latest();
    let mut txn = mine.begin().unwrap();
    txn.drop_table("main", "t").unwrap();
    txn.commit().unwrap();
    drop(reader);
    mine.share().unwrap();
    let left = mine.info().unwrap().limbo_bytes;
    assert!(left >= 4 * LARGE_ROWS as u64, "{left} bytes");
    let mut txn = mine.begin().unwrap();
    txn.create_table(def("u"), IfExists::Fail).unwrap();
    txn.commit().unwrap();
    let left = mine.info().unwrap().limbo_bytes;
    assert!(left < LARGE_ROWS as u64, "{left} bytes");
    assert_eq!(mine.verify().unwrap().limbo_blocks, 0);
}

/// Bytes that files below a folder take.
fn taken(folder: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;

    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let bytes = entries.map(|path| match std::fs::symlink_metadata(&path).unwrap() {
        facts if facts.is_dir() => taken(&path),
        facts => facts.blocks() * 512,
    });
    bytes.sum()
}

#[test]
fn a_share_of_a_database_without_tables_gives_all_memory_back() {
    let home = Home::new();
    let store = Store::open(&home.namespace, "d").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t"), IfExists::Fail).unwrap();
    txn.commit().unwrap();
    store.share().unwrap();
    let mut txn = store.begin().unwrap();
    txn.append("main", "t", &[batch(&(0..5_000_000).collect::<Vec<_>>())]).unwrap();
    txn.commit().unwrap();
    assert!(taken(home.path()) > 30 << 20);
    let mut txn = store.begin().unwrap();
    txn.drop_table("main", "t").unwrap();
    txn.commit().unwrap();
    // As at the end of each statement.
    store.give_back_dropped();
    // The first share does not wait for it.
    store.share().unwrap();
    store.share().unwrap();
    let left = taken(home.path());
    assert!(left <= 6 << 20, "{left} bytes");
    // It goes on.
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t"), IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(&[1, 2])]).unwrap();
    txn.commit().unwrap();
    store.share().unwrap();
    check(&store.latest(), &Tables::from([("t".to_owned(), vec![1, 2])]), "after all was dropped");
}
