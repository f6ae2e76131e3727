//! Subqueries that depend on the rows outside them in any way, beside running them once a row.

use super::common::{Fixture, fixture, seeded};

/// Tables with duplicates and NULLs.
fn tables() -> Fixture {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT range AS id, nullif(range * 7 % 9, 4) AS a, range % 4 AS b,
         [range % 3, range % 5] AS l FROM range(24)",
    );
    f.run(
        "CREATE TABLE s AS SELECT range AS n, nullif(range * 5 % 11, 6) AS x, range % 6 AS y
         FROM range(30)",
    );
    f.run("CREATE TABLE u AS SELECT range % 7 AS v, nullif(range * 3 % 8, 5) AS w FROM range(12)");
    f
}

/// The rows of the subquery of one column for each row of `t`, by running it with values in place
/// of `t.a`, `t.b` and `t.l`.
fn one_by_one(f: &Fixture, subquery: &str, sort: bool) -> Vec<String> {
    let mut all = Vec::new();
    for row in f.rows("SELECT id, a, b, l FROM t ORDER BY id") {
        let values: Vec<&str> = row.split('|').collect();
        let [id, a, b, l] = values[..] else { panic!("{row}") };
        let a = if a == "-" { "NULL" } else { a };
        let with = subquery
            .replace("t.a", &format!("CAST({a} AS BIGINT)"))
            .replace("t.b", &format!("CAST({b} AS BIGINT)"))
            .replace("t.l", &format!("CAST({l} AS BIGINT[])"));
        let mut rows: Vec<String> =
            f.rows(&with).into_iter().map(|value| format!("{id}|{value}")).collect();
        if sort {
            rows.sort();
        }
        all.extend(rows);
    }
    all
}

/// A scalar subquery as a column, and below a condition.
fn as_value(f: &Fixture, subquery: &str) {
    let wanted = one_by_one(f, &format!("SELECT ({subquery})"), false);
    let column = f.rows(&format!("SELECT id, ({subquery}) FROM t ORDER BY id"));
    assert_eq!(column, wanted, "{subquery}");
    let kept = f.rows(&format!("SELECT id FROM t WHERE ({subquery}) IS NOT NULL ORDER BY id"));
    let known = wanted.iter().filter(|row| !row.ends_with("|-"));
    let known: Vec<&str> = known.map(|row| row.split('|').next().unwrap()).collect();
    assert_eq!(kept, known, "WHERE {subquery}");
}

/// Conditions of the side of a join whose rows may be missing: the rows of the other side stay.
#[test]
fn sides_of_outer_joins() {
    let f = tables();
    for rows in [
        "s LEFT JOIN (SELECT v FROM u WHERE v = t.a) AS q ON x = v",
        "(SELECT v FROM u WHERE v = t.a) AS q RIGHT JOIN s ON x = v",
        "s FULL JOIN (SELECT v FROM u WHERE v = t.b) AS q ON x = v",
        "(SELECT n, x FROM s WHERE y = t.b) AS s FULL JOIN u ON x = v",
        "s ANTI JOIN (SELECT v FROM u WHERE v = t.a) AS q ON x = v",
        "s SEMI JOIN (SELECT v FROM u WHERE v = t.a) AS q ON x = v",
        "(SELECT n, x FROM s WHERE y = t.b) AS s LEFT JOIN u ON x = v",
        "(SELECT n, x FROM s WHERE y = t.b) AS s LEFT JOIN (SELECT v FROM u WHERE v = t.a) AS q \
         ON x = v",
        "s LEFT JOIN (SELECT v FROM u WHERE EXISTS (SELECT 1 FROM s AS i WHERE i.x = u.v) \
         AND v = t.a) AS q ON x = v",
    ] {
        for value in ["count(*)", "sum(n)", "max(x)"] {
            as_value(&f, &format!("SELECT {value} FROM {rows}"));
        }
        let lateral =
            format!("SELECT id, c FROM t, LATERAL (SELECT count(*) AS c FROM {rows}) AS l");
        let wanted = one_by_one(&f, &format!("SELECT count(*) FROM {rows}"), false);
        assert_eq!(f.rows(&format!("{lateral} ORDER BY id")), wanted, "{rows}");
        let there = wanted.iter().filter(|row| !row.ends_with("|0"));
        let there: Vec<&str> = there.map(|row| row.split('|').next().unwrap()).collect();
        let exists = format!("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM {rows}) ORDER BY id");
        assert_eq!(f.rows(&exists), there, "{rows}");
        f.run("CREATE OR REPLACE TABLE left_over AS SELECT * FROM t");
        let gone = exists.replace("SELECT id FROM t", "DELETE FROM left_over AS t");
        f.run(gone.trim_end_matches(" ORDER BY id"));
        let left = 24 - there.len();
        assert_eq!(f.value("SELECT count(*) FROM left_over"), left.to_string(), "{rows}");
    }
}

