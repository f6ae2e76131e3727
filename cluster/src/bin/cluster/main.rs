//! `swingdb-cluster`: a shell on a cluster, its repairs, and the coordinator of programs in other
//! languages.

mod print;
mod shell;

use std::path::PathBuf;

use clap::Parser;
use swingdb::allocator::JEMALLOC_OPTIONS;
use swingdb_cluster::node::options::token;
use swingdb_cluster::{Cluster, Cut, List, Options};
use tikv_jemalloc_ctl::background_thread;

use crate::print::{Mode, Printer};
use crate::shell::{Failure, Shell};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Nothing but a name that the allocator looks for.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: Option<&[u8; JEMALLOC_OPTIONS.len()]> = Some(JEMALLOC_OPTIONS);

const EXAMPLES: &str = "Examples:
  swingdb-cluster nodes                          a shell on the cluster
  swingdb-cluster nodes < report.sql
  swingdb-cluster nodes 'SELECT count(*) FROM orders' --mode csv
  swingdb-cluster nodes --cut hash:id \"CREATE TABLE orders AS SELECT * FROM 'orders.parquet'\"
  swingdb-cluster nodes --resize more-nodes
swingdb --cluster nodes starts this program.";

/// Runs SQL on a cluster of nodes.
///
/// Without statements it is a shell. Without a terminal on the standard input, statements are read
/// from there.
#[derive(Debug, Parser)]
#[command(name = "swingdb-cluster", version, after_help = EXAMPLES, after_long_help = EXAMPLES)]
struct Arguments {
    /// File with the nodes, one a line: HOST:PORT/DATABASE, in the order of the shards; it may
    /// also have lines `token_file = FILE` and `tls_ca = FILE`
    #[arg(required_unless_present = "serve")]
    file: Option<PathBuf>,
    /// Statements
    sql: Option<String>,
    /// Run these statements (or a dot command) and exit; may be repeated
    #[arg(short = 'c', long = "command", value_name = "SQL", conflicts_with = "sql")]
    commands: Vec<String>,
    /// Shape of the results
    #[arg(short, long, value_enum, default_value_t = Mode::Table)]
    mode: Mode,
    /// Most rows that the mode `table` shows; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 40)]
    max_rows: usize,
    /// Print how long each statement took
    #[arg(long)]
    timer: bool,
    /// How tables that the statements make are cut: as_it_lies, replicated, hash:COLUMN,
    /// range:COLUMN:BOUND,BOUND,...
    #[arg(long, default_value = "as_it_lies")]
    cut: Cut,
    /// Settle a change that a dead coordinator has left, and do nothing else
    #[arg(long, conflicts_with_all = ["sql", "commands"])]
    recover: bool,
    /// Move the rows to the nodes of another file, with some nodes more or fewer, and do nothing
    /// else; the first node stays the first
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recover", "sql", "commands"])]
    resize: Option<PathBuf>,
    /// File with the secret of the nodes (default: that of the file, else $SWINGDB_CLUSTER_TOKEN)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the certificates (PEM) that those of the nodes are signed by; connections are
    /// encrypted then (default: that of the file)
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Answer the requests of another program on the standard input and output
    #[arg(long, conflicts_with_all = ["file", "recover"])]
    serve: bool,
}

fn main() {
    // Without the thread, memory that queries leave goes back to the system later.
    _ = background_thread::write(true);
    let status = match run(&Arguments::parse()) {
        Ok(()) => 0,
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(failure) => {
            eprintln!("swingdb-cluster: {failure}");
            1
        }
    };
    swingdb::exit_now(status)
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(path) = &arguments.file else {
        let output = std::io::BufWriter::new(std::io::stdout().lock());
        return Ok(swingdb_cluster::serve::serve(std::io::stdin().lock(), output)?);
    };
    let list = List::read(path)?;
    let token_file = arguments.token_file.as_ref().or(list.token_file.as_ref());
    let token = token(token_file.map(PathBuf::as_path)).map_err(Failure::message)?;
    let tls_ca = arguments.tls_ca.clone().or_else(|| list.tls_ca.clone());
    let cluster = Cluster::connect(&list.nodes, Options { token, tls_ca, ..Options::default() })?;
    if arguments.recover {
        return Ok(cluster.recover()?);
    }
    if let Some(path) = &arguments.resize {
        let new = List::read(path)?;
        // Both have to be reached by one token and the same certificates.
        for (own, other) in [(&list.token_file, &new.token_file), (&list.tls_ca, &new.tls_ca)] {
            if other.is_some() && other != own {
                let message = "it names other files for token_file or tls_ca than the first list";
                return Err(Failure::message(format!("{}: {message}", path.display())));
            }
        }
        cluster.resize(&new.nodes)?;
        return Ok(());
    }
    let printer = Printer::new(arguments.mode, arguments.max_rows, arguments.timer);
    let mut shell = Shell::new(cluster.session()?, arguments.cut.clone(), printer);
    let texts = arguments.sql.iter().chain(&arguments.commands).collect::<Vec<_>>();
    match texts.is_empty() {
        true => shell.start(),
        false => texts.into_iter().try_for_each(|text| shell.text(text)),
    }
}
