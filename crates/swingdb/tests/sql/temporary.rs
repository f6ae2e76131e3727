//! Temporary tables: of one session, read and changed like others, never shared.

use swingdb::Database;

use super::common::{fixture, rows};

#[test]
fn tables_of_one_session() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS id FROM range(5)");
    f.run("CREATE TEMP TABLE picked AS SELECT id FROM t WHERE id > 2");
    f.run("CREATE TEMPORARY TABLE notes (id INT PRIMARY KEY, note VARCHAR DEFAULT 'none')");
    f.run("INSERT INTO notes (id) SELECT id FROM picked");
    f.run("INSERT INTO notes VALUES (9, 'nine')");
    f.error("INSERT INTO notes VALUES (9, 'again')");
    f.run("UPDATE notes SET note = 'in t' WHERE id IN (SELECT id FROM t)");
    assert_eq!(f.rows("SELECT * FROM notes ORDER BY id"), ["3|in t", "4|in t", "9|nine"]);
    f.run("DELETE FROM notes USING t WHERE notes.id = t.id AND t.id = 3");
    f.run(
        "MERGE INTO notes USING t ON notes.id = t.id WHEN MATCHED THEN UPDATE SET note = 'both' \
         WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)",
    );
    assert_eq!(f.value("SELECT count(*), max(note) FROM temp.notes"), "6|none");
    f.run("ALTER TABLE notes ADD COLUMN n INT DEFAULT 1");
    f.run(
        "WITH high AS (SELECT id FROM t WHERE id > 3) UPDATE notes SET n = 2 \
           WHERE id IN (SELECT id FROM high)",
    );
    assert_eq!(f.value("SELECT sum(n) FROM notes JOIN t USING (id)"), "6");
    // Also into the database's own tables.
    f.run("INSERT INTO t SELECT id + 100 FROM picked");
    assert_eq!(f.value("SELECT count(*) FROM t"), "7");
    // Another session of the same database has none of it.
    let other = f.database.connect();
    assert!(other.query("SELECT * FROM notes").is_err());
    assert_eq!(rows(other.query("SELECT count(*) FROM t").unwrap()).unwrap(), ["7"]);
    f.run("TRUNCATE notes");
    f.run("DROP TABLE notes, picked");
    f.error("SELECT * FROM notes");
}

#[test]
fn temporary_names_go_before_others() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 'real' AS kind");
    f.run("CREATE VIEW v AS SELECT kind FROM t");
    f.run("CREATE TEMP TABLE t AS SELECT 'temporary' AS kind");
    assert_eq!(f.value("SELECT kind FROM t"), "temporary");
    assert_eq!(f.value("SELECT kind FROM main.t"), "real");
    assert_eq!(f.value("SELECT kind FROM temp.t"), "temporary");
    assert_eq!(f.value("SELECT kind FROM v"), "real");
    f.run("INSERT INTO t VALUES ('more')");
    f.run("INSERT INTO main.t VALUES ('more real')");
    assert_eq!(f.value("SELECT count(*) FROM v"), "2");
    f.run("CREATE TEMP VIEW w AS SELECT t.kind, m.kind AS other FROM t, main.t m");
    assert_eq!(f.value("SELECT count(*), max(other) FROM w"), "4|real");
    f.error("CREATE TEMP TABLE t (a INT)");
    f.run("CREATE OR REPLACE TEMP TABLE t (a INT)");
    f.run("CREATE TEMP TABLE IF NOT EXISTS t (b INT)");
    assert_eq!(f.value("SELECT count(a) FROM t"), "0");
    let shown = f.rows("SHOW TABLES").join("\n");
    assert!(shown.contains("temp"), "{shown}");
    f.error("DROP TABLE t, main.t");
    f.run("DROP VIEW w");
    f.run("DROP TABLE t");
    assert_eq!(f.value("SELECT count(*) FROM t"), "2");
}

#[test]
fn they_take_part_in_transactions() {
    let f = fixture();
    f.run("CREATE TABLE t (a INT); CREATE TEMP TABLE x (a INT)");
    f.run("BEGIN; INSERT INTO x VALUES (1); INSERT INTO t VALUES (1)");
    f.run("SAVEPOINT s; INSERT INTO x VALUES (2); ROLLBACK TO s");
    assert_eq!(f.value("SELECT count(*) FROM x"), "1");
    f.run("ROLLBACK");
    assert_eq!(f.value("SELECT (SELECT count(*) FROM x) + (SELECT count(*) FROM t)"), "0");
    f.run("BEGIN; INSERT INTO x VALUES (3); COMMIT");
    assert_eq!(f.value("SELECT sum(a) FROM x"), "3");
    f.run("BEGIN; CREATE TEMP TABLE y AS SELECT 1 AS a; ROLLBACK");
    f.error("SELECT * FROM y");
    // The first temporary table of a session may be made inside a transaction.
    let g = fixture();
    g.run("BEGIN; SAVEPOINT s; CREATE TEMP TABLE y AS SELECT 1 AS a; ROLLBACK TO s");
    g.error("SELECT * FROM y");
    g.run("CREATE TEMP TABLE z AS SELECT 1 AS a; COMMIT");
    assert_eq!(g.value("SELECT a FROM z"), "1");
}

