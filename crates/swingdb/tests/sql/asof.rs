//! ASOF JOIN against a naive search, in all its forms.

use super::common::{Fixture, fixture, seeded};

/// A row of either side: key, time, number.
type Row = (Option<i64>, Option<i64>, i64);

fn fill(f: &Fixture, random: &mut fastrand::Rng, table: &str, count: i64) -> Vec<Row> {
    let mut some = |range: std::ops::Range<i64>| (random.u8(..12) > 0).then(|| random.i64(range));
    let mut row = |n| (some(0..6), some(-40..40), n);
    let rows = (0..count).map(&mut row).collect::<Vec<_>>();
    f.run(&format!("CREATE OR REPLACE TABLE {table} (k INT, t BIGINT, n BIGINT)"));
    let text = |value: Option<i64>| value.map_or("NULL".to_string(), |value| value.to_string());
    let values = rows.iter().map(|(k, t, n)| format!("({}, {}, {n})", text(*k), text(*t)));
    if count > 0 {
        f.run(&format!("INSERT INTO {table} VALUES {}", values.collect::<Vec<_>>().join(", ")));
    }
    rows
}

/// Whether the right time fulfils `left operator right`, and how far away it is.
fn distance(operator: &str, left: i64, right: i64) -> Option<i64> {
    let fits = match operator {
        ">=" => left >= right,
        ">" => left > right,
        "<=" => left <= right,
        _ => left < right,
    };
    fits.then_some((left - right).abs())
}

/// Time of the nearest row on the right side for each row on the left, as `n|time`.
fn naive(left: &[Row], right: &[Row], operator: &str, keyed: bool, outer: bool) -> Vec<String> {
    let mut expected = Vec::new();
    for (key, time, n) in left {
        let near = right.iter().filter_map(|(other, at, _)| {
            let same = !keyed || (key.is_some() && key == other);
            let distance = distance(operator, (*time)?, (*at)?)?;
            same.then_some((distance, (*at)?))
        });
        match near.min() {
            Some((_, at)) => expected.push(format!("{n}|{at}")),
            None if outer => expected.push(format!("{n}|-")),
            None => {}
        }
    }
    expected.sort();
    expected
}

#[test]
fn the_nearest_of_random_rows() {
    let (mut random, seed) = seeded();
    let f = fixture();
    for round in 0..24 {
        let sizes = [[0, 5], [5, 0], [1, 1], [40, 12], [12, 40], [300, 300]][round % 6];
        let left = fill(&f, &mut random, "a", sizes[0]);
        let right = fill(&f, &mut random, "b", sizes[1]);
        for operator in [">=", ">", "<=", "<"] {
            for (keyed, outer) in [(true, true), (true, false), (false, true), (false, false)] {
                let expected = naive(&left, &right, operator, keyed, outer);
                let kind = if outer { "ASOF LEFT JOIN" } else { "ASOF JOIN" };
                let key = if keyed { "a.k = b.k AND " } else { "" };
                let sql = format!("SELECT a.n, b.t FROM a {kind} b ON {key}a.t {operator} b.t");
                let mut found = f.rows(&sql);
                found.sort();
                assert_eq!(found, expected, "seed {seed}: {sql}");
                // Conditions on the left side, on keys too, may be looked at first.
                let condition = |(k, _, n): &Row| k.is_some_and(|k| k <= 3) && n % 2 == 0;
                let some = left.iter().copied().filter(condition).collect::<Vec<_>>();
                let sql = format!("{sql} WHERE a.k <= 3 AND a.n % 2 = 0 AND coalesce(b.n, 0) >= 0");
                let mut found = f.rows(&sql);
                found.sort();
                let expected = naive(&some, &right, operator, keyed, outer);
                assert_eq!(found, expected, "seed {seed}: {sql}");
            }
        }
    }
}

