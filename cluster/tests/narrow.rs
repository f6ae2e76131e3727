//! UPDATE and DELETE leave out nodes that cannot have their rows, with the outcome of one database.

mod common;

use common::by_hand::ByHand;
use common::{Node, asked, cluster, expected, nodes, with_room};
use fastrand::Rng;
use swingdb::{Connection, Database, Value};
use swingdb_cluster::{Cluster, Cut, Options, Session};

fn hash(column: &str) -> Cut {
    Cut::Hash { column: column.to_string() }
}

fn range(column: &str, bounds: &[&str]) -> Cut {
    let bounds = bounds.iter().map(|bound| bound.to_string()).collect();
    Cut::Range { column: column.to_string(), bounds }
}

const ROWS: &str = "SELECT i AS k, i % 50 AS g, 'row ' || i AS s FROM generate_series(1, 300) q(i)";

fn fill(session: &Session, bounds: &[&str]) {
    for (name, cut) in [
        ("h", hash("k")),
        ("r", range("k", bounds)),
        ("lies", Cut::AsItLies),
        ("small", Cut::Replicated),
    ] {
        session.execute(&format!("CREATE TABLE {name} AS {ROWS}"), &cut).unwrap();
    }
}

/// The nodes that carry out steps of a statement, and how many rows it changes; it is rolled back.
fn visited(session: &Session, nodes: &[Node], sql: &str, values: &[Value]) -> (usize, u64) {
    session.query("BEGIN").unwrap();
    assert!(nodes.iter().all(|node| node.steps() == 0));
    let done = session.query_with(sql, values).unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let count = nodes.iter().filter(|node| node.steps() > 0).count();
    session.query("ROLLBACK").unwrap();
    (count, done.rows_changed().unwrap())
}

#[test]
fn nodes_that_cannot_have_the_rows_have_nothing_to_do() {
    with_room(|| {
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        fill(&session, &["100", "200"]);
        for (sql, count, rows) in [
            ("UPDATE h SET g = 0 WHERE k = 17", 1, 1),
            ("UPDATE h AS x SET g = g + 1 WHERE 17 = x.k AND g > 3", 1, 1),
            ("UPDATE h SET g = 0 WHERE (k = 17 OR k = 17 + 0) AND s LIKE 'row%'", 1, 1),
            ("DELETE FROM h WHERE k IN (17)", 1, 1),
            ("DELETE FROM h WHERE k IS NULL", 1, 0),
            ("DELETE FROM h WHERE k = 17 RETURNING s", 1, 1),
            ("DELETE FROM h WHERE k > 17", 3, 283),
            ("DELETE FROM h WHERE k = 17 OR g = 17", 3, 6),
            ("DELETE FROM h", 3, 300),
            ("DELETE FROM r WHERE k >= 100 AND k < 200", 1, 100),
            ("DELETE FROM r WHERE k BETWEEN 50 AND 150", 2, 101),
            ("UPDATE r SET s = 'x' WHERE k <> 5 AND k < 10", 1, 8),
            // Conditions beside subqueries and other tables.
            ("DELETE FROM h WHERE k = 17 AND g IN (SELECT g FROM r)", 1, 1),
            ("DELETE FROM h WHERE k IN (SELECT k FROM r WHERE k = 17)", 3, 1),
            ("DELETE FROM h WHERE k = 17 AND EXISTS (SELECT 1 FROM r WHERE r.k = h.g)", 1, 1),
            ("UPDATE h SET g = r.g FROM r WHERE h.k = r.k AND h.k = 17", 1, 1),
            ("UPDATE h SET g = r.g FROM r WHERE h.k = r.k AND r.k = 17", 3, 1),
            ("DELETE FROM h USING r WHERE r.g = h.g AND h.k = 17", 1, 1),
            // Rows may be anywhere, or are everywhere.
            ("DELETE FROM lies WHERE k = 17", 3, 1),
            ("DELETE FROM small WHERE k = 17", 3, 1),
        ] {
            assert_eq!(visited(&session, &nodes, sql, &[]), (count, rows), "{sql}");
        }
        let values = [Value::from("new"), Value::from(17)];
        let sql = "UPDATE h SET s = ? WHERE k = ?";
        assert_eq!(visited(&session, &nodes, sql, &values), (1, 1));
        assert_eq!(visited(&session, &nodes, "DELETE FROM h WHERE k >= $1", &values[1..]).0, 3);
        // All nodes commit, and see the change.
        let before = session.change();
        session.query("DELETE FROM h WHERE k = 17").unwrap();
        assert_eq!(session.change(), before + 1);
        let by_hand = ByHand::new(before + 2);
        for node in &nodes {
            assert_eq!(by_hand.standing(node).last, before + 1);
        }
        assert_eq!(asked(&session, "SELECT count(*), sum(k) FROM h"), [["299", "45133"]]);
        // Of several statements, each has nodes of its own.
        session
            .query("BEGIN; DELETE FROM h WHERE k = 18; UPDATE h SET g = -1 WHERE k = 19")
            .unwrap();
        session.query("DELETE FROM r WHERE k = 250; COMMIT").unwrap();
        assert_eq!(asked(&session, "SELECT count(*) FROM h WHERE g >= 0"), [["297"]]);
        assert_eq!(asked(&session, "SELECT count(*) FROM r"), [["299"]]);
    });
}

