//! Random transactions against a model: tables are lists of rows, a transaction is a copy of the
//! whole database.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use common::{Home, seeded};
use fastrand::Rng;
use swingdb::store::{
    ColumnDef, IfExists, RowId, RowIds, Savepoint, Store, Table, TableDef, WriteTxn,
};

/// A value: what is in the cell as text, `None` for NULL.
type Value = Option<String>;

#[derive(Clone, Debug, PartialEq)]
struct ModelTable {
    columns: Vec<(String, DataType)>,
    rows: Vec<Vec<Value>>,
}

type Model = BTreeMap<String, ModelTable>;

const TYPES: [DataType; 3] = [DataType::Int64, DataType::Utf8, DataType::Utf8View];

fn value(rng: &mut Rng, data_type: &DataType) -> Value {
    if rng.u8(..) < 30 {
        return None;
    }
    Some(match data_type {
        DataType::Int64 => rng.i64(-1000..1000).to_string(),
        _ => {
            let len = rng.usize(0..30);
            (0..len).map(|_| rng.alphanumeric()).collect()
        }
    })
}

fn array(data_type: &DataType, values: &[Value]) -> ArrayRef {
    let texts = values.iter().map(|v| v.as_deref());
    match data_type {
        DataType::Int64 => {
            Arc::new(texts.map(|t| t.map(|t| t.parse().unwrap())).collect::<Int64Array>())
        }
        DataType::Utf8 => Arc::new(texts.collect::<StringArray>()),
        _ => Arc::new(texts.collect::<StringViewArray>()),
    }
}

fn batch(columns: &[(String, DataType)], rows: &[Vec<Value>]) -> RecordBatch {
    let fields: Vec<Field> = columns.iter().map(|(n, t)| Field::new(n, t.clone(), true)).collect();
    let arrays = columns.iter().enumerate().map(|(i, (_, t))| {
        let values: Vec<Value> = rows.iter().map(|r| r[i].clone()).collect();
        array(t, &values)
    });
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect()).unwrap()
}

fn read_value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        _ => array.as_string_view().value(row).to_owned(),
    })
}

/// Live rows of a table with their ids.
fn rows_of(table: &Table) -> Vec<(RowId, Vec<Value>)> {
    let mut rows = Vec::new();
    for (at, segment) in table.segments().unwrap().iter().enumerate() {
        let arrays: Vec<ArrayRef> =
            (0..segment.columns()).map(|c| segment.array(c).unwrap()).collect();
        for row in 0..segment.rows() {
            if segment.deleted().is_none_or(|d| !d.value(row)) {
                let values = arrays.iter().map(|a| read_value(a, row)).collect();
                rows.push((RowId::new(at as u32, row as u32), values));
            }
        }
    }
    rows
}

fn assert_equal(catalog: &swingdb::store::Catalog, model: &Model, what: &str) {
    assert_eq!(
        catalog.table_names("main").unwrap(),
        model.keys().cloned().collect::<Vec<_>>(),
        "{what}"
    );
    for (name, expected) in model {
        let table = catalog.table("main", name).unwrap().unwrap();
        let columns: Vec<_> =
            table.columns().iter().map(|c| (c.name.clone(), c.data_type.clone())).collect();
        assert_eq!(columns, expected.columns, "{what}: {name}");
        assert_eq!(table.row_count(), expected.rows.len() as u64, "{what}: {name}");
        let found: Vec<Vec<Value>> = rows_of(&table).into_iter().map(|(_, v)| v).collect();
        assert!(found == expected.rows, "{what}: {name}: contents differ");
        check_stats(&table);
        check_slices(&table);
    }
}

/// Each column read in parts is the column read whole.
fn check_slices(table: &Table) {
    for segment in table.segments().unwrap().iter() {
        for column in 0..segment.columns() {
            let whole = segment.array(column).unwrap();
            let rows = segment.rows();
            for (from, to) in [(0, rows / 3), (rows / 3, rows - rows / 4), (rows / 2, rows)] {
                let part = segment.slice(column, from..to).unwrap();
                assert_eq!(&part, &whole.slice(from, to - from), "rows {from}..{to} of {rows}");
            }
        }
    }
}

