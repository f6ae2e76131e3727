//! Random queries over tables cut in all ways: the answers of one database.

mod common;

use common::{asked, cluster, nodes, with_room};
use fastrand::Rng;
use swingdb::{Connection, Database};
use swingdb_cluster::{Cut, Session};

/// Makes queries of two tables `a` and `b` with columns `k`, `n`, `s`, `d`, `f`, `t`.
struct Maker(Rng);

impl Maker {
    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.0.usize(..all.len())]
    }

    fn number(&mut self, of: &str) -> String {
        let column = self.pick(&["k", "n", "d"]);
        match self.0.u8(..5) {
            0 => format!("({of}.{column} + {})", self.0.i32(-5..20)),
            1 => format!("({of}.n % {})", self.0.i32(2..9)),
            2 => format!("length({of}.s)"),
            _ => format!("{of}.{column}"),
        }
    }

    fn value(&mut self, of: &str) -> String {
        match self.0.u8(..6) {
            0 => format!("{of}.s"),
            1 => format!("upper({of}.s)"),
            2 => format!("{of}.t"),
            3 => format!("date_trunc('month', {of}.t)"),
            4 => format!("CASE WHEN {} THEN {of}.s END", self.condition(of)),
            _ => self.number(of),
        }
    }

    fn condition(&mut self, of: &str) -> String {
        match self.0.u8(..9) {
            0 => format!("{of}.n IS NOT NULL"),
            1 => format!("{of}.s LIKE '%{}%'", self.0.u8(..9)),
            2 => format!("{of}.t >= DATE '2024-0{}-01'", self.0.u8(1..9)),
            3 => format!("{of}.n IN ({}, {}, NULL)", self.0.u8(..40), self.0.u8(..40)),
            4 => format!("NOT ({})", self.condition(of)),
            5 => format!("({} OR {})", self.condition(of), self.condition(of)),
            6 => format!("{of}.k IN (SELECT n FROM b WHERE d > {})", self.0.u8(..9)),
            _ => {
                let sign = self.pick(&["<", ">", "=", "<>", "<="]);
                format!("{} {sign} {}", self.number(of), self.0.i32(-3..60))
            }
        }
    }

    fn aggregate(&mut self, of: &str) -> String {
        let number = self.number(of);
        match self.0.u8(..9) {
            0 => "count(*)".to_string(),
            1 => format!("count(DISTINCT {number})"),
            2 => format!("min({})", self.value(of)),
            3 => format!("max({})", self.value(of)),
            4 => format!("avg({number})"),
            5 => format!("sum({number}) FILTER (WHERE {})", self.condition(of)),
            6 => format!("bool_and({})", self.condition(of)),
            7 => format!("string_agg({of}.s, ',' ORDER BY {of}.s)"),
            _ => format!("sum({number})"),
        }
    }

    fn from(&mut self) -> String {
        let join = self.pick(&["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"]);
        let on = self.pick(&["a.k = b.k", "a.n = b.n", "a.s = b.s AND a.k < b.k + 30"]);
        let other = self.pick(&["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"]);
        let key = self.pick(&["k", "n"]);
        match self.0.u8(..10) {
            0 | 1 => format!("a {join} b ON {on}"),
            2 => format!("a JOIN b ON {on} JOIN c ON a.n = c.n"),
            3 => "a SEMI JOIN b ON a.k = b.n".to_string(),
            4 => "(SELECT * FROM a UNION ALL SELECT * FROM b) AS a".to_string(),
            5 => format!("a {join} b ON {on} {other} c ON a.{key} = c.{key}"),
            6 => format!(
                "(SELECT {key}, max(n + 1) AS m FROM b GROUP BY {key}) AS b {join} a \
                 ON a.{key} = b.{key}"
            ),
            7 => format!(
                "(SELECT * FROM a WHERE {key} = {}) AS a {join} b ON a.{key} = b.{key}",
                self.0.u8(..50)
            ),
            8 => format!("c {join} a ON a.{key} = c.{key} {other} b ON a.{key} = b.{key}"),
            _ => "a".to_string(),
        }
    }

    fn query(&mut self) -> String {
        let (from, condition) = (self.from(), self.condition("a"));
        let (x, y) = (self.value("a"), self.value("a"));
        match self.0.u8(..12) {
            0 => format!("SELECT {x} AS x, {y} AS y FROM {from} WHERE {condition}"),
            1 => format!("SELECT DISTINCT {x} AS x FROM {from} WHERE {condition}"),
            2 => {
                let (one, other) = (self.aggregate("a"), self.aggregate("a"));
                format!("SELECT {one}, {other} FROM {from} WHERE {condition}")
            }
            3 => format!(
                "SELECT x, count(*) AS c FROM (SELECT {x} AS x FROM {from} WHERE {condition}) AS q \
                 GROUP BY x ORDER BY c DESC, x LIMIT 5"
            ),
            4 => format!(
                "SELECT k, n, sum(n) OVER (PARTITION BY n % 5 ORDER BY k, s, d, t) AS w, \
                 rank() OVER (ORDER BY n) FROM a WHERE {condition}"
            ),
            5 => {
                format!("SELECT {x} AS x FROM a WHERE {condition} EXCEPT SELECT {} FROM b AS a", x)
            }
            6 => {
                let (group, key) = (self.pick(&["k", "n", "s"]), self.pick(&["k", "n", "d", "t"]));
                format!(
                    "SELECT k, n, s FROM a WHERE {condition} QUALIFY rank() OVER (PARTITION BY \
                     {group} ORDER BY {key}) <= {}",
                    self.0.u8(1..4)
                )
            }
            7 => {
                let (group, value) = (self.pick(&["k", "n", "s"]), self.pick(&["d", "n", "k"]));
                format!(
                    "SELECT a.{group}, max(a.{value}) AS m FROM {from} WHERE {condition} \
                     GROUP BY a.{group} ORDER BY m DESC, 1 LIMIT 6"
                )
            }
            8 => format!(
                "SELECT x, y, count(*), max(k) FROM (SELECT {x} AS x, {y} AS y, a.k FROM {from} \
                 WHERE {condition}) AS q GROUP BY ROLLUP (x, y)"
            ),
            9 => format!(
                "SELECT a.k, (SELECT max(b.d) FROM b WHERE b.k = a.k AND {}) AS m FROM a \
                 WHERE {condition}",
                self.condition("b")
            ),
            _ => {
                let (one, other) = (self.aggregate("a"), self.aggregate("a"));
                let having = self.pick(&["", " HAVING count(*) > 2"]);
                format!(
                    "SELECT {x} AS x, {one}, {other} FROM {from} WHERE {condition} \
                     GROUP BY 1{having}"
                )
            }
        }
    }
}

