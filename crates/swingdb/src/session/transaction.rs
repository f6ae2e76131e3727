//! Transactions of a session: BEGIN, COMMIT, ROLLBACK, savepoints, and the atomicity of each
//! statement.
//!
//! A session is *idle* (each statement is a transaction of its own), or inside a transaction that
//! `BEGIN` opened. `BEGIN` is lazy, as in SQLite: it pins the state that statements see, and takes
//! the database's one write transaction with the first statement that changes something. When
//! somebody else has committed in between, that statement fails with [`Error::Transaction`], since
//! what the transaction has read is no longer true; `BEGIN IMMEDIATE` takes the write transaction
//! at once. So transactions that only read never wait and never fail.
//!
//! * Every statement is atomic: an error undoes all of it. Inside a transaction, the transaction
//!   stays open and usable afterwards, as in SQLite (and unlike PostgreSQL, which demands a
//!   ROLLBACK).
//! * A statement reads the state before it: what it writes is seen by the next statement.
//! * In a `READ ONLY` transaction no statement gets the write transaction. Temporary tables are on
//!   another [side](super::side), and can be changed, as in PostgreSQL and DuckDB.
//! * `now()` and the like are the time of BEGIN in all of them, as in DuckDB and PostgreSQL.
//! * COMMIT that fails has changed nothing, and ends the transaction.
//!
//! Concurrency: the state is behind the session's mutex. While a statement writes, the
//! [`WriteTxn`] is taken out of it, so that the queries the statement runs can look up the catalog.

use std::sync::Arc;

use chrono::{DateTime, SubsecRound, Utc};
use parking_lot::Mutex;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_sql::check::SqlChecker;
use swingdb_store::{Catalog, Savepoint, Store, WriteTxn};

/// Savepoints a transaction may have at one time.
const MAX_SAVEPOINTS: usize = 1_000;

/// What a session knows about its transaction.
#[derive(Default)]
pub(crate) struct TxnState {
    phase: Phase,
    /// Named savepoints, oldest first; `None` inside: made before the first change.
    savepoints: Vec<(String, Option<Savepoint>)>,
    /// When the last transaction was opened.
    begun: Option<DateTime<Utc>>,
    /// Why the session changes nothing, if it may not.
    pub(crate) refusal: Option<String>,
    /// Whether the transaction that is open may not change anything.
    read_only: bool,
}

/// How a transaction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The write transaction is taken by the first change.
    Deferred,
    /// It is taken at once.
    Immediate,
    /// No statement may change anything.
    ReadOnly,
}

#[derive(Default)]
enum Phase {
    /// No transaction is open.
    #[default]
    Idle,
    /// `BEGIN` was run and nothing changed yet; statements see this state.
    Reading(Arc<Catalog>),
    /// The transaction has changed something, or was begun IMMEDIATE.
    Writing(Box<WriteTxn>),
    /// A statement is running with the write transaction in its hands. `open`: inside BEGIN ...
    /// COMMIT.
    Lent { before: Arc<Catalog>, open: bool },
}

impl TxnState {
    /// The state of the database that a statement starting now sees.
    pub(crate) fn catalog(&self, store: &Store) -> Arc<Catalog> {
        match &self.phase {
            Phase::Idle => store.latest(),
            Phase::Reading(catalog) => Arc::clone(catalog),
            Phase::Writing(txn) => txn.view(),
            Phase::Lent { before, .. } => Arc::clone(before),
        }
    }

