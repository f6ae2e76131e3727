//! Statements that are very deep or very long: answered, or an error that says so.

use std::time::{Duration, Instant};

use super::common::{Fixture, fixture};
use swingdb::Error;

/// Whatever else the machine does meanwhile.
const SOON: Duration = Duration::from_secs(60);

/// Runs a statement on a thread with the stack that threads have by default.
fn outcome(f: &Fixture, sql: &str) -> Result<Vec<String>, Error> {
    std::thread::scope(|scope| {
        let run = || f.con.query(sql).and_then(super::common::rows);
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, run);
        thread.unwrap().join().unwrap()
    })
}

fn value(f: &Fixture, sql: &str) -> String {
    match outcome(f, sql) {
        Ok(rows) => rows.join(" "),
        Err(error) => panic!("{error}: {}", &sql[..sql.len().min(100)]),
    }
}

fn refused(f: &Fixture, sql: &str) {
    let begun = Instant::now();
    let error = outcome(f, sql).unwrap_err();
    let typed =
        matches!(error, Error::Plan { .. } | Error::Parse { .. } | Error::Unsupported { .. });
    assert!(typed, "{error:?}: {}", &sql[..sql.len().min(100)]);
    assert!(begun.elapsed() < SOON, "{:?}: {}", begun.elapsed(), &sql[..sql.len().min(100)]);
}

/// `first`, and `count` times `more`.
fn chain(first: &str, more: &str, count: usize) -> String {
    format!("{first}{}", more.repeat(count))
}

fn list(count: usize, separator: &str, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(separator)
}

#[test]
fn long_lists_of_conditions_are_answered() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS a FROM range(10)");
    let any = list(5_000, " OR ", |n| format!("a = {}", n + 7));
    assert_eq!(value(&f, &format!("SELECT count(*) FROM t WHERE {any}")), "3");
    let none = list(5_000, " AND ", |n| format!("a <> {}", n + 7));
    assert_eq!(value(&f, &format!("SELECT count(*) FROM t WHERE {none}")), "7");
    let pairs = list(1_000, " OR ", |n| format!("(a = {n} AND a + 1 = {})", n + 1));
    assert_eq!(value(&f, &format!("SELECT count(*) FROM t WHERE {pairs}")), "10");
    let any = list(2_000, " OR ", |n| format!("a = {}", n + 7));
    assert_eq!(value(&f, &format!("SELECT sum(CASE WHEN {any} THEN 1 END) FROM t")), "3");
    f.run(&format!("CREATE VIEW v AS SELECT a FROM t WHERE {any}"));
    assert_eq!(value(&f, "SELECT count(*) FROM v"), "3");
}

#[test]
fn long_lists_of_queries_are_answered() {
    let f = fixture();
    let selects =
        |count, operator: &str| list(count, operator, |n| format!("SELECT {} AS x", n % 7));
    let count = |list: String| value(&f, &format!("SELECT count(*) FROM ({list})"));
    assert_eq!(count(selects(1_000, " UNION ALL ")), "1000");
    assert_eq!(count(selects(1_000, " UNION ")), "7");
    // `0` is what the first query has and 1 to 6 are what the others have.
    assert_eq!(count(selects(7, " EXCEPT ")), "1");
    assert_eq!(count(selects(1_000, " EXCEPT ")), "0");
    let others = list(500, " EXCEPT ", |n| format!("SELECT {} AS x", n % 7 + 1));
    assert_eq!(value(&f, &format!("SELECT 0 AS x EXCEPT {others}")), "0");
    assert_eq!(count(list(500, " INTERSECT ", |_| "SELECT 3 AS x".to_string())), "1");
    assert_eq!(count(list(500, " INTERSECT ", |n| format!("SELECT {n} AS x"))), "0");
    // Three of one row, less fifty of another and two of the same.
    let all = format!("VALUES (1), (1), (1), (2){}", " EXCEPT ALL VALUES (3)".repeat(50));
    let all = format!("SELECT count(*) FROM ({all} EXCEPT ALL VALUES (1), (1))");
    assert_eq!(value(&f, &all), "2");
    f.run(&format!("CREATE VIEW v AS {}", selects(100, " UNION ")));
    assert_eq!(value(&f, "SELECT sum(x) FROM v"), "21");
    assert_eq!(value(&f, &format!("{} LIMIT 1", selects(40, " UNION ALL "))), "0");
}

