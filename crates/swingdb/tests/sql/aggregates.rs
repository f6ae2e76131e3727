//! Aggregates of rows in an order, of NULL, and of parts of a group. The expected values are
//! DuckDB 2.0's.

use super::common::{fixture, planned, seeded};

#[test]
fn the_row_with_the_greatest_value() {
    let f = fixture();
    let cases = [
        ("max_by(a, b) FROM (VALUES (1, NULL)) t(a, b)", "-"),
        ("arg_min(1, CAST(NULL AS VARCHAR))", "-"),
        ("arg_min(a, b) FROM (VALUES (NULL, 1), (2, 5)) t(a, b)", "2"),
        ("arg_max(a, b) FROM (VALUES (NULL, 9), (2, 5), (3, NULL)) t(a, b)", "2"),
        (
            "arg_min_null(a, b), arg_max_null(a, b) \
             FROM (VALUES (NULL, 1), (2, 5), (NULL, 8)) t(a, b)",
            "-|-",
        ),
        ("arg_min_null(a, b), arg_max_null(a, b) FROM (VALUES (3, NULL)) t(a, b)", "-|-"),
        ("arg_min_nulls_last(a, b) FROM (VALUES (NULL, 1), (2, 5)) t(a, b)", "-"),
        ("arg_max_nulls_last(a, b) FROM (VALUES (3, NULL)) t(a, b)", "3"),
        (
            "arg_min(a, b, 2), arg_max(a, b, 2) FROM (VALUES (NULL, 1), (2, 5), (3, 6)) t(a, b)",
            "[2, 3]|[3, 2]",
        ),
        ("arg_max(a, b) FILTER (WHERE b < 6) FROM (VALUES (2, 5), (3, 6)) t(a, b)", "2"),
    ];
    for (sql, expected) in cases {
        assert_eq!(f.value(&format!("SELECT {sql}")), expected, "{sql}");
    }
}

#[test]
fn the_order_decides() {
    let f = fixture();
    f.run("CREATE TABLE t (i INT, g INT, s VARCHAR)");
    f.run("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (NULL, 3, NULL), (5, NULL, 'd')");
    let cases = [
        ("any_value(i ORDER BY g DESC)", "2"),
        ("any_value(i ORDER BY g DESC) FILTER (WHERE g < 2)", "1"),
        ("any_value(i ORDER BY g DESC NULLS FIRST)", "5"),
        ("first(i ORDER BY g DESC)", "-"),
        ("last(i ORDER BY g NULLS FIRST)", "-"),
        ("first(i ORDER BY g, i, g DESC)", "1"),
        ("list(i ORDER BY g NULLS FIRST, i)", "[5, 1, 2, -]"),
        ("list(i ORDER BY g DESC) FILTER (WHERE i > 1)", "[2, 5]"),
        ("array_agg(i ORDER BY i DESC NULLS LAST, i, g)", "[5, 2, 1, -]"),
        ("string_agg(s, '-' ORDER BY g DESC)", "b-a-d"),
        ("string_agg(DISTINCT s, '-' ORDER BY s DESC)", "d-b-a"),
        ("list(DISTINCT i ORDER BY -i)", "[5, 2, 1, -]"),
        ("list(DISTINCT i % 2 ORDER BY i % 2 DESC)", "[1, 0, -]"),
        ("nth_value(i, 2 ORDER BY g DESC)", "2"),
        ("mode(i ORDER BY g DESC)", "2"),
        ("mode(i ORDER BY i)", "1"),
        ("mode(i ORDER BY i DESC)", "5"),
        ("mode(i)", "1"),
        ("mode(i % 2 ORDER BY i)", "1"),
        ("arg_min(i, g % 1 ORDER BY g DESC)", "2"),
        ("sum(i ORDER BY g), max(i ORDER BY s), count(i ORDER BY i DESC)", "8|5|3"),
        ("avg(i ORDER BY g), stddev(i ORDER BY s DESC) IS NULL", "2.6666666666666665|false"),
        ("max(i, 2 ORDER BY g)", "[5, 2]"),
        ("quantile_cont(i, 0.25 ORDER BY i DESC)", "3.5"),
        ("quantile_cont(i, 0.25 ORDER BY i)", "1.5"),
        ("quantile_disc(i, [0, 0.9] ORDER BY i DESC)", "[5, 1]"),
    ];
    for (sql, expected) in cases {
        assert_eq!(f.value(&format!("SELECT {sql} FROM t")), expected, "{sql}");
    }
    let error = f.error("SELECT list(DISTINCT i ORDER BY g) FROM t").to_string();
    assert!(error.contains("can only be ordered by what it is called with"), "{error}");
}

