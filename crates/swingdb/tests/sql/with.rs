//! Queries of a WITH that are named more than once: computed once, or as if.

use super::common::{analyzed, fixture, planned, seeded};

#[test]
fn what_draws_random_numbers_is_drawn_once() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS id, range % 7 AS g FROM range(20000)");
    for (query, wanted) in [
        ("WITH r AS (SELECT random() AS x) SELECT a.x = b.x FROM r a, r b", "true"),
        (
            "WITH r AS (SELECT uuid() AS x)
          SELECT count(DISTINCT x) FROM (FROM r UNION ALL FROM r)",
            "1",
        ),
        (
            "WITH r AS (SELECT id, random() AS x FROM t)
          SELECT count(*) FROM r a JOIN r b ON a.id = b.id AND a.x = b.x",
            "20000",
        ),
        (
            "WITH r AS (SELECT id, random() AS x FROM t)
          SELECT (SELECT count(*) FROM r WHERE x < 0.8) + (SELECT count(*) FROM r WHERE x >= 0.8)",
            "20000",
        ),
        (
            "WITH r AS (SELECT id, random() AS x FROM t)
          SELECT count(*) FROM r WHERE x = (SELECT max(x) FROM r)",
            "1",
        ),
        (
            "WITH r AS (SELECT id FROM t USING SAMPLE 100)
          SELECT count(*) FROM r WHERE id IN (SELECT id FROM r)",
            "100",
        ),
        (
            "WITH r AS (SELECT id FROM t TABLESAMPLE 10%)
          SELECT (SELECT count(*) FROM r) = (SELECT count(*) FROM r a JOIN r b USING (id))",
            "true",
        ),
        (
            "WITH r AS (SELECT id, random() AS x FROM t), s AS (SELECT id, x FROM r WHERE id < 10)
          SELECT count(*) FROM s JOIN r USING (id, x) JOIN s s2 USING (id, x)",
            "10",
        ),
        (
            "WITH r AS (SELECT id, x FROM (SELECT id, random() AS x FROM t) WHERE x < 0.5)
          SELECT count(*) FROM (FROM r EXCEPT FROM r)",
            "0",
        ),
        (
            "WITH RECURSIVE r AS (SELECT random() AS x),
          n AS (SELECT 1 AS i, x FROM r UNION ALL SELECT i + 1, r.x FROM n, r WHERE i < 5)
          SELECT count(DISTINCT x) FROM n",
            "1",
        ),
        ("WITH r AS (VALUES (random())), s(x) AS (FROM r) SELECT a.x = b.x FROM s a, s b", "true"),
    ] {
        assert_eq!(f.value(query), wanted, "{query}");
    }
    f.run("CREATE VIEW drawn AS SELECT id, random() AS x FROM t");
    let through_view = "WITH r AS (FROM drawn) SELECT count(*) FROM r a JOIN r b USING (id, x)";
    assert_eq!(f.value(through_view), "20000");
    f.run(
        "PREPARE p AS WITH r AS (SELECT random() AS x, $1 AS y)
           SELECT a.x = b.x, a.x FROM r a, r b WHERE a.y = b.y",
    );
    let (one, other) = (f.value("EXECUTE p(1)"), f.value("EXECUTE p(1)"));
    assert!(one.starts_with("true") && other.starts_with("true"), "{one} {other}");
    assert_ne!(one, other, "each execution draws anew");
}

#[test]
fn what_is_written_twice_is_drawn_twice() {
    let f = fixture();
    for query in [
        "SELECT a.x = b.x FROM (SELECT random() AS x) a, (SELECT random() AS x) b",
        "WITH a AS (SELECT random() AS x), b AS (SELECT random() AS x) SELECT a.x = b.x FROM a, b",
    ] {
        assert_eq!(f.value(query), "false", "{query}");
    }
    let kept = "WITH r AS (SELECT range AS i FROM range(1000))
                SELECT count(*) FROM (SELECT i FROM r WHERE random() < 0.5 INTERSECT
                                      SELECT i FROM r WHERE random() < 0.5)";
    let both: i64 = f.value(kept).parse().unwrap();
    assert!((100..400).contains(&both), "{both}: a quarter, not a half");
}

