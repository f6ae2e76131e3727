//! Nodes that come and go, while queries go on.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::killed::{Program, Rounds};
use common::{Node, asked, cluster, expected, nodes, with_room};
use swingdb::{Connection, Database};
use swingdb_cluster::{Cluster, Cut, Error, Options, Session};

fn hash(column: &str) -> Cut {
    Cut::Hash { column: column.to_string() }
}

const QUERIES: [&str; 6] = [
    "SELECT count(*), sum(k), min(s) FROM h",
    "SELECT g, count(*) FROM r GROUP BY g",
    "SELECT h.k, r.n FROM h JOIN r ON h.k = r.n WHERE h.g = 3",
    "SELECT z, count(*) FROM h JOIN small USING (g) GROUP BY z",
    "SELECT * FROM lies WHERE g < 5",
    "SELECT * FROM some",
];

fn fill(session: &Session) -> Connection {
    let one = Database::private().unwrap().connect();
    let rows = "SELECT i AS k, i % 20 AS g, 'row ' || i AS s FROM generate_series(1, 2000) AS q(i)";
    let range = Cut::Range { column: "n".to_string(), bounds: vec!["1000".to_string()] };
    for (cut, sql) in [
        (hash("k"), "CREATE TABLE h (k INTEGER PRIMARY KEY, g INTEGER DEFAULT 7, s VARCHAR)"),
        (Cut::AsItLies, &format!("INSERT INTO h {rows}")),
        (
            range,
            "CREATE TABLE r AS SELECT i AS n, i % 9 AS g FROM generate_series(1, 1500) AS q(i)",
        ),
        (Cut::Replicated, "CREATE TABLE small AS SELECT g, g * 10 AS z FROM h WHERE k <= 15"),
        (Cut::AsItLies, &format!("CREATE TABLE lies AS {rows}")),
        (Cut::AsItLies, "CREATE VIEW some AS SELECT k FROM h WHERE k % 100 = 0"),
    ] {
        one.query(sql).unwrap();
        session.execute(sql, &cut).unwrap();
    }
    one
}

fn same(session: &Session, one: &Connection) {
    for sql in QUERIES {
        assert_eq!(asked(session, sql), expected(one, sql), "{sql}");
    }
    // Each row is where it is looked for.
    for key in (1..2000).step_by(97) {
        let sql = format!("SELECT s FROM h WHERE k = {key}");
        assert_eq!(asked(session, &sql), expected(one, &sql), "{sql}");
        let sql = format!("SELECT g FROM r WHERE n = {key}");
        assert_eq!(asked(session, &sql), expected(one, &sql), "{sql}");
    }
}

fn places(nodes: &[&Node]) -> Vec<String> {
    nodes.iter().map(|node| node.place()).collect()
}

#[test]
fn nodes_come_and_go_while_queries_go_on() {
    with_room(|| {
        let all = nodes(4);
        let two = cluster(&all[..2]);
        let one = fill(&two.session().unwrap());
        let old = two.session().unwrap();
        let done = AtomicBool::new(false);
        let three = std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) || rounds == 0 {
                    assert_eq!(asked(&old, QUERIES[0]), expected(&one, QUERIES[0]));
                    rounds += 1;
                }
                rounds
            });
            let three = two.resize(&places(&[&all[0], &all[1], &all[2]])).unwrap();
            done.store(true, Ordering::Relaxed);
            println!("{} queries meanwhile", reading.join().unwrap());
            three
        });
        // The old state stays; a new session needs the new list.
        same(&old, &one);
        assert!(matches!(old.refresh(), Err(Error::Member { .. })));
        assert!(matches!(two.session(), Err(Error::Member { .. })));
        let turned = Cluster::connect(&places(&[&all[1], &all[0], &all[2]]), Options::default());
        assert!(matches!(turned.unwrap().session(), Err(Error::Member { .. })));
        let session = three.session().unwrap();
        same(&session, &one);
        for table in ["h", "r"] {
            let count = &expected(&all[2].alone(), &format!("SELECT count(*) FROM {table}"))[0][0];
            assert!(count.parse::<u32>().unwrap() > 300, "{table}: {count}");
        }
        for sql in ["INSERT INTO h VALUES (5000, 3, 'new')", "DELETE FROM r WHERE n % 10 = 0"] {
            one.query(sql).unwrap();
            session.query(sql).unwrap();
        }
        assert!(session.query("INSERT INTO h VALUES (5000, 3, 'twice')").is_err());
        session.query("INSERT INTO h (k) VALUES (5001)").unwrap();
        one.query("INSERT INTO h (k) VALUES (5001)").unwrap();
        same(&session, &one);
        // One goes, another one comes.
        let other = three.resize(&places(&[&all[0], &all[3], &all[2]])).unwrap();
        same(&other.session().unwrap(), &one);
        assert_eq!(all[1].alone().tables().unwrap().iter().filter(|t| !t.contains('.')).count(), 0);
        // And one that has left can come again.
        let last = other.resize(&places(&[&all[0], &all[1]])).unwrap();
        same(&last.session().unwrap(), &one);
        let alone = last.resize(&places(&[&all[0]])).unwrap();
        same(&alone.session().unwrap(), &one);
    });
}

#[test]
fn nodes_that_have_tables_do_not_come() {
    with_room(|| {
        let all = nodes(3);
        let two = cluster(&all[..2]);
        fill(&two.session().unwrap());
        cluster(&all[2..]).session().unwrap().query("CREATE TABLE x AS SELECT 1 AS a").unwrap();
        let refused = two.resize(&places(&[&all[0], &all[1], &all[2]]));
        assert!(matches!(refused.err(), Some(Error::NodeFailed { .. })));
        let refused = two.resize(&places(&[&all[1], &all[0]]));
        assert!(matches!(refused.err(), Some(Error::Unsupported(_))));
        two.session().unwrap().query("DELETE FROM lies").unwrap();
    });
}

#[test]
fn a_coordinator_that_is_killed_leaves_the_old_nodes_or_the_new() {
    with_room(|| {
        let all = nodes(3);
        let two = cluster(&all[..2]);
        let one = fill(&two.session().unwrap());
        let three = cluster(&all);
        let program = Program::in_a_folder();
        let old = program.list("old", &places(&[&all[0], &all[1]]));
        let new = program.list("new", &places(&[&all[0], &all[1], &all[2]]));
        let mut is_moved = false;
        let mut rounds = Rounds::new(
            [(&old, &new), (&new, &old)]
                .map(|(from, to)| program.run(from, &["--resize", to.to_str().unwrap()])),
        );
        while let Some(round) = rounds.again() {
            let (from, to) = if is_moved { (&new, &old) } else { (&old, &new) };
            let mut coordinator = program.start(from, &["--resize", to.to_str().unwrap()]);
            std::thread::sleep(rounds.at());
            coordinator.kill().unwrap();
            coordinator.wait().unwrap();
            let was_moved = is_moved;
            // All nodes of both lists are settled.
            three.recover().unwrap();
            let session = match two.session() {
                Ok(session) => {
                    is_moved = false;
                    session
                }
                Err(Error::Member { .. }) => {
                    is_moved = true;
                    three.session().unwrap()
                }
                Err(other) => panic!("{other}"),
            };
            println!("round {round}: on three nodes: {is_moved}");
            rounds.note(is_moved != was_moved);
            same(&session, &one);
        }
    });
}