#[test]
fn values() {
    let f = tables();
    for subquery in [
        "SELECT count(*) FROM s WHERE x < t.a",
        "SELECT count(*) FROM (SELECT n, x, y FROM s WHERE y > t.b UNION ALL
                               SELECT n, x, y FROM s WHERE t.a IS NULL) AS q
         WHERE x = t.a OR y = t.b",
        "SELECT count(*) FROM (SELECT n, x, y FROM s WHERE x = t.a UNION ALL
                               SELECT n, x, y FROM s WHERE n < 3) AS q WHERE n % 4 = t.b",
        "SELECT max(n) FROM (SELECT n, x, y FROM s ORDER BY n LIMIT 9 OFFSET 1) AS s
         WHERE x > (SELECT min(w) FROM u WHERE v = t.b)
               OR y NOT IN (SELECT v FROM u WHERE v = s.x AND v + s.x > t.a)",
        "SELECT sum(q) FROM (SELECT s.x, o.x AS q FROM s JOIN s AS o ON o.n = s.y AND o.n > t.b
                             UNION ALL SELECT o.x, s.x FROM s JOIN s AS o ON o.n = s.y) AS r
         WHERE q + t.b > x",
        "SELECT sum(x) FROM s WHERE x + t.b > y",
        "SELECT count(*) + t.a FROM s WHERE x <> t.a",
        "SELECT max(x * t.b) FROM s",
        "SELECT t.a + t.b",
        "SELECT list(x ORDER BY n) FROM s WHERE y = t.b OR x = t.a",
        "SELECT count(DISTINCT x) FILTER (WHERE x > t.b) FROM s WHERE y < t.a",
        "SELECT x FROM s WHERE x > t.a ORDER BY x, n LIMIT 1",
        "SELECT n FROM s WHERE x > t.a ORDER BY x DESC NULLS FIRST, n LIMIT 1 OFFSET 2",
        "SELECT max(k) FROM (SELECT count(*) AS k FROM s WHERE x >= t.a GROUP BY y)",
        "SELECT count(*) FROM (SELECT DISTINCT x, y FROM s WHERE n > t.a)",
        "SELECT count(*) FROM (SELECT DISTINCT ON (y) y, n FROM s WHERE n > t.a ORDER BY y, n)",
        "SELECT sum(r) FROM (SELECT n * row_number() OVER (PARTITION BY y ORDER BY n) AS r
         FROM s WHERE x > t.b)",
        "SELECT sum(x) FROM (SELECT x FROM s WHERE x < t.a UNION ALL
         SELECT v FROM u WHERE w > t.b)",
        "SELECT count(*) FROM (SELECT x FROM s WHERE x < t.a EXCEPT SELECT v FROM u WHERE w > t.b)",
        "SELECT count(*) FROM (SELECT x FROM s WHERE x < t.a INTERSECT SELECT v FROM u)",
        "SELECT count(w) FROM s LEFT JOIN u ON v = x AND w > t.a",
        "SELECT count(*) FROM (SELECT * FROM s WHERE x > t.a) q LEFT JOIN u ON v = y AND w <> t.b",
        "SELECT count(*) FROM (SELECT * FROM s WHERE x > t.a) q
         FULL JOIN (SELECT * FROM u WHERE w < t.b) r ON v = y",
        "SELECT count(*) FROM u RIGHT JOIN (SELECT * FROM s WHERE x > t.a) q ON v = y + t.b",
        "SELECT sum(e) FROM (SELECT unnest(t.l) AS e)",
        "SELECT sum(e * n) FROM (SELECT n, unnest(t.l) AS e FROM s WHERE x < t.a)",
        "SELECT max(column1) FROM (VALUES (t.a), (t.b), (3))",
        "SELECT count(*) FROM s WHERE EXISTS (SELECT 1 FROM u WHERE v = s.x AND w < t.a)",
        "SELECT count(*) FROM s WHERE x IN (SELECT v FROM u WHERE w <> t.a)",
        "SELECT count(*) FROM s WHERE x NOT IN (SELECT v FROM u WHERE w < t.a)",
        "SELECT sum((SELECT count(*) FROM u WHERE w < s.x + t.a)) FROM s WHERE s.y = t.b",
        "SELECT count(*) FROM s, LATERAL (SELECT w FROM u WHERE v < s.y AND w > t.b) q
         WHERE x < t.a",
        "SELECT sum(n) FROM s GROUP BY y HAVING y = t.b",
        "SELECT sum(n) FROM s WHERE y = t.b GROUP BY ROLLUP (y) ORDER BY sum(n) LIMIT 1",
        "SELECT CASE WHEN t.a > 3 THEN (SELECT min(v) FROM u WHERE w > t.a) ELSE t.b END",
    ] {
        as_value(&f, subquery);
    }
}