#[test]
fn all_copies_of_a_shard_are_visited() {
    with_room(|| {
        let nodes = nodes(4);
        let pair = |of: &[Node]| format!("{}, {}", of[0].place(), of[1].place());
        let shards = [pair(&nodes[..2]), pair(&nodes[2..])];
        let cluster = Cluster::connect(&shards, Options::default()).unwrap();
        let session = cluster.session().unwrap();
        fill(&session, &["100"]);
        assert_eq!(visited(&session, &nodes, "DELETE FROM r WHERE k = 17", &[]), (2, 1));
        let joined = "UPDATE r SET g = h.g + 1 FROM h WHERE r.k = 217 AND h.k = r.k";
        assert_eq!(visited(&session, &nodes, joined, &[]), (2, 1));
        session.query(joined).unwrap();
        assert_eq!(asked(&session, "SELECT g FROM r WHERE k = 217"), [["18"]]);
        let row = "SELECT g FROM r WHERE k = 217";
        assert_eq!(expected(&nodes[2].alone(), row), expected(&nodes[3].alone(), row));
        // Copies of which one would take another row are told apart still.
        let apart = |nth: usize| format!("UPDATE r SET g = {nth} WHERE k = 218");
        ByHand::committed(session.change() + 1, &nodes, apart);
        session.refresh().unwrap();
        let wrong = session.query("UPDATE r SET g = h.g FROM h WHERE r.k = 219 AND h.k = r.k");
        let error = wrong.err().unwrap().to_string();
        assert!(error.contains("same rows"), "{error}");
    });
}

#[test]
fn a_node_without_steps_is_prepared_and_comes_back() {
    with_room(|| {
        for decided in [false, true] {
            let mut nodes = nodes(2);
            let cluster = cluster(&nodes);
            let session = cluster.session().unwrap();
            fill(&session, &["100"]);
            let by_hand = ByHand::new(session.change() + 1);
            for node in &nodes {
                by_hand.begin(node, &nodes[0]);
            }
            by_hand.step(&nodes[0], "DELETE FROM r WHERE k < 10");
            for node in &nodes {
                by_hand.order(node, "prepare").unwrap();
            }
            if decided {
                by_hand.order(&nodes[0], "commit").unwrap();
            }
            nodes[1].restart();
            assert!(by_hand.standing(&nodes[1]).is_prepared);
            cluster.recover().unwrap();
            let left = if decided { "291" } else { "300" };
            let session = cluster.session().unwrap();
            assert_eq!(asked(&session, "SELECT count(*) FROM r"), [[left]]);
            session.query("DELETE FROM r WHERE k = 150").unwrap();
        }
    });
}

/// Conditions of a table whose column of the cut has this kind of values.
struct Maker {
    random: Rng,
    kind: usize,
}

