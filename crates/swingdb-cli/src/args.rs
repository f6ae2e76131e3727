//! The command line: what can be said, and the help that says it.

use crate::output::Mode;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use swingdb::Durability;

/// An in-memory analytical database whose state any process can take as its own snapshot.
///
/// Without a command, swingdb is a shell: on the database DATABASE as its one writer (it is created
/// when missing), on a snapshot of it, or on a private, unnamed database. Without a terminal on the
/// standard input, SQL is read from there.
#[derive(Debug, Parser)]
#[command(name = "swingdb", version, after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub struct Cli {
    #[command(flatten)]
    pub shell: ShellArgs,
    /// Directory of the databases (default: $SWINGDB_HOME, else /dev/shm/swingdb-<uid>)
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Store on a disk of the database that is written: a directory of its own, made when missing.
    /// It is remembered; an empty text detaches the database from it
    #[arg(long, global = true, value_name = "DIR", value_parser = directory_or_empty())]
    pub store: Option<PathBuf>,
    /// When changes get to the store: `commit` (with each), seconds, or `manual` (CHECKPOINT)
    #[arg(long, global = true, value_name = "WHEN", value_parser = durability, requires = "store")]
    pub durability: Option<Durability>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// A path that may be empty, which the argument parser refuses by itself.
fn directory_or_empty() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn durability(text: &str) -> Result<Durability, String> {
    let wrong = || format!("{text:?} is none of `commit`, `manual` and a number of seconds");
    match text {
        "commit" => Ok(Durability::Commit),
        "manual" => Ok(Durability::Manual),
        seconds => {
            let seconds: f64 = seconds.parse().map_err(|_| wrong())?;
            let every = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
            Ok(Durability::Interval(every))
        }
    }
}

const EXAMPLES: &str = "Examples:
  swingdb                                 a shell on a private database
  swingdb taxi                            a shell on the database `taxi`, as its writer
  swingdb --snapshot taxi                 a shell on a snapshot of it, while somebody writes it
  swingdb taxi -c 'CREATE TABLE t (x INT)' -c 'SHARE'
  swingdb --store /data/taxi taxi         the same with a store on a disk: it outlives a reboot
  swingdb sql taxi 'SELECT count(*) FROM trips'
  swingdb sql \"SELECT * FROM 'trips.parquet' LIMIT 5\"
  swingdb import *.parquet --into taxi.trips --share
  swingdb node --write sales              serves databases to a cluster
  swingdb --cluster nodes                 a shell on the machines of a cluster
  swingdb ui                              databases and a SQL notebook in a browser
  swingdb serve taxi                      for psql -h 127.0.0.1 -d taxi";

impl Cli {
    /// Why a store means nothing here; `None`: a database is opened as its writer.
    pub fn has_no_use_of_a_store(&self) -> Option<String> {
        let shell = |args: &ShellArgs| match (&args.database, args.snapshot) {
            (None, _) => Some("a private database has no store; name a database".to_owned()),
            (_, true) => Some("a snapshot has no store; leave out one of the two".to_owned()),
            (Some(_), false) => None,
        };
        let name = match &self.command {
            None => return shell(&self.shell),
            Some(Command::Shell(args)) => return shell(args),
            Some(Command::Sql(args)) if args.write => return None,
            Some(
                Command::Import(_)
                | Command::Generate(_)
                | Command::Share(_)
                | Command::Checkpoint(_),
            ) => return None,
            Some(Command::Sql(_)) => "sql without --write",
            Some(Command::Restore(_)) => "restore, which makes a database without a store,",
            Some(Command::Export(_)) => "export",
            Some(Command::Serve(_)) => "serve",
            Some(Command::Node(_)) => "node",
            Some(Command::Ui(_)) => "ui",
            Some(Command::Ls(_)) => "ls",
            Some(Command::Tree(_)) => "tree",
            Some(Command::Drop(_)) => "drop",
            Some(Command::Gc) => "gc",
            Some(Command::Probe(_)) => "probe",
            Some(Command::Doctor(_)) => "doctor",
        };
        Some(format!("{name} writes no database; leave it out"))
    }
}

