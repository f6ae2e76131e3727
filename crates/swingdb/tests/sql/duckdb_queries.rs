//! Queries in DuckDB's own syntax. What is expected is what DuckDB 2.0 answers, but for names of
//! unnamed columns.

use super::common::{Fixture, fixture};

fn tables() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE t (i INT, s VARCHAR)");
    f.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a'), (NULL, NULL)");
    f
}

/// Runs queries and compares their rows, separated by spaces.
fn check(f: &Fixture, queries: &[(&str, &str)]) {
    for (sql, expected) in queries {
        assert_eq!(f.rows(sql).join(" "), *expected, "{sql}");
    }
}

#[test]
fn isnull_is_an_operator() {
    let f = tables();
    check(
        &f,
        &[
            ("SELECT i ISNULL FROM t ORDER BY i", "false false false true"),
            ("SELECT NOT i ISNULL AND true FROM t ORDER BY i", "true true true false"),
            ("SELECT i = 1 ISNULL x FROM t ORDER BY i", "false false false true"),
            (
                "SELECT NULL ISNULL = false, 'a' || NULL ISNULL, i::INT ISNULL FROM t WHERE i = 1",
                "false|true|false",
            ),
            ("SELECT count(*) FROM t WHERE i ISNULL OR s isnull", "1"),
            ("SELECT i AS isnull FROM t WHERE i = 2", "2"),
            ("SELECT i \"isnull\" FROM t WHERE i = 2", "2"),
        ],
    );
}

#[test]
fn operators_of_numbers() {
    let f = tables();
    check(
        &f,
        &[
            ("SELECT ~i FROM t ORDER BY i", "-2 -3 -4 -"),
            ("SELECT ~5::UTINYINT, ~(~7), ~NULL, -(~1)", "250|7|-|2"),
            ("SELECT ~(-1) + 1, (~2) + 1, ~2 * 3, ~2 + 1 - 4, ~2 = -3", "-1|-2|-7|0|true"),
            ("SELECT 2 ** 3, 2**3 * 2, 2 ** -1, i**2 FROM t WHERE i = 3", "8.0|16.0|0.5|9.0"),
            ("SELECT count(*), 2 * 3 FROM t", "4|6"),
            ("SELECT max(i ORDER BY s), min(i ORDER BY i DESC) FROM t", "3|1"),
        ],
    );
    assert!(f.error("SELECT ~'a'").to_string().contains("whole number"));
}

#[test]
fn intervals_as_a_clock_shows_them() {
    let f = tables();
    check(
        &f,
        &[
            (
                "SELECT TIMESTAMP '2020-01-01' + INTERVAL '1 day 02:03:04.5'",
                "2020-01-02T02:03:04.500",
            ),
            ("SELECT TIMESTAMP '2020-01-01' - '-02:03'::INTERVAL", "2020-01-01T02:03:00"),
            ("SELECT INTERVAL '100:00' = INTERVAL 100 HOUR", "true"),
        ],
    );
}