fn rows(table: u64) -> String {
    let prime = [7919, 104_729, 1_299_709][table as usize];
    let count = [900, 400, 30][table as usize];
    format!(
        "SELECT (i * {prime}) % 101 AS k, \
         CASE WHEN i % 11 = 0 THEN NULL ELSE (i * 31) % 57 END AS n, \
         CASE WHEN i % 13 = 0 THEN NULL ELSE 's' || ((i * {prime}) % 37)::VARCHAR END AS s, \
         ((i * 17) % 400 / 4)::DECIMAL(9,2) AS d, (i % 64)::DOUBLE / 8 AS f, \
         DATE '2024-01-01' + (i % 250)::INTEGER AS t \
         FROM generate_series(1, {count}) AS g(i)"
    )
}

/// Makes the tables anew, cut in these ways.
fn make(session: &Session, one: &Connection, cuts: [&Cut; 3]) {
    for ((nth, table), cut) in ["a", "b", "c"].into_iter().enumerate().zip(cuts) {
        let sql = format!("CREATE OR REPLACE TABLE {table} AS {}", rows(nth as u64));
        one.query(&sql).unwrap();
        session.execute(&sql, cut).unwrap();
        println!("{table}: {cut:?}");
    }
    // The first two tables as they lie have all rows on one node: spread some.
    for sql in ["INSERT INTO a SELECT * FROM b", "INSERT INTO b SELECT * FROM a WHERE k < 20"] {
        one.query(sql).unwrap();
        session.query(sql).unwrap();
    }
}

/// Compares so many queries; how many had rows, and how many ran in stages.
fn compare(
    maker: &mut Maker,
    seed: u64,
    (session, one): (&Session, &Connection),
    count: u32,
) -> (u32, u32) {
    let (mut same, mut staged) = (0, 0);
    for _ in 0..count {
        let sql = maker.query();
        match one.query(&sql).and_then(|rows| rows.collect()) {
            Ok(rows) => {
                let mut rows = common::texts(&rows);
                rows.sort();
                let plan = asked(session, &format!("EXPLAIN {sql}")).concat();
                let shown = plan.join("\n");
                assert_eq!(asked(session, &sql), rows, "SWINGDB_SEED={seed}\n{sql}\n{shown}");
                same += 1;
                staged += u32::from(shown.contains("DistributedExec"));
            }
            Err(error) => {
                let ours = session.query(&sql).and_then(|rows| rows.collect());
                assert!(ours.is_err(), "SWINGDB_SEED={seed}\n{sql}\n{error}");
            }
        }
    }
    (same, staged)
}

#[test]
fn random_queries_have_the_answers_of_one_database() {
    with_room(|| {
        let seed = std::env::var("SWINGDB_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        let count =
            std::env::var("SWINGDB_QUERIES").ok().and_then(|n| n.parse().ok()).unwrap_or(50);
        println!("SWINGDB_SEED={seed}");
        let mut maker = Maker(Rng::with_seed(seed));
        let one = Database::private().unwrap().connect();
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        let hash = Cut::Hash { column: "k".to_string() };
        let range = Cut::Range { column: "n".to_string(), bounds: vec!["10".into(), "30".into()] };
        let cuts = [Cut::AsItLies, hash, range, Cut::Replicated];
        let any = [maker.0.usize(..cuts.len()), maker.0.usize(..cuts.len())];
        // Tables of the same cut are joined where they are.
        for [first, second] in [any, [1, 1], [2, 2]] {
            make(&session, &one, [&cuts[first], &cuts[second], &cuts[3]]);
            let (same, staged) = compare(&mut maker, seed, (&session, &one), count);
            println!("{same} of {count} queries had rows, {staged} ran in stages");
            assert!(same > count / 2);
        }
        for sql in [
            "SELECT k, n, s, d, t FROM a ORDER BY k DESC, n NULLS FIRST, s, d, t LIMIT 50",
            "SELECT s, sum(d) AS total FROM a GROUP BY s ORDER BY total DESC, s LIMIT 7 OFFSET 3",
            "SELECT a.k, b.s, count(*) FROM a JOIN b ON a.n = b.n GROUP BY 1, 2 ORDER BY 3, 1, 2",
            "SELECT k, row_number() OVER (ORDER BY k, n, s, d, t) FROM a ORDER BY 2 LIMIT 40",
        ] {
            let ours = session.query(sql).unwrap().collect().unwrap();
            let theirs = one.query(sql).unwrap().collect().unwrap();
            assert_eq!(common::texts(&ours), common::texts(&theirs), "{sql}");
        }
    });
}
