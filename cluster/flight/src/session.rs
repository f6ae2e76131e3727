//! A client's session: [`Session`], which its connection opens with its first call
//! ([`Client::session`]).
//!
//! A session is a snapshot in this process. Each statement moves it to the newest shared state
//! first, unless a transaction is open ([`call`](crate::call)). GetFlightInfo plans a statement and
//! starts it; its rows wait under a ticket until DoGet reads them, from the state that they were
//! started from. The session ends with its connection, and all that it computes with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parking_lot::Mutex;
use swingdb::plain_rows::plain_schema;
use swingdb::{InterruptHandle, QueryResult};
use swingdb_server::session::{Session as Snapshot, Source};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::parameters::Parameters;
use crate::rows::{Answer, stream};
use crate::status::of_database;

/// Results of a session that wait or are being read, and prepared statements, at most.
pub const MAX_RESULTS: usize = 100;
const MAX_PREPARED: usize = 10_000;
/// What the prepared statements of a session may take, their texts and values.
const MAX_PREPARED_BYTES: usize = 256 << 20;
/// How long a result waits for its reader, at least.
const RESULT_WAITS: Duration = Duration::from_secs(300);
/// What `version()` is.
const VERSION: &str = concat!("SwingDB ", env!("CARGO_PKG_VERSION"));

/// What all connections of a server share.
pub struct Shared {
    source: Source,
    places: Arc<Semaphore>,
}

impl Shared {
    /// Of a database, whose limits say how many sessions there may be.
    pub fn new(source: Source) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(source.limits.sessions.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self { source, places })
    }
}

/// A connection of a client. Its session begins with its first call, and ends with it.
pub struct Client {
    shared: Arc<Shared>,
    session: Mutex<Option<Arc<Session>>>,
    /// Whether it has shown what it has to.
    is_admitted: AtomicBool,
}

impl Client {
    /// A connection without a session.
    pub fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            session: Mutex::default(),
            is_admitted: AtomicBool::new(false),
        })
    }

    /// Notes that a call of it was let in.
    pub fn admit(&self) {
        self.is_admitted.store(true, Ordering::Relaxed);
    }

    /// Whether a call of it was let in.
    pub fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Relaxed)
    }

    /// Its session.
    pub async fn session(self: &Arc<Self>) -> Result<Arc<Session>, Status> {
        let client = Arc::clone(self);
        blocking(move || {
            let mut session = client.session.lock();
            if let Some(session) = session.as_ref() {
                return Ok(Arc::clone(session));
            }
            let place = Arc::clone(&client.shared.places).try_acquire_owned().map_err(|_| {
                let most = client.shared.source.limits.sessions;
                let message = format!("there are {most} sessions already (--max-sessions)");
                Status::resource_exhausted(message)
            })?;
            let opened = Session::open(&client.shared.source, place)?;
            Ok(Arc::clone(session.insert(Arc::new(opened))))
        })
        .await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(session) = self.session.get_mut() {
            session.end();
        }
    }
}

/// Runs what blocks on a thread for that.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Status::internal("a defect of the server ended this call")))
}

/// See the [module documentation](self).
pub struct Session {
    pub(crate) snapshot: Snapshot,
    /// The transaction that is open. Who holds it may start statements
    /// ([`Turn`](crate::call::Turn)).
    pub(crate) transaction: Mutex<Option<u64>>,
    is_closed: AtomicBool,
    /// How long a client may read nothing.
    patience: Option<Duration>,
    state: Mutex<State>,
    _place: OwnedSemaphorePermit,
}

#[derive(Default)]
struct State {
    next: u64,
    results: BTreeMap<u64, Waiting>,
    /// What ends the results that are being read; none of one whose rows are there.
    read: BTreeMap<u64, Option<InterruptHandle>>,
    prepared: BTreeMap<u64, Prepared>,
    /// What `prepared` takes.
    prepared_bytes: usize,
}

struct Waiting {
    result: QueryResult,
    since: Instant,
}

/// A statement that is prepared, and its values.
#[derive(Clone)]
pub struct Prepared {
    /// Its text.
    pub sql: String,
    /// The transaction that it was prepared in; empty: none.
    pub transaction: Bytes,
    /// Rows of values for its parameters; none: they are not known yet.
    pub values: Arc<Parameters>,
}

impl Prepared {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.sql.len() + self.transaction.len() + self.values.bytes
    }
}

/// What a statement has given: its columns, and the ticket of its rows.
pub struct Started {
    /// Its columns.
    pub schema: SchemaRef,
    /// With which its rows are read, once.
    pub ticket: Bytes,
}

impl Session {
    fn open(source: &Source, place: OwnedSemaphorePermit) -> Result<Self, Status> {
        let open = || {
            let snapshot = source.session()?;
            snapshot.connection().set_version(VERSION)?;
            Ok(snapshot)
        };
        let snapshot = open().map_err(|error| of_database(&error))?;
        let patience = source.limits.statement_timeout;
        Ok(Self {
            snapshot,
            transaction: Mutex::default(),
            is_closed: AtomicBool::new(false),
            patience,
            state: Mutex::default(),
            _place: place,
        })
    }

    /// How long a client may read nothing, or send nothing.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Whether its connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Ends what runs, and lets nothing start any more.
    fn end(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.snapshot.interrupt_handle().interrupt();
    }

    /// A number that nothing else of the session has.
    pub(crate) fn number(&self) -> u64 {
        self.state.lock().number()
    }

