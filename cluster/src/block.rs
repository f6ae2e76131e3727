//! Transactions of several statements: BEGIN, COMMIT and ROLLBACK of a [`Session`].

use std::sync::Arc;

use swingdb::Value;
use swingdb::cutter::{first_words, words};
use swingdb_common::runtime::cancel::{OnThread, to_the_end};

use crate::changes::coordinator::Transaction;
use crate::changes::statement::Change;
use crate::changes::steps::run as run_change;
use crate::client::Kept;
use crate::error::{Error, Result};
use crate::session::{Rows, Session};

/// A transaction of several statements.
#[derive(Default)]
pub(crate) enum Block {
    /// Each statement is one by itself.
    #[default]
    None,
    /// It is open on all nodes.
    Open {
        /// The change.
        transaction: Arc<Transaction>,
        /// The state before it, which the session reads again unless it is committed.
        before: Vec<Vec<Arc<Kept>>>,
    },
    /// A statement failed, and nothing of it is left.
    Failed,
}

pub(crate) fn transaction(message: &str) -> Error {
    Error::Database(swingdb::Error::Transaction { message: message.to_string() })
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Block::Open { transaction, .. } = std::mem::take(&mut *self.block.lock()) {
            transaction.abort();
        }
    }
}

/// Refuses what a transaction would not be: READ ONLY, ISOLATION LEVEL, AND CHAIN.
fn check_words(sql: &str) -> Result<()> {
    const KNOWN: [&str; 5] = ["transaction", "work", "immediate", "exclusive", "deferred"];
    let is_known = |word: &str| KNOWN.iter().any(|known| word.eq_ignore_ascii_case(known));
    match words(sql).skip(1).find(|word| !is_known(word.text)) {
        Some(word) => {
            let word = word.text.to_uppercase();
            Err(Error::Unsupported(format!("{word} in BEGIN, COMMIT and the like")))
        }
        None => Ok(()),
    }
}

/// Transactions of several statements.
impl Session {
    /// Carries out BEGIN, COMMIT and ROLLBACK; `false`: it is another statement.
    pub(crate) fn block_statement(&self, sql: &str) -> Result<bool> {
        let first = first_words(sql, 1).pop().unwrap_or_default();
        let is_in = !matches!(*self.block.lock(), Block::None);
        if ["begin", "start", "commit", "end", "abort"].contains(&first.as_str()) {
            check_words(sql)?;
        }
        match first.as_str() {
            "begin" | "start" if is_in => Err(transaction("there is a transaction already")),
            "begin" | "start" => {
                // From here on nobody else changes anything.
                let transaction = Arc::new(Transaction::begin(self)?);
                let before = self.state().copies.clone();
                *self.block.lock() = Block::Open { transaction, before };
                Ok(true)
            }
            "commit" | "end" | "rollback" | "abort" if !is_in => {
                Err(transaction("there is no transaction"))
            }
            "commit" | "end" => {
                let open = std::mem::take(&mut *self.block.lock());
                let Block::Open { transaction: open, before } = open else {
                    return Err(transaction("a statement of it has failed: it was rolled back"));
                };
                let done = open.commit().and_then(|()| self.see_change(&open));
                if done.is_err() {
                    self.see(before)?;
                }
                done.map(|()| true)
            }
            "rollback" | "abort" => {
                if words(sql).any(|word| word.text.eq_ignore_ascii_case("to")) {
                    return Err(Error::Unsupported("ROLLBACK TO".to_string()));
                }
                self.leave_block(Block::None)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Drops the open transaction, if there is one, and reads the state before it again.
    pub(crate) fn leave_block(&self, next: Block) -> Result<()> {
        let left = std::mem::replace(&mut *self.block.lock(), next);
        let Block::Open { transaction, before } = left else { return Ok(()) };
        transaction.abort();
        self.see(before)
    }

    /// Refuses what follows a failure in a transaction.
    pub(crate) fn check_block(&self) -> Result<()> {
        match *self.block.lock() {
            Block::Failed => Err(transaction("a statement of it has failed: write ROLLBACK")),
            Block::None | Block::Open { .. } => Ok(()),
        }
    }

    /// Moves to the state that the open change has by now, which nobody else sees.
    fn see_open(&self, open: &Transaction) -> Result<()> {
        let (cluster, number) = (self.cluster().clone(), open.number());
        let copies = self.cluster().wait(async move { cluster.hold_open(number).await })?;
        self.see(copies)
    }

    /// Moves to the state after a change of this session's. A node that goes now takes nothing of
    /// the change back.
    fn see_change(&self, committed: &Transaction) -> Result<()> {
        // It is committed, whatever ends the statement now.
        to_the_end(|| self.move_on()).map_err(|error| match error {
            Error::NodeLost { node, .. } | Error::NodeSlow { node, .. } => {
                let message = "it is gone, and this session stays at the state before".to_string();
                Error::Undelivered { change: committed.number().to_string(), node, message }
            }
            other => other,
        })
    }

    pub(crate) fn change_by(&self, change: &Change, parameters: &[Value]) -> Result<Rows> {
        // An interrupt and `statement_timeout` end it, at the nodes too.
        let token = self.connection().token_beside();
        let _working = OnThread::of(&token);
        let open = match &*self.block.lock() {
            Block::None => None,
            Block::Failed => {
                return Err(transaction("a statement of it has failed: write ROLLBACK"));
            }
            Block::Open { transaction, .. } => Some(Arc::clone(transaction)),
        };
        let Some(open) = open else {
            let (open, changed) = run_change(self, change, parameters)?;
            self.see_change(&open)?;
            return Ok(self.changed(changed));
        };
        let done = open.carry_out(self, change, parameters);
        match done.and_then(|done| self.see_open(&open).map(|()| done)) {
            Ok(done) => Ok(self.changed(done)),
            Err(error) => {
                self.leave_block(Block::Failed)?;
                Err(error)
            }
        }
    }
}