#[test]
fn from_first_with_other_clauses() {
    let f = tables();
    f.run("CREATE TABLE c AS FROM t WHERE i = 1");
    f.run("CREATE VIEW v AS FROM t WHERE i > 1");
    f.run("PREPARE p AS FROM t WHERE i = ? LIMIT 1");
    check(
        &f,
        &[
            ("FROM t WHERE i = 3", "3|a"),
            ("FROM t ORDER BY i LIMIT 2", "1|a 2|b"),
            ("FROM t ORDER BY i OFFSET 2", "3|a -|-"),
            ("FROM t SELECT s, count(*) GROUP BY s ORDER BY s", "a|2 b|1 -|1"),
            ("FROM t GROUP BY ALL ORDER BY ALL", "1|a 2|b 3|a -|-"),
            ("FROM t QUALIFY row_number() OVER (ORDER BY i) = 1", "1|a"),
            ("FROM t WHERE i = 1 UNION ALL FROM t WHERE i = 2 ORDER BY i", "1|a 2|b"),
            ("(FROM t WHERE i = 3)", "3|a"),
            ("SELECT x.s FROM (FROM t WHERE i = 3) x", "a"),
            ("WITH c AS (FROM t WHERE i = 3) FROM c WHERE i IS NOT NULL", "3|a"),
            ("FROM t x, c WHERE x.i = c.i", "1|a|1|a"),
            ("FROM t WHERE EXISTS (FROM t u WHERE u.i = t.i + 1) ORDER BY i", "1|a 2|b"),
            ("FROM t WHERE i IN (FROM c SELECT i)", "1|a"),
            ("FROM v WHERE s = 'b'", "2|b"),
            ("FROM c", "1|a"),
            ("EXECUTE p(3)", "3|a"),
            ("FROM t WHERE i < 3 AND s IS DISTINCT FROM 'a'", "2|b"),
            ("FROM t WHERE i > 5", ""),
        ],
    );
    f.run("INSERT INTO c FROM t WHERE i = 3");
    f.run("INSERT INTO c (i, s) FROM t WHERE i = 2");
    assert_eq!(f.value("SELECT sum(i) FROM c"), "6");
    // SELECT comes right behind the tables, as in DuckDB.
    f.error("FROM t WHERE i > 1 SELECT i");
}

#[test]
fn fields_of_structs() {
    let f = fixture();
    f.run("CREATE TABLE u (id INT, st STRUCT(a INT, b VARCHAR, \"In\" STRUCT(z INT)))");
    f.run("INSERT INTO u VALUES (1, {'a': 1, 'b': 'x', 'In': {'z': 5}}), (2, NULL)");
    f.run("CREATE VIEW v AS SELECT st.* EXCLUDE (In) FROM u");
    f.run("CREATE TABLE flat AS SELECT id, ST.* FROM U");
    check(
        &f,
        &[
            ("SELECT st.* FROM u ORDER BY id", "1|x|{z: 5} -|-|-"),
            ("SELECT u.st.* EXCLUDE (b, \"In\"), id + 1 FROM u ORDER BY id", "1|2 -|3"),
            ("SELECT x.st.in.* FROM u x ORDER BY id", "5 -"),
            ("FROM v WHERE b = 'x'", "1|x"),
            ("SELECT id, a, b FROM flat ORDER BY id", "1|1|x 2|-|-"),
            ("WITH c AS (SELECT st AS zz FROM u WHERE id = 1) SELECT zz.* FROM c", "1|x|{z: 5}"),
            ("SELECT k.* FROM (SELECT {'n': 7} AS k)", "7"),
            ("SELECT u.* FROM u JOIN flat ON u.id = flat.id WHERE st ISNULL", "2|-"),
            ("SELECT st.* FROM u WHERE false", ""),
        ],
    );
    f.run("CREATE TABLE st (q INT)");
    f.run("INSERT INTO st VALUES (9)");
    assert_eq!(f.rows("SELECT st.* FROM u, st"), ["9", "9"]);
    let schema = f.run("SELECT st.* FROM u").schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["a", "b", "In"]);
    assert!(f.error("SELECT id.* FROM u").to_string().contains("STRUCT"));
    f.error("SELECT nothing.* FROM u");
}

fn names(f: &Fixture, sql: &str) -> String {
    let schema = f.run(sql).schema();
    schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(" ")
}

fn sales() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE p (g INT, s VARCHAR, x INT)");
    f.run(
        "INSERT INTO p VALUES (1, 'b', 10), (1, 'a', 20), (2, 'a', 5), (2, NULL, 7), (3, NULL, 1),
         (NULL, 'a', 2), (1, 'a', 1)",
    );
    f.run("CREATE TABLE m (id INT, a INT, b INT, c BIGINT, s VARCHAR)");
    f.run("INSERT INTO m VALUES (1, 10, 20, 30, 'x'), (2, NULL, 21, 31, 'y')");
    f.run("INSERT INTO m VALUES (3, NULL, NULL, NULL, NULL)");
    f
}

