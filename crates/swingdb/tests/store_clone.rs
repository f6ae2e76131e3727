//! Clones from other databases share memory instead of copying it, outlive their source, and free
//! what they mapped; large tables keep their pages and the order of their parts.

mod common;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use common::{Blocked, Home};
use swingdb::store::{Catalog, ColumnDef, IfExists, RowId, RowIds, Store, TableDef};

fn def(name: &str, columns: usize) -> TableDef {
    let column = |i| ColumnDef {
        name: format!("c{i}"),
        data_type: DataType::Int64,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    };
    TableDef {
        schema: "main".into(),
        name: name.into(),
        columns: (0..columns).map(column).collect(),
        constraints: Vec::new(),
    }
}

/// Rows `first..`: column c of row r is r + c.
fn batch(columns: usize, first: i64, rows: i64) -> RecordBatch {
    let fields: Vec<Field> =
        (0..columns).map(|i| Field::new(format!("c{i}"), DataType::Int64, true)).collect();
    let column = |c: usize| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((first..first + rows).map(|r| r + c as i64)))
    };
    let arrays: Vec<ArrayRef> = (0..columns).map(column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Live values of a column.
fn values(catalog: &Catalog, table: &str, column: usize) -> Vec<i64> {
    let table = catalog.table("main", table).unwrap().unwrap();
    let mut all = Vec::new();
    for segment in table.segments().unwrap().iter() {
        let array = segment.array(column).unwrap();
        let array = array.as_primitive::<Int64Type>();
        let live = |row: &usize| segment.deleted().is_none_or(|d| !d.value(*row));
        all.extend((0..segment.rows()).filter(live).map(|row| array.value(row)));
    }
    assert_eq!(all.len() as u64, table.row_count());
    all
}

fn address(store: &Store, table: &str) -> usize {
    let table = store.latest().table("main", table).unwrap().unwrap();
    let array = table.segments().unwrap()[0].array(0).unwrap();
    array.to_data().buffers()[0].as_ptr() as usize
}

/// Kilobytes of the memory files under a directory that really exist.
fn allocated_kib(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in std::fs::read_dir(path).unwrap().flatten() {
        let meta = entry.metadata().unwrap();
        if meta.is_dir() && entry.file_name() != "parents" {
            sum += allocated_kib(&entry.path());
        } else if meta.is_file() {
            sum += meta.blocks() / 2;
        }
    }
    sum
}

#[test]
fn a_clone_from_elsewhere_copies_nothing_and_outlives_its_source() {
    const ROWS: i64 = 1_000_000;
    let home = Home::new();
    let source = Store::open(&home.namespace, "source").unwrap();
    let mut txn = source.begin().unwrap();
    txn.create_table(def("t", 4), IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(4, 0, ROWS)]).unwrap();
    txn.commit().unwrap();
    source.share().unwrap();
    let before = allocated_kib(home.path());
    assert!(before > 30_000, "{before}");
    let snapshot = Store::hook(&home.namespace, "source").unwrap();
    let target = Store::open(&home.namespace, "target").unwrap();
    let table = snapshot.latest().table("main", "t").unwrap().unwrap();
    let mut txn = target.begin().unwrap();
    assert!(txn.clone_table("main", "x", &table, &snapshot, IfExists::Fail).unwrap());
    assert!(!txn.clone_table("main", "x", &table, &snapshot, IfExists::Skip).unwrap());
    txn.commit().unwrap();
    assert!(allocated_kib(home.path()) < before + 4096, "the clone was copied");
    target.verify().unwrap();
    // The source changes and goes; the clone stays, also for others and after reopening.
    let mut txn = source.begin().unwrap();
    txn.truncate_table("main", "t").unwrap();
    txn.append("main", "t", &[batch(4, 7, ROWS)]).unwrap();
    txn.commit().unwrap();
    source.share().unwrap();
    drop((table, snapshot));
    source.close().unwrap();
    home.namespace.remove(&swing::AreaName::new("source").unwrap()).unwrap();
    let expected: Vec<i64> = (2..ROWS + 2).collect();
    assert!(values(&target.latest(), "x", 2) == expected);
    target.share().unwrap();
    let other = Store::hook(&home.namespace, "target").unwrap();
    assert!(values(&other.latest(), "x", 2) == expected);
    target.close().unwrap();
    let target = Store::open(&home.namespace, "target").unwrap();
    assert!(values(&target.latest(), "x", 2) == expected);
    // Changing a row of the clone copies what it touches only.
    let mut txn = target.begin().unwrap();
    let row = RowIds::new(vec![RowId::new(1, 5)]);
    txn.update_rows("main", "x", &row, &[1], &[batch(1, -1, 1)]).unwrap();
    txn.commit().unwrap();
    target.verify().unwrap();
    assert!(values(&other.latest(), "x", 2) == expected);
    drop(other);
    let mut txn = target.begin().unwrap();
    txn.drop_table("main", "x").unwrap();
    txn.commit().unwrap();
    target.share().unwrap();
    drop(target.begin().unwrap());
    let report = target.verify().unwrap();
    assert_eq!(report.limbo_blocks, 0, "{report:?}");
    target.share().unwrap();
    target.close().unwrap();
    home.namespace.gc().unwrap();
    let left = allocated_kib(home.path());
    assert!(left < 8192, "{left} KiB");
}

