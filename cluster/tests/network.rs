//! Nodes on machines of their own, as far as the network can tell: each has a network namespace,
//! and its cable is pulled, made narrow, or lossy.
//!
//! `make test-cluster-network` runs this as root, in a namespace of its own; elsewhere the tests
//! are skipped. All links end with the processes that live in them.

mod common;

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use common::killed::Rounds;
use common::{DATABASE, asked, with_room};
use swingdb_cluster::client::{Client, Limits};
use swingdb_cluster::{Cluster, Cut, Error, Options, Session};

/// Says that the tests are in a namespace of their own.
const ASKED_BY: &str = "SWINGDB_TEST_NETWORK";
const TOKEN: &str = "0123456789abcdef";
const SECOND: Duration = Duration::from_secs(1);

/// Runs a test where a network may be made.
fn on_a_network(test: impl FnOnce() + Send + 'static) {
    match std::env::var_os(ASKED_BY) {
        Some(_) => with_room(test),
        None => println!("skipped: make test-cluster-network runs it, as root"),
    }
}

fn run(program: &str, arguments: &str, folder: &Path) -> Result<(), String> {
    let done = Command::new(program).args(arguments.split(' ')).current_dir(folder).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{program} {arguments}: {}", String::from_utf8_lossy(&done.stderr))),
    }
}

fn ip(arguments: &str) {
    run("ip", arguments, Path::new("/")).unwrap();
}

/// Machines on one switch, which this process is on too.
struct Network {
    number: u8,
    machines: Vec<Machine>,
    folder: tempfile::TempDir,
}

/// A node in a namespace of its own.
struct Machine {
    /// Keeps the namespace.
    sleeper: Child,
    node: Option<Child>,
    address: Ipv4Addr,
    /// The switch's end of its cable.
    cable: String,
    home: PathBuf,
}

impl Network {
    fn new(count: u8, options: &[&str]) -> Self {
        static NUMBER: AtomicU8 = AtomicU8::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        ip("link set lo up");
        ip(&format!("link add switch{number} type bridge"));
        ip(&format!("addr add 10.77.{number}.254/24 dev switch{number}"));
        ip(&format!("link set switch{number} up"));
        let mut network = Self { number, machines: Vec::new(), folder };
        network.certificates(count);
        for nth in 1..=count {
            let machine = Machine::new(number, nth, network.folder.path());
            network.machines.push(machine);
            network.start(usize::from(nth) - 1, options);
        }
        network
    }

    /// A certificate for the addresses of all machines.
    fn certificates(&self, count: u8) {
        let folder = self.folder.path();
        let names = (1..=count).map(|nth| format!("IP:10.77.{}.{nth}", self.number));
        let names = names.collect::<Vec<_>>().join(",");
        std::fs::write(folder.join("extension"), format!("subjectAltName={names}\n")).unwrap();
        std::fs::write(folder.join("token"), TOKEN).unwrap();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        for command in [
            &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"),
            &format!("req {key} -keyout node.key -out node.csr -subj /CN=node"),
            "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out node.pem \
             -days 2 -extfile extension",
        ] {
            run("openssl", command, folder).unwrap();
        }
    }

    fn start(&mut self, nth: usize, options: &[&str]) {
        let file = |name: &str| self.folder.path().join(name).into_os_string();
        let machine = &mut self.machines[nth];
        let inside = format!("--net=/proc/{}/ns/net", machine.sleeper.id());
        let mut command = Command::new("nsenter");
        command.arg(inside).arg(env!("CARGO_BIN_EXE_swingdb-node"));
        command.arg("--listen").arg(format!("{}:7411", machine.address));
        for (option, name) in [
            ("--tls-cert", "node.pem"),
            ("--tls-key", "node.key"),
            ("--tls-ca", "ca.pem"),
            ("--token-file", "token"),
        ] {
            command.arg(option).arg(file(name));
        }
        command.arg("--home").arg(&machine.home).args(["--write", DATABASE]).args(options);
        let child = command.stdout(Stdio::piped()).env("SWINGDB_THREADS", "2").spawn();
        let mut child = child.unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on "), "{line}");
        machine.node = Some(child);
    }

    fn places(&self) -> Vec<String> {
        self.machines.iter().map(|one| format!("{}/{DATABASE}", one.node())).collect()
    }

    fn connect(&self, shards: &[String]) -> Cluster {
        let limits = Limits { connect: 2 * SECOND, answer: 4 * SECOND, silence: 2 * SECOND };
        let tls_ca = Some(self.folder.path().join("ca.pem"));
        let token = Some(TOKEN.to_string());
        let options = Options { limits, token, tls_ca, ..Options::default() };
        Cluster::connect(shards, options).unwrap()
    }

