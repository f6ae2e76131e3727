//! Floating point numbers that are equal are one key, whatever their bits: zero has two signs, and
//! there are many NaNs. What is expected is what DuckDB 2.0 answers.

use super::common::{Fixture, fixture};

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
    f.run("INSERT INTO many SELECT CAST(value AS DOUBLE) FROM range(200000)");
    f.error("INSERT INTO many SELECT x FROM a WHERE i = 2");
    f.run("INSERT INTO many VALUES (-1.5)");
}

/// Equality by a plain number still lets a scan skip segments.
#[test]
fn plain_comparisons_stay_as_they_are() {
    let f = numbers();
    let plan = f.rows("EXPLAIN SELECT i FROM a WHERE x = 0.5 AND r < 3 AND i IN (1, 2)").join("\n");
    assert!(!plan.contains("same_bits"), "{plan}");
    let plan =
        f.rows("EXPLAIN SELECT a.i FROM a JOIN a b ON a.i = b.i GROUP BY 1 ORDER BY 1").join("\n");
    assert!(!plan.contains("same_bits"), "{plan}");
    let plan = f.rows("EXPLAIN SELECT a.i FROM a JOIN a b ON a.x = b.x").join("\n");
    assert!(plan.contains("same_bits"), "{plan}");
}
