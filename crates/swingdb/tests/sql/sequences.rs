//! CREATE SEQUENCE, `nextval` and `currval`. The expected values are DuckDB 2.0's, but for what is
//! rolled back, and for a sequence that begins with its last number.

use std::collections::BTreeMap;

use super::common::{Fixture, fixture, seeded};

#[test]
fn numbers_one_after_the_other() {
    let f = fixture();
    f.run("CREATE SEQUENCE s");
    assert_eq!(f.rows("SELECT nextval('s'), nextval('S'), nextval('main.s')"), ["1|2|3"]);
    assert_eq!(f.rows("SELECT nextval('s') AS n FROM range(3) ORDER BY n"), ["4", "5", "6"]);
    assert_eq!(f.value("SELECT currval('s')"), "6");
    assert_eq!(f.value("SELECT typeof(nextval('s'))"), "BIGINT");
    f.run("CREATE OR REPLACE SEQUENCE s START WITH 9 INCREMENT BY -3 MINVALUE 0 MAXVALUE 9 CYCLE");
    assert_eq!(f.rows("SELECT nextval('s') FROM range(5)"), ["9", "6", "3", "0", "9"]);
    assert_eq!(
        f.rows("SHOW SEQUENCES"),
        ["s|main|9|0|9|-3|true|9"],
        "name, schema, start, least, greatest, increment, cycle, last"
    );
    f.run("CREATE SEQUENCE IF NOT EXISTS s");
    f.run("CREATE SEQUENCE down INCREMENT -1");
    assert_eq!(f.rows("SELECT nextval('down') FROM range(2)"), ["-1", "-2"]);
    f.run("CREATE SEQUENCE large MINVALUE -9223372036854775808 START 9223372036854775807");
    assert_eq!(f.value("SELECT nextval('large')"), "9223372036854775807");
    assert!(f.error("SELECT nextval('large')").to_string().contains("greatest number"));
    assert_eq!(f.value("SELECT currval('large')"), "9223372036854775807");
    f.run("DROP SEQUENCE large, down");
    f.run("DROP SEQUENCE IF EXISTS large");
    assert_eq!(f.rows("SHOW SEQUENCES").len(), 1);
}

#[test]
fn defaults_of_columns() {
    let f = fixture();
    f.run("CREATE SEQUENCE ids");
    f.run(
        "CREATE TABLE t (id BIGINT PRIMARY KEY DEFAULT nextval('ids'), v VARCHAR,
           label VARCHAR DEFAULT 'n' || nextval('ids'), small TINYINT DEFAULT nextval('ids'))",
    );
    f.run("INSERT INTO t (v, label, small) VALUES ('a', '', 0), ('b', '', 0), ('c', '', 0)");
    f.run("INSERT INTO t (v, label, small) SELECT 'x' || i, '', 0 FROM range(5000) r(i)");
    assert_eq!(
        f.rows(
            "SELECT min(id), max(id), count(*), sum((id - 4 = substr(v, 2)::INT)::INT)
             FROM t WHERE id > 3"
        ),
        ["4|5003|5000|5000"],
        "rows have their numbers in order"
    );
    assert_eq!(f.rows("SELECT id, v FROM t ORDER BY id LIMIT 3"), ["1|a", "2|b", "3|c"]);
    let inserted = f.rows("INSERT INTO t (v, small) VALUES ('d', 1) RETURNING id, label");
    assert_eq!(inserted, ["5004|n5005"]);
    f.run("INSERT INTO t VALUES (DEFAULT, 'e', DEFAULT, 3)");
    assert_eq!(f.rows("SELECT id, label FROM t WHERE v = 'e'"), ["5006|n5007"]);
    // A number that does not fit, and the statement does nothing.
    let error = f.error("INSERT INTO t (v) VALUES ('f')").to_string();
    assert!(error.contains("TINYINT"), "{error}");
    assert_eq!(f.value("SELECT nextval('ids')"), "5008", "given back");
    f.run("ALTER TABLE t ADD COLUMN more BIGINT DEFAULT nextval('ids')");
    assert_eq!(f.rows("SELECT count(DISTINCT more), min(more) FROM t"), ["5005|5009"]);
    let error = f.error("DROP SEQUENCE ids").to_string();
    assert!(error.contains("\"t\"") && error.contains("DROP DEFAULT"), "{error}");
    let shown = f.value("SHOW CREATE TABLE t");
    assert!(shown.contains("DEFAULT nextval('ids')"), "{shown}");
    f.run("DROP TABLE t");
    f.run("DROP SEQUENCE ids");
}

