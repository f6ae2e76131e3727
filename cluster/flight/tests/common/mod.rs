//! A server as a process of this machine, its clients, and comparing answers.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use swingdb::{Connection, Database};
use tonic::transport::Channel;
use tonic::{Code, Status};

pub type Client = FlightSqlServiceClient<Channel>;
/// Hours of work, with pauses also where the engine is not optimized.
pub const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 1000000000000) AS g(i) WHERE i % 7 = 8";

/// A server, and the writer of its database.
pub struct Server {
    child: Child,
    pub address: String,
    pub database: Database,
    pub writer: Connection,
    home: PathBuf,
    _folder: tempfile::TempDir,
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swingdb-flight"));
    command.env_remove("SWINGDB_SERVER_TOKEN").env("SWINGDB_THREADS", "2");
    command
}

impl Server {
    /// With a database that some statements make.
    pub fn start(options: &[&str], made_by: &str) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let database = Database::open_in(&home, "served").unwrap();
        let writer = database.connect();
        writer.query(made_by).unwrap();
        database.share().unwrap();
        let mut command = command();
        command.args(["served", "--port", "0"]).args(options).arg("--home").arg(&home);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_whitespace().nth(3).expect(&line).to_string();
        Self { child, address, database, writer, home, _folder: folder }
    }

    /// Changes the database, and shares it.
    pub fn write(&self, sql: &str) {
        self.writer.query(sql).unwrap();
        self.database.share().unwrap();
    }

    /// A session on a snapshot in this process.
    pub fn embedded(&self) -> Connection {
        Database::snapshot_in(&self.home, "served").unwrap().connect()
    }

    pub async fn client(&self) -> Client {
        let address = self.address.replace("grpc://", "http://");
        let channel = Channel::from_shared(address).unwrap().connect().await.unwrap();
        FlightSqlServiceClient::new(channel)
    }

    /// The seconds that the server has computed.
    pub fn seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace().collect::<Vec<_>>();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
    }

    /// The private memory that the server has, in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    /// Waits until the server computes nothing any more.
    pub async fn wait_until_idle(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let before = self.seconds();
            // Clients have to go on meanwhile, to say what they have given up.
            tokio::time::sleep(Duration::from_millis(500)).await;
            if self.seconds() - before < 0.1 {
                return;
            }
            assert!(Instant::now() < until, "the server goes on computing");
        }
    }

    pub fn stop(mut self) -> bool {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        self.child.wait().unwrap().success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rows of a FlightInfo.
pub async fn rows(client: &mut Client, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let stream = client.do_get(ticket).await?;
    stream.try_collect().await
}

pub async fn query(client: &mut Client, sql: &str) -> Result<Vec<RecordBatch>, FlightError> {
    let info = client.execute(sql.to_string(), None).await?;
    rows(client, info).await
}

/// The rows of a query as a table.
pub async fn answer(client: &mut Client, sql: &str) -> String {
    let rows = query(client, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    pretty_format_batches(&rows).unwrap().to_string()
}

pub fn expected(connection: &Connection, sql: &str) -> String {
    let rows = connection.query(sql).and_then(|rows| rows.collect()).unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

/// The status of an error.
pub fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        FlightError::Arrow(error) => {
            let inner = match error {
                arrow::error::ArrowError::ExternalError(inner) => inner,
                other => panic!("{other}"),
            };
            match inner.downcast::<Status>() {
                Ok(status) => *status,
                Err(other) => panic!("{other}"),
            }
        }
        other => panic!("{other}"),
    }
}

pub async fn refused(client: &mut Client, sql: &str, code: Code) -> Status {
    let error = query(client, sql).await.err().unwrap_or_else(|| panic!("{sql} went well"));
    let text = error.to_string();
    let status = status(error);
    assert_eq!(status.code(), code, "{sql}: {text}");
    status
}