/// Which of equal rows comes first is not said, but it is the same wherever the query is named.
#[test]
fn rows_without_a_whole_order_are_numbered_once() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS id, range % 10 AS g FROM range(300000)");
    let pairs = "WITH n AS (SELECT id, g, row_number() OVER (ORDER BY g) AS i FROM t)
                 SELECT count(*), count(DISTINCT a.id), count(DISTINCT b.id)
                 FROM n a JOIN n b ON a.i = b.i + 1";
    assert_eq!(f.value(pairs), "299999|299999|299999");
    let first = "WITH first AS (SELECT id FROM t WHERE g = 3 LIMIT 50)
                 SELECT count(*) FROM first a JOIN first b USING (id)";
    assert_eq!(f.value(first), "50");
    let each = "WITH e AS (SELECT DISTINCT ON (g) g, id FROM t)
                SELECT count(*) FROM e a JOIN e b USING (g, id)";
    assert_eq!(f.value(each), "10");
}

#[test]
fn what_is_the_same_everywhere_is_computed_once() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT range AS id, range % 1000 AS g, random() AS v FROM range(90000)",
    );
    let best = "WITH sums AS (SELECT g, sum(v) AS s FROM t GROUP BY g)
                SELECT g FROM sums WHERE s = (SELECT max(s) FROM sums)";
    let analyzed = analyzed(&f, best);
    assert_eq!(analyzed.matches("MaterializeExec: part=1").count(), 2, "{analyzed}");
    let scans = analyzed.lines().filter(|line| line.contains("DataSourceExec"));
    let read = scans.filter(|line| line.contains("output_rows=90.00 K")).count();
    assert_eq!(read, 1, "{analyzed}");
    assert_eq!(f.rows(best).len(), 1, "the greatest of sums of floats is one of them");
    for apart in [
        "WITH s AS (SELECT g, sum(v) AS s FROM t GROUP BY g)
         SELECT * FROM s a, s b WHERE a.g = 1 AND b.g = 2",
        "WITH s AS (SELECT g, sum(v) AS s FROM t GROUP BY g) SELECT * FROM s",
        "SELECT * FROM (SELECT count(*) FROM t) a, (SELECT count(*) FROM t) b",
    ] {
        let plan = planned(&f, apart);
        assert!(!plan.contains("MaterializeExec"), "conditions differ, or it is one: {plan}");
    }
}

/// Sums of floats differ from run to run, so to compute them twice gives other answers as well.
#[test]
fn plans_that_came_before_compute_it_once() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS id, range % 10 AS g, random() AS v FROM range(90000)");
    let best = "WITH sums AS (SELECT g, sum(v) AS s FROM t GROUP BY g)
                SELECT g FROM sums WHERE s = (SELECT max(s) FROM sums)";
    f.run(&format!("PREPARE best AS {best}"));
    for _ in 0..5 {
        let analyzed = analyzed(&f, &format!("UPDATE t SET v = v WHERE g IN ({best})"));
        assert_eq!(analyzed.matches("MaterializeExec: part=1").count(), 2, "{analyzed}");
        assert!(analyzed.contains("9000 rows"), "{analyzed}");
        assert_eq!(f.rows(best).len(), 1);
        assert_eq!(f.rows("EXECUTE best").len(), 1);
    }
}