    /// Whether `BEGIN` has opened a transaction that is not finished yet.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Lent { open: false, .. })
    }

    /// When `BEGIN` opened the transaction that is not finished yet.
    pub(crate) fn begun(&self) -> Option<DateTime<Utc>> {
        self.begun.filter(|_| self.is_open())
    }

    /// BEGIN.
    pub(crate) fn begin(&mut self, store: &Store, how: Begin) -> Result<()> {
        if self.is_open() {
            return Err(Error::transaction(
                "a transaction is open already; COMMIT or ROLLBACK it first, or use SAVEPOINT",
            ));
        }
        if how == Begin::Immediate {
            self.check_writable()?;
        }
        self.savepoints.clear();
        self.phase = match how {
            Begin::Immediate => Phase::Writing(Box::new(begin(store, Length::Any)?)),
            Begin::Deferred | Begin::ReadOnly => Phase::Reading(store.latest()),
        };
        self.read_only = how == Begin::ReadOnly;
        // As exact as a column that keeps it.
        self.begun = Some(Utc::now().trunc_subsecs(6));
        Ok(())
    }

    /// Opens a transaction that reads a state, and changes nothing.
    pub(crate) fn pin(&mut self, catalog: Arc<Catalog>) {
        self.savepoints.clear();
        self.phase = Phase::Reading(catalog);
        self.read_only = true;
        self.begun = Some(Utc::now().trunc_subsecs(6));
    }

    /// Opens a transaction if the session's is open, with the same savepoints.
    pub(crate) fn join(&mut self, of: &Self, store: &Store) -> Result<()> {
        if of.is_open() {
            self.begin(store, Begin::Deferred)?;
            self.savepoints = of.savepoints.iter().map(|(name, _)| (name.clone(), None)).collect();
        }
        Ok(())
    }

    /// COMMIT. On an error nothing was committed, and the transaction is over.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.require_open("COMMIT")?;
        self.savepoints.clear();
        match std::mem::take(&mut self.phase) {
            Phase::Writing(txn) => txn.commit().map(drop),
            _ => Ok(()),
        }
    }

    /// Does what of COMMIT takes memory; the transaction stays open.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        match &mut self.phase {
            Phase::Writing(txn) => txn.prepare(),
            _ => Ok(()),
        }
    }

    /// ROLLBACK.
    pub(crate) fn rollback(&mut self) -> Result<()> {
        self.require_open("ROLLBACK")?;
        self.savepoints.clear();
        if let Phase::Writing(txn) = std::mem::take(&mut self.phase) {
            txn.rollback();
        }
        Ok(())
    }

    /// SAVEPOINT. An older savepoint of the same name is hidden until this one is released.
    pub(crate) fn savepoint(&mut self, name: &str) -> Result<()> {
        self.require_open("SAVEPOINT")?;
        if self.savepoints.len() >= MAX_SAVEPOINTS {
            let message = format!("more than {MAX_SAVEPOINTS} savepoints in one transaction");
            return Err(Error::transaction(message));
        }
        let point = match &mut self.phase {
            Phase::Writing(txn) => Some(txn.savepoint()),
            _ => None,
        };
        self.savepoints.push((name.to_string(), point));
        Ok(())
    }

    /// ROLLBACK TO: undoes what came after the savepoint, which stays.
    pub(crate) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let index = self.find(name, "ROLLBACK TO")?;
        if let (Phase::Writing(txn), Some(point)) = (&mut self.phase, &self.savepoints[index].1) {
            txn.rollback_to(point)?;
        }
        self.savepoints.truncate(index + 1);
        Ok(())
    }

    /// RELEASE: forgets the savepoint and those after it, keeps the changes.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let index = self.find(name, "RELEASE")?;
        self.savepoints.truncate(index);
        Ok(())
    }

    fn require_open(&self, what: &str) -> Result<()> {
        match self.phase {
            Phase::Reading(_) | Phase::Writing(_) => Ok(()),
            _ => Err(Error::transaction(format!("{what}: no transaction is open"))),
        }
    }

    fn find(&self, name: &str, what: &str) -> Result<usize> {
        self.require_open(what)?;
        let found = self.savepoints.iter().rposition(|(n, _)| n.eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let known = self.savepoints.iter().map(|(n, _)| n.as_str());
            Error::not_found(ObjectKind::Other, name, known)
        })
    }

    fn check_writable(&self) -> Result<()> {
        match &self.refusal {
            Some(why) => Err(Error::transaction(why.clone())),
            None => Ok(()),
        }
    }

    /// Takes the write transaction for one statement.
    fn lend(&mut self, store: &Store, length: Length) -> Result<WriteTxn> {
        self.check_writable()?;
        if self.read_only && self.is_open() {
            return Err(Error::transaction(
                "the transaction is READ ONLY, and the statement changes the database",
            ));
        }
        let (txn, open) = match std::mem::take(&mut self.phase) {
            Phase::Idle => (begin(store, length)?, false),
            Phase::Writing(txn) => (*txn, true),
            Phase::Reading(catalog) => match upgrade(store, &catalog) {
                Ok(mut txn) => {
                    self.savepoints.iter_mut().for_each(|(_, p)| *p = Some(txn.savepoint()));
                    (txn, true)
                }
                Err(error) => {
                    self.phase = Phase::Reading(catalog);
                    return Err(error);
                }
            },
            lent @ Phase::Lent { .. } => {
                self.phase = lent;
                return Err(Error::internal("a statement started while another one was writing"));
            }
        };
        self.phase = Phase::Lent { before: txn.view(), open };
        Ok(txn)
    }
}

