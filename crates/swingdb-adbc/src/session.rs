//! What connections and their statements share: the [`Session`], and names as SQL quotes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adbc_core::CancelHandle;
use swingdb::{InterruptHandle, Interruptible};

use crate::error::{Result, of_database};

/// The session, and whether its statements commit themselves.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) connection: swingdb::Connection,
    autocommit: Arc<AtomicBool>,
}

impl Session {
    pub(crate) fn new(connection: swingdb::Connection) -> Self {
        Self { connection, autocommit: Arc::new(AtomicBool::new(true)) }
    }

    pub(crate) fn set_autocommit(&self, on: bool) {
        self.autocommit.store(on, Ordering::Relaxed);
    }

    pub(crate) fn autocommits(&self) -> bool {
        self.autocommit.load(Ordering::Relaxed)
    }

    /// Opens the transaction that a statement belongs to.
    pub(crate) fn begin_if_needed(&self) -> Result<()> {
        match self.autocommits() || self.connection.in_transaction() {
            true => Ok(()),
            false => self.connection.begin().map_err(of_database),
        }
    }
}

/// A name as SQL quotes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name of several parts, of which all but the last may be missing.
pub(crate) fn qualified(parts: [Option<&str>; 3]) -> String {
    parts.into_iter().flatten().map(quoted).collect::<Vec<_>>().join(".")
}

/// Ends the work of a statement, or of a connection.
struct Interrupt(InterruptHandle);

impl CancelHandle for Interrupt {
    fn try_cancel(&self) -> Result<()> {
        self.0.interrupt();
        Ok(())
    }
}

/// Ends this work, its results included, and nothing else of the session.
pub(crate) fn cancel_handle(work: &Interruptible) -> Box<dyn CancelHandle> {
    Box::new(Interrupt(work.handle()))
}
