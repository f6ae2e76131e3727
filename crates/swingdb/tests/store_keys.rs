//! NOT NULL, PRIMARY KEY, UNIQUE: fast path and hash index, updates, deletes, rollbacks; a random
//! comparison with a set.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use common::{Home, seeded};
use swingdb::Error;
use swingdb::error::ConstraintKind;
use swingdb::store::{ColumnDef, Constraint, IfExists, RowId, RowIds, Store, TableDef, WriteTxn};

fn column(name: &str, data_type: DataType) -> ColumnDef {
    ColumnDef {
        name: name.into(),
        data_type,
        nullable: true,
        is_uuid: false,
        enumeration: None,
        default_sql: None,
    }
}

fn keyed(store: &Store, constraints: Vec<Constraint>) {
    let mut txn = store.begin().unwrap();
    let columns = vec![column("k", DataType::Int64), column("s", DataType::Utf8)];
    let (schema, name) = ("main".to_owned(), "t".to_owned());
    let def = TableDef { schema, name, columns, constraints };
    txn.create_table(def, IfExists::Fail).unwrap();
    txn.commit().unwrap();
}

fn rows(keys: &[Option<i64>], texts: &[Option<&str>]) -> RecordBatch {
    let fields =
        vec![Field::new("k", DataType::Int64, true), Field::new("s", DataType::Utf8, true)];
    let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![keys, texts]).unwrap()
}

fn numbers(keys: impl IntoIterator<Item = i64>) -> RecordBatch {
    let keys: Vec<Option<i64>> = keys.into_iter().map(Some).collect();
    let texts = vec![Some("x"); keys.len()];
    rows(&keys, &texts)
}

fn append(store: &Store, batch: RecordBatch) -> Result<u64, Error> {
    let mut txn = store.begin()?;
    let rows = txn.append("main", "t", &[batch])?;
    txn.commit()?;
    Ok(rows)
}

fn assert_violation<T>(result: Result<T, Error>, kind: ConstraintKind, detail: &str) {
    match result.err() {
        Some(Error::Constraint { kind: found, detail: text, table, .. }) => {
            assert_eq!((found, table.as_str()), (kind, "t"));
            assert!(text.contains(detail), "{text}");
        }
        other => panic!("expected a violation, got {other:?}"),
    }
}

#[test]
fn a_primary_key_is_unique_and_not_null() {
    let home = Home::new();
    let store = Store::open(&home.namespace, "keys").unwrap();
    keyed(&store, vec![Constraint::Primary(vec![0])]);
    append(&store, numbers(0..1000)).unwrap();
    append(&store, numbers(1000..2000)).unwrap();
    assert_violation(append(&store, numbers([77])), ConstraintKind::PrimaryKey, "(77)");
    assert_violation(append(&store, numbers([9000, 9000])), ConstraintKind::PrimaryKey, "(9000)");
    assert_violation(append(&store, rows(&[None], &[Some("x")])), ConstraintKind::NotNull, "NULL");
    // The failed ones left nothing behind.
    append(&store, numbers([9000])).unwrap();
    assert_eq!(store.latest().table("main", "t").unwrap().unwrap().row_count(), 2001);
    store.verify().unwrap();
}

#[test]
fn deleted_and_updated_keys_are_free_again() {
    let home = Home::new();
    let store = Store::open(&home.namespace, "keys").unwrap();
    keyed(&store, vec![Constraint::Unique(vec![0, 1])]);
    append(&store, rows(&[Some(1), Some(1), None, None], &[Some("a"), Some("b"), None, None]))
        .unwrap();
    let again = || rows(&[Some(1)], &[Some("a")]);
    assert_violation(append(&store, again()), ConstraintKind::Unique, "(1, 'a')");
    let mut txn = store.begin().unwrap();
    txn.delete_rows("main", "t", &RowIds::new(vec![RowId::new(0, 0)])).unwrap();
    txn.append("main", "t", &[again()]).unwrap();
    txn.rollback();
    assert_violation(append(&store, again()), ConstraintKind::Unique, "(1, 'a')");
    // Swapping keys inside one update is fine; making two equal is not.
    let mut txn = store.begin().unwrap();
    let both = RowIds::new(vec![RowId::new(0, 0), RowId::new(0, 1)]);
    let swap = rows(&[None, None], &[Some("b"), Some("a")]).project(&[1]).unwrap();
    txn.update_rows("main", "t", &both, &[1], &[swap]).unwrap();
    let same = rows(&[None, None], &[Some("b"), Some("b")]).project(&[1]).unwrap();
    let result = txn.update_rows("main", "t", &both, &[1], &[same]);
    assert_violation(result, ConstraintKind::Unique, "(1, 'b')");
    txn.commit().unwrap();
    store.verify().unwrap();
}