/// The shell's arguments.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// Database to open; a private one when missing
    pub database: Option<String>,
    /// Take a snapshot of the newest shared state instead of becoming the writer
    #[arg(short, long, requires = "database")]
    pub snapshot: bool,
    /// A shell on the cluster of machines whose nodes FILE lists (see docs/cluster.md); needs the
    /// program swingdb-cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["database", "snapshot"])]
    pub cluster: Option<PathBuf>,
    /// Run these statements (or a dot command) and exit; may be repeated
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    pub commands: Vec<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How results are printed.
#[derive(Clone, Debug, Args)]
pub struct OutputArgs {
    /// Shape of the results
    #[arg(short, long, value_enum, default_value_t = Mode::Table)]
    pub mode: Mode,
    /// Most rows that the mode `table` shows; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub max_rows: usize,
    /// Print how long each statement took
    #[arg(long)]
    pub timer: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Open an interactive shell (also for a database with a command's name)
    Shell(ShellArgs),
    /// Run SQL on a snapshot of a database, or on files
    #[command(after_help = SQL_EXAMPLES)]
    Sql(SqlArgs),
    /// Append files (Parquet, CSV, JSON lines, Arrow IPC) to a table
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Write a table or the result of a query to a file
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Fill a database with generated data
    #[command(after_help = GENERATE_EXAMPLES)]
    Generate(GenerateArgs),
    /// Make the last committed state the one that new snapshots see
    #[command(after_help = "Example:\n  swingdb share taxi")]
    Share(ShareArgs),
    /// Bring the store on a disk to the last committed state, or copy it into a directory
    #[command(after_help = CHECKPOINT_EXAMPLES)]
    Checkpoint(CheckpointArgs),
    /// Read a store or a copy from a disk into memory, as a new database without a store
    #[command(after_help = "Example:\n  swingdb restore /backup/taxi --as taxi_monday")]
    Restore(RestoreArgs),
    /// Serve snapshots of a database to programs that speak the PostgreSQL protocol
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Serve databases of this machine to the coordinators and nodes of a cluster
    #[command(after_help = NODE_EXAMPLES)]
    Node(NodeArgs),
    /// Show databases, their memory and a SQL notebook in a browser of this machine
    #[command(after_help = UI_EXAMPLES)]
    Ui(UiArgs),
    /// List databases and snapshots: sizes, writer, readers
    #[command(after_help = "Examples:\n  swingdb ls\n  swingdb ls --json | jq '.[].name'")]
    Ls(ListArgs),
    /// Show who came from whom
    #[command(after_help = "Example:\n  swingdb tree")]
    Tree(ListArgs),
    /// Drop databases or named snapshots; what others took from them stays theirs
    #[command(after_help = "Example:\n  swingdb drop taxi clean")]
    Drop(DropArgs),
    /// Free what dead processes left behind
    Gc,
    /// Measure the disk below a directory, so that stores there read it well
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(ProbeArgs),
    /// Say what on this system costs speed or capacity, and the command that mends it
    #[command(after_help = "Examples:\n  swingdb doctor\n  swingdb doctor --json")]
    Doctor(ListArgs),
}

const SQL_EXAMPLES: &str = "Examples:
  swingdb sql taxi 'SELECT count(*) FROM trips'
  swingdb sql taxi --mode csv < report.sql
  swingdb sql taxi --write \"DELETE FROM trips WHERE speed < 0\" --share
  swingdb sql taxi \"EXPORT DATABASE '/backup/taxi'\"
  swingdb sql taxi \"IMPORT DATABASE '/backup/taxi'\" --write --share
  swingdb sql \"SELECT * FROM 'trips.parquet' LIMIT 5\"";

#[derive(Debug, Args)]
pub struct SqlArgs {
    /// Database to take a snapshot of; may be left out when the SQL names files only
    #[arg(value_name = "DATABASE")]
    pub first: Option<String>,
    /// Statements; read from the standard input when missing
    #[arg(value_name = "SQL")]
    pub second: Option<String>,
    /// Open the database as its writer, so that changes stay
    #[arg(short, long)]
    pub write: bool,
    /// Let statements change the snapshot; the changes end with the command
    #[arg(long, conflicts_with = "write")]
    pub scratch: bool,
    /// Share the database at the end (with --write)
    #[arg(long, requires = "write")]
    pub share: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

const IMPORT_EXAMPLES: &str = "Examples:
  swingdb import trips.parquet --into taxi.trips
  swingdb import 2026-*.csv --into taxi.trips --share
  swingdb import data.txt --format csv --delimiter '|' --header no --into taxi.raw
The table is created when it does not exist. A file that fails leaves the table as it was before
that file.";

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files, or - for the standard input; the format is found out by name and first bytes
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where to: a database (created when missing) and a table, perhaps with its schema
    #[arg(short, long, value_name = "DATABASE.TABLE")]
    pub into: String,
    /// parquet, csv, json or arrow
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// CSV: does the first line name the columns?
    #[arg(long, value_enum, value_name = "yes|no")]
    pub header: Option<YesNo>,
    /// CSV: one to four bytes between fields (`\t` is a tab)
    #[arg(long, value_name = "TEXT")]
    pub delimiter: Option<String>,
    /// CSV: the text that stands for NULL
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    /// Any other option of COPY ... FROM, such as encoding=utf-16; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub option: Vec<String>,
    /// Share the database at the end
    #[arg(long)]
    pub share: bool,
}

const SERVE_EXAMPLES: &str = "Examples:
  swingdb serve taxi                        then psql -h 127.0.0.1 -d taxi
  swingdb serve taxi --port 5433 --statement-timeout 30
swingdb-server, a program of its own, serves; swingdb-server --help lists its options.";

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The database, and options of swingdb-server
    #[arg(
        value_name = "DATABASE",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub arguments: Vec<OsString>,
}

