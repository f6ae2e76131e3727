//! UPDATE.

use swingdb::{ConstraintKind, Error, Value};

use crate::support::Db;

fn trips() -> Db {
    Db::with(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, s VARCHAR);
         INSERT INTO t VALUES (1, 10, 100, 'x'), (2, 20, NULL, 'y'), (3, NULL, 300, NULL);
         CREATE TABLE other (id INT, v INT);
         INSERT INTO other VALUES (2, 7), (3, 8), (9, 9)",
    )
}

#[test]
fn all_rows_some_rows_no_rows() {
    let db = trips();
    assert_eq!(db.run("UPDATE t SET a = 1"), 3);
    assert_eq!(db.run("UPDATE t SET a = 2 WHERE id > 1"), 2);
    assert_eq!(db.run("UPDATE t SET a = 3 WHERE FALSE"), 0);
    assert_eq!(db.run("UPDATE t SET a = 4 WHERE NULL"), 0);
    assert_eq!(db.run("UPDATE t SET a = 5 WHERE b = NULL"), 0);
    db.check("SELECT id, a FROM t ORDER BY id", &["1|1", "2|2", "3|2"]);
}

#[test]
fn expressions_see_the_old_row() {
    let db = trips();
    assert_eq!(db.run("UPDATE t SET a = b, b = a"), 3);
    db.check("SELECT id, a, b FROM t ORDER BY id", &["1|100|10", "2|NULL|20", "3|300|NULL"]);
    assert_eq!(db.run("UPDATE t SET (a, b) = (b + 1, a + 1) WHERE id = 1"), 1);
    db.check("SELECT a, b FROM t WHERE id = 1", &["11|101"]);
}

#[test]
fn subqueries_in_the_condition() {
    let db = trips();
    assert_eq!(db.run("UPDATE t SET a = 1 WHERE id IN (SELECT id FROM other)"), 2);
    assert_eq!(db.run("UPDATE t SET a = 2 WHERE id NOT IN (SELECT id FROM other)"), 1);
    let exists = "UPDATE t SET b = 5 WHERE EXISTS (SELECT 1 FROM other WHERE other.id = t.id)";
    assert_eq!(db.run(exists), 2);
    assert_eq!(db.run("UPDATE t SET b = 6 WHERE EXISTS (SELECT 1 FROM other WHERE FALSE)"), 0);
    let not_exists =
        "UPDATE t SET b = 7 WHERE NOT EXISTS (SELECT 1 FROM other o WHERE o.id = t.id)";
    assert_eq!(db.run(not_exists), 1);
    assert_eq!(db.run("UPDATE t SET s = 'max' WHERE id = (SELECT max(id) FROM other) - 6"), 1);
    db.check("SELECT * FROM t ORDER BY id", &["1|2|7|x", "2|1|5|y", "3|1|5|max"]);
}

#[test]
fn subqueries_in_the_values() {
    let db = trips();
    db.run("UPDATE t SET a = (SELECT max(v) FROM other)");
    db.check("SELECT DISTINCT a FROM t", &["9"]);
    db.run("UPDATE t SET b = (SELECT sum(v) FROM other o WHERE o.id = t.id)");
    db.check("SELECT id, b FROM t ORDER BY id", &["1|NULL", "2|7", "3|8"]);
}

#[test]
fn a_subquery_without_an_aggregate_is_a_value() {
    let db = trips();
    db.run("UPDATE t SET b = (SELECT o.v FROM other o WHERE o.id = t.id)");
    db.check("SELECT id, b FROM t ORDER BY id", &["1|NULL", "2|7", "3|8"]);
    db.run("INSERT INTO other VALUES (2, 70)");
    db.fails(
        "UPDATE t SET b = (SELECT v FROM other WHERE other.id = t.id)",
        &["more than one row"],
    );
    // Only row 2 has two values, and it is not asked for.
    db.run("UPDATE t SET b = (SELECT v + 1 FROM other WHERE other.id = t.id) WHERE id = 3");
    db.run("UPDATE t SET a = (SELECT v FROM other o WHERE o.id = t.id ORDER BY v DESC LIMIT 1)");
    db.check("SELECT id, a, b FROM t ORDER BY id", &["1|NULL|NULL", "2|70|7", "3|8|9"]);
}

