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

/// Batches of the rows 0 to `rows`: a number, and a text of it.
fn numbered(rows: i32, size: i32) -> Vec<RecordBatch> {
    let cut = (0..rows).step_by(size as usize).map(|from| {
        let numbers: Vec<i32> = (from..rows.min(from + size)).collect();
        let texts: Vec<String> = numbers.iter().map(i32::to_string).collect();
        batch(&[
            ("a", Arc::new(Int32Array::from(numbers))),
            ("s", Arc::new(StringArray::from(texts))),
        ])
    });
    cut.collect()
}

/// The most threads of this process that worked for statements while `run` did.
fn most_workers(run: impl FnOnce()) -> usize {
    use std::sync::atomic::{AtomicBool, Ordering};
    let count = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        tasks.filter_map(name).filter(|name| name.trim_end() == "swingdb-work").count()
    };
    // Threads of a statement before may have done their work and still be there.
    while count() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !ended.load(Ordering::SeqCst) {
                most = most.max(count());
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            most
        });
        run();
        ended.store(true, Ordering::SeqCst);
        watcher.join().unwrap()
    })
}

/// Statements that write many rows are of several threads, of which one is the caller's. Run in a
/// process of its own, where no other test works.
#[test]
fn the_setting_says_how_many_threads_write() {
    const ALONE: &str = "SWINGDB_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let test = test.args(["--exact", "append::the_setting_says_how_many_threads_write"]);
        let output = test.env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let db =
        Db::with("CREATE TABLE src AS SELECT value AS a FROM generate_series(1, 2000000) g(value)");
    db.run("CREATE TABLE t (a BIGINT)");
    let statements = [
        "CREATE OR REPLACE TABLE u AS SELECT a, a + 1 AS b FROM src",
        "INSERT INTO t SELECT a FROM src",
        "ALTER TABLE t ALTER COLUMN a TYPE VARCHAR",
        "CREATE OR REPLACE TABLE few AS SELECT a FROM src LIMIT 1000",
    ];
    for (threads, expected) in [(5, [4, 4, 4, 0]), (1, [0; 4])] {
        db.run(&format!("SET threads = {threads}"));
        let found = statements.map(|sql| {
            most_workers(|| {
                db.run(sql);
            })
        });
        assert_eq!(found, expected, "{threads} threads");
        db.run("CREATE OR REPLACE TABLE t (a BIGINT)");
    }
    db.run("SET threads = 4");
    let rows = numbered(1_500_000, 100_000);
    db.run("CREATE TABLE arrow (a BIGINT, s VARCHAR)");
    let append = || {
        db.con.append("arrow", reader(rows.clone())).unwrap();
    };
    assert_eq!(most_workers(append), 3);
}

#[test]
fn many_rows_keep_their_order() {
    let db = Db::with(
        "SET threads = 4; CREATE SEQUENCE next; CREATE TABLE t (s VARCHAR, a BIGINT, \
         n BIGINT DEFAULT nextval('next'), always INT DEFAULT 7)",
    );
    db.con.append("t", reader(numbered(600_000, 70_001))).unwrap();
    let wrong = "SELECT count(*) FROM (SELECT a, n, s, always, row_number() OVER () AS r FROM t)
                 WHERE a <> r - 1 OR n <> r OR s <> a::VARCHAR OR always <> 7";
    assert_eq!(db.rows("SELECT count(*) FROM t"), ["600000"]);
    // A scan by one thread is in the order of the table.
    db.run("SET threads = 1");
    db.check(wrong, &["0"]);
    db.run("SET threads = 4");
    db.run("CREATE TABLE down AS SELECT a FROM t ORDER BY a DESC");
    db.run("SET threads = 1");
    db.check(
        "SELECT count(*) FROM (SELECT a, row_number() OVER () AS r FROM down)
         WHERE a <> 600000 - r",
        &["0"],
    );
}

#[test]
fn an_error_in_the_last_rows_leaves_nothing() {
    let db = Db::with("SET threads = 4; CREATE TABLE t (a INT, s VARCHAR)");
    db.run(
        "CREATE TABLE src AS SELECT CASE WHEN value = 600000 THEN 'x' ELSE value::VARCHAR END AS a
         FROM generate_series(1, 600000) g(value)",
    );
    db.fails("INSERT INTO t (a) SELECT a FROM src ORDER BY length(a) DESC, a", &["'x'", "600000"]);
    db.fails("INSERT INTO t (a) SELECT a::INT FROM src", &["'x'"]);
    db.fails("CREATE TABLE u AS SELECT a::INT AS a FROM src", &["'x'"]);
    assert!(matches!(db.con.query("TABLE u"), Err(Error::NotFound { .. })));
    db.check("SELECT count(*) FROM t", &["0"]);
    // What is already in the transaction stays.
    db.run("BEGIN; INSERT INTO t VALUES (1, 'one')");
    db.fails("INSERT INTO t (a) SELECT a FROM src", &["'x'"]);
    db.run("COMMIT");
    db.check("SELECT a FROM t", &["1"]);
    // Batches of a program: the last one is of no use.
    let mut rows = numbered(600_000, 100_000);
    rows.push(batch(&[
        ("a", Arc::new(Int32Array::from(vec![1]))),
        ("s", Arc::new(StringArray::from(vec!["x"]))),
    ]));
    db.run("CREATE TABLE short (a TINYINT, s VARCHAR)");
    assert!(db.con.append("short", reader(rows)).is_err());
    db.check("SELECT count(*) FROM short", &["0"]);
}
