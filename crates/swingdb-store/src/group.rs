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
//! * Until then [`Store::latest`] is the state before the group: nobody reads what a power cut
//!   could still take away, except the transactions that join the same group (INV-DB-14).
//! * The group is published by the one that holds the writer, so no transaction is open then. If
//!   that fails, all of them are undone, the last one first, and each gets the error.
//! * Who gives way waits for short statements only (`INSERT ... VALUES` outside of a transaction),
//!   and for at most [`MAX_GROUP`] of them: never for what another client does between statements.
//! * A process that is killed leaves the state before the group in memory, and that one or the one
//!   after it in the store: as with one commit.

use std::sync::Arc;

use parking_lot::Mutex;
use swing::Publish;
use swingdb_common::error::{Error, Result};

use super::catalog::Catalog;
use super::commit::{Applied, Writer};
use super::handle::Store;
use super::unique::Indexes;

/// The most transactions that are published together.
pub(super) const MAX_GROUP: usize = 64;

/// What became of a transaction that joined a group: the epoch of the publish.
#[derive(Debug, Clone, Default)]
pub(super) struct Ticket(Arc<Mutex<Option<Result<u64>>>>);

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
    /// `None` when it was undone.
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
pub(super) struct Group {
    members: Vec<Member>,
    newest: Option<Arc<Catalog>>,
}

impl Group {
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether one more may join.
    pub fn has_room(&self) -> bool {
        self.members.len() < MAX_GROUP
    }

    /// The state that the next transaction begins from, if it is not the published one.
    pub fn newest(&self) -> Option<Arc<Catalog>> {
        self.newest.clone()
    }

    /// Takes in a transaction that has come to the state `catalog`.
    pub fn join(&mut self, catalog: Arc<Catalog>, applied: Applied) -> Ticket {
        let ticket = Ticket::default();
        self.members.push(Member { applied: Some(applied), ticket: ticket.clone() });
        self.newest = Some(catalog);
        ticket
    }

    /// The state that has all of it was published.
    pub fn published(&mut self) -> Published {
        self.newest = None;
        Published(std::mem::take(&mut self.members))
    }
}

/// Transactions that were published, until [`Published::tell`]: the new state has to be installed
/// before.
pub(super) struct Published(Vec<Member>);

impl Published {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets the transactions return; and with them goes what they dropped.
    pub fn tell(self, epoch: u64) {
        self.0.iter().for_each(|member| member.ticket.settle(Ok(epoch)));
    }
}

impl Writer {
    /// The group could not be published: the state is the one before it.
    pub(super) fn undo_group(&mut self, error: &Error) {
        if self.group.is_empty() {
            return;
        }
        self.group.newest = None;
        for mut member in std::mem::take(&mut self.group.members).into_iter().rev() {
            if let Some(applied) = member.applied.take() {
                self.undo(applied);
            }
            member.ticket.settle(Err(error.clone()));
        }
        // They describe the group's state; each is built anew when it is needed.
        self.unique = Indexes::default();
    }
}

impl Store {
    /// Publishes the group that the writer has.
    pub(super) fn flush(&self, writer: &mut Writer) {
        let (Some(newest), Some(ground)) = (writer.group.newest(), writer.ground.clone()) else {
            return;
        };
        match writer.publish(&ground, &newest, Publish::Committed) {
            Ok(epoch) => {
                let published = writer.group.published();
                self.install(newest);
                published.tell(epoch);
            }
            Err(error) => writer.undo_group(&error),
        }
        self.wake_told();
    }
}
