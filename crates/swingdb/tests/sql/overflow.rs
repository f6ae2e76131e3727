//! Whole numbers that do not fit: an error wherever they are computed, and only there.

use swingdb::Error;

use super::common::{Fixture, fixture, rows, seeded};

/// Expressions on constants and what they give; `None` for an overflow. What DuckDB 2.0 gives,
/// except that literals are BIGINT here.
const CONSTANTS: &[(&str, Option<&str>)] = &[
    ("9223372036854775807 + 1", None),
    ("9223372036854775806 + 1", Some("9223372036854775807")),
    ("-9223372036854775808 - 1", None),
    ("-9223372036854775807 - 1", Some("-9223372036854775808")),
    ("4611686018427387904 * 2", None),
    ("4611686018427387904 * -2", Some("-9223372036854775808")),
    ("3037000500 * 3037000500", None),
    ("-((-9223372036854775807) - 1)", None),
    ("abs(-9223372036854775808)", None),
    ("1 << 62", Some("4611686018427387904")),
    ("1 << 63", None),
    ("1 << 64", None),
    ("0 << 70", Some("0")),
    ("-1 << 1", None),
    ("CAST(127 AS TINYINT) + CAST(1 AS TINYINT)", None),
    ("CAST(127 AS TINYINT) * CAST(2 AS TINYINT)", None),
    ("-CAST(-128 AS TINYINT)", None),
    ("CAST(255 AS UTINYINT) + CAST(1 AS UTINYINT)", None),
    ("CAST(0 AS UTINYINT) - CAST(1 AS UTINYINT)", None),
    ("CAST(0 AS UBIGINT) - CAST(1 AS UBIGINT)", None),
    ("CAST(32767 AS SMALLINT) - CAST(-1 AS SMALLINT)", None),
    ("CAST(2147483647 AS INTEGER) + CAST(1 AS INTEGER)", None),
    ("CAST(2147483647 AS INTEGER) + CAST(1 AS BIGINT)", Some("2147483648")),
    ("NULL + 9223372036854775807", Some("-")),
    ("CAST(9223372036854775807 AS DOUBLE) + 1 > 0", Some("true")),
    ("CAST(300 AS TINYINT)", None),
    ("CAST(CAST('1e300' AS DOUBLE) AS BIGINT)", None),
    ("CAST(-1 AS UBIGINT)", None),
    ("TRY_CAST(300 AS TINYINT)", Some("-")),
    ("CASE WHEN false THEN 9223372036854775807 + 1 ELSE 7 END", Some("7")),
    ("coalesce(7, 9223372036854775807 + 1)", Some("7")),
    ("(SELECT 9223372036854775807) + (SELECT 1)", None),
];

fn is_overflow(error: &Error) -> bool {
    matches!(error, Error::Execution { .. } | Error::Conversion { .. } | Error::Plan { .. })
}

fn check(f: &Fixture, sql: &str, expected: Option<&str>) {
    match (f.con.query(sql).and_then(rows), expected) {
        (Ok(found), Some(expected)) => assert_eq!(found, [expected], "{sql}"),
        (Ok(found), None) => panic!("{sql} gave {found:?}"),
        (Err(error), None) => assert!(is_overflow(&error), "{sql}: {error:?}"),
        (Err(error), Some(_)) => panic!("{sql}: {error}"),
    }
}

#[test]
fn constants() {
    let f = fixture();
    for (expression, expected) in CONSTANTS {
        check(&f, &format!("SELECT {expression}"), *expected);
    }
    let error = f.error("SELECT 9223372036854775807 + 1");
    let text = "overflow in addition of BIGINT: 9223372036854775807 + 1";
    assert!(matches!(&error, Error::Execution { message } if message == text), "{error:?}");
}

