//! Every Arrow type goes into the store and comes out the same: NULLs, slices, empty arrays, many
//! batches, whole arrays and ranges of them, the same process, after reopening, and in a snapshot.

mod common;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use common::{Home, all_types, random_array, seeded};
use fastrand::Rng;
use swingdb::store::{ColumnDef, IfExists, RowId, RowIds, SEGMENT_ROWS, Store, TableDef};

fn column(name: &str, data_type: &DataType) -> ColumnDef {
    let (name, data_type) = (name.to_owned(), data_type.clone());
    ColumnDef {
        name,
        data_type,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    }
}

fn one_column(name: &str, data_type: &DataType) -> TableDef {
    let columns = vec![column("c", data_type)];
    TableDef { schema: "main".into(), name: name.into(), columns, constraints: Vec::new() }
}

/// What the table holds, as one array.
fn contents(store: &Store, table: &str) -> Option<ArrayRef> {
    let table = store.latest().table("main", table).unwrap().unwrap();
    let segments = table.segments().unwrap();
    let arrays: Vec<ArrayRef> = segments.iter().map(|s| s.array(0).unwrap()).collect();
    let arrays: Vec<&dyn Array> = arrays.iter().map(|a| a.as_ref()).collect();
    (!arrays.is_empty()).then(|| concat(&arrays).unwrap())
}

