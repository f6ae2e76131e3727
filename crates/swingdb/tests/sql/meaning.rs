//! What SQL means where the query engine, left to itself, answers something else.
//!
//! Each of these was found by comparing random queries with DuckDB (`tests/oracle`).

use super::common::{Fixture, fixture};

/// `t`: 1, 2, NULL; `u`: 1, NULL; `e`: nothing.
fn memberships() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE t (a INT, b DOUBLE)");
    f.run("INSERT INTO t VALUES (1, 0.5), (2, -0.5), (NULL, NULL)");
    f.run("CREATE TABLE u (a INT)");
    f.run("INSERT INTO u VALUES (1), (NULL)");
    f.run("CREATE TABLE e (a INT)");
    f
}

#[test]
fn a_constant_is_not_in_a_list_with_a_null() {
    let f = memberships();
    let all = ["-", "1", "2"];
    for (condition, expected) in [
        ("5 NOT IN (SELECT a FROM u)", [].as_slice()),
        ("NOT (5 IN (SELECT a FROM u))", &[]),
        ("NULL NOT IN (SELECT a FROM u)", &[]),
        ("NULL NOT IN (SELECT a FROM e)", &all),
        ("5 NOT IN (SELECT a FROM e)", &all),
        ("5 NOT IN (SELECT a FROM u WHERE a IS NOT NULL)", &all),
        ("1 NOT IN (SELECT a FROM u WHERE a IS NOT NULL)", &[]),
        ("1 IN (SELECT a FROM u)", &all),
        ("5 IN (SELECT a FROM u)", &[]),
        ("2 + 3 NOT IN (SELECT a FROM u GROUP BY a)", &[]),
        ("5 NOT IN (SELECT a FROM u UNION ALL SELECT 7)", &[]),
        ("CASE WHEN true THEN 5 ELSE a END NOT IN (SELECT a FROM u)", &[]),
    ] {
        let sql = format!("SELECT a FROM t WHERE {condition} ORDER BY a NULLS FIRST");
        assert_eq!(f.rows(&sql), expected, "{sql}");
    }
}

#[test]
fn a_list_with_a_case_is_computed_for_each_row() {
    let f = memberships();
    for (condition, expected) in [
        ("2 IN (CASE a WHEN a THEN a ELSE 7 END, 98, 1)", ["2"].as_slice()),
        ("2 NOT IN (CASE a WHEN a THEN a ELSE 7 END, 98, 1)", &["-", "1"]),
        ("7 IN (98, abs(CASE a WHEN 2 THEN 0 WHEN a THEN a ELSE -7 END))", &["-"]),
        ("'x' IN (CASE WHEN a = 1 THEN 'x' ELSE 'y' END, 'z')", &["1"]),
        ("7 IN (CASE 1 WHEN 1 THEN 7 END, 98)", &["-", "1", "2"]),
    ] {
        let sql = format!("SELECT a FROM t WHERE {condition} ORDER BY a NULLS FIRST");
        assert_eq!(f.rows(&sql), expected, "{sql}");
    }
}

#[test]
fn unknown_memberships_are_not_false() {
    let f = memberships();
    for (condition, expected) in [
        ("coalesce(2 IN (SELECT u.a FROM u), true)", ["-", "1", "2"].as_slice()),
        ("coalesce(t.a IN (SELECT u.a FROM u), true)", &["-", "1", "2"]),
        ("(t.a IN (SELECT u.a FROM u)) IS NULL", &["-", "2"]),
        ("(t.a IN (SELECT u.a FROM u)) = (t.a = 1)", &["1"]),
        ("t.a = 2 OR t.a IN (SELECT u.a FROM u)", &["1", "2"]),
        ("t.a = 2 OR abs(t.a) NOT IN (SELECT u.a FROM u)", &["2"]),
        ("CASE WHEN t.a IN (SELECT u.a FROM u) THEN false ELSE true END", &["-", "2"]),
    ] {
        let sql = format!("SELECT a FROM t WHERE {condition} ORDER BY a NULLS FIRST");
        assert_eq!(f.rows(&sql), expected, "{sql}");
    }
}