#[test]
fn pivot_asks_for_values() {
    let f = sales();
    for (sql, columns, expected) in [
        ("PIVOT p ON s USING sum(x)", "g a b", "1|21|10 2|5|- 3|-|- -|2|-"),
        ("PIVOT p ON S USING SUM(X) GROUP BY G", "g a b", "1|21|10 2|5|- 3|-|- -|2|-"),
        ("PIVOT p ON s USING sum(x) AS t GROUP BY g", "g a_t b_t", "1|21|10 2|5|- 3|-|- -|2|-"),
        ("PIVOT p ON s GROUP BY g", "g a b", "1|2|1 2|1|0 3|0|0 -|1|0"),
        ("PIVOT p ON g USING sum(x)", "s 1 2 3", "a|21|5|- b|10|-|- -|-|7|1"),
        ("PIVOT p USING sum(x)", "sum(x)", "46"),
        (
            "PIVOT p USING sum(x), min(x) AS least GROUP BY s",
            "s sum(x) least",
            "a|28|1 b|10|10 -|8|1",
        ),
        ("PIVOT (FROM p WHERE false) USING count(*)", "count(*)", "0"),
        ("PIVOT p GROUP BY s", "s", "a b -"),
        ("PIVOT p ON g, s USING sum(x)", "1_a 1_b 2_a 2_b 3_a 3_b", "21|10|5|-|-|-"),
        (
            "PIVOT p ON s USING sum(x), max(x) m GROUP BY g",
            "g a_sum(x) a_m b_sum(x) b_m",
            "1|21|20|10|10 2|5|5|-|- 3|-|-|-|- -|2|2|-|-",
        ),
        ("PIVOT p ON g || '_' || s USING sum(x)", "1_a 1_b 2_a", "21|10|5"),
        ("PIVOT p ON x > 5 USING count(*) GROUP BY g", "g false true", "1|1|2 2|1|1 3|1|0 -|1|0"),
        ("PIVOT p ON s USING coalesce(sum(x), 0) GROUP BY g", "g a b", "1|21|10 2|5|0 3|0|0 -|2|0"),
        ("PIVOT p ON s USING count(DISTINCT x) GROUP BY g", "g a b", "1|2|1 2|1|0 3|0|0 -|1|0"),
        ("PIVOT (SELECT s, x FROM p) ON s USING sum(x)", "a b", "28|10"),
        ("WITH c AS (FROM p WHERE g = 1) PIVOT c ON s USING sum(x)", "g a b", "1|21|10"),
        ("WITH c AS (PIVOT p ON s USING sum(x) GROUP BY g) SELECT b FROM c WHERE g = 1", "b", "10"),
        (
            "PIVOT p JOIN (SELECT 1 AS k, 'w' AS w) u ON p.g = u.k ON s USING sum(x) GROUP BY w",
            "w a b",
            "w|21|10",
        ),
        (
            "PIVOT (SELECT range % 12 AS k FROM range(20)) ON k",
            "0 1 10 11 2 3 4 5 6 7 8 9",
            "2|2|1|1|2|2|2|2|2|2|1|1",
        ),
        ("PIVOT (FROM p WHERE false) ON s USING sum(x) GROUP BY g", "g", ""),
        ("PIVOT p USING sum(x) GROUP BY g", "g sum(x)", "1|31 2|12 3|1 -|2"),
        ("SELECT s.a + 1 AS n FROM (PIVOT p ON s USING sum(x) GROUP BY g) s WHERE g = 2", "n", "6"),
    ] {
        assert_eq!(names(&f, sql), columns, "{sql}");
        assert_eq!(f.rows(&format!("FROM ({sql}) ORDER BY ALL")).join(" "), expected, "{sql}");
    }
    check(
        &f,
        &[
            (
                "PIVOT p ON s USING sum(x) GROUP BY g ORDER BY g DESC NULLS LAST LIMIT 2",
                "3|-|- 2|5|-",
            ),
            (
                "PIVOT p ON s USING sum(x) GROUP BY g UNION ALL SELECT 1, 2, 3 ORDER BY 1, 2",
                "1|2|3 1|21|10 2|5|- 3|-|- -|2|-",
            ),
        ],
    );
}

