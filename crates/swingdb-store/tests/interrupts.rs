//! Changes whose statement is to end: at once, and after any time. Nothing of them stays, and the
//! transaction and the store go on.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use swing::Namespace;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::{OnThread, Running};
use swingdb_store::{
    ColumnDef, Constraint, Durability, IfExists, RowId, RowIds, SEGMENT_ROWS, Store, StoreOptions,
    TableDef, WriteTxn,
};

/// Rows of the table: of three segments and a bit.
const ROWS: i64 = 3 * SEGMENT_ROWS as i64 + 1000;

fn column(name: &str) -> ColumnDef {
    ColumnDef {
        name: name.into(),
        data_type: DataType::Int64,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    }
}

/// Keys in no order, so that their hashes are noted.
fn keys(range: std::ops::Range<i64>) -> ArrayRef {
    let (first, count) = (range.start, range.end - range.start);
    Arc::new(Int64Array::from_iter_values((0..count).map(|i| first + (i * 7919 + 5) % count)))
}

fn batch(range: std::ops::Range<i64>) -> RecordBatch {
    let keys = keys(range);
    RecordBatch::try_from_iter_with_nullable([("k", keys.clone(), false), ("v", keys, true)])
        .unwrap()
}

fn fill(txn: &mut WriteTxn) {
    let (schema, name) = ("main".to_owned(), "t".to_owned());
    let columns = vec![column("k"), column("v")];
    let constraints = vec![Constraint::Primary(vec![0])];
    let table = TableDef { schema, name, columns, constraints };
    txn.create_table(table, IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(0..ROWS)]).unwrap();
}

fn memory() -> (tempfile::TempDir, Namespace) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(folder.path()).unwrap();
    (folder, namespace)
}

fn filled(namespace: &Namespace) -> Store {
    let store = Store::create_private(namespace).unwrap();
    let mut txn = store.begin().unwrap();
    txn.set_threads(2);
    fill(&mut txn);
    txn.commit().unwrap();
    store
}

fn all_rows(txn: &WriteTxn) -> RowIds {
    let segments = txn.view().table("main", "t").unwrap().unwrap().segments().unwrap();
    let rows = |(at, rows): (u32, usize)| (0..rows as u32).map(move |row| RowId::new(at, row));
    let all = (0..).zip(segments.iter().map(|segment| segment.rows()));
    RowIds::new(all.flat_map(rows).collect())
}

/// Rows, columns and the sums of the columns.
fn contents(store: &Store, txn: Option<&WriteTxn>) -> (u64, Vec<i64>) {
    let catalog = txn.map_or_else(|| store.latest(), WriteTxn::view);
    let table = catalog.table("main", "t").unwrap().unwrap();
    let sum = |column: usize| {
        let segments = table.segments().unwrap();
        let sums = segments.iter().map(|segment| {
            let values = segment.array(column).unwrap();
            let values = values.as_primitive::<Int64Type>().values();
            let is_live = |row: &usize| segment.deleted().is_none_or(|gone| !gone.value(*row));
            let live = (0..values.len()).filter(is_live).map(|row| values[row]);
            live.fold(0_i64, i64::wrapping_add)
        });
        sums.fold(0, i64::wrapping_add)
    };
    (table.row_count(), (0..table.columns().len()).map(sum).collect())
}

/// That the keys of the table are those that are noted: one that is there is refused, and one that
/// is not comes in.
fn check_keys(txn: &mut WriteTxn) {
    let before = txn.savepoint();
    for there in [0, ROWS / 2, ROWS - 1] {
        let refused = txn.append("main", "t", &[batch(there..there + 1)]);
        assert!(matches!(refused, Err(Error::Constraint { .. })), "{there}: {refused:?}");
    }
    assert_eq!(txn.append("main", "t", &[batch(ROWS * 3..ROWS * 3 + 1)]).unwrap(), 1);
    txn.rollback_to(&before).unwrap();
}

