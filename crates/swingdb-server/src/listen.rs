//! Accepting connections: [`Server`].
//!
//! Each connection gets a thread; statements compute on the threads of the engine. A panic in one
//! connection ends that connection.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::postgres;
use crate::shared::Shared;

/// How long accepting pauses when the system has no room for a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// The most connections that are open beside those of sessions: clients that have not shown their
/// token yet, and requests to cancel. Further ones are closed at once.
const SPARE: usize = 64;
/// Address space of a connection's thread: the engine plans deep statements on stacks of its own.
const STACK: usize = 4 << 20;

/// A listening server.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    ending: Arc<AtomicBool>,
    /// Connections that are open.
    open: Arc<AtomicUsize>,
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
        Ok(Self { listener, shared, ending: Arc::default(), open: Arc::default() })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle that ends it.
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
        let place = Open::new(&self.open);
        if self.open.load(Ordering::Acquire) > shared.source.limits.sessions.saturating_add(SPARE) {
            return;
        }
        let thread = std::thread::Builder::new().name("session".to_string()).stack_size(STACK);
        let work = move || {
            let _place = place;
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

/// Counts a connection while it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