#[test]
fn pivot_with_named_values() {
    let f = sales();
    for (sql, columns, expected) in [
        (
            "PIVOT p ON s IN ('b', 'a') USING sum(x) GROUP BY g",
            "g b a",
            "1|10|21 2|-|5 3|-|- -|-|2",
        ),
        ("PIVOT p ON s IN ('b' AS bb, z) USING sum(x)", "g bb z", "1|10|- 2|-|- 3|-|- -|-|-"),
        ("PIVOT p ON s IN ('a', NULL) USING sum(x)", "g a NULL", "1|21|- 2|5|7 3|-|1 -|2|-"),
        ("PIVOT p ON s IN ('a'), g IN (1, 2) USING sum(x)", "a_1 a_2", "21|5"),
        ("PIVOT p ON s IN (SELECT 'a') USING sum(x) + 1", "g a", "1|22 2|6 3|- -|3"),
        ("PIVOT p ON g IN (1 + 1) USING sum(x) GROUP BY s", "s 2", "a|5 b|- -|7"),
        ("PIVOT (FROM p WHERE false) ON s IN ('a') USING sum(x)", "g a", ""),
        ("PIVOT (SELECT s, x FROM p WHERE false) ON s IN ('a') USING sum(x)", "a", "-"),
        (
            "FROM p PIVOT (sum(x) FOR s IN ('a', 'b') GROUP BY g)",
            "g a b",
            "1|21|10 2|5|- 3|-|- -|2|-",
        ),
        ("FROM p PIVOT (sum(x) AS q FOR s IN ('a' AS aa) g IN (1, 2))", "aa_1_q aa_2_q", "21|5"),
        (
            "SELECT q.l FROM p PIVOT (sum(x) FOR s IN ('a', 'b')) AS q(k, l, m) WHERE k = 1",
            "l",
            "21",
        ),
    ] {
        assert_eq!(names(&f, sql), columns, "{sql}");
        assert_eq!(f.rows(&format!("FROM ({sql}) ORDER BY ALL")).join(" "), expected, "{sql}");
    }
}

#[test]
fn pivot_in_statements() {
    let f = sales();
    f.run("CREATE TABLE made AS PIVOT p ON s USING sum(x) GROUP BY g");
    f.run("INSERT INTO made PIVOT p ON s USING sum(x) GROUP BY g");
    assert_eq!(f.value("SELECT count(*), sum(a) FROM made"), "8|56");
    f.run("CREATE VIEW v AS PIVOT p ON s IN ('a') USING sum(x) GROUP BY g");
    assert_eq!(f.value("SELECT sum(a) FROM v"), "28");
    f.run("PREPARE q AS PIVOT p ON s USING sum(x) GROUP BY g");
    // Values are asked for at each execution, within the transaction.
    f.run("BEGIN; INSERT INTO p VALUES (1, 'c', 100)");
    assert_eq!(names(&f, "EXECUTE q"), "g a b c");
    f.run("ROLLBACK");
    assert_eq!(names(&f, "EXECUTE q"), "g a b");
    f.run("PREPARE r AS PIVOT p ON s IN ('a') USING sum(x + ?)");
    assert_eq!(f.rows("EXECUTE r(3)").len(), 4);
    f.run("EXPLAIN PIVOT p ON s USING sum(x)");
    f.refuses(&[
        ("CREATE VIEW w AS PIVOT p ON s USING sum(x)", "names its values"),
        ("CREATE VIEW w AS WITH c AS (PIVOT p ON s) FROM c", "names its values"),
        ("PREPARE y AS PIVOT (FROM p WHERE x > ?) ON s; EXECUTE y(1)", "parameters"),
        ("PIVOT p ON s IN ('a', 'a') USING sum(x)", "twice"),
        ("PIVOT p ON zz USING sum(x)", "\"zz\""),
        ("PIVOT p ON s USING sum(x) GROUP BY zz", "\"zz\""),
        ("PIVOT p ON s USING x", "no aggregate"),
        ("PIVOT p ON s USING sum(x) OVER ()", "window"),
        ("PIVOT p ON 'a' USING sum(x)", "no column"),
        ("PIVOT (SELECT s, x FROM p WHERE false) ON s USING sum(x)", "no values"),
    ]);
}