#[test]
fn only_the_nulls_of_a_rows_own_list_make_it_unknown() {
    let f = memberships();
    for (condition, expected) in [
        ("a NOT IN (SELECT a FROM u WHERE u.a = t.a)", ["-", "2"].as_slice()),
        ("a NOT IN (SELECT u.a + 1 FROM u WHERE u.a = t.a)", &["-", "1", "2"]),
        ("5 NOT IN (SELECT a FROM u WHERE u.a = t.a)", &["-", "1", "2"]),
        ("CAST(1 AS BIGINT) IN (SELECT a FROM u WHERE u.a = t.a)", &["1"]),
        ("a NOT IN (SELECT u.a FROM u WHERE coalesce(u.a, 2) = t.a)", &["-"]),
        ("a NOT IN (SELECT u.a FROM u WHERE u.a < t.a OR u.a IS NULL)", &[]),
        ("a NOT IN (SELECT u.a FROM u WHERE u.a < t.a)", &["-", "1", "2"]),
        ("b < 0 AND a NOT IN (SELECT u.a FROM u WHERE u.a <= t.a)", &["2"]),
        ("a NOT IN (SELECT a FROM u)", &[]),
        ("a IN (SELECT u.a FROM u WHERE u.a = t.a AND u.a > 0)", &["1"]),
        ("a + 1 IN (SELECT 2 FROM u WHERE u.a = t.a)", &["1"]),
        ("a NOT IN (SELECT a FROM e)", &["-", "1", "2"]),
        ("a NOT IN (SELECT a FROM u WHERE a = 1)", &["2"]),
        ("a NOT IN (SELECT DISTINCT u.a FROM u WHERE u.a = t.a)", &["-", "2"]),
        ("a NOT IN (SELECT max(u.a) FROM u WHERE u.a = t.a)", &[]),
        ("a IN (SELECT max(u.a) FROM u WHERE u.a = t.a)", &["1"]),
        ("a NOT IN (SELECT count(*) FROM u WHERE u.a = t.a)", &["2"]),
        ("0 IN (SELECT count(*) FROM u WHERE u.a = t.a)", &["-", "2"]),
        ("EXISTS (SELECT max(u.a) FROM u WHERE u.a = t.a)", &["-", "1", "2"]),
        ("NOT EXISTS (SELECT count(*) FROM u WHERE u.a = t.a)", &[]),
        ("EXISTS (SELECT u.a FROM u WHERE u.a = t.a LIMIT 1)", &["1"]),
    ] {
        let sql = format!("SELECT a FROM t WHERE {condition} ORDER BY a NULLS FIRST");
        assert_eq!(f.rows(&sql), expected, "{sql}");
    }
}

#[test]
fn what_the_engine_would_drop_is_kept() {
    let f = memberships();
    for (condition, expected) in [
        ("EXISTS (SELECT 1 FROM u WHERE u.a = t.a OFFSET 1)", [].as_slice()),
        ("EXISTS (SELECT 1 FROM u WHERE u.a = t.a OFFSET 0)", &["1"]),
        ("(EXISTS (SELECT 1 FROM u LIMIT 0)) IS NULL", &[]),
        ("b > 0 AND a IN (SELECT u.a FROM u ORDER BY u.a NULLS FIRST LIMIT 1)", &[]),
    ] {
        let sql = format!("SELECT a FROM t WHERE {condition} ORDER BY a NULLS FIRST");
        assert_eq!(f.rows(&sql), expected, "{sql}");
    }
    for (column, expected) in [
        ("EXISTS (SELECT 1 FROM u LIMIT 0)", "false"),
        ("EXISTS (SELECT 1 FROM u OFFSET 100)", "false"),
        ("1 IN (SELECT u.a FROM u WHERE u.a IS NOT NULL LIMIT 0)", "false"),
        ("NULL IN (SELECT u.a FROM u LIMIT 0)", "false"),
    ] {
        assert_eq!(f.value(&format!("SELECT {column}")), expected, "{column}");
    }
}

#[test]
fn statements_change_only_rows_that_are_known_not_to_be_in_a_list() {
    let f = memberships();
    f.run("DELETE FROM t WHERE 5 NOT IN (SELECT a FROM u)");
    f.run("UPDATE t SET b = 9 WHERE 5 NOT IN (SELECT a FROM u)");
    assert_eq!(f.value("SELECT count(*), max(b) FROM t"), "3|0.5");
    f.run("DELETE FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.a = t.a)");
    assert_eq!(f.rows("SELECT a, b FROM t"), ["1|0.5"]);
}

#[test]
fn conditions_stay_above_aggregates_that_make_a_row_of_nothing() {
    let f = memberships();
    for sql in [
        "SELECT count(*) FROM t HAVING (SELECT false)",
        "SELECT * FROM (SELECT count(*) FROM t) WHERE (SELECT false)",
        "SELECT * FROM (SELECT max(a) FROM t) WHERE (SELECT min(a) > 5 FROM u)",
        "SELECT n FROM (SELECT count(*) AS n FROM t) WHERE n = 3 AND (SELECT false)",
        "SELECT 1 FROM (SELECT 'a' AS x FROM (SELECT a FROM t GROUP BY ROLLUP (a))) WHERE x <> 'a'",
    ] {
        assert_eq!(f.rows(sql), [""; 0], "{sql}");
    }
    assert_eq!(f.value("SELECT count(*) FROM t HAVING (SELECT true)"), "3");
    assert_eq!(f.value("SELECT count(*) FROM t WHERE (SELECT false)"), "0");
}

