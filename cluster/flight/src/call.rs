//! Calls that run statements: [`Call`].
//!
//! The calls of a connection run at the same time, and share a session. Their statements start one
//! after the other ([`Turn`]): what a statement does to the session, and what the server undoes of
//! it, no other statement comes between. Rows are read at the same time.
//!
//! A call that its client gives up ends its statement ([`GivenUp`]). The engine ends all statements
//! of a session at once, so a statement whose rows are not there yet goes on while results of the
//! session wait or are being read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use swingdb::cutter::{first_words, split, words};
use swingdb::plain_rows::plain_schema;
use swingdb::{Connection, InterruptHandle, QueryResult, Value};
use tonic::Status;

use crate::session::{Session, Started, blocking, bytes_of, number_of};
use crate::status::of_database;

/// How often a statement is told to end: it may not have begun when it is told.
const AGAIN: Duration = Duration::from_millis(100);
/// First words of statements about transactions.
const TRANSACTION: [&str; 6] = ["begin", "start", "commit", "end", "rollback", "abort"];

/// See the [module documentation](self).
pub struct Call {
    session: Arc<Session>,
    is_given_up: AtomicBool,
    /// Whether it has the [`Turn`]. Held while its statement is told to end, so that no other one
    /// is told.
    has_turn: Mutex<bool>,
    /// What ends the rows that it reads itself.
    rows: Mutex<Option<InterruptHandle>>,
}

impl Session {
    /// Runs what blocks for a call; if the call is given up, its statements end.
    pub async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Call) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let call = Arc::new(Call {
            session: Arc::clone(self),
            is_given_up: AtomicBool::new(false),
            has_turn: Mutex::new(false),
            rows: Mutex::default(),
        });
        let _guard = GivenUp(Arc::downgrade(&call));
        blocking(move || work(&call)).await
    }
}

/// Ends what a call runs when the client does not wait for it any more. Once the call's work has
/// ended there is no call.
struct GivenUp(Weak<Call>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        let Some(call) = self.0.upgrade() else { return };
        call.is_given_up.store(true, Ordering::SeqCst);
        call.interrupt();
        let (call, running) = (Weak::clone(&self.0), tokio::runtime::Handle::try_current());
        let Ok(running) = running else { return };
        running.spawn(async move {
            while let Some(call) = call.upgrade() {
                call.interrupt();
                drop(call);
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}

impl Call {
    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Waits until no other call starts a statement.
    pub fn turn(&self) -> Result<Turn<'_>, Status> {
        let transaction = self.session.transaction.lock();
        *self.has_turn.lock() = true;
        let turn = Turn { call: self, transaction };
        self.check()?;
        Ok(turn)
    }

    /// An error where nobody waits for an answer.
    fn check(&self) -> Result<(), Status> {
        match self.is_given_up.load(Ordering::SeqCst) || self.session.is_closed() {
            true => Err(Status::cancelled("the call was given up, or its connection has ended")),
            false => Ok(()),
        }
    }

    fn interrupt(&self) {
        if let Some(rows) = self.rows.lock().as_ref() {
            rows.interrupt();
        }
        let has_turn = self.has_turn.lock();
        if *has_turn && (self.session.is_closed() || !self.session.has_results()) {
            self.session.snapshot.interrupt_handle().interrupt();
        }
    }

    /// Runs one statement in the newest shared state, or in that of its transaction.
    pub fn run(
        &self,
        sql: &str,
        values: &[Value],
        transaction: &[u8],
    ) -> Result<QueryResult, Status> {
        let statements = split(sql);
        let count = statements.complete.len() + usize::from(!statements.rest.is_empty());
        if count != 1 {
            let message = format!("a text of one statement is needed, and this one has {count}");
            return Err(Status::invalid_argument(message));
        }
        if first_words(sql, 1).first().is_some_and(|word| TRANSACTION.contains(&word.as_str())) {
            return Err(Status::invalid_argument(
                "transactions are begun and ended by the calls BeginTransaction and \
                 EndTransaction, not by statements",
            ));
        }
        let mut turn = self.turn()?;
        turn.check(transaction)?;
        turn.refresh()?;
        turn.run(sql, values)
    }

    /// Runs a statement, and keeps its rows until they are read.
    pub fn start(
        &self,
        sql: &str,
        values: &[Value],
        transaction: &[u8],
    ) -> Result<Started, Status> {
        let result = self.run(sql, values, transaction)?;
        self.check()?;
        self.session.keep(result)
    }

    /// Runs a statement to its end; the number of rows that it has changed.
    pub fn change(&self, sql: &str, values: &[Value], transaction: &[u8]) -> Result<i64, Status> {
        let result = self.run(sql, values, transaction)?;
        let changed = result.rows_changed();
        let _reading = self.session.reading(&result);
        *self.rows.lock() = result.interrupt_handle();
        self.check()?;
        for batch in result {
            batch.map_err(|error| of_database(&error))?;
        }
        Ok(changed.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)))
    }

    /// The columns of a query, without its rows; none of a statement that is no query.
    pub fn describe(
        &self,
        sql: &str,
        values: &[Value],
        transaction: &[u8],
    ) -> Result<SchemaRef, Status> {
        match is_query(sql) {
            true => Ok(Arc::new(plain_schema(&self.run(sql, values, transaction)?.schema()))),
            false => Ok(Arc::new(Schema::empty())),
        }
    }

    /// Opens a transaction: all that follows sees one state.
    pub fn begin(&self) -> Result<Bytes, Status> {
        let mut turn = self.turn()?;
        if turn.transaction.is_some() {
            return Err(Status::failed_precondition("a session has one transaction at a time"));
        }
        turn.refresh()?;
        turn.run("BEGIN", &[])?;
        let number = self.session.number();
        *turn.transaction = Some(number);
        Ok(bytes_of(number))
    }

    /// Ends a transaction.
    pub fn end(&self, transaction: &[u8], commits: bool) -> Result<(), Status> {
        if transaction.is_empty() {
            return Err(Status::invalid_argument("the transaction that is to end is not named"));
        }
        let mut turn = self.turn()?;
        turn.check(transaction)?;
        turn.run(if commits { "COMMIT" } else { "ROLLBACK" }, &[]).map(drop)
    }
}