#[test]
fn unpivot_makes_rows() {
    let f = sales();
    f.run("CREATE VIEW v AS UNPIVOT m ON a, b INTO NAME k VALUE v");
    let both = "1|30|x|a|10 1|30|x|b|20 2|31|y|b|21";
    for (sql, columns, expected) in [
        ("UNPIVOT m ON a, b INTO NAME k VALUE v", "id c s k v", both),
        ("UNPIVOT m ON A, m.b", "id c s name value", both),
        ("FROM m UNPIVOT (v FOR k IN (a, b))", "id c s k v", both),
        ("FROM v", "id c s k v", both),
        (
            "FROM m UNPIVOT INCLUDE NULLS (v FOR k IN (a, b)) WHERE id > 1",
            "id c s k v",
            "2|31|y|a|- 2|31|y|b|21 3|-|-|a|- 3|-|-|b|-",
        ),
        (
            "UNPIVOT m ON COLUMNS(* EXCLUDE (id, s)) INTO NAME k VALUE v",
            "id s k v",
            "1|x|a|10 1|x|b|20 1|x|c|30 2|y|b|21 2|y|c|31",
        ),
        ("UNPIVOT (SELECT a, b FROM m) ON *", "name value", "a|10 b|20 b|21"),
        (
            "UNPIVOT m ON a + 1 AS more, b INTO NAME k VALUE v LIMIT 1",
            "id c s k v",
            "1|30|x|more|11",
        ),
        (
            "UNPIVOT m ON (a, b) AS p, (b, c) INTO NAME k VALUE v, w",
            "id s k v w",
            "1|x|p|10|20 1|x|b_c|20|30 2|y|b_c|21|31",
        ),
        ("UNPIVOT m ON a INTO NAME id VALUE v", "id b c s id_1 v", "1|20|30|x|a|10"),
        ("UNPIVOT (PIVOT m ON s USING sum(a)) ON x, y", "id b c name value", "1|20|30|x|10"),
        ("UNPIVOT (FROM m WHERE false) ON a, b", "id c s name value", ""),
        (
            "SELECT k, sum(v) AS t FROM m UNPIVOT (v FOR k IN (a, b)) GROUP BY k ORDER BY k",
            "k t",
            "a|10 b|41",
        ),
    ] {
        assert_eq!(names(&f, sql), columns, "{sql}");
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    f.refuses(&[
        ("UNPIVOT m ON a, s", "cast"),
        ("UNPIVOT m ON *", "cast"),
        ("UNPIVOT m ON zz", "\"zz\""),
        ("UNPIVOT m ON (a, b) INTO NAME k VALUE v", "1 columns of values"),
        ("UNPIVOT m ON 'a'", "not one column"),
    ]);
}

#[test]
fn queries_as_lists() {
    let f = tables();
    f.run("CREATE VIEW v AS SELECT array(SELECT i FROM t ORDER BY i) AS x");
    f.run("CREATE TABLE c AS SELECT array(SELECT i FROM t WHERE i > 1 ORDER BY i) AS x");
    f.run("PREPARE p AS SELECT array(SELECT i FROM t WHERE i > ? ORDER BY i)");
    check(
        &f,
        &[
            ("SELECT array(SELECT i FROM t WHERE i > 0 ORDER BY i DESC)", "[3, 2, 1]"),
            ("SELECT array(SELECT i FROM t WHERE false)", "[]"),
            ("SELECT array(SELECT i FROM t ORDER BY i DESC NULLS LAST LIMIT 2)", "[3, 2]"),
            ("SELECT array(SELECT s FROM t WHERE i > 0 ORDER BY -i)", "[a, b, a]"),
            ("SELECT array(SELECT s FROM t WHERE i > 0 ORDER BY -i LIMIT 2)", "[a, b]"),
            ("SELECT array(SELECT DISTINCT s FROM t WHERE i > 0 ORDER BY 1)", "[a, b]"),
            ("SELECT array(SELECT i AS k FROM t WHERE i > 0 ORDER BY k DESC)", "[3, 2, 1]"),
            ("SELECT array(SELECT 1 UNION ALL SELECT 2 ORDER BY 1 DESC)", "[2, 1]"),
            ("SELECT array(SELECT max(i) FROM t)", "[3]"),
            ("SELECT array(SELECT count(*) FROM t GROUP BY s ORDER BY s)", "[2, 1, 1]"),
            ("SELECT array(FROM range(3))", "[0, 1, 2]"),
            ("SELECT array(VALUES (1), (2))", "[1, 2]"),
            ("SELECT array(SELECT lower(s) FROM t WHERE i = 1)", "[a]"),
            ("SELECT array(WITH c AS (SELECT 1 AS k) SELECT k FROM c)", "[1]"),
            ("SELECT array(SELECT array(SELECT 1))", "[[1]]"),
            (
                "SELECT i, array(SELECT u.s FROM t u WHERE u.i = t.i + 1) FROM t ORDER BY i",
                "1|[b] 2|[a] 3|[] -|[]",
            ),
            ("SELECT i FROM t WHERE i IN (SELECT unnest(array(SELECT 2)))", "2"),
            ("SELECT x[2] FROM v", "2"),
            ("FROM c", "[2, 3]"),
            ("EXECUTE p(2)", "[3]"),
        ],
    );
    f.error("SELECT array(SELECT i, s FROM t)");
}

#[test]
fn one_group_of_all_rows() {
    let f = tables();
    check(
        &f,
        &[
            ("SELECT count(*) FROM t GROUP BY ()", "4"),
            ("SELECT 1 FROM t GROUP BY ()", "1"),
            ("SELECT 1, count(*) FROM t WHERE false GROUP BY ()", "1|0"),
            ("SELECT sum(i) FROM t GROUP BY () HAVING count(*) > 5", ""),
            ("SELECT sum(i) FROM t GROUP BY () HAVING count(*) > 3", "6"),
            ("SELECT s, count(*) FROM t GROUP BY s, () ORDER BY s", "a|2 b|1 -|1"),
            ("SELECT n FROM (FROM t SELECT max(i) AS n GROUP BY ()) WHERE n > 2", "3"),
        ],
    );
    f.error("SELECT i FROM t GROUP BY ()");
}

#[test]
fn members_of_expressions() {
    let f = fixture();
    f.run("CREATE TABLE u (id INT, st STRUCT(a INT, b VARCHAR, inn STRUCT(z INT)))");
    f.run("INSERT INTO u VALUES (1, {'a': 1, 'b': 'x', 'inn': {'z': 5}}), (2, NULL)");
    check(
        &f,
        &[
            ("SELECT {'a': 1, 'b': 'x'}.a, ({'a': 1, 'b': 'x'}).b", "1|x"),
            ("SELECT {'a': {'c': 7}}.a.c, [{'a': 4}][1].a", "7|4"),
            ("SELECT (st).a, (st).Inn.Z + 1 FROM u ORDER BY id", "1|6 -|-"),
            ("SELECT (SELECT st FROM u WHERE id = 1).b", "x"),
            ("SELECT 5 AS a, (st).a FROM u WHERE (st).B = 'x'", "5|1"),
            ("SELECT (CASE WHEN true THEN st END).A FROM u ORDER BY id", "1 -"),
            ("SELECT st['A'], max((st).a) FROM u GROUP BY st ORDER BY 1", "1|1 -|-"),
            ("SELECT id FROM u ORDER BY (st).b NULLS FIRST", "2 1"),
        ],
    );
    assert_eq!(f.run("SELECT (st).a FROM u").schema().field(0).name(), "(st).a");
    f.error("SELECT (st).nope FROM u");
    f.error("SELECT (1).a");
}

#[test]
fn lists_made_from_lists() {
    let f = fixture();
    f.run("CREATE TABLE l (i INT, l INT[])");
    f.run("INSERT INTO l VALUES (1, [1, 2, NULL, 3]), (2, []), (3, NULL)");
    f.run("CREATE VIEW v AS SELECT i, [x * 10 FOR x IN l] AS z FROM l");
    check(
        &f,
        &[
            ("SELECT [x * 2 FOR x IN [1, 2, 3] IF x > 1]", "[4, 6]"),
            ("SELECT [x FOR x IN l IF x IS NOT NULL] FROM l ORDER BY i", "[1, 2, 3] [] -"),
            ("SELECT [x + i FOR x IN l IF x > i] FROM l WHERE i = 1", "[3, 4]"),
            ("SELECT [[y + 1 FOR y IN x] FOR x IN [[1, 2], [3]]]", "[[2, 3], [4]]"),
            ("SELECT [x FOR x IN NULL], [x FOR x IN []]", "-|[]"),
            ("SELECT [upper(x) FOR x IN ['a', 'b'] IF x = 'b'][1]", "B"),
            (
                "SELECT [x IN (1, 2) FOR x IN [1, 3]], [x FOR x IN range(3)]",
                "[true, false]|[0, 1, 2]",
            ),
            ("SELECT [(x).k FOR x IN [{'k': 1}, {'k': 2}]]", "[1, 2]"),
            ("SELECT i FROM l WHERE len([x FOR x IN l IF x > 1]) = 2", "1"),
            ("FROM v ORDER BY i", "1|[10, 20, -, 30] 2|[] 3|-"),
        ],
    );
}

#[test]
fn queries_are_summarized() {
    let f = tables();
    for sql in [
        "SUMMARIZE SELECT i, s FROM t WHERE i > 1",
        "SUMMARIZE FROM t WHERE i > 1",
        "SUMMARIZE (FROM t WHERE i > 1)",
        "SUMMARIZE WITH c AS (FROM t WHERE i > 1) SELECT * FROM c",
    ] {
        let expected = [
            "i|INTEGER|2|3|2|2.5|0.7071067811865476|2.0|2.5|3.0|2|0",
            "s|VARCHAR|a|b|2|-|-|-|-|-|2|0",
        ];
        assert_eq!(f.rows(sql), expected, "{sql}");
    }
    let turned = f.rows("SUMMARIZE PIVOT t ON s USING sum(i) GROUP BY i");
    assert_eq!(turned.len(), 3);
    f.error("SUMMARIZE SELECT nothing FROM t");
}

#[test]
fn glob_is_an_operator() {
    let f = tables();
    check(
        &f,
        &[
            ("SELECT 'name1' GLOB 'name*', 'xname' GLOB 'name*', NULL GLOB 'a'", "true|false|-"),
            ("SELECT 'ab' GLOB 'a[bc]', 'ab' GLOB 'a[!b]', 'AB' GLOB 'a?'", "true|false|false"),
            ("SELECT 'a.b' GLOB 'a.b', 'axb' GLOB 'a.b', ']' GLOB '[]]'", "true|false|true"),
            ("SELECT 'a' GLOB '', '' GLOB '*'", "false|true"),
            ("SELECT 'a' || 'b' GLOB 'a*' AND true, NOT 'a' GLOB 'a'", "true|false"),
            ("SELECT i FROM t WHERE s NOT GLOB 'a*' OR s GLOB '[c-z]'", "2"),
            ("SELECT i glob FROM t WHERE i = 1", "1"),
        ],
    );
}
