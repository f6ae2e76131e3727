//! BEGIN, COMMIT, ROLLBACK, savepoints, atomicity.

use swingdb::{Database, Error};

use crate::support::{Db, rows};

#[test]
fn changes_are_seen_inside_and_nowhere_else() {
    let db = Db::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    let outside = db.database.connect();
    db.run("BEGIN");
    assert!(db.con.in_transaction());
    db.run("INSERT INTO t VALUES (2)");
    db.run("UPDATE t SET a = a * 10");
    db.run("CREATE TABLE u AS SELECT sum(a) AS s FROM t");
    db.run("ALTER TABLE t ADD COLUMN b INT DEFAULT 3");
    db.check("SELECT * FROM t ORDER BY a", &["10|3", "20|3"]);
    db.check("SELECT s FROM u", &["30"]);
    assert_eq!(rows(&outside, "SELECT * FROM t"), ["1"]);
    assert!(outside.query("SELECT * FROM u").is_err());
    db.run("COMMIT");
    assert!(!db.con.in_transaction());
    assert_eq!(rows(&outside, "SELECT sum(a), sum(b) FROM t"), ["30|6"]);
}

#[test]
fn a_transaction_has_one_time() {
    let db = Db::with("CREATE TABLE t (id INT, at TIMESTAMPTZ DEFAULT now())");
    db.run("CREATE TEMP TABLE u (at TIMESTAMPTZ DEFAULT current_timestamp)");
    db.run("INSERT INTO t (id) VALUES (0); BEGIN");
    let pause = || std::thread::sleep(std::time::Duration::from_millis(2));
    for id in 1..4 {
        db.run(&format!("INSERT INTO t (id) VALUES ({id}); INSERT INTO u SELECT now()"));
        pause();
        db.run("INSERT INTO u VALUES (DEFAULT)");
    }
    db.run("CREATE VIEW v AS SELECT get_current_timestamp() AS at; SAVEPOINT s; ROLLBACK TO s");
    db.check(
        "SELECT count(DISTINCT at) FROM \
              (SELECT at FROM t WHERE id > 0 UNION ALL FROM u UNION ALL FROM v)",
        &["1"],
    );
    db.check("SELECT count(*) FROM t WHERE at = now()", &["3"]);
    db.run("COMMIT");
    pause();
    db.check("SELECT count(*) FROM t, v WHERE t.at = v.at OR t.at >= now()", &["0"]);
    db.check("SELECT max(at) FILTER (id = 0) < max(at) FILTER (id > 0) FROM t", &["true"]);
    db.run("BEGIN; INSERT INTO t (id) VALUES (9); COMMIT");
    db.check("SELECT arg_max(id, at) FROM t", &["9"]);
}

#[test]
fn rollback_undoes_everything() {
    let db = Db::with("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1)");
    db.run("BEGIN; INSERT INTO t VALUES (2); DELETE FROM t WHERE a = 1; DROP TABLE t;");
    db.run("CREATE TABLE t (other VARCHAR); CREATE SCHEMA s; ROLLBACK");
    db.check("SELECT * FROM t", &["1"]);
    db.run("INSERT INTO t VALUES (2)");
    db.fails("INSERT INTO t VALUES (1)", &["PRIMARY KEY"]);
    db.fails("CREATE TABLE s.x (a INT)", &["schema \"s\" does not exist"]);
}

#[test]
fn an_error_undoes_the_statement_and_not_the_transaction() {
    let db = Db::with("CREATE TABLE t (a INT PRIMARY KEY)");
    db.run("BEGIN; INSERT INTO t VALUES (1)");
    db.fails("INSERT INTO t VALUES (2), (3), (1)", &["PRIMARY KEY"]);
    db.fails("UPDATE t SET a = 'x'", &["x"]);
    db.fails("SELECT * FROM nosuch", &["nosuch"]);
    db.fails("this is no statement", &[]);
    assert!(db.con.in_transaction());
    db.run("INSERT INTO t VALUES (4)");
    db.run("COMMIT");
    db.check("SELECT a FROM t ORDER BY a", &["1", "4"]);
}