#[test]
fn predicates() {
    let f = tables();
    for predicate in [
        "EXISTS (SELECT 1 FROM s WHERE x < t.a AND y = t.b)",
        "NOT EXISTS (SELECT 1 FROM s WHERE x > t.a AND n > 20)",
        "EXISTS (SELECT count(*) FROM s WHERE x > t.a HAVING count(*) > t.b + 8)",
        "EXISTS (SELECT 1 FROM s WHERE x = t.a OFFSET 2)",
        "t.b > 2 OR EXISTS (SELECT 1 FROM s WHERE x > t.a + 3)",
        "t.a IN (SELECT x FROM s WHERE y < t.b)",
        "t.a NOT IN (SELECT x FROM s WHERE y < t.b)",
        "t.a + t.b IN (SELECT max(x) FROM s WHERE x <> t.a GROUP BY y)",
        "t.a NOT IN (SELECT x FROM s WHERE n < t.b ORDER BY n LIMIT 3)",
        "t.b = 1 OR t.a IN (SELECT x FROM s WHERE n > t.a * 3)",
        "EXISTS (SELECT 1 FROM s WHERE x = t.a AND
         EXISTS (SELECT 1 FROM u WHERE v = y AND w < t.b))",
        "t.a IN (SELECT w FROM u WHERE v < t.b UNION SELECT x FROM s WHERE y > t.b)",
        "EXISTS (SELECT 1 FROM u WHERE w > t.a) AND (SELECT count(*) FROM u WHERE v < t.a) > 2",
    ] {
        let wanted = one_by_one(&f, &format!("SELECT {predicate}"), false);
        let column = f.rows(&format!("SELECT id, {predicate} FROM t ORDER BY id"));
        assert_eq!(column, wanted, "{predicate}");
        let kept = f.rows(&format!("SELECT id FROM t WHERE {predicate} ORDER BY id"));
        let true_ones = wanted.iter().filter_map(|row| row.strip_suffix("|true"));
        assert_eq!(kept, true_ones.collect::<Vec<_>>(), "WHERE {predicate}");
        let rest = f.rows(&format!("SELECT id FROM t WHERE NOT ({predicate}) ORDER BY id"));
        let false_ones = wanted.iter().filter_map(|row| row.strip_suffix("|false"));
        assert_eq!(rest, false_ones.collect::<Vec<_>>(), "WHERE NOT {predicate}");
    }
}

