//! Names in the scope of their query: schemas before them, and columns in another case.

use super::common::fixture;

#[test]
fn schemas_and_databases_before_a_name_are_looked_at() {
    let f = fixture();
    f.run("CREATE TABLE t (n INT); INSERT INTO t VALUES (7)");
    for sql in ["SELECT t.n FROM t", "SELECT main.t.n FROM t", "SELECT swingdb.main.t.n FROM t"] {
        assert_eq!(f.value(sql), "7", "{sql}");
    }
    f.run("CREATE SCHEMA s; CREATE TABLE s.t (n INT); INSERT INTO s.t VALUES (8)");
    assert_eq!(f.value("SELECT s.t.n FROM s.t"), "8");
    assert_eq!(f.value("SELECT S.T.N FROM s.t"), "8");
    assert_eq!(f.value("SELECT main.t.n + s.t.n FROM t, s.t"), "15");
    assert_eq!(f.value("SELECT (SELECT main.t.n FROM s.t) FROM t"), "7");
    f.refuses(&[
        ("SELECT zz.main.t.n FROM t", "\"zz.main.t\" does not exist"),
        ("SELECT nosuch.t.n FROM t", "\"nosuch.t\" does not exist"),
        ("SELECT main.t.n FROM s.t", "\"main.t\" does not exist"),
        ("SELECT main.x.n FROM t AS x", "\"main.x\" does not exist"),
        ("SELECT n FROM t WHERE nosuch.t.n = 7", "\"nosuch.t\" does not exist"),
        ("SELECT n FROM t ORDER BY nosuch.t.n", "\"nosuch.t\" does not exist"),
        ("SELECT (SELECT nosuch.t.n) FROM t", "\"nosuch.t\" does not exist"),
        ("UPDATE t SET n = 1 WHERE nosuch.t.n = 7", "\"nosuch.t\" does not exist"),
        ("DELETE FROM t WHERE nosuch.t.n = 7", "\"nosuch.t\" does not exist"),
    ]);
    assert_eq!(f.value("SELECT n FROM t"), "7");
}

#[test]
fn fields_are_told_from_schemas() {
    let f = fixture();
    f.run("CREATE SCHEMA x; CREATE TABLE x.x (x STRUCT(x INT, y INT))");
    f.run("INSERT INTO x.x VALUES ({'x': 1, 'y': 2})");
    assert_eq!(f.value("SELECT x.x.x.y FROM x.x"), "2");
    assert_eq!(f.value("SELECT x.x.x.x FROM x.x"), "1");
    f.run("CREATE TABLE a (t STRUCT(n INT)); INSERT INTO a VALUES ({'n': 5})");
    f.run("CREATE TABLE t (n INT); INSERT INTO t VALUES (6)");
    assert_eq!(f.value("SELECT a.t.n FROM a, t"), "5");
}

#[test]
fn columns_that_differ_in_case_are_ambiguous() {
    let f = fixture();
    f.run("CREATE TABLE l (Key1 INT, a INT); INSERT INTO l VALUES (1, 10)");
    f.run("CREATE TABLE r (KEY1 INT, b INT); INSERT INTO r VALUES (1, 20)");
    f.refuses(&[
        ("SELECT Key1 FROM l, r", "ambiguous"),
        ("SELECT key1 FROM l, r", "ambiguous"),
        ("SELECT a FROM l JOIN r ON l.key1 = r.key1 WHERE KEY1 = 1", "ambiguous"),
        ("SELECT count(*) FROM l, r GROUP BY key1", "ambiguous"),
    ]);
    assert_eq!(f.rows("SELECT l.key1, r.key1 FROM l, r"), ["1|1"]);
    assert_eq!(f.rows("SELECT l.key1 FROM l, r ORDER BY key1"), ["1"]);
    assert_eq!(f.rows("SELECT key1, a, b FROM l JOIN r USING (key1)"), ["1|10|20"]);
    assert_eq!(f.rows("SELECT a FROM l SEMI JOIN r ON l.key1 = r.key1 WHERE key1 = 1"), ["10"]);
    assert_eq!(
        f.rows("SELECT a FROM l WHERE EXISTS (SELECT 1 FROM r WHERE key1 = l.KEY1)"),
        ["10"]
    );
    // Each query has its own.
    assert_eq!(f.rows("SELECT key1, (SELECT max(key1) FROM r) FROM l"), ["1|1"]);
}

