//! Changes of all nodes or none, with coordinators and nodes that die at every step.

mod common;

use std::time::{Duration, Instant};

use common::by_hand::ByHand;
use common::killed::{Program, Rounds};
use common::{Node, asked, cluster, expected, nodes, with_room};
use swingdb_cluster::{Cluster, Cut, Error, Session};

fn hash(column: &str) -> Cut {
    Cut::Hash { column: column.to_string() }
}

fn one(session: &Session, sql: &str) -> String {
    asked(session, sql)[0][0].clone()
}

#[test]
fn statements_change_all_shards() {
    with_room(|| {
        let nodes = nodes(3);
        let session = cluster(&nodes).session().unwrap();
        session
            .execute(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, s VARCHAR, n DECIMAL(9,2))",
                &hash("id"),
            )
            .unwrap();
        let added = session.query(
            "INSERT INTO t SELECT i, 'row ' || i::VARCHAR, i / 4 \
             FROM generate_series(1, 1000) AS g(i)",
        );
        assert_eq!(added.unwrap().rows_changed(), Some(1000));
        assert_eq!(
            session.query("INSERT INTO t (s, id) VALUES ('x', 2000)").unwrap().rows_changed(),
            Some(1)
        );
        assert_eq!(one(&session, "SELECT count(*) FROM t"), "1001");
        assert_eq!(asked(&session, "SELECT s, n FROM t WHERE id = 2000"), [["x", "NULL"]]);
        let changed = session
            .query("UPDATE t SET s = upper(s), n = n + 1 WHERE id BETWEEN 10 AND 19")
            .unwrap();
        assert_eq!(changed.rows_changed(), Some(10));
        assert_eq!(asked(&session, "SELECT s, n FROM t WHERE id = 12"), [["ROW 12", "4.00"]]);
        assert_eq!(
            session.query("DELETE FROM t WHERE id % 2 = 0").unwrap().rows_changed(),
            Some(501)
        );
        assert_eq!(one(&session, "SELECT count(*) FROM t"), "500");
        session
            .execute("CREATE TABLE small AS SELECT id, s FROM t WHERE id < 10", &Cut::Replicated)
            .unwrap();
        assert_eq!(one(&session, "SELECT count(*) FROM small"), "5");
        assert_eq!(one(&session, "SELECT count(*) FROM t JOIN small USING (id)"), "5");
        session.query("CREATE VIEW odd AS SELECT id FROM t WHERE id > 900").unwrap();
        session.query("ALTER TABLE t ADD COLUMN extra INTEGER DEFAULT 7").unwrap();
        assert_eq!(one(&session, "SELECT sum(extra) FROM t"), "3500");
        // Others see it too.
        let other = cluster(&nodes).session().unwrap();
        assert_eq!(one(&other, "SELECT count(*) FROM odd"), "50");
        assert_eq!(other.cut("t"), Some(hash("id")));
        // Each node has some rows, none has all.
        for node in &nodes {
            let rows = &expected(&node.alone(), "SELECT count(*) FROM t")[0][0];
            let rows = rows.parse::<u32>().unwrap();
            assert!((100..250).contains(&rows), "{rows}");
        }
        session.query("DROP TABLE t").unwrap();
        assert!(session.query("SELECT * FROM t").is_err());
    });
}