/// Random operands of all types near their bounds, against wider arithmetic.
#[test]
fn columns_against_wider_arithmetic() {
    let (mut random, _) = seeded();
    let f = fixture();
    let bits = [("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64)];
    for round in 0..40 {
        let (name, bits) = bits[round % bits.len()];
        let signed = random.bool();
        let name = if signed { name.to_string() } else { format!("U{name}") };
        let low = if signed { -(1i128 << (bits - 1)) } else { 0 };
        let high = if signed { (1i128 << (bits - 1)) - 1 } else { (1i128 << bits) - 1 };
        let mut value = || match random.u8(..4) {
            0 => low + i128::from(random.u8(..3)),
            1 => high - i128::from(random.u8(..3)),
            2 => i128::from(random.u8(..12)),
            _ => (high as f64).sqrt() as i128 + i128::from(random.u8(..3)),
        };
        let pairs = (0..20).map(|_| (value(), value())).collect::<Vec<_>>();
        f.run(&format!("CREATE OR REPLACE TABLE t (n INT, a {name}, b {name})"));
        for (n, (a, b)) in pairs.iter().enumerate() {
            f.run(&format!("INSERT INTO t VALUES ({n}, {a}, {b})"));
        }
        for (n, (a, b)) in pairs.iter().enumerate() {
            for (sign, wide) in [("+", a + b), ("-", a - b), ("*", a * b)] {
                let fits = (low..=high).contains(&wide).then(|| wide.to_string());
                let sql = format!("SELECT a {sign} b FROM t WHERE n = {n}");
                check(&f, &sql, fits.as_deref());
                let sql = format!("SELECT a {sign} CAST({b} AS {name}) FROM t WHERE n = {n}");
                check(&f, &sql, fits.as_deref());
            }
        }
    }
}

/// Operators one behind the other, more than one function takes, against wider arithmetic.
#[test]
fn long_chains_against_wider_arithmetic() {
    let (mut random, _) = seeded();
    let f = fixture();
    f.run("CREATE TABLE t (n INT, a INT, b INT, c INT)");
    f.run("INSERT INTO t VALUES (0, 5, -3, 1), (1, 900000000, 2, 7), (2, NULL, 1, 1)");
    let values: [Option<[i128; 3]>; 3] = [Some([5, -3, 1]), Some([900_000_000, 2, 7]), None];
    for length in [1, 2, 3, 10, 62, 63, 64, 65, 130, 200] {
        for (n, values) in values.iter().enumerate() {
            let mut text = "a".to_string();
            let mut wide = values.map(|values| values[0]);
            let mut fits = true;
            for _ in 0..length {
                let column = random.usize(..3);
                let sign =
                    ["+", "-", "+", "-", "*"][random.usize(..if column > 0 { 5 } else { 4 })];
                let name = ["a", "b", "c"][column];
                text = match sign {
                    "*" => format!("({text}) * {name}"),
                    _ => format!("{text} {sign} {name}"),
                };
                wide = wide.zip(*values).map(|(wide, values)| match sign {
                    "+" => wide + values[column],
                    "-" => wide - values[column],
                    _ => wide * values[column],
                });
                if wide.is_some_and(|wide| i32::try_from(wide).is_err()) {
                    fits = false;
                    break;
                }
            }
            let expected = wide.map_or("-".to_string(), |wide| wide.to_string());
            let sql = format!("SELECT {text} FROM t WHERE n = {n}");
            check(&f, &sql, fits.then_some(&expected));
        }
    }
}

/// Planning a sum took time by the cube of its terms: 64 times as much for four times as many. By
/// the square it is 16 times.
#[test]
fn sums_of_a_thousand_terms() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 2 AS a, 3 AS b");
    let time = |terms: usize| {
        let started = std::time::Instant::now();
        let sum = vec!["1"; terms].join(" + ");
        assert_eq!(f.value(&format!("SELECT {sum}")), terms.to_string());
        let products = vec!["a * b - a"; terms / 2].join(" + ");
        assert_eq!(f.value(&format!("SELECT {products} FROM t")), (2 * terms).to_string());
        started.elapsed()
    };
    let few = time(250).max(time(250));
    let many = time(1000);
    assert!(many < few * 40, "{many:?} and {few:?}");
}

/// One row whose `a + 1` overflows, in each place of a plan that computes something.
#[test]
fn every_part_of_a_plan() {
    let f = fixture();
    f.run("CREATE TABLE t (a BIGINT, g INT)");
    f.run("INSERT INTO t VALUES (9223372036854775807, 1), (1, 2), (NULL, 3)");
    f.run("CREATE VIEW v AS SELECT a + 1 AS b FROM t");
    for sql in [
        "SELECT a + 1 FROM t",
        "SELECT 1 + a FROM t",
        "SELECT a * 2 FROM t",
        "SELECT -(-1 - a) FROM t",
        "SELECT -(-a - 1) FROM t",
        "SELECT * FROM v",
        "SELECT count(*) FROM t WHERE a + 1 > 5",
        "SELECT g FROM t ORDER BY a + 1",
        "SELECT g FROM t ORDER BY a + 1 LIMIT 1",
        "SELECT a + 1, count(*) FROM t GROUP BY a + 1",
        "SELECT max(a + 1) FROM t",
        "SELECT sum(a + 1) FROM t",
        "SELECT count(*) FROM t GROUP BY g HAVING max(a) + 1 > 0",
        "SELECT max(g) FILTER (WHERE a + 1 > 0) FROM t",
        "SELECT count(*) FROM t x JOIN t y ON x.a + 1 = y.a",
        "SELECT count(*) FROM t x JOIN t y ON x.g = y.g AND x.a + 1 > y.a",
        "SELECT count(*) FROM t x LEFT JOIN t y ON x.a + y.a > 3",
        "SELECT max(a + 1) OVER (PARTITION BY g) FROM t",
        "SELECT row_number() OVER (ORDER BY a + 1) FROM t",
        "SELECT row_number() OVER (PARTITION BY a + 1) FROM t",
        "SELECT g FROM t WHERE a IN (SELECT a + 1 FROM t)",
        "SELECT g FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.a = x.a + 1)",
        "SELECT (SELECT max(y.g) FROM t y WHERE y.g = x.g AND y.a + 1 > 0) FROM t x",
        "SELECT a + 1 FROM t UNION ALL SELECT g FROM t",
        "WITH c AS (SELECT a + 1 AS b FROM t) SELECT max(b) FROM c",
        "WITH RECURSIVE r(n) AS (SELECT 9223372036854775805 UNION ALL SELECT n + 1 FROM r) \
         SELECT max(n) FROM r",
        "SELECT CASE WHEN g = 1 THEN a + 1 END FROM t",
        "SELECT [a + 1] FROM t",
        "VALUES (9223372036854775807 + 1)",
        "SELECT * FROM generate_series(1, 9223372036854775807 + 1)",
        "UPDATE t SET a = a + 1",
        "UPDATE t SET g = 5 WHERE a + 1 > 0",
        "DELETE FROM t WHERE a + 1 > 0",
        "INSERT INTO t SELECT a + 1, g FROM t",
        "INSERT INTO t VALUES (9223372036854775807 + 1, 1)",
        "CREATE TABLE u AS SELECT a + 1 AS b FROM t",
        "MERGE INTO t USING (VALUES (1)) AS s(k) ON t.g = s.k \
         WHEN MATCHED THEN UPDATE SET a = a + 1",
    ] {
        check(&f, sql, None);
        // Statements are atomic.
        assert_eq!(f.value("SELECT count(*) || '|' || max(a) FROM t"), "3|9223372036854775807");
    }
    // The row that would overflow is not computed.
    assert_eq!(f.value("SELECT a + 1 FROM t WHERE g = 2"), "2");
    assert_eq!(f.value("SELECT a + 1 FROM t WHERE g = 3"), "-");
}

#[test]
fn sums() {
    let f = fixture();
    f.run("CREATE TABLE t (g INT, a BIGINT, u UBIGINT, d DECIMAL(38, 0))");
    let (big, nines) = ("9223372036854775807", "9".repeat(38));
    f.run(&format!(
        "INSERT INTO t VALUES (1, {big}, 18446744073709551615, {nines}), (1, 1, 1, 1), \
         (1, -1, 0, -1), (2, 5, 7, 9), (2, NULL, NULL, NULL), (3, NULL, NULL, NULL)"
    ));
    // What leaves the type on the way and comes back is right.
    assert_eq!(f.value("SELECT sum(a) FROM t WHERE g = 1"), big);
    assert_eq!(f.rows("SELECT sum(a) FROM t GROUP BY g ORDER BY g"), [big, "5", "-"]);
    assert_eq!(f.value("SELECT sum(DISTINCT a) FROM t WHERE g = 1"), big);
    for sql in [
        "SELECT sum(a) FROM t",
        "SELECT sum(a) FROM t WHERE a > 0",
        "SELECT sum(DISTINCT a) FROM t",
        "SELECT sum(a) FILTER (WHERE a > 0) FROM t",
        "SELECT g, sum(a) FROM t WHERE a > 0 GROUP BY g",
        "SELECT g, sum(DISTINCT a) FROM t WHERE a > 0 GROUP BY g",
        "SELECT sum(a) OVER (ORDER BY g, a DESC) FROM t WHERE a > 0",
        "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t \
         WHERE a > 0",
        "SELECT sum(u) FROM t",
        "SELECT g, sum(u) FROM t GROUP BY g",
        "SELECT sum(d) FROM t",
        "SELECT sum(d) FROM t WHERE d > 0 GROUP BY g",
        "SELECT sum(a + 1) FROM t",
    ] {
        check(&f, sql, None);
    }
    let window = "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
                  FROM t WHERE g = 1 ORDER BY a";
    check(&f, window, None);
    let window = "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
                  FROM t WHERE a < 10 ORDER BY a";
    assert_eq!(f.rows(window), ["-1", "0", "6"]);
    // There is room in a wider type.
    let wide = "SELECT sum(CAST(a AS DECIMAL(38, 0))) FROM t";
    assert_eq!(f.value(wide), "9223372036854775812");
}

#[test]
fn sums_against_wider_arithmetic() {
    let (mut random, seed) = seeded();
    let f = fixture();
    for _ in 0..5 {
        let groups = random.i64(1..2000);
        f.run(&format!(
            "CREATE OR REPLACE TABLE t AS SELECT value % {groups} AS g, \
             CASE WHEN value % 7 = 0 THEN NULL ELSE value * 1000003 - 70000000000 END AS a \
             FROM generate_series(1, 200000) AS value"
        ));
        let (mut totals, mut counts) = (vec![0i128; groups as usize], vec![0; groups as usize]);
        for value in 1..=200_000i128 {
            if value % 7 != 0 {
                totals[(value % i128::from(groups)) as usize] += value * 1_000_003 - 70_000_000_000;
                counts[(value % i128::from(groups)) as usize] += 1;
            }
        }
        let expected = totals.iter().zip(&counts).map(|(total, count)| match count {
            0 => "-".to_string(),
            _ => total.to_string(),
        });
        let expected = expected.collect::<Vec<_>>();
        assert_eq!(f.rows("SELECT sum(a) FROM t GROUP BY g ORDER BY g"), expected, "seed {seed}");
        let whole = totals.iter().sum::<i128>().to_string();
        assert_eq!(f.value("SELECT sum(a) FROM t"), whole, "seed {seed}");
        let decimals = "SELECT sum(CAST(a AS DECIMAL(20, 2))) FROM t";
        assert_eq!(f.value(decimals), format!("{whole}.00"), "seed {seed}");
    }
}

#[test]
fn names_and_types_of_columns_stay() {
    let f = fixture();
    f.run("CREATE TABLE t (a INTEGER NOT NULL, b INTEGER NOT NULL)");
    f.run("INSERT INTO t VALUES (1, 2)");
    let result = f.run("SELECT a + b, a * b AS product, -a FROM t ORDER BY a + b");
    let schema = result.schema();
    let fields = schema.fields().iter();
    let fields = fields.map(|f| format!("{} {}", f.name(), f.data_type())).collect::<Vec<_>>();
    assert_eq!(fields[1], "product Int32");
    assert!(fields.iter().all(|field| field.ends_with("Int32")), "{fields:?}");
    assert_eq!(rows(result).unwrap(), ["3|2|-1"]);
    // The order of a column is the order of what is added to it.
    f.run("CREATE TABLE s AS SELECT i AS n FROM generate_series(1, 300000) AS i ORDER BY i");
    let plan = f.rows("EXPLAIN SELECT n + 1 AS m FROM s ORDER BY m").join("\n");
    assert!(!plan.contains("SortExec"), "{plan}");
}