fn batch(array: ArrayRef) -> RecordBatch {
    let field = Field::new("c", array.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
}

/// Compared by value: logical contents, not layout.
fn assert_same(found: &dyn Array, expected: &dyn Array, what: &str) {
    assert_eq!(found.data_type(), expected.data_type(), "{what}");
    assert_eq!(found.len(), expected.len(), "{what}");
    assert_eq!(found.to_data(), expected.to_data(), "{what}");
}

fn round_trip(rng: &mut Rng, data_type: &DataType, lens: &[usize], some_nulls: bool) {
    let home = Home::new();
    let store = Store::open(&home.namespace, "types").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(one_column("t", data_type), IfExists::Fail).unwrap();
    let mut pieces = Vec::new();
    for len in lens {
        let whole = random_array(rng, data_type, len + 10, some_nulls);
        pieces.push(whole.slice(rng.usize(0..10), *len));
    }
    let batches: Vec<RecordBatch> = pieces.iter().cloned().map(batch).collect();
    let rows = txn.append("main", "t", &batches).unwrap();
    assert_eq!(rows as usize, lens.iter().sum::<usize>());
    txn.commit().unwrap();
    let pieces: Vec<&dyn Array> = pieces.iter().map(|a| a.as_ref()).collect();
    let expected = concat(&pieces).unwrap();
    let what = format!("{data_type} {lens:?} nulls: {some_nulls}");
    check(rng, &store, expected.as_ref(), &what);
    store.share().unwrap();
    let snapshot = Store::hook(&home.namespace, "types").unwrap();
    check(rng, &snapshot, expected.as_ref(), &format!("{what}, snapshot"));
    drop(store);
    let store = Store::open(&home.namespace, "types").unwrap();
    check(rng, &store, expected.as_ref(), &format!("{what}, reopened"));
}

fn check(rng: &mut Rng, store: &Store, expected: &dyn Array, what: &str) {
    let Some(found) = contents(store, "t") else {
        assert_eq!(expected.len(), 0);
        return;
    };
    assert_same(found.as_ref(), expected, what);
    let table = store.latest().table("main", "t").unwrap().unwrap();
    let mut first = 0;
    for segment in table.segments().unwrap().iter() {
        for _ in 0..8 {
            let start = rng.usize(0..=segment.rows());
            let end = rng.usize(start..=segment.rows());
            let part = segment.slice(0, start..end).unwrap();
            part.to_data().validate_full().unwrap();
            let expected = expected.slice(first + start, end - start);
            assert_same(part.as_ref(), expected.as_ref(), &format!("{what}, rows {start}..{end}"));
        }
        first += segment.rows();
        let nulls = segment.array(0).unwrap().logical_null_count() as u64;
        assert_eq!(segment.stats(0).unwrap().null_count, nulls, "{what}");
    }
}

#[test]
fn every_type_survives() {
    let mut rng = seeded("every_type_survives");
    for data_type in all_types() {
        for some_nulls in [false, true] {
            round_trip(&mut rng, &data_type, &[7, 0, 130, 1, 1000], some_nulls);
            round_trip(&mut rng, &data_type, &[0], some_nulls);
        }
    }
}

#[test]
fn several_segments_survive() {
    let mut rng = seeded("several_segments_survive");
    let some = [
        DataType::Int64,
        DataType::Boolean,
        DataType::Utf8,
        DataType::Utf8View,
        DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
    ];
    for data_type in some {
        round_trip(&mut rng, &data_type, &[SEGMENT_ROWS - 3, 100_000, 70_001], true);
    }
}

/// Updates of few rows again and again, which leave patches and then a new chunk.
fn change_few(rng: &mut Rng, data_type: &DataType) {
    let home = Home::new();
    let store = Store::open(&home.namespace, "types").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(one_column("t", data_type), IfExists::Fail).unwrap();
    let first = random_array(rng, data_type, 300, true);
    txn.append("main", "t", &[batch(first.clone())]).unwrap();
    txn.commit().unwrap();
    store.share().unwrap();
    let before = (Store::hook(&home.namespace, "types").unwrap(), first.clone());
    // Each row as a slice of the array it came in: not every type can be interleaved, and putting
    // arrays together again and again would make some of them larger each time.
    let mut expected: Vec<ArrayRef> = (0..300).map(|row| first.slice(row, 1)).collect();
    let whole = |rows: &[ArrayRef]| {
        let rows: Vec<&dyn Array> = rows.iter().map(|row| row.as_ref()).collect();
        concat(&rows).unwrap()
    };
    for round in 0..12 {
        let mut rows: Vec<u32> = (0..rng.usize(1..8)).map(|_| rng.u32(0..300)).collect();
        rows.sort_unstable();
        rows.dedup();
        let values = random_array(rng, data_type, rows.len() + 3, true).slice(3, rows.len());
        let ids = RowIds::new(rows.iter().map(|row| RowId::new(0, *row)).collect());
        let mut txn = store.begin().unwrap();
        txn.update_rows("main", "t", &ids, &[0], &[batch(values.clone())]).unwrap();
        if rng.bool() {
            txn.rollback();
        } else {
            txn.commit().unwrap();
            let new = |(at, row): (usize, &u32)| expected[*row as usize] = values.slice(at, 1);
            rows.iter().enumerate().for_each(new);
        }
        if round % 4 == 3 {
            check(rng, &store, whole(&expected).as_ref(), &format!("{data_type}, round {round}"));
            store.verify().unwrap();
        }
    }
    let expected = whole(&expected);
    store.share().unwrap();
    let snapshot = Store::hook(&home.namespace, "types").unwrap();
    check(rng, &snapshot, expected.as_ref(), &format!("{data_type}, snapshot"));
    check(rng, &before.0, before.1.as_ref(), &format!("{data_type}, older snapshot"));
    let other = Store::create_private(&home.namespace).unwrap();
    let mut txn = other.begin().unwrap();
    let table = snapshot.latest().table("main", "t").unwrap().unwrap();
    txn.clone_table("main", "t", &table, &snapshot, IfExists::Fail).unwrap();
    txn.commit().unwrap();
    check(rng, &other, expected.as_ref(), &format!("{data_type}, clone"));
    other.verify().unwrap();
    drop(store);
    let store = Store::open(&home.namespace, "types").unwrap();
    check(rng, &store, expected.as_ref(), &format!("{data_type}, reopened"));
    store.verify().unwrap();
}

#[test]
fn every_type_survives_changes_of_few_rows() {
    let mut rng = seeded("every_type_survives_changes_of_few_rows");
    for data_type in all_types() {
        change_few(&mut rng, &data_type);
    }
}

/// A patch is nested one deeper than its column: of the deepest types there are none.
#[test]
fn the_deepest_types_can_be_changed() {
    let mut rng = seeded("the_deepest_types_can_be_changed");
    for depth in [60, 61, 62, 63] {
        let one = |inner, _| DataType::Struct(vec![Field::new("one", inner, true)].into());
        change_few(&mut rng, &(0..depth).fold(DataType::Int32, one));
    }
}

#[test]
fn changing_one_row_writes_no_column() {
    let home = Home::new();
    let store = Store::open(&home.namespace, "small").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(one_column("t", &DataType::Int64), IfExists::Fail).unwrap();
    let values: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(0..100_000));
    txn.append("main", "t", &[batch(values)]).unwrap();
    txn.commit().unwrap();
    let live = store.verify().unwrap().live_bytes;
    let address = |store: &Store, rows: std::ops::Range<usize>| {
        let table = store.latest().table("main", "t").unwrap().unwrap();
        let part = table.segments().unwrap()[0].slice(0, rows).unwrap();
        part.to_data().buffers()[0].as_ptr() as usize
    };
    let old = (address(&store, 0..8192), address(&store, 8192..16384));
    for (row, value) in [(9000, -5), (70_000, 1 << 40), (9000, -6)] {
        let mut txn = store.begin().unwrap();
        let ids = RowIds::new(vec![RowId::new(0, row)]);
        let value: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![value]));
        txn.update_rows("main", "t", &ids, &[0], &[batch(value)]).unwrap();
        txn.commit().unwrap();
    }
    assert!(store.verify().unwrap().live_bytes < live + 4096, "the column was written again");
    assert_eq!(address(&store, 0..8192), old.0, "rows that did not change are not copied");
    assert_ne!(address(&store, 8192..16384), old.1);
    let table = store.latest().table("main", "t").unwrap().unwrap();
    let stats = table.stats(0).unwrap();
    let bounds = [stats.min, stats.max].map(|b| b.unwrap().to_string());
    assert_eq!((bounds, stats.exact), (["-6".to_string(), (1i64 << 40).to_string()], true));
    assert!(!stats.sorted);
}

