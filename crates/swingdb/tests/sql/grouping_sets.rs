//! ROLLUP, CUBE and GROUPING SETS, which are computed in two steps where there are few groups, and
//! one after the other where there are many.

use super::common::{Fixture, fixture, planned, seeded};

/// Aggregates that can be computed in steps.
const IN_STEPS: [&str; 10] = [
    "count(*)",
    "count(n)",
    "sum(n)",
    "min(s)",
    "max(d)",
    "sum(d)",
    "avg(n)",
    "max(x)",
    "sum(n) FILTER (WHERE n > 50)",
    "count(*) FILTER (WHERE s < 'm')",
];

fn table() -> Fixture {
    let f = fixture();
    f.run(
        "CREATE TABLE t (a INT, b VARCHAR, c BOOLEAN, n BIGINT, s VARCHAR, d DECIMAL(9, 2),
           x DOUBLE)",
    );
    f
}

fn fill(f: &Fixture, random: &mut fastrand::Rng, rows: usize) {
    let letter = |n: u8| format!("'{}'", char::from(b'a' + n));
    let row = |_| {
        let values = [
            random.u8(..4).to_string(),
            letter(random.u8(..3)),
            random.bool().to_string(),
            random.i64(-9..99).to_string(),
            letter(random.u8(..26)),
            format!("{}::DECIMAL(9, 2) / 100", random.i16(..)),
            ["'NaN'", "-0.0", "0.0", "1.5"][random.usize(..4)].to_string(),
        ];
        let some = |value| if random.u8(..8) == 0 { "NULL".to_string() } else { value };
        format!("({})", values.map(some).join(", "))
    };
    let list: Vec<String> = (0..rows).map(row).collect();
    f.run(&format!("INSERT INTO t VALUES {}", list.join(", ")));
}

fn steps(f: &Fixture, sql: &str) -> usize {
    planned(f, sql).matches("Aggregate: groupBy").count()
}

/// The rows of a query, by a plan of one step: with an aggregate that has no parts.
fn in_one_step(f: &Fixture, query: &str) -> Vec<String> {
    let plain = query.replacen("FROM t", ", count(DISTINCT n) FROM t", 1);
    assert_eq!(steps(f, &plain), 1, "{plain}");
    let rows = f.rows(&plain);
    rows.iter().map(|row| row.rsplit_once('|').unwrap().0.to_string()).collect()
}

#[test]
fn two_steps_are_one() {
    let (mut random, _) = seeded();
    let f = table();
    fill(&f, &mut random, 2000);
    for one in IN_STEPS {
        assert_eq!(steps(&f, &format!("SELECT {one} FROM t GROUP BY ROLLUP (a)")), 2, "{one}");
    }
    let aggregates = IN_STEPS.join(", ");
    for sets in [
        "ROLLUP (a, b, c)",
        "CUBE (a, b)",
        "GROUPING SETS ((a, b), (c), ())",
        "GROUPING SETS ((a), (a), (b, c))",
        "a, ROLLUP (b, c)",
        "ROLLUP (a + 1, upper(b))",
        "CUBE (c, a % 2)",
    ] {
        let keys = match sets {
            "ROLLUP (a + 1, upper(b))" => "a + 1, upper(b), grouping(a + 1)",
            "CUBE (c, a % 2)" => "c, a % 2, grouping(c, a % 2)",
            "CUBE (a, b)" => "a, b, grouping(a, b)",
            _ => "a, b, c, grouping(b)",
        };
        let all = format!("SELECT {keys}, {aggregates} FROM t GROUP BY {sets} ORDER BY ALL");
        assert_eq!(steps(&f, &all), 2, "{sets}");
        assert_eq!(f.rows(&all), in_one_step(&f, &all), "{sets}");
    }
    let having = "SELECT a, sum(n) FROM t GROUP BY ROLLUP (a) HAVING count(*) > 2000 - 1";
    assert_eq!(f.rows(having).len(), 1);
}

