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
