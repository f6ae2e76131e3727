//! Aggregates. The expected values are DuckDB 2.0's.

use super::common::fixture;

#[test]
fn averages_of_whole_numbers_are_exact() {
    let f = fixture();
    let three = "(VALUES (9007199254740992), (3), (1)) t(n)";
    assert_eq!(f.value(&format!("SELECT avg(n) FROM {three}")), "3002399751580332.0");
    assert_eq!(
        f.rows(&format!("SELECT avg(n) OVER () FROM {three}")),
        vec!["3002399751580332.0"; 3]
    );
    f.run(
        "CREATE TABLE t AS SELECT i % 2 AS g, \
         CASE WHEN i < 2 THEN 4611686018427387904 ELSE i % 3 END AS n FROM range(200002) r(i)",
    );
    // A sum of floating point numbers loses each of the small ones.
    let totals = "CAST(sum(CAST(n AS DECIMAL(38, 0))) AS DOUBLE) / count(n) = avg(n)";
    assert_eq!(f.value(&format!("SELECT {totals} FROM t")), "true");
    assert_eq!(f.rows(&format!("SELECT {totals} FROM t GROUP BY g")), ["true", "true"]);
    assert_eq!(
        f.rows(&format!("SELECT {totals} FROM t GROUP BY ROLLUP (g)")),
        ["true", "true", "true"]
    );
    let cases = [
        ("avg(18446744073709551615::UBIGINT)", "1.8446744073709552e19"),
        (
            "avg(n) FROM (VALUES (9223372036854775807), (9223372036854775807)) t(n)",
            "9.223372036854776e18",
        ),
        ("avg(DISTINCT n) FROM (VALUES (2), (1), (2)) t(n)", "1.5"),
        (
            "avg(n), avg(n) FILTER (WHERE n > 1) FROM (VALUES (2), (1), (2), (NULL)) t(n)",
            "1.6666666666666667|2.0",
        ),
        ("avg(n) FROM (VALUES (2)) t(n) WHERE n > 2", "-"),
        ("avg(CAST(n AS TINYINT)) FROM (VALUES (2), (3)) t(n)", "2.5"),
        ("mean(n) FROM (VALUES (2), (3)) t(n)", "2.5"),
    ];
    for (sql, expected) in cases {
        assert_eq!(f.value(&format!("SELECT {sql}")), expected, "{sql}");
    }
    assert_eq!(
        f.rows(
            "SELECT avg(n) OVER (ORDER BY n ROWS 1 PRECEDING) \
             FROM (VALUES (1), (2), (4)) t(n) ORDER BY 1"
        ),
        ["1.0", "1.5", "3.0"]
    );
}
