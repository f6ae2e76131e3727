//! `swingdb-server`: serves a database until SIGTERM or SIGINT.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use swingdb::allocator::{JEMALLOC_OPTIONS, at_first_query};
use swingdb_server::listen::Server;
use swingdb_server::options::Options;
use swingdb_server::registry::Registry;
use swingdb_server::shared::Shared;
use tikv_jemalloc_ctl::background_thread;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Nothing but a name that the allocator looks for.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: Option<&[u8; JEMALLOC_OPTIONS.len()]> = Some(JEMALLOC_OPTIONS);

/// How long sessions have to end.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() {
    // Without the thread, memory that queries leave goes back to the system later.
    at_first_query(|| _ = background_thread::write(true));
    let status = match run(&Options::parse()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("swingdb-server: {error}");
            1
        }
    };
    // An interrupted statement may compute on for a moment: the exit handlers would race with it.
    swingdb::exit_now(status)
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let (source, token, tls) = (options.source()?, options.token()?, options.tls()?);
    options.check(tls.is_some(), token.is_some())?;
    // Says at once what a client would be told: no such database, nothing shared, a wrong limit.
    let source = source.resolved()?;
    let registry = Registry::new(source.limits.sessions);
    let name = source.name.clone();
    let shared = Arc::new(Shared { source, token, tls, registry: Arc::clone(&registry) });
    let server = Server::bind(options.address(), shared)
        .map_err(|error| format!("cannot listen on {}: {error}", options.address()))?;
    let stop = server.stopper()?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_string()).spawn(move || {
        if signals.forever().next().is_some() {
            stop.stop();
        }
    })?;
    let address = server.address()?;
    println!("serving {name} on {address} (PostgreSQL protocol)");
    std::io::stdout().flush()?;
    server.run();
    if !registry.end(PATIENCE) {
        eprintln!("swingdb-server: {} sessions did not end in time", registry.len());
    }
    Ok(())
}