#[test]
fn each_has_an_order_of_its_own() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT i % 3 AS g, i, chr(CAST(97 + i AS INT)) AS s FROM range(9) r(i)",
    );
    let all = "string_agg(s, ',' ORDER BY s DESC), string_agg(s, ',' ORDER BY i), \
               list(i ORDER BY i DESC), list(i ORDER BY i), first(i ORDER BY s DESC), \
               last(i ORDER BY s DESC), nth_value(i, 2 ORDER BY i), \
               nth_value(i, 2 ORDER BY s DESC)";
    assert_eq!(
        f.rows(&format!("SELECT g, {all} FROM t WHERE i < 8 GROUP BY g ORDER BY g")),
        [
            "0|g,d,a|a,d,g|[6, 3, 0]|[0, 3, 6]|6|0|3|3",
            "1|h,e,b|b,e,h|[7, 4, 1]|[1, 4, 7]|7|1|4|4",
            "2|f,c|c,f|[5, 2]|[2, 5]|5|2|5|2",
        ]
    );
    assert_eq!(
        f.rows(
            "SELECT g, string_agg(s, ',' ORDER BY i DESC), list(i ORDER BY i) \
             FROM t GROUP BY ROLLUP (g) ORDER BY g NULLS LAST"
        ),
        [
            "0|g,d,a|[0, 3, 6]",
            "1|h,e,b|[1, 4, 7]",
            "2|i,f,c|[2, 5, 8]",
            "-|i,h,g,f,e,d,c,b,a|[0, 1, 2, 3, 4, 5, 6, 7, 8]",
        ]
    );
    assert_eq!(
        f.value("SELECT list(i ORDER BY i), list(i ORDER BY i DESC) FROM t WHERE i > 9"),
        "-|-"
    );
}

/// Partitions of a table are gathered apart.
#[test]
fn orders_of_many_rows() {
    let f = fixture();
    let (mut random, _) = seeded();
    let rows = 300_000;
    let step = [7_919, 104_729, 15_485_863][random.usize(0..3)];
    f.run(&format!(
        "CREATE TABLE t AS SELECT i, (i * {step}) % {rows} AS k, i % 1000 AS g \
         FROM range({rows}) r(i)"
    ));
    let orders =
        "list(k ORDER BY k) AS up, list(k ORDER BY k DESC) AS down, list(i ORDER BY k) AS i";
    let is_right = "up = list_sort(up) AND down = list_sort(down, 'DESC') \
                    AND up = list_reverse(down) AND i[1] * {step} % {rows} = up[1]";
    let is_right =
        is_right.replace("{step}", &step.to_string()).replace("{rows}", &rows.to_string());
    assert_eq!(
        f.value(&format!(
            "SELECT sum(len(up)), bool_and({is_right}) FROM (SELECT g, {orders} FROM t GROUP BY g)"
        )),
        format!("{rows}|true")
    );
    assert_eq!(
        f.value(&format!("SELECT len(up), {is_right} FROM (SELECT {orders} FROM t)")),
        format!("{rows}|true")
    );
    assert_eq!(
        f.value(
            "SELECT list(DISTINCT g ORDER BY -g)[1:3], len(list(DISTINCT g ORDER BY -g)) FROM t"
        ),
        "[999, 998, 997]|1000"
    );
}