/// Conditions without columns are not those of another occurrence of the same query.
#[test]
fn conditions_stay_above_one_name_of_a_query() {
    let f = memberships();
    for (sql, expected) in [
        (
            "WITH r AS (SELECT range AS x FROM range(20) LIMIT 10)
             SELECT (SELECT count(*) FROM r WHERE x < NULL::BIGINT), (SELECT count(*) FROM r)",
            "0|10",
        ),
        (
            "WITH r AS (SELECT range AS x FROM range(20) LIMIT 10)
             SELECT (SELECT count(*) FROM r), (SELECT count(*) FROM r WHERE (SELECT false))",
            "10|0",
        ),
        (
            "SELECT count(*) FROM (SELECT a, b FROM t LIMIT 2) AS s
             WHERE b > (SELECT min(a) FROM u WHERE u.a <> s.a AND u.a < NULL::BIGINT)",
            "0",
        ),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
}

/// Each row of what is drawn from is drawn for, whatever the rows are made of.
#[test]
fn conditions_that_draw_random_numbers_stay() {
    let f = fixture();
    for sql in [
        "SELECT max(n) > 5000 FROM (SELECT row_number() OVER () AS n FROM range(10000))
         WHERE random() < 0.1",
        "SELECT count(*) = 0 FROM (SELECT count(*) AS c FROM range(10000) GROUP BY range % 10)
         WHERE random() < 0.5 AND c <> 1000",
        "SELECT count(*) BETWEEN 300 AND 700
         FROM (SELECT DISTINCT range % 1000 FROM range(100000)) WHERE random() < 0.5",
        "SELECT count(*) BETWEEN 300 AND 700
         FROM (SELECT unnest(range(1000))) WHERE random() < 0.5",
        "WITH r AS (SELECT random() AS x FROM range(1000))
         SELECT (SELECT count(*) FROM r WHERE random() < 0.5) < 700
                AND (SELECT count(*) FROM r) = 1000",
        "SELECT count(DISTINCT c) > 3 FROM (SELECT a, count(*) AS c
         FROM range(100) a, range(100) b WHERE random() < 0.5 AND a < 80 GROUP BY 1)",
        "SELECT count(DISTINCT c) > 3 FROM (SELECT b, count(*) AS c
         FROM range(100) a JOIN range(100) b ON random() < 0.5 AND a < 80 GROUP BY 1)",
        "SELECT count(DISTINCT c) > 3 FROM (SELECT a, count(*) AS c
         FROM range(100) a LEFT JOIN range(100) b ON random() < 0.5 GROUP BY 1)",
        "SELECT count(DISTINCT c) > 3 FROM (SELECT b, count(*) AS c
         FROM range(100) a LEFT JOIN range(100) b ON random() < 0.5 AND b < 80 GROUP BY 1)",
        "SELECT count(*) BETWEEN 200 AND 600 FROM (SELECT * FROM range(1000) WHERE random() < 0.8)
         WHERE range % 2 = 0 AND random() < 0.9",
    ] {
        assert_eq!(f.value(sql), "true", "{sql}");
    }
}

