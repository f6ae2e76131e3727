//! The prepared statements and portals of a session: [`Extended`].

use std::collections::BTreeMap;

use swingdb::Value;
use swingdb::cutter::first_words;

use crate::postgres::copy_out::CopyOut;
use crate::postgres::rows::Rows;
use crate::postgres::types::PgType;

/// The most prepared statements of a session, and the most portals.
pub(super) const MAX_NAMES: usize = 10_000;

/// A prepared statement.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) sql: String,
    /// The types that the client has declared; 0: none.
    pub(super) declared: Vec<u32>,
    /// The types of all parameters, where they could be found out.
    pub(super) inferred: Vec<Option<PgType>>,
    /// The types of its columns, as the client has been told; it reads rows by them.
    pub(super) told: Option<Vec<u32>>,
}

/// A prepared statement with values.
pub(super) struct Portal {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
    pub(super) formats: Vec<i16>,
    pub(super) told: Option<Vec<u32>>,
    pub(super) run: Run,
}

/// How far a portal is.
pub(super) enum Run {
    /// Not begun.
    Waiting,
    /// Rows are being sent.
    Rows(Box<Rows>),
    /// Rows are to be copied to the client.
    Copy(Box<(CopyOut, Rows)>),
    /// A statement without rows has been carried out; its tag.
    Changed(String),
    /// All is sent; the tag.
    Done(String),
}

/// The prepared statements and portals of a session.
#[derive(Default)]
pub struct Extended {
    pub(super) statements: BTreeMap<String, Prepared>,
    pub(super) portals: BTreeMap<String, Portal>,
    skipping: bool,
    /// Whether the state of this group of messages has been settled.
    pub(super) is_fresh: bool,
}

impl Extended {
    /// A query message: what has no name ends.
    pub fn begin_query(&mut self) {
        self.statements.remove("");
        self.portals.remove("");
        self.is_fresh = false;
    }

    /// The end of a group of messages. Portals end with the transaction.
    pub fn sync(&mut self, in_transaction: bool) {
        self.skipping = false;
        self.is_fresh = false;
        if !in_transaction {
            self.portals.clear();
        }
    }

    /// Whether messages are skipped, after an error.
    pub fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Skips messages up to the next Sync.
    pub fn skip(&mut self) {
        self.skipping = true;
    }

    /// Forgets the prepared statements that a DEALLOCATE names; whether there were any.
    pub fn deallocate(&mut self, statement: &str) -> bool {
        let words = first_words(statement, 3);
        let name = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["deallocate", "all"] | ["deallocate", "prepare", "all"] => {
                self.statements.clear();
                return true;
            }
            _ => statement.trim().rsplit(char::is_whitespace).next().unwrap_or_default(),
        };
        let name = name.trim_matches('"');
        self.statements.remove(name).is_some()
    }
}