#[test]
fn a_predicate_as_a_value() {
    let db = Db::with(
        "CREATE TABLE t (id INT, e BOOLEAN, i BOOLEAN, n BOOLEAN);
         INSERT INTO t (id) VALUES (1), (2), (NULL);
         CREATE TABLE other (id INT); INSERT INTO other VALUES (2), (3)",
    );
    let sql = "UPDATE t SET e = EXISTS (SELECT 1 FROM other o WHERE o.id = t.id),
        i = id IN (SELECT o.id FROM other o), n = id NOT IN (SELECT o.id FROM other o)";
    assert_eq!(db.run(sql), 3);
    let all = "SELECT * FROM t ORDER BY id";
    db.check(all, &["1|false|false|true", "2|true|true|false", "NULL|false|NULL|NULL"]);
    db.run("INSERT INTO other VALUES (NULL)");
    db.run(sql);
    db.check(all, &["1|false|NULL|NULL", "2|true|true|false", "NULL|false|NULL|NULL"]);
    db.run("DELETE FROM other");
    db.run(sql);
    db.check(all, &["1|false|false|true", "2|false|false|true", "NULL|false|false|true"]);
}

#[test]
fn update_from() {
    let db = trips();
    assert_eq!(db.run("UPDATE t SET a = o.v, s = 'from' FROM other o WHERE o.id = t.id"), 2);
    db.check("SELECT id, a, s FROM t ORDER BY id", &["1|10|x", "2|7|from", "3|8|from"]);
    db.run("INSERT INTO other VALUES (2, 100)");
    // Several partners: the row is changed once.
    assert_eq!(db.run("UPDATE t AS x SET a = o.v FROM other o WHERE o.id = x.id AND x.id = 2"), 1);
    let a = db.rows("SELECT a FROM t WHERE id = 2");
    assert!(a == ["7"] || a == ["100"], "{a:?}");
    let joined = "UPDATE t SET a = o.v + p.v FROM other o JOIN other p ON p.id = o.id + 1 \
        WHERE t.id = o.id AND o.v = 7";
    assert_eq!(db.run(joined), 1);
    db.check("SELECT a FROM t WHERE id = 2", &["15"]);
}

#[test]
fn a_table_is_called_by_alias_or_full_name() {
    let db = trips();
    assert_eq!(db.run("UPDATE main.t SET a = main.t.a + t.id WHERE main.t.id = 1"), 1);
    assert_eq!(db.run("UPDATE swingdb.main.t AS x SET a = x.a + 1 WHERE x.id = 1"), 1);
    assert_eq!(db.run("UPDATE T SET A = A + 1 WHERE ID = 1"), 1);
    db.check("SELECT a FROM t WHERE id = 1", &["13"]);
}