fn prices() -> Fixture {
    let f = fixture();
    f.run(
        "CREATE TABLE trades (sym VARCHAR, \"when\" TIMESTAMP, shares INT);
         INSERT INTO trades VALUES ('A', '2024-01-01 10:00:05', 1), \
         ('B', '2024-01-01 10:00:07', 2), ('A', '2024-01-01 09:00:00', 3), \
         ('C', '2024-01-01 10:00:00', 4);
         CREATE TABLE prices (sym VARCHAR, \"when\" TIMESTAMP, price DOUBLE);
         INSERT INTO prices VALUES ('A', '2024-01-01 10:00:00', 10), \
         ('A', '2024-01-01 10:00:05', 11), ('A', '2024-01-01 10:00:09', 12), \
         ('B', '2024-01-01 10:00:06', 20)",
    );
    f
}

#[test]
fn using_names_the_time_last() {
    let f = prices();
    let sql = "SELECT * FROM trades ASOF JOIN prices USING (sym, \"when\") ORDER BY shares";
    assert_eq!(f.rows(sql), ["A|2024-01-01T10:00:05|1|11.0", "B|2024-01-01T10:00:07|2|20.0"]);
    let sql = "SELECT shares, p.\"when\", price FROM trades t ASOF LEFT JOIN prices p \
               USING (sym, \"when\") WHERE sym <> 'B' ORDER BY ALL";
    assert_eq!(f.rows(sql), ["1|2024-01-01T10:00:05|11.0", "3|-|-", "4|-|-"]);
}

#[test]
fn it_is_a_join_like_others() {
    let f = prices();
    // Of types that differ, of expressions, the sides exchanged, beside other joins, in subqueries.
    let sql = "SELECT t.sym, sum(shares * price) FROM trades t ASOF JOIN prices p \
               ON t.sym || 'x' = p.sym || 'x' AND p.\"when\" + INTERVAL 2 SECOND < t.\"when\" \
               JOIN (VALUES ('A', 1)) w (sym, one) ON w.sym = t.sym GROUP BY t.sym";
    assert_eq!(f.rows(sql), ["A|10.0"]);
    let dates = "SELECT count(*) FROM (SELECT CAST(\"when\" AS DATE) AS d FROM trades) t \
                 ASOF JOIN prices p ON t.d <= p.\"when\"";
    assert_eq!(f.value(dates), "4");
    f.run(
        "CREATE VIEW priced AS SELECT shares, price FROM trades t ASOF LEFT JOIN prices p \
           ON t.sym = p.sym AND t.\"when\" >= p.\"when\"",
    );
    assert_eq!(f.value("SELECT count(price) FROM priced"), "2");
    let nested = "SELECT count(*) FROM (trades t ASOF JOIN prices p ON t.\"when\" > p.\"when\")";
    assert_eq!(f.value(nested), "2");
    let text = f.value("SHOW CREATE TABLE priced");
    assert!(text.contains("ASOF LEFT JOIN") && !text.contains("GLOBAL"), "{text}");
    let more = "SELECT shares FROM trades t WHERE EXISTS (SELECT 1 FROM prices p \
                ASOF JOIN trades u ON p.sym = u.sym AND p.\"when\" >= u.\"when\" \
                WHERE u.shares = t.shares) ORDER BY 1";
    assert_eq!(f.rows(more), ["1", "3"]);
    // Conditions on the left side, and on keys of both, are looked at by the scans.
    let sql = "EXPLAIN SELECT price FROM trades t ASOF JOIN prices p ON t.sym = p.sym \
               AND t.\"when\" >= p.\"when\" WHERE t.sym = 'A' AND shares > 1 AND price > 2";
    let plan = f.rows(sql).join("\n");
    for (table, condition) in
        [("trades", "sym@0 = A"), ("trades", "shares@2 > 1"), ("prices", "sym@0 = A")]
    {
        let scan = plan.lines().find(|line| line.contains(&format!("table=main.{table}")));
        assert!(scan.is_some_and(|scan| scan.contains(condition)), "{plan}");
    }
    assert!(plan.contains("FilterExec: price@0 > 2"), "{plan}");
    // Of all columns only those asked for are read.
    let plan = f
        .rows(
            "EXPLAIN SELECT count(*) FROM trades t ASOF JOIN prices p \
                       ON t.\"when\" >= p.\"when\"",
        )
        .join("\n");
    assert!(plan.contains("AsofJoinExec") && !plan.contains("price,"), "{plan}");
    assert_eq!(f.value("SELECT count(*) FROM trades AS asof JOIN prices ON true"), "16");
}

#[test]
fn zeros_and_nan_are_one_number_each() {
    let f = fixture();
    f.run(
        "CREATE TABLE a (x DOUBLE, n INT); INSERT INTO a VALUES ('-0.0', 1), ('nan', 2);
         CREATE TABLE b (x DOUBLE, m INT); INSERT INTO b SELECT -x, n FROM a",
    );
    let sql = "SELECT n, m FROM a ASOF JOIN b ON a.x >= b.x ORDER BY n";
    assert_eq!(f.rows(sql), ["1|1", "2|2"]);
    let sql = "SELECT n, m FROM a ASOF JOIN b ON a.x = b.x AND n <= m ORDER BY n";
    assert_eq!(f.rows(sql), ["1|1", "2|2"]);
}

#[test]
fn other_conditions_say_what_to_write() {
    let f = prices();
    for (join, hint) in [
        ("ASOF JOIN prices p ON t.sym = p.sym", "one comparison"),
        ("ASOF JOIN prices p ON t.\"when\" >= p.\"when\" AND shares > price", "one comparison"),
        ("ASOF JOIN prices p ON t.\"when\" >= p.\"when\" OR t.sym = p.sym", "not by"),
        ("ASOF JOIN prices p ON t.\"when\" >= p.\"when\" AND t.sym <> p.sym", "subquery"),
        ("ASOF JOIN prices p ON t.\"when\" >= p.\"when\" AND price > 1", "one comparison"),
        ("ASOF JOIN prices p", "needs a condition"),
        ("ASOF RIGHT JOIN prices p ON t.\"when\" >= p.\"when\"", "exchanged"),
        ("ASOF JOIN prices MATCH_CONDITION (t.\"when\" >= prices.\"when\")", "write ON"),
    ] {
        let error = f.error(&format!("SELECT 1 FROM trades t {join}")).to_string();
        assert!(error.contains(hint), "{join}: {error}");
    }
    assert!(f.error("SELECT asof_join(true)").to_string().contains("ASOF JOIN b"));
}
