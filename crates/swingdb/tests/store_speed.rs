//! Figures of the store (run with `--ignored --nocapture`): bulk append, share after a one-row
//! change, snapshot, scan.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringViewArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use common::Home;
use swingdb::store::{ColumnDef, IfExists, RowId, RowIds, Store, TableDef};

fn columns() -> Vec<(&'static str, DataType)> {
    vec![
        ("id", DataType::Int64),
        ("time", DataType::Int64),
        ("lon", DataType::Float64),
        ("lat", DataType::Float64),
        ("speed", DataType::Float64),
        ("who", DataType::Utf8View),
    ]
}

fn batch(first: i64, rows: i64) -> RecordBatch {
    let floats = |k: f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((first..first + rows).map(|i| i as f64 * k)))
    };
    let who = (first..first + rows).map(|i| format!("driver {} of the town", i % 1000));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(first..first + rows)),
        Arc::new(Int64Array::from_iter_values((first..first + rows).map(|i| i / 10))),
        floats(0.5),
        floats(-0.25),
        floats(3.0),
        Arc::new(StringViewArray::from_iter_values(who)),
    ];
    let fields: Vec<Field> = columns().into_iter().map(|(n, t)| Field::new(n, t, true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn def(name: &str) -> TableDef {
    let columns = columns().into_iter().map(|(n, t)| ColumnDef {
        name: n.into(),
        data_type: t,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    });
    TableDef {
        schema: "main".into(),
        name: name.into(),
        columns: columns.collect(),
        constraints: Vec::new(),
    }
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

/// Appends `rounds` times `source` from two threads, in order.
fn append(store: &Store, source: &[RecordBatch], rounds: usize, what: &str) {
    let mut txn = store.begin().unwrap();
    txn.create_table(def("t"), IfExists::Replace).unwrap();
    let start = Instant::now();
    let writer = txn.writer("main", "t").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let writer = writer.clone();
            scope.spawn(move || {
                for round in (thread..rounds).step_by(2) {
                    let mut part = writer.part(round as u64).unwrap();
                    source.iter().for_each(|b| part.push(b.clone()).unwrap());
                    part.finish().unwrap();
                }
            });
        }
    });
    let rows = txn.adopt(writer).unwrap();
    let append = start.elapsed();
    let start = Instant::now();
    txn.commit().unwrap();
    let commit = start.elapsed();
    let bytes = store.latest().table("main", "t").unwrap().unwrap().bytes() as f64;
    println!(
        "append {what}: {rows} rows, {:.2} GB in {append:?} ({:.2} GB/s), commit {commit:?}",
        bytes / 1e9,
        bytes / append.as_secs_f64() / 1e9
    );
}

fn change(store: &Store, work: impl FnOnce(&mut swingdb::store::WriteTxn) -> u64) {
    let mut txn = store.begin().unwrap();
    assert_eq!(work(&mut txn), 1);
    txn.commit().unwrap();
}

/// Changes of one row, each followed by a share.
fn one_row(store: &Store) {
    let (mut insert, mut share, mut both) = (vec![], vec![], vec![]);
    let (mut delete, mut update) = (vec![], vec![]);
    for i in 0..50 {
        let (one, new) = (batch(i, 1), batch(5, 1).project(&[1]).unwrap());
        let start = Instant::now();
        change(store, |txn| txn.append("main", "t", &[one]).unwrap());
        insert.push(start.elapsed());
        let second = Instant::now();
        store.share().unwrap();
        share.push(second.elapsed());
        both.push(start.elapsed());
        let row = |segment| RowIds::new(vec![RowId::new(segment, i as u32 * 7)]);
        let start = Instant::now();
        change(store, |txn| txn.delete_rows("main", "t", &row(3)).unwrap());
        store.share().unwrap();
        delete.push(start.elapsed());
        let start = Instant::now();
        change(store, |txn| txn.update_rows("main", "t", &row(2), &[1], &[new]).unwrap());
        store.share().unwrap();
        update.push(start.elapsed());
    }
    println!(
        "one row: insert+commit {:?}, share {:?}, both {:?}; delete+share {:?}; update+share {:?}",
        median(insert),
        median(share),
        median(both),
        median(delete),
        median(update)
    );
}

#[test]
#[ignore = "figures, not a check"]
fn figures() {
    let given = std::env::var("SWINGDB_TEST_GIB").ok().and_then(|g| g.parse().ok());
    let gib: f64 = given.unwrap_or(0.5);
    let home = Home::new();
    let store = Store::open(&home.namespace, "speed").unwrap();
    let source: Vec<RecordBatch> = (0..16).map(|i| batch(i * 65_536, 65_536)).collect();
    let bytes: usize = source.iter().map(|b| b.get_array_memory_size()).sum();
    let rounds = ((gib * (1u64 << 30) as f64) / bytes as f64).ceil() as usize;
    append(&store, &source, rounds, "first");
    if gib <= 2.0 {
        append(&store, &source, rounds, "again");
    }
    store.share().unwrap();
    one_row(&store);
    let taken = (0..50).map(|_| {
        let start = Instant::now();
        let snapshot = Store::hook(&home.namespace, "speed").unwrap();
        let taken = start.elapsed();
        drop(snapshot);
        taken
    });
    println!("snapshot {:?}", median(taken.collect()));
    let snapshot = Store::hook(&home.namespace, "speed").unwrap();
    for (what, store) in [("writer", &store), ("snapshot", &snapshot), ("writer", &store)] {
        let start = Instant::now();
        let table = store.latest().table("main", "t").unwrap().unwrap();
        let mut sum = 0i64;
        for segment in table.segments().unwrap().iter() {
            let array = segment.array(1).unwrap();
            sum += array.as_primitive::<Int64Type>().values().iter().sum::<i64>();
            assert_eq!(array.null_count(), 0);
        }
        println!("sum of a column, {what}: {:?} ({sum})", start.elapsed());
    }
}
