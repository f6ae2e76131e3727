//! CREATE and DROP of tables, views and schemas, CLONE.

use swingdb::{Database, Error};

use crate::support::{Db, rows};

#[test]
fn tables_with_every_kind_of_column() {
    let db = Db::with(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(20) NOT NULL,
            price DECIMAL(10, 2) DEFAULT 1.5,
            tags VARCHAR[], at TIMESTAMP DEFAULT now(), shape STRUCT(x DOUBLE, y DOUBLE)[],
            attributes MAP(VARCHAR, INT), grid INT[3], UNIQUE (name, price))",
    );
    db.run("INSERT INTO t (id, name) VALUES (1, 'one')");
    db.check("SELECT id, name, price, tags FROM t", &["1|one|1.50|NULL"]);
    db.fails("INSERT INTO t (id, name) VALUES (2, 'one')", &["UNIQUE", "one"]);
    db.fails("CREATE TABLE t (a INT)", &["table \"t\" already exists"]);
    db.fails("CREATE TABLE T (a INT)", &["already exists"]);
    db.run("CREATE TABLE IF NOT EXISTS t (a INT)");
    db.check("SELECT count(*) FROM t", &["1"]);
    db.run("CREATE OR REPLACE TABLE t (a INT)");
    db.check("SELECT count(*) FROM t", &["0"]);
}

#[test]
fn definitions_that_mean_nothing() {
    let db = Db::new();
    db.fails("CREATE TABLE t (a WOMBAT)", &["WOMBAT"]);
    db.fails("CREATE TABLE t (a INT, A INT)", &["column \"A\" already exists"]);
    db.fails("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", &["one PRIMARY KEY"]);
    db.fails("CREATE TABLE t (a INT, UNIQUE (b))", &["column \"b\" does not exist"]);
    db.fails("CREATE TABLE t (a INT DEFAULT 'x')", &["column \"a\"", "'x'"]);
    db.fails("CREATE TABLE t (a INT DEFAULT b)", &["b"]);
    db.fails("CREATE TABLE t (a INT CHECK (a > 0) NOT ENFORCED)", &["not supported", "CHECK"]);
    db.fails("CREATE TABLE t (a DECIMAL(99, 1))", &["precision"]);
    db.fails("CREATE TABLE nosuch.t (a INT)", &["schema \"nosuch\" does not exist"]);
    db.fails("CREATE TABLE information_schema.t (a INT)", &["information_schema"]);
    assert!(matches!(db.error("CREATE TABLE t ("), Error::Parse { .. }));
    db.check("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'main'", &["0"]);
}

#[test]
fn from_queries() {
    let db =
        Db::with("CREATE TABLE t (a INT, b VARCHAR); INSERT INTO t VALUES (1, 'x'), (2, NULL)");
    assert_eq!(db.run("CREATE TABLE u AS SELECT a + 1 AS a, b, NULL AS n FROM t WHERE a > 0"), 2);
    db.check("SELECT * FROM u ORDER BY a", &["2|x|NULL", "3|NULL|NULL"]);
    assert_eq!(db.run("CREATE OR REPLACE TABLE t AS SELECT a * 10 AS a FROM t"), 2);
    db.check("SELECT * FROM t ORDER BY a", &["10", "20"]);
    db.fails("CREATE TABLE u AS SELECT 1 AS a", &["already exists"]);
    assert_eq!(db.run("CREATE TABLE IF NOT EXISTS u AS SELECT 1 AS a"), 0);
    db.check("SELECT count(*) FROM u", &["2"]);
    db.fails("CREATE TABLE w AS SELECT 1 / 0 AS a", &["zero"]);
    db.fails("SELECT * FROM w", &["does not exist"]);
    db.run("CREATE TABLE named (x, y) AS SELECT 1, 2");
    db.check("SELECT x, y FROM named", &["1|2"]);
    db.run("CREATE TABLE like_u LIKE u");
    db.check("SELECT count(*) FROM like_u", &["0"]);
}

#[test]
fn views() {
    let db = Db::with("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)");
    db.run("CREATE VIEW v AS SELECT a * 2 AS twice FROM t");
    db.run("CREATE VIEW w (x) AS SELECT twice + 1 FROM v");
    db.check("SELECT x FROM w ORDER BY x", &["3", "5"]);
    db.run("INSERT INTO t VALUES (10)");
    db.check("SELECT max(x) FROM w", &["21"]);
    db.fails("CREATE VIEW v AS SELECT 1 AS a", &["already exists"]);
    db.fails("CREATE VIEW t AS SELECT 1 AS a", &["already exists"]);
    db.fails("CREATE TABLE v (a INT)", &["already exists"]);
    db.fails("CREATE VIEW z AS SELECT * FROM nosuch", &["nosuch"]);
    db.fails("CREATE VIEW z (a, b) AS SELECT 1", &["2 columns"]);
    db.run("CREATE OR REPLACE VIEW v AS SELECT a AS twice FROM t");
    db.check("SELECT max(x) FROM w", &["11"]);
    db.run("DROP VIEW w, v");
    db.fails("SELECT * FROM v", &["does not exist"]);
    db.fails("DROP VIEW v", &["view \"v\" does not exist"]);
    db.run("DROP VIEW IF EXISTS v");
    db.fails("DROP VIEW t", &["use DROP TABLE"]);
}