#[test]
fn a_clone_inside_shares_until_the_last_is_dropped() {
    let home = Home::new();
    let mut store = Store::open(&home.namespace, "one").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t", 2), IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(2, 0, 100_000)]).unwrap();
    let table = txn.view().table("main", "t").unwrap().unwrap();
    let own = txn.store().clone();
    txn.clone_table("main", "u", &table, &own, IfExists::Fail).unwrap();
    txn.commit().unwrap();
    drop((own, table));
    assert_eq!(address(&store, "t"), address(&store, "u"));
    store.close().unwrap();
    store = Store::open(&home.namespace, "one").unwrap();
    let mut txn = store.begin().unwrap();
    txn.drop_table("main", "t").unwrap();
    txn.commit().unwrap();
    store.verify().unwrap();
    assert!(values(&store.latest(), "u", 1) == (1..100_001).collect::<Vec<_>>());
    let mut txn = store.begin().unwrap();
    txn.drop_table("main", "u").unwrap();
    txn.commit().unwrap();
    let report = store.verify().unwrap();
    assert!(report.live_bytes < 8192 && report.limbo_blocks == 0, "{report:?}");
}

/// Two tables of the same chunks, read from a published state each by itself: who holds what one
/// has keeps it when both are dropped.
#[test]
fn what_is_held_of_a_clone_stays_when_both_are_dropped() {
    const ROWS: i64 = 100_000;
    let home = Home::new();
    let store = Store::open(&home.namespace, "one").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t", 1), IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(1, 0, ROWS)]).unwrap();
    let table = txn.view().table("main", "t").unwrap().unwrap();
    let own = txn.store().clone();
    txn.clone_table("main", "u", &table, &own, IfExists::Fail).unwrap();
    txn.commit().unwrap();
    store.share().unwrap();
    drop((own, table));
    let snapshot = Store::hook(&home.namespace, "one").unwrap();
    store.close().unwrap();
    let opened = Store::open(&home.namespace, "one").unwrap();
    for store in [snapshot, opened] {
        let held: Vec<ArrayRef> = {
            let table = store.latest().table("main", "t").unwrap().unwrap();
            table.segments().unwrap().iter().map(|segment| segment.array(0).unwrap()).collect()
        };
        for name in ["t", "u"] {
            assert!(values(&store.latest(), name, 0) == (0..ROWS).collect::<Vec<_>>());
            let mut txn = store.begin().unwrap();
            txn.drop_table("main", name).unwrap();
            txn.commit().unwrap();
        }
        let mut txn = store.begin().unwrap();
        txn.create_table(def("w", 1), IfExists::Fail).unwrap();
        txn.append("main", "w", &[batch(1, -ROWS, ROWS)]).unwrap();
        txn.commit().unwrap();
        let kept: Vec<i64> =
            held.iter().flat_map(|a| a.as_primitive::<Int64Type>().values().to_vec()).collect();
        assert!(kept == (0..ROWS).collect::<Vec<_>>());
        drop(held);
        drop(store.begin().unwrap());
        assert_eq!(store.verify().unwrap().limbo_blocks, 0);
    }
}

#[test]
fn a_table_from_before_a_refresh_is_cloned_as_it_was() {
    const ROWS: i64 = 100_000;
    let home = Home::new();
    let source = Store::open(&home.namespace, "source").unwrap();
    let fill = |first: i64| {
        let mut txn = source.begin().unwrap();
        txn.create_table(def("t", 1), IfExists::Replace).unwrap();
        txn.append("main", "t", &[batch(1, first, ROWS)]).unwrap();
        txn.commit().unwrap();
        source.share().unwrap();
    };
    fill(0);
    let unnamed = Store::hook(&home.namespace, "source").unwrap();
    let named = Store::hook_named(&home.namespace, "source", "named").unwrap();
    let target = Store::open(&home.namespace, "target").unwrap();
    let before = |store: &Store| store.latest().table("main", "t").unwrap().unwrap();
    let (of_unnamed, of_named) = (before(&unnamed), before(&named));
    (1..6).for_each(|round| fill(round * ROWS));
    assert!(unnamed.refresh().unwrap() && named.refresh().unwrap());
    let mut txn = target.begin().unwrap();
    txn.clone_table("main", "x", &of_unnamed, &unnamed, IfExists::Fail).unwrap();
    txn.commit().unwrap();
    assert!(values(&target.latest(), "x", 0) == (0..ROWS).collect::<Vec<_>>());
    // The area that this one was read from is gone.
    let mut txn = target.begin().unwrap();
    let error = txn.clone_table("main", "y", &of_named, &named, IfExists::Fail).unwrap_err();
    assert!(error.to_string().contains("refreshed"), "{error}");
    txn.clone_table("main", "y", &before(&named), &named, IfExists::Fail).unwrap();
    txn.commit().unwrap();
    assert!(values(&target.latest(), "y", 0) == (5 * ROWS..6 * ROWS).collect::<Vec<_>>());
    target.verify().unwrap();
}

