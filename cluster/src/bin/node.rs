//! `swingdb-node`: serves databases to coordinators of a cluster until SIGTERM or SIGINT.

use std::io::Write;
use std::sync::Arc;

use clap::Parser;
use swingdb_cluster::client::{Client, Limits};
use swingdb_cluster::node::Node;
use swingdb_cluster::node::options::Options;
use swingdb_cluster::node::service::{AskToken, Service};
use swingdb_cluster::node::worker::worker;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

/// Stack of a thread: plans are walked by recursion.
const STACK_BYTES: usize = 32 << 20;

fn main() {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(&options)),
        Err(error) => Err(error.into()),
    };
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

async fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    options.check()?;
    let token = options.token()?;
    let client = Client::new(token.as_deref(), Limits::default())?;
    let (home, writes) = (options.home.clone(), options.writes.clone());
    let node = tokio::task::spawn_blocking(move || Node::new(home, token, &writes)).await??;
    let node = Arc::new(node);
    let listener = tokio::net::TcpListener::bind(options.listen).await?;
    println!("listening on {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ask = AskToken(Arc::clone(&node));
    let flight = Service(Arc::clone(&node)).into_server();
    let plans = worker(&node, &client).into_worker_server();
    let serve = Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(client.limits().silence / 2))
        .http2_keepalive_timeout(Some(client.limits().silence / 2))
        .add_service(InterceptedService::new(flight, ask.clone()))
        .add_service(InterceptedService::new(plans, ask))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::select! {
        done = serve => done?,
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
