//! Shards with copies: answers where a node is lost, and changes of all copies or none.

mod common;

use std::time::{Duration, Instant};

use common::by_hand::ByHand;
use common::killed::{Program, Rounds};
use common::{Node, asked, expected, nodes, with_room};
use swingdb::{Connection, Database};
use swingdb_cluster::client::Limits;
use swingdb_cluster::{Cluster, Cut, Error, Options, Session};

fn hash(column: &str) -> Cut {
    Cut::Hash { column: column.to_string() }
}

/// A list of shards, whose copies are at these nodes.
fn list(shards: &[&[&Node]]) -> Vec<String> {
    let line = |nodes: &&[&Node]| nodes.iter().map(|node| node.place()).collect::<Vec<_>>();
    shards.iter().map(|nodes| line(nodes).join(", ")).collect()
}

fn connect(shards: &[&[&Node]]) -> Cluster {
    let short = Duration::from_secs(2);
    let limits = Limits { connect: short, answer: short, silence: short };
    let options = Options { limits, ..Options::default() };
    Cluster::connect(&list(shards), options).unwrap()
}

/// Two shards of two copies.
fn two_by_two(nodes: &[Node]) -> Cluster {
    connect(&[&[&nodes[0], &nodes[1]], &[&nodes[2], &nodes[3]]])
}

const QUERIES: [&str; 7] = [
    "SELECT count(*), sum(k), min(s) FROM h",
    "SELECT g, count(*) FROM h GROUP BY g",
    "SELECT a.k, b.s FROM h a JOIN h b ON a.k = b.k WHERE a.g = 3",
    "SELECT z, count(*) FROM h JOIN small USING (g) GROUP BY z",
    "SELECT a.g, count(*) FROM lies a JOIN h b ON a.g = b.g GROUP BY a.g",
    "SELECT * FROM lies WHERE g < 5",
    "SELECT s FROM h WHERE k = 17",
];

/// Tables of all kinds of cuts, and the same in one database.
fn fill(session: &Session) -> Connection {
    let one = Database::private().unwrap().connect();
    let rows = "SELECT i AS k, i % 20 AS g, 'row ' || i AS s FROM generate_series(1, 2000) AS q(i)";
    for (cut, sql) in [
        (hash("k"), "CREATE TABLE h (k INTEGER PRIMARY KEY, g INTEGER, s VARCHAR)"),
        (Cut::AsItLies, &format!("INSERT INTO h {rows}")),
        (Cut::Replicated, "CREATE TABLE small AS SELECT g, g * 10 AS z FROM h WHERE k <= 15"),
        (Cut::AsItLies, &format!("CREATE TABLE lies AS {rows} WHERE i <= 500")),
    ] {
        change(session, &one, sql, &cut);
    }
    one
}

fn change(session: &Session, one: &Connection, sql: &str, cut: &Cut) {
    one.query(sql).unwrap();
    session.execute(sql, cut).unwrap_or_else(|error| panic!("{sql}\n{error}"));
}

fn same(session: &Session, one: &Connection) {
    for sql in QUERIES {
        assert_eq!(asked(session, sql), expected(one, sql), "{sql}");
    }
}

fn failed(session: &Session, sql: &str) -> Error {
    match session.query(sql).and_then(|rows| rows.collect()) {
        Ok(rows) => panic!("{sql} gave {} batches", rows.len()),
        Err(error) => error,
    }
}

