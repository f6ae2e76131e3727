//! Nodes that are killed, hang, or are not what they should be: errors that name them.

mod common;

use std::time::{Duration, Instant};

use arrow_flight::Ticket;
use arrow_flight::flight_service_client::FlightServiceClient;
use common::by_hand::ByHand;
use common::{Node, asked, cluster, nodes, with_room};
use swingdb_cluster::client::{Client, Limits, VERSION_HEADER};
use swingdb_cluster::wire::{Ask, Shows, version};
use swingdb_cluster::{Cluster, Cut, Error, Options, Session};

/// Nodes with a table of so many rows.
fn filled(count: usize, rows: usize) -> (Vec<Node>, Session) {
    let nodes = nodes(count);
    let places = nodes.iter().map(Node::place).collect::<Vec<_>>();
    let short = Duration::from_secs(2);
    let limits = Limits { connect: short, answer: short, silence: short };
    let options = Options { limits, ..Options::default() };
    let session = Cluster::connect(&places, options).unwrap().session().unwrap();
    let sql = format!(
        "CREATE TABLE t AS SELECT i AS n, i % 7 AS g FROM generate_series(1, {rows}) AS s(i)"
    );
    session.execute(&sql, &Cut::Hash { column: "n".to_string() }).unwrap();
    (nodes, session)
}

fn fails(session: &Session, sql: &str) -> Error {
    match session.query(sql).and_then(|rows| rows.collect()) {
        Ok(rows) => panic!("{sql} gave {} batches", rows.len()),
        Err(error) => error,
    }
}

#[test]
fn a_killed_node_is_named() {
    with_room(|| {
        let (mut nodes, session) = filled(3, 30_000);
        assert_eq!(
            asked(&session, "SELECT count(*), sum(n) FROM t WHERE g >= 0"),
            [["30000", "450015000"]]
        );
        nodes[1].kill();
        for sql in [
            "SELECT sum(n) FROM t",
            "SELECT g, count(*) FROM t GROUP BY g",
            "SELECT n FROM t WHERE g = 1",
            "SELECT * FROM t",
            "SELECT count(*) FROM t a JOIN t b ON a.n = b.n",
        ] {
            let error = fails(&session, sql);
            let named = matches!(&error, Error::NodeLost { node, .. } if *node == nodes[1].address);
            assert!(named, "{sql}: {error:?}");
        }
        let error = session.query("INSERT INTO t VALUES (1, 1)").err().unwrap();
        assert!(
            matches!(&error, Error::NodeLost { node, .. } if *node == nodes[1].address),
            "{error}"
        );
        // It comes back with its rows; what sessions held of it is gone.
        nodes[1].restart();
        assert!(session.query("SELECT sum(n) FROM t").and_then(|rows| rows.collect()).is_err());
        session.refresh().unwrap();
        assert_eq!(asked(&session, "SELECT sum(n) FROM t"), [["450015000"]]);
    });
}

#[test]
fn a_node_killed_in_the_middle_of_a_result_gives_no_part_of_it() {
    with_room(|| {
        for sql in [
            // At the nodes, and at the coordinator, which reads from them all the time.
            "SELECT count(*) FROM t a, t b WHERE (a.n * b.n) % 1009 = 7",
            "SELECT a.g, count(*) FROM t a, t b WHERE (a.n * b.n) % 1009 = 7 GROUP BY a.g",
        ] {
            let (mut nodes, session) = filled(2, 15_000);
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(700));
                nodes[1].kill();
                nodes
            });
            let error = fails(&session, sql);
            let nodes = killer.join().unwrap();
            let named = matches!(&error, Error::NodeLost { node, .. } if *node == nodes[1].address);
            assert!(named, "{sql}: {error:?}");
        }
    });
}

