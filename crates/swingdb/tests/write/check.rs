//! CHECK constraints: every way into a table passes them.

use std::sync::Arc;

use swingdb::arrow::array::{ArrayRef, Int32Array, RecordBatch, RecordBatchIterator};
use swingdb::{ConstraintKind, Database, Error, Value};

use super::support::Db;

const STOCK: &str = "CREATE TABLE stock (
    id INT PRIMARY KEY, pieces INT CHECK (pieces >= 0), least INT DEFAULT 0,
    CONSTRAINT enough CHECK (least <= pieces))";

fn batch(pieces: &[Option<i32>]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(100..100 + pieces.len() as i32));
    let pieces: ArrayRef = Arc::new(Int32Array::from(pieces.to_vec()));
    RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("pieces", pieces, true)]).unwrap()
}

#[test]
fn a_violation_names_rule_and_values() {
    let db = Db::with(STOCK);
    match db.error("INSERT INTO stock VALUES (1, 5, 0), (2, 3, 4)") {
        Error::Constraint { table, kind, columns, detail } => {
            assert_eq!((table.as_str(), kind), ("stock", ConstraintKind::Check));
            assert_eq!(columns, ["pieces", "least"]);
            assert_eq!(
                detail,
                "\"enough\": least <= pieces does not hold for pieces = 3, least = 4"
            );
        }
        other => panic!("{other}"),
    }
    db.check("SELECT count(*) FROM stock", &["0"]);
    // What is unknown is not false.
    db.run("INSERT INTO stock VALUES (1, NULL, 7)");
}

#[test]
fn every_statement_that_writes_passes() {
    let db = Db::with(STOCK);
    db.run("INSERT INTO stock VALUES (1, 10, 2), (2, 20, 0)");
    let check = ["CHECK constraint"];
    for sql in [
        "INSERT INTO stock SELECT range + 10, -range, 0 FROM range(100000)",
        "INSERT INTO stock VALUES (1, -1, 0) ON CONFLICT (id) DO UPDATE \
         SET pieces = excluded.pieces",
        "INSERT INTO stock VALUES (3, -1, 0) ON CONFLICT DO NOTHING",
        "INSERT OR REPLACE INTO stock VALUES (1, -1, 0)",
        "UPDATE stock SET pieces = 1 WHERE id = 1",
        "UPDATE stock SET least = 30",
        "UPDATE stock SET pieces = pieces - 15",
        "MERGE INTO stock USING (SELECT 2 AS id) s ON stock.id = s.id \
         WHEN MATCHED THEN UPDATE SET pieces = -5",
        "MERGE INTO stock USING (SELECT 9 AS id) s ON stock.id = s.id \
         WHEN NOT MATCHED THEN INSERT VALUES (9, -5, 0)",
    ] {
        db.fails(sql, &check);
        db.check("SELECT * FROM stock ORDER BY id", &["1|10|2", "2|20|0"]);
    }
    db.run("UPDATE stock SET pieces = 2, least = 2 WHERE id = 1");
    db.run("UPDATE stock SET id = id + 1");
    db.check("SELECT * FROM stock ORDER BY id", &["2|2|2", "3|20|0"]);
}

#[test]
fn appends_of_programs_pass() {
    let db = Db::with(STOCK);
    let rows = batch(&[Some(1), Some(-1)]);
    let reader = RecordBatchIterator::new([Ok(rows.clone())], rows.schema());
    assert!(matches!(db.con.append("stock", reader), Err(Error::Constraint { .. })));
    let mut appender = db.con.appender("stock").unwrap();
    let row = |pieces: i32| [Value::from(1), Value::from(pieces), Value::from(0)];
    let outcome = appender.append_row(&row(-1)).and_then(|()| appender.flush());
    assert!(matches!(outcome, Err(Error::Constraint { .. })), "{outcome:?}");
    let good = batch(&[Some(1), None]);
    let reader = RecordBatchIterator::new([Ok(good.clone())], good.schema());
    assert_eq!(db.con.append("stock", reader).unwrap(), 2);
}

#[test]
fn imports_pass() {
    let db = Db::with(STOCK);
    let file = db.home.path().join("stock.csv");
    std::fs::write(&file, "id,pieces,least\n1,5,0\n2,-3,0\n").unwrap();
    db.fails(&format!("COPY stock FROM '{}'", file.display()), &["pieces >= 0", "pieces = -3"]);
    db.check("SELECT count(*) FROM stock", &["0"]);
}

#[test]
fn conditions_are_refused_when_they_could_change() {
    let db = Db::new();
    for (check, why) in [
        ("a > (SELECT 1)", "subqueries"),
        ("a IN (SELECT 1)", "subqueries"),
        ("sum(a) > 0", "only an expression"),
        ("a > random()", "random"),
        ("now() > TIMESTAMP '2024-01-01'", "now"),
        ("a + 1", "BIGINT"),
        ("b > 0", "\"b\" does not exist"),
        ("a > $1", "parameter"),
    ] {
        db.fails(&format!("CREATE TABLE t (a BIGINT, CHECK ({check}))"), &[why]);
    }
    db.check("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'main'", &["0"]);
}

