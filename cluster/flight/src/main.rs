//! `swingdb-flight`: serves a database by Flight SQL until SIGTERM or SIGINT.

use std::io::Write;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use swingdb::allocator::{JEMALLOC_OPTIONS, at_first_query};
use swingdb_flight::door::Door;
use swingdb_flight::listen::incoming;
use swingdb_flight::options::{parse, tls};
use swingdb_flight::service::Service;
use swingdb_flight::session::{MAX_RESULTS, Shared};
use swingdb_server::options::Options;
use tikv_jemalloc_ctl::background_thread;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Server;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Nothing but a name that the allocator looks for.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: Option<&[u8; JEMALLOC_OPTIONS.len()]> = Some(JEMALLOC_OPTIONS);

/// Threads that do nothing but read and write connections.
const NETWORK_THREADS: usize = 2;
/// Threads that plan statements and hand rows over, at most; one for each result that is read.
const WAITING_THREADS: usize = 32_768;
/// Stack of a thread: plans are walked by recursion.
const STACK_BYTES: usize = 32 << 20;
/// The largest message of a client: parameters.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// How often a client that says nothing is asked whether it is there, and how long it may take to
/// answer.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);

fn main() {
    // Without the thread, memory that queries leave goes back to the system later.
    at_first_query(|| _ = background_thread::write(true));
    let options = parse();
    let status = match start(&options) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("swingdb-flight: {error}");
            1
        }
    };
    // An interrupted statement may compute on for a moment: the exit handlers would race with it.
    swingdb::exit_now(status)
}

fn start(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let waiting = options.max_sessions.saturating_add(1).saturating_mul(MAX_RESULTS);
    let waiting = waiting.min(WAITING_THREADS);
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    let threads = threads
        .worker_threads(NETWORK_THREADS)
        .max_blocking_threads(waiting)
        .thread_name("flight")
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?;
    let done = threads.block_on(run(options));
    // What still computes, nobody waits for.
    threads.shutdown_background();
    done
}

async fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let (source, token, tls) = (options.source()?, options.token()?, tls(options)?);
    options.check(tls.is_some(), token.is_some())?;
    // Says at once what a client would be told: no such database, nothing shared, a wrong limit.
    let source = tokio::task::spawn_blocking(move || source.resolved()).await??;
    let (name, sessions) = (source.name.clone(), source.limits.sessions);
    let listener = TcpListener::bind(options.address()).await;
    let listener =
        listener.map_err(|error| format!("cannot listen on {}: {error}", options.address()))?;
    let address = listener.local_addr()?;
    let mut server = Server::builder()
        .http2_keepalive_interval(Some(SIGN_OF_LIFE))
        .http2_keepalive_timeout(Some(SIGN_OF_LIFE));
    let scheme = if tls.is_some() { "grpc+tls" } else { "grpc" };
    if let Some(tls) = tls {
        server = server.tls_config(tls)?;
    }
    let (mut term, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    println!("serving {name} on {scheme}://{address} (Arrow Flight SQL)");
    std::io::stdout().flush()?;
    let flight = FlightServiceServer::new(Door::new(Service, token))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(usize::MAX);
    let connections = incoming(listener, Shared::new(source), sessions);
    let serve = server.add_service(flight).serve_with_incoming(connections);
    tokio::select! {
        done = serve => done?,
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