#[test]
fn aggregates_of_null() {
    let f = fixture();
    for sql in [
        "string_agg('a', NULL)",
        "string_agg(x, NULL) FROM (VALUES ('a'), ('b')) t(x)",
        "string_agg(x, CAST(NULL AS VARCHAR) ORDER BY x) FROM (VALUES ('a'), ('b')) t(x)",
        "sum(NULL)",
        "sum(DISTINCT NULL)",
        "avg(NULL)",
        "histogram(NULL)",
        "approx_quantile(NULL, 0.5)",
        "quantile_cont(NULL, 0.5)",
        "median(NULL)",
        "mode(NULL)",
        "stddev(NULL)",
        "product(NULL)",
        "skewness(NULL)",
        "mad(NULL)",
        "bool_and(NULL)",
        "bit_and(NULL)",
        "corr(NULL, NULL)",
        "geomean(NULL)",
        "min(NULL)",
        "string_agg(NULL, ',')",
        "sum(NULL) OVER ()",
    ] {
        assert_eq!(f.value(&format!("SELECT {sql}")), "-", "{sql}");
    }
}

#[test]
fn quantiles_of_any_type() {
    let f = fixture();
    f.run(
        "CREATE TABLE q AS SELECT i, i * 1.5e0 AS d, CAST(i * 1.25 AS DECIMAL(10, 2)) AS c, \
         DATE '2020-01-01' + CAST(i AS INT) AS dt, \
         TIMESTAMP '2020-01-01 00:00:00' + to_hours(i) AS ts, to_days(i) AS iv, \
         chr(CAST(97 + i AS INT)) AS s, CAST(i * 0.5 AS FLOAT) AS f FROM range(10) r(i)",
    );
    f.run("INSERT INTO q VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)");
    let cases = [
        ("quantile_disc(i, -0.5), quantile_disc(i, 0.5)", "5|4"),
        ("quantile_cont(i, -0.1), quantile_cont(i, 0.1)", "8.1|0.9"),
        ("quantile_disc(i, -0.2), quantile_disc(i, 0.2)", "8|1"),
        ("quantile_disc(i, 0), quantile_disc(i, 1), quantile_disc(i, -1)", "0|9|0"),
        ("quantile_disc(i, 0.25), quantile_disc(i, -0.25), quantile_disc(i, -0.75)", "2|7|2"),
        ("quantile_disc(i, []), quantile_cont(i, [])", "[]|[]"),
        ("quantile_disc(i, [0.1, 0.5]), quantile_cont(i, [0.1, 0.5])", "[0, 4]|[0.9, 4.5]"),
        (
            "quantile_disc(c, [0.1, 0.5]), quantile_cont(c, [0.5, 0.33])",
            "[0.00, 5.00]|[5.62, 3.71]",
        ),
        ("quantile_disc(dt, [0.1, 0.5])", "[2020-01-01, 2020-01-05]"),
        ("quantile_cont(dt, [0.1, 0.5])", "[2020-01-01T21:36:00, 2020-01-05T12:00:00]"),
        ("quantile_cont(ts, [0.1, 0.55])", "[2020-01-01T00:54:00, 2020-01-01T04:57:00]"),
        ("quantile_disc(ts, 0.5)", "2020-01-01T04:00:00"),
        ("quantile_disc(s, [0.1, 0.5]), quantile(s, 0.3)", "[a, e]|c"),
        ("quantile_cont(f, 0.3), quantile_cont(c, 0.33), quantile_disc(c, -0.5)", "1.35|3.71|6.25"),
        ("median(i), median(d), median(c), median(f), median(s)", "4.5|6.75|5.62|2.25|e"),
        ("median(dt), median(ts)", "2020-01-05T12:00:00|2020-01-01T04:30:00"),
        ("median(iv) = INTERVAL '108 hours', quantile_disc(iv, 0.5) = INTERVAL 4 DAY", "true|true"),
        ("quantile_disc(DISTINCT i % 2, 0.5), quantile_cont(DISTINCT i % 2, 0.5)", "0|0.5"),
        ("percentile_disc(0.8) WITHIN GROUP (ORDER BY i DESC)", "2"),
        ("percentile_disc(0) WITHIN GROUP (ORDER BY i DESC)", "9"),
        ("percentile_disc(0.8) WITHIN GROUP (ORDER BY i)", "7"),
        ("percentile_disc([0.25, 0.8]) WITHIN GROUP (ORDER BY s DESC)", "[h, c]"),
        ("percentile_cont(0.75) WITHIN GROUP (ORDER BY i DESC)", "2.25"),
        ("percentile_cont(0.75) WITHIN GROUP (ORDER BY dt DESC)", "2020-01-03T06:00:00"),
        ("mode() WITHIN GROUP (ORDER BY i), mode() WITHIN GROUP (ORDER BY i DESC)", "0|9"),
        ("approx_quantile(i, 0.5), approx_quantile(i, [0.1, 0.5])", "4|[1, 4]"),
        ("approx_quantile(dt, 0.1), approx_quantile(dt, [0.5])", "2020-01-02|[2020-01-05]"),
        ("quantile_disc(i, 0.5 ORDER BY d DESC), quantile_disc(i, 0.5 ORDER BY d)", "5|4"),
        ("quantile_disc(i, 0.5) FILTER (WHERE i > 4)", "7"),
    ];
    for (sql, expected) in cases {
        assert_eq!(f.value(&format!("SELECT {sql} FROM q")), expected, "{sql}");
    }
    for sql in ["quantile_disc(i, 0.1)", "quantile_cont(i, [0.1, 0.5])", "median(dt)"] {
        assert_eq!(f.value(&format!("SELECT {sql} FROM q WHERE i > 10")), "-", "{sql}");
    }
    assert_eq!(f.value("SELECT quantile_disc(i, 0.07) FROM range(100) r(i)"), "6");
    assert_eq!(
        f.rows(
            "SELECT quantile_disc(i, 0.5) OVER (ORDER BY i ROWS 2 PRECEDING), \
             median(i) OVER (ORDER BY i ROWS 2 PRECEDING) \
             FROM (VALUES (1), (5), (2), (3)) t(i) ORDER BY ALL"
        ),
        ["1|1.0", "1|1.5", "2|2.0", "3|3.0"]
    );
    assert_eq!(
        f.rows(
            "SELECT i % 2, quantile_disc(i, [0.5, -0.5]), quantile_cont(i, -0.5), median(s) \
             FROM q WHERE i < 7 GROUP BY ALL ORDER BY 1"
        ),
        ["0|[2, 4]|3.0|c", "1|[3, 3]|3.0|d"]
    );
}