#[test]
fn laterals() {
    let f = tables();
    for query in [
        "SELECT x FROM s WHERE x > t.a",
        "SELECT x FROM s WHERE x > t.a ORDER BY x, n LIMIT 2",
        "SELECT count(*) FROM s WHERE x > t.a",
        "SELECT max(x) FROM s WHERE n > t.b GROUP BY y HAVING count(*) > t.b + 2",
        "SELECT n * 100 + row_number() OVER (ORDER BY n) FROM s WHERE y < t.b",
        "SELECT t.a + x FROM s WHERE n < t.b UNION ALL SELECT t.b",
        "SELECT e + t.b FROM (SELECT unnest(t.l) AS e)",
        "SELECT q.w FROM s, LATERAL (SELECT w FROM u WHERE v < s.n AND w > t.a) q WHERE s.y = t.b",
    ] {
        let wanted = one_by_one(&f, query, true);
        let mut rows = f.rows(&format!("SELECT id, r FROM t, LATERAL ({query}) q(r)"));
        let sorted = |rows: &mut Vec<String>| {
            rows.sort_by_key(|row| {
                let (id, value) = row.split_once('|').unwrap();
                (id.parse::<u64>().unwrap(), value.to_string())
            });
        };
        sorted(&mut rows);
        assert_eq!(rows, wanted, "{query}");
        let mut rows =
            f.rows(&format!("SELECT id, r FROM t LEFT JOIN LATERAL ({query}) q(r) ON true"));
        sorted(&mut rows);
        let mut outer = wanted;
        for id in f.rows("SELECT id FROM t") {
            if !outer.iter().any(|row| row.split('|').next() == Some(&id)) {
                outer.push(format!("{id}|-"));
            }
        }
        sorted(&mut outer);
        assert_eq!(rows, outer, "LEFT JOIN {query}");
    }
    let on = "SELECT id, n FROM t LEFT JOIN LATERAL (SELECT n FROM s WHERE x > t.a) q ON n < id";
    let asked = "SELECT id, n FROM t LEFT JOIN s ON x > a AND n < id";
    let sorted = |query: &str| f.rows(&format!("{query} ORDER BY ALL"));
    assert_eq!(sorted(on), sorted(asked));
}