/// Bounds hold for the live rows.
fn check_stats(table: &Table) {
    for (column, def) in table.columns().iter().enumerate() {
        let stats = table.stats(column).unwrap();
        if def.data_type != DataType::Int64 {
            continue;
        }
        let values = rows_of(table).into_iter().filter_map(|(_, v)| v[column].clone());
        let values: Vec<i64> = values.map(|v| v.parse().unwrap()).collect();
        let bound = |s: Option<datafusion::common::ScalarValue>| match s {
            Some(datafusion::common::ScalarValue::Int64(Some(v))) => Some(v),
            None => None,
            other => panic!("{other:?}"),
        };
        let (min, max) = (bound(stats.min), bound(stats.max));
        if let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) {
            assert!(min.is_some_and(|m| m <= *low) && max.is_some_and(|m| m >= *high));
            if stats.exact {
                assert_eq!((min, max), (Some(*low), Some(*high)));
            }
        }
        if stats.sorted && stats.exact {
            assert!(values.is_sorted());
        }
    }
}

fn some_name(rng: &mut Rng, model: &Model) -> Option<String> {
    if model.is_empty() { None } else { model.keys().nth(rng.usize(..model.len())).cloned() }
}

fn new_rows(rng: &mut Rng, columns: &[(String, DataType)], most: usize) -> Vec<Vec<Value>> {
    let count = if rng.u8(..) < 128 { rng.usize(0..4) } else { rng.usize(0..most) };
    (0..count).map(|_| columns.iter().map(|(_, t)| value(rng, t)).collect()).collect()
}

/// One random statement, on the store and on the model.
fn statement(rng: &mut Rng, txn: &mut WriteTxn, model: &mut Model, serial: &mut u32) {
    *serial += 1;
    let Some(name) = some_name(rng, model).filter(|_| rng.u8(..) > 20) else {
        let (name, there) = create(rng, txn, *serial);
        model.insert(name, there);
        return;
    };
    let there = model.get_mut(&name).unwrap();
    match rng.usize(..16) {
        0..=4 => append(rng, txn, &name, there),
        5..=7 => delete(rng, txn, &name, there),
        8..=10 => update(rng, txn, &name, there),
        11..=12 => alter(rng, txn, &name, there, *serial),
        13 => rename(rng, txn, model, &name, *serial),
        14 => {
            if rng.bool() {
                txn.drop_table("main", &name).unwrap();
                model.remove(&name);
            } else {
                txn.truncate_table("main", &name).unwrap();
                there.rows.clear();
            }
        }
        _ => {
            let table = txn.view().table("main", &name).unwrap().unwrap();
            let target = format!("k{serial}");
            let copy = there.clone();
            let store = txn_store(txn);
            assert!(txn.clone_table("main", &target, &table, &store, IfExists::Fail).unwrap());
            model.insert(target, copy);
        }
    }
}

fn create(rng: &mut Rng, txn: &mut WriteTxn, serial: u32) -> (String, ModelTable) {
    let name = format!("t{serial}");
    let count = rng.usize(1..5);
    let columns: Vec<(String, DataType)> =
        (0..count).map(|i| (format!("c{i}"), TYPES[rng.usize(..3)].clone())).collect();
    let defs = columns.iter().map(|(n, t)| ColumnDef {
        name: n.clone(),
        data_type: t.clone(),
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    });
    let def = TableDef {
        schema: "main".into(),
        name: name.clone(),
        columns: defs.collect(),
        constraints: Vec::new(),
    };
    assert!(txn.create_table(def, IfExists::Fail).unwrap());
    (name, ModelTable { columns, rows: Vec::new() })
}

fn append(rng: &mut Rng, txn: &mut WriteTxn, name: &str, there: &mut ModelTable) {
    let most = [500, 3000, 12_000][rng.usize(..3)];
    let rows = new_rows(rng, &there.columns, most);
    let cut = rng.usize(0..=rows.len());
    let batches = [batch(&there.columns, &rows[..cut]), batch(&there.columns, &rows[cut..])];
    assert_eq!(txn.append("main", name, &batches).unwrap(), rows.len() as u64);
    there.rows.extend(rows);
}