#[test]
fn filtered_aggregates_of_aggregates() {
    let f = memberships();
    for (sql, expected) in [
        ("SELECT count(*) FILTER (WHERE c > 0) FROM (SELECT count(*) AS c FROM t)", "1"),
        ("SELECT max(c) FILTER (WHERE c > 9) FROM (SELECT max(a) AS c FROM t)", "-"),
        (
            "SELECT sum(1) FILTER (WHERE 12 > 11), count(*) FROM \
             (SELECT min(a) FROM t WHERE false HAVING count(*) < 0) HAVING count(*) < 3",
            "-|0",
        ),
        ("SELECT count(*), max(a) FROM t", "3|2"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
}

#[test]
fn the_sum_of_nothing_is_null() {
    let f = memberships();
    assert_eq!(f.value("SELECT sum(v) FROM (SELECT 5 AS v FROM e)"), "-");
    assert_eq!(f.value("SELECT sum(v) FROM (SELECT -abs(0.48) AS v FROM e)"), "-");
    assert_eq!(f.value("SELECT sum(v), max(v), count(v) FROM (SELECT 5 AS v FROM t)"), "15|5|3");
}

#[test]
fn set_operations_with_all_count_rows() {
    let f = fixture();
    f.run("CREATE TABLE l (a INT, s VARCHAR)");
    f.run("INSERT INTO l VALUES (1,'x'),(1,'x'),(1,'x'),(NULL,'y'),(NULL,'y'),(3,NULL),(4,'z')");
    f.run("CREATE TABLE r (a BIGINT, s VARCHAR)");
    f.run("INSERT INTO r VALUES (1,'x'),(1,'x'),(NULL,'y'),(3,NULL),(3,NULL),(5,'w')");
    let both = |operation: &str| {
        f.rows(&format!("SELECT a, s FROM l {operation} SELECT a, s FROM r ORDER BY 1, 2"))
    };
    assert_eq!(both("INTERSECT ALL"), ["1|x", "1|x", "3|-", "-|y"]);
    assert_eq!(both("EXCEPT ALL"), ["1|x", "4|z", "-|y"]);
    assert_eq!(both("INTERSECT"), ["1|x", "3|-", "-|y"]);
    assert_eq!(both("EXCEPT"), ["4|z"]);
    let once = "SELECT a FROM l INTERSECT ALL SELECT DISTINCT a FROM l ORDER BY 1";
    assert_eq!(f.rows(once), ["1", "3", "4", "-"]);
    let nested =
        "SELECT a FROM l EXCEPT ALL (SELECT a FROM r INTERSECT ALL SELECT a FROM l) ORDER BY 1";
    assert_eq!(f.rows(nested), ["1", "4", "-"]);
    assert_eq!(
        f.value("SELECT count(*) FROM (SELECT * FROM l INTERSECT ALL SELECT * FROM l)"),
        "7"
    );
    assert_eq!(f.value("SELECT count(*) FROM (SELECT * FROM l EXCEPT ALL SELECT * FROM l)"), "0");
}

#[test]
fn casts_to_whole_numbers_round() {
    let f = fixture();
    assert_eq!(
        f.value("SELECT CAST(2.7 AS INT), CAST(-2.5 AS INT), 2.5::BIGINT, CAST(2.49 AS TINYINT)"),
        "3|-3|3|2"
    );
    assert_eq!(
        f.value(
            "SELECT CAST(2.5::DOUBLE AS INT), CAST(3.5::DOUBLE AS INT), (-0.5::REAL)::SMALLINT"
        ),
        "2|4|0"
    );
    assert_eq!(f.value("SELECT TRY_CAST(127.5 AS TINYINT), TRY_CAST(127.4 AS TINYINT)"), "-|127");
    assert!(f.error("SELECT CAST(127.5 AS TINYINT)").to_string().contains("128"));
    f.run("CREATE TABLE t (x DOUBLE, d DECIMAL(6, 3))");
    f.run("INSERT INTO t VALUES (1.5, 1.5), (2.5, 2.5), (NULL, NULL)");
    assert_eq!(
        f.rows("SELECT CAST(x AS INT), CAST(d AS INT), count(*) FROM t GROUP BY 1, 2 ORDER BY 1"),
        ["2|2|1", "2|3|1", "-|-|1"]
    );
    assert_eq!(f.value("SELECT count(*) FROM t WHERE CAST(d AS INT) = 3"), "1");
    assert_eq!(f.value("SELECT count(*) FROM t WHERE CAST(x AS INT) = 2"), "2");
    f.run("CREATE TABLE stored (x INT, d INT)");
    f.run("INSERT INTO stored SELECT x, d FROM t");
    let cast = f.rows("SELECT CAST(x AS INT), CAST(d AS INT) FROM t ORDER BY ALL");
    assert_eq!(f.rows("SELECT x, d FROM stored ORDER BY ALL"), cast);
}

/// Conditions that a running join hands down must reach the column they are about, not another of
/// the same name.
#[test]
fn joins_of_tables_whose_columns_have_the_same_names() {
    let f = fixture();
    f.run("CREATE TABLE t (c0 INT, c1 VARCHAR, c2 SMALLINT, c3 DECIMAL(9, 2))");
    f.run(
        "INSERT INTO t SELECT value % 5 + 1, 'row ' || value, value % 4 - 3, value * 0.25 - 2.75 \
         FROM range(7) AS value",
    );
    f.run("CREATE TABLE v (c0 INT, c1 VARCHAR, c2 UTINYINT, c3 INT)");
    f.run(
        "INSERT INTO v SELECT value % 100 - 3, 'other ' || value, value % 90, value % 7 - 3 \
         FROM range(300) AS value",
    );
    for join in ["JOIN", "LEFT JOIN"] {
        for kept in ["a.*", "a.c0", "b.*", "a.*, v.*", "a.c3"] {
            let from =
                format!("FROM t AS a {join} v ON a.c2 = v.c3 RIGHT JOIN t AS b ON v.c0 = b.c2");
            let counted = f.value(&format!("SELECT count(*) {from}"));
            let fetched = f.rows(&format!("SELECT {kept} {from}")).len();
            assert_eq!(fetched.to_string(), counted, "SELECT {kept} {from}");
            assert!(fetched > 10, "{fetched} rows say nothing");
        }
    }
    let expected = f.rows(
        "SELECT a.c1, b.c1 FROM t AS a, v, t AS b WHERE a.c2 = v.c3 AND v.c0 = b.c2 ORDER BY ALL",
    );
    let joined = "SELECT a.*, b.* FROM t AS a JOIN v ON a.c2 = v.c3 JOIN t AS b ON v.c0 = b.c2";
    let joined =
        format!("SELECT q.l, q.r FROM ({joined}) AS q(c0, l, c2, c3, d0, r, d2, d3) ORDER BY ALL");
    assert_eq!(f.rows(&joined), expected);
    assert!(expected.len() > 10, "{expected:?}");
}

#[test]
fn a_semi_join_hands_conditions_to_the_column_it_joins_by() {
    let f = fixture();
    f.run("CREATE TABLE a AS SELECT range AS id, range % 10 AS k FROM range(1000)");
    f.run("CREATE TABLE b AS SELECT range + 500 AS foo, range AS id FROM range(400)");
    f.run("CREATE TABLE c AS SELECT range + 600 AS id FROM range(5)");
    let sql = "SELECT a.id FROM c JOIN (SELECT * FROM a WHERE id IN (SELECT foo FROM b)) AS a \
               ON a.id = c.id ORDER BY 1";
    assert_eq!(f.rows(sql), ["600", "601", "602", "603", "604"]);
}

#[test]
fn columns_may_be_named_twice() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 1 AS id, 'x' AS s");
    f.run("CREATE TABLE u AS SELECT 1 AS id, 'y' AS s");
    for (sql, expected) in [
        ("SELECT t.id, t.id FROM t", "1|1"),
        ("SELECT t.id, id, id FROM t", "1|1|1"),
        ("SELECT id, t.id, t.id FROM t", "1|1|1"),
        ("SELECT DISTINCT t.id, t.id FROM t ORDER BY 1 LIMIT 1", "1|1"),
        ("SELECT t.id, u.id, t.s, u.s FROM t JOIN u ON t.id = u.id", "1|1|x|y"),
        ("SELECT t.s, u.s FROM t, u INTERSECT SELECT 'x', 'y'", "x|y"),
        ("SELECT t.s, u.s, t.s FROM t, u UNION SELECT 'x', 'y', 'x'", "x|y|x"),
        ("SELECT CAST(id AS VARCHAR), id, count(*) FROM t GROUP BY 1, 2", "1|1|1"),
        ("SELECT sum(CAST(id AS DOUBLE)), sum(id), max(id::VARCHAR), max(id) FROM t", "1.0|1|1|1"),
        ("SELECT id::DOUBLE, id::VARCHAR, id FROM t GROUP BY 1, id::VARCHAR, 3", "1.0|1|1"),
    ] {
        assert_eq!(f.rows(sql), [expected], "{sql}");
    }
}

#[test]
fn limits_keep_the_order_of_what_is_one_constant_a_branch() {
    let f = fixture();
    f.run("CREATE TABLE t (a INT)");
    f.run("INSERT INTO t VALUES (NULL), (NULL), (NULL), (1)");
    let union = "SELECT 8.96 AS x, a FROM t UNION ALL SELECT 6.89, a FROM t";
    for (order, expected) in [
        ("2 NULLS FIRST, 1 DESC LIMIT 2", ["8.96|-", "8.96|-"].as_slice()),
        ("2 NULLS FIRST, 1 LIMIT 2", &["6.89|-", "6.89|-"]),
        ("2, 1 DESC LIMIT 3 OFFSET 1", &["6.89|1", "8.96|-", "8.96|-"]),
        ("1 DESC, 2 LIMIT 1", &["8.96|1"]),
        ("1, 2 LIMIT 1", &["6.89|1"]),
    ] {
        let sql = format!("{union} ORDER BY {order}");
        assert_eq!(f.rows(&sql), expected, "{sql}");
    }
}

#[test]
fn order_by_all_columns() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 3 - range / 2 AS a, 9 - range AS b FROM range(4)");
    assert_eq!(f.rows("SELECT a, b FROM t ORDER BY ALL"), ["2|6", "2|7", "3|8", "3|9"]);
    assert_eq!(f.rows("SELECT * FROM t ORDER BY ALL DESC"), ["3|9", "3|8", "2|7", "2|6"]);
    assert_eq!(f.rows("SELECT b FROM t UNION SELECT 1 ORDER BY ALL"), ["1", "6", "7", "8", "9"]);
    let both = "SELECT * FROM t WHERE a = 2 UNION SELECT b, a FROM t ORDER BY ALL";
    assert_eq!(f.rows(both), ["2|6", "2|7", "6|2", "7|2", "8|3", "9|3"]);
    let joined = "SELECT * FROM t JOIN t u USING (b) ORDER BY ALL LIMIT 1";
    assert_eq!(f.rows(joined), ["2|6|2"]);
    let joined = "SELECT * FROM t, t u WHERE u.b = 8 ORDER BY ALL DESC LIMIT 2";
    assert_eq!(f.rows(joined), ["3|9|3|8", "3|8|3|8"]);
}