#[test]
fn ranges_and_what_would_misplace_rows() {
    with_room(|| {
        let nodes = nodes(2);
        let session = cluster(&nodes).session().unwrap();
        let cut =
            Cut::Range { column: "d".to_string(), bounds: vec!["DATE '2020-01-01'".to_string()] };
        session.execute("CREATE TABLE t (d DATE, n INTEGER CHECK (n < 10))", &cut).unwrap();
        session
            .query("INSERT INTO t VALUES ('2019-12-31', 1), ('2020-01-01', 2), (NULL, 3)")
            .unwrap();
        assert_eq!(expected(&nodes[0].alone(), "SELECT n FROM t"), [["1"]]);
        for sql in [
            "UPDATE t SET d = u.d FROM t AS u WHERE t.n = u.n",
            "INSERT INTO t (n) VALUES (1)",
            "MERGE INTO t USING t AS u ON t.n = u.n WHEN MATCHED THEN DELETE",
            "SAVEPOINT a",
        ] {
            assert!(matches!(session.query(sql), Err(Error::Unsupported(_))), "{sql}");
        }
        // Columns that are called as keywords are.
        let made = "CREATE TABLE e (k INTEGER PRIMARY KEY, \"end\" INTEGER, a INTEGER)";
        session.execute(made, &hash("k")).unwrap();
        session.query("INSERT INTO e VALUES (1, 10, 0), (2, 20, 0), (3, 30, 0)").unwrap();
        for sql in [
            "INSERT INTO e VALUES (1, 2, 3) ON CONFLICT (k) DO UPDATE SET end = excluded.end, \
             k = excluded.k",
            "MERGE INTO e USING e AS u ON e.k = u.k WHEN MATCHED THEN UPDATE SET end = 1, k = 2",
        ] {
            assert!(matches!(session.query(sql), Err(Error::Unsupported(_))), "{sql}");
        }
        // What would give several rows one key changes nothing.
        for sql in [
            "UPDATE e SET a = e.end, k = 3",
            "UPDATE e SET end = 1, k = 2",
            "UPDATE e SET a = CASE WHEN a = 1 THEN 1 ELSE e.end END, 'k' = 2",
        ] {
            assert!(matches!(session.query(sql), Err(Error::Statement { .. })), "{sql}");
        }
        session.query("UPDATE e SET end = e.end + 1, a = e.end WHERE e.k < 3").unwrap();
        let rows = asked(&session, "SELECT k, e.end, a FROM e ORDER BY k");
        assert_eq!(rows, [["1", "11", "10"], ["2", "21", "20"], ["3", "30", "0"]]);
        // A table that a transaction makes anew has another cut than the session knows of.
        session.query("BEGIN").unwrap();
        let made = "CREATE OR REPLACE TABLE e (k INTEGER, a INTEGER)";
        session.execute(made, &hash("a")).unwrap();
        assert_eq!(session.cut("e"), Some(hash("a")));
        session.query("INSERT INTO e SELECT i, i + 100 FROM generate_series(1, 9) q(i)").unwrap();
        assert_eq!(asked(&session, "SELECT k FROM e WHERE a = 103"), [["3"]]);
        session.query("DELETE FROM e; COMMIT").unwrap();
        assert_eq!(session.cut("e"), Some(hash("a")));
        session.query("INSERT INTO e SELECT i, i FROM generate_series(1, 50) q(i)").unwrap();
        assert_eq!(asked(&session, "SELECT k FROM e WHERE a = 17"), [["17"]]);
        // The rows of the first node are right, those of the second are not: none is added.
        let before = session.change();
        let wrong = session.query("INSERT INTO t VALUES ('2018-01-01', 5), ('2022-01-01', 50)");
        match wrong.err() {
            Some(Error::Statement { node, class, .. }) => {
                assert_eq!((node, class.as_str()), (nodes[1].address.clone(), "ConstraintError"));
            }
            other => panic!("{other:?}"),
        }
        session.refresh().unwrap();
        assert_eq!(
            (session.change(), one(&session, "SELECT count(*) FROM t")),
            (before, "3".to_string())
        );
        // And the next change is not in its way.
        session.query("INSERT INTO t VALUES ('2018-01-01', 5)").unwrap();
        assert_eq!(one(&session, "SELECT count(*) FROM t"), "4");
    });
}