fn delete(rng: &mut Rng, txn: &mut WriteTxn, name: &str, there: &mut ModelTable) {
    let table = txn.view().table("main", name).unwrap().unwrap();
    let chance = [3, 30, 128, 255][rng.usize(..4)];
    let picked: Vec<bool> = there.rows.iter().map(|_| rng.u8(..) <= chance).collect();
    let ids = rows_of(&table).into_iter().zip(&picked).filter(|(_, p)| **p);
    let ids = RowIds::new(ids.map(|((id, _), _)| id).collect());
    let deleted = txn.delete_rows("main", name, &ids).unwrap();
    let mut keep = picked.iter().map(|p| !p);
    there.rows.retain(|_| keep.next().unwrap());
    assert_eq!(deleted as usize, picked.iter().filter(|p| **p).count());
}

fn alter(rng: &mut Rng, txn: &mut WriteTxn, name: &str, there: &mut ModelTable, serial: u32) {
    if there.columns.len() > 1 && rng.bool() {
        let at = rng.usize(..there.columns.len());
        let (column, _) = there.columns.remove(at);
        txn.drop_column("main", name, &column).unwrap();
        there.rows.iter_mut().for_each(|r| drop(r.remove(at)));
        return;
    }
    let column = format!("n{serial}");
    let data_type = TYPES[rng.usize(..3)].clone();
    let value = value(rng, &data_type);
    let one = array(&data_type, std::slice::from_ref(&value));
    let def = ColumnDef {
        name: column.clone(),
        data_type: data_type.clone(),
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    };
    txn.add_column("main", name, def, Some(one)).unwrap();
    there.columns.push((column, data_type));
    there.rows.iter_mut().for_each(|r| r.push(value.clone()));
}

fn rename(rng: &mut Rng, txn: &mut WriteTxn, model: &mut Model, name: &str, serial: u32) {
    let new_name = format!("r{serial}");
    if rng.bool() {
        let Some(there) = model.get_mut(name) else { return };
        let at = rng.usize(..there.columns.len());
        let old = std::mem::replace(&mut there.columns[at].0, new_name.clone());
        txn.rename_column("main", name, &old, &new_name).unwrap();
    } else {
        txn.rename_table("main", name, &new_name).unwrap();
        let moved = model.remove(name).unwrap();
        model.insert(new_name, moved);
    }
}

fn txn_store(txn: &WriteTxn) -> Store {
    txn.store().clone()
}

fn update(rng: &mut Rng, txn: &mut WriteTxn, name: &str, there: &mut ModelTable) {
    let table = txn.view().table("main", name).unwrap().unwrap();
    let live = rows_of(&table);
    let chance = [5, 128, 255][rng.usize(..3)];
    let (first, last) = (rng.usize(0..=live.len()), rng.usize(0..=live.len()));
    let picked: BTreeSet<usize> = if rng.bool() && !live.is_empty() {
        // Few rows, which are kept beside their column.
        (0..rng.usize(1..20)).map(|_| rng.usize(..live.len())).collect()
    } else {
        (0..live.len())
            .filter(|i| rng.u8(..) <= chance && (chance != 128 || (first..last).contains(i)))
            .collect()
    };
    let columns: Vec<usize> = (0..there.columns.len()).filter(|_| rng.bool()).collect();
    let types: Vec<(String, DataType)> =
        columns.iter().map(|c| there.columns[*c].clone()).collect();
    let new: Vec<Vec<Value>> =
        picked.iter().map(|_| types.iter().map(|(_, t)| value(rng, t)).collect()).collect();
    let ids = RowIds::new(picked.iter().map(|i| live[*i].0).collect());
    let values = batch_or_none(&types, &new);
    let rows = txn.update_rows("main", name, &ids, &columns, &values).unwrap();
    assert_eq!(rows as usize, picked.len());
    for (row, values) in picked.iter().zip(new) {
        for (column, value) in columns.iter().zip(values) {
            there.rows[*row][*column] = value;
        }
    }
}

fn batch_or_none(columns: &[(String, DataType)], rows: &[Vec<Value>]) -> Vec<RecordBatch> {
    if columns.is_empty() {
        return Vec::new();
    }
    let cut = rows.len() / 2;
    vec![batch(columns, &rows[..cut]), batch(columns, &rows[cut..])]
}

