//! Nodes as processes of this machine, and comparing answers.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod by_hand;
pub mod killed;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use swingdb_cluster::{Cluster, Options, Session};

/// The database of each node.
pub const DATABASE: &str = "shard";

/// A node's process, which is killed with it.
pub struct Node {
    child: Option<Child>,
    pub address: String,
    home: PathBuf,
    options: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Node {
    pub fn start(options: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", options)
    }

    pub fn start_at(address: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let options = options.iter().map(|option| option.to_string()).collect();
        let address = address.to_string();
        let mut node = Self { child: None, address, home, options, _folder: folder };
        node.run();
        node
    }

    fn run(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_swingdb-node"));
        command.args(["--listen", &self.address, "--write", DATABASE]).args(&self.options);
        command.arg("--home").arg(&self.home).stdout(Stdio::piped()).env("SWINGDB_THREADS", "2");
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.address = line.trim().strip_prefix("listening on ").expect(&line).to_string();
        self.child = Some(child);
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Kills the process, so that nothing in it can end in order.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Kills it, and starts it again at the same address, with nothing of its databases.
    pub fn restart_empty(&mut self) {
        self.kill();
        let mut log = self.home.clone().into_os_string();
        log.push("-cluster");
        let _ = std::fs::remove_dir_all(log);
        self.restart_without_databases();
    }

    /// The same, where the log of its changes is left.
    pub fn restart_without_databases(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.home);
        std::fs::create_dir(&self.home).unwrap();
        self.run();
    }

    /// Kills it, and starts it again at the same address, with what is left of its databases.
    pub fn restart(&mut self) {
        self.kill();
        self.run();
    }

    /// Stops or continues the process, as a machine does that hangs.
    pub fn signal(&self, signal: &str) {
        let done = Command::new("kill").args([signal, &self.id().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// How many steps of the change that is open the node has carried out.
    pub fn steps(&self) -> usize {
        let mut log = self.home.clone().into_os_string();
        log.push("-cluster");
        let step = |nth: &usize| PathBuf::from(&log).join(DATABASE).join(format!("{nth}.json"));
        (0..).take_while(|nth| step(nth).exists()).count()
    }

    /// A session on what this node alone has.
    pub fn alone(&self) -> swingdb::Connection {
        swingdb::Database::snapshot_in(&self.home, DATABASE).unwrap().connect()
    }

    pub fn place(&self) -> String {
        format!("{}/{DATABASE}", self.address)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn nodes(count: usize) -> Vec<Node> {
    (0..count).map(|_| Node::start(&[])).collect()
}

pub fn cluster(nodes: &[Node]) -> Cluster {
    let places = nodes.iter().map(Node::place).collect::<Vec<_>>();
    // Tables are small.
    let options = Options { ask_keys_from: 0, ..Options::default() };
    Cluster::connect(&places, options).unwrap()
}

/// Runs a test where plans may be deep.
pub fn with_room(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(test).unwrap();
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Rows as texts; numbers with a fraction to nine digits.
pub fn texts(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap());
        let columns = columns.collect::<Vec<_>>();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().zip(batch.columns()).map(|(column, array)| {
                let text = column.value(row).to_string();
                match array.data_type().is_floating() {
                    true => text.parse::<f64>().map_or(text, |number| format!("{number:.8e}")),
                    false => text,
                }
            });
            rows.push(cells.collect());
        }
    }
    rows
}

/// The rows of a query on the cluster, in any order.
pub fn asked(session: &Session, sql: &str) -> Vec<Vec<String>> {
    let rows = session.query(sql).and_then(|rows| rows.collect());
    let mut rows = texts(&rows.unwrap_or_else(|error| panic!("{sql}\n{error}")));
    rows.sort();
    rows
}

/// The rows of a query on one database, in any order.
pub fn expected(connection: &swingdb::Connection, sql: &str) -> Vec<Vec<String>> {
    let rows = connection.query(sql).and_then(|rows| rows.collect());
    let mut rows = texts(&rows.unwrap_or_else(|error| panic!("{sql}\n{error}")));
    rows.sort();
    rows
}