const NODE_EXAMPLES: &str = "Examples:
  swingdb node --write sales                listens on 127.0.0.1:7411, and makes the database
  swingdb node --listen 127.0.0.1:7412 --home /dev/shm/b --write sales
swingdb-node, a program of its own, serves; swingdb-node --help lists its options.";

#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Options of swingdb-node
    #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

const UI_EXAMPLES: &str = "Examples:
  swingdb ui                                prints the address of the page
  swingdb ui taxi --open                    opens a browser, with a snapshot of taxi
  swingdb ui --listen 127.0.0.1:0           at a port that is free
Cells run on snapshots: they change nothing, and the writer goes on writing.";

#[derive(Debug, Args)]
pub struct UiArgs {
    /// Database that the page shows first
    pub name: Option<String>,
    /// Loopback address and port of the page; port 0: a free one, which is printed
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:4477")]
    pub listen: SocketAddr,
    /// Open the page in a browser ($BROWSER, else xdg-open)
    #[arg(long)]
    pub open: bool,
    /// Most rows of a result that are kept; a query with more is ended there
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_rows: usize,
}

const EXPORT_EXAMPLES: &str = "Examples:
  swingdb export taxi.trips trips.parquet
  swingdb export taxi trips.csv --query 'SELECT * FROM trips WHERE occupied'
  swingdb export taxi.trips trips.json --format json
  swingdb export taxi.trips - | program
A whole database: swingdb sql taxi \"EXPORT DATABASE '/backup/taxi'\"";

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Shared database and table, or the database alone with --query
    #[arg(value_name = "DATABASE[.TABLE]")]
    pub source: String,
    /// File to write, the format goes by its name; or - for the standard output, in Arrow's stream
    /// format unless --format says another
    pub file: PathBuf,
    /// Export the result of this query
    #[arg(short, long, value_name = "SQL")]
    pub query: Option<String>,
    /// parquet, csv, json or arrow
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// CSV: write the columns' names first?
    #[arg(long, value_enum, value_name = "yes|no")]
    pub header: Option<YesNo>,
    /// CSV: one to four bytes between fields (`\t` is a tab)
    #[arg(long, value_name = "TEXT")]
    pub delimiter: Option<String>,
    /// none, snappy, zstd, gzip or lz4
    #[arg(long, value_name = "NAME")]
    pub compression: Option<String>,
    /// Arrow through a pipe: the pipe shows the database's memory. Only for a program that copies
    /// what it reads, as nearly all do, and does not pass it on by splice or tee
    #[arg(long)]
    pub zero_copy: bool,
}

const GENERATE_EXAMPLES: &str = "Examples:
  swingdb generate taxi taxi --rows 20000000
  swingdb generate tpch tpch --scale 1";

#[derive(Debug, Args)]
pub struct GenerateArgs {
    #[command(subcommand)]
    pub what: Generated,
}

#[derive(Debug, Subcommand)]
pub enum Generated {
    /// GPS rows of taxis: movement, speed, pick-ups and drop-offs, with some dirty rows
    Taxi {
        /// Database to fill, created when missing
        database: String,
        /// Table to append to
        #[arg(long, default_value = "trips")]
        table: String,
        /// Number of rows
        #[arg(long, default_value_t = 20_000_000)]
        rows: u64,
        /// The same seed gives the same rows
        #[arg(long, default_value_t = 42)]
        seed: u64,
        /// Do not share the database at the end
        #[arg(long)]
        no_share: bool,
    },
    /// The eight tables of TPC-H
    Tpch {
        /// Database to fill, created when missing
        database: String,
        /// Scale factor: 1 is about 1 GB
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Declare the primary keys
        #[arg(long)]
        keys: bool,
        /// Do not share the database at the end
        #[arg(long)]
        no_share: bool,
    },
}

