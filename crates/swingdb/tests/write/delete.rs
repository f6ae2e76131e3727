//! DELETE and TRUNCATE.

use swingdb::Value;

use crate::support::Db;

fn numbers() -> Db {
    Db::with(
        "CREATE TABLE t (id INT, s VARCHAR);
         INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL);
         CREATE TABLE other (id INT);
         INSERT INTO other VALUES (2), (3), (3), (9)",
    )
}

#[test]
fn everything_something_nothing() {
    let db = numbers();
    assert_eq!(db.run("DELETE FROM t WHERE FALSE"), 0);
    assert_eq!(db.run("DELETE FROM t WHERE NULL"), 0);
    assert_eq!(db.run("DELETE FROM t WHERE s = NULL"), 0);
    assert_eq!(db.run("DELETE FROM t WHERE s <> 'a'"), 2);
    db.check("SELECT id FROM t ORDER BY id", &["1", "4"]);
    assert_eq!(db.run("DELETE FROM t"), 2);
    assert_eq!(db.run("DELETE FROM t"), 0);
    db.check("SELECT count(*) FROM t", &["0"]);
}

#[test]
fn a_subquery_is_a_condition_and_not_all_rows() {
    let db = numbers();
    assert_eq!(db.run("DELETE FROM t WHERE id IN (SELECT id FROM other)"), 2);
    db.check("SELECT id FROM t ORDER BY id", &["1", "4"]);
    let exists = "DELETE FROM t WHERE EXISTS (SELECT 1 FROM other WHERE other.id = t.id)";
    assert_eq!(db.run(exists), 0);
    assert_eq!(db.run("DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM other)"), 0);
    assert_eq!(db.run("DELETE FROM t WHERE id = (SELECT min(id) FROM t)"), 1);
    db.check("SELECT id FROM t", &["4"]);
    assert_eq!(db.run("DELETE FROM t WHERE id NOT IN (SELECT id FROM other)"), 1);
}

#[test]
fn not_in_with_a_null_deletes_nothing() {
    let db = numbers();
    db.run("INSERT INTO other VALUES (NULL)");
    assert_eq!(db.run("DELETE FROM t WHERE id NOT IN (SELECT id FROM other)"), 0);
    db.check("SELECT count(*) FROM t", &["4"]);
}

#[test]
fn using_other_tables() {
    let db = numbers();
    // Row 3 has two partners and is deleted once.
    assert_eq!(db.run("DELETE FROM t USING other o WHERE t.id = o.id AND o.id > 2"), 1);
    db.check("SELECT id FROM t ORDER BY id", &["1", "2", "4"]);
    assert_eq!(db.run("DELETE FROM t AS x USING other o, other p WHERE x.id = o.id"), 1);
}

#[test]
fn limit_and_order_hold() {
    let db = numbers();
    assert_eq!(db.run("DELETE FROM t LIMIT 1"), 1);
    db.check("SELECT count(*) FROM t", &["3"]);
    assert_eq!(db.run("DELETE FROM t WHERE id > 0 ORDER BY id DESC LIMIT 2"), 2);
    db.check("SELECT count(*), max(id) < 4 FROM t", &["1|true"]);
    assert_eq!(db.run("DELETE FROM t LIMIT 0"), 0);
}

#[test]
fn parameters() {
    let db = numbers();
    assert_eq!(db.execute("DELETE FROM t WHERE id = $2 OR s = $1", &["a".into(), 3.into()]), 2);
    assert_eq!(db.execute("DELETE FROM t WHERE s IS NOT DISTINCT FROM ?", &[Value::Null]), 1);
}

#[test]
fn returning_shows_the_old_rows() {
    let db = numbers();
    let mut returned = db.rows("DELETE FROM t WHERE id < 3 RETURNING *, id + 1 AS next");
    returned.sort();
    assert_eq!(returned, ["1|a|2", "2|b|3"]);
    let result = db.result("DELETE FROM t WHERE id = 3 RETURNING id");
    assert_eq!(result.rows_changed(), Some(1));
}

#[test]
fn truncate() {
    let db = numbers();
    assert_eq!(db.run("TRUNCATE t"), 4);
    assert_eq!(db.run("TRUNCATE TABLE other, t"), 4);
    db.fails("TRUNCATE nosuch", &["table \"nosuch\" does not exist"]);
    db.run("INSERT INTO t VALUES (1, 'again')");
    db.check("SELECT * FROM t", &["1|again"]);
}

#[test]
fn deleted_keys_are_free_again() {
    let db = Db::with("CREATE TABLE k (id INT PRIMARY KEY); INSERT INTO k VALUES (1), (2)");
    db.run("DELETE FROM k WHERE id = 1");
    db.run("INSERT INTO k VALUES (1)");
    db.fails("INSERT INTO k VALUES (1)", &["PRIMARY KEY"]);
    db.run("DELETE FROM k");
    db.run("INSERT INTO k VALUES (1), (2)");
    db.check("SELECT count(*) FROM k", &["2"]);
}

#[test]
fn what_is_read_stays_as_it_was() {
    let db = numbers();
    let mut reading = db.result("SELECT id FROM t ORDER BY id");
    db.run("DELETE FROM t");
    let seen: usize = reading.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(seen, 4);
}

#[test]
fn mistakes_are_named() {
    let db = numbers();
    db.run("CREATE VIEW v AS SELECT * FROM t");
    db.fails("DELETE FROM v", &["\"v\" is a view"]);
    db.fails("DELETE FROM tt", &["table \"tt\" does not exist"]);
    db.fails("DELETE FROM t WHERE nosuch = 1", &["nosuch"]);
    db.fails("DELETE FROM information_schema.tables", &["information_schema"]);
    db.fails("DELETE FROM t WHERE id = 'x'", &["x"]);
    db.check("SELECT count(*) FROM t", &["4"]);
}
