//! The appender, and bulk appends of Arrow batches.

use std::sync::Arc;

use swingdb::arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use swingdb::arrow::error::ArrowError;
use swingdb::{Error, Value};

use crate::support::Db;

type Batches = std::vec::IntoIter<Result<RecordBatch, ArrowError>>;

fn reader(batches: Vec<RecordBatch>) -> RecordBatchIterator<Batches> {
    let schema = batches[0].schema();
    let batches: Vec<_> = batches.into_iter().map(Ok).collect();
    RecordBatchIterator::new(batches.into_iter(), schema)
}

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter(columns.iter().map(|(name, array)| (*name, Arc::clone(array))))
        .unwrap()
}

#[test]
fn rows_one_by_one() {
    let db =
        Db::with("CREATE TABLE t (a INT NOT NULL, b VARCHAR, c DOUBLE, d DATE, e DECIMAL(9, 2))");
    let mut appender = db.con.appender("t").unwrap();
    appender
        .append_row(&[1.into(), "x".into(), 1.5.into(), Value::Date32(19_000), 2.into()])
        .unwrap();
    appender
        .append_row(&["2".into(), 7.into(), 3.into(), "2024-01-01".into(), "3.456".into()])
        .unwrap();
    appender.append_row(&[3.into(), Value::Null, Value::Null, Value::Null, Value::Null]).unwrap();
    db.check("SELECT count(*) FROM t", &["0"]);
    assert_eq!(appender.buffered(), 3);
    assert_eq!(appender.flush().unwrap(), 3);
    appender.append_row(&[4.into(), "y".into(), Value::Null, Value::Null, Value::Null]).unwrap();
    assert_eq!(appender.finish().unwrap(), 4);
    db.check(
        "SELECT * FROM t ORDER BY a",
        &[
            "1|x|1.5|2022-01-08|2.00",
            "2|7|3.0|2024-01-01|3.46",
            "3|NULL|NULL|NULL|NULL",
            "4|y|NULL|NULL|NULL",
        ],
    );
}

#[test]
fn a_bad_row_is_named_and_left_out() {
    let db = Db::with("CREATE TABLE t (s VARCHAR, a TINYINT NOT NULL, b INT)");
    let mut appender = db.con.appender("t").unwrap();
    appender.append_row(&["one".into(), 1.into(), 1.into()]).unwrap();
    let error = appender.append_row(&["two".into(), 2.into(), "x".into()]).unwrap_err();
    assert!(matches!(error, Error::Conversion { .. }), "{error:?}");
    assert_eq!(error.to_string(), "column \"b\": row 2: 'x' is no valid INTEGER");
    let error = appender.append_row(&["three".into(), 300.into(), 1.into()]).unwrap_err();
    assert!(error.to_string().contains("300 does not fit TINYINT"), "{error}");
    let error = appender.append_row(&["four".into(), Value::Null, 1.into()]).unwrap_err();
    assert!(matches!(error, Error::Constraint { .. }), "{error:?}");
    assert!(appender.append_row(&[1.into()]).is_err());
    appender.append_row(&["five".into(), 5.into(), Value::Null]).unwrap();
    assert_eq!(appender.finish().unwrap(), 2);
    db.check("SELECT * FROM t ORDER BY a", &["one|1|1", "five|5|NULL"]);
}

#[test]
fn a_dropped_appender_writes_nothing_more() {
    let db = Db::with("CREATE TABLE t (a INT)");
    let mut appender = db.con.appender("t").unwrap();
    appender.append_row(&[1.into()]).unwrap();
    appender.flush().unwrap();
    appender.append_row(&[2.into()]).unwrap();
    drop(appender);
    db.check("SELECT a FROM t", &["1"]);
}

#[test]
fn full_segments_are_flushed_by_themselves() {
    let db = Db::with("CREATE TABLE t (a BIGINT, b VARCHAR)");
    let mut appender = db.con.appender("t").unwrap();
    for n in 0..300_000_i64 {
        appender.append_row(&[n.into(), "text".into()]).unwrap();
    }
    db.check("SELECT count(*) FROM t", &["262144"]);
    assert_eq!(appender.finish().unwrap(), 300_000);
    db.check("SELECT count(*), sum(a), count(b) FROM t", &["300000|44999850000|300000"]);
}

#[test]
fn flushes_belong_to_the_open_transaction() {
    let db = Db::with("CREATE TABLE t (a INT PRIMARY KEY)");
    db.run("BEGIN");
    let mut appender = db.con.appender("t").unwrap();
    appender.append_row(&[1.into()]).unwrap();
    appender.flush().unwrap();
    appender.append_row(&[1.into()]).unwrap();
    let error = appender.flush().unwrap_err();
    assert!(matches!(error, Error::Constraint { .. }), "{error:?}");
    db.check("SELECT count(*) FROM t", &["1"]);
    db.run("ROLLBACK");
    db.check("SELECT count(*) FROM t", &["0"]);
}

#[test]
fn batches_by_name_and_by_position() {
    let db = Db::with("CREATE TABLE t (a INT, b VARCHAR, c DOUBLE DEFAULT 9)");
    let b: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let a: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let named = batch(&[("B", Arc::clone(&b)), ("a", Arc::clone(&a))]);
    assert_eq!(db.con.append("t", reader(vec![named.clone(), named])).unwrap(), 4);
    let c: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5]));
    let placed = batch(&[("0", a), ("1", b), ("2", c)]);
    assert_eq!(db.con.append("main.t", reader(vec![placed])).unwrap(), 2);
    db.check(
        "SELECT * FROM t ORDER BY c, a",
        &["1|x|0.5", "2|NULL|1.5", "1|x|9.0", "1|x|9.0", "2|NULL|9.0", "2|NULL|9.0"],
    );
}

#[test]
fn a_batch_that_does_not_fit_adds_nothing() {
    let db = Db::with("CREATE TABLE t (a TINYINT)");
    let good = batch(&[("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)]);
    let bad = batch(&[("a", Arc::new(Int32Array::from(vec![3, 400])) as ArrayRef)]);
    let error = db.con.append("t", reader(vec![good, bad])).unwrap_err();
    assert_eq!(error.to_string(), "column \"a\": row 4: 400 does not fit TINYINT");
    let two = batch(&[
        ("x", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("y", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
    ]);
    assert!(db.con.append("t", reader(vec![two])).is_err());
    let failing = vec![Err(ArrowError::ComputeError("broken".into()))];
    let schema = batch(&[("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).schema();
    assert!(db.con.append("t", RecordBatchIterator::new(failing, schema)).is_err());
    db.check("SELECT count(*) FROM t", &["0"]);
}
