//! The sides of a session: its database, and its temporary tables, views and macros.
//!
//! `CREATE TEMP TABLE` makes the second side: a private database called `temp`. To queries it is
//! an attached database whose tables need no qualifier, and go before all others of their name. It
//! is memory of its own, so it is never shared, and goes with the session.
//!
//! A statement changes one side, and reads both. A transaction of the session
//! [spans](super::spanning) them.

use std::sync::Arc;

use parking_lot::Mutex;
use swingdb_common::error::Result;
use swingdb_sql::bind::catalogs::Source;
use swingdb_store::{Catalog, Store};

use crate::database::Database;
use crate::session::transaction::TxnState;

/// What the database of temporary tables is called.
pub(crate) const TEMP: &str = "temp";

/// A database of a session that its statements change.
pub(crate) struct Side {
    database: Database,
    /// The transaction there.
    pub(super) txn: Mutex<TxnState>,
}

impl Side {
    pub(super) fn of(database: Database) -> Arc<Self> {
        Arc::new(Self { database, txn: Mutex::default() })
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Its state as a statement that starts now sees it.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.txn.lock().catalog(self.database.store())
    }

    /// The side as a database that queries read.
    pub(super) fn source(&self, name: &str) -> Source {
        let store = self.database.store().clone();
        Source { name: name.to_string(), catalog: self.catalog(), store }
    }

    /// Does something to the transaction.
    pub(super) fn with<T>(
        &self,
        run: impl FnOnce(&mut TxnState, &Store) -> Result<T>,
    ) -> Result<T> {
        run(&mut self.txn.lock(), self.database.store())
    }
}
