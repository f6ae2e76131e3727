//! Transactions of a session, which span its [sides](super::side).
//!
//! BEGIN, COMMIT, ROLLBACK and savepoints are carried out on both sides. COMMIT prepares temporary
//! tables first: that may want memory. Then it commits the session's database, which may fail, too;
//! either way temporary tables are then as they were before BEGIN. At last it commits these, which
//! cannot fail any more, and nothing interrupts it. They need no protection from crashes, since
//! they do not outlive their process.

use std::sync::Arc;

use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::to_the_end;
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

    /// A session that reads what this one's next statement would read, also of a transaction that
    /// is open. What this one does afterwards does not concern it.
    pub(crate) fn pinned(&self) -> Self {
        let pinned = Self::new(self.database().clone());
        pinned.conversation.main.txn.lock().pin(self.conversation.main.catalog());
        pinned
    }

    /// BEGIN. `how` is about the session's database; temporary tables can always be changed.
    pub(crate) fn begin(&self, how: Begin) -> Result<()> {
        self.conversation.main.with(|txn, store| txn.begin(store, how))?;
        self.in_temp(|txn, store| txn.begin(store, Begin::Deferred))
    }

    /// COMMIT. On an error nothing was committed, and the transaction is over.
    pub(crate) fn commit(&self) -> Result<()> {
        let main = &self.conversation.main;
        let prepared = self.in_temp(|txn, _| txn.prepare());
        match prepared.and_then(|()| main.with(|txn, _| txn.commit())) {
            Ok(()) => to_the_end(|| self.in_temp(|txn, _| txn.commit())),
            Err(error) => {
                let end = |txn: &mut TxnState| if txn.is_open() { txn.rollback() } else { Ok(()) };
                self.on_both(end)?;
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