#[test]
fn fractions_that_are_none() {
    let f = fixture();
    for (sql, words) in [
        ("quantile_disc(i, 1.5)", "from -1 to 1, not 1.5"),
        ("quantile_cont(i, -1.5)", "from -1 to 1, not -1.5"),
        ("quantile_disc(i, NULL)", "is NULL"),
        ("quantile_cont(i, NULL)", "is NULL"),
        ("quantile_cont(i, [0.1, NULL])", "is NULL"),
        ("quantile_disc(i, i)", "constant"),
        ("approx_quantile(i, [-0.5])", "from 0 to 1"),
        ("quantile_cont(CAST(i AS VARCHAR), 0.5)", "takes numbers and times"),
    ] {
        let error = f.error(&format!("SELECT {sql} FROM range(3) r(i)")).to_string();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

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
        ("favg(n), fsum(n), sum(n) FROM (VALUES (1e16), (1), (1), (-1e16)) t(n)", "0.5|2.0|0.0"),
        ("fsum(n), favg(n) FROM (VALUES (CAST('inf' AS DOUBLE)), (1)) t(n)", "inf|inf"),
        ("fsum(DISTINCT n), kahan_sum(n), favg(n) FROM (VALUES (0.5), (0.5)) t(n)", "0.5|1.0|0.5"),
        ("fsum(n) FROM (VALUES (1)) t(n) WHERE n > 1", "-"),
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

#[test]
fn an_order_inside_of_a_window() {
    let f = fixture();
    f.run("CREATE TABLE s (i INT, j INT, k INT)");
    f.run("INSERT INTO s VALUES (1, 1, 10), (1, 2, 20), (2, 1, 30), (2, NULL, 40)");
    let by_k = "OVER (ORDER BY k)";
    let cases = [
        (
            "string_agg(CAST(j AS VARCHAR), ',' ORDER BY k DESC) OVER (PARTITION BY i)",
            "2,1 2,1 1 1",
        ),
        ("list(k ORDER BY k DESC) OVER (PARTITION BY i ORDER BY k)", "[10] [20, 10] [30] [40, 30]"),
        (
            "list(k ORDER BY j DESC NULLS LAST, k) OVER (ORDER BY k ROWS 1 PRECEDING)",
            "[10] [20, 10] [20, 30] [30, 40]",
        ),
        (&format!("max(k, 2) {by_k}"), "[10] [20, 10] [30, 20] [40, 30]"),
        (&format!("min(k, 2) {by_k}"), "[10] [10, 20] [10, 20] [10, 20]"),
        (&format!("arg_max(k, j) {by_k}"), "10 20 20 20"),
        (&format!("arg_min(k, j) FILTER (WHERE k > 10) {by_k}"), "- 20 30 30"),
        (&format!("first(k ORDER BY k DESC) {by_k}"), "10 20 30 40"),
        (&format!("last(k ORDER BY k DESC) {by_k}"), "10 10 10 10"),
        ("any_value(j ORDER BY k DESC) OVER (PARTITION BY i)", "2 2 1 1"),
        ("list(DISTINCT i ORDER BY i DESC) OVER ()", "[2, 1] [2, 1] [2, 1] [2, 1]"),
        (&format!("nth_value(k, 2 ORDER BY k DESC) {by_k}"), "- 10 20 30"),
        (&format!("mode(j ORDER BY k DESC) {by_k}"), "1 2 1 1"),
        (&format!("first_value(k) {by_k}"), "10 10 10 10"),
        ("string_agg('a', NULL ORDER BY k) OVER ()", "- - - -"),
        (
            "list(i ORDER BY 1, k DESC) OVER ()",
            "[2, 2, 1, 1] [2, 2, 1, 1] [2, 2, 1, 1] [2, 2, 1, 1]",
        ),
    ];
    for (sql, expected) in cases {
        let sql = format!("SELECT {sql} AS x, k FROM s ORDER BY k");
        let rows = f.rows(&format!("SELECT x FROM ({sql}) ORDER BY k"));
        assert_eq!(rows.join(" "), expected, "{sql}");
    }
    f.error("SELECT array_agg_in_order(k) FROM s");
}

#[test]
fn lines_through_points() {
    let f = fixture();
    assert_eq!(
        f.value(
            "SELECT regr_r2(0, i), regr_slope(0, i), regr_intercept(0, i), regr_sxx(0, i), \
             regr_r2(i, 0), regr_r2(0, 0), regr_r2(i, 2 * i), regr_r2(i, NULL), \
             regr_count(i, NULL) \
             FROM range(5) r(i)"
        ),
        "1.0|0.0|0.0|10.0|-|-|1.0|-|0"
    );
    assert_eq!(f.value("SELECT regr_r2(i, 1) FROM range(1) r(i)"), "-");
    assert_eq!(f.value("SELECT regr_r2(1, i) FROM range(1) r(i)"), "-");
    assert_eq!(f.value("SELECT regr_r2(i, i) FROM range(0) r(i)"), "-");
    assert_eq!(f.value("SELECT corr(i, i) FROM range(1) r(i)"), "-");
    assert_eq!(f.value("SELECT covar_pop(i, 1), covar_samp(i, 1) FROM range(1) r(i)"), "0.0|-");
    for function in ["skewness", "kurtosis", "kurtosis_pop"] {
        let of = "(VALUES (CAST('inf' AS DOUBLE)), (1), (2), (3)) t(x)";
        let error = f.error(&format!("SELECT {function}(x) FROM {of}")).to_string();
        assert!(error.contains("out of range"), "{error}");
    }
}

#[test]
fn sums_of_one_column_and_constants_are_a_sum_and_a_count() {
    let f = fixture();
    f.run("CREATE TABLE t (a SMALLINT, b UINTEGER, c BIGINT, g INT)");
    let many: Vec<String> = (0..90).map(|n| format!("sum(a + {n})")).collect();
    let plan = planned(&f, &format!("SELECT {} FROM t", many.join(", ")));
    let line = plan.lines().find(|line| line.contains("Aggregate:")).unwrap();
    assert_eq!((line.matches("sum(").count(), line.matches("count(").count()), (1, 1), "{plan}");
    // Each row of these may not fit, or there is nothing to save.
    for kept in ["sum(c), sum(c + 1)", "sum(a + 1)", "sum(a), sum(DISTINCT a + 1)"] {
        let plan = planned(&f, &format!("SELECT {kept} FROM t"));
        assert!(!plan.contains("count("), "{plan}");
    }
    f.run("INSERT INTO t VALUES (1, 2, 9223372036854775807, 1)");
    assert!(f.error("SELECT sum(c - 9), sum(c + 1) FROM t").to_string().contains("overflow"));
    assert!(f.error("SELECT sum(c), sum(c) + 1 FROM t").to_string().contains("overflow"));
}

#[test]
fn random_sums_of_a_column_and_constants() {
    let (mut random, seed) = seeded();
    let f = fixture();
    f.run("CREATE TABLE t (a TINYINT, b UINTEGER, c INT, d USMALLINT, g INT)");
    let rows = random.usize(..300);
    for _ in 0..rows {
        let values = [
            random.i8(..).to_string(),
            random.u32(..).to_string(),
            random.i32(..).to_string(),
            random.u16(..).to_string(),
        ];
        let values = values.map(|value| if random.u8(..4) == 0 { "NULL".into() } else { value });
        f.run(&format!("INSERT INTO t VALUES ({}, {})", values.join(", "), random.u8(..4)));
    }
    for _ in 0..20 {
        let mut one = || {
            let column = ["a", "b", "c", "d"][random.usize(..4)];
            let constant = match random.u8(..3) {
                0 => i64::from(random.i32(..)),
                _ => random.i64(-3..4),
            };
            let of = match random.u8(..5) {
                0 => column.to_string(),
                1 => format!("{constant} + {column}::BIGINT"),
                2 => format!("{column} - ({constant})"),
                _ => format!("{column} + ({constant})"),
            };
            let filter = if random.u8(..4) == 0 { " FILTER (WHERE g > 1)" } else { "" };
            let wide = format!("sum(CAST({of} AS DECIMAL(38, 0))){filter}");
            (format!("sum({of}){filter}"), format!("CAST({wide} AS BIGINT)"))
        };
        let (sums, expected): (Vec<String>, Vec<String>) = (0..6).map(|_| one()).unzip();
        for groups in ["", "g, ", "g % 2, g, "] {
            let query = |list: &[String]| {
                let by = groups.trim_end_matches(", ");
                let by = if by.is_empty() { "".into() } else { format!(" GROUP BY {by}") };
                f.rows(&format!("SELECT {groups}{} FROM t{by} ORDER BY ALL", list.join(", ")))
            };
            assert_eq!(query(&sums), query(&expected), "seed {seed}: {sums:?}");
        }
    }
}