/// Waits until a session knows which nodes have gone.
fn until_lost(session: &Session, node: &Node) {
    let until = Instant::now() + Duration::from_secs(10);
    let mark = format!("{} (lost)", node.place());
    while !session.nodes().iter().any(|line| line.contains(&mark)) {
        assert!(Instant::now() < until, "{:?}", session.nodes());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn copies_have_the_same_rows_and_answer_for_each_other() {
    with_room(|| {
        let mut nodes = nodes(4);
        let cluster = two_by_two(&nodes);
        let session = cluster.session().unwrap();
        let one = fill(&session);
        for sql in [
            "UPDATE h SET s = upper(s), g = g + 1 WHERE k % 3 = 0",
            "DELETE FROM h WHERE k IN (SELECT k FROM lies WHERE g = 7)",
            "INSERT INTO h VALUES (17, 3, 'new') ON CONFLICT (k) DO UPDATE SET s = excluded.s",
            "MERGE INTO h USING lies ON h.k = lies.k WHEN MATCHED AND lies.g = 9 THEN DELETE",
            "INSERT INTO lies VALUES (5000, 3, 'more')",
            "UPDATE small SET z = z + 1",
        ] {
            change(&session, &one, sql, &Cut::AsItLies);
        }
        same(&session, &one);
        for [first, second] in [[0, 1], [2, 3]] {
            for table in ["h", "lies", "small"] {
                let sql = format!("SELECT * FROM {table}");
                let rows = expected(&nodes[first].alone(), &sql);
                assert!(!rows.is_empty());
                assert_eq!(rows, expected(&nodes[second].alone(), &sql), "{table}");
            }
        }
        // One node of each shard goes: the same session goes on, and new ones begin.
        for lost in [0, 3] {
            nodes[lost].kill();
            until_lost(&session, &nodes[lost]);
            same(&session, &one);
            same(&cluster.session().unwrap(), &one);
        }
        // Changes need all copies.
        let error = failed(&session, "INSERT INTO h VALUES (9000, 1, 'x')");
        assert!(
            matches!(&error, Error::NodeLost { node, .. }
                if *node == nodes[0].address || *node == nodes[3].address),
            "{error:?}"
        );
        same(&session, &one);
        // Both copies of a shard: there is no answer any more.
        nodes[2].kill();
        assert!(matches!(cluster.session(), Err(Error::NodeLost { .. })));
        let error = failed(&session, QUERIES[0]);
        assert!(
            matches!(&error, Error::NodeLost { node, .. } if *node == nodes[2].address),
            "{error:?}"
        );
        for lost in [0, 2, 3] {
            nodes[lost].restart();
        }
        session.refresh().unwrap();
        same(&session, &one);
        change(&session, &one, "INSERT INTO h VALUES (9000, 1, 'x')", &Cut::AsItLies);
        same(&session, &one);
    });
}

#[test]
fn a_running_statement_fails_with_the_node_and_the_next_is_answered() {
    with_room(|| {
        let mut nodes = nodes(4);
        let session = two_by_two(&nodes).session().unwrap();
        let sql = "CREATE TABLE t AS SELECT i AS n, i % 7 AS g FROM generate_series(1, 25000) s(i)";
        session.execute(sql, &hash("n")).unwrap();
        for lost in [2, 1] {
            // The second round loses a copy that nobody reads: nothing fails then.
            let address = nodes[lost].address.clone();
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(700));
                nodes[lost].kill();
                nodes
            });
            let sql = "SELECT count(*) FROM t a, t b WHERE (a.n * b.n) % 1009 = 7";
            let answer = session.query(sql).and_then(|rows| rows.collect());
            nodes = killer.join().unwrap();
            match answer {
                Ok(_) => assert_eq!(lost, 1),
                Err(Error::NodeLost { node, .. }) => assert_eq!((lost, node), (2, address)),
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(
                asked(&session, "SELECT count(*), sum(n) FROM t WHERE g >= 0"),
                [["25000", "312512500"]]
            );
        }
    });
}

#[test]
fn a_node_that_hangs_is_replaced_by_its_copy() {
    with_room(|| {
        let nodes = nodes(4);
        let cluster = two_by_two(&nodes);
        let session = cluster.session().unwrap();
        let one = fill(&session);
        nodes[2].signal("-STOP");
        let start = Instant::now();
        let error = failed(&session, QUERIES[1]);
        assert!(
            matches!(&error, Error::NodeLost { node, .. } if *node == nodes[2].address),
            "{error:?}"
        );
        same(&session, &one);
        same(&cluster.session().unwrap(), &one);
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
        nodes[2].signal("-CONT");
        change(&session, &one, "DELETE FROM h WHERE k = 1000", &Cut::AsItLies);
        same(&session, &one);
    });
}