    /// What asks a node by itself.
    fn client(&self) -> Client {
        let client = Client::new(Some(TOKEN), Limits::default()).unwrap();
        client.encrypted(&self.folder.path().join("ca.pem")).unwrap()
    }

    /// A cluster of all machines, with a table.
    fn filled(&self, rows: usize) -> (Cluster, Session) {
        let cluster = self.connect(&self.places());
        let session = cluster.session().unwrap();
        let sql = format!(
            "CREATE TABLE t AS SELECT i AS n, i % 7 AS g FROM generate_series(1, {rows}) s(i)"
        );
        session.execute(&sql, &Cut::Hash { column: "n".to_string() }).unwrap();
        (cluster, session)
    }

    /// How many snapshots a node holds.
    fn holds(&self, nth: usize) -> usize {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (client, node) = (self.client(), self.machines[nth].node());
        runtime.block_on(client.act(&node, "ping", &())).unwrap()
    }

    /// Waits until nothing is held at any node.
    fn until_idle(&self) {
        let until = Instant::now() + 40 * SECOND;
        for nth in 0..self.machines.len() {
            while self.holds(nth) > 0 {
                assert!(Instant::now() < until, "snapshots stay at node {nth}");
                std::thread::sleep(SECOND / 10);
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.machines.clear();
        ip(&format!("link del switch{}", self.number));
    }
}

impl Machine {
    fn new(network: u8, nth: u8, folder: &Path) -> Self {
        let mut command = Command::new("unshare");
        // It says that it is there, and lives as long as it is not killed.
        command.args(["--net", "sh", "-c", "ip link set lo up && echo ready && read nothing"]);
        let mut sleeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(sleeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (cable, id) = (format!("cable{network}x{nth}"), sleeper.id());
        let address = Ipv4Addr::new(10, 77, network, nth);
        ip(&format!("link add {cable} type veth peer name wire netns {id}"));
        ip(&format!("link set {cable} master switch{network} up"));
        for command in [format!("addr add {address}/24 dev wire"), "link set wire up".to_string()] {
            let inside = format!("--net=/proc/{id}/ns/net ip {command}");
            run("nsenter", &inside, Path::new("/")).unwrap();
        }
        let home = folder.join(format!("home{nth}"));
        std::fs::create_dir(&home).unwrap();
        Self { sleeper, node: None, address, cable, home }
    }

    fn node(&self) -> String {
        format!("{}:7411", self.address)
    }

    /// Pulls the cable: nobody is told.
    fn cut(&self) {
        ip(&format!("link set {} down", self.cable));
    }

    fn mend(&self) {
        ip(&format!("link set {} up", self.cable));
    }

    /// Makes the way to and from it slow and lossy. Where the kernel cannot do that by itself, the
    /// way is so narrow that packets wait, and are lost where too many do.
    fn worsen(&self) -> &'static str {
        let inside = format!("--net=/proc/{}/ns/net tc", self.sleeper.id());
        let mut kind = "";
        for (program, device, before) in
            [("tc", self.cable.as_str(), ""), ("nsenter", "wire", &inside)]
        {
            let add = |what: &str| {
                let command = format!("{before} qdisc add dev {device} root {what}");
                run(program, command.trim_start(), Path::new("/"))
            };
            kind = match add("netem delay 20ms 5ms loss 1%") {
                Ok(()) => "delays and losses",
                Err(_) => {
                    add("tbf rate 40mbit burst 32kb latency 10ms").unwrap();
                    "a narrow way"
                }
            };
        }
        kind
    }

    fn kill(&mut self) {
        if let Some(mut node) = self.node.take() {
            node.kill().unwrap();
            node.wait().unwrap();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        // It has been killed if it is not there.
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

fn failed(session: &Session, sql: &str) -> Error {
    match session.query(sql).and_then(|rows| rows.collect()) {
        Ok(rows) => panic!("{sql} gave {} batches", rows.len()),
        Err(error) => error,
    }
}

fn named(error: &Error) -> Option<&str> {
    match error {
        Error::NodeLost { node, .. }
        | Error::NodeSlow { node, .. }
        | Error::InDoubt { node, .. }
        | Error::Undelivered { node, .. } => Some(node),
        _ => None,
    }
}

/// Pulls a cable while something goes on.
fn cut_later(network: &Network, nth: usize, after: Duration) -> std::thread::JoinHandle<()> {
    let cable = network.machines[nth].cable.clone();
    std::thread::spawn(move || {
        std::thread::sleep(after);
        ip(&format!("link set {cable} down"));
    })
}

#[test]
fn a_node_that_is_cut_off_in_a_query_is_named() {
    on_a_network(|| {
        let network = Network::new(3, &[]);
        let (cluster, session) = network.filled(30_000);
        for (nth, sql) in [
            (1, "SELECT count(*) FROM t a, t b WHERE (a.n * b.n) % 1009 = 7"),
            (2, "SELECT a.g, count(*) FROM t a, t b WHERE (a.n * b.n) % 1009 = 7 GROUP BY a.g"),
        ] {
            let cut = cut_later(&network, nth, SECOND / 2);
            let start = Instant::now();
            let error = failed(&session, sql);
            cut.join().unwrap();
            assert_eq!(named(&error), Some(network.machines[nth].node().as_str()), "{error:?}");
            assert!(start.elapsed() < 30 * SECOND, "{:?}", start.elapsed());
            // It is named by those that begin now, too.
            let error = cluster.session().err().unwrap();
            assert_eq!(named(&error), Some(network.machines[nth].node().as_str()), "{error:?}");
            network.machines[nth].mend();
            session.refresh().unwrap();
            assert_eq!(asked(&session, "SELECT count(*) FROM t WHERE g >= 0"), [["30000"]]);
        }
        drop((session, cluster));
        network.until_idle();
    });
}

#[test]
fn a_statement_ends_in_time_though_a_node_is_cut_off() {
    on_a_network(|| {
        let network = Network::new(2, &[]);
        let (_cluster, session) = network.filled(10_000);
        // Longer than the node may be silent: the deadline has to come first.
        session.query("SET statement_timeout = '1s'").unwrap();
        network.machines[1].cut();
        let start = Instant::now();
        let error = failed(&session, "SELECT g, count(*) FROM t GROUP BY g");
        println!("{error} after {:?}", start.elapsed());
        assert!(start.elapsed() < 6 * SECOND, "{:?}", start.elapsed());
        network.machines[1].mend();
        session.query("RESET statement_timeout").unwrap();
        session.refresh().unwrap();
        // And so does one that is cancelled.
        let running = session.connection().interrupt_handle();
        network.machines[1].cut();
        let interrupt = std::thread::spawn(move || {
            std::thread::sleep(SECOND / 2);
            running.interrupt();
        });
        let start = Instant::now();
        failed(&session, "SELECT g, count(*) FROM t GROUP BY g");
        assert!(start.elapsed() < 6 * SECOND, "{:?}", start.elapsed());
        interrupt.join().unwrap();
        network.machines[1].mend();
        session.refresh().unwrap();
        assert_eq!(asked(&session, "SELECT count(*) FROM t WHERE g >= 0"), [["10000"]]);
    });
}

#[test]
fn changes_that_are_cut_off_at_any_time_are_all_or_nothing() {
    on_a_network(|| {
        let network = Network::new(3, &[]);
        let (cluster, session) = network.filled(0);
        let sql = "INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 5000) s(i)";
        let mut rounds = Rounds::new([(); 2].map(|()| {
            let start = Instant::now();
            session.query(sql).unwrap();
            start.elapsed()
        }));
        let (mut rows, mut failed) = (10_000, 0);
        let mut kinds = std::collections::BTreeSet::new();
        while let Some(round) = rounds.again() {
            let session = cluster.session().unwrap();
            let nth = rounds.random().usize(0..3);
            let node = network.machines[nth].node();
            let cut = cut_later(&network, nth, rounds.at());
            let done = session.query(sql).map(|_| ());
            cut.join().unwrap();
            if let Err(error) = &done {
                failed += 1;
                assert_eq!(named(error), Some(node.as_str()), "{error:?}");
                let text = format!("{error:?}");
                kinds.insert(text.split([' ', '{']).next().unwrap_or("").to_string());
            }
            network.machines[nth].mend();
            cluster.recover().unwrap();
            let now = asked(&cluster.session().unwrap(), "SELECT count(*) FROM t");
            let now = now[0][0].parse::<u32>().unwrap();
            println!("round {round}: {rows} rows became {now}: {done:?}");
            match done {
                Ok(()) | Err(Error::Undelivered { .. }) => assert_eq!(now, rows + 5000),
                Err(Error::InDoubt { .. }) => {
                    assert!(now == rows || now == rows + 5000, "{rows} became {now}");
                }
                Err(_) => assert_eq!(now, rows),
            }
            rounds.note(now > rows);
            rows = now;
        }
        println!("{failed} changes ended with {kinds:?}");
        assert!(failed > 0);
        drop(rounds);
        drop((session, cluster));
        network.until_idle();
    });
}

#[test]
fn a_copy_answers_for_one_that_is_cut_off() {
    on_a_network(|| {
        let network = Network::new(4, &[]);
        let places = network.places();
        let shards = places.chunks(2).map(|pair| pair.join(", ")).collect::<Vec<_>>();
        let cluster = network.connect(&shards);
        let session = cluster.session().unwrap();
        let sql = "CREATE TABLE t AS SELECT i AS n, i % 7 AS g FROM generate_series(1, 9000) s(i)";
        session.execute(sql, &Cut::Hash { column: "n".to_string() }).unwrap();
        for nth in 0..4 {
            network.machines[nth].cut();
            let sql = "SELECT g, count(*) FROM t GROUP BY g";
            if let Err(error) = session.query(sql).and_then(|rows| rows.collect()) {
                assert_eq!(named(&error), Some(network.machines[nth].node().as_str()), "{error:?}");
            }
            let sums = "SELECT count(*), sum(n) FROM t WHERE g >= 0";
            assert_eq!(asked(&session, sums), [["9000", "40504500"]]);
            let start = Instant::now();
            assert_eq!(asked(&cluster.session().unwrap(), sums), [["9000", "40504500"]]);
            assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());
            network.machines[nth].mend();
            // A node that does not answer at once is left out again.
            let until = Instant::now() + 20 * SECOND;
            session.refresh().unwrap();
            while session.nodes().concat().contains("(lost)") {
                assert!(Instant::now() < until, "{:?}", session.nodes());
                session.refresh().unwrap();
            }
        }
        drop((session, cluster));
        network.until_idle();
    });
}

#[test]
fn a_slow_and_lossy_network_gives_the_same_answers() {
    on_a_network(|| {
        let network = Network::new(3, &[]);
        let (_cluster, session) = network.filled(20_000);
        let queries = [
            "SELECT g, count(*), sum(n) FROM t GROUP BY g",
            "SELECT a.g, count(*) FROM t a JOIN t b ON a.n = b.g GROUP BY a.g",
            "SELECT * FROM t",
        ];
        let before = queries.map(|sql| asked(&session, sql));
        for machine in &network.machines {
            println!("{}", machine.worsen());
        }
        for (sql, before) in queries.iter().zip(&before) {
            let start = Instant::now();
            assert_eq!(asked(&session, sql), *before, "{sql}");
            println!("{:?}: {sql}", start.elapsed());
        }
        session.query("INSERT INTO t SELECT i, 1 FROM generate_series(20001, 30000) s(i)").unwrap();
        assert_eq!(asked(&session, "SELECT count(*) FROM t"), [["30000"]]);
    });
}

/// Kilobytes of a process in memory that are its own.
fn own_kilobytes(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn who_does_not_read_takes_no_memory_and_further_connections_are_closed() {
    on_a_network(|| {
        let network = Network::new(1, &["--max-connections", "4"]);
        let (_cluster, session) = network.filled(6_000_000);
        let node = network.machines[0].node.as_ref().unwrap().id();
        let before = own_kilobytes(node);
        // Some hundred megabytes of rows wait for a reader that reads one batch.
        let mut rows = session.query("SELECT *, n + 1, n + 2, n + 3, n + 4 FROM t").unwrap();
        assert!(rows.next().unwrap().is_ok());
        std::thread::sleep(3 * SECOND);
        let after = own_kilobytes(node);
        println!("{before} kB before, {after} kB with a reader that waits");
        assert!(after < before + 200_000, "{before} kB became {after} kB");
        drop(rows);
        let others = (0..6).map(|_| network.connect(&network.places()));
        let others = others.map(|cluster| cluster.session()).collect::<Vec<_>>();
        let refused = others.iter().filter(|session| session.is_err()).count();
        assert_eq!(refused, 3, "of 6 connections beside one");
        for error in others.iter().filter_map(|session| session.as_ref().err()) {
            assert_eq!(named(error), Some(network.machines[0].node().as_str()), "{error:?}");
        }
        drop(others);
        let until = Instant::now() + 10 * SECOND;
        while network.connect(&network.places()).session().is_err() {
            assert!(Instant::now() < until, "connections stay");
        }
        assert_eq!(asked(&session, "SELECT count(*) FROM t WHERE n < 10"), [["9"]]);
    });
}
