//! `swingdb-node`: serves databases to coordinators of a cluster until SIGTERM or SIGINT.

use std::io::Write;
use std::sync::Arc;

use clap::Parser;
use swingdb::allocator::JEMALLOC_OPTIONS;
use swingdb_cluster::client::{Client, Limits, MAX_HEADER_BYTES};
use swingdb_cluster::node::Node;
use swingdb_cluster::node::aside::{Aside, count_panics};
use swingdb_cluster::node::options::Options;
use swingdb_cluster::node::orphans::take_care;
use swingdb_cluster::node::service::{AskToken, Service};
use swingdb_cluster::node::worker::worker;
use swingdb_listen::incoming;
use tikv_jemalloc_ctl::background_thread;
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

// Nothing but a name that the allocator looks for.
#[allow(unsafe_code)]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: Option<&[u8; JEMALLOC_OPTIONS.len()]> = Some(JEMALLOC_OPTIONS);

/// Stack of a thread: plans are walked by recursion.
const STACK_BYTES: usize = 32 << 20;
/// Threads that do nothing but read and write connections.
const NETWORK_THREADS: usize = 2;

fn main() {
    // Without the thread, memory that queries leave goes back to the system later.
    _ = background_thread::write(true);
    let options = Options::parse();
    count_panics();
    let done = runtimes().map_err(Into::into).and_then(|(network, work)| {
        let done = network.block_on(run(&options, network.handle(), work.handle()));
        // What they still do, nobody waits for.
        network.shutdown_background();
        work.shutdown_background();
        done
    });
    let status = match done {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("swingdb-node: {error}");
            1
        }
    };
    // Parts of plans may compute on for a moment: the exit handlers would race with them.
    swingdb::exit_now(status)
}

/// The threads of the network, and those that compute.
fn runtimes() -> std::io::Result<(Runtime, Runtime)> {
    let mut network = tokio::runtime::Builder::new_multi_thread();
    let network = network.worker_threads(NETWORK_THREADS).thread_name("network").enable_all();
    let mut work = tokio::runtime::Builder::new_multi_thread();
    let work = work.thread_name("work").thread_stack_size(STACK_BYTES).enable_all();
    Ok((network.build()?, work.build()?))
}

async fn run(
    options: &Options,
    network: &Handle,
    work: &Handle,
) -> Result<(), Box<dyn std::error::Error>> {
    options.check()?;
    let token = options.token()?;
    let client = Client::new(token.as_deref(), Limits::default())?.on(network.clone());
    let client = match &options.tls_ca {
        Some(file) => client.encrypted(file)?,
        None => client,
    };
    let mut server = Server::builder();
    if let Some(tls) = options.tls()? {
        server = server.tls_config(tls)?;
    }
    let (home, writes) = (options.home.clone(), options.writes.clone());
    let node = tokio::task::spawn_blocking(move || Node::new(home, token, &writes)).await??;
    let node = Arc::new(node);
    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    println!("listening on {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ask = AskToken(Arc::clone(&node));
    take_care(&node, &client, work);
    let flight = Service::new(Arc::clone(&node), client.clone(), work.clone()).into_server();
    let plans = worker(&node, &client).into_worker_server();
    let serve = server
        .http2_keepalive_interval(Some(client.limits().silence / 2))
        .http2_keepalive_timeout(Some(client.limits().silence / 2))
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .add_service(InterceptedService::new(flight, ask.clone()))
        .add_service(InterceptedService::new(Aside::new(plans, work.clone()), ask))
        .serve_with_incoming(incoming(listener, options.max_connections as usize, || ()));
    tokio::select! {
        done = serve => done?,
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