#[test]
fn anywhere_in_a_statement() {
    let f = tables();
    let count = "(SELECT count(*) FROM s WHERE x < t.a)";
    f.run(&format!("CREATE TABLE c AS SELECT id, a, b, {count} AS k FROM t"));
    for (query, same) in [
        (
            format!("SELECT id FROM t ORDER BY {count} DESC, id"),
            "SELECT id FROM c ORDER BY k DESC, id",
        ),
        (
            format!("SELECT b, sum({count}) FROM t GROUP BY b ORDER BY b"),
            "SELECT b, sum(k) FROM c GROUP BY b ORDER BY b",
        ),
        (
            format!("SELECT {count} AS k, count(*) FROM t GROUP BY k ORDER BY k"),
            "SELECT k, count(*) FROM c GROUP BY k ORDER BY k",
        ),
        (
            format!("SELECT id, sum({count}) OVER (ORDER BY id) FROM t ORDER BY id"),
            "SELECT id, sum(k) OVER (ORDER BY id) FROM c ORDER BY id",
        ),
        (
            format!("SELECT t.id, u.v FROM t JOIN u ON u.v = {count} ORDER BY ALL"),
            "SELECT c.id, u.v FROM c JOIN u ON u.v = k ORDER BY ALL",
        ),
        (
            "SELECT (SELECT sum(k) FROM
             (SELECT (SELECT count(*) FROM u WHERE w < s.x AND v > t.b) AS k
             FROM s WHERE s.y = t.b)) FROM t ORDER BY id"
                .into(),
            "SELECT k FROM t LEFT JOIN (SELECT b, sum(k) AS k FROM (SELECT DISTINCT b FROM t) d
             JOIN (SELECT s.n, d.b AS bb, s.y, count(w) AS k FROM s CROSS JOIN (SELECT DISTINCT b
             FROM t) d LEFT JOIN u ON w < s.x AND v > d.b GROUP BY ALL) e ON bb = b AND y = b
             GROUP BY b) g USING (b) ORDER BY id",
        ),
    ] {
        assert_eq!(f.rows(&query), f.rows(same), "{query}");
    }
    f.run(&format!("UPDATE t SET b = {count} + 100 WHERE EXISTS (SELECT 1 FROM u WHERE w > t.a)"));
    assert_eq!(
        f.rows("SELECT id, b FROM t ORDER BY id"),
        f.rows(
            "SELECT id, CASE WHEN a < (SELECT max(w) FROM u) THEN k + 100 ELSE b END FROM c
             ORDER BY id"
        )
    );
    f.run(&format!("DELETE FROM t WHERE {count} > 5"));
    assert_eq!(
        f.rows("SELECT id FROM t ORDER BY id"),
        f.rows("SELECT id FROM c WHERE k <= 5 ORDER BY id")
    );
    f.run(&format!("CREATE VIEW counted AS SELECT id, {count} AS k FROM t"));
    let wanted = f.rows("SELECT sum(k) FROM c WHERE k <= 5");
    assert_eq!(f.rows("SELECT sum(k) FROM counted"), wanted);
}

#[test]
fn more_than_one_row_is_an_error() {
    let f = tables();
    for subquery in [
        "SELECT x FROM s WHERE x > t.a",
        "SELECT y FROM s WHERE x > t.a GROUP BY y",
        "SELECT x FROM s WHERE x > t.a ORDER BY x LIMIT 2",
        "SELECT x FROM s WHERE x > t.a UNION SELECT t.b",
    ] {
        let error = f.error(&format!("SELECT ({subquery}) FROM t")).to_string();
        assert!(error.contains("more than one row"), "{subquery}: {error}");
    }
}

#[test]
fn random_values_are_drawn_for_each_row() {
    let f = tables();
    f.run("CREATE TABLE one AS SELECT 1 AS k FROM range(1000)");
    let drawn = "SELECT count(DISTINCT r) FROM one, LATERAL (SELECT random() AS r WHERE one.k > 0)";
    assert_eq!(f.value(drawn), "1000");
    let second = "SELECT count(DISTINCT r) FROM (SELECT (SELECT max(x) FROM s WHERE x < o.k) AS m,
                  (SELECT random() + o.k * 0) AS r FROM range(1000) AS o(k))";
    assert_eq!(f.value(second), "1000");
    // Of what is either 1 or NULL, 1 is a member, or that is not known.
    let element = "SELECT CASE WHEN random() < 0.5 THEN 1 END";
    for subquery in [element.to_string(), format!("{element} FROM range(1) WHERE o.k >= 0")] {
        for _ in 0..20 {
            let asked = format!("SELECT 1 IN ({subquery}) AS r FROM range(100) o(k)");
            let denied = format!("SELECT count(*) FROM ({asked}) WHERE NOT r");
            assert_eq!(f.value(&denied), "0", "{subquery}");
        }
    }
    let same = "SELECT count(*) FROM (SELECT random() AS k FROM range(1000)) o,
                LATERAL (SELECT o.k AS r FROM range(2) WHERE o.k < 2) q WHERE o.k = q.r";
    assert_eq!(f.value(same), "2000");
}

/// Makes subqueries of one column that depend on `t` in random ways.
struct Maker(fastrand::Rng);