#[test]
fn keys_are_found() {
    let home = Home::new();
    let store = Store::open(&home.namespace, "keys").unwrap();
    keyed(&store, vec![Constraint::Primary(vec![0])]);
    append(&store, numbers((0..5000).rev())).unwrap();
    let mut txn = store.begin().unwrap();
    let wanted = numbers([3, 99_999, 4999]).project(&[0]).unwrap();
    let found = txn.find_keys("main", "t", 0, &[wanted]).unwrap();
    assert_eq!(found, [Some(RowId::new(0, 4996)), None, Some(RowId::new(0, 0))]);
}

#[test]
fn not_null_is_checked_against_live_rows_only() {
    let home = Home::new();
    let store = Store::open(&home.namespace, "keys").unwrap();
    keyed(&store, Vec::new());
    append(&store, rows(&[Some(1), None], &[Some("a"), Some("b")])).unwrap();
    let mut txn = store.begin().unwrap();
    let result = txn.alter_column("main", "t", "k", None, Some(false));
    assert_violation(result, ConstraintKind::NotNull, "NULL");
    txn.delete_rows("main", "t", &RowIds::new(vec![RowId::new(0, 1)])).unwrap();
    txn.alter_column("main", "t", "k", None, Some(false)).unwrap();
    txn.commit().unwrap();
    let table = store.latest().table("main", "t").unwrap().unwrap();
    let segments = table.segments().unwrap();
    assert_eq!(segments[0].batch(0..segments[0].rows(), None).unwrap().num_rows(), 1);
    let mut txn = store.begin().unwrap();
    txn.delete_rows("main", "t", &RowIds::new(vec![RowId::new(0, 0)])).unwrap();
    let def = ColumnDef { nullable: false, ..column("n", DataType::Int64) };
    txn.add_column("main", "t", def, None).unwrap();
    txn.commit().unwrap();
    store.verify().unwrap();
}

fn live(store: &Store) -> BTreeMap<i64, RowId> {
    let table = store.latest().table("main", "t").unwrap().unwrap();
    let mut all = BTreeMap::new();
    for (at, segment) in table.segments().unwrap().iter().enumerate() {
        let keys = segment.array(0).unwrap();
        let keys = keys.as_any().downcast_ref::<Int64Array>().unwrap();
        for row in 0..segment.rows() {
            if segment.deleted().is_none_or(|d| !d.value(row)) {
                let id = RowId::new(at as u32, row as u32);
                assert!(all.insert(keys.value(row), id).is_none(), "a duplicate got in");
            }
        }
    }
    all
}

#[test]
fn random_changes_agree_with_a_set() {
    let mut rng = seeded("random_changes_agree_with_a_set");
    let home = Home::new();
    let mut store = Store::open(&home.namespace, "keys").unwrap();
    keyed(&store, vec![Constraint::Primary(vec![0])]);
    for step in 0..400 {
        let before = live(&store);
        let change = |txn: &mut WriteTxn, rng: &mut fastrand::Rng| -> (Result<u64, Error>, bool) {
            let some = |rng: &mut fastrand::Rng| -> Vec<(i64, RowId)> {
                before.iter().filter(|_| rng.u8(..) < 10).map(|(k, r)| (*k, *r)).collect()
            };
            match rng.usize(..3) {
                0 => {
                    let new: Vec<i64> = (0..rng.usize(1..20)).map(|_| rng.i64(0..5000)).collect();
                    let mut sorted = new.clone();
                    sorted.sort_unstable();
                    sorted.dedup();
                    let fits =
                        sorted.len() == new.len() && new.iter().all(|k| !before.contains_key(k));
                    (txn.append("main", "t", &[numbers(new)]), fits)
                }
                1 => {
                    let ids = some(rng).into_iter().map(|(_, id)| id).collect();
                    (txn.delete_rows("main", "t", &RowIds::new(ids)), true)
                }
                _ => {
                    let mut rows = some(rng);
                    rows.sort_unstable_by_key(|(_, id)| *id);
                    let shift = rng.i64(0..3);
                    let new: Vec<i64> = rows.iter().map(|(k, _)| k + shift).collect();
                    let fits = new
                        .iter()
                        .all(|k| !before.contains_key(k) || rows.iter().any(|(old, _)| old == k));
                    let ids = RowIds::new(rows.iter().map(|(_, id)| *id).collect());
                    let values = numbers(new).project(&[0]).unwrap();
                    (txn.update_rows("main", "t", &ids, &[0], &[values]), fits)
                }
            }
        };
        let mut txn = store.begin().unwrap();
        let (result, fits) = change(&mut txn, &mut rng);
        assert_eq!(result.is_ok(), fits, "step {step}: {result:?}");
        if rng.u8(..) < 200 {
            txn.commit().unwrap();
        } else {
            txn.rollback();
        }
        live(&store);
        if rng.u8(..) < 5 {
            store.close().unwrap();
            store = Store::open(&home.namespace, "keys").unwrap();
        }
    }
    store.verify().unwrap();
}