#[test]
fn savepoints() {
    let db = Db::with("CREATE TABLE t (a INT)");
    db.run("BEGIN; SAVEPOINT start; INSERT INTO t VALUES (1); SAVEPOINT one");
    db.run("INSERT INTO t VALUES (2); SAVEPOINT two; INSERT INTO t VALUES (3)");
    db.run("ROLLBACK TO SAVEPOINT two");
    db.check("SELECT count(*) FROM t", &["2"]);
    db.run("INSERT INTO t VALUES (4); ROLLBACK TO two; ROLLBACK TO one");
    db.check("SELECT a FROM t", &["1"]);
    db.fails("ROLLBACK TO two", &["two"]);
    db.run("INSERT INTO t VALUES (5); RELEASE SAVEPOINT one");
    db.fails("ROLLBACK TO one", &["one"]);
    db.run("SAVEPOINT x; DELETE FROM t; SAVEPOINT x; ROLLBACK TO x; RELEASE x; ROLLBACK TO x");
    db.check("SELECT a FROM t ORDER BY a", &["1", "5"]);
    db.run("ROLLBACK TO start");
    db.check("SELECT count(*) FROM t", &["0"]);
    db.run("INSERT INTO t VALUES (9); COMMIT");
    db.check("SELECT a FROM t", &["9"]);
}

#[test]
fn statements_out_of_place() {
    let db = Db::with("CREATE TABLE t (a INT)");
    for sql in ["COMMIT", "ROLLBACK", "END", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"] {
        let error = db.error(sql);
        assert!(matches!(error, Error::Transaction { .. }), "{sql}: {error:?}");
    }
    db.run("START TRANSACTION");
    assert!(matches!(db.error("BEGIN"), Error::Transaction { .. }));
    db.run("INSERT INTO t VALUES (1); END");
    db.check("SELECT a FROM t", &["1"]);
    db.run("BEGIN TRANSACTION; COMMIT TRANSACTION; BEGIN; COMMIT; BEGIN; ROLLBACK");
}

#[test]
fn a_transaction_reads_one_state() {
    let db = Db::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)");
    let other = db.database.connect();
    db.run("BEGIN");
    other.query("INSERT INTO t VALUES (2)").unwrap();
    db.check("SELECT count(*) FROM t", &["1"]);
    // What it has read is no longer true, so it must not write.
    let error = db.error("INSERT INTO t VALUES (3)");
    assert!(matches!(error, Error::Transaction { .. }), "{error:?}");
    db.run("ROLLBACK");
    db.check("SELECT count(*) FROM t", &["2"]);
}

/// Databases that are made alike have like versions.
#[test]
fn a_transaction_does_not_go_on_in_another_database_of_the_name() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let made = |value: i32| {
        let origin = Database::open_in(home.path(), "origin").unwrap();
        let sql = format!("CREATE TABLE t (a INT); INSERT INTO t VALUES ({value}); SHARE");
        origin.connect().query(&sql).unwrap();
        origin.close().unwrap();
    };
    made(1);
    let snapshot = Database::snapshot_in(home.path(), "origin").unwrap();
    let (con, other) = (snapshot.connect(), snapshot.connect());
    con.query("BEGIN").unwrap();
    assert_eq!(rows(&con, "SELECT a FROM t"), ["1"]);
    swingdb::drop_in(home.path(), "origin").unwrap();
    made(2);
    other.query("REFRESH").unwrap();
    assert_eq!(rows(&other, "SELECT a FROM t"), ["2"]);
    assert_eq!(rows(&con, "SELECT a FROM t"), ["1"]);
    let error = con.query("INSERT INTO t SELECT a * 10 FROM t").unwrap_err();
    assert!(matches!(error, Error::Transaction { .. }), "{error:?}");
    assert_eq!(rows(&con, "SELECT a FROM t"), ["1"]);
    con.query("ROLLBACK").unwrap();
    assert_eq!(rows(&con, "SELECT a FROM t"), ["2"]);
}