/// The right to start statements, one call at a time.
pub struct Turn<'a> {
    call: &'a Call,
    /// The session's transaction, if one is open.
    transaction: MutexGuard<'a, Option<u64>>,
}

impl Turn<'_> {
    /// Runs what takes back a part of a call: also for a call that is given up, whose statements
    /// are told to end.
    pub fn unbroken<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        *self.call.has_turn.lock() = false;
        let done = work(self);
        *self.call.has_turn.lock() = true;
        done
    }

    /// The session's connection to its snapshot.
    pub fn connection(&self) -> &Connection {
        self.call.session.snapshot.connection()
    }

    /// Moves to the newest shared state, unless a transaction is open.
    pub fn refresh(&self) -> Result<(), Status> {
        self.call.session.snapshot.refresh().map_err(|error| of_database(&error))
    }

    pub(crate) fn run(&mut self, sql: &str, values: &[Value]) -> Result<QueryResult, Status> {
        let snapshot = &self.call.session.snapshot;
        let result = snapshot.run(sql, values);
        if !snapshot.in_transaction() {
            *self.transaction = None;
        }
        result.map_err(|error| of_database(&error))
    }

    /// A statement names no transaction, or the one that is open.
    pub(crate) fn check(&self, transaction: &[u8]) -> Result<(), Status> {
        let open = *self.transaction;
        match transaction.is_empty() || open.is_some() && number_of(transaction) == open {
            true => Ok(()),
            false => Err(Status::not_found("there is no such transaction in this session")),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.call.has_turn.lock() = false;
    }
}

/// Whether a statement only reads, so that it can be started to learn its columns.
fn is_query(sql: &str) -> bool {
    let first = first_words(sql, 1);
    let is_group = words(sql).next().is_some_and(|word| word.text == "(");
    let kinds = ["select", "with", "from", "values", "table", "show", "describe", "summarize"];
    let changes = ["insert", "update", "delete", "merge"];
    let has_change = || {
        let mut all = words(sql).map(|word| word.text.to_lowercase());
        all.any(|word| changes.contains(&word.as_str()))
    };
    match first.first() {
        Some(first) if first == "with" => !has_change(),
        Some(first) => kinds.contains(&first.as_str()),
        None => is_group,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_told_from_changes() {
        for sql in ["SELECT 1", " /* a */ from t", "(SELECT 1)", "WITH x AS (SELECT 1) FROM x"] {
            assert!(is_query(sql), "{sql}");
        }
        for sql in [
            "INSERT INTO t VALUES (1)",
            "SET x = 1",
            "BEGIN",
            "EXPLAIN ANALYZE SELECT 1",
            "WITH x AS (SELECT 1) INSERT INTO t FROM x",
            "CREATE TEMP TABLE t (a INT)",
        ] {
            assert!(!is_query(sql), "{sql}");
        }
    }
}