#[test]
fn many_groups_are_computed_set_by_set() {
    let f = table();
    let rows = 120_000;
    f.run(&format!(
        "INSERT INTO t SELECT nullif(i * 7919 % 50021, 7), nullif('b' || i % 97, 'b5'),
           nullif(i % 3, 0) = 1, nullif(i % 1000, 3), chr(97 + i % 26),
           (i % 10007)::DECIMAL(9, 2) / 100, ['NaN', '-0.0', '0.0', '1.5', NULL][1 + i % 5]
         FROM range({rows}) AS r(i)"
    ));
    let aggregates = IN_STEPS.join(", ");
    for (sets, keys) in [
        ("ROLLUP (a, b, c)", "a, b, c, grouping(a, b, c)"),
        ("ROLLUP (b, a)", "a, b, grouping(b)"),
        ("a, ROLLUP (b, c)", "a, b, c, grouping(c)"),
        ("ROLLUP (a + 1, upper(b))", "a + 1, upper(b), grouping(a + 1)"),
        ("ROLLUP (x, a)", "x, a, grouping(x)"),
        ("GROUPING SETS ((a), (c, a, b), (a, b), ())", "c, a, b, grouping(c, b, a)"),
    ] {
        let all = format!("SELECT {keys}, {aggregates} FROM t GROUP BY {sets} ORDER BY ALL");
        assert!(planned(&f, &all).contains("MaterializeExec"), "{sets}");
        assert!(f.rows(&all) == in_one_step(&f, &all), "{sets}");
    }
    let whole = "SELECT grouping(a, b), count(*), sum(d) FROM t GROUP BY ROLLUP (a, b)
                 HAVING grouping(a) = 1";
    assert_eq!(f.rows(whole), ["3|120000|5999432.34"]);
    for sets in ["CUBE (a, b)", "GROUPING SETS ((a, b), (a), (b))", "ROLLUP (a)", "ROLLUP (a, a)"] {
        let query = format!("SELECT count(*) FROM t GROUP BY {sets}");
        assert!(!planned(&f, &query).contains("MaterializeExec"), "{sets}");
    }
    f.run("DELETE FROM t");
    assert_eq!(f.rows("SELECT a, b, count(*) FROM t GROUP BY ROLLUP (a, b)"), ["-|-|0"]);
}

#[test]
fn nothing_to_group() {
    let f = table();
    let plain = "SELECT a, count(*), sum(n), count(DISTINCT n) FROM t GROUP BY ROLLUP (a)";
    let all = "SELECT a, count(*), sum(n), 0 FROM t GROUP BY ROLLUP (a)";
    assert_eq!(f.rows(all), f.rows(plain));
}

#[test]
fn what_is_not_worth_it_or_not_possible_is_one_step() {
    let f = table();
    fill(&f, &mut fastrand::Rng::with_seed(1), 200);
    f.run("CREATE TABLE apart AS SELECT range AS k, range % 3 AS g FROM range(1000)");
    for one in [
        "SELECT k, g, count(*) FROM apart GROUP BY ROLLUP (k, g)",
        "SELECT a, avg(d) FROM t GROUP BY ROLLUP (a)",
        "SELECT a, sum(DISTINCT n) FROM t GROUP BY ROLLUP (a)",
        "SELECT a, array_agg(n ORDER BY n) FROM t GROUP BY ROLLUP (a)",
        "SELECT a, stddev(n) FROM t GROUP BY ROLLUP (a)",
    ] {
        assert_eq!(steps(&f, one), 1, "{one}");
    }
    let groups = "SELECT a, b, sum(m) FROM (SELECT a, b, max(n) AS m FROM t GROUP BY a, b)
                  GROUP BY ROLLUP (a, b)";
    assert_eq!(steps(&f, groups), 2, "groups are not grouped once more");
    assert_eq!(steps(&f, "SELECT g, count(*) FROM apart GROUP BY ROLLUP (g)"), 2);
}
