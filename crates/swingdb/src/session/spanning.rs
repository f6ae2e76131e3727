//! Transactions of a session, which span its [sides](super::side).
//!
//! BEGIN, COMMIT, ROLLBACK and savepoints are carried out on both sides. The session's database
//! comes first, because its COMMIT may fail; temporary tables are then as they were before BEGIN.
//! They need no protection from crashes, since they do not outlive their process.

use std::sync::Arc;

use swingdb_common::error::Result;
use swingdb_store::Store;

use crate::database::Database;
use crate::session::Session;
use crate::session::side::Side;
use crate::session::transaction::{Begin, TxnState};

impl Session {
    /// The side of temporary tables, made if there is none. It joins the transaction that is open.
    pub(crate) fn make_temp(&self) -> Result<Arc<Side>> {
        let mut temp = self.conversation.temp.lock();
        if let Some(side) = &*temp {
            return Ok(Arc::clone(side));
        }
        let database = match self.database().home() {
            Some(home) => Database::private_in(home)?,
            None => Database::private()?,
        };
        let made = Side::of(database);
        made.with(|txn, store| txn.join(&self.conversation.main.txn.lock(), store))?;
        *temp = Some(Arc::clone(&made));
        Ok(made)
    }

    /// BEGIN. `how` is about the session's database; temporary tables can always be changed.
    pub(crate) fn begin(&self, how: Begin) -> Result<()> {
        self.conversation.main.with(|txn, store| txn.begin(store, how))?;
        self.in_temp(|txn, store| txn.begin(store, Begin::Deferred))
    }

    /// COMMIT. On an error nothing was committed, and the transaction is over.
    pub(crate) fn commit(&self) -> Result<()> {
        match self.conversation.main.with(|txn, _| txn.commit()) {
            Ok(()) => self.in_temp(|txn, _| txn.commit()),
            Err(error) => {
                self.in_temp(|txn, _| if txn.is_open() { txn.rollback() } else { Ok(()) })?;
                Err(error)
            }
        }
    }

    /// ROLLBACK.
    pub(crate) fn rollback(&self) -> Result<()> {
        self.on_both(TxnState::rollback)
    }

    /// SAVEPOINT.
    pub(crate) fn savepoint(&self, name: &str) -> Result<()> {
        self.on_both(|txn| txn.savepoint(name))
    }

    /// ROLLBACK TO.
    pub(crate) fn rollback_to(&self, name: &str) -> Result<()> {
        self.on_both(|txn| txn.rollback_to(name))
    }

    /// RELEASE.
    pub(crate) fn release(&self, name: &str) -> Result<()> {
        self.on_both(|txn| txn.release(name))
    }

    fn on_both(&self, run: impl Fn(&mut TxnState) -> Result<()>) -> Result<()> {
        self.conversation.main.with(|txn, _| run(txn))?;
        self.in_temp(|txn, _| run(txn))
    }

    fn in_temp(&self, run: impl FnOnce(&mut TxnState, &Store) -> Result<()>) -> Result<()> {
        self.temp().map_or(Ok(()), |temp| temp.with(run))
    }
}
