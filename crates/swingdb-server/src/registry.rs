//! Which sessions there are: [`Registry`]. It interrupts their statements, and ends them.
//!
//! A session is in the registry from before its client learns its number until its
//! [`Registration`] is dropped.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use swingdb::{InterruptHandle, Interruptible};

/// The sessions of a server.
pub struct Registry {
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next: i32,
    ending: bool,
    sessions: BTreeMap<i32, Entry>,
}

/// One connection, from its first byte on.
struct Entry {
    socket: TcpStream,
    /// The number that a client shows to interrupt the session.
    secret: i32,
    /// Ends all that the session does.
    statements: Option<InterruptHandle>,
    /// Ends what it does for the message that it answers now.
    answering: Answering,
}

/// The work for a message, while there is one.
type Answering = Arc<Mutex<Option<InterruptHandle>>>;

/// A session's place in the registry; dropped, the place is free.
pub struct Registration {
    registry: Arc<Registry>,
    /// The number by which clients call the session.
    pub number: i32,
    /// The number that they show to interrupt it.
    pub secret: i32,
    answering: Answering,
}

/// Why there is no place for a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Full {
    /// There are as many as there may be.
    TooMany,
    /// The server ends.
    Ending,
}

impl Registry {
    /// A registry of at most so many sessions.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), changed: Condvar::new() })
    }

    /// A place for a connection.
    pub fn enter(self: &Arc<Self>, socket: TcpStream, secret: i32) -> Result<Registration, Full> {
        let mut state = self.state.lock();
        if state.ending {
            return Err(Full::Ending);
        }
        if state.sessions.len() >= self.most {
            return Err(Full::TooMany);
        }
        let mut number = state.next;
        while number <= 0 || state.sessions.contains_key(&number) {
            number = number.checked_add(1).unwrap_or(1);
        }
        state.next = number.wrapping_add(1);
        let answering = Answering::default();
        let entry = Entry { socket, secret, statements: None, answering: Arc::clone(&answering) };
        state.sessions.insert(number, entry);
        Ok(Registration { registry: Arc::clone(self), number, secret, answering })
    }

    /// Interrupts what a session does for the message that it answers, if the secret is its; else
    /// nothing happens. A request that comes late finds no message, or the next one, as with
    /// PostgreSQL. Portals between two messages are left alone.
    pub fn interrupt(&self, number: i32, secret: i32) {
        let state = self.state.lock();
        let entry = state.sessions.get(&number).filter(|entry| entry.secret == secret);
        if let Some(entry) = entry
            && let Some(message) = entry.answering.lock().as_ref()
        {
            message.interrupt();
        }
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.state.lock().sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Refuses new sessions, interrupts all statements, closes all connections, and waits until
    /// the sessions are gone: whether they went in time.
    pub fn end(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.state.lock();
        state.ending = true;
        for entry in state.sessions.values() {
            if let Some(statements) = &entry.statements {
                statements.interrupt();
            }
            // A connection that is gone already needs no end.
            let _ = entry.socket.shutdown(Shutdown::Both);
        }
        while !state.sessions.is_empty() {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return state.sessions.is_empty();
            }
        }
        true
    }
}

impl Registration {
    /// Answers a message, whose statements and results can be interrupted until then.
    pub fn answering<T>(&self, answer: impl FnOnce() -> T) -> T {
        let message = Interruptible::default();
        *self.answering.lock() = Some(message.handle());
        let answered = message.run(answer);
        *self.answering.lock() = None;
        answered
    }

    /// Lets the session's statements be interrupted at the server's end from now on.
    pub fn set_statements(&self, statements: InterruptHandle) {
        let mut state = self.registry.state.lock();
        if let Some(entry) = state.sessions.get_mut(&self.number) {
            entry.statements = Some(statements);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.state.lock().sessions.remove(&self.number);
        self.registry.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn socket() -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    }

    #[test]
    fn places_are_few_and_come_back() {
        let registry = Registry::new(2);
        let first = registry.enter(socket(), 1).unwrap();
        let second = registry.enter(socket(), 2).unwrap();
        assert_ne!(first.number, second.number);
        assert_eq!(registry.enter(socket(), 3).err(), Some(Full::TooMany));
        drop(first);
        let third = registry.enter(socket(), 3).unwrap();
        assert_eq!(registry.len(), 2);
        assert!(!registry.end(Duration::from_millis(1)));
        assert_eq!(registry.enter(socket(), 4).err(), Some(Full::Ending));
        drop((second, third));
        assert!(registry.end(Duration::ZERO) && registry.is_empty());
    }
}