#[test]
fn chains_within_the_limit_are_answered() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS a, 'x' AS s FROM range(3)");
    assert_eq!(value(&f, &chain("SELECT 1", " + 1", 300)), "301");
    assert_eq!(value(&f, &format!("{} FROM t", chain("SELECT sum(a", " + a", 300) + ")")), "903");
    assert_eq!(value(&f, &chain("SELECT 1", "::INT::BIGINT", 40)), "1");
    assert_eq!(value(&f, &format!("SELECT length({})", chain("'a'", " || 'b'", 100))), "101");
    let texts = format!("SELECT sum(length({})) FROM t", chain("s", " || s", 100));
    assert_eq!(value(&f, &texts), "303");
    let nested = format!("{}SELECT 1 AS x{}", "SELECT * FROM (".repeat(40), ")".repeat(40));
    assert_eq!(value(&f, &nested), "1");
    let with = list(400, ", ", |n| match n {
        0 => "a0 AS (SELECT 1 AS x)".to_string(),
        n => format!("a{n} AS (SELECT x + 1 AS x FROM a{})", n - 1),
    });
    assert_eq!(value(&f, &format!("WITH {with} SELECT x FROM a399")), "400");
}

#[test]
fn what_is_too_deep_is_refused() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS a, 'x' AS s, [[range]] AS l FROM range(3)");
    let with = list(10_000, ", ", |n| match n {
        0 => "a0 AS (SELECT 1 AS x)".to_string(),
        n => format!("a{n} AS (SELECT x + 1 AS x FROM a{})", n - 1),
    });
    for sql in [
        chain("SELECT 1", " + 1", 10_000),
        chain("SELECT a", " - a", 10_000) + " FROM t",
        chain("SELECT s", " || s", 10_000) + " FROM t",
        chain("SELECT 1", "::INT::BIGINT", 5_000),
        chain("SELECT l", "[1]", 10_000) + " FROM t",
        chain("SELECT a", " IS NULL", 10_000) + " FROM t",
        chain("SELECT 1", " UNION SELECT 2 UNION ALL SELECT 1", 2_000),
        format!("{}SELECT 1{}", "SELECT * FROM (".repeat(10_000), ")".repeat(10_000)),
        format!("SELECT * FROM {}t{}", "(t JOIN ".repeat(1_000), ")".repeat(1_000)),
        format!("WITH {with} SELECT x FROM a9999"),
        format!("CREATE TABLE u (x INT DEFAULT ({}))", chain("1", " + 1", 10_000)),
        format!("CREATE VIEW u AS {}", chain("SELECT 1", " + 1", 10_000)),
        format!("CREATE MACRO u(x) AS {}", chain("x", " + 1", 10_000)),
        format!("COPY (SELECT {}) TO 'u.csv'", chain("1", " + 1", 10_000)),
        format!("EXPLAIN SELECT {}", chain("1", " + 1", 10_000)),
        format!("INSERT INTO t (a) VALUES ({})", chain("1", " + 1", 10_000)),
        format!("UPDATE t SET a = {}", chain("1", " + 1", 10_000)),
        format!("SELECT {} FROM", chain("1", " + 1", 100_000)),
    ] {
        refused(&f, &sql);
    }
    assert_eq!(value(&f, "SELECT count(*) FROM t"), "3");
}

#[test]
fn what_stands_for_too_much_is_refused() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS x FROM range(2)");
    f.run("CREATE VIEW v0 AS SELECT x FROM t");
    for n in 1..=40 {
        let below = n - 1;
        let sql =
            format!("CREATE VIEW v{n} AS SELECT x FROM v{below} UNION ALL SELECT x FROM v{below}");
        // A view is planned when it is created: a column of it has a type.
        if outcome(&f, &sql).is_err() {
            assert!(n > 10, "{n}");
            break;
        }
    }
    assert_eq!(value(&f, "SELECT count(*) FROM v6"), "128");
    let doubled = |count| {
        list(count, ", ", |n| match n {
            0 => "a0 AS (SELECT 1 AS x)".to_string(),
            n => format!("a{n} AS (SELECT p.x FROM a{0} AS p, a{0} AS q)", n - 1),
        })
    };
    assert_eq!(value(&f, &format!("WITH {} SELECT count(*) FROM a5", doubled(6))), "1");
    refused(&f, &format!("WITH {} SELECT count(*) FROM a29", doubled(30)));
    let keys = |count| list(count, ", ", |n| format!("c{n}"));
    let columns = list(20, ", ", |n| format!("x AS c{n}"));
    f.run(&format!("CREATE TABLE w AS SELECT {columns} FROM t"));
    assert_eq!(
        value(&f, &format!("SELECT count(*) FROM (SELECT 1 FROM w GROUP BY CUBE ({}))", keys(3))),
        "15"
    );
    refused(&f, &format!("SELECT count(*) FROM w GROUP BY CUBE ({})", keys(20)));
    refused(&f, &format!("SELECT count(*) FROM w GROUP BY CUBE ({}), CUBE ({})", keys(8), keys(7)));
}