#[test]
fn a_failed_commit_forgets_what_was_cloned_and_dropped() {
    let home = Home::new();
    let source = Store::open(&home.namespace, "source").unwrap();
    let mut txn = source.begin().unwrap();
    txn.create_table(def("t", 1), IfExists::Fail).unwrap();
    txn.append("main", "t", &[batch(1, 0, 1_000_000)]).unwrap();
    txn.commit().unwrap();
    source.share().unwrap();
    let snapshot = Store::hook(&home.namespace, "source").unwrap();
    let table = snapshot.latest().table("main", "t").unwrap().unwrap();
    let target = Store::open(&home.namespace, "target").unwrap();
    let mut txn = target.begin().unwrap();
    txn.clone_table("main", "kept", &table, &snapshot, IfExists::Fail).unwrap();
    txn.commit().unwrap();
    for dropped in [&["x"][..], &["x", "kept"]] {
        let mut txn = target.begin().unwrap();
        txn.clone_table("main", "x", &table, &snapshot, IfExists::Fail).unwrap();
        dropped.iter().for_each(|name| assert!(txn.drop_table("main", name).is_ok()));
        let blocked = Blocked::new(&home, "target");
        assert!(txn.commit().is_err());
        drop(blocked);
        drop(target.begin().unwrap());
        let report = target.verify().unwrap();
        assert_eq!(report.limbo_blocks, 0, "{report:?}");
        assert_eq!(values(&target.latest(), "kept", 0).len(), 1_000_000);
    }
}

#[test]
fn parts_keep_their_order_and_pages_their_segments() {
    const COLUMNS: usize = 25;
    const PART: i64 = 16_400;
    let home = Home::new();
    let store = Store::open(&home.namespace, "pages").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t", COLUMNS), IfExists::Fail).unwrap();
    let writer = txn.writer("main", "t").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4i32 {
            let writer = writer.clone();
            scope.spawn(move || {
                for order in (thread..20).step_by(4).rev() {
                    let first = i64::from(order) * PART;
                    let mut part = writer.part(order as u64).unwrap();
                    part.push(batch(COLUMNS, first, 10_000)).unwrap();
                    part.push(batch(COLUMNS, first + 10_000, PART - 10_000)).unwrap();
                    part.finish().unwrap();
                }
            });
        }
    });
    assert_eq!(txn.adopt(writer).unwrap(), 20 * PART as u64);
    txn.commit().unwrap();
    let mut expected: Vec<i64> = (0..20 * PART).collect();
    assert!(values(&store.latest(), "t", 0) == expected);
    let table = store.latest().table("main", "t").unwrap().unwrap();
    assert_eq!(table.segments().unwrap().len(), 20);
    assert!(table.stats(3).unwrap().sorted);
    // Whole segments go from the middle of pages, single rows from others; the rest stays in order.
    let gone = |row: i64| (PART * 3..PART * 5).contains(&row) || row % 1000 == 0;
    let mut txn = store.begin().unwrap();
    let ids = (0..20 * PART).filter(|r| gone(*r));
    let ids = ids.map(|r| RowId::new((r / PART) as u32, (r % PART) as u32)).collect();
    txn.delete_rows("main", "t", &RowIds::new(ids)).unwrap();
    txn.commit().unwrap();
    expected.retain(|r| !gone(*r));
    assert!(values(&store.latest(), "t", 0) == expected);
    assert_eq!(store.latest().table("main", "t").unwrap().unwrap().segments().unwrap().len(), 18);
    let mut txn = store.begin().unwrap();
    txn.append("main", "t", &[batch(COLUMNS, -5, 1)]).unwrap();
    txn.drop_column("main", "t", "c7").unwrap();
    // By position the columns now have other names; types are what counts.
    assert!(txn.append("main", "t", &[batch(COLUMNS - 2, -6, 1)]).is_err());
    txn.commit().unwrap();
    expected.push(-5);
    store.verify().unwrap();
    store.close().unwrap();
    let store = Store::open(&home.namespace, "pages").unwrap();
    assert!(values(&store.latest(), "t", 0) == expected);
    let moved: Vec<i64> = expected.iter().map(|v| v + 8).collect();
    assert!(values(&store.latest(), "t", 7) == moved);
    store.verify().unwrap();
}
