//! Floating point numbers that are equal are one key, whatever their bits: zero has two signs, and
//! there are many NaNs. What is expected is what DuckDB 2.0 answers.

use super::common::{Fixture, fixture, planned};

/// 1: 0.0, 2: -0.0, 3: 1.0, 4: NaN, 5: NaN with a sign; as DOUBLE and as REAL.
fn numbers() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE a (i INT, x DOUBLE, r REAL)");
    f.run("INSERT INTO a VALUES (1, 0.0, 0.0), (3, 1, 1), (4, 'nan', 'nan')");
    f.run("INSERT INTO a SELECT 2, ceil(CAST(-0.5 AS DOUBLE)), ceil(CAST(-0.5 AS REAL))");
    f.run("INSERT INTO a SELECT 5, -x, -r FROM a WHERE i = 4");
    assert_eq!(f.value("SELECT CAST(x AS VARCHAR) FROM a WHERE i = 2"), "-0.0");
    f
}

const PAIRS: [&str; 9] = ["1|1", "1|2", "2|1", "2|2", "3|3", "4|4", "4|5", "5|4", "5|5"];

#[test]
fn joins() {
    let f = numbers();
    for condition in [
        "a.x = b.x",
        "a.r = b.r",
        "a.r = b.x",
        "a.x = b.x AND a.i + b.i > 0",
        "a.x = b.x OR a.i = 70",
        "a.x IS NOT DISTINCT FROM b.x",
        "struct(a.x) = struct(b.x)",
        "[a.x, 1] = [b.x, 1]",
    ] {
        let on = format!("SELECT a.i, b.i FROM a JOIN a b ON {condition} ORDER BY ALL");
        assert_eq!(f.rows(&on), PAIRS, "{on}");
        let cross = format!("SELECT a.i, b.i FROM a, a b WHERE {condition} ORDER BY ALL");
        assert_eq!(f.rows(&cross), PAIRS, "{cross}");
    }
    let using = "SELECT a.i, b.i FROM a JOIN a AS b USING (x) ORDER BY ALL";
    assert_eq!(f.rows(using), PAIRS);
    let less = "SELECT a.i, b.i FROM a JOIN a b ON a.x < b.x WHERE a.i = 5 OR b.i = 5 ORDER BY 1";
    assert_eq!(f.rows(less), ["1|5", "2|5", "3|5"]);
}