#[test]
fn zero_is_one_number() {
    let f = fixture();
    f.run("CREATE TABLE t (i INT, a DOUBLE, r REAL)");
    f.run("INSERT INTO t VALUES (1, 0.0, 0.0), (3, 1, 1)");
    f.run("INSERT INTO t SELECT 2, ceil(CAST(-0.5 AS DOUBLE)), ceil(CAST(-0.5 AS REAL))");
    for condition in [
        "a = 0",
        "a IN (0, 5)",
        "a IN (0, 2, 3, 4, 5, 6, 7, 8)",
        "r IN (9, 2, 3, 4, 5, 6, 7, 0)",
        "a IN (i * 0, 7, 8)",
        "nullif(a, 0) IS NULL",
        "nullif(0, r) IS NULL",
        "CASE a WHEN 5 THEN false WHEN 0 THEN true END",
        "a NOT IN (1, 2, 3, 4, 5, 6)",
        "a IN (SELECT a FROM t WHERE i = 1)",
        "r IN (SELECT a FROM t WHERE i = 2)",
        "a NOT IN (SELECT a FROM t WHERE i = 3)",
        "EXISTS (SELECT 1 FROM t AS u WHERE u.a = t.a AND u.i <> t.i)",
    ] {
        assert_eq!(
            f.rows(&format!("SELECT i FROM t WHERE {condition} ORDER BY i")),
            ["1", "2"],
            "{condition}"
        );
    }
    assert_eq!(f.value("SELECT count(DISTINCT a) FROM t"), "2");
    assert_eq!(f.value("SELECT count(*) FROM t JOIN t AS u ON t.a = u.r"), "5");
    assert_eq!(f.rows("SELECT count(*) FROM t GROUP BY r ORDER BY 1"), ["1", "2"]);
}