#[test]
fn schemas() {
    let db = Db::with("CREATE SCHEMA s; CREATE TABLE s.t (a INT); INSERT INTO s.t VALUES (7)");
    db.check("SELECT a FROM s.t", &["7"]);
    db.check("SELECT a FROM swingdb.s.t", &["7"]);
    db.fails("SELECT a FROM t", &["does not exist"]);
    db.fails("CREATE SCHEMA s", &["schema \"s\" already exists"]);
    db.run("CREATE SCHEMA IF NOT EXISTS s");
    db.fails("DROP SCHEMA s", &["s"]);
    db.run("DROP SCHEMA s CASCADE");
    db.fails("SELECT a FROM s.t", &["s.t"]);
    db.fails("DROP SCHEMA s", &["schema \"s\" does not exist"]);
    db.run("DROP SCHEMA IF EXISTS s");
    db.fails("DROP SCHEMA main", &["cannot be dropped"]);
}

#[test]
fn drops() {
    let db =
        Db::with("CREATE TABLE a (x INT); CREATE TABLE b (x INT); CREATE VIEW v AS SELECT 1 AS x");
    db.fails("DROP TABLE a, nosuch", &["table \"nosuch\" does not exist"]);
    db.check("SELECT count(*) FROM a", &["0"]);
    db.run("DROP TABLE IF EXISTS a, nosuch, b");
    db.fails("SELECT * FROM a", &["does not exist"]);
    db.fails("DROP TABLE v", &["use DROP VIEW"]);
}

#[test]
fn clones_share_and_part() {
    let db = Db::with("CREATE TABLE t AS SELECT range AS a FROM range(200000)");
    db.run("CREATE TABLE c CLONE t");
    db.run("UPDATE c SET a = -1 WHERE a = 5; DELETE FROM t WHERE a = 6");
    db.check("SELECT count(*), count(*) FILTER (WHERE a = -1) FROM c", &["200000|1"]);
    db.check("SELECT count(*), count(*) FILTER (WHERE a = -1) FROM t", &["199999|0"]);
    db.fails("CREATE TABLE c CLONE t", &["already exists"]);
    db.run("CREATE OR REPLACE TABLE c CLONE t");
    db.run("CREATE TABLE IF NOT EXISTS c CLONE t");
    db.check("SELECT count(*) FROM c", &["199999"]);
    db.fails("CREATE TABLE d CLONE nosuch", &["nosuch"]);
    db.run("DROP TABLE t");
    db.check("SELECT count(*) FROM c", &["199999"]);
}

#[test]
fn clones_of_attached_snapshots() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let origin = Database::open_in(home.path(), "origin").unwrap();
    let writer = origin.connect();
    writer.query("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR)").unwrap();
    writer.query("INSERT INTO t SELECT range, 'row ' || range FROM range(150000)").unwrap();
    origin.share().unwrap();

    let mine = Database::private_in(home.path()).unwrap();
    let con = mine.connect();
    let snapshot = Database::snapshot_in(home.path(), "origin").unwrap();
    con.attach(&snapshot, "other").unwrap();
    assert_eq!(rows(&con, "SELECT count(*) FROM other.t"), ["150000"]);
    for sql in
        ["INSERT INTO other.t VALUES (1, 'x')", "DELETE FROM other.main.t", "DROP TABLE other.t"]
    {
        let error = con.query(sql).unwrap_err().to_string();
        assert!(error.contains("attached") && error.contains("CLONE"), "{sql}: {error}");
    }
    con.query("CREATE TABLE t CLONE other.t").unwrap();
    con.query("UPDATE t SET s = 'mine' WHERE id < 10").unwrap();
    assert!(con.query("INSERT INTO t VALUES (5, 'again')").is_err());
    assert_eq!(rows(&con, "SELECT count(*) FROM t WHERE s = 'mine'"), ["10"]);
    assert_eq!(rows(&con, "SELECT count(*) FROM other.t WHERE s = 'mine'"), ["0"]);
    con.detach("other").unwrap();
    drop(snapshot);
    writer.query("DROP TABLE t").unwrap();
    assert_eq!(rows(&con, "SELECT count(*), min(s) FROM t"), ["150000|mine"]);
}

#[test]
fn a_snapshot_is_written_to() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let origin = Database::open_in(home.path(), "origin").unwrap();
    let writer = origin.connect();
    writer.query("CREATE TABLE t AS SELECT range AS a FROM range(1000)").unwrap();
    origin.share().unwrap();
    let snapshot = Database::snapshot_in(home.path(), "origin").unwrap();
    let con = snapshot.connect();
    con.query("DELETE FROM t WHERE a >= 10").unwrap();
    con.query("CREATE TABLE extra (x INT); INSERT INTO extra VALUES (1)").unwrap();
    con.query("INSERT INTO t SELECT a + 100 FROM t").unwrap();
    assert_eq!(rows(&con, "SELECT count(*), sum(a) FROM t"), ["20|1090"]);
    assert_eq!(rows(&writer, "SELECT count(*) FROM t"), ["1000"]);
    writer.query("UPDATE t SET a = 0").unwrap();
    assert_eq!(rows(&con, "SELECT count(*), sum(a) FROM t"), ["20|1090"]);
}