#[test]
fn keys_may_be_swapped_but_not_doubled() {
    let db = trips();
    assert_eq!(db.run("UPDATE t SET id = 4 - id"), 3);
    db.check("SELECT id, s FROM t ORDER BY id", &["1|NULL", "2|y", "3|x"]);
    assert_eq!(db.run("UPDATE t SET id = id + 1"), 3);
    let error = db.error("UPDATE t SET id = 2 WHERE id = 3");
    assert!(
        matches!(&error, Error::Constraint { kind: ConstraintKind::PrimaryKey, .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains('2'), "{error}");
    db.fails("UPDATE t SET id = 5", &["PRIMARY KEY", "id"]);
    db.fails("UPDATE t SET id = NULL WHERE id = 2", &["NOT NULL", "id"]);
    db.check("SELECT id FROM t ORDER BY id", &["2", "3", "4"]);
}

#[test]
fn values_are_converted_or_refused() {
    let db = trips();
    db.run("UPDATE t SET a = '42', s = 7 WHERE id = 1");
    db.check("SELECT a, s FROM t WHERE id = 1", &["42|7"]);
    db.run("UPDATE t SET a = 2.5 WHERE id = 1");
    db.check("SELECT a FROM t WHERE id = 1", &["3"]);
    db.fails("UPDATE t SET a = 'x'", &["column \"a\"", "'x' is no valid INTEGER"]);
    db.fails("UPDATE t SET a = a + 3000000000 WHERE id = 1", &["3000000003", "INTEGER"]);
    db.fails("UPDATE t SET a = DATE '2024-01-01' WHERE FALSE", &["DATE cannot be stored"]);
    db.check("SELECT a FROM t ORDER BY id", &["3", "20", "NULL"]);
}

#[test]
fn default_as_a_value() {
    let db = Db::with("CREATE TABLE t (a INT DEFAULT 5, b INT); INSERT INTO t VALUES (1, 2)");
    db.run("UPDATE t SET a = DEFAULT, b = DEFAULT");
    db.check("SELECT * FROM t", &["5|NULL"]);
}

#[test]
fn order_and_limit() {
    let db = trips();
    assert_eq!(db.run("UPDATE t SET s = 'last' WHERE id > 0 ORDER BY id DESC LIMIT 1"), 1);
    db.check("SELECT id FROM t WHERE s = 'last'", &["3"]);
}

#[test]
fn parameters() {
    let db = trips();
    let sql = "UPDATE t SET a = ?, s = ? WHERE id = ? OR s = ?";
    let params = [Value::from(77), Value::from("p"), Value::from(1), Value::from("y")];
    assert_eq!(db.execute(sql, &params), 2);
    db.check("SELECT id, a, s FROM t ORDER BY id", &["1|77|p", "2|77|p", "3|NULL|NULL"]);
}

#[test]
fn returning_shows_the_new_rows() {
    let db = trips();
    let returned = db.rows("UPDATE t SET a = id * 2 WHERE id < 3 RETURNING id, a AS twice, t.s");
    assert_eq!(returned, ["1|2|x", "2|4|y"]);
    assert_eq!(db.rows("UPDATE t SET a = 0 WHERE FALSE RETURNING *"), [""; 0]);
}

#[test]
fn common_table_expressions() {
    let db = trips();
    let sql = "WITH big AS (SELECT id FROM other WHERE v > 7) \
        UPDATE t SET s = 'big' WHERE id IN (SELECT id FROM big)";
    assert_eq!(db.run(sql), 1);
    db.check("SELECT id FROM t WHERE s = 'big'", &["3"]);
}

#[test]
fn mistakes_are_named() {
    let db = trips();
    db.run("CREATE VIEW v AS SELECT * FROM t");
    db.fails("UPDATE tt SET a = 1", &["table \"tt\" does not exist", "did you mean \"t\""]);
    db.fails("UPDATE t SET aa = 1", &["column \"aa\" does not exist", "did you mean \"a\""]);
    db.fails("UPDATE t SET a = 1, A = 2", &["column \"a\" is given twice"]);
    db.fails("UPDATE v SET a = 1", &["\"v\" is a view"]);
    db.fails("UPDATE information_schema.tables SET table_name = 'x'", &["information_schema"]);
    db.fails("UPDATE t SET a = nosuch + 1", &["nosuch"]);
    db.fails("UPDATE nosuch.t SET a = 1", &["schema \"nosuch\" does not exist"]);
    db.fails("UPDATE t SET (a, b) = (1, 2, 3)", &["2 columns", "3 values"]);
}

#[test]
fn explain_changes_nothing() {
    let db = trips();
    db.result("EXPLAIN UPDATE t SET a = 0").collect().unwrap();
    db.result("EXPLAIN DELETE FROM t").collect().unwrap();
    db.result("EXPLAIN INSERT INTO t SELECT * FROM t").collect().unwrap();
    db.result("EXPLAIN MERGE INTO t USING other o ON t.id = o.id WHEN MATCHED THEN DELETE")
        .collect()
        .unwrap();
    db.check("SELECT count(*), sum(a) FROM t", &["3|30"]);
}

#[test]
fn many_rows_in_many_segments() {
    let db = Db::with("CREATE TABLE big AS SELECT range AS id, range % 7 AS k FROM range(400000)");
    assert_eq!(db.run("UPDATE big SET k = k + 100 WHERE id % 3 = 0"), 133_334);
    assert_eq!(db.run("DELETE FROM big WHERE id % 2 = 1"), 200_000);
    assert_eq!(db.run("UPDATE big SET id = -id WHERE k >= 100"), 66_667);
    let expected = "SELECT count(*), sum(id), sum(k) FROM big";
    let computed = "SELECT count(*), sum(CASE WHEN value % 3 = 0 THEN -value ELSE value END),
        sum(value % 7 + CASE WHEN value % 3 = 0 THEN 100 ELSE 0 END)
        FROM range(400000) AS value WHERE value % 2 = 0";
    assert_eq!(db.rows(expected), db.rows(computed));
}
