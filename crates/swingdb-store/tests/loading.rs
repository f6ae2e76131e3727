//! A database that is still read from its store: who has to wait until it is in memory whole hears
//! how far it is, and goes when the statement is to end. Nothing is published then.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use parking_lot::Mutex;
use swing::Namespace;
use swingdb_common::error::Error;
use swingdb_common::progress::Progress;
use swingdb_common::runtime::cancel::{CancelToken, OnThread, Running};
use swingdb_store::{
    ColumnDef, Durability, IfExists, SEGMENT_ROWS, Store, StoreOptions, TableDef, WRITER_WAIT,
};

/// Rows of the table: of ten segments, in more blocks than are read together.
const ROWS: i64 = 10 * SEGMENT_ROWS as i64;
const COLUMNS: usize = 4;

fn memory() -> (tempfile::TempDir, Namespace) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let namespace = Namespace::open(folder.path()).unwrap();
    (folder, namespace)
}

fn open(namespace: &Namespace, directory: &Path, how: Durability) -> Store {
    let options = StoreOptions::new(directory).durability(how);
    Store::open_stored(namespace, "d", &options, None).unwrap()
}

/// A store with a table that no codec makes small.
fn filled() -> tempfile::TempDir {
    let ((_folder, namespace), disk) = (memory(), tempfile::tempdir().unwrap());
    let store = open(&namespace, disk.path(), Durability::Commit);
    let column = |number: usize| ColumnDef {
        name: format!("c{number}"),
        data_type: DataType::Int64,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    };
    let columns: Vec<_> = (0..COLUMNS).map(column).collect();
    let values = (0..ROWS).map(|row| row.wrapping_mul(-0x61C8_8646_80B5_83EB));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    let named = columns.iter().map(|column| (column.name.clone(), values.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(named).unwrap();
    let (schema, name) = ("main".to_owned(), "t".to_owned());
    let mut txn = store.begin().unwrap();
    let table = TableDef { schema, name, columns, constraints: Vec::new() };
    txn.create_table(table, IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch]).unwrap();
    txn.commit().unwrap();
    disk
}

/// Of which nothing has been read yet.
fn half_open(disk: &Path, how: Durability) -> (tempfile::TempDir, Namespace, Store) {
    for _ in 0..20 {
        let (folder, namespace) = memory();
        let store = open(&namespace, disk, how);
        if store.loading().is_some_and(|(done, _)| done == 0) {
            return (folder, namespace, store);
        }
        store.close().unwrap();
    }
    panic!("everything is in memory");
}

fn sum(store: &Store) -> i64 {
    let catalog = store.latest();
    let table = catalog.table("main", "t").unwrap().unwrap();
    let all = table.segments().unwrap();
    let arrays = all.iter().flat_map(|s| (0..COLUMNS).map(|column| s.array(column).unwrap()));
    let values = arrays.map(|array| {
        array.as_primitive::<Int64Type>().values().iter().copied().fold(0, i64::wrapping_add)
    });
    values.fold(0, i64::wrapping_add)
}

/// Hears how far something is, and ends it when so much is done.
struct Heard {
    running: Arc<Running>,
    /// The share of the whole, in percent.
    ends_at: Option<u64>,
    all: Mutex<Vec<(u64, u64)>>,
}

impl Heard {
    fn new(ends_at: Option<u64>) -> (Self, CancelToken) {
        let running = Arc::new(Running::default());
        let token = running.start(None);
        (Self { running, ends_at, all: Mutex::default() }, token)
    }
}

impl Progress for Heard {
    fn progress(&self, done: u64, total: Option<u64>, unit: &str) {
        let total = total.unwrap();
        assert_eq!(unit, "bytes");
        self.all.lock().push((done, total));
        if self.ends_at.is_some_and(|percent| done * 100 >= total * percent) {
            self.running.handle().interrupt();
        }
    }
}

fn is_shared(namespace: &Namespace) -> bool {
    match Store::hook(namespace, "d") {
        Ok(_) => true,
        Err(Error::NotFound { .. } | Error::NotShared { .. }) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_share_that_is_interrupted_shares_nothing_and_the_next_goes_on() {
    let disk = filled();
    let (_folder, namespace, store) = half_open(disk.path(), Durability::Commit);
    let (heard, token) = Heard::new(Some(0));
    {
        let _working = OnThread::of(&token);
        let ended = store.share_with_progress(Some(&heard));
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    }
    assert!(store.loading().is_some() && !is_shared(&namespace));
    let (heard, token) = Heard::new(None);
    let _working = OnThread::of(&token);
    store.share_with_progress(Some(&heard)).unwrap();
    assert!(store.loading().is_none() && is_shared(&namespace));
    let all = heard.all.into_inner();
    assert!(all.is_sorted() && all.len() > 1, "{all:?}");
    assert!(all.first().is_some_and(|(done, total)| done < total), "{all:?}");
    assert!(all.last().is_some_and(|(done, total)| done == total), "{all:?}");
    let snapshot = Store::hook(&namespace, "d").unwrap();
    assert_eq!(sum(&snapshot), sum(&store));
}

#[test]
fn a_share_can_end_at_any_moment() {
    let disk = filled();
    let (_folder, namespace, store) = half_open(disk.path(), Durability::Commit);
    let (mut limit, mut refused) = (Duration::from_micros(20), 0);
    loop {
        let token = Arc::new(Running::default()).start(Some(limit));
        let working = OnThread::of(&token);
        let shared = store.share();
        drop(working);
        match shared {
            Ok(_) => break,
            Err(Error::TimedOut { .. }) => refused += 1,
            Err(other) => panic!("{limit:?}: {other}"),
        }
        assert!(!is_shared(&namespace));
        limit = limit * 3 / 2;
        assert!(limit < Duration::from_secs(600), "it never ends");
    }
    assert!(refused > 1, "it takes no time");
    let snapshot = Store::hook(&namespace, "d").unwrap();
    assert_eq!(sum(&snapshot), sum(&store));
}

#[test]
fn a_change_of_a_store_that_only_checkpoints_write_waits_and_can_end() {
    let disk = filled();
    let (_folder, _namespace, store) = half_open(disk.path(), Durability::Manual);
    let before = store.durable_info().unwrap().memory_version;
    let (heard, token) = Heard::new(Some(0));
    {
        let _working = OnThread::of(&token);
        let ended = store.takes_changes(Some(&heard));
        assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
        assert!(matches!(store.begin().err(), Some(Error::Interrupted)));
    }
    assert!(store.loading().is_some());
    assert_eq!(store.durable_info().unwrap().memory_version, before);
    let (heard, _token) = Heard::new(None);
    store.takes_changes(Some(&heard)).unwrap();
    assert!(store.loading().is_none());
    assert!(heard.all.lock().last().is_some_and(|(done, total)| done == total));
    let mut txn = store.begin().unwrap();
    txn.create_schema("made", IfExists::Fail).unwrap();
    txn.commit().unwrap();
}

/// The background has read everything, and waits for a transaction to publish it.
#[test]
fn who_waits_for_the_background_can_be_interrupted() {
    let disk = filled();
    let (_folder, namespace, store) = half_open(disk.path(), Durability::Commit);
    let open = store.begin().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while store.loading().is_some_and(|(done, total)| done < total) {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    // Time for the background to begin to wait.
    std::thread::sleep(Duration::from_millis(200));
    let (began, limit) = (Instant::now(), Duration::from_millis(100));
    let (heard, _) = Heard::new(None);
    let token = heard.running.start(Some(limit));
    let working = OnThread::of(&token);
    let ended = store.share_with_progress(Some(&heard));
    assert!(matches!(ended, Err(Error::TimedOut { .. })), "{ended:?}");
    assert!(began.elapsed() < WRITER_WAIT / 2, "{:?}", began.elapsed());
    drop(working);
    assert!(!is_shared(&namespace));
    drop(open);
    store.share().unwrap();
    assert!(is_shared(&namespace));
}