#[test]
fn a_transaction_spans_both_sides() {
    let f = fixture();
    f.run("CREATE TABLE t (a INT)");
    // Savepoints from before the first temporary table are known there.
    f.run("BEGIN; SAVEPOINT first; SAVEPOINT second; CREATE TEMP TABLE x (a INT)");
    f.run("SAVEPOINT third; INSERT INTO x VALUES (1); INSERT INTO t VALUES (1)");
    f.run("ROLLBACK TO third; INSERT INTO x VALUES (2); INSERT INTO t VALUES (2)");
    f.run("RELEASE second");
    f.error("ROLLBACK TO third");
    f.run("COMMIT");
    assert_eq!(f.rows("SELECT x.a, t.a FROM x, t"), ["2|2"]);
    f.run("BEGIN; INSERT INTO x VALUES (3); SAVEPOINT s; DROP TABLE x");
    f.error("SELECT * FROM x");
    f.run("ROLLBACK TO s; RELEASE s");
    assert_eq!(f.value("SELECT count(*) FROM x"), "2");
    f.run("ROLLBACK");
    // A COMMIT that fails ends the transaction on both.
    let other = f.database.connect();
    f.run("BEGIN; SELECT * FROM t; INSERT INTO x VALUES (4)");
    other.query("INSERT INTO t VALUES (5)").unwrap();
    f.error("INSERT INTO t VALUES (6)");
    f.run("ROLLBACK; BEGIN; COMMIT");
    assert_eq!(f.value("SELECT count(*) FROM x"), "1");
}

#[test]
fn changes_of_temporary_tables_read_both_sides() {
    let f = fixture();
    f.run("CREATE SEQUENCE s; CREATE TABLE t AS SELECT 'real' AS kind");
    f.run("CREATE TEMP TABLE t AS SELECT 'temporary' AS kind");
    f.run("CREATE TEMP VIEW both_kinds AS SELECT kind FROM t UNION ALL SELECT kind FROM main.t");
    // A schema of the database is never one of the temporary tables.
    f.run("CREATE TEMP TABLE of_main AS SELECT kind FROM main.t");
    assert_eq!(f.value("SELECT kind FROM of_main"), "real");
    f.run("INSERT INTO of_main SELECT kind FROM both_kinds");
    assert_eq!(f.value("SELECT string_agg(kind, ' ' ORDER BY kind) FROM of_main"), {
        "real real temporary"
    });
    f.run(
        "UPDATE t SET kind = t.kind || ' ' || nextval('s') FROM main.t AS m WHERE m.kind <> t.kind",
    );
    assert_eq!(f.value("SELECT kind FROM temp.t"), "temporary 1");
    f.run("CREATE INDEX i ON t (kind); ALTER TABLE t ALTER kind TYPE BLOB USING encode(kind)");
    assert_eq!(f.value("SELECT decode(kind) FROM t"), "temporary 1");
    assert_eq!(f.value("SELECT kind FROM main.t"), "real");
    assert_eq!(f.rows("DELETE FROM t RETURNING decode(kind)"), ["temporary 1"]);
}

#[test]
fn they_are_never_shared() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let database = Database::open_in(home.path(), "db").unwrap();
    let con = database.connect();
    con.query("CREATE TABLE t AS SELECT 1 AS a; CREATE TEMP TABLE x AS SELECT 2 AS a").unwrap();
    let info = database.info();
    assert_eq!((info.tables, info.rows), (1, 1));
    con.query("SHARE").unwrap();
    let snapshot = Database::snapshot_in(home.path(), "db").unwrap().connect();
    assert!(snapshot.query("SELECT * FROM x").is_err());
    assert_eq!(rows(snapshot.query("SELECT a FROM t").unwrap()).unwrap(), ["1"]);
    assert_eq!(rows(con.query("SELECT a FROM x").unwrap()).unwrap(), ["2"]);
    // A snapshot's session has its own.
    snapshot.query("CREATE TEMP TABLE x AS SELECT a + 2 AS a FROM t").unwrap();
    assert_eq!(rows(snapshot.query("SELECT a FROM x").unwrap()).unwrap(), ["3"]);
}

#[test]
fn programs_and_files_fill_them_too() {
    let f = fixture();
    f.run("CREATE TEMP TABLE x (a BIGINT)");
    let file = f.home.path().join("a.csv");
    std::fs::write(&file, "a\n1\n2\n").unwrap();
    f.run(&format!("COPY x FROM '{}'", file.display()));
    let batches = f.run("SELECT CAST(7 AS BIGINT) AS a").collect().unwrap();
    let schema = batches[0].schema();
    let reader = arrow::array::RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    f.con.append("x", reader).unwrap();
    let mut appender = f.con.appender("x").unwrap();
    appender.append_row(&[swingdb::Value::Int64(5)]).unwrap();
    appender.finish().unwrap();
    assert_eq!(f.value("SELECT sum(a), count(*) FROM x"), "15|4");
    let out = f.home.path().join("out.csv");
    f.run(&format!("COPY x TO '{}'", out.display()));
    assert_eq!(std::fs::read_to_string(out).unwrap().lines().count(), 5);
}
