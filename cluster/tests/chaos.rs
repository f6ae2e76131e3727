//! Everything at once: nodes that are killed or hang, coordinators that are killed, while rows are
//! read, added, changed and moved. No answer is wrong, errors name their node, and nothing is left.
//!
//! `SWINGDB_CHAOS_SECONDS` says for how long (20), `SWINGDB_SEED` from which seed.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::by_hand::ByHand;
use common::killed::Program;
use common::{Node, texts, with_room};
use parking_lot::Mutex;
use swingdb_cluster::client::{Client, Limits};
use swingdb_cluster::{Cluster, Cut, Error, Options, Result, Session};

/// Nodes that are there; the last one comes and goes.
const NODES: usize = 4;
/// Keys that are there all the time, whose values are passed from one to another.
const KEYS: i64 = 200;

/// What all threads share.
struct Chaos {
    /// The lists of nodes that may be those of the cluster.
    lists: [Vec<String>; 2],
    is_over: AtomicBool,
    /// Pairs of rows whose INSERT said that it is done.
    added: AtomicU64,
    /// Those of which nobody knows.
    doubtful: AtomicU64,
    /// Answers, errors and changes that there were.
    counts: [AtomicU64; 3],
}

fn limits() -> Limits {
    let short = Duration::from_secs(2);
    Limits { connect: short, answer: short, silence: short }
}