/// How long a statement may take, as far as that is known before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// It has all its rows in its text, or reads few rows and nothing but tables of the database.
    /// Where each commit waits for a disk, others that have committed let such a statement go
    /// first, and share its sync (`swingdb-store/src/commit/group.rs`).
    Short,
    Any,
}

/// A write transaction that knows what CHECK constraints mean.
fn begin(store: &Store, length: Length) -> Result<WriteTxn> {
    let mut txn = match length {
        Length::Short => store.begin_short()?,
        Length::Any => store.begin()?,
    };
    txn.enforce(&SqlChecker);
    Ok(txn)
}

/// From the pinned state to a write transaction that starts from the very same state.
fn upgrade(store: &Store, pinned: &Arc<Catalog>) -> Result<WriteTxn> {
    let txn = begin(store, Length::Any)?;
    if txn.base().is_same_state(pinned) {
        return Ok(txn);
    }
    txn.rollback();
    Err(Error::transaction(
        "somebody else committed a change since this transaction began; ROLLBACK and start again, \
         or use BEGIN IMMEDIATE",
    ))
}

/// Runs one statement that changes something: commits it when no transaction is open; undoes all of
/// it on an error, or when `run` panics.
pub(crate) fn with_txn<T>(
    state: &Mutex<TxnState>,
    store: &Store,
    length: Length,
    run: impl FnOnce(&mut WriteTxn) -> Result<T>,
) -> Result<T> {
    let mut txn = state.lock().lend(store, length)?;
    let point = txn.savepoint();
    let mut lent = Lent { state, txn: Some(txn), point: Some(point) };
    let result = match lent.txn.as_mut() {
        Some(txn) => run(txn),
        None => Err(Error::internal("the write transaction is gone")),
    };
    match result {
        Ok(value) => lent.keep().map(|()| value),
        Err(error) => {
            drop(lent);
            Err(error)
        }
    }
}

/// Gives the write transaction back to the session, whatever happens.
struct Lent<'a> {
    state: &'a Mutex<TxnState>,
    txn: Option<WriteTxn>,
    /// The state before the statement.
    point: Option<Savepoint>,
}

impl Lent<'_> {
    /// The statement succeeded.
    fn keep(mut self) -> Result<()> {
        let Some(txn) = self.txn.take() else { return Ok(()) };
        let mut state = self.state.lock();
        if state.is_open() {
            state.phase = Phase::Writing(Box::new(txn));
            return Ok(());
        }
        // Committed outside the phase, so that the session is idle even when the commit fails.
        state.phase = Phase::Idle;
        drop(state);
        // What the statement replaced is freed by the commit when nobody holds it any more.
        self.point = None;
        txn.commit().map(drop)
    }
}

impl Drop for Lent<'_> {
    /// The statement failed.
    fn drop(&mut self) {
        let Some(mut txn) = self.txn.take() else { return };
        let mut state = self.state.lock();
        let undo = |point: &Savepoint| txn.rollback_to(point).is_ok();
        if state.is_open() && self.point.as_ref().is_some_and(undo) {
            state.phase = Phase::Writing(Box::new(txn));
        } else {
            // Autocommit: nothing happened. Inside a transaction whose statement could not be
            // undone, the only safe state is the one before BEGIN.
            state.phase = Phase::Idle;
            drop(state);
            txn.rollback();
        }
    }
}
