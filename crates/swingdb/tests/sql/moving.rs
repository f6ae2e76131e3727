//! Aggregates of floating point numbers over moving frames: what has left leaves nothing behind.

use super::common::fixture;

/// Aggregates of one number and of two, in which all of a frame counts.
const OF_ONE: [&str; 6] = ["sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop"];
const OF_TWO: [&str; 12] = [
    "covar_samp",
    "covar_pop",
    "corr",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
    "regr_avgx",
    "regr_avgy",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
    "regr_count",
];

#[test]
fn outliers_are_forgotten() {
    let f = fixture();
    for (call, values, expected) in [
        ("sum(x)", "(1e17), (2), (3)", "5.0"),
        ("sum(x)", "(3.3), (0.7), (0), (0)", "0.0"),
        ("avg(x)", "(1), (1e17), (2), (3)", "2.5"),
        ("sum(x)", "(1), ('inf'), (2), (3)", "5.0"),
        ("avg(x)", "(1), ('nan'), (2), (3)", "2.5"),
        ("sum(x)", "(NULL), ('nan'), (NULL), (3)", "3.0"),
        ("sum(x)", "(1), (2), (NULL), (NULL)", "-"),
        ("stddev_pop(x)", "(1e9), (5), (5), (5)", "0.0"),
        ("var_samp(x)", "('nan'), (5), (7)", "2.0"),
        ("covar_pop(x, x)", "('inf'), (5), (7)", "1.0"),
        ("corr(x, -x)", "('nan'), (5), (7)", "-1.0"),
        ("regr_slope(x, 2 * x)", "(1e300), (5), (7)", "0.5"),
    ] {
        f.run("CREATE OR REPLACE TABLE t (i INT, x DOUBLE)");
        f.run(&format!(
            "INSERT INTO t SELECT row_number() OVER (), x FROM (VALUES {}) v(x)",
            values.replace('(', "(CAST(").replace(')', " AS DOUBLE))")
        ));
        let sql = format!(
            "SELECT {call} OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t \
             ORDER BY i DESC LIMIT 1"
        );
        assert_eq!(f.value(&sql), expected, "{call} of {values}");
    }
}

#[test]
fn a_range_of_time_moves_too() {
    let f = fixture();
    f.run("CREATE TABLE s (at TIMESTAMP, x DOUBLE)");
    f.run(
        "INSERT INTO s VALUES ('2024-05-01 10:00:00', 1e18), ('2024-05-01 10:10:00', 1), \
         ('2024-05-01 10:10:30', 2)",
    );
    let sql = "SELECT sum(x) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1 minute' PRECEDING AND \
               CURRENT ROW) FROM s ORDER BY at";
    assert_eq!(f.rows(sql), ["1e18", "1.0", "3.0"]);
}

/// Each frame of random rows, against the same aggregate of the rows of the frame alone.
#[test]
fn frames_are_what_their_rows_are() {
    let f = fixture();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    f.run("CREATE TABLE t (i INT, x DOUBLE, y DOUBLE)");
    let mut number = || match random.u8(0..10) {
        0 => "NULL".to_string(),
        _ => format!("{}", random.i32(-50..50)),
    };
    let rows = (0..60).map(|i| format!("({i}, {}, {})", number(), number()));
    f.run(&format!("INSERT INTO t VALUES {}", rows.collect::<Vec<_>>().join(", ")));
    let calls = OF_ONE.iter().map(|name| (name, "x", "s.x"));
    let calls = calls.chain(OF_TWO.iter().map(|name| (name, "x, y", "s.x, s.y")));
    for (name, args, of_rows) in calls {
        for (frame, condition) in [
            ("3 PRECEDING AND CURRENT ROW", "s.i BETWEEN t.i - 3 AND t.i"),
            ("2 PRECEDING AND 2 FOLLOWING", "s.i BETWEEN t.i - 2 AND t.i + 2"),
            ("1 FOLLOWING AND UNBOUNDED FOLLOWING", "s.i > t.i"),
            ("5 PRECEDING AND 4 PRECEDING", "s.i BETWEEN t.i - 5 AND t.i - 4"),
        ] {
            let sql = format!(
                "SELECT count(*) FROM (SELECT i, \
                 {name}({args}) OVER (ORDER BY i ROWS BETWEEN {frame}) AS a, \
                 (SELECT {name}({of_rows}) FROM t s WHERE {condition}) AS b FROM t) q \
                 WHERE (a IS NULL) <> (b IS NULL) OR abs(a - b) > 1e-6 * greatest(1, abs(b))"
            );
            assert_eq!(f.value(&sql), "0", "{name} over {frame}");
        }
    }
}
