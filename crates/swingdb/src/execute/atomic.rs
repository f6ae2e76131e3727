//! Statements that change something, as units: all of one happens, or nothing.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use swingdb_common::error::Result;
use swingdb_store::WriteTxn;

use crate::session::transaction::{Begin, Length};
use crate::session::{Session, transaction};

/// What a statement did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Rows inserted, updated or deleted; `None` for statements that do not count rows.
    pub(crate) rows_changed: Option<u64>,
    /// The kind of statement, "INSERT".
    pub(crate) tag: &'static str,
    /// The rows of RETURNING.
    pub(crate) rows: Option<(SchemaRef, Vec<RecordBatch>)>,
}

impl Outcome {
    /// A statement that changed rows.
    pub(crate) fn changed(tag: &'static str, rows: u64) -> Self {
        Self { rows_changed: Some(rows), tag, rows: None }
    }

    /// A statement that does not count rows.
    pub(crate) fn done(tag: &'static str) -> Self {
        Self { rows_changed: None, tag, rows: None }
    }
}

/// Runs `run` as one atomic statement: committed at once when no transaction is open.
pub(crate) fn with_txn<T>(
    session: &Session,
    run: impl FnOnce(&mut WriteTxn) -> Result<T>,
) -> Result<T> {
    with_txn_of(session, Length::Any, run)
}

/// The same, for a statement of which it is known how long it takes.
pub(crate) fn with_txn_of<T>(
    session: &Session,
    length: Length,
    run: impl FnOnce(&mut WriteTxn) -> Result<T>,
) -> Result<T> {
    if session.store().loading().is_some() {
        session.store().takes_changes(session.progress().as_deref())?;
    }
    transaction::with_txn(session.txn(), session.store(), length, |txn| {
        txn.set_threads(session.threads()?);
        txn.set_memory(&session.memory()?);
        // Sequences are of the session's own database.
        if session.changes_temp() {
            return run(txn);
        }
        let numbers = session.numbers();
        let taking = numbers.begin(txn.view());
        let value = run(txn)?;
        for (schema, moved) in taking.moved() {
            txn.advance_sequence(&schema, moved)?;
        }
        Ok(value)
    })
}

/// Runs statements of which an error undoes all: in a transaction of their own, or behind a
/// savepoint of the one that is open.
pub(crate) fn all_or_nothing<T>(
    session: &Session,
    savepoint: &str,
    run: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let is_open = session.in_transaction();
    match is_open {
        true => session.savepoint(savepoint)?,
        false => session.begin(Begin::Immediate)?,
    }
    let undo = Undo { session, savepoint, is_open };
    let value = run()?;
    undo.keep()?;
    Ok(value)
}

/// Undoes the statements when it is dropped.
struct Undo<'a> {
    session: &'a Session,
    savepoint: &'a str,
    is_open: bool,
}

impl Undo<'_> {
    fn keep(self) -> Result<()> {
        let kept = match self.is_open {
            true => self.session.release(self.savepoint),
            false => self.session.commit(),
        };
        std::mem::forget(self);
        kept
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        let Self { session, savepoint, is_open } = self;
        // Fails only where the transaction is over, and with it what it has done.
        let _ = match is_open {
            true => session.rollback_to(savepoint).and_then(|()| session.release(savepoint)),
            false => session.rollback(),
        };
    }
}