#[test]
fn a_column_goes_before_an_alias_of_another_case() {
    let f = fixture();
    f.run("CREATE TABLE p (Price INT); INSERT INTO p VALUES (3), (4)");
    assert_eq!(f.rows("SELECT max(price) AS price FROM p"), ["4"]);
    assert_eq!(f.rows("SELECT -price AS price FROM p WHERE PRICE > 3"), ["-4"]);
    assert_eq!(f.rows("SELECT price + 1 AS price FROM p GROUP BY price ORDER BY 1"), ["4", "5"]);
    // In ORDER BY the alias goes first.
    assert_eq!(f.rows("SELECT -price AS price FROM p ORDER BY Price"), ["-4", "-3"]);
    assert_eq!(f.rows("SELECT -price AS price FROM p ORDER BY price"), ["-4", "-3"]);
    assert_eq!(f.rows("SELECT price FROM p ORDER BY PRICE DESC"), ["4", "3"]);
    let sql =
        "SELECT list_transform([1], PRICE -> price + 1)[1] AS x, price FROM p WHERE price = 3";
    assert_eq!(f.rows(sql), ["2|3"]);
}

#[test]
fn columns_of_views_and_queries_go_before_aliases_of_another_case() {
    let f = fixture();
    f.run("CREATE TABLE t (Price INT, b INT); INSERT INTO t VALUES (1, 10), (3, 20)");
    f.run("CREATE VIEW v AS SELECT Price, b FROM t");
    f.run("CREATE VIEW w AS SELECT Price AS \"pRICE\", b FROM t");
    let sub = "(SELECT \"Price\", b FROM t)";
    let with = |sql: &str| format!("WITH c AS {sub} {sql}");
    for from in ["v", "w", &format!("{sub} AS x"), "(SELECT * FROM v) AS s"] {
        assert_eq!(f.rows(&format!("SELECT max(price) AS price FROM {from}")), ["3"], "{from}");
        let sql = format!("SELECT price + 1 AS price FROM {from} WHERE price > 1");
        assert_eq!(f.rows(&sql), ["4"], "{from}");
        let sql =
            format!("SELECT b, max(price) AS PRICE FROM {from} GROUP BY b HAVING max(price) > 1");
        assert_eq!(f.rows(&sql), ["20|3"], "{from}");
        let sql = format!("SELECT price + 1 AS price FROM {from} GROUP BY price ORDER BY 1");
        assert_eq!(f.rows(&sql), ["2", "4"], "{from}");
    }
    assert_eq!(f.rows(&with("SELECT max(price) AS price FROM c")), ["3"]);
    assert_eq!(
        f.rows(&with("SELECT price AS p, b AS PRICE FROM c ORDER BY price DESC")),
        ["3|20", "1|10"]
    );
    let united = "WITH c AS (SELECT price AS PRICE FROM t) SELECT price FROM c ORDER BY 1";
    assert_eq!(f.rows(united), ["1", "3"]);
    assert_eq!(f.rows("SELECT (SELECT max(price) FROM w) AS price FROM v"), ["3", "3"]);
    assert_eq!(
        f.rows("SELECT price FROM v WHERE price = (SELECT max(price) AS price FROM w)"),
        ["3"]
    );
    assert_eq!(
        f.rows("SELECT c.price FROM (SELECT price AS PRICE FROM v) c ORDER BY 1"),
        ["1", "3"]
    );
    f.refuses(&[("SELECT price FROM v, w", "ambiguous")]);
    // A function's columns may be spelled in any way; what is asked about asks nothing of itself.
    let nested = "WITH r AS (SELECT range AS i FROM range(4))
                  SELECT count(*) FROM (SELECT i FROM r INTERSECT SELECT i FROM r WHERE i < 3)";
    assert_eq!(f.rows(nested), ["3"]);
}