impl Maker {
    fn value(&mut self) -> String {
        let number = self.random.i32(-5..65);
        match self.kind {
            0 => number.to_string(),
            1 => format!("'v{number}'"),
            2 => format!("DATE '2024-01-01' + {number}"),
            _ => format!("{number}.5"),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        match self.random.u32(..if depth == 0 { 9 } else { 12 }) {
            0 | 1 => format!("k = {}", self.value()),
            2 => format!("k IN ({}, {}, NULL)", self.value(), self.value()),
            3 => format!("k BETWEEN {} AND {}", self.value(), self.value()),
            4 => {
                let sign = ["<", "<=", ">", ">=", "<>"][self.random.usize(..5)];
                format!("{} {sign} k", self.value())
            }
            5 => ["k IS NULL", "k IS NOT NULL"][self.random.usize(..2)].to_string(),
            6 => format!("g % {} = 1", self.random.u32(2..5)),
            7 => format!("k IN (SELECT k FROM u WHERE g < {})", self.random.u32(1..9)),
            8 => format!("t.k IS NOT DISTINCT FROM {}", self.value()),
            9 => format!("({} OR {})", self.condition(depth - 1), self.condition(depth - 1)),
            10 => format!("NOT ({})", self.condition(depth - 1)),
            _ => format!("({} AND {})", self.condition(depth - 1), self.condition(depth - 1)),
        }
    }

    fn statement(&mut self) -> String {
        let condition = self.condition(2);
        match self.random.u32(..6) {
            0 | 1 => {
                format!("DELETE FROM t WHERE {condition} AND g % 4 = {}", self.random.u32(..4))
            }
            2 => format!("UPDATE t SET g = t.g + u.g FROM u WHERE t.k = u.k AND {}", self.alone()),
            3 => format!("UPDATE t SET s = s || '.' WHERE {condition} RETURNING k, g, s"),
            _ => format!("UPDATE t SET g = g + 1 WHERE {condition}"),
        }
    }

    /// A condition about the table itself.
    fn alone(&mut self) -> String {
        format!("t.k = {}", self.value())
    }
}

fn rows(kind: usize) -> String {
    let key = ["i % 61", "'v' || i % 61", "DATE '2024-01-01' + (i % 61)::INTEGER", "i % 61 + 0.5"];
    format!(
        "SELECT CASE WHEN i % 23 = 0 THEN NULL ELSE {} END AS k, i % 40 AS g, 's' AS s \
         FROM generate_series(1, 400) q(i)",
        key[kind]
    )
}

#[test]
fn random_changes_have_the_outcome_of_one_database() {
    with_room(|| {
        let seed = std::env::var("SWINGDB_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        println!("SWINGDB_SEED={seed}");
        let count = std::env::var("SWINGDB_QUERIES").ok().and_then(|n| n.parse().ok());
        let mut maker = Maker { random: Rng::with_seed(seed), kind: 0 };
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        let one = Database::private().unwrap().connect();
        let (mut few, mut changed) = (0, 0);
        for kind in 0..4 {
            maker.kind = kind;
            let bounds = [
                ["20", "40"],
                ["'v2'", "'v4'"],
                ["DATE '2024-01-20'", "DATE '2024-02-10'"],
                ["20", "40.5"],
            ];
            let cut = if maker.random.bool() { hash("k") } else { range("k", &bounds[kind]) };
            println!("{kind}: {cut}");
            for (sql, cut) in [
                (format!("CREATE OR REPLACE TABLE t AS {}", rows(kind)), &cut),
                (
                    format!(
                        "CREATE OR REPLACE TABLE u AS SELECT k, g FROM ({}) WHERE g = 7",
                        rows(kind)
                    ),
                    &Cut::AsItLies,
                ),
            ] {
                one.query(&sql).unwrap();
                session.execute(&sql, cut).unwrap();
            }
            for _ in 0..count.unwrap_or(20) {
                let (visits, rows) = compare(&session, &nodes, &one, &maker.statement(), seed);
                few += u32::from(visits < 3);
                changed += u32::from(visits < 3 && rows > 0);
            }
        }
        println!("{few} statements left out nodes, {changed} of them changed rows");
        assert!(few > 0 && changed > 0);
    });
}

/// How many nodes had steps of a statement, and how many rows it has changed.
fn compare(
    session: &Session,
    nodes: &[Node],
    one: &Connection,
    sql: &str,
    seed: u64,
) -> (usize, u64) {
    session.query("BEGIN").unwrap();
    let ours = session.query(sql);
    let visits = nodes.iter().filter(|node| node.steps() > 0).count();
    let theirs = one.query(sql);
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(_), Err(_)) => {
            session.query("ROLLBACK").unwrap();
            return (visits, 0);
        }
        (ours, theirs) => panic!(
            "SWINGDB_SEED={seed}\n{sql}\n{:?}\n{:?}",
            ours.err().map(|error| error.to_string()),
            theirs.err().map(|error| error.to_string())
        ),
    };
    let rows = ours.rows_changed().unwrap();
    assert_eq!(Some(rows), theirs.rows_changed(), "SWINGDB_SEED={seed}\n{sql}");
    let sorted = |batches: Vec<_>| {
        let mut rows = common::texts(&batches);
        rows.sort();
        rows
    };
    let (ours, theirs) = (ours.collect().unwrap(), theirs.collect().unwrap());
    assert_eq!(sorted(ours), sorted(theirs), "SWINGDB_SEED={seed}\n{sql}");
    session.query("COMMIT").unwrap();
    let all = "SELECT * FROM t";
    assert_eq!(asked(session, all), expected(one, all), "SWINGDB_SEED={seed}\n{sql}");
    (visits, rows)
}
