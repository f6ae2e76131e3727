//! Transactions of several statements: BEGIN, COMMIT and ROLLBACK of a [`Session`].

use std::sync::Arc;

use swingdb::Value;
use swingdb::cutter::{first_words, words};

use crate::changes::coordinator::Transaction;
use crate::changes::statement::Change;
use crate::changes::steps::run as run_change;
use crate::error::{Error, Result};
use crate::names::{is_same, name_of};
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
        /// The tables that it has changed.
        changed: Vec<String>,
        /// Those that it has made or dropped.
        made: Vec<String>,
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
                *self.block.lock() =
                    Block::Open { transaction, changed: Vec::new(), made: Vec::new() };
                Ok(true)
            }
            "commit" | "end" | "rollback" | "abort" if !is_in => {
                Err(transaction("there is no transaction"))
            }
            "commit" | "end" => {
                let open = std::mem::take(&mut *self.block.lock());
                let Block::Open { transaction: open, .. } = open else {
                    return Err(transaction("a statement of it has failed: it was rolled back"));
                };
                open.commit()?;
                self.see_change(&open)?;
                Ok(true)
            }
            "rollback" | "abort" => {
                if words(sql).any(|word| word.text.eq_ignore_ascii_case("to")) {
                    return Err(Error::Unsupported("ROLLBACK TO".to_string()));
                }
                if let Block::Open { transaction, .. } = std::mem::take(&mut *self.block.lock()) {
                    transaction.abort();
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Refuses to read what the open transaction has changed: snapshots do not show that.
    pub(crate) fn check_block(&self, sql: &str) -> Result<()> {
        match &*self.block.lock() {
            Block::None => Ok(()),
            Block::Failed => Err(transaction("a statement of it has failed: write ROLLBACK")),
            Block::Open { changed, .. } => {
                let is_changed = |word: &str| changed.iter().any(|table| is_same(table, word));
                // A view or a macro may read any table.
                let first =
                    self.state().holds.first().map(|kept| kept.contents.definitions.clone());
                let definitions = first.unwrap_or_default();
                let all = words(sql).chain(definitions.iter().flat_map(|text| words(text)));
                let mut names = all.filter_map(|word| name_of(&word));
                match names.find(|name| is_changed(name)) {
                    Some(table) => Err(Error::Unsupported(format!(
                        "reading {table} in a transaction that has changed it"
                    ))),
                    None => Ok(()),
                }
            }
        }
    }

    /// Moves to the state after a change of this session's. A node that goes now takes nothing of
    /// the change back.
    fn see_change(&self, committed: &Transaction) -> Result<()> {
        self.move_on().map_err(|error| match error {
            Error::NodeLost { node, .. } | Error::NodeSlow { node, .. } => {
                let message = "it is gone, and this session stays at the state before".to_string();
                Error::Undelivered { change: committed.number().to_string(), node, message }
            }
            other => other,
        })
    }

    /// Refuses to change rows of a table that the open transaction has made or dropped: the session
    /// knows the columns and the cut of the one before, by which rows would go to wrong nodes.
    fn check_made(&self, change: &Change) -> Result<()> {
        let Block::Open { made, .. } = &*self.block.lock() else { return Ok(()) };
        let name = change.table().filter(|_| !change.defines_table());
        match name.filter(|name| made.iter().any(|table| is_same(table, name))) {
            Some(table) => Err(Error::Unsupported(format!(
                "changing {table} in the transaction that has made or dropped it"
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn change_by(&self, change: &Change, parameters: &[Value]) -> Result<Rows> {
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
        if matches!(change, Change::Define { .. }) {
            let what = "views, macros, types and ALTER TABLE inside of a transaction";
            return Err(Error::Unsupported(what.to_string()));
        }
        self.check_made(change)?;
        match open.carry_out(self, change, parameters) {
            Ok(done) => {
                if let Block::Open { changed, made, .. } = &mut *self.block.lock() {
                    changed.extend(change.table().map(str::to_string));
                    if change.defines_table() {
                        made.extend(change.table().map(str::to_string));
                    }
                }
                Ok(self.changed(done))
            }
            Err(error) => {
                open.abort();
                *self.block.lock() = Block::Failed;
                Err(error)
            }
        }
    }
}