#[test]
fn memberships() {
    let f = numbers();
    for (condition, expected) in [
        ("x IN (SELECT x FROM a WHERE i = 1)", "1 2"),
        ("x IN (SELECT x FROM a WHERE i = 4)", "4 5"),
        ("r IN (SELECT r FROM a WHERE i = 2)", "1 2"),
        ("x NOT IN (SELECT x FROM a WHERE i = 2)", "3 4 5"),
        ("x IN (SELECT b.x FROM a b WHERE b.i > a.i)", "1 4"),
        ("x NOT IN (SELECT b.x FROM a b WHERE b.i > a.i)", "2 3 5"),
        ("x IN (SELECT max(b.x) FROM a b WHERE b.i < 3)", "1 2"),
        ("EXISTS (SELECT 1 FROM a b WHERE b.x = a.x AND b.i <> a.i)", "1 2 4 5"),
        ("(SELECT count(*) FROM a b WHERE b.x = a.x) = 2", "1 2 4 5"),
        ("x IN ('nan', 5, 6, 7, 8, 9, 10, 11)", "4 5"),
        ("x NOT IN ('nan', 5, 6, 7, 8, 9, 10, 11)", "1 2 3"),
        ("x = 'nan'", "4 5"),
        ("x <> 'nan'", "1 2 3"),
        ("CASE x WHEN 'nan' THEN true ELSE false END", "4 5"),
        ("nullif(x, 'nan') IS NULL", "4 5"),
        ("0 IN (SELECT x FROM a WHERE i = 2)", "1 2 3 4 5"),
    ] {
        let sql = format!("SELECT i FROM a WHERE {condition} ORDER BY i");
        assert_eq!(f.rows(&sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn groups() {
    let f = numbers();
    for (sql, expected) in [
        ("SELECT x, count(*) FROM a GROUP BY x ORDER BY x", "0.0|2 1.0|1 NaN|2"),
        ("SELECT x + 0 AS y, count(*) FROM a GROUP BY 1 ORDER BY y", "0.0|2 1.0|1 NaN|2"),
        ("SELECT x, r, count(*) FROM a GROUP BY ALL ORDER BY ALL", "0.0|0.0|2 1.0|1.0|1 NaN|NaN|2"),
        ("SELECT x, count(*) FROM a GROUP BY ROLLUP (x) ORDER BY 1", "0.0|2 1.0|1 NaN|2 -|5"),
        (
            "SELECT x, r, sum(i) FROM a GROUP BY GROUPING SETS ((x), (r, x)) ORDER BY ALL",
            "0.0|0.0|3 0.0|-|3 1.0|1.0|3 1.0|-|3 NaN|NaN|9 NaN|-|9",
        ),
        ("SELECT DISTINCT x FROM a ORDER BY x", "0.0 1.0 NaN"),
        ("SELECT DISTINCT r, x FROM a ORDER BY x", "0.0|0.0 1.0|1.0 NaN|NaN"),
        (
            "SELECT DISTINCT struct(x) IS NULL, [x] FROM a ORDER BY 2",
            "false|[0.0] false|[1.0] false|[NaN]",
        ),
        ("SELECT count(DISTINCT x), count(DISTINCT r) FROM a", "3|3"),
        ("SELECT count(DISTINCT x) FILTER (WHERE i < 3), sum(DISTINCT i) FROM a", "1|15"),
        ("SELECT x FROM a UNION SELECT r FROM a ORDER BY 1", "0.0 1.0 NaN"),
        ("SELECT x FROM a INTERSECT SELECT x FROM a WHERE i IN (2, 5) ORDER BY 1", "0.0 NaN"),
        ("SELECT x FROM a EXCEPT SELECT x FROM a WHERE i IN (2, 5)", "1.0"),
        ("SELECT count(*) FROM (SELECT x FROM a EXCEPT ALL SELECT x FROM a WHERE i = 2)", "4"),
        ("SELECT x FROM a GROUP BY x HAVING count(*) = 1", "1.0"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn order_and_windows() {
    let f = numbers();
    for (sql, expected) in [
        ("SELECT i FROM a ORDER BY x, i DESC", "2 1 3 5 4"),
        ("SELECT i FROM a ORDER BY x, i DESC LIMIT 3", "2 1 3"),
        ("SELECT i FROM a ORDER BY x DESC, i LIMIT 3", "4 5 3"),
        ("SELECT DISTINCT ON (x) i FROM a ORDER BY x, i", "1 3 4"),
        ("SELECT first_value(i ORDER BY x DESC, i DESC) FROM a", "5"),
        ("SELECT rank() OVER (ORDER BY x) FROM a ORDER BY i", "1 1 3 4 4"),
        ("SELECT sum(i) OVER (ORDER BY x) FROM a ORDER BY i", "3 3 6 15 15"),
        ("SELECT count(*) OVER (PARTITION BY x) FROM a ORDER BY i", "2 2 1 2 2"),
        ("SELECT row_number() OVER (PARTITION BY r ORDER BY i) FROM a ORDER BY i", "1 2 1 1 2"),
        ("SELECT i FROM a QUALIFY row_number() OVER (PARTITION BY x ORDER BY i) = 2", "2 5"),
    ] {
        let mut rows = f.rows(sql);
        if sql.contains("QUALIFY") {
            rows.sort();
        }
        assert_eq!(rows.join(" "), expected, "{sql}");
    }
}

#[test]
fn keys_of_tables() {
    let f = numbers();
    f.run("CREATE TABLE k (x DOUBLE PRIMARY KEY, s VARCHAR)");
    f.run("INSERT INTO k VALUES (0.0, 'zero'), ('nan', 'none')");
    for i in [2, 5] {
        let error = f.error(&format!("INSERT INTO k SELECT x, 'again' FROM a WHERE i = {i}"));
        assert!(matches!(error, swingdb::Error::Constraint { .. }), "{error:?}");
    }
    f.error("UPDATE k SET x = -0.0::DOUBLE * 1");
    f.run("INSERT INTO k SELECT x, 'met' FROM a WHERE i IN (2, 5) ON CONFLICT DO NOTHING");
    f.run(
        "INSERT INTO k SELECT x, 'met' FROM a WHERE i IN (2, 5) \
         ON CONFLICT (x) DO UPDATE SET s = excluded.s",
    );
    assert_eq!(f.rows("SELECT * FROM k ORDER BY x"), ["0.0|met", "NaN|met"]);
    f.run(
        "MERGE INTO k USING (SELECT x FROM a WHERE i IN (2, 3)) m ON k.x = m.x \
         WHEN MATCHED THEN UPDATE SET s = 'merged' \
         WHEN NOT MATCHED THEN INSERT VALUES (m.x, 'new')",
    );
    assert_eq!(f.rows("SELECT * FROM k ORDER BY x"), ["0.0|merged", "1.0|new", "NaN|met"]);
    f.run("DELETE FROM k USING a WHERE k.x = a.x AND a.i IN (2, 5)");
    assert_eq!(f.rows("SELECT * FROM k"), ["1.0|new"]);
    // Two of one statement.
    f.error("INSERT INTO k SELECT x, 'twice' FROM a WHERE i IN (1, 2)");
    // More rows than one segment, in ascending order: the quick ways to tell keys apart.
    f.run("CREATE TABLE many (x DOUBLE UNIQUE)");
    f.run("INSERT INTO many SELECT CAST(range AS DOUBLE) FROM range(200000)");
    f.error("INSERT INTO many SELECT x FROM a WHERE i = 2");
    f.run("INSERT INTO many VALUES (-1.5)");
}

/// As [`numbers`], and 6: infinity, 7: the one below all numbers; also in a registered table `r`.
fn with_infinities() -> Fixture {
    let f = numbers();
    f.run("INSERT INTO a VALUES (6, 'inf', 'inf'), (7, '-inf', '-inf')");
    let batches = f.run("SELECT i, x, r FROM a").collect().unwrap();
    f.con.register("r", batches[0].schema(), batches).unwrap();
    f
}

#[test]
fn comparisons_with_numbers() {
    let f = with_infinities();
    for (condition, expected) in [
        ("x > 1", "4 5 6"),
        ("x >= 1", "3 4 5 6"),
        ("x < 1", "1 2 7"),
        ("x <= 1", "1 2 3 7"),
        ("1 > x", "1 2 7"),
        ("1 <= x", "3 4 5 6"),
        ("NOT x < 1", "3 4 5 6"),
        ("NOT x > 1", "1 2 3 7"),
        ("x > 0", "3 4 5 6"),
        ("x >= 0", "1 2 3 4 5 6"),
        ("x < 0", "7"),
        ("x <= 0", "1 2 7"),
        ("x > 'inf'", "4 5"),
        ("x >= 'inf'", "4 5 6"),
        ("x < '-inf'", ""),
        ("x < 'nan'", "1 2 3 6 7"),
        ("x <= 'nan'", "1 2 3 4 5 6 7"),
        ("x BETWEEN 0 AND 5", "1 2 3"),
        ("x BETWEEN 0 AND 'nan'", "1 2 3 4 5 6"),
        ("x NOT BETWEEN 0 AND 5", "4 5 6 7"),
        ("0.5 BETWEEN x AND 3", "1 2 7"),
        ("x > 0.5", "3 4 5 6"),
        ("0.25 >= x", "1 2 7"),
        ("x * 2 >= 1.5", "3 4 5 6"),
        ("x IN (1, 0.0, 7.25)", "1 2 3"),
        ("CASE WHEN x > 0.5 THEN x ELSE 0.25 END <= 1.0", "1 2 3 7"),
        ("coalesce(x, 0.5) < 0.5", "1 2 7"),
        ("x BETWEEN x AND x", "1 2 3 4 5 6 7"),
        ("x - x > 3", "4 5 6 7"),
        ("-x > 1", "4 5 7"),
        ("x * 0 < 1", "1 2 3"),
        ("x > 1 AND x < 2", ""),
        ("CASE WHEN x < 1 THEN false ELSE true END", "3 4 5 6"),
        ("greatest(x, 1) > 1", "4 5 6"),
        ("least(x, 1) < 1", "1 2 7"),
        ("(SELECT max(b.x) FROM a b WHERE b.i = a.i) > 1", "4 5 6"),
        ("i IN (SELECT i FROM (SELECT i, -x AS y FROM a) WHERE y < 0)", "3 6"),
    ] {
        for from in
            ["a", "r AS a", "(SELECT i, r AS x FROM a) AS a", "(SELECT i, -(-x) AS x FROM a) AS a"]
        {
            let sql = format!("SELECT i FROM {from} WHERE {condition} ORDER BY i");
            assert_eq!(f.rows(&sql).join(" "), expected, "{sql}");
        }
    }
}

#[test]
fn least_and_greatest() {
    let f = with_infinities();
    for (sql, expected) in [
        ("SELECT min(x), max(x), min(r), max(r) FROM a", "-inf|NaN|-inf|NaN"),
        ("SELECT min(x), max(x) FROM a WHERE i IN (3, 5)", "1.0|NaN"),
        ("SELECT min(x), max(x) FROM a WHERE i = 5", "NaN|NaN"),
        ("SELECT min(-x), max(-x) FROM a WHERE i IN (3, 4)", "-1.0|NaN"),
        // The NaN before the number and behind it.
        (
            "SELECT i % 2, min(x), max(x) FROM a WHERE i IN (2, 4, 5, 7) GROUP BY 1 ORDER BY 1",
            "0|0.0|NaN 1|-inf|NaN",
        ),
        (
            "SELECT 1, min(r), max(r) FROM (SELECT * FROM a WHERE i IN (3, 5) ORDER BY i DESC) \
             GROUP BY 1",
            "1|1.0|NaN",
        ),
        (
            "SELECT i, min(x), max(x) FROM a WHERE i > 5 GROUP BY i ORDER BY i",
            "6|inf|inf 7|-inf|-inf",
        ),
        ("SELECT max(x) OVER (ORDER BY i) FROM a ORDER BY i", "0.0 0.0 1.0 NaN NaN NaN NaN"),
        (
            "SELECT min(x) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM a \
          WHERE i > 2 ORDER BY i",
            "1.0 1.0 NaN inf -inf",
        ),
        (
            "SELECT greatest(x, 1.0), least(x, 1.0) FROM a WHERE i > 2 ORDER BY i",
            "1.0|1.0 NaN|1.0 NaN|1.0 inf|1.0 1.0|-inf",
        ),
        ("SELECT i % 2 FROM a GROUP BY 1 HAVING max(x) > 1 ORDER BY 1", "0 1"),
        ("SELECT i FROM a ORDER BY x, i", "7 1 2 3 6 4 5"),
        ("SELECT i FROM a ORDER BY x DESC, i LIMIT 3", "4 5 6"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
        let registered = sql.replace("FROM a", "FROM r AS a");
        assert_eq!(f.rows(&registered).join(" "), expected, "{registered}");
    }
}

/// Numbers that have no place among decimals of 15 places.
#[test]
fn decimals_beside_floating_point() {
    let f = fixture();
    f.run("CREATE TABLE t (i INT, x DOUBLE, r REAL, d DECIMAL(9, 2))");
    f.run("INSERT INTO t VALUES (1, 1e-20, 1e-20, 0.1), (2, 3e300, 3e30, 0.5), (3, 0.1, 0.1, 3)");
    for (condition, expected) in [
        ("x > 0.0", "1 2 3"),
        ("r > 0.0", "1 2 3"),
        ("x <> 0.00", "1 2 3"),
        ("x = 0.1", "3"),
        ("r = 0.1", "3"),
        ("x > 2.5", "2"),
        ("x > d", "2"),
        ("x < d", "1 3"),
        ("d BETWEEN x AND 1.5", "1"),
        ("x NOT IN (0.1, d)", "1 2"),
        ("nullif(x, 0.1) IS NULL", "3"),
        ("greatest(x, d) > 2.5", "2 3"),
    ] {
        let sql = format!("SELECT i FROM t WHERE {condition} ORDER BY i");
        assert_eq!(f.rows(&sql).join(" "), expected, "{sql}");
    }
    assert_eq!(f.value("SELECT typeof(coalesce(max(x), 0.5)) FROM t"), "DOUBLE");
    f.run("CREATE TABLE many AS SELECT CAST(range AS DOUBLE) / 8 AS x FROM range(1000000)");
    let plan = f.rows("EXPLAIN SELECT * FROM many WHERE x BETWEEN 100.5 AND 200.25").join("\n");
    assert!(plan.contains("segments=1 of 8"), "{plan}");
}

/// A NaN of either sign among many numbers, stored and taken away again: bounds of segments must
/// not rule it out, nor tell wrong extremes.
#[test]
fn bounds_of_segments_know_of_signs() {
    let f = numbers();
    f.run("CREATE TABLE t AS SELECT range AS n, CAST(range AS DOUBLE) AS x FROM range(300000)");
    let check = |signed: &[i64], what: &str| {
        let nans = signed.len() as i64;
        let count = |condition| f.value(&format!("SELECT count(*) FROM t WHERE {condition}"));
        assert_eq!(count("x > 299998"), (1 + nans).to_string(), "{what}");
        assert_eq!(count("x < 10"), "10", "{what}");
        assert_eq!(count("x >= 0"), "300000", "{what}");
        assert_eq!(count("x > 400000"), nans.to_string(), "{what}");
        let most = if nans > 0 { "NaN" } else { "299999.0" };
        assert_eq!(f.value("SELECT min(x), max(x) FROM t"), format!("0.0|{most}"), "{what}");
        let last = f.rows("SELECT n FROM t ORDER BY x DESC, n LIMIT 1");
        let wanted = signed.first().copied().unwrap_or(299_999);
        assert_eq!(last, [wanted.to_string()], "{what}");
    };
    check(&[], "none");
    for nan in [4, 5] {
        // One row, which is noted beside its column, and many.
        f.run(&format!("UPDATE t SET x = (SELECT x FROM a WHERE i = {nan}) WHERE n = 150000"));
        check(&[150_000], &format!("one of {nan}"));
        f.run("UPDATE t SET x = n WHERE n = 150000");
        check(&[], "none again");
        f.run(&format!(
            "UPDATE t SET x = (SELECT x FROM a WHERE i = {nan}) WHERE n >= 200000 AND n < 200100"
        ));
        check(&(200_000..200_100).collect::<Vec<_>>(), &format!("many of {nan}"));
        f.run("UPDATE t SET x = n");
        check(&[], "none once more");
    }
    f.run("DELETE FROM t WHERE n = 7");
    f.run("INSERT INTO t SELECT 7, x FROM a WHERE i = 5");
    assert_eq!(f.value("SELECT count(*), min(x), max(x) FROM t WHERE x >= 5"), "299995|5.0|NaN");
    f.run("DELETE FROM t WHERE x > 300000");
    assert_eq!(f.value("SELECT count(*) FROM t WHERE n = 7"), "0");
}

/// Comparing with a plain number still lets a scan skip segments where no NaN has a sign, and the
/// extremes of such a column are still known without reading it.
#[test]
fn plain_comparisons_stay_as_they_are() {
    let f = numbers();
    f.run("DELETE FROM a WHERE i = 5");
    f.run("CREATE TABLE b AS SELECT * FROM a");
    for sql in [
        "SELECT i FROM b WHERE x = 0.5 AND r < 3 AND i IN (1, 2)",
        "SELECT i FROM (SELECT i, x AS y FROM b WHERE r > 1 ORDER BY i LIMIT 3) WHERE y < 5",
        "SELECT i FROM b JOIN b AS c USING (i) WHERE b.x < 2 AND c.x > 1",
        "SELECT x FROM b WHERE x = 1 AND x BETWEEN 0 AND 3",
        "SELECT min(x), max(r), greatest(min(x), 1) FROM b",
        "SELECT i, max(x) FROM b GROUP BY i HAVING max(x) < 7",
        "SELECT b.i FROM b JOIN b c ON b.i = c.i GROUP BY 1 ORDER BY 1",
    ] {
        let plan = planned(&f, sql);
        assert!(!plan.contains("same_bits"), "{sql}: {plan}");
    }
    let plan = planned(&f, "SELECT min(x), max(r) FROM b");
    assert!(plan.contains("PlaceholderRowExec"), "{plan}");
    for sql in ["SELECT a.i FROM a JOIN a b ON a.x = b.x", "SELECT i FROM b WHERE x * 2 > 1"] {
        let plan = planned(&f, sql);
        assert!(plan.contains("same_bits"), "{sql}: {plan}");
    }
}

#[test]
fn structs_and_lists_with_nulls_are_joined() {
    let f = fixture();
    f.run("CREATE TABLE t (i INT, s STRUCT(a INT, b VARCHAR), l INT[])");
    f.run(
        "INSERT INTO t VALUES (1, {'a': 1, 'b': NULL}, [1, NULL]), (2, {'a': NULL, 'b': NULL}, \
         [NULL]), (3, NULL, NULL), (4, {'a': 1, 'b': 'x'}, [])",
    );
    for column in ["s", "l"] {
        let sql =
            format!("SELECT x.i, y.i FROM t x JOIN t y ON x.{column} = y.{column} ORDER BY 1");
        assert_eq!(f.rows(&sql), ["1|1", "2|2", "4|4"], "{sql}");
        let sql = format!("SELECT i FROM t WHERE {column} IN (SELECT {column} FROM t) ORDER BY 1");
        assert_eq!(f.rows(&sql), ["1", "2", "4"], "{sql}");
    }
    assert_eq!(f.value("SELECT count(*) FROM (SELECT s FROM t INTERSECT SELECT s FROM t)"), "4");
}

#[test]
fn intervals_are_compared_by_their_length() {
    let f = fixture();
    f.run("CREATE TABLE t (n INT, i INTERVAL)");
    f.run(
        "INSERT INTO t VALUES (1, INTERVAL '1 day'), (2, INTERVAL '24 hours'), \
         (3, INTERVAL '30 days'), (4, INTERVAL '1 month'), (5, INTERVAL '-1 day'), \
         (6, INTERVAL '40 days'), (7, NULL)",
    );
    for (sql, expected) in [
        ("SELECT INTERVAL '1 day' = INTERVAL '24 hours'", "true"),
        ("SELECT INTERVAL '1 day' IS DISTINCT FROM INTERVAL '1440 minutes'", "false"),
        ("SELECT CASE INTERVAL '1 day' WHEN INTERVAL '24 hours' THEN 'x' END", "x"),
        ("SELECT nullif(INTERVAL '1 day', INTERVAL '24 hours') IS NULL", "true"),
        ("SELECT INTERVAL '1 month' < INTERVAL '31 days'", "true"),
        ("SELECT n FROM t WHERE i > INTERVAL '1 day' ORDER BY i, n", "3 4 6"),
        ("SELECT n FROM t WHERE i <= INTERVAL '1 day' ORDER BY n", "1 2 5"),
        (
            "SELECT n FROM t WHERE i BETWEEN INTERVAL '0 s' AND INTERVAL '720 hours' ORDER BY n",
            "1 2 3 4",
        ),
        ("SELECT n FROM t WHERE i NOT IN (INTERVAL '1 day', INTERVAL '30 days') ORDER BY n", "5 6"),
        ("SELECT n FROM t WHERE i IN (SELECT INTERVAL '720 hours') ORDER BY n", "3 4"),
        ("SELECT n FROM t ORDER BY i DESC, n", "6 3 4 1 2 5 7"),
        ("SELECT count(*) FROM t GROUP BY i ORDER BY i", "1 2 2 1 1"),
        ("SELECT min(n) FROM t GROUP BY i, n > 2 HAVING count(*) > 1 ORDER BY 1", "1 3"),
        ("SELECT count(*) FROM (SELECT DISTINCT i, i + INTERVAL '1 day' FROM t)", "5"),
        ("SELECT count(DISTINCT i) FROM t", "4"),
        ("SELECT count(*) FROM t AS a JOIN t AS b ON a.i = b.i", "10"),
        ("SELECT count(*) FROM t AS a JOIN t AS b USING (i) WHERE a.n < b.n", "2"),
        ("SELECT rank() OVER (ORDER BY i) FROM t ORDER BY n", "2 2 4 4 1 6 7"),
        ("SELECT count(*) OVER (PARTITION BY i) FROM t ORDER BY n", "2 2 2 2 1 1 1"),
        ("SELECT count(*) FROM (SELECT i FROM t UNION SELECT INTERVAL '720 hours')", "5"),
        ("SELECT count(*) FROM (SELECT i FROM t EXCEPT SELECT INTERVAL '720 hours')", "4"),
        ("SELECT n FROM t WHERE i = (SELECT max(i) FROM t)", "6"),
        ("SELECT sum(n) FROM t WHERE i = (SELECT min(i) FROM t WHERE n IN (4, 6))", "7"),
        (
            "SELECT sum(n) FROM t WHERE EXISTS (SELECT 1 FROM t b WHERE t.i = b.i AND t.n < b.n)",
            "4",
        ),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn a_group_shows_one_of_its_intervals() {
    let f = fixture();
    for shown in ["SELECT DISTINCT i", "SELECT i", "SELECT min(i)"] {
        let group = if shown == "SELECT i" { "GROUP BY i" } else { "" };
        let sql = format!(
            "SELECT q.i + DATE '2021-02-01' FROM \
             ({shown} AS i FROM (SELECT INTERVAL '30 days' AS i) {group}) q"
        );
        assert_eq!(f.value(&sql), "2021-03-03T00:00:00", "{sql}");
    }
}

#[test]
fn decimals_of_set_operations_beside_floating_point() {
    let f = fixture();
    for (sql, expected) in [
        ("SELECT 1e300 AS x UNION ALL SELECT 1.5 ORDER BY x", "1.5 1e300"),
        ("SELECT 1.5 AS x UNION SELECT 1e300 UNION SELECT 1.50 ORDER BY x", "1.5 1e300"),
        ("SELECT 1.5 EXCEPT SELECT 1e300", "1.5"),
        ("SELECT 1e300 EXCEPT ALL SELECT 2.5", "1e300"),
        ("SELECT 2.5::DOUBLE INTERSECT SELECT 2.50", "2.5"),
        ("SELECT typeof(x) FROM (SELECT 1.5::FLOAT AS x UNION ALL SELECT 2.5) LIMIT 1", "FLOAT"),
        ("SELECT typeof(x) FROM (SELECT 1.5 AS x UNION ALL SELECT 2.25) LIMIT 1", "DECIMAL(3,2)"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
}