#[test]
fn immediate_takes_the_writer_at_once() {
    let db = Db::with("CREATE TABLE t (a INT)");
    let other = db.database.connect();
    db.run("BEGIN IMMEDIATE");
    let writing = std::thread::spawn(move || other.query("INSERT INTO t VALUES (2)").map(drop));
    std::thread::sleep(std::time::Duration::from_millis(50));
    db.run("INSERT INTO t VALUES (1)");
    db.check("SELECT count(*) FROM t", &["1"]);
    db.run("COMMIT");
    writing.join().unwrap().unwrap();
    db.check("SELECT count(*) FROM t", &["2"]);
}

#[test]
fn concurrent_writers_take_turns() {
    let db = Db::with("CREATE TABLE t (a INT)");
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let con = db.database.connect();
            std::thread::spawn(move || {
                for i in 0..25 {
                    con.query(&format!("INSERT INTO t VALUES ({})", n * 100 + i)).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    db.check("SELECT count(*), count(DISTINCT a) FROM t", &["100|100"]);
}

#[test]
fn a_connection_dropped_inside_a_transaction_rolls_back() {
    let db = Db::with("CREATE TABLE t (a INT)");
    let other = db.database.connect();
    other.query("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    drop(other);
    db.run("INSERT INTO t VALUES (2)");
    db.check("SELECT a FROM t", &["2"]);
}

#[test]
fn committed_is_what_a_reopened_database_has() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    {
        let database = Database::open_in(home.path(), "kept").unwrap();
        let con = database.connect();
        con.query("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").unwrap();
        con.query("BEGIN; INSERT INTO t VALUES (2)").unwrap();
        drop(con);
        database.close().unwrap();
    }
    let database = Database::open_in(home.path(), "kept").unwrap();
    assert_eq!(rows(&database.connect(), "SELECT a FROM t"), ["1"]);
}

#[test]
fn a_statement_that_fails_late_leaves_nothing() {
    let db = Db::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (-1)");
    // The division fails in the last of several segments, after many rows were written.
    let sql = "INSERT INTO t SELECT 1000 / (299999 - range) FROM range(300000)";
    db.fails(sql, &["zero"]);
    db.check("SELECT a FROM t", &["-1"]);
    db.run("BEGIN; INSERT INTO t VALUES (-2)");
    db.fails(sql, &["zero"]);
    db.run("COMMIT");
    db.check("SELECT a FROM t ORDER BY a", &["-2", "-1"]);
}

#[test]
fn share_attach_and_refresh_are_statements() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let origin = Database::open_in(home.path(), "origin").unwrap();
    let writer = origin.connect();
    writer.query("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); SHARE").unwrap();
    let snapshot = Database::snapshot_in(home.path(), "origin").unwrap();
    let reader = snapshot.connect();
    writer.query("INSERT INTO t VALUES (2)").unwrap();
    reader.query("REFRESH").unwrap();
    assert_eq!(rows(&reader, "SELECT count(*) FROM t"), ["1"]);
    writer.query("SHARE").unwrap();
    assert_eq!(rows(&reader, "SELECT count(*) FROM t"), ["1"]);
    reader.query("REFRESH").unwrap();
    assert_eq!(rows(&reader, "SELECT count(*) FROM t"), ["2"]);

    let mine = Database::private_in(home.path()).unwrap().connect();
    mine.query("ATTACH 'origin' AS other").unwrap();
    mine.query("CREATE TABLE t AS SELECT a * 10 AS a FROM other.t").unwrap();
    let joined = "SELECT sum(t.a) FROM t JOIN other.t o ON t.a = o.a * 10";
    assert_eq!(rows(&mine, joined), ["30"]);
    mine.query("DETACH other").unwrap();
    assert!(mine.query("SELECT * FROM other.t").is_err());
}
