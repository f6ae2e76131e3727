//! Accepting connections: [`Server`].
//!
//! Each connection gets a thread; statements compute on the threads of the engine. A panic in one
//! connection ends that connection.

use std::net::SocketAddr;
use std::sync::Arc;

use swingdb::accept::{Acceptor, Stop};

use crate::postgres;
use crate::shared::Shared;

/// The most connections that are open beside those of sessions: clients that have not shown their
/// token yet, and requests to cancel. Further ones are closed at once.
pub const SPARE: usize = 64;
/// What is said when a connection panics.
const DEFECT: &str = "swingdb-server: a connection was ended by a defect of the server";

/// A listening server.
pub struct Server {
    acceptor: Acceptor,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens at an address.
    pub fn bind(address: SocketAddr, shared: Arc<Shared>) -> std::io::Result<Self> {
        let most = shared.source.limits.sessions.saturating_add(SPARE);
        Ok(Self { acceptor: Acceptor::bind(address, most)?, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.acceptor.address()
    }

    /// A handle that ends it.
    pub fn stopper(&self) -> std::io::Result<Stop> {
        self.acceptor.stopper()
    }

    /// Accepts connections until it is stopped.
    pub fn run(&self) {
        let shared = Arc::clone(&self.shared);
        self.acceptor.run("session", DEFECT, move |stream| postgres::serve(&shared, stream));
    }
}
