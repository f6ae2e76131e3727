//! `swingdb-cluster`: statements on a cluster from the command line.

use std::io::Read;
use std::path::PathBuf;

use arrow::util::pretty::pretty_format_batches;
use clap::Parser;
use swingdb_cluster::node::options::token;
use swingdb_cluster::{Cluster, Cut, Options};

/// Runs SQL on a cluster of nodes.
#[derive(Debug, Parser)]
#[command(name = "swingdb-cluster", version)]
struct Arguments {
    /// File with the nodes, one a line: HOST:PORT/DATABASE. Their order is that of the shards
    file: PathBuf,
    /// Statements; without them they are read from the standard input
    sql: Option<String>,
    /// How tables that the statements make are cut: as_it_lies, replicated, hash:COLUMN,
    /// range:COLUMN:BOUND,BOUND,...
    #[arg(long, default_value = "as_it_lies", value_parser = cut)]
    cut: Cut,
    /// Settle a change that a dead coordinator has left, and do nothing else
    #[arg(long)]
    recover: bool,
    /// File with the secret of the nodes (default: $SWINGDB_CLUSTER_TOKEN)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

fn cut(text: &str) -> Result<Cut, String> {
    let mut parts = text.splitn(3, ':');
    let kind = parts.next().unwrap_or_default();
    let column = parts.next().map(str::to_string);
    let bounds = parts.next();
    match (kind, column, bounds) {
        ("as_it_lies", None, None) => Ok(Cut::AsItLies),
        ("replicated", None, None) => Ok(Cut::Replicated),
        ("hash", Some(column), None) => Ok(Cut::Hash { column }),
        ("range", Some(column), bounds) => {
            let bounds = bounds.unwrap_or_default().split(',').filter(|bound| !bound.is_empty());
            Ok(Cut::Range { column, bounds: bounds.map(str::to_string).collect() })
        }
        _ => Err(format!("{text:?} is none of as_it_lies, replicated, hash:COLUMN, range:...")),
    }
}

fn main() {
    let status = match run(&Arguments::parse()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("swingdb-cluster: {error}");
            1
        }
    };
    swingdb::exit_now(status)
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let file = std::fs::read_to_string(&arguments.file);
    let file = file.map_err(|error| format!("{}: {error}", arguments.file.display()))?;
    let nodes =
        file.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let nodes = nodes.collect::<Vec<_>>();
    let options = Options { token: token(arguments.token_file.as_deref())?, ..Options::default() };
    let cluster = Cluster::connect(&nodes, options)?;
    if arguments.recover {
        return Ok(cluster.recover()?);
    }
    let sql = match &arguments.sql {
        Some(sql) => sql.clone(),
        None => {
            let mut sql = String::new();
            std::io::stdin().read_to_string(&mut sql)?;
            sql
        }
    };
    let rows = cluster.session()?.execute(&sql, &arguments.cut)?;
    match rows.rows_changed() {
        Some(count) => println!("{count} rows"),
        None => println!("{}", pretty_format_batches(&rows.collect()?)?),
    }
    Ok(())
}
