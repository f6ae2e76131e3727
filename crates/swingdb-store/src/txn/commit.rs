//! The end of a transaction that is committed.

use std::sync::Arc;

use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::{go_on, to_the_end};

use crate::commit::effects::Effects;
use crate::commit::writer::Committed;
use crate::store::slot::Held;
use crate::txn::transaction::WriteTxn;

impl WriteTxn {
    /// Makes the changes the latest state of the store, and for named databases lasting (a crash of
    /// this process does not lose them). Returns the epoch when something was published.
    pub fn commit(mut self) -> Result<Option<u64>> {
        if Arc::ptr_eq(&self.base, &self.current) {
            return self.end_unchanged();
        }
        self.prepare()?;
        let ended = || Error::internal("the transaction has ended");
        let mut writer = self.writer.take().ok_or_else(ended)?;
        let others_wait = self.store.others_wait();
        let (current, effects) = (self.current.clone(), &mut self.effects);
        let committed = writer.commit(&self.ground, &self.base, current, effects, others_wait);
        to_the_end(|| self.settle(writer, committed))
    }

    /// Does what of a commit takes memory. Where nothing is published, what is left to
    /// [`commit`](Self::commit) does not fail, unless it is interrupted.
    pub fn prepare(&mut self) -> Result<()> {
        self.tidy()?;
        go_on()
    }

    /// What follows a commit, or the attempt at one.
    fn settle(mut self, mut writer: Held, committed: Result<Committed>) -> Result<Option<u64>> {
        match committed {
            Ok(Committed::Joined(ticket)) => {
                writer.unique.commit();
                let store = self.store.clone();
                // The transaction is over for all but its caller; whoever publishes must not find
                // it under way.
                drop(self);
                store.give_back(writer);
                store.wait_published(&ticket).map(Some)
            }
            Ok(Committed::Done(catalog, epoch)) => {
                writer.unique.commit();
                self.base = catalog.clone();
                self.current = catalog.clone();
                let published = writer.group.published();
                self.store.install(catalog);
                if !published.is_empty() {
                    published.tell(epoch.unwrap_or_default());
                    self.store.wake_told();
                }
                // Nobody else holds what was dropped: it can be freed.
                self.effects = Effects::default();
                writer.prepare_share(&self.ground, &self.current);
                self.store.give_back(writer);
                Ok(epoch)
            }
            Err(error) => {
                self.writer = Some(writer);
                // Those that were to be published with it have the error, too.
                self.store.wake_told();
                Err(error)
            }
        }
    }

    /// The end of a transaction that has changed nothing. What it has read of a group it must not
    /// tell before the group is published (INV-DB-14).
    fn end_unchanged(mut self) -> Result<Option<u64>> {
        let grouped = |writer: &mut Held| self.grouped && !writer.group.is_empty();
        let Some(mut writer) = self.writer.take_if(grouped) else { return Ok(None) };
        self.forget(&mut writer);
        let (store, ticket) = (self.store.clone(), writer.group.attend());
        drop(self);
        store.give_back(writer);
        store.wait_published(&ticket).map(|_| None)
    }

    /// Removes segments without live rows, and rewrites those with few.
    fn tidy(&mut self) -> Result<()> {
        let thinned = std::mem::take(&mut self.thinned);
        if thinned.is_empty() {
            return Ok(());
        }
        let all: Vec<(Arc<str>, Arc<str>)> = self
            .current
            .known_entries()
            .filter(|(_, _, entry)| thinned.contains(&entry.id))
            .map(|(schema, name, _)| (schema.clone(), name.clone()))
            .collect();
        for (schema, name) in all {
            let table = self.table_of(&schema, &name)?;
            self.compact(&table, |s| Ok(s.live_rows() * 4 <= s.rows()))?;
        }
        Ok(())
    }
}
