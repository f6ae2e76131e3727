//! Casts mean what they mean in DuckDB, inside of lists and structs too; and what cannot be cast.

use super::common::fixture;
use swingdb::Error;

#[test]
fn fractions_inside_are_rounded() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT [range + 0.5, NULL] AS l, range * 0.75 AS d FROM range(3)");
    for (sql, expected) in [
        ("SELECT CAST([1.5] AS INT[])", "[2]"),
        ("SELECT TRY_CAST([1.5, 2.5] AS INT[])", "[2, 3]"),
        ("SELECT CAST([1.5::DOUBLE, 2.5, NULL] AS INT[])[2]", "2"),
        ("SELECT CAST([[1.5]] AS INT[][])", "[[2]]"),
        ("SELECT CAST({'a': 1.5} AS STRUCT(a INT))", "{a: 2}"),
        ("SELECT CAST([{'a': 1.5}] AS STRUCT(a INT)[])", "[{a: 2}]"),
        ("SELECT TRY_CAST([1e30] AS INT[])[1] IS NULL", "true"),
        ("SELECT sum(CAST(l AS INT[])[1]), sum(CAST(d AS INT)) FROM t", "6|3"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
    assert!(matches!(f.error("SELECT CAST([1e30] AS INT[])"), Error::Conversion { .. }));
}

#[test]
fn nested_values_as_text() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT [1, NULL] AS l UNION ALL SELECT NULL");
    for (sql, expected) in [
        ("SELECT CAST([1, NULL] AS VARCHAR)", "[1, NULL]"),
        ("SELECT [[1, NULL], NULL]::VARCHAR || 'x'", "[[1, NULL], NULL]x"),
        (
            "SELECT CAST(['a b', '', ' c', 'd,e', 'it''s', NULL] AS VARCHAR)",
            "[a b, '', ' c', 'd,e', 'it\\'s', NULL]",
        ),
        ("SELECT CAST({'a': 1, 'b': 'x', 'c': NULL} AS VARCHAR)", "{'a': 1, 'b': x, 'c': NULL}"),
        ("SELECT CAST(MAP {'a': [1, NULL]} AS VARCHAR)", "{a=[1, NULL]}"),
        ("SELECT CAST([TIMESTAMP '2024-01-01 00:00:00'] AS VARCHAR)", "['2024-01-01 00:00:00']"),
        ("SELECT CAST([] AS VARCHAR)", "[]"),
        ("SELECT string_agg(l::VARCHAR, ';'), count(*) FROM t", "[1, NULL]|2"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
}

#[test]
fn text_as_times() {
    let f = fixture();
    for (sql, expected) in [
        ("SELECT TRY_CAST('12' AS TIME) IS NULL, TRY_CAST('-12' AS TIME) IS NULL", "true|true"),
        ("SELECT CAST(' 1:2:3.5 ' AS TIME), TIME '12:30'", "01:02:03.500|12:30:00"),
        ("SELECT TIMESTAMP '2024-03-15 05:00'", "2024-03-15T05:00:00"),
        ("SELECT '2024-03-15T5:00'::TIMESTAMP", "2024-03-15T05:00:00"),
        ("SELECT TIMESTAMPTZ '2024-03-15 05:00+01'", "2024-03-15T04:00:00Z"),
        ("SELECT TIMESTAMP '2024-03-15 05:00:01.5'", "2024-03-15T05:00:01.500"),
        ("SELECT TIMESTAMP '2024-03-15 05:00' < '2024-03-15 05:01'", "true"),
        ("SELECT CAST('2024-03-15 05:00' AS DATE)", "2024-03-15"),
        ("SELECT TRY_CAST('2024-03-15 05' AS TIMESTAMP) IS NULL", "true"),
        ("SELECT count(*) FROM range(3) WHERE TRY_CAST(range::VARCHAR AS TIME) IS NULL", "3"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
    let error = f.error("SELECT CAST('12' AS TIME)");
    assert_eq!(error.to_string(), "'12' is no valid TIME");
    assert!(matches!(error, Error::Conversion { .. }));
    assert!(matches!(f.error("SELECT CAST(1 AS BLOB)"), Error::Plan { .. }));
}

/// Rows are those of 1, 5, one that does not fit, and NULL.
#[test]
fn comparisons_of_casts_that_fail() {
    let f = fixture();
    f.run("CREATE TABLE t (k INT, c BIGINT, s VARCHAR, d DECIMAL(20, 2))");
    f.run("INSERT INTO t VALUES (1, 1, '1', 1), (2, 5, '5', 5), (4, NULL, NULL, NULL)");
    f.run("INSERT INTO t VALUES (3, 5000000000, 'x', 5000000000)");
    for (condition, expected) in [
        ("NULL::INT IS DISTINCT FROM {}", "true true false false"),
        ("{} IS DISTINCT FROM NULL::INT", "true true false false"),
        ("{} IS NOT DISTINCT FROM NULL::INT", "false false true true"),
        ("{} IS DISTINCT FROM 5", "true false true true"),
        ("{} <> 5", "true false - -"),
        ("5 = {}", "false true - -"),
        ("{} < 6", "true true - -"),
        ("4 <= {}", "false true - -"),
        ("{} IN (5, 6)", "false true - -"),
        ("{} NOT IN (5, 6)", "true false - -"),
        ("{} BETWEEN 1 AND 4", "true false - -"),
    ] {
        for column in ["c", "s", "d"] {
            let whole = condition.replace("{}", &format!("TRY_CAST({column} AS INT)"));
            let found = f.rows(&format!("SELECT {whole} FROM t ORDER BY k")).join(" ");
            assert_eq!(found, expected, "{whole}");
            let wanted = expected.split(' ').filter(|truth| *truth == "true").count().to_string();
            let count = format!("SELECT count(*) FROM t WHERE {whole}");
            assert_eq!(f.value(&count), wanted, "{whole}");
            let inside = condition.replace("{}", "x");
            let from = format!("(SELECT TRY_CAST({column} AS INT) AS x FROM t)");
            let count = format!("SELECT count(*) FROM {from} WHERE {inside}");
            assert_eq!(f.value(&count), wanted, "{count}");
            let fails = condition.replace("{}", &format!("CAST({column} AS INT)"));
            let error = f.error(&format!("SELECT {fails} FROM t"));
            assert!(matches!(error, Error::Conversion { .. }), "{fails}: {error}");
        }
    }
    f.error("SELECT CAST('x' AS INT) IS DISTINCT FROM NULL::INT");
}

#[test]
fn comparisons_of_casts_that_round() {
    let f = fixture();
    f.run("CREATE TABLE t (d DECIMAL(10, 2), s TIMESTAMP(0), m TIMESTAMP(3))");
    f.run("INSERT INTO t VALUES (0.54, '2020-01-01', '2020-01-01')");
    for (condition, expected) in [
        ("CAST(d AS DECIMAL(10, 1)) = 0.5", "true"),
        ("0.5 <> TRY_CAST(d AS DECIMAL(10, 1))", "false"),
        ("CAST(d AS DECIMAL(10, 1)) IN (0.5, 0.6)", "true"),
        ("s = TIMESTAMP '2020-01-01 00:00:00.5'", "false"),
        ("s < TIMESTAMP '2020-01-01 00:00:00.5'", "true"),
        ("s >= TIMESTAMP '2020-01-01 00:00:00.5'", "false"),
        ("s = TIMESTAMP '2020-01-01 00:00:00'", "true"),
        ("s <= TIMESTAMP '2020-01-01 00:00:00'", "true"),
        ("TIMESTAMP '2019-12-31 23:59:59.5' < s", "true"),
        ("s IN (TIMESTAMP '2020-01-01 00:00:00.5', TIMESTAMP '2020-01-02')", "false"),
        ("m IS DISTINCT FROM TIMESTAMP '2020-01-01 00:00:00.0005'", "true"),
        ("m IN (TIMESTAMP '2020-01-01', NULL)", "true"),
        ("m < TIMESTAMP '2020-01-01 00:00:00.0005'", "true"),
    ] {
        assert_eq!(f.value(&format!("SELECT {condition} FROM t")), expected, "{condition}");
        let kept = if expected == "true" { "1" } else { "0" };
        let count = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(f.value(&count), kept, "{condition}");
    }
}

/// Constants that whole seconds reach are compared with the column itself, and segments left out.
#[test]
fn scans_know_coarser_timestamps() {
    let f = fixture();
    f.run("CREATE TABLE t (s TIMESTAMP(0))");
    for second in 0..3 {
        f.run(&format!("INSERT INTO t VALUES ('2020-01-01 00:00:0{second}')"));
    }
    let plan = f.rows(
        "EXPLAIN SELECT count(*) FROM t WHERE s > TIMESTAMP '2020-01-01 00:00:01.5' \
         AND s <= TIMESTAMP '2020-01-01 00:00:02'",
    );
    assert!(!plan.concat().contains("kept("), "{plan:?}");
}

#[test]
fn numbers_with_an_exponent_are_floating_point_everywhere() {
    let f = fixture();
    f.run("CREATE TABLE d (x DOUBLE)");
    f.run("INSERT INTO d VALUES (CAST(1e300 AS DOUBLE)), (1e-300), (-1e300), (1.5)");
    f.run("INSERT INTO d SELECT 1e300 * 10");
    assert_eq!(f.value("SELECT max(x), min(x), count(*) FROM d"), "1e301|-1e300|5");
    assert_eq!(f.rows("SELECT * FROM (VALUES (1e300), (1.5), (-2.5)) ORDER BY 1").len(), 3);
    assert_eq!(f.value("SELECT [1e300, -1.5]"), "[1e300, -1.5]");
    f.run("CREATE TABLE n (x DECIMAL(10, 2), i INT)");
    f.run("INSERT INTO n VALUES (1e3, 2e2), (1.25, 3)");
    assert_eq!(f.rows("SELECT * FROM n ORDER BY 1"), ["1.25|3", "1000.00|200"]);
}

#[test]
fn lists_with_nulls() {
    let f = fixture();
    for (sql, expected) in [
        ("SELECT list_sort([3, 1, NULL])", "[1, 3, NULL]"),
        ("SELECT array_sort(['b', NULL, 'a'])", "[a, b, NULL]"),
        ("SELECT list_sort([3, 1, NULL], 'DESC')", "[3, 1, NULL]"),
        ("SELECT list_sort([3, 1, NULL], 'ASC', 'NULLS FIRST')", "[NULL, 1, 3]"),
        ("SELECT list_reverse_sort([3, 1, NULL])", "[3, 1, NULL]"),
        ("SELECT list_distinct([1, NULL, 1])", "[1]"),
        ("SELECT len(array_distinct([NULL]))", "0"),
        ("SELECT list_sort(NULL) IS NULL", "true"),
    ] {
        assert_eq!(f.value(&format!("SELECT ({sql})::VARCHAR")), expected, "{sql}");
    }
}

#[test]
fn casts_of_casts_beside_one_another_are_keys() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT i % 2 AS a, i AS b FROM range(6) r(i)");
    assert_eq!(
        f.rows(
            "SELECT CAST(CAST(a AS DECIMAL(9, 2)) AS DOUBLE), CAST(a AS DECIMAL(9, 2)),
                    count(DISTINCT b), sum(b) FROM t GROUP BY 1, 2 ORDER BY 1"
        ),
        ["0.0|0.00|3|6", "1.0|1.00|3|9"]
    );
}