#[test]
fn a_batch_is_charged_for_its_own_rows() {
    let mut rng = seeded("a_batch_is_charged_for_its_own_rows");
    let home = Home::new();
    let store = Store::create_private(&home.namespace).unwrap();
    for (name, data_type) in
        [("i", DataType::Int64), ("s", DataType::Utf8), ("v", DataType::Utf8View)]
    {
        let mut txn = store.begin().unwrap();
        txn.create_table(one_column(name, &data_type), IfExists::Fail).unwrap();
        let array = random_array(&mut rng, &data_type, SEGMENT_ROWS, false);
        txn.append("main", name, &[batch(array)]).unwrap();
        txn.commit().unwrap();
        let table = store.latest().table("main", name).unwrap().unwrap();
        let segment = table.segments().unwrap()[0].clone();
        let whole = segment.array(0).unwrap().get_array_memory_size();
        let parts: usize = (0..SEGMENT_ROWS / 8192)
            .map(|i| segment.slice(0, i * 8192..(i + 1) * 8192).unwrap().get_array_memory_size())
            .sum();
        assert!(parts < whole + whole / 10, "{data_type}: {parts} for {whole}");
    }
}

#[test]
fn reading_does_not_copy() {
    let home = Home::new();
    let store = Store::open(&home.namespace, "zero").unwrap();
    let mut txn = store.begin().unwrap();
    txn.create_table(one_column("t", &DataType::Int64), IfExists::Fail).unwrap();
    let values: ArrayRef = Arc::new(arrow::array::Int64Array::from_iter_values(0..100_000));
    txn.append("main", "t", &[batch(values)]).unwrap();
    txn.commit().unwrap();
    let table = store.latest().table("main", "t").unwrap().unwrap();
    let segment = table.segments().unwrap()[0].clone();
    let address = |a: &ArrayRef| a.to_data().buffers()[0].as_ptr() as usize;
    let whole = segment.array(0).unwrap();
    let part = segment.slice(0, 8192..16384).unwrap();
    assert_eq!(address(&part), address(&whole) + 8192 * 8);
    // The memory outlives everything but the array.
    drop((table, segment, part));
    store.close().unwrap();
    let again = Store::open(&home.namespace, "zero").unwrap();
    let mut txn = again.begin().unwrap();
    txn.truncate_table("main", "t").unwrap();
    txn.commit().unwrap();
    drop(again);
    assert_eq!(whole.to_data().buffers()[0].typed_data::<i64>()[99_999], 99_999);
}