#[test]
fn statements_that_take_numbers() {
    let f = fixture();
    f.run("CREATE SEQUENCE s; CREATE TABLE t AS SELECT nextval('s') AS id, i FROM range(10) r(i)");
    assert_eq!(f.rows("SELECT sum(id), count(DISTINCT id), max(id) FROM t"), ["55|10|10"]);
    f.run("UPDATE t SET id = nextval('s') WHERE i < 3");
    assert_eq!(f.rows("SELECT count(DISTINCT id), max(id) FROM t"), ["10|13"]);
    f.run("INSERT INTO t SELECT nextval('s'), 99 UNION ALL SELECT nextval('s'), 98");
    f.run("WITH x AS (SELECT nextval('s') AS n) INSERT INTO t SELECT n, n FROM x");
    f.run(
        "MERGE INTO t USING (VALUES (1000)) v(i) ON t.i = v.i
           WHEN NOT MATCHED THEN INSERT VALUES (nextval('s'), v.i)",
    );
    assert_eq!(f.rows("SELECT count(DISTINCT id), max(id), currval('s') FROM t"), ["14|17|17"]);
    f.run("PREPARE p AS SELECT nextval('s') + $1");
    assert_eq!([f.value("EXECUTE p(0)"), f.value("EXECUTE p(100)")], ["18", "119"]);
    f.run("CREATE MACRO next_id() AS nextval('s')");
    assert_eq!(f.value("SELECT next_id()"), "20");
    f.run("CREATE TEMP TABLE mine AS SELECT nextval('s') AS n");
    f.run("INSERT INTO mine SELECT nextval('s')");
    assert_eq!(f.rows("SELECT * FROM mine ORDER BY n"), ["21", "22"]);
    f.run("COPY (SELECT nextval('s')) TO '/dev/null' (FORMAT csv)");
    assert_eq!(f.value("SELECT nextval('s')"), "24");
    f.run("CREATE SCHEMA other; CREATE SEQUENCE other.\"My S\" START 5");
    assert_eq!(f.value("SELECT nextval('other.\"My S\"')"), "5");
    f.run("CREATE TABLE u (id INT DEFAULT nextval('other.\"my s\"'), v INT)");
    f.run("INSERT INTO u (v) VALUES (1)");
    assert_eq!(f.rows("SELECT * FROM u"), ["6|1"]);
    assert!(f.error("DROP SCHEMA other").to_string().contains("not empty"));
    assert!(f.error("DROP SEQUENCE other.\"My S\"").to_string().contains("\"u\""));
}

#[test]
fn what_is_rolled_back_is_given_out_again() {
    let f = fixture();
    f.run("CREATE SEQUENCE s");
    f.run("BEGIN; SAVEPOINT a");
    assert_eq!(f.value("SELECT nextval('s')"), "1");
    f.run("SAVEPOINT b");
    assert_eq!(f.value("SELECT nextval('s')"), "2");
    f.run("ROLLBACK TO b");
    assert_eq!(f.value("SELECT nextval('s')"), "2");
    f.run("ROLLBACK TO a");
    assert!(f.error("SELECT currval('s')").to_string().contains("no number yet"));
    assert_eq!(f.value("SELECT nextval('s')"), "1");
    f.run("COMMIT");
    f.error("SELECT nextval('s'), CAST('x' AS INT)");
    assert_eq!(f.value("SELECT nextval('s')"), "2");
    f.run("BEGIN; CREATE SEQUENCE gone; ROLLBACK");
    f.error("SELECT nextval('gone')");
}