/// Conditions that differ would have each copy computed by itself.
#[test]
fn sums_of_floats_that_are_compared_are_computed_once() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT range AS id, range % 100 AS g, random() AS v, range % 7 AS n
         FROM range(90000);
         CREATE VIEW sums AS SELECT g, sum(v) AS s FROM t GROUP BY g",
    );
    let sums = "WITH s AS (SELECT g, n, sum(v) AS x, avg(v) AS y, any_value(id) AS f, sum(id) AS i
                FROM t GROUP BY g, n) ";
    for (rest, wanted) in [
        ("SELECT count(*) FROM s WHERE g >= 0 AND x = (SELECT max(x) FROM s)", "1"),
        ("SELECT count(*) FROM s WHERE g >= 0 AND x IN (SELECT x FROM s)", "700"),
        ("SELECT count(*) FROM (FROM s WHERE g > 1 UNION FROM s WHERE n > 1)", "696"),
        ("SELECT count(*) FROM (FROM s WHERE g > 1 INTERSECT FROM s WHERE n > 1)", "490"),
        ("SELECT count(*) FROM s JOIN (FROM s WHERE n = 1) o USING (g, n) WHERE s.y <> o.y", "0"),
        ("SELECT count(*) FROM s JOIN (FROM s WHERE n = 1) o ON s.f = o.f", "100"),
        (
            "SELECT max(d) FROM (SELECT a - b AS d FROM (SELECT s.x AS a, o.x AS b
          FROM s JOIN (FROM s WHERE n = 1) o USING (g, n)))",
            "0.0",
        ),
        (
            "SELECT count(*) FROM s WHERE g > 1 AND EXISTS (FROM s o WHERE o.x * 2 = s.x + s.x)",
            "686",
        ),
        ("SELECT count(*) FROM s, (SELECT max(x) AS m FROM s WHERE n = 3) WHERE x = m", "1"),
    ] {
        let query = format!("{sums}{rest}");
        assert!(planned(&f, &query).contains("MaterializeExec"), "{rest}");
        assert_eq!(f.value(&query), wanted, "{rest}");
    }
    let of_view = "WITH s AS (SELECT g, s AS x FROM sums)
                   SELECT count(*) FROM s WHERE g >= 0 AND x = (SELECT max(x) FROM s)";
    assert_eq!(f.value(of_view), "1");
    for apart in [
        "SELECT * FROM s JOIN s o USING (g) WHERE s.n = 1 AND o.n = 2",
        "SELECT * FROM s JOIN s o USING (g) WHERE s.n = 1 AND o.n = 2 AND s.x > 0.5 ORDER BY o.x",
        "SELECT count(*) FROM s WHERE g >= 0 AND i = (SELECT max(i) FROM s)",
    ] {
        let plan = planned(&f, &format!("{sums}{apart}"));
        assert!(!plan.contains("MaterializeExec"), "{plan}");
    }
}

#[test]
fn columns_that_nobody_names_are_not_kept() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS a, range AS b, range AS c, range AS d FROM range(10)");
    let numbered = "WITH n AS (SELECT *, row_number() OVER (ORDER BY a) AS i FROM t) ";
    let plan_of = |rest: &str| planned(&f, &format!("{numbered}{rest}"));
    let narrow = plan_of("SELECT x.b FROM n x JOIN n y ON x.i = y.i");
    assert!(narrow.contains("MaterializeExec") && !narrow.contains("c@"), "{narrow}");
    for (rest, wanted) in [
        ("SELECT count(*) FROM n x, n y", "100"),
        ("SELECT sum(x.b + y.c) FROM n x JOIN n y ON x.i = y.i", "90"),
        ("SELECT sum(d) FROM (SELECT * FROM n UNION ALL SELECT * FROM n)", "90"),
        ("SELECT sum(d) FROM (FROM n UNION ALL FROM n)", "90"),
        (
            "SELECT sum(w + z) FROM (FROM n JOIN n m USING (i)) AS y(a, b, c, w, i, e, f, g, z)",
            "90",
        ),
        ("SELECT (SELECT sum(d) FROM n) + (SELECT sum(c) FROM n m WHERE m.i > 0)", "90"),
        ("SELECT count(*) FROM n x WHERE EXISTS (SELECT 1 FROM n y WHERE y.d = x.c)", "10"),
        ("SELECT count(*) FROM (SELECT * FROM n INTERSECT SELECT * FROM n)", "10"),
        ("SELECT count(*) FROM n NATURAL JOIN n AS m", "10"),
        (
            "SELECT sum(len(s)) FROM (SELECT list(d) AS s FROM n GROUP BY (SELECT min(a) FROM n))",
            "10",
        ),
    ] {
        assert_eq!(f.value(&format!("{numbered}{rest}")), wanted, "{rest}");
    }
}