#[test]
fn what_a_copy_shows_is_never_taken_back() {
    with_room(|| {
        let mut nodes = nodes(4);
        let cluster = two_by_two(&nodes);
        let session = cluster.session().unwrap();
        fill(&session);
        let count = || asked(&cluster.session().unwrap(), "SELECT count(*) FROM lies")[0].join("");
        let add = |_| "INSERT INTO lies VALUES (7777, 1, 'prepared')".to_string();
        let dead = ByHand::prepared(session.change() + 1, &nodes, add);
        assert_eq!(count(), "500");
        // Decided, and told to the first copy of each shard; the second of the second is away.
        nodes[3].kill();
        dead.order(&nodes[0], "commit").unwrap();
        assert_eq!(count(), "500");
        dead.order(&nodes[2], "commit").unwrap();
        assert_eq!(count(), "502");
        // It comes back with the state before, prepared; whoever reads brings it along.
        nodes[3].restart();
        assert_eq!(count(), "502");
        nodes[0].kill();
        nodes[2].kill();
        assert_eq!(count(), "502");
        let alike = "SELECT count(*) FROM lies WHERE k = 7777";
        assert_eq!(expected(&nodes[1].alone(), alike), [["1"]]);
        assert_eq!(expected(&nodes[3].alone(), alike), [["1"]]);
        nodes[0].restart();
        nodes[2].restart();
        cluster.recover().unwrap();
        assert_eq!(count(), "502");
    });
}

#[test]
fn nodes_and_coordinators_that_are_killed_leave_all_or_nothing() {
    with_room(|| {
        let mut nodes = nodes(4);
        let cluster = two_by_two(&nodes);
        cluster.session().unwrap().execute("CREATE TABLE t (n BIGINT)", &hash("n")).unwrap();
        let program = Program::in_a_folder();
        let shards = list(&[&[&nodes[0], &nodes[1]], &[&nodes[2], &nodes[3]]]);
        let shards = program.list("nodes", &shards);
        let add = ["INSERT INTO t SELECT * FROM generate_series(1, 5000)"];
        let mut rows = 10_000;
        let mut rounds = Rounds::new([(); 2].map(|()| program.run(&shards, &add)));
        while let Some(round) = rounds.again() {
            let mut coordinator = program.start(&shards, &add);
            std::thread::sleep(rounds.at());
            let lost = rounds.random().usize(0..4);
            let kills_coordinator = rounds.random().bool();
            nodes[lost].kill();
            if kills_coordinator {
                coordinator.kill().unwrap();
            }
            coordinator.wait().unwrap();
            // One node is lost: there is an answer, of all rows or none.
            let count = || {
                let rows = asked(&cluster.session().unwrap(), "SELECT count(*) FROM t");
                rows[0][0].parse::<u32>().unwrap()
            };
            let seen = count();
            assert!(seen == rows || seen == rows + 5000, "{rows} rows became {seen}");
            nodes[lost].restart();
            cluster.recover().unwrap();
            let now = count();
            assert!(now == seen || now == rows + 5000, "{seen} rows became {now} of {rows}");
            println!("round {round}: {rows} rows became {seen}, {now}; node {lost} was lost");
            rounds.note(now > rows);
            rows = now;
            for [first, second] in [[0, 1], [2, 3]] {
                let sql = "SELECT count(*), sum(n) FROM t";
                assert_eq!(
                    expected(&nodes[first].alone(), sql),
                    expected(&nodes[second].alone(), sql)
                );
            }
        }
    });
}