impl Maker {
    fn one_of(&mut self, texts: &[&str]) -> String {
        texts[self.0.usize(..texts.len())].to_string()
    }

    /// A condition on rows of `s` (`n`, `x`, `y`).
    fn condition(&mut self, depth: usize) -> String {
        match self.0.usize(..if depth > 0 { 9 } else { 3 }) {
            0 => self.one_of(&["x = t.a", "y = t.b", "x + y = t.a + t.b", "n % 4 = t.b"]),
            1 => self.one_of(&["x < t.a", "y > t.b", "n <> t.a", "x + t.b > y", "x IS NOT NULL"]),
            2 => {
                self.one_of(&["(x = t.a OR y = t.b)", "t.a IS NULL", "x IS NOT DISTINCT FROM t.a"])
            }
            3 | 4 => {
                format!("({} AND {})", self.condition(0), self.condition(depth - 1))
            }
            5 => {
                let not = self.one_of(&["", "NOT "]);
                format!("{not}EXISTS (SELECT 1 FROM u WHERE {})", self.below())
            }
            6 => {
                let not = self.one_of(&["", "NOT "]);
                format!("y {not}IN (SELECT v FROM u WHERE {})", self.below())
            }
            7 => format!("x > (SELECT min(w) FROM u WHERE {})", self.below()),
            _ => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
        }
    }

    /// A condition on rows of `u` (`v`, `w`) below rows of `s`.
    fn below(&mut self) -> String {
        let own = self.one_of(&["v = s.x", "w < s.y", "v <> s.n", "v > 2"]);
        let outer = self.one_of(&["w < t.a", "v = t.b", "w IS NOT NULL", "v + s.x > t.a"]);
        format!("{own} AND {outer}")
    }

    /// Rows of `s`: `n`, `x`, `y`.
    fn rows(&mut self, depth: usize) -> String {
        let condition = self.condition(depth);
        let plain = format!("SELECT n, x, y FROM s WHERE {condition}");
        if depth == 0 {
            return plain;
        }
        let inner = self.rows(depth - 1);
        match self.0.usize(..8) {
            0 => format!("SELECT DISTINCT n % 5 AS n, x, y FROM ({inner}) AS s WHERE {condition}"),
            1 => format!("SELECT max(n) AS n, x, min(y) AS y FROM ({inner}) AS s GROUP BY x"),
            2 => format!("{inner} UNION ALL {plain}"),
            3 => format!(
                "SELECT n, x, y FROM ({inner} ORDER BY n, x, y LIMIT 4 OFFSET 1) AS s
                          WHERE {condition}"
            ),
            4 => format!(
                "SELECT s.n, s.x, u.v AS y FROM ({inner}) AS s LEFT JOIN u
                          ON u.v = s.y AND u.w > t.a"
            ),
            5 => format!("SELECT s.n, q.x, s.y FROM s JOIN ({inner}) AS q ON s.n = q.n + t.b"),
            6 => format!(
                "SELECT n, x, rank() OVER (PARTITION BY y ORDER BY n, x) AS y
                          FROM ({inner}) AS s"
            ),
            _ => plain,
        }
    }

    fn value(&mut self) -> String {
        let rows = self.rows(2);
        let value = self.one_of(&[
            "count(*)",
            "sum(x) + t.a",
            "max(n * y)",
            "count(DISTINCT x)",
            "count(x) FILTER (WHERE y > t.b)",
            "list(x ORDER BY n, x, y)",
        ]);
        format!("SELECT {value} FROM ({rows}) AS s")
    }
}

#[test]
fn random_subqueries_give_what_they_give_one_by_one() {
    let f = tables();
    let (random, seed) = seeded();
    let mut maker = Maker(random);
    for _ in 0..40 {
        let subquery = maker.value();
        println!("seed {seed}: {subquery}");
        as_value(&f, &subquery);
    }
}
