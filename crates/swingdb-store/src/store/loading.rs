//! A database that was opened from its store, until all of it is in memory.
//!
//! Its own process reads and changes it from the first moment: what a statement needs and is not in
//! memory comes from the store then. Nobody else sees it yet: a state is published in memory when
//! all its bytes are there, and that is what [`Store::finish_loading`] does; the first share waits
//! for it. A thread reads the rest in the background.
//!
//! The share cannot go ahead of the bytes. A snapshot is a mapping of the area, which takes no
//! memory of its own and goes on when the owner is gone; bytes that come later would have to come
//! from the owner's log, whose room the owner alone keeps. So the share reads what is missing on
//! all cores, tells how far it is, and ends when its statement is to end: then nothing is
//! published, and what has come stays for the next one.
//!
//! Until then a commit goes to the store alone, also where the store follows in intervals: if the
//! process dies, the store has what it has committed, and memory has what it had before the
//! database was opened, or nothing. With durability `manual` nothing may go to the store before a
//! CHECKPOINT, so changes wait until the state is published.

use std::sync::{Arc, Weak};

use swing::Publish;
use swingdb_common::error::{Error, Result};
use swingdb_common::progress::Progress;
use swingdb_common::runtime::cancel::to_the_end;
use swingdb_common::runtime::threads;

use crate::catalog::link::Durability;
use crate::commit::writer::Writer;
use crate::durable::loading::Loading;
use crate::store::handle::{Inner, Store};

impl Store {
    /// Reads what is missing, and publishes the state in memory.
    pub(crate) fn finish_loading(
        &self,
        loading: &Loading,
        progress: Option<&dyn Progress>,
    ) -> Result<()> {
        let _one = loading.turn(progress)?;
        if self.inner.loading.lock().is_none() {
            return Ok(());
        }
        // Somebody waits for it.
        loading.read_all(threads::cores(), progress)?;
        let mut writer = self.take_slot()?;
        let published = to_the_end(|| publish(self, &mut writer));
        if published.is_ok() {
            *self.inner.loading.lock() = None;
            loading.close();
        }
        self.give_back(writer);
        published
    }

    /// Reads what is missing in the background, and publishes the state then.
    pub(crate) fn start_loading(&self, loading: &Arc<Loading>) -> Result<()> {
        let (read, inner) = (loading.clone(), Arc::downgrade(&self.inner));
        loading.start(move || finish_later(&read, &inner))
    }

    /// Waits until a database can be changed: while it is opened from a store that only CHECKPOINT
    /// writes, it cannot. Ends when the thread's statement is to end. A change that
    /// did not call this waits without progress.
    pub fn takes_changes(&self, progress: Option<&dyn Progress>) -> Result<()> {
        match self.disk() {
            Some(disk) if disk.durability() == Durability::Manual => self.loaded(progress),
            _ => Ok(()),
        }
    }

    /// Waits until all of a database that was opened from its store is in memory, and others can
    /// have it.
    pub(crate) fn loaded(&self, progress: Option<&dyn Progress>) -> Result<()> {
        let loading = self.inner.loading.lock().clone();
        loading.map_or(Ok(()), |loading| self.finish_loading(&loading, progress))
    }
}

/// Publishes the state when no transaction is under way.
fn finish_later(loading: &Loading, inner: &Weak<Inner>) -> Result<()> {
    while let Some(inner) = inner.upgrade()
        && !loading.is_stopped()
    {
        match (Store { inner }).finish_loading(loading, None) {
            Err(Error::Busy { .. }) => {}
            result => return result,
        }
    }
    Ok(())
}

/// Publishes the last committed state, all of which is in memory.
fn publish(store: &Store, writer: &mut Writer) -> Result<()> {
    let ground = writer.ground.clone();
    let ground = ground.ok_or_else(|| Error::internal("a database without an area"))?;
    writer.publish(&ground, &store.latest(), Publish::Committed)?;
    writer.held = false;
    ground.space.set_cold(false);
    Ok(())
}