#[test]
fn mistakes() {
    let f = fixture();
    f.run("CREATE SEQUENCE orders; CREATE VIEW plain AS SELECT 1");
    let cases = [
        ("SELECT nextval('oders')", "orders"),
        ("SELECT currval('orders')", "no number yet"),
        ("SELECT nextval(1)", "nextval('s')"),
        ("SELECT nextval('orders' || '')", "nextval('s')"),
        ("SELECT nextval('nowhere.orders')", "nowhere"),
        ("CREATE SEQUENCE orders", "exists"),
        ("CREATE OR REPLACE SEQUENCE IF NOT EXISTS orders", "IF NOT EXISTS"),
        ("CREATE TEMP SEQUENCE x", "TEMPORARY SEQUENCE"),
        ("CREATE SEQUENCE x INCREMENT 0", "INCREMENT"),
        ("CREATE SEQUENCE x MINVALUE 5 MAXVALUE 5", "less than"),
        ("CREATE SEQUENCE x START 0", "START 0"),
        ("CREATE SEQUENCE x START 1 START 2", "twice"),
        ("CREATE SEQUENCE x MAXVALUE 9223372036854775808", "64 bits"),
        ("CREATE SEQUENCE x AS INT", "the end of the statement"),
        ("CREATE VIEW v AS SELECT nextval('orders')", "a view"),
        ("CREATE TABLE t (i INT DEFAULT nextval('x'))", "\"x\""),
        ("CREATE TABLE t (i INT CHECK (i < nextval('orders')))", ""),
        ("DROP SEQUENCE x", "\"x\""),
        ("DROP SEQUENCE orders CASCADE", "CASCADE"),
        ("EXPLAIN ANALYZE SELECT nextval('orders')", "in this place"),
    ];
    f.refuses(&cases);
    assert_eq!(f.rows("SHOW SEQUENCES").len(), 1);
    assert_eq!(f.value("SELECT nextval('orders')"), "1");
}

/// The numbers that so many rows of a table get.
fn by_default(f: &Fixture, sequence: &str, count: usize) -> Vec<String> {
    f.run("DELETE FROM t");
    f.run(&format!("ALTER TABLE t ALTER n SET DEFAULT nextval('{sequence}')"));
    f.run(&format!("INSERT INTO t VALUES {}", vec!["(DEFAULT)"; count].join(", ")));
    f.run("ALTER TABLE t ALTER n DROP DEFAULT");
    f.rows("FROM t")
}

/// Several sequences, taken from and rolled back at random, beside a model.
#[test]
fn random_sequences() {
    let (mut random, seed) = seeded();
    let f = fixture();
    f.run("CREATE TABLE t (n BIGINT)");
    // Of each sequence what it gives out next, and how far apart its numbers are.
    let mut model: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let mut before = None;
    for step in 0..150 {
        let name = format!("s{}", random.u8(..4));
        let known = model.get(&name).copied();
        match (random.u8(..9), known) {
            (0, _) => {
                let (start, by) = (random.i64(-50..50), random.i64(1..4));
                let limits = "MINVALUE -1000000 MAXVALUE 1000000";
                f.run(&format!(
                    "CREATE OR REPLACE SEQUENCE {name} START {start} INCREMENT {by} {limits}"
                ));
                model.insert(name, (start, by));
            }
            (1, Some(_)) => {
                f.run(&format!("DROP SEQUENCE {name}"));
                model.remove(&name);
            }
            (2, _) if before.is_none() => {
                f.run("BEGIN");
                before = Some(model.clone());
            }
            (3, _) if before.is_some() => {
                f.run("COMMIT");
                before = None;
            }
            (4, _) if before.is_some() => {
                f.run("ROLLBACK");
                model = before.take().unwrap_or_default();
            }
            (_, Some((next, by))) => {
                let count = random.usize(1..6);
                let taken: Vec<i64> = (0..count as i64).map(|k| next + k * by).collect();
                let expected: Vec<String> = taken.iter().map(i64::to_string).collect();
                let found = if random.bool() {
                    f.rows(&format!("SELECT nextval('{name}') FROM range({count})"))
                } else {
                    by_default(&f, &name, count)
                };
                assert_eq!(found, expected, "seed {seed}, step {step}");
                model.insert(name, (next + count as i64 * by, by));
            }
            (_, None) => {
                let error = f.error(&format!("SELECT nextval('{name}')")).to_string();
                assert!(error.contains(&name), "seed {seed}, step {step}: {error}");
            }
        }
    }
}