type Change = (&'static str, fn(&mut WriteTxn) -> Result<()>);

/// Changes of many rows.
const CHANGES: [Change; 6] = [
    ("append", |txn| txn.append("main", "t", &[batch(ROWS..2 * ROWS)]).map(drop)),
    ("a duplicate at the end", |txn| match txn.append("main", "t", &[batch(ROWS - 1..2 * ROWS)]) {
        Err(Error::Constraint { .. }) => Ok(()),
        other => other.map(|_| panic!("a duplicate came in")),
    }),
    ("update of the keys", |txn| {
        let rows = all_rows(txn);
        let new = RecordBatch::try_from_iter([("k", keys(1..ROWS + 1))]).unwrap();
        txn.update_rows("main", "t", &rows, &[0], &[new]).map(drop)
    }),
    ("update of others", |txn| {
        let rows = all_rows(txn);
        let new = RecordBatch::try_from_iter([("v", keys(7..ROWS + 7))]).unwrap();
        txn.update_rows("main", "t", &rows, &[1], &[new]).map(drop)
    }),
    ("delete", |txn| {
        let all = all_rows(txn);
        let some = all.as_slice().iter().step_by(2).copied().collect();
        txn.delete_rows("main", "t", &RowIds::new(some)).map(drop)
    }),
    ("add column", |txn| {
        let value: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        txn.add_column("main", "t", column("new"), Some(value))
    }),
];

#[test]
fn a_change_of_a_statement_that_is_to_end_changes_nothing() {
    let (_folder, namespace) = memory();
    let store = filled(&namespace);
    let running = Arc::new(Running::default());
    for (what, change) in CHANGES {
        let mut txn = store.begin().unwrap();
        txn.set_threads(2);
        let before = contents(&store, Some(&txn));
        let token = running.start(None);
        running.handle().interrupt();
        {
            let _working = OnThread::of(&token);
            let ended = change(&mut txn);
            assert!(matches!(ended, Err(Error::Interrupted)), "{what}: {ended:?}");
        }
        assert_eq!(contents(&store, Some(&txn)), before, "{what}");
        check_keys(&mut txn);
        change(&mut txn).unwrap_or_else(|error| panic!("{what}: {error}"));
        let changed = contents(&store, Some(&txn));
        {
            let _working = OnThread::of(&token);
            let ended = txn.commit();
            let is_changed = changed != before;
            assert_eq!(ended.is_err(), is_changed, "{what}: {ended:?}");
        }
        assert_eq!(contents(&store, None), before, "{what}: the commit was interrupted");
        let mut txn = store.begin().unwrap();
        check_keys(&mut txn);
    }
}

/// Runs `work` under limits of time that grow until it succeeds. `unchanged` looks at what is left
/// of one that did not.
fn under_growing_limits<T>(
    mut work: impl FnMut() -> Result<T>,
    mut unchanged: impl FnMut(),
) -> (T, u32) {
    let (mut limit, mut refused) = (Duration::from_micros(50), 0);
    let running = Arc::new(Running::default());
    loop {
        let token = running.start(Some(limit));
        let working = OnThread::of(&token);
        let done = work();
        drop(working);
        match done {
            Ok(done) => return (done, refused),
            Err(Error::TimedOut { .. }) => {
                refused += 1;
                unchanged();
            }
            Err(other) => panic!("{limit:?}: {other}"),
        }
        limit = limit * 7 / 4;
        assert!(limit < Duration::from_secs(600), "it never ends");
    }
}

#[test]
fn a_change_can_end_at_any_moment() {
    let (_folder, namespace) = memory();
    let store = filled(&namespace);
    let limbo = || {
        // What was dropped is freed by the next that writes.
        store.begin().unwrap().rollback();
        store.info().unwrap().limbo_bytes
    };
    let (before, unused) = (contents(&store, None), limbo());
    for (what, change) in CHANGES {
        let mut txn = store.begin().unwrap();
        txn.set_threads(2);
        let start = txn.savepoint();
        let cell = std::cell::RefCell::new(&mut txn);
        let (_, refused) = under_growing_limits(
            || change(&mut cell.borrow_mut()),
            || {
                let mut txn = cell.borrow_mut();
                assert_eq!(contents(&store, Some(&txn)), before, "{what}");
                check_keys(&mut txn);
            },
        );
        assert!(refused > 0, "{what}: it takes no time");
        txn.rollback_to(&start).unwrap();
        check_keys(&mut txn);
        drop(txn);
        assert_eq!(contents(&store, None), before, "{what}");
        assert_eq!(limbo(), unused, "{what}: memory of new segments is kept");
    }
}

#[test]
fn who_waits_for_the_writer_can_be_interrupted() {
    let (_folder, namespace) = memory();
    let store = filled(&namespace);
    let held = store.begin().unwrap();
    let token = Arc::new(Running::default()).start(Some(Duration::from_millis(100)));
    let _working = OnThread::of(&token);
    let began = Instant::now();
    let ended = store.begin().err();
    assert!(matches!(ended, Some(Error::TimedOut { .. })), "{ended:?}");
    assert!(began.elapsed() < swingdb_store::WRITER_WAIT / 2);
    drop(held);
}

fn open(namespace: &Namespace, directory: &Path, how: Durability) -> Store {
    let options = StoreOptions::new(directory).durability(how);
    Store::open_stored(namespace, "d", &options, None).unwrap()
}

#[test]
fn a_commit_that_waits_for_the_disk_can_end_before_it_is_there() {
    let (_folder, namespace) = memory();
    let disk = tempfile::tempdir().unwrap();
    let store = open(&namespace, disk.path(), Durability::Commit);
    let mut txn = store.begin().unwrap();
    txn.create_schema("first", IfExists::Fail).unwrap();
    txn.commit().unwrap();
    let commit = || {
        let mut txn = store.begin()?;
        // Only the commit has a limit that it can exceed.
        swingdb_common::runtime::cancel::to_the_end(|| fill(&mut txn));
        txn.commit()
    };
    let unchanged = || {
        assert!(store.latest().table("main", "t").unwrap().is_none());
        let info = store.durable_info().unwrap();
        assert_eq!(info.stored_version, Some(info.memory_version));
    };
    let (epoch, refused) = under_growing_limits(commit, unchanged);
    assert!(epoch.is_some() && refused > 0);
    let there = contents(&store, None);
    assert_eq!(there.0, ROWS as u64);
    store.close().unwrap();
    let (_other, namespace) = memory();
    let again = open(&namespace, disk.path(), Durability::Commit);
    assert_eq!(contents(&again, None), there, "from the disk");
}

#[test]
fn a_checkpoint_can_end_at_any_moment() {
    let (_folder, namespace) = memory();
    let disk = tempfile::tempdir().unwrap();
    let store = open(&namespace, disk.path(), Durability::Manual);
    let mut txn = store.begin().unwrap();
    fill(&mut txn);
    txn.commit().unwrap();
    let version = || store.durable_info().unwrap().stored_version;
    let before = version();
    let (_, refused) =
        under_growing_limits(|| store.checkpoint(), || assert_eq!(version(), before));
    assert!(refused > 0);
    assert_ne!(version(), before);
    let copy = tempfile::tempdir().unwrap();
    let (_, refused) = under_growing_limits(|| store.copy_to(copy.path(), "copy"), || {});
    assert!(refused > 0);
    let there = contents(&store, None);
    store.close().unwrap();
    let (_other, namespace) = memory();
    assert_eq!(contents(&open(&namespace, disk.path(), Durability::Manual), None), there);
    let restored = Store::restore(&namespace, copy.path(), None, None).unwrap();
    assert_eq!(contents(&restored, None), there);
}