#[test]
fn texts_of_statements_count() {
    let f = fixture();
    f.run("CREATE TABLE t (x INT)");
    f.run("SET memory_limit = '50MB'");
    let values = list(200_000, ", ", |n| format!("({n})"));
    for sql in [
        format!("SELECT length('{}')", "x".repeat(20_000_000)),
        format!("SELECT * FROM (VALUES {values})"),
        format!("INSERT INTO t VALUES {values}"),
    ] {
        let error = outcome(&f, &sql).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    }
    let values = list(10_000, ", ", |n| format!("({n})"));
    f.run(&format!("INSERT INTO t VALUES {values}"));
    assert_eq!(value(&f, "SELECT count(*) FROM t"), "10000");
    assert_eq!(value(&f, &format!("SELECT length('{}')", "x".repeat(1_000_000))), "1000000");
}

#[test]
fn rows_that_a_change_collects_count() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS i, 'x' AS s FROM range(50000)");
    f.run("SET memory_limit = '20MB'");
    for sql in [
        "UPDATE t SET s = repeat('y', 1000) || i",
        "INSERT INTO t SELECT range, repeat('y', 1000) || range FROM range(50000) RETURNING s",
        "MERGE INTO t USING range(50000) AS r ON t.i = r.r \
         WHEN MATCHED THEN UPDATE SET s = repeat('y', 1000) || i",
    ] {
        let error = outcome(&f, sql).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { file_system: None, .. }), "{sql}: {error:?}");
    }
    assert_eq!(value(&f, "SELECT count(*), max(s) FROM t"), "50000|x");
    // What streams needs no memory for all of it.
    f.run("INSERT INTO t SELECT range, repeat('y', 1000) || range FROM range(50000)");
    assert_eq!(value(&f, "SELECT count(*), max(length(s)) FROM t"), "100000|1005");
}

#[test]
fn patterns_of_rows_are_a_few_at_a_time() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS i, range::VARCHAR AS s FROM range(100)");
    let of = |sql: &str| value(&f, sql);
    assert_eq!(of("SELECT count(*) FROM t WHERE regexp_matches(s, '^' || s || '$')"), "100");
    assert_eq!(of("SELECT count(*) FROM t WHERE regexp_matches('7', s)"), "1");
    assert_eq!(of("SELECT count(*) FROM t WHERE s ~ s"), "100");
    assert_eq!(of("SELECT count(*) FROM t WHERE '7' !~ s"), "99");
    assert_eq!(of("SELECT count(*) FROM t WHERE 'A7' ~* ('a' || s)"), "1");
    assert_eq!(of("SELECT count(*) FROM t WHERE 'A7' !~* ('a' || s)"), "99");
    let replaced =
        "SELECT string_agg(regexp_replace(s, s, i || 'x'), ',' ORDER BY i) FROM t WHERE i < 3";
    assert_eq!(of(replaced), "0x,1x,2x");
}

#[test]
fn long_constants_beside_rows_come_in_small_batches() {
    let f = fixture();
    f.run("SET memory_limit = '200MB'");
    let sql =
        "SELECT count(*), sum(x) FROM (SELECT unnest(range(300000)) AS x, range FROM range(20))";
    assert_eq!(value(&f, sql), "6000000|899997000000");
    let plan = value(&f, "EXPLAIN SELECT range(1000000) AS l, range FROM range(30)");
    assert!(plan.contains("SlicesExec: rows=2"), "{plan}");
    let plan = value(&f, "EXPLAIN SELECT range(10) AS l, range FROM range(30)");
    assert!(!plan.contains("SlicesExec"), "{plan}");
}

#[test]
fn a_long_chain_of_texts_is_one_call() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range::VARCHAR AS s FROM range(12)");
    let chain = vec!["s"; 1_000].join(" || ");
    assert_eq!(value(&f, &format!("SELECT max(length({chain})) FROM t")), "2000");
    let plan = value(&f, "EXPLAIN SELECT s || 'a' || s || 'b' FROM t");
    assert!(!plan.contains("concat_operator(concat_operator("), "{plan}");
    let of = |chain: &str| f.rows(&format!("SELECT {chain} AS c FROM t WHERE s = '7'"));
    assert_eq!(of("s || 'a' || s || 'b' || 'c'"), ["7a7bc"]);
    assert_eq!(of("s || NULL || s || 'b'"), ["-"]);
    assert_eq!(of("'a' || s || ('b' || s || 'c')"), ["a7b7c"]);
    assert_eq!(of("'a' || 1 || s || 2.5"), ["a172.5"]);
}