impl Chaos {
    /// A session on whichever list is that of the cluster by now.
    fn session(&self) -> Result<Session> {
        let mut last = None;
        for list in &self.lists {
            let options = Options { limits: limits(), ..Options::default() };
            match Cluster::connect(list, options).and_then(|cluster| cluster.session()) {
                Ok(session) => return Ok(session),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap())
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn count(&self, nth: usize) {
        self.counts[nth].fetch_add(1, Ordering::Relaxed);
    }
}

/// The error is one that says what is the matter: of a node by its name, or of another change.
fn check(error: &Error) {
    let text = error.to_string();
    let is_named = match error {
        Error::NodeLost { node, .. }
        | Error::NodeSlow { node, .. }
        | Error::NodeFailed { node, .. }
        | Error::Statement { node, .. }
        | Error::Member { node, .. }
        | Error::Undelivered { node, .. }
        | Error::InDoubt { node, .. } => node.starts_with("127.0.0.1:"),
        Error::Unsupported(message) => {
            message.contains("change") || message.contains("resizing") || message.contains("node")
        }
        _ => false,
    };
    assert!(is_named, "{error:?}: {text}");
}

fn ask(session: &Session, sql: &str) -> Result<Vec<Vec<String>>> {
    Ok(texts(&session.query(sql)?.collect()?))
}

/// What is always so, in one state of all nodes.
fn verify(rows: &[Vec<String>]) {
    let number = |nth: usize| rows[0][nth].parse::<i64>().unwrap();
    assert_eq!((rows.len(), number(0)), (1, 0), "the sum of all values: {rows:?}");
    assert_eq!(number(1) % 2, 0, "rows come in pairs: {rows:?}");
    assert_eq!(number(2), KEYS, "{rows:?}");
}

const STATE: &str = "SELECT sum(v)::BIGINT, count(*), count(*) FILTER (k >= 0) FROM t";

fn read(chaos: &Chaos, mut random: fastrand::Rng) {
    while chaos.goes_on() {
        let Ok(session) = chaos.session().inspect_err(check) else { continue };
        for _ in 0..random.u32(1..6) {
            let sql = match random.u32(0..3) {
                0 => STATE.to_string(),
                1 => "SELECT sum(s)::BIGINT, sum(c)::BIGINT, sum(f)::BIGINT FROM (SELECT k % 7, \
                      sum(v) AS s, count(*) AS c, count(*) FILTER (k >= 0) AS f FROM t GROUP BY 1)"
                    .to_string(),
                _ => "SELECT sum(a.v)::BIGINT, count(*), count(*) FILTER (a.k >= 0) FROM t a \
                      JOIN t b ON a.k = b.k AND a.n = b.n"
                    .to_string(),
            };
            match ask(&session, &sql) {
                Ok(rows) => {
                    verify(&rows);
                    chaos.count(0);
                }
                Err(error) => {
                    check(&error);
                    chaos.count(1);
                    break;
                }
            }
        }
    }
}

fn write(chaos: &Chaos, mut random: fastrand::Rng) {
    let mut next = 0_i64;
    while chaos.goes_on() {
        let Ok(session) = chaos.session().inspect_err(check) else { continue };
        let (one, other) = (random.i64(0..KEYS), random.i64(0..KEYS));
        next += 1;
        let (by, is_insert) = (random.i64(1..100), random.bool());
        let sql = match is_insert {
            true => format!(
                "INSERT INTO t VALUES ({}, {next}, {by}), ({}, {next}, {})",
                -2 * next,
                -2 * next - 1,
                -by
            ),
            false => format!(
                "UPDATE t SET v = v + CASE WHEN k = {one} THEN {by} ELSE 0 END - CASE WHEN k = \
                 {other} THEN {by} ELSE 0 END WHERE k = {one} OR k = {other}"
            ),
        };
        match session.query(&sql) {
            Ok(_) => {
                chaos.count(2);
                chaos.added.fetch_add(u64::from(is_insert), Ordering::Relaxed);
            }
            Err(error) => {
                check(&error);
                chaos.count(1);
                let is_doubtful =
                    matches!(error, Error::Undelivered { .. } | Error::InDoubt { .. });
                chaos.doubtful.fetch_add(u64::from(is_doubtful && is_insert), Ordering::Relaxed);
            }
        }
    }
}

/// Coordinators of their own processes, which are killed: they move values, and rows.
fn coordinate(chaos: &Chaos, program: &Program, mut random: fastrand::Rng) {
    let lists = [0, 1].map(|nth| program.list(&format!("list{nth}"), &chaos.lists[nth]));
    while chaos.goes_on() {
        let from = random.usize(0..2);
        let to = lists[1 - from].to_str().unwrap();
        let update = "UPDATE t SET v = -v";
        let arguments = if random.bool() { vec!["--resize", to] } else { vec![update] };
        let mut coordinator = program.start(&lists[from], &arguments);
        std::thread::sleep(Duration::from_millis(random.u64(20..2500)));
        coordinator.kill().unwrap();
        coordinator.wait().unwrap();
    }
}

/// Kills and stops nodes.
fn harm(chaos: &Chaos, nodes: &Mutex<Vec<Node>>, mut random: fastrand::Rng) {
    while chaos.goes_on() {
        std::thread::sleep(Duration::from_millis(random.u64(200..2500)));
        let nth = random.usize(0..NODES);
        match random.bool() {
            true => {
                nodes.lock()[nth].kill();
                std::thread::sleep(Duration::from_millis(random.u64(0..800)));
                nodes.lock()[nth].restart();
            }
            false => {
                nodes.lock()[nth].signal("-STOP");
                std::thread::sleep(Duration::from_millis(random.u64(50..5000)));
                nodes.lock()[nth].signal("-CONT");
            }
        }
    }
}

/// All nodes are there, and nobody recovers: soon a change is possible, and what was said is so.
fn settles(chaos: &Chaos, nodes: &[Node], added: u64) {
    let until = Instant::now() + Duration::from_secs(90);
    let session = loop {
        let done = chaos.session().and_then(|session| {
            session.query("INSERT INTO t VALUES (-1, 0, 0), (-1, 0, 0)").map(|_| session)
        });
        match done {
            Ok(session) => break session,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let rows = ask(&session, STATE).unwrap();
    verify(&rows);
    let pairs = (rows[0][1].parse::<u64>().unwrap() - KEYS as u64) / 2;
    let doubtful = chaos.doubtful.load(Ordering::Relaxed);
    let least = added + 1;
    println!("{pairs} pairs of rows, at least {least} were expected, {doubtful} were doubtful");
    // What was said to be done is there; killed coordinators add no rows.
    assert!((least..=least + doubtful).contains(&pairs), "{pairs}");
    drop(session);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let client = Client::new(None, Limits::default()).unwrap();
    let late = Instant::now() + Duration::from_secs(30);
    for node in nodes {
        let is_clean = || {
            let holds: usize = runtime.block_on(client.act(&node.address, "ping", &())).unwrap();
            holds == 0 && ByHand::new(0).standing(node).open.is_none() && node.steps() == 0
        };
        while !is_clean() {
            assert!(Instant::now() < late, "something is left at {}", node.address);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn nothing_is_wrong_or_left_whatever_dies() {
    with_room(|| {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let seed = number("SWINGDB_SEED").unwrap_or_else(|| fastrand::u64(..));
        let seconds = number("SWINGDB_CHAOS_SECONDS").unwrap_or(20);
        println!("SWINGDB_SEED={seed}, {seconds} s");
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = common::nodes(NODES);
        let places = nodes.iter().map(Node::place).collect::<Vec<_>>();
        let lists = [places[..NODES - 1].to_vec(), places.clone()];
        let [added, doubtful] = [(); 2].map(|()| AtomicU64::new(0));
        let is_over = AtomicBool::new(false);
        let counts = [(); 3].map(|()| AtomicU64::new(0));
        let chaos = Arc::new(Chaos { lists, is_over, added, doubtful, counts });
        let session = chaos.session().unwrap();
        let made = "CREATE TABLE t (k BIGINT, n BIGINT, v BIGINT)";
        session.execute(made, &Cut::Hash { column: "k".to_string() }).unwrap();
        let fill = format!("INSERT INTO t SELECT i, 0, 0 FROM generate_series(0, {KEYS} - 1) q(i)");
        session.query(&fill).unwrap();
        drop(session);
        let (nodes, program) = (Mutex::new(nodes), Program::in_a_folder());
        let seeds = [(); 5].map(|()| fastrand::Rng::with_seed(random.u64(..)));
        let [one, other, writer, coordinator, killer] = seeds;
        std::thread::scope(|threads| {
            let room = || std::thread::Builder::new().stack_size(64 << 20);
            let (nodes, program, chaos) = (&nodes, &program, &chaos);
            let all = [
                room().spawn_scoped(threads, move || read(chaos, one)),
                room().spawn_scoped(threads, move || read(chaos, other)),
                room().spawn_scoped(threads, move || write(chaos, writer)),
                room().spawn_scoped(threads, move || coordinate(chaos, program, coordinator)),
                room().spawn_scoped(threads, move || harm(chaos, nodes, killer)),
            ]
            .map(|thread| thread.unwrap());
            let until = Instant::now() + Duration::from_secs(seconds);
            while Instant::now() < until && !all.iter().any(|thread| thread.is_finished()) {
                std::thread::sleep(Duration::from_millis(50));
            }
            chaos.is_over.store(true, Ordering::Relaxed);
        });
        let [answers, errors, changes] =
            [0, 1, 2].map(|nth: usize| chaos.counts[nth].load(Ordering::Relaxed));
        println!("{answers} answers, {changes} changes, {errors} errors");
        assert!(answers > 0 && changes > 0, "nothing was seen");
        settles(&chaos, &nodes.lock(), chaos.added.load(Ordering::Relaxed));
    });
}