    /// Keeps the rows of a statement until they are read.
    pub(crate) fn keep(&self, result: QueryResult) -> Result<Started, Status> {
        let schema = Arc::new(plain_schema(&result.schema()));
        let mut state = self.state.lock();
        if state.results.len() + state.read.len() >= MAX_RESULTS {
            state.results.retain(|_, waiting| waiting.since.elapsed() < RESULT_WAITS);
        }
        if state.results.len() + state.read.len() >= MAX_RESULTS {
            let message = format!("{MAX_RESULTS} results of this session wait or are being read");
            return Err(Status::resource_exhausted(message));
        }
        let number = state.number();
        state.results.insert(number, Waiting { result, since: Instant::now() });
        Ok(Started { schema, ticket: bytes_of(number) })
    }

    /// Whether results wait or are being read.
    pub(crate) fn has_results(&self) -> bool {
        let state = self.state.lock();
        !state.results.is_empty() || !state.read.is_empty()
    }

    /// Notes that a result is read which has no ticket.
    pub(crate) fn reading(self: &Arc<Self>, result: &QueryResult) -> Reading {
        let mut state = self.state.lock();
        let number = state.number();
        state.read.insert(number, result.interrupt_handle());
        Reading { session: Arc::clone(self), number }
    }

    /// The rows of a ticket.
    pub fn read(self: Arc<Self>, ticket: &[u8]) -> Result<Answer, Status> {
        let missing = || {
            Status::not_found(
                "there is no result of this ticket: results are read once, by the connection that \
                 has asked for them",
            )
        };
        let number = number_of(ticket).ok_or_else(missing)?;
        let mut state = self.state.lock();
        let result = state.results.remove(&number).ok_or_else(missing)?.result;
        state.read.insert(number, result.interrupt_handle());
        drop(state);
        let patience = self.patience;
        Ok(stream(result, patience, Reading { session: self, number }))
    }

    /// Drops a result that waits or is being read; whether there is one.
    pub fn cancel(&self, ticket: &[u8]) -> bool {
        let Some(number) = number_of(ticket) else { return false };
        let mut state = self.state.lock();
        let (waiting, read) = (state.results.remove(&number), state.read.remove(&number));
        if let Some(Some(ends)) = &read {
            ends.interrupt();
        }
        waiting.is_some() || read.is_some()
    }

    /// Keeps a statement; its handle.
    pub fn prepare(&self, prepared: Prepared) -> Result<Bytes, Status> {
        let mut state = self.state.lock();
        if state.prepared.len() >= MAX_PREPARED {
            let message = format!("a session has at most {MAX_PREPARED} prepared statements");
            return Err(Status::resource_exhausted(message));
        }
        state.make_room(0, prepared.bytes())?;
        let number = state.number();
        state.prepared.insert(number, prepared);
        Ok(bytes_of(number))
    }

    /// The statement of a handle.
    pub fn prepared(&self, handle: &[u8]) -> Result<Prepared, Status> {
        let number = number_of(handle);
        let found = number.and_then(|number| self.state.lock().prepared.get(&number).cloned());
        found.ok_or_else(no_statement)
    }

    /// Gives a statement its values.
    pub fn bind(&self, handle: &[u8], values: Parameters) -> Result<(), Status> {
        let number = number_of(handle).ok_or_else(no_statement)?;
        let mut state = self.state.lock();
        let before = state.prepared.get(&number).ok_or_else(no_statement)?.values.bytes;
        state.make_room(before, values.bytes)?;
        if let Some(prepared) = state.prepared.get_mut(&number) {
            prepared.values = Arc::new(values);
        }
        Ok(())
    }

    /// Forgets a statement.
    pub fn close(&self, handle: &[u8]) {
        if let Some(number) = number_of(handle) {
            let mut state = self.state.lock();
            if let Some(prepared) = state.prepared.remove(&number) {
                state.prepared_bytes = state.prepared_bytes.saturating_sub(prepared.bytes());
            }
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Counts what prepared statements take in place of what they took; an error: it is too much.
    fn make_room(&mut self, before: usize, now: usize) -> Result<(), Status> {
        let bytes = self.prepared_bytes.saturating_sub(before).saturating_add(now);
        if bytes > MAX_PREPARED_BYTES && now > before {
            return Err(Status::resource_exhausted(format!(
                "the prepared statements of a session take {} MiB at most, with their parameters",
                MAX_PREPARED_BYTES >> 20
            )));
        }
        self.prepared_bytes = bytes;
        Ok(())
    }
}

/// A result that is being read.
pub(crate) struct Reading {
    session: Arc<Session>,
    number: u64,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.session.state.lock().read.remove(&self.number);
    }
}

fn no_statement() -> Status {
    Status::not_found("there is no such prepared statement in this session")
}

pub(crate) fn bytes_of(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_le_bytes())
}

pub(crate) fn number_of(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_statements_have_a_limit_of_bytes() {
        let mut state = State::default();
        state.make_room(0, MAX_PREPARED_BYTES - 10).unwrap();
        assert!(state.make_room(0, 11).is_err());
        state.make_room(0, 10).unwrap();
        state.make_room(20, 5).unwrap();
        state.make_room(0, 15).unwrap();
        assert_eq!(state.make_room(5, 6).unwrap_err().code(), tonic::Code::ResourceExhausted);
        assert_eq!(state.prepared_bytes, MAX_PREPARED_BYTES);
    }
}