/// Two nodes with a table of ten rows, and a change that adds one row to each, up to prepared.
/// Nodes drop the change of a coordinator that hangs, and the next one gets its number.
#[test]
fn changes_of_one_number_are_told_apart() {
    with_room(|| {
        let nodes = nodes(2);
        let [first, next] = ["first", "next"].map(|by| ByHand::called(by, 1));
        for node in &nodes {
            first.begin(node, &nodes[0]);
            first.step(node, "CREATE TABLE t AS SELECT 1 AS k");
            first.order(node, "prepare").unwrap();
        }
        nodes.iter().for_each(|node| first.order(node, "abort").unwrap());
        for node in &nodes {
            next.begin(node, &nodes[0]);
            next.step(node, "CREATE TABLE u AS SELECT 2 AS k");
        }
        // The first one goes on.
        assert!(first.tried(&nodes[0], "INSERT INTO u VALUES (3)", None).is_err());
        for kind in ["prepare", "commit"] {
            assert!(first.order(&nodes[0], kind).is_err(), "{kind}");
        }
        nodes.iter().for_each(|node| first.order(node, "abort").unwrap());
        nodes.iter().for_each(|node| next.order(node, "prepare").unwrap());
        nodes.iter().for_each(|node| first.order(node, "abort").unwrap());
        next.order(&nodes[0], "commit").unwrap();
        // Its own change is gone, though one of its number is committed.
        assert!(first.order(&nodes[0], "commit").is_err());
        nodes.iter().for_each(|node| first.order(node, "abort").unwrap());
        nodes.iter().for_each(|node| next.order(node, "commit").unwrap());
        assert!(next.order(&nodes[0], "abort").is_err());
        let session = cluster(&nodes).session().unwrap();
        assert_eq!(session.change(), 1);
        assert_eq!(asked(&session, "SELECT DISTINCT k FROM u"), [["2"]]);
        assert!(session.query("SELECT * FROM t").is_err());
    });
}

#[test]
fn a_database_does_not_go_on_with_a_change_of_another() {
    with_room(|| {
        let mut nodes = nodes(1);
        ByHand::committed(1, &nodes, |_| "CREATE TABLE t AS SELECT 1 AS k".to_string());
        let by_hand = ByHand::prepared(2, &nodes, |_| "CREATE TABLE u (k INTEGER)".to_string());
        assert_eq!(nodes[0].steps(), 1);
        nodes[0].restart();
        assert!(by_hand.standing(&nodes[0]).is_prepared);
        nodes[0].restart_without_databases();
        let standing = by_hand.standing(&nodes[0]);
        assert!(standing.last == 0 && standing.open.is_none(), "{standing:?}");
        assert_eq!(nodes[0].steps(), 0);
        assert!(by_hand.order(&nodes[0], "commit").is_err());
    });
}

#[test]
fn of_changes_at_the_same_time_each_is_whole_or_fails() {
    with_room(|| {
        let nodes = nodes(3);
        let cluster = cluster(&nodes);
        cluster.session().unwrap().execute("CREATE TABLE t (k INTEGER)", &hash("k")).unwrap();
        let writer = |nth: usize| {
            let session = cluster.session().unwrap();
            let rows = (0..40).map(|n| 10 * n + nth).filter(|first| {
                let rows = (0..4).map(|more| format!("({})", first + 1000 * more));
                let rows = rows.collect::<Vec<_>>().join(", ");
                session.query(&format!("INSERT INTO t VALUES {rows}")).is_ok()
            });
            rows.collect::<Vec<_>>()
        };
        let done = std::thread::scope(|scope| {
            let writers = (0..4).map(|nth| {
                let thread = std::thread::Builder::new().stack_size(64 << 20);
                thread.spawn_scoped(scope, move || writer(nth)).unwrap()
            });
            let writers = writers.collect::<Vec<_>>();
            let done = writers.into_iter().flat_map(|writer| writer.join().unwrap());
            done.collect::<Vec<_>>()
        });
        assert!(!done.is_empty());
        let session = cluster.session().unwrap();
        let rows = done.iter().flat_map(|first| (0..4).map(move |more| first + 1000 * more));
        let mut rows = rows.map(|row| vec![row.to_string()]).collect::<Vec<_>>();
        rows.sort();
        assert_eq!(asked(&session, "SELECT k FROM t"), rows);
        assert_eq!(session.query("DELETE FROM t").unwrap().rows_changed(), Some(rows.len() as u64));
    });
}

