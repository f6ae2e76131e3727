//! Accepting connections: [`Server`].
//!
//! Each connection gets a thread; statements compute on the threads of the engine. A panic in one
//! connection ends that connection.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::ServerConfig;

use crate::postgres;
use crate::registry::Registry;
use crate::session::Source;
use crate::token::Token;

/// How long accepting pauses when the system has no room for a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Address space of a connection's thread: the engine plans deep statements on stacks of its own.
const STACK: usize = 4 << 20;

/// What all connections share.
pub struct Shared {
    /// What is served.
    pub source: Source,
    /// What clients have to show; `None`: nothing.
    pub token: Option<Token>,
    /// How TLS is spoken; with it, nobody gets in without.
    pub tls: Option<Arc<ServerConfig>>,
    /// The sessions.
    pub registry: Arc<Registry>,
}

/// A listening server.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    ending: Arc<AtomicBool>,
}

/// Ends a [`Server`] from another thread.
#[derive(Clone)]
pub struct Stop {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
}

impl Stop {
    /// Has [`Server::run`] return.
    pub fn stop(&self) {
        self.ending.store(true, Ordering::Release);
        // Wakes the thread that accepts. Where this fails, the listener is gone already.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

impl Server {
    /// Listens at an address.
    pub fn bind(address: SocketAddr, shared: Arc<Shared>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Ok(Self { listener, shared, ending: Arc::default() })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What ends it.
    pub fn stopper(&self) -> std::io::Result<Stop> {
        let mut address = self.address()?;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        Ok(Stop { address, ending: Arc::clone(&self.ending) })
    }

    /// Accepts connections until it is stopped.
    pub fn run(&self) {
        while !self.ending.load(Ordering::Acquire) {
            match self.listener.accept() {
                Ok(_) if self.ending.load(Ordering::Acquire) => break,
                Ok((stream, _)) => self.serve(stream),
                // The client is gone again, or the process has no room for its connection.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn serve(&self, stream: TcpStream) {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("session".to_string()).stack_size(STACK);
        let work = move || {
            let served = catch_unwind(AssertUnwindSafe(|| postgres::serve(&shared, stream)));
            if served.is_err() {
                eprintln!("swingdb-server: a connection was ended by a defect of the server");
            }
        };
        // Without a thread the stream is dropped, which closes it.
        if thread.spawn(work).is_err() {
            std::thread::sleep(PAUSE);
        }
    }
}