#[test]
fn functions_and_nested_types() {
    let db = Db::with(
        "CREATE TABLE t (
            \"The Name\" VARCHAR
                CHECK (length(\"The Name\") BETWEEN 1 AND 5 AND t.\"The Name\" <> 'x'),
            at TIMESTAMP CHECK (year(at) >= 2000), p STRUCT(x DOUBLE) CHECK (p['x'] < 1.0),
            CHECK (1 < 2))",
    );
    let at = "TIMESTAMP '2024-01-01'";
    db.run(&format!("INSERT INTO t VALUES ('abc', {at}, named_struct('x', 0.5))"));
    db.fails(&format!("INSERT INTO t VALUES ('', {at}, NULL)"), &["length"]);
    db.fails("INSERT INTO t VALUES ('a', '1999-12-31', NULL)", &["CHECK"]);
    db.fails(&format!("INSERT INTO t VALUES ('a', {at}, named_struct('x', 1.5))"), &["CHECK"]);
}

#[test]
fn overflow_in_a_condition_is_an_error() {
    let db = Db::with("CREATE TABLE t (a BIGINT CHECK (a * 2 > 0))");
    db.fails("INSERT INTO t VALUES (9223372036854775807)", &["overflow"]);
}

#[test]
fn tables_change_with_their_checks() {
    let db = Db::with(STOCK);
    db.run("INSERT INTO stock VALUES (1, 10, 2)");
    db.run("ALTER TABLE stock ADD COLUMN note VARCHAR");
    db.run("ALTER TABLE stock RENAME COLUMN pieces TO \"Pieces left\"");
    db.run("ALTER TABLE stock RENAME TO store");
    db.fails("UPDATE store SET \"Pieces left\" = 1", &["store", "\"Pieces left\""]);
    db.fails("ALTER TABLE store DROP COLUMN least", &["CHECK"]);
    db.run("ALTER TABLE store DROP COLUMN note");
    db.fails(
        "ALTER TABLE store ADD CONSTRAINT many CHECK (\"Pieces left\" > 10)",
        &["store", "= 10"],
    );
    db.run("ALTER TABLE store ADD CONSTRAINT many CHECK (\"Pieces left\" > 5)");
    db.fails("ALTER TABLE store ADD CONSTRAINT many CHECK (id > 0)", &["exists"]);
    db.run("ALTER TABLE store ALTER COLUMN \"Pieces left\" TYPE BIGINT");
    db.fails("UPDATE store SET \"Pieces left\" = 5", &["many"]);
    db.run("ALTER TABLE store DROP CONSTRAINT many");
    db.fails("ALTER TABLE store DROP CONSTRAINT many", &["constraint", "does not exist"]);
    db.run("ALTER TABLE store DROP CONSTRAINT IF EXISTS many");
    db.run("UPDATE store SET \"Pieces left\" = 5");
    db.fails("ALTER TABLE store ALTER COLUMN least TYPE VARCHAR USING 'x'", &[]);
}

#[test]
fn copies_of_tables_keep_their_checks() {
    let db = Db::with(STOCK);
    db.run("INSERT INTO stock VALUES (1, 10, 2)");
    db.run("CREATE TABLE twin LIKE stock; CREATE TABLE clone CLONE stock");
    for table in ["twin", "clone"] {
        db.fails(&format!("INSERT INTO {table} VALUES (2, -1, -1)"), &[table, "pieces >= 0"]);
    }
    db.run("CREATE TABLE free AS SELECT * FROM stock; INSERT INTO free VALUES (2, -1, 0)");
}

#[test]
fn checks_are_stored_shared_and_undone() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let stored = Database::open_in(home.path(), "stock").unwrap();
    let con = stored.connect();
    con.query("CREATE TABLE plain (a INT)").unwrap();
    con.query("BEGIN; ALTER TABLE plain ADD CHECK (a > 0); ROLLBACK").unwrap();
    con.query("INSERT INTO plain VALUES (-1)").unwrap();
    con.query(STOCK).unwrap();
    stored.share().unwrap();
    drop((con, stored));
    let again = Database::open_in(home.path(), "stock").unwrap();
    let snapshot = Database::snapshot_in(home.path(), "stock").unwrap();
    for database in [&again, &snapshot] {
        let outcome = database.connect().query("INSERT INTO stock VALUES (1, -1, -1)");
        assert!(matches!(outcome, Err(Error::Constraint { .. })));
        database.connect().query("INSERT INTO stock VALUES (1, 1, 1)").unwrap();
    }
}

#[test]
fn a_condition_that_is_always_null_passes() {
    let db = Db::with("CREATE TABLE t (a INT CHECK (NULL), b INT CHECK (b > NULL))");
    db.run("INSERT INTO t VALUES (1, 2)");
    db.run("UPDATE t SET a = 5");
    db.check("SELECT * FROM t", &["5|2"]);
}

#[test]
fn every_nan_is_the_greatest() {
    let db = Db::with("CREATE TABLE t (a DOUBLE CHECK (a < 100), b DOUBLE CHECK (b + 1 < 100))");
    let nan = "0.0::DOUBLE * CAST('inf' AS DOUBLE)";
    for nan in [nan, &format!("-({nan})"), "CAST('NaN' AS DOUBLE)"] {
        db.fails(&format!("INSERT INTO t SELECT {nan}, 1"), &["CHECK constraint", "a < 100"]);
        db.fails(&format!("INSERT INTO t SELECT 1, {nan}"), &["CHECK constraint", "b + 1 < 100"]);
    }
    db.run("INSERT INTO t VALUES (-1e300, 98.5)");
}