#[test]
fn errors_with_long_texts_are_no_lost_nodes() {
    with_room(|| {
        let (_nodes, session) = filled(2, 1000);
        session.query("SET statement_timeout = '60s'").unwrap();
        for count in [100, 20_000, 200_000, 3_000_000] {
            let long = format!("(repeat('x', {count} + g - g) || n)::INTEGER");
            for sql in [
                // Parts of plans, scans, and steps of changes.
                format!("SELECT g, sum({long}) FROM t GROUP BY g"),
                format!("SELECT n FROM t WHERE error(repeat('y', {count} + g - g)) > 0"),
                format!("UPDATE t SET g = {long}"),
            ] {
                let error = fails(&session, &sql);
                let is_told = matches!(error, Error::Database(_) | Error::Statement { .. });
                let start = error.to_string().chars().take(200).collect::<String>();
                assert!(is_told, "{sql}: {start}");
                assert!(count > 20_000 || error.to_string().len() >= count, "{sql}: {start}");
                assert_eq!(asked(&session, "SELECT count(*) FROM t"), [["1000"]]);
            }
        }
    });
}

#[test]
fn a_node_that_hangs_is_lost_after_its_time() {
    with_room(|| {
        let (nodes, session) = filled(2, 10_000);
        nodes[0].signal("-STOP");
        let start = Instant::now();
        let error = fails(&session, "SELECT g, sum(n) FROM t GROUP BY g");
        assert!(
            matches!(&error, Error::NodeLost { node, .. } if *node == nodes[0].address),
            "{error:?}"
        );
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        let error = session.cluster().session().err().unwrap();
        let named = match &error {
            Error::NodeSlow { node, .. } | Error::NodeLost { node, .. } => node.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(named, nodes[0].address, "{error:?}");
        nodes[0].signal("-CONT");
        session.refresh().unwrap();
        assert_eq!(asked(&session, "SELECT count(*) FROM t WHERE g < 100"), [["10000"]]);
    });
}

#[test]
fn a_statement_that_takes_too_long_ends_everywhere() {
    with_room(|| {
        let (_nodes, session) = filled(2, 12_000);
        session.query("SET statement_timeout = '1s'").unwrap();
        let start = Instant::now();
        let error = fails(&session, "SELECT sum(a.n * b.n % 3 + c.n) FROM t a, t b, t c");
        assert!(error.to_string().contains("time"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        session.query("RESET statement_timeout").unwrap();
        assert_eq!(asked(&session, "SELECT count(*) FROM t WHERE g >= 0"), [["12000"]]);
    });
}

/// Makes a change as soon as nodes have ended the one before.
fn soon(session: &Session, sql: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while let Err(error) = session.query(sql) {
        assert!(Instant::now() < until, "{sql}: {error}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_change_that_takes_too_long_ends_everywhere() {
    with_room(|| {
        let (_nodes, session) = filled(2, 12_000);
        for sql in [
            "UPDATE t SET g = (SELECT count(*) FROM t a, t b WHERE (a.n * b.n + t.n) % 3 = 0)",
            "INSERT INTO t SELECT sum(a.n * b.n % 3), 0 FROM t a, t b, t c",
        ] {
            session.query("SET statement_timeout = '1s'").unwrap();
            let start = Instant::now();
            let error = fails(&session, sql);
            assert!(error.to_string().contains("time"), "{sql}: {error}");
            // Nobody has to settle anything: soon the next change can be made.
            session.query("RESET statement_timeout").unwrap();
            soon(&session, "DELETE FROM t WHERE n = 0");
            assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
            let rows = asked(&session, "SELECT count(*), max(g) FROM t");
            assert_eq!(rows, [["12000", "6"]], "{sql}");
        }
        // So does one that is interrupted.
        let handle = session.connection().interrupt_handle();
        let interrupt = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(700));
            handle.interrupt();
        });
        let sql =
            "UPDATE t SET g = (SELECT count(*) FROM t a, t b WHERE (a.n + b.n + t.n) % 3 = 1)";
        let error = fails(&session, sql);
        interrupt.join().unwrap();
        assert!(error.to_string().contains("interrupted"), "{error}");
        soon(&session, "DELETE FROM t WHERE n > 6000");
        assert_eq!(asked(&session, "SELECT count(*) FROM t"), [["6000"]]);
    });
}

#[test]
fn snapshots_stay_as_long_as_their_session() {
    with_room(|| {
        let (nodes, session) = filled(2, 100);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let client = Client::new(None, Limits::default()).unwrap();
        let holds =
            || -> usize { runtime.block_on(client.act(&nodes[0].address, "ping", &())).unwrap() };
        // Nodes hear a moment later that a state is not needed any more.
        let held = |count: usize| {
            let until = Instant::now() + Duration::from_secs(5);
            while holds() != count {
                assert!(Instant::now() < until, "{} snapshots, not {count}", holds());
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        held(1);
        let reader = cluster(&nodes).session().unwrap();
        held(2);
        session.query("DELETE FROM t WHERE n <= 50").unwrap();
        assert_eq!(asked(&session, "SELECT count(*) FROM t"), [["50"]]);
        assert_eq!(
            asked(&reader, "SELECT count(*), sum(n) FROM t WHERE g >= 0"),
            [["100", "5050"]]
        );
        reader.refresh().unwrap();
        assert_eq!(asked(&reader, "SELECT count(*) FROM t"), [["50"]]);
        drop(reader);
        held(1);
    });
}

/// Changes one node behind the cluster's back.
fn alone(node: &[Node], sql: &str) {
    ByHand::committed(1, node, |_| sql.to_string());
}

#[test]
fn a_table_that_one_node_lacks_is_no_table() {
    with_room(|| {
        let nodes = nodes(2);
        alone(&nodes[..1], "CREATE TABLE t AS SELECT 1 AS a");
        alone(&nodes[1..], "CREATE TABLE u AS SELECT 1 AS a");
        let session = cluster(&nodes).session().unwrap();
        let error = session.query("SELECT * FROM t").err().unwrap();
        let text = error.to_string();
        assert!(matches!(error, Error::Table { .. }) && text.contains(&nodes[1].address), "{text}");
        assert_eq!(asked(&session, "SELECT 1"), [["1"]]);
    });
}

#[test]
fn strangers_are_not_served() {
    with_room(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "0123456789abcdef").unwrap();
        let node = Node::start(&["--token-file", file.to_str().unwrap()]);
        let connect = |token: Option<&str>| {
            let options = Options { token: token.map(str::to_string), ..Options::default() };
            Cluster::connect(&[node.place()], options).unwrap().session()
        };
        assert!(matches!(connect(None), Err(Error::NodeFailed { .. })));
        assert!(matches!(connect(Some("0123456789abcdeX")), Err(Error::NodeFailed { .. })));
        let session = connect(Some("0123456789abcdef")).unwrap();
        session.query("CREATE TABLE t AS SELECT i FROM generate_series(1, 9) AS g(i)").unwrap();
        assert_eq!(asked(&session, "SELECT sum(i) FROM t"), [["45"]]);
    });
}

#[test]
fn another_version_is_refused_with_both_versions() {
    with_room(|| {
        let node = Node::start(&[]);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let database = common::DATABASE.to_string();
        let version_asked = "0.0.9 (protocol 0)".to_string();
        let (version_shown, shows) = (version_asked, Shows::Newest);
        let ask = Ask::Hold { database, version: version_shown, shows, known: None };
        let refused = runtime.block_on(async {
            let address = format!("http://{}", node.address);
            let channel = tonic::transport::Endpoint::from_shared(address).unwrap();
            let mut flight = FlightServiceClient::new(channel.connect().await.unwrap());
            let ticket = Ticket { ticket: serde_json::to_vec(&ask).unwrap().into() };
            flight.do_get(ticket).await.err().unwrap()
        });
        let theirs = refused.metadata().get(VERSION_HEADER).unwrap().to_str().unwrap();
        assert_eq!(theirs, version());
        assert!(refused.message().contains("0.0.9 (protocol 0)"), "{refused}");
    });
}
