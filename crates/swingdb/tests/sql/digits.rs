//! Decimals and HUGEINT at their limits: an exact result, or an error.

use super::common::fixture;

#[test]
fn results_of_more_than_38_digits_are_errors() {
    let f = fixture();
    f.run("CREATE TABLE a (v DECIMAL(38, 2), w DECIMAL(38, 0), h HUGEINT)");
    f.run(
        "INSERT INTO a VALUES (600000000000000000000000000000000000.50, \
         60000000000000000000000000000000000000, 7)",
    );
    for expression in [
        "v + v",
        "v - (-v)",
        "v * 2",
        "2 * v",
        "w + w",
        "w - (-w)",
        "w * 2",
        "w * w",
        "v + v - v",
        "v / 0.0001",
        "sum(v + v)",
        "99999999999999999999999999999999999999::HUGEINT + 1",
        "99999999999999999999::DECIMAL(20, 0) * 9999999999999999999::DECIMAL(19, 0)",
    ] {
        let error = f.error(&format!("SELECT {expression} FROM a")).to_string();
        assert!(error.to_lowercase().contains("overflow"), "{expression}: {error}");
    }
    for statement in [
        "UPDATE a SET v = v * 2",
        "CREATE TABLE b AS SELECT w + w AS y FROM a",
        "INSERT INTO a (w) SELECT w + w FROM a",
        "DELETE FROM a WHERE v + v > 0",
    ] {
        f.error(statement);
    }
    assert_eq!(
        f.rows("SELECT v, count(*) OVER () FROM a"),
        ["600000000000000000000000000000000000.50|1"]
    );
}

#[test]
fn results_of_38_digits_are_exact() {
    let f = fixture();
    for (expression, expected) in [
        (
            "99999999999999999999999999999999999998::HUGEINT + 1",
            "99999999999999999999999999999999999999",
        ),
        (
            "-99999999999999999999999999999999999998::HUGEINT - 1",
            "-99999999999999999999999999999999999999",
        ),
        (
            "33333333333333333333333333333333333333::HUGEINT * 3",
            "99999999999999999999999999999999999999",
        ),
        (
            "499999999999999999999999999999999999.50::DECIMAL(38, 2) * 2",
            "999999999999999999999999999999999999.00",
        ),
        ("NULL::DECIMAL(38, 0) + 1", "-"),
        ("0.1 + 0.2 = 0.3", "true"),
    ] {
        assert_eq!(f.value(&format!("SELECT {expression}")), expected, "{expression}");
    }
    // A NULL hides what is computed beneath it.
    let hidden = "SELECT count(x + x) FROM (SELECT CASE WHEN i < 3 THEN \
                  60000000000000000000000000000000000000::HUGEINT * (i - i) END AS x \
                  FROM range(5) t(i)) q";
    assert_eq!(f.value(hidden), "3");
}

#[test]
fn averages_of_large_decimals_are_between_them() {
    let f = fixture();
    f.run("CREATE TABLE d (g INT, x DECIMAL(38, 0))");
    f.run(
        "INSERT INTO d VALUES (1, 50000000000000000000000000000000000000), \
         (1, 40000000000000000000000000000000000000), \
         (2, 99999999999999999999999999999999999999), \
         (2, 99999999999999999999999999999999999997)",
    );
    assert_eq!(f.value("SELECT avg(x)::DOUBLE = 4.5e37 FROM d WHERE g = 1"), "true");
    assert_eq!(
        f.rows("SELECT g, avg(x) FROM d GROUP BY g ORDER BY g"),
        [
            "1|45000000000000000000000000000000000000.0000",
            "2|99999999999999999999999999999999999998.0000"
        ]
    );
    assert_eq!(
        f.value("SELECT avg(DISTINCT x) FROM d WHERE g = 1"),
        "45000000000000000000000000000000000000.0000"
    );
    let moving = "SELECT avg(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM d \
                  ORDER BY x DESC LIMIT 1";
    assert_eq!(f.value(moving), "99999999999999999999999999999999999998.0000");
}

#[test]
fn hugeint_is_a_whole_number() {
    let f = fixture();
    for (expression, expected) in [
        ("7::HUGEINT // 2::HUGEINT", "3"),
        ("-7::HUGEINT // 2", "-3"),
        ("7 // 2::HUGEINT", "3"),
        ("NULL::HUGEINT // 2", "-"),
        (
            "99999999999999999999999999999999999999::HUGEINT // 10",
            "9999999999999999999999999999999999999",
        ),
        ("7.5 // 2", "3.75000"),
        ("7 // 2", "3"),
        ("2.5::DOUBLE::HUGEINT", "2"),
        ("3.5::DOUBLE::HUGEINT", "4"),
        ("-2.5::REAL::HUGEINT", "-2"),
        ("2.5::HUGEINT", "3"),
    ] {
        assert_eq!(f.value(&format!("SELECT {expression}")), expected, "{expression}");
    }
    f.error("SELECT 7::HUGEINT // 0");
    f.run("CREATE TABLE h (x HUGEINT)");
    f.run("INSERT INTO h VALUES (4), (5), (NULL)");
    assert_eq!(f.value("SELECT median(x) FROM h"), "4.5");
    assert_eq!(f.value("SELECT quantile_cont(x, 0.25) FROM h"), "4.25");
    assert_eq!(f.value("SELECT quantile_disc(x, 0.5) FROM h"), "4");
    assert_eq!(f.value("SELECT list_median([1::HUGEINT, 2])"), "1.5");
    f.run("INSERT INTO h SELECT 2.5::DOUBLE");
    assert_eq!(f.value("SELECT min(x) FROM h"), "2");
}

#[test]
fn functions_of_real_are_computed_as_double() {
    let f = fixture();
    for (call, expected) in [
        ("log(2::REAL)", "0.3010299956639812"),
        ("ln(2::REAL)", "0.6931471805599453"),
        ("sqrt(2::REAL)", "1.4142135623730951"),
        ("exp(1::REAL)", "2.718281828459045"),
        ("sin(1::REAL)", "0.8414709848078965"),
        ("atan2(1::REAL, 2::REAL)", "0.4636476090008061"),
        ("power(2::REAL, 0.5::REAL)", "1.4142135623730951"),
        ("typeof(cbrt(2::REAL))", "DOUBLE"),
        ("typeof(round(2.5::REAL))", "FLOAT"),
        ("typeof(abs(2.5::REAL))", "FLOAT"),
    ] {
        assert_eq!(f.value(&format!("SELECT {call}")), expected, "{call}");
    }
    assert_eq!(f.value("SELECT sqrt(x) FROM (VALUES (2::REAL)) t(x)"), "1.4142135623730951");
}