#[test]
fn windows_in_the_order_of_any_type() {
    let f = fixture();
    f.run("CREATE TABLE t (at TIME, b BLOB, v INT)");
    f.run(
        "INSERT INTO t VALUES ('08:00', X'01', 1), ('09:00', X'02', 2), ('09:00', X'02', 3), \
         (NULL, NULL, 4)",
    );
    for column in ["at", "b"] {
        let sql = format!("SELECT v, sum(v) OVER (ORDER BY {column}) FROM t ORDER BY v");
        assert_eq!(f.rows(&sql), ["1|1", "2|6", "3|6", "4|10"], "{sql}");
        let sql = format!("SELECT v, rank() OVER (ORDER BY {column} DESC) FROM t ORDER BY v");
        assert_eq!(f.rows(&sql).len(), 4, "{sql}");
    }
}

#[test]
fn truth_tests_group_rows() {
    let f = memberships();
    f.run("CREATE TABLE flags (f BOOLEAN, a INT)");
    f.run("INSERT INTO flags VALUES (true, 1), (false, 1), (NULL, 2)");
    let sql = "SELECT (flags.f IS TRUE), count(*) FROM t RIGHT JOIN flags ON t.a = flags.a \
               GROUP BY 1 ORDER BY 1";
    assert_eq!(f.rows(sql), ["false|2", "true|1"]);
    let sql =
        "SELECT DISTINCT (f IS NOT FALSE) FROM flags RIGHT JOIN t ON t.a = flags.a ORDER BY 1";
    assert_eq!(f.rows(sql), ["false", "true"]);
}