/// Some statements in one transaction, with savepoints; committed or not.
fn transaction(rng: &mut Rng, store: &Store, committed: &mut Model, serial: &mut u32) {
    let mut txn = store.begin().unwrap();
    let mut model = committed.clone();
    let mut savepoints: Vec<(Savepoint, Model)> = Vec::new();
    for _ in 0..rng.usize(1..8) {
        match rng.usize(..8) {
            0 => savepoints.push((txn.savepoint(), model.clone())),
            1 if !savepoints.is_empty() => {
                let at = rng.usize(..savepoints.len());
                savepoints.truncate(at + 1);
                txn.rollback_to(&savepoints[at].0).unwrap();
                model = savepoints[at].1.clone();
            }
            _ => statement(rng, &mut txn, &mut model, serial),
        }
        if rng.u8(..) < 40 {
            assert_equal(&txn.view(), &model, "in the transaction");
        }
    }
    if rng.u8(..) < 200 {
        txn.commit().unwrap();
        *committed = model;
    } else {
        txn.rollback();
    }
    assert_equal(&store.latest(), committed, "after the transaction");
}

fn session(rng: &mut Rng, steps: usize) {
    let home = Home::new();
    let mut store = Store::open(&home.namespace, "model").unwrap();
    let mut model = Model::new();
    let mut serial = 0;
    // States that readers of this process and snapshots still hold.
    let mut held: Vec<(Arc<swingdb::store::Catalog>, Model)> = Vec::new();
    let mut snapshots: Vec<(Store, Model)> = Vec::new();
    for _ in 0..steps {
        match rng.usize(..12) {
            0 => held.push((store.latest(), model.clone())),
            1 => {
                store.share().unwrap();
                let snapshot = Store::hook(&home.namespace, "model").unwrap();
                assert_equal(&snapshot.latest(), &model, "snapshot");
                snapshots.push((snapshot, model.clone()));
            }
            2 if held.is_empty() => {
                let report = store.verify().unwrap();
                // A new one that nothing was committed in has no root yet.
                assert!(report.live_blocks > 0 || store.is_new());
                store.close().unwrap();
                store = Store::open(&home.namespace, "model").unwrap();
                assert_equal(&store.latest(), &model, "reopened");
            }
            3 if !snapshots.is_empty() => {
                let at = rng.usize(..snapshots.len());
                let (snapshot, model) = &mut snapshots[at];
                transaction(rng, snapshot, model, &mut serial);
                snapshot.verify().unwrap();
            }
            4 if !snapshots.is_empty() => {
                clone_from(rng, &store, &mut model, &snapshots, &mut serial)
            }
            5 if !held.is_empty() => {
                let (catalog, model) = held.swap_remove(rng.usize(..held.len()));
                assert_equal(&catalog, &model, "held");
            }
            6 if !snapshots.is_empty() => {
                let (snapshot, model) = snapshots.swap_remove(rng.usize(..snapshots.len()));
                assert_equal(&snapshot.latest(), &model, "old snapshot");
            }
            _ => transaction(rng, &store, &mut model, &mut serial),
        }
        store.verify().unwrap();
    }
    held.clear();
    snapshots.clear();
    let report = store.verify().unwrap();
    assert_eq!(report.limbo_blocks, 0, "nothing is pinned any more: {report:?}");
}

fn clone_from(
    rng: &mut Rng,
    store: &Store,
    model: &mut Model,
    snapshots: &[(Store, Model)],
    serial: &mut u32,
) {
    let (source, there) = &snapshots[rng.usize(..snapshots.len())];
    let Some(name) = some_name(rng, there) else { return };
    *serial += 1;
    let target = format!("f{serial}");
    let table = source.latest().table("main", &name).unwrap().unwrap();
    let mut txn = store.begin().unwrap();
    txn.clone_table("main", &target, &table, source, IfExists::Fail).unwrap();
    if rng.u8(..) < 200 {
        txn.commit().unwrap();
        model.insert(target, there[&name].clone());
    }
    assert_equal(&store.latest(), model, "cloned from elsewhere");
}

#[test]
fn random_transactions_agree_with_the_model() {
    let mut rng = seeded("random_transactions_agree_with_the_model");
    let rounds = std::env::var("SWINGDB_TEST_ROUNDS").ok().and_then(|r| r.parse().ok());
    for _ in 0..rounds.unwrap_or(12) {
        session(&mut rng, 40);
    }
}