#[test]
fn correlated_queries_name_what_is_computed_once() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS a FROM range(5)");
    let query = "WITH n AS (SELECT a, row_number() OVER (ORDER BY a) AS i FROM t)
                 SELECT (SELECT max(i) FROM n x WHERE x.a = t.a)
                      + (SELECT min(i) FROM n y WHERE y.a = t.a) FROM t ORDER BY a";
    assert!(planned(&f, query).contains("MaterializeExec"));
    assert_eq!(f.rows(query), ["2", "4", "6", "8", "10"]);
    let outer = "SELECT (WITH r AS (SELECT max(u.a) AS m FROM t u WHERE u.a = t.a)
                         SELECT max(x.m) FROM r x, r y) FROM t ORDER BY a";
    assert_eq!(f.rows(outer), ["0", "1", "2", "3", "4"]);
}

/// What does not fit into memory is kept on disk.
#[test]
fn more_rows_than_memory() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT range AS id, repeat(md5(range::VARCHAR), 8) AS s
           FROM range(200000)",
    );
    let query = "WITH n AS (SELECT id, s, random() AS x FROM t)
                 SELECT count(*), sum(length(a.s)) FROM n a JOIN (SELECT max(x) AS x FROM n) b
                 ON a.x <= b.x";
    assert_eq!(f.value(query), "200000|51200000");
    f.run("SET memory_limit = '40MB'");
    let analyzed = analyzed(&f, query);
    let spilled = |line: &str| line.contains("MaterializeExec") && !line.contains("spilled_rows=0");
    assert!(analyzed.lines().any(spilled), "{analyzed}");
    assert_eq!(f.value(query), "200000|51200000");
}

#[test]
fn random_chains_of_names_agree_with_themselves() {
    let (mut random, _) = seeded();
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS id, range % 13 AS g FROM range(4000)");
    for _ in 0..40 {
        let mut with = vec!["q0 AS (SELECT id, g, random() AS x FROM t)".to_string()];
        for i in 1..random.usize(2..6) {
            let [left, right] = [(); 2].map(|()| random.usize(..i));
            let query = match random.u8(..5) {
                0 => format!("SELECT id, g, x FROM q{left} WHERE g <> {}", random.u8(..13)),
                1 => format!("FROM q{left} UNION FROM q{right}"),
                2 => format!("SELECT l.id, r.g, l.x FROM q{left} l JOIN q{right} r USING (id, x)"),
                3 => format!("FROM q{left} WHERE x <= (SELECT max(x) FROM q{right})"),
                _ => format!("FROM q{left} WHERE id IN (SELECT id FROM q{right})"),
            };
            with.push(format!("q{i} AS ({query})"));
        }
        let last = with.len() - 1;
        let with = format!("WITH {}", with.join(", "));
        // Whatever a later query has comes from the first, number and all.
        let strangers = format!(
            "{with} SELECT count(*) FROM q{last} z
             WHERE NOT EXISTS (SELECT 1 FROM q0 WHERE q0.id = z.id AND q0.x = z.x)"
        );
        assert_eq!(f.value(&strangers), "0", "{strangers}");
        let itself = format!("{with} SELECT count(*) FROM (FROM q{last} EXCEPT FROM q{last})");
        assert_eq!(f.value(&itself), "0", "{itself}");
    }
}