#[test]
fn a_membership_in_the_same_table() {
    let f = fixture();
    f.run("CREATE TABLE t (a INT, b INT)");
    f.run("INSERT INTO t VALUES (1, 2), (2, 3), (3, NULL), (NULL, 1)");
    for (sql, expected) in [
        ("SELECT a IN (SELECT b FROM t) FROM t ORDER BY a", "true true true -"),
        ("SELECT a IN (SELECT a FROM t WHERE b = 3) FROM t ORDER BY a", "false true false -"),
        ("SELECT t.a IN (SELECT t.b FROM t WHERE t.b > 2) FROM t ORDER BY a", "false false true -"),
        (
            "SELECT x.a NOT IN (SELECT x.b FROM t x WHERE b > 2) FROM t x ORDER BY a",
            "true true false -",
        ),
        ("SELECT a FROM t WHERE a NOT IN (SELECT b FROM t WHERE b IS NOT NULL) OR a = 2", "2"),
        (
            "SELECT a FROM t x WHERE a NOT IN (SELECT b FROM t x WHERE b > 1) OR b = 3 ORDER BY a",
            "1 2",
        ),
        (
            "SELECT b IN (SELECT y.a FROM t y JOIN t ON t.a = y.a) FROM t ORDER BY a",
            "true true - true",
        ),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn a_value_that_no_row_gives_is_null() {
    let f = fixture();
    f.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR NOT NULL)");
    f.run("INSERT INTO t VALUES (1, 'x')");
    for (sql, expected) in [
        ("SELECT (SELECT id FROM t WHERE id = 7)", "-"),
        ("SELECT (SELECT name FROM t WHERE id = 1)", "x"),
        ("SELECT coalesce((SELECT name FROM t WHERE id = 7), 'none')", "none"),
        ("SELECT (SELECT id FROM t WHERE id = 7) IS NULL", "true"),
        ("SELECT id, (SELECT name FROM t WHERE id = 7) FROM t", "1|-"),
        ("SELECT count(*) FROM t WHERE (SELECT id FROM t WHERE id = 7) IS NULL", "1"),
        ("SELECT (SELECT 1 WHERE false)", "-"),
        ("SELECT (SELECT count(*) FROM t HAVING count(*) > 5)", "-"),
        ("SELECT (SELECT count(*) FROM t WHERE id = 7)", "0"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
    f.run("UPDATE t SET name = coalesce((SELECT name FROM t WHERE id = 7), 'y')");
    assert_eq!(f.value("SELECT name FROM t"), "y");
}

#[test]
fn subtotals_of_an_ordered_table_are_ordered() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT i // 3 AS a, i % 5 AS b FROM range(9) AS i");
    for (sql, expected) in [
        ("SELECT a, count(*) FROM t GROUP BY ROLLUP (a) ORDER BY a", "0|3 1|3 2|3 -|9"),
        ("SELECT a FROM t GROUP BY CUBE (a, b) HAVING b IS NULL ORDER BY a DESC", "2 1 0 -"),
        (
            "SELECT a, b FROM t WHERE a = 1 GROUP BY ROLLUP (a, b) ORDER BY a, b",
            "1|0 1|3 1|4 1|- -|-",
        ),
        (
            "SELECT a, grouping(a) FROM t GROUP BY GROUPING SETS ((a), ()) ORDER BY a",
            "0|0 1|0 2|0 -|1",
        ),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn running_extremes_are_sorted_with_their_nulls() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT i, nullif(i * 5 % 7, 0) AS x FROM range(6) AS i");
    let running = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW";
    for (column, expected) in [
        (format!("max(x) OVER (ORDER BY i {running}) AS m FROM t ORDER BY m"), "5 5 5 6 6 -"),
        (
            format!("max(x) OVER (ORDER BY i {running}) AS m FROM t ORDER BY m NULLS FIRST"),
            "- 5 5 5 6 6",
        ),
        (
            format!("sum(x::UTINYINT) OVER (ORDER BY i {running}) AS m FROM t ORDER BY m"),
            "5 8 9 15 19 -",
        ),
        (format!("min(x) OVER (ORDER BY i {running}) AS m FROM t ORDER BY m DESC"), "5 3 1 1 1 -"),
        (
            format!("min(x) OVER (ORDER BY i {running}) AS m FROM t ORDER BY m DESC NULLS FIRST"),
            "- 5 3 1 1 1",
        ),
    ] {
        assert_eq!(f.rows(&format!("SELECT {column}")).join(" "), expected, "{column}");
    }
}

#[test]
fn intervals_are_ranked() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT INTERVAL (range) DAY AS i FROM range(3)");
    assert_eq!(f.rows("SELECT rank() OVER (ORDER BY i) FROM t ORDER BY 1"), ["1", "2", "3"]);
}

#[test]
fn distinct_from_compares_two_values() {
    let f = memberships();
    for (condition, expected) in [
        ("true IS DISTINCT FROM false AND false", "false"),
        ("false IS NOT DISTINCT FROM false OR true", "true"),
        ("false AND true IS DISTINCT FROM true OR true", "true"),
        ("NOT 1 IS DISTINCT FROM 1", "true"),
        ("1 IS NOT DISTINCT FROM 2 - 1 AND 2 IS DISTINCT FROM NULL", "true"),
        ("CASE WHEN 1 IS DISTINCT FROM 2 THEN 'x' END IS NOT DISTINCT FROM 'x'", "true"),
    ] {
        assert_eq!(f.value(&format!("SELECT {condition}")), expected, "{condition}");
    }
    let sql = "SELECT t.a FROM t JOIN u ON t.a IS NOT DISTINCT FROM u.a AND t.b IS DISTINCT FROM 7 \
               ORDER BY 1";
    assert_eq!(f.rows(sql), ["1", "-"]);
}

#[test]
fn relations_of_subqueries_hide_outer_ones() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT * FROM (VALUES (1, 10), (2, 20), (3, 30)) AS s (a, b)");
    f.run("CREATE TABLE v AS SELECT * FROM (VALUES (10, 1), (20, 2), (0, 3)) AS s (a, b)");
    let from = "FROM t LEFT JOIN t AS x ON t.a = x.a";
    for (condition, expected) in [
        ("t.b IN (SELECT t.a FROM v AS t WHERE t.b = x.a)", "1 2"),
        ("t.b NOT IN (SELECT t.a FROM v AS t WHERE t.b = x.a)", "3"),
        ("(0 - t.b) IN (SELECT -10 FROM v AS t WHERE t.b = x.a AND t.a = t.a)", "1"),
        ("NOT (0 - t.b) IN (SELECT -10 FROM v AS t WHERE t.b = x.a AND t.a = t.a)", "2 3"),
        ("t.b = ANY (SELECT t.a FROM v AS t WHERE t.b = x.a)", "1 2"),
        ("EXISTS (SELECT 1 FROM v AS t WHERE t.a = x.b)", "1 2"),
        ("NOT EXISTS (SELECT 1 FROM v AS t WHERE t.a = x.b)", "3"),
        (
            "EXISTS (SELECT 1 FROM (SELECT t.a AS z FROM v AS t WHERE t.b = 1) AS q \
             WHERE q.z = t.b + x.a - 1)",
            "1",
        ),
        ("EXISTS (SELECT 1 FROM v WHERE v.b = x.a AND v.a IN (SELECT v.b FROM t AS v))", "1 2"),
        ("(SELECT max(t.b) FROM v AS t WHERE t.a = x.b) = t.a", "1 2"),
        ("t.b > (SELECT max(main.t.b) FROM t WHERE main.t.a = x.a - 1)", "2 3"),
    ] {
        let sql = format!("SELECT t.a {from} WHERE {condition} ORDER BY 1");
        assert_eq!(f.rows(&sql).join(" "), expected, "{condition}");
    }
    let sql = format!(
        "SELECT t.a, (SELECT max(t.b) FROM v AS t WHERE t.a = x.b), \
         t.b IN (SELECT t.a FROM v AS t WHERE t.b = x.a) {from} ORDER BY 1"
    );
    assert_eq!(f.rows(&sql), ["1|1|true", "2|2|true", "3|-|false"]);
    // A name alone inside is of the query that it stands in.
    let members = "1 IN (SELECT 1 FROM v AS y WHERE b IN (SELECT v.b FROM v WHERE v.b = y.b))";
    assert_eq!(f.rows(&format!("SELECT {members} FROM t")), ["true"; 3]);
    assert_eq!(f.rows(&format!("SELECT a FROM t WHERE a > 5 OR NOT {members}")).len(), 0);
    f.run("UPDATE t SET a = (SELECT max(t.b) FROM v AS t WHERE t.a = 10) + 6 WHERE b < 20");
    f.run("DELETE FROM t WHERE b NOT IN (SELECT t.a FROM v AS t WHERE t.b < 2)");
    assert_eq!(f.rows("SELECT * FROM t"), ["7|10"]);
}

#[test]
fn an_equation_of_three_relations_is_kept() {
    let f = fixture();
    f.run("CREATE TABLE a AS SELECT range AS x FROM range(10)");
    f.run("CREATE TABLE b AS SELECT range AS y FROM range(10)");
    for relations in [
        "(SELECT DISTINCT x FROM a) d CROSS JOIN b JOIN (SELECT * FROM b WHERE y > 2) r
         ON b.y = r.y + x",
        "(SELECT * FROM b WHERE y > 2) r, b, (SELECT DISTINCT x FROM a) d WHERE r.y + x = b.y",
        "a d CROSS JOIN b CROSS JOIN (SELECT * FROM b WHERE y > 2) r WHERE b.y - x = r.y",
    ] {
        assert_eq!(f.value(&format!("SELECT count(*) FROM {relations}")), "28", "{relations}");
    }
}

#[test]
fn groups_of_groups_are_by_all_their_columns() {
    let f = fixture();
    f.run("CREATE TABLE p (id BIGINT PRIMARY KEY, v BIGINT)");
    f.run("INSERT INTO p SELECT range, range % 3 FROM range(5)");
    f.run("CREATE TABLE s AS SELECT range AS n, range % 11 AS x FROM range(100)");
    // The groups themselves, in a table that nothing is known about.
    let groups =
        "SELECT p.id, s.x, count(*) AS c FROM p JOIN s ON s.n % 7 > p.id GROUP BY p.id, s.x";
    f.run(&format!("CREATE TABLE g AS {groups}"));
    let keyed = "SELECT d.id, s.x, count(*) AS c FROM (SELECT DISTINCT id FROM p) d
                 JOIN s ON s.n % 7 > d.id GROUP BY d.id, s.x";
    for query in [
        "SELECT id, x, max(c) FROM # GROUP BY id, x",
        "SELECT id, x, c FROM # GROUP BY id, x, c",
        "SELECT DISTINCT id, x FROM #",
        "SELECT DISTINCT id FROM #",
        "SELECT id, sum(c) FROM # GROUP BY id",
        "SELECT id, sum(c) FROM # GROUP BY ALL",
        "SELECT x, count(DISTINCT id) FROM # GROUP BY x HAVING count(*) > 2",
        "SELECT q.id, p.v, sum(c) FROM # q JOIN p ON p.id = q.id GROUP BY q.id, p.v",
        "SELECT p.id, p.v, sum(c) FROM # q JOIN p ON p.id = q.id GROUP BY p.id",
        "SELECT a.id, b.x, count(*) FROM # a JOIN # b ON a.id = b.id GROUP BY a.id, b.x",
        "SELECT id, k FROM (SELECT id, count(*) AS k FROM # GROUP BY id) GROUP BY id, k",
        "SELECT id, count(*) FROM (SELECT id, x FROM # UNION SELECT id, 0 FROM p) GROUP BY id",
    ] {
        let of = |relation: &str| {
            let mut rows = f.rows(&query.replace('#', relation));
            rows.sort();
            rows
        };
        let wanted = of("g");
        assert_eq!(of(&format!("({groups})")), wanted, "{query}");
        assert_eq!(of(&format!("({keyed})")), wanted, "{query}");
    }
    // What a key does determine is there without being grouped by.
    let by_key = "SELECT p.id, p.v, count(*) FROM p JOIN s ON s.n > p.id GROUP BY p.id";
    assert_eq!(f.rows(by_key).len(), 5);
    let error = f.error(&format!("SELECT id, x, sum(c) FROM ({groups}) GROUP BY id")).to_string();
    assert!(error.contains("GROUP BY") && !error.contains("Utf8"), "{error}");
}
