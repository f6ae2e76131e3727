//! Accepting connections: [`Server`].
//!
//! Each connection has a thread, and there are few of both. A connection that does nothing is
//! closed after some seconds ([`super::http`]).

use super::api;
use super::guard::{Guard, Token};
use super::http::{Broken, Response, Wire};
use super::state::State;
use std::io::Result as IoResult;
use std::net::SocketAddr;
use std::sync::Arc;
use swingdb::accept::{Acceptor, Stop};

/// The most connections at a time. A browser opens six.
const MAX_CONNECTIONS: usize = 64;
/// The most requests of a connection: after them the client opens another one.
const MAX_REQUESTS: usize = 10_000;
/// What is said when a connection panics.
const DEFECT: &str = "swingdb ui: a connection was ended by a defect of the program";

/// A listening server.
pub struct Server {
    acceptor: Acceptor,
    state: Arc<State>,
    guard: Arc<Guard>,
}

impl Server {
    /// Listens at an address.
    pub fn bind(address: SocketAddr, state: Arc<State>, token: Token) -> IoResult<Self> {
        let acceptor = Acceptor::bind(address, MAX_CONNECTIONS)?;
        Ok(Server { acceptor, state, guard: Arc::new(Guard::new(token)) })
    }

    /// Where it listens.
    pub fn address(&self) -> IoResult<SocketAddr> {
        self.acceptor.address()
    }

    /// A handle that ends it.
    pub fn stopper(&self) -> IoResult<Stop> {
        self.acceptor.stopper()
    }

    /// Accepts connections until it is stopped.
    pub fn run(&self) {
        let (state, guard) = (Arc::clone(&self.state), Arc::clone(&self.guard));
        let serve = move |stream| converse(&state, &guard, Wire::new(stream));
        self.acceptor.run("connection", DEFECT, serve);
    }
}

/// Answers the requests of a connection.
fn converse(state: &Arc<State>, guard: &Guard, mut wire: Wire) {
    for count in 1..=MAX_REQUESTS {
        let (response, keeps) = match wire.request() {
            Ok(request) => {
                let response = api::answer(state, guard, &request);
                (response, request.keeps && count < MAX_REQUESTS)
            }
            Err(Broken::Refused(status, reason)) => (Response::error(status, reason), false),
            Err(Broken::Closed) => return,
        };
        if wire.respond(&response, keeps).is_err() {
            return;
        }
        if !keeps {
            return wire.close();
        }
    }
}