#[derive(Debug, Args)]
pub struct ShareArgs {
    /// Database to share; nobody else may be writing it
    pub database: String,
}

const CHECKPOINT_EXAMPLES: &str = "Examples:
  swingdb checkpoint taxi                 taxi's own store gets what it lacks
  swingdb checkpoint taxi /backup/taxi    a copy of what taxi has shared, while somebody writes it";

#[derive(Debug, Args)]
pub struct CheckpointArgs {
    /// Database
    pub database: String,
    /// Copy the newest shared state into this directory, which has to be missing or empty
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The store
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Name of the database in memory (default: the one it has in the store)
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const PROBE_EXAMPLES: &str = "Examples:
  swingdb probe /data --save
  swingdb probe /data --plot probe.svg --seconds 60
  swingdb probe /data --json | jq .profile
The probe writes a file of its own, which has no name and is gone when the probe ends, and reads it
past the page cache. It finds the chunk size and the number of parallel domains, if the disk shows
any; the best request size and depth; and what a request costs. Nothing that is there is touched.";

#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Directory on the disk: a store, or any directory above stores
    pub path: PathBuf,
    /// How much to write and read; K, M and G stand for KiB, MiB and GiB
    #[arg(long, value_name = "N", default_value = "512M", value_parser = size)]
    pub bytes: u64,
    /// How long to measure, about
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub seconds: u64,
    /// Print JSON, with all curves
    #[arg(long)]
    pub json: bool,
    /// Draw the curves into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Save the result in the directory, for stores there and below
    #[arg(long)]
    pub save: bool,
}

/// A number of bytes: `1000`, `64K`, `512M`, `2G`.
fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.chars().last().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => (&text[..text.len() - 1], 10),
        Some('M') => (&text[..text.len() - 1], 20),
        Some('G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let least = swingdb::probe::LEAST_PROBE_BYTES;
    match number {
        Some(number) if number >= least => Ok(number),
        Some(_) => Err(format!("at least {}M are needed", least >> 20)),
        None => Err("a number is needed, such as 512M".to_string()),
    }
}

#[derive(Debug, Args)]
pub struct DropArgs {
    /// Databases or named snapshots
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// No error when one does not exist
    #[arg(long)]
    pub if_exists: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Parquet,
    Csv,
    #[value(alias = "jsonl", alias = "ndjson")]
    Json,
    #[value(alias = "ipc", alias = "feather")]
    Arrow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum YesNo {
    #[value(alias = "true", alias = "on")]
    Yes,
    #[value(alias = "false", alias = "off")]
    No,
}

impl YesNo {
    pub fn is_yes(self) -> bool {
        self == YesNo::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_first_word_is_a_database_unless_it_is_a_command() {
        let cli = Cli::parse_from(["swingdb", "taxi"]);
        assert_eq!(cli.shell.database.as_deref(), Some("taxi"));
        assert!(cli.command.is_none());
        let cli = Cli::parse_from(["swingdb", "--home", "/x", "ls", "--json"]);
        assert!(matches!(cli.command, Some(Command::Ls(ListArgs { json: true }))));
        assert_eq!(cli.home, Some("/x".into()));
        let cli = Cli::parse_from(["swingdb", "shell", "ls"]);
        assert!(
            matches!(cli.command, Some(Command::Shell(a)) if a.database.as_deref() == Some("ls"))
        );
        assert!(Cli::try_parse_from(["swingdb", "--snapshot"]).is_err());
        let cli = Cli::parse_from(["swingdb", "--cluster", "nodes", "-c", "SELECT 1"]);
        assert_eq!(cli.shell.cluster, Some("nodes".into()));
        assert!(Cli::try_parse_from(["swingdb", "--cluster", "nodes", "taxi"]).is_err());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("2g"), Ok(2 << 30));
        assert_eq!(size("33554432"), Ok(32 << 20));
        for wrong in ["", "M", "-1", "1K", "lots", "99999999999G", "1.5G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_command_has_help() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                let described = argument.get_help().is_some() || argument.get_id() == "help";
                assert!(described, "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
