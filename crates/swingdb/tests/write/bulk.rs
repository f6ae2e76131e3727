//! Appends of rows that several threads make.

use std::sync::Arc;

use swingdb::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use swingdb::{BulkAppend, Error};

use crate::support::Db;

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter(columns.iter().map(|(name, array)| (*name, Arc::clone(array))))
        .unwrap()
}

fn numbers(first: i32, count: i32) -> RecordBatch {
    batch(&[("n", Arc::new(Int32Array::from_iter_values(first..first + count)))])
}

fn of_numbers() -> BulkAppend {
    BulkAppend::new("t", numbers(0, 0).schema())
}

#[test]
fn pieces_come_in_their_order_whoever_is_ready_first() {
    let db = Db::with("SET threads = 4");
    let append = of_numbers().primary_key(&["n"]).expected_rows(200_000);
    let rows = db.con.bulk_append(&append, 50, |piece, part| {
        std::thread::sleep(std::time::Duration::from_millis(7 * (piece % 3)));
        let first = piece as i32 * 4000;
        part.append(numbers(first, 1000))?;
        part.append(numbers(first + 1000, 3000))
    });
    assert_eq!(rows.unwrap(), 200_000);
    let scan = db.con.table("t").unwrap();
    let all = scan.flat_map(|batch| {
        let batch = batch.unwrap();
        let column = batch.column(0).as_any().downcast_ref::<Int32Array>().unwrap();
        column.values().to_vec()
    });
    assert!(all.eq(0..200_000));
    assert!(matches!(db.error("INSERT INTO t VALUES (7)"), Error::Constraint { .. }));
}

#[test]
fn an_error_in_one_piece_undoes_all() {
    let db = Db::with("CREATE TABLE t (n BIGINT CHECK (n <> 30))");
    let append = of_numbers();
    let error =
        db.con.bulk_append(&append, 5, |piece, part| part.append(numbers(piece as i32 * 10, 10)));
    assert!(matches!(error.unwrap_err(), Error::Constraint { .. }));
    let error = db.con.bulk_append(&append, 3, |piece, part| match piece {
        2 => Err(Error::plan("no third piece")),
        _ => part.append(numbers(0, 5)),
    });
    assert!(error.unwrap_err().to_string().contains("no third piece"));
    db.check("SELECT count(*) FROM t", &["0"]);
    assert_eq!(db.con.bulk_append(&append, 3, |_, part| part.append(numbers(0, 5))).unwrap(), 15);
    db.check("SELECT count(*), sum(n) FROM t", &["15|30"]);
}

#[test]
fn values_become_what_the_table_has() {
    let db = Db::with("CREATE TEMP TABLE t (a BIGINT NOT NULL, u UUID)");
    let text = "6F9619FF-8B86-D011-B42D-00C04FC964FF";
    let rows = batch(&[
        ("x", Arc::new(Int32Array::from(vec![1, 2]))),
        ("y", Arc::new(StringArray::from(vec![Some(text), None]))),
    ]);
    let append = BulkAppend::new("t", rows.schema());
    assert_eq!(db.con.bulk_append(&append, 1, |_, part| part.append(rows.clone())).unwrap(), 2);
    db.check("SELECT * FROM t", &[&format!("1|{}", text.to_lowercase()), "2|NULL"]);

    let add = |rows: RecordBatch| {
        let append = BulkAppend::new("t", rows.schema());
        db.con.bulk_append(&append, 1, |_, part| part.append(rows.clone())).unwrap_err()
    };
    let error = add(numbers(0, 1)).to_string();
    assert!(error.contains("rows of 1 columns for a table of 2"), "{error}");
    let no_uuid: ArrayRef = Arc::new(StringArray::from(vec!["no uuid"]));
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let none: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    let good: ArrayRef = Arc::new(StringArray::from(vec![text]));
    assert!(matches!(add(batch(&[("a", one), ("u", no_uuid)])), Error::Conversion { .. }));
    assert!(matches!(add(batch(&[("a", none), ("u", good)])), Error::Constraint { .. }));
    let error = db.con.bulk_append(&append, 1, |_, part| part.append(numbers(0, 1)));
    assert!(error.unwrap_err().to_string().contains("rows of 1 columns"));
    db.check("SELECT count(*) FROM t", &["2"]);
}