#[test]
fn statements_that_would_tell_copies_apart_are_refused() {
    with_room(|| {
        let nodes = nodes(2);
        let session = connect(&[&[&nodes[0], &nodes[1]]]).session().unwrap();
        session
            .query("CREATE TABLE t AS SELECT i AS k, 0 AS n FROM generate_series(1, 9) s(i)")
            .unwrap();
        session.query("CREATE TABLE u AS SELECT 1 AS k, 5 AS n").unwrap();
        session.query("UPDATE t SET n = u.n FROM u WHERE t.k = u.k").unwrap();
        assert_eq!(asked(&session, "SELECT sum(n) FROM t"), [["5"]]);
        // Behind the cluster's back.
        let apart = |nth: usize| format!("UPDATE t SET n = {nth} WHERE k = 2");
        ByHand::committed(session.change() + 1, &nodes, apart);
        session.refresh().unwrap();
        let error = failed(&session, "UPDATE t SET n = u.n FROM u WHERE t.k = u.k");
        assert!(error.to_string().contains("same rows"), "{error}");
        let error = failed(&session, "DELETE FROM t WHERE n = 1");
        assert!(error.to_string().contains("same rows"), "{error}");
    });
}

#[test]
fn lists_say_which_copy_a_node_is() {
    with_room(|| {
        let nodes = nodes(4);
        let session = two_by_two(&nodes).session().unwrap();
        fill(&session);
        // Other shards, another order of the copies, without copies.
        for wrong in [
            &[&[&nodes[0], &nodes[3]][..], &[&nodes[2], &nodes[1]]][..],
            &[&[&nodes[1], &nodes[0]], &[&nodes[2], &nodes[3]]],
            &[&[&nodes[0]], &[&nodes[2]]],
            &[&[&nodes[0]], &[&nodes[1]], &[&nodes[2]], &[&nodes[3]]],
        ] {
            let refused = connect(wrong).session();
            assert!(matches!(refused, Err(Error::Member { .. })), "{wrong:?}", wrong = list(wrong));
        }
    });
}

#[test]
fn copies_come_and_go_and_lost_ones_are_replaced() {
    with_room(|| {
        let mut nodes = nodes(5);
        let plain = connect(&[&[&nodes[0]], &[&nodes[2]]]);
        let one = fill(&plain.session().unwrap());
        let cluster =
            plain.resize(&list(&[&[&nodes[0], &nodes[1]], &[&nodes[2], &nodes[3]]])).unwrap();
        let session = cluster.session().unwrap();
        same(&session, &one);
        change(&session, &one, "DELETE FROM h WHERE k = 100", &Cut::AsItLies);
        // A node is lost for good, also the first; another one takes its place.
        nodes[0].kill();
        until_lost(&session, &nodes[0]);
        same(&session, &one);
        let new = list(&[&[&nodes[1], &nodes[4]], &[&nodes[2], &nodes[3]]]);
        let replaced = cluster.resize(&new).unwrap();
        let session = replaced.session().unwrap();
        same(&session, &one);
        change(&session, &one, "INSERT INTO h VALUES (100, 1, 'again')", &Cut::AsItLies);
        nodes[1].kill();
        until_lost(&session, &nodes[1]);
        same(&session, &one);
        // What comes back of the old cluster is no node of the new one.
        nodes[0].restart();
        let error = cluster.session().err().unwrap();
        assert!(
            matches!(&error, Error::NodeFailed { node, .. } if *node == nodes[0].address),
            "{error:?}"
        );
        // A machine that has lost its memory is not read, and is filled again.
        nodes[1].restart_empty();
        same(&replaced.session().unwrap(), &one);
        let error = failed(&session, "DELETE FROM lies");
        assert!(
            matches!(&error, Error::NodeFailed { node, .. } if *node == nodes[1].address),
            "{error:?}"
        );
        let replaced = replaced.resize(&new).unwrap();
        let session = replaced.session().unwrap();
        change(&session, &one, "DELETE FROM h WHERE k = 101", &Cut::AsItLies);
        nodes[4].kill();
        until_lost(&session, &nodes[4]);
        same(&session, &one);
        nodes[4].restart();
        let fewer = replaced.resize(&list(&[&[&nodes[1]], &[&nodes[2]]])).unwrap();
        same(&fewer.session().unwrap(), &one);
    });
}