#[test]
fn a_change_of_which_a_step_has_failed_is_not_prepared() {
    with_room(|| {
        let nodes = nodes(1);
        let by_hand = ByHand::new(1);
        by_hand.begin(&nodes[0], &nodes[0]);
        by_hand.step(&nodes[0], "CREATE TABLE t (k INTEGER PRIMARY KEY)");
        by_hand.step(&nodes[0], "INSERT INTO t VALUES (1)");
        assert!(by_hand.tried(&nodes[0], "INSERT INTO t VALUES (2), (1)", None).is_err());
        assert!(by_hand.tried(&nodes[0], "INSERT INTO t VALUES (3)", None).is_err());
        let refused = by_hand.order(&nodes[0], "prepare").unwrap_err().to_string();
        assert!(refused.contains("a step has failed"), "{refused}");
        assert!(by_hand.order(&nodes[0], "commit").is_err());
        by_hand.order(&nodes[0], "abort").unwrap();
        let session = cluster(&nodes).session().unwrap();
        assert!(session.query("SELECT * FROM t").is_err());
        session.query("CREATE TABLE t AS SELECT 1 AS k").unwrap();
        assert_eq!(asked(&session, "SELECT * FROM t"), [["1"]]);
    });
}

fn prepared() -> (Vec<Node>, Cluster, ByHand) {
    let nodes = nodes(2);
    let cluster = cluster(&nodes);
    let session = cluster.session().unwrap();
    session.execute("CREATE TABLE t (n BIGINT)", &Cut::AsItLies).unwrap();
    session.query("INSERT INTO t SELECT * FROM generate_series(1, 10)").unwrap();
    let add = |_| "INSERT INTO t VALUES (100)".to_string();
    let by_hand = ByHand::prepared(session.change() + 1, &nodes, add);
    (nodes, cluster, by_hand)
}

fn count(cluster: &Cluster) -> String {
    one(&cluster.session().unwrap(), "SELECT count(*) FROM t")
}

#[test]
fn a_coordinator_that_dies_before_the_decision_has_changed_nothing() {
    with_room(|| {
        let (nodes, cluster, _dead) = prepared();
        assert_eq!(count(&cluster), "10");
        let next = cluster.session().unwrap().query("INSERT INTO t VALUES (5)");
        assert!(next.err().unwrap().to_string().contains("recover"));
        cluster.recover().unwrap();
        cluster.session().unwrap().query("INSERT INTO t VALUES (5)").unwrap();
        assert_eq!(count(&cluster), "11");
        drop(nodes);
    });
}

#[test]
fn a_coordinator_that_dies_behind_the_decision_is_completed() {
    with_room(|| {
        let (nodes, cluster, dead) = prepared();
        dead.order(&nodes[0], "commit").unwrap();
        // Sessions see the state before on both, never one row of the two.
        assert_eq!(count(&cluster), "10");
        let session = cluster.session().unwrap();
        session.query("INSERT INTO t VALUES (5)").unwrap();
        assert_eq!(count(&cluster), "13");
        assert_eq!(one(&session, "SELECT count(*) FROM t"), "13");
    });
}

#[test]
fn a_prepared_node_that_is_killed_has_its_change_again() {
    with_room(|| {
        for decided in [false, true] {
            let (mut nodes, cluster, dead) = prepared();
            if decided {
                dead.order(&nodes[0], "commit").unwrap();
            }
            nodes[1].kill();
            assert!(matches!(cluster.session(), Err(Error::NodeLost { .. })));
            nodes[1].restart();
            assert!(dead.standing(&nodes[1]).is_prepared);
            cluster.recover().unwrap();
            assert_eq!(count(&cluster), if decided { "12" } else { "10" });
            assert!(dead.standing(&nodes[1]).open.is_none());
        }
    });
}

