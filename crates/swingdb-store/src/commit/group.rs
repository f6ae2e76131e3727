//! Group commit: transactions that follow each other closely get to the disk by one write and sync.
//!
//! A database has one write transaction at a time, from its begin to its commit. With a store that
//! each commit waits for, most of that time is the sync. So a transaction that commits while other
//! short statements wait for their turn does not go to the disk itself: it *joins* a group, gives
//! the writer to the next one, and waits. The next begins from its state. The last of them, or
//! whoever takes the writer for something else, publishes the newest state, which has the changes
//! of all: one batch of the log, one publish in memory. Then all of them return.
//!
//! # What holds
//! * Until then [`Store::latest`](crate::Store::latest) is the state before the group: nobody reads
//!   what a power cut could still take away, except the transactions that join the same group
//!   (INV-DB-14).
//! * The group is published by the one that holds the writer, so no transaction is open then. If
//!   that fails, all of them are undone, the last one first, and each gets the error.
//! * A transaction that began from the state of a group ends when the group was published, also
//!   if it has changed nothing or fails: what it tells its caller comes from rows that the disk may
//!   not have yet. It is a member without changes, or publishes the group before it gives up.
//! * Who gives way waits for short statements only: those outside of a transaction that read
//!   nothing but tables of the database, and not many rows. It waits for at most [`MAX_GROUP`] of
//!   them, and lets none begin before it after [`MAX_GROUP_WAIT`]: never for what another client
//!   does between statements.
//! * A process that is killed leaves the state before the group in memory, and that one or the one
//!   after it in the store: as with one commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use swingdb_common::error::{Error, Result};

use crate::catalog::state::Catalog;
use crate::commit::effects::Applied;

/// The most transactions that are published together.
pub(crate) const MAX_GROUP: usize = 64;
/// After this time nobody joins a group any more: it is published by whoever comes next.
pub(crate) const MAX_GROUP_WAIT: Duration = Duration::from_millis(50);

/// What became of a transaction that joined a group: the epoch of the publish.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticket(Arc<Mutex<Option<Result<u64>>>>);

impl Ticket {
    pub fn outcome(&self) -> Option<Result<u64>> {
        self.0.lock().clone()
    }

    fn settle(&self, outcome: Result<u64>) {
        self.0.lock().get_or_insert(outcome);
    }
}

/// A transaction of a group.
struct Member {
    /// `None` when it was undone, or has changed nothing.
    applied: Option<Applied>,
    ticket: Ticket,
}

impl Drop for Member {
    fn drop(&mut self) {
        // Nobody is left waiting, whatever happened.
        self.ticket.settle(Err(Error::Closed { what: "database" }));
    }
}

/// Transactions that are committed, but not published yet, and the state that they have come to.
#[derive(Default)]
pub(crate) struct Group {
    members: Vec<Member>,
    newest: Option<Arc<Catalog>>,
    /// When its first member joined.
    since: Option<Instant>,
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether one more may join.
    pub fn has_room(&self) -> bool {
        self.members.len() < MAX_GROUP && !self.is_due()
    }

    /// Whether its first member has waited long enough.
    pub fn is_due(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= MAX_GROUP_WAIT)
    }

    /// The state that the next transaction begins from, if it is not the published one.
    pub fn newest(&self) -> Option<Arc<Catalog>> {
        self.newest.clone()
    }

    /// Takes in a transaction that has come to the state `catalog`.
    pub fn join(&mut self, catalog: Arc<Catalog>, applied: Applied) -> Ticket {
        self.newest = Some(catalog);
        self.since.get_or_insert_with(Instant::now);
        self.add(Some(applied))
    }

    /// Takes in a transaction that has changed nothing, and that has read the state of the group.
    pub fn attend(&mut self) -> Ticket {
        self.add(None)
    }

    fn add(&mut self, applied: Option<Applied>) -> Ticket {
        let ticket = Ticket::default();
        self.members.push(Member { applied, ticket: ticket.clone() });
        ticket
    }

    /// Nobody knows what has become of it.
    pub fn fail(&mut self, error: &Error) {
        (self.newest, self.since) = (None, None);
        for member in std::mem::take(&mut self.members) {
            member.ticket.settle(Err(error.clone()));
        }
    }

    /// It could not be published: calls `undo` for each change, the last one first.
    pub fn undo(&mut self, error: &Error, mut undo: impl FnMut(Applied)) {
        (self.newest, self.since) = (None, None);
        for mut member in std::mem::take(&mut self.members).into_iter().rev() {
            if let Some(applied) = member.applied.take() {
                undo(applied);
            }
            member.ticket.settle(Err(error.clone()));
        }
    }

    /// The state that has all of it was published.
    pub fn published(&mut self) -> Published {
        (self.newest, self.since) = (None, None);
        Published(std::mem::take(&mut self.members))
    }
}

/// Transactions that were published, until [`Published::tell`]: the new state has to be installed
/// before.
pub(crate) struct Published(Vec<Member>);

impl Published {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets the transactions return; and with them goes what they dropped.
    pub fn tell(self, epoch: u64) {
        self.0.iter().for_each(|member| member.ticket.settle(Ok(epoch)));
    }
}