#[test]
fn the_first_node_decides_only_once() {
    with_room(|| {
        let (mut nodes, cluster, dead) = prepared();
        dead.order(&nodes[0], "commit").unwrap();
        nodes[0].restart();
        // A commit that comes again changes nothing, and a drop comes too late.
        dead.order(&nodes[0], "commit").unwrap();
        assert!(dead.order(&nodes[0], "abort").is_err());
        cluster.recover().unwrap();
        assert_eq!(count(&cluster), "12");
        // Not prepared, not committed.
        let late = ByHand::new(cluster.session().unwrap().change() + 1);
        late.begin(&nodes[0], &nodes[0]);
        assert!(late.order(&nodes[0], "commit").is_err());
        cluster.recover().unwrap();
        assert_eq!(count(&cluster), "12");
    });
}

/// Kills coordinators that insert rows, at any time. `settled` says how many rows there are then.
fn with_killed_coordinators(count: usize, settled: impl Fn(&Cluster) -> String + Send + 'static) {
    with_room(move || {
        let nodes = nodes(count);
        let cluster = cluster(&nodes);
        cluster.session().unwrap().execute("CREATE TABLE t (n BIGINT)", &hash("n")).unwrap();
        let program = Program::in_a_folder();
        let list = program.list("nodes", &nodes.iter().map(Node::place).collect::<Vec<_>>());
        let add = ["INSERT INTO t SELECT * FROM generate_series(1, 5000)"];
        let mut rows = 10_000;
        let mut rounds = Rounds::new([(); 2].map(|()| program.run(&list, &add)));
        while let Some(round) = rounds.again() {
            let mut coordinator = program.start(&list, &add);
            std::thread::sleep(rounds.at());
            let lived = coordinator.try_wait().unwrap().is_none();
            coordinator.kill().unwrap();
            coordinator.wait().unwrap();
            let now = settled(&cluster).parse::<u32>().unwrap();
            assert!(now == rows || now == rows + 5000, "{rows} rows became {now}");
            println!("round {round}: {rows} rows became {now}; it was killed: {lived}");
            rounds.note(now > rows);
            rows = now;
        }
    });
}

#[test]
fn coordinators_that_are_killed_at_any_time_leave_all_or_nothing() {
    with_killed_coordinators(2, |cluster| {
        cluster.recover().unwrap();
        count(cluster)
    });
}

#[test]
fn nodes_settle_what_a_killed_coordinator_has_left() {
    with_killed_coordinators(3, |cluster| {
        // Nobody recovers. Soon another change is possible, and no node has anything open.
        let until = Instant::now() + Duration::from_secs(20);
        let settled = loop {
            let session = cluster.session().unwrap();
            match session.query("DELETE FROM t WHERE n = 0") {
                Ok(_) => break session,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        one(&settled, "SELECT count(*) FROM t")
    });
}

#[test]
fn sessions_never_see_a_part_of_a_change() {
    with_room(|| {
        let nodes = nodes(3);
        let cluster = cluster(&nodes);
        let cut = Cut::Range { column: "n".to_string(), bounds: vec!["10".into(), "20".into()] };
        cluster.session().unwrap().execute("CREATE TABLE t (n INTEGER)", &cut).unwrap();
        let (writes, until) = (cluster.clone(), Instant::now() + Duration::from_secs(5));
        let writer = std::thread::spawn(move || {
            let session = writes.session().unwrap();
            let mut count = 0;
            // On a busy machine, until there is something to see.
            let late = until + Duration::from_secs(60);
            while Instant::now() < until || count < 6 && Instant::now() < late {
                // One row for each node.
                session.query("INSERT INTO t VALUES (5), (15), (25)").unwrap();
                count += 1;
            }
            count
        });
        let mut seen = std::collections::BTreeSet::new();
        while !writer.is_finished() {
            let session = cluster.session().unwrap();
            let rows = asked(&session, "SELECT n, count(*) FROM t GROUP BY n");
            let counts = rows.iter().map(|row| row[1].clone());
            let counts = counts.collect::<std::collections::BTreeSet<_>>();
            assert!(rows.is_empty() || rows.len() == 3 && counts.len() == 1, "{rows:?}");
            seen.extend(counts);
        }
        println!("{} changes, {} states seen", writer.join().unwrap(), seen.len());
        assert!(seen.len() > 2);
    });
}
