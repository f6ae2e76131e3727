//! A database that was opened from its store, until all of it is in memory.
//!
//! Its own process reads and changes it from the first moment: what a statement needs and is not in
//! memory comes from the store then. Nobody else sees it yet: a state is published in memory when
//! all its bytes are there, and that is what [`Loading::finish`] does; the first share waits for
//! it. A thread reads the rest in the background.
//!
//! Until then a commit goes to the store alone, also where the store follows in intervals: if the
//! process dies, the store has what it has committed, and memory has what it had before the
//! database was opened, or nothing. With durability `manual` nothing may go to the store before a
//! CHECKPOINT, so changes wait until the state is published.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use swing::Publish;
use swingdb_common::error::{Error, Result};
use swingdb_common::progress::Progress;
use swingdb_common::runtime::cancel::to_the_end;
use swingdb_common::runtime::threads;

use super::super::handle::{Inner, Store, Writer};
use super::super::space::Blocks;
use super::background::Background;
use super::fetch::Source;
use super::link::Durability;
use super::load::{Loaded, fetch_all};

/// The background leaves the disk to the first queries for so long.
const BACKGROUND_AFTER: Duration = Duration::from_millis(500);

/// What is not finished of opening a database from its store.
pub(crate) struct Loading {
    /// What it is made of; what changes have dropped is not read.
    created: Vec<Weak<Blocks>>,
    source: Arc<Source>,
    /// Held by whoever finishes it.
    finishing: Mutex<()>,
    background: Background,
    failure: Mutex<Option<String>>,
}

impl Loading {
    pub fn new(loaded: &Loaded) -> Arc<Self> {
        Arc::new(Self {
            created: loaded.created.iter().map(Arc::downgrade).collect(),
            source: loaded.source.clone(),
            finishing: Mutex::default(),
            background: Background::default(),
            failure: Mutex::default(),
        })
    }

    /// Bytes in memory, and bytes of all.
    pub fn progress(&self) -> (u64, u64) {
        self.source.progress()
    }

    /// Why the background has given up.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    fn read_all(&self, threads: usize, progress: Option<&dyn Progress>) -> Result<()> {
        fetch_all(self.created.iter().filter_map(Weak::upgrade), threads, || {
            if self.background.is_stopped() {
                return Err(Error::Closed { what: "database" });
            }
            let (done, total) = self.progress();
            if let Some(progress) = progress {
                progress.progress(done, Some(total), "bytes");
            }
            Ok(())
        })
    }

    /// Reads what is missing, and publishes the state in memory.
    pub fn finish(&self, store: &Store, progress: Option<&dyn Progress>) -> Result<()> {
        let _one = self.finishing.lock();
        if store.inner.loading.lock().is_none() {
            return Ok(());
        }
        // Somebody waits for it.
        self.read_all(threads::cores(), progress)?;
        let mut writer = store.take_slot()?;
        let published = to_the_end(|| publish(store, &mut writer));
        if published.is_ok() {
            *store.inner.loading.lock() = None;
            self.source.close();
        }
        store.give_back(writer);
        published
    }

    /// Goes on in the background.
    pub fn start(self: &Arc<Self>, store: &Store) -> Result<()> {
        let (loading, inner) = (self.clone(), Arc::downgrade(&store.inner));
        self.background.start("swingdb-load", move || loading.run(&inner))
    }

    fn run(&self, inner: &Weak<Inner>) {
        if self.background.pause(BACKGROUND_AFTER) {
            return;
        }
        // Only reading takes long: meanwhile the database can be closed.
        let result = self.read_all(1, None).and_then(|()| self.finish_later(inner));
        match result {
            Ok(()) | Err(Error::Closed { .. }) => {}
            Err(error) => {
                log::warn!("the database is not in memory whole: {error}");
                *self.failure.lock() = Some(error.to_string());
            }
        }
    }

    /// Publishes the state when no transaction is under way.
    fn finish_later(&self, inner: &Weak<Inner>) -> Result<()> {
        while let Some(inner) = inner.upgrade()
            && !self.background.is_stopped()
        {
            match self.finish(&Store { inner }, None) {
                Err(Error::Busy { .. }) => {}
                result => return result,
            }
        }
        Ok(())
    }

    /// Nothing is read any more.
    pub fn stop(&self) {
        self.source.close();
        self.background.stop();
    }
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

impl Store {
    /// Waits until a database can be changed: while it is opened from a store that only CHECKPOINT
    /// writes, it cannot.
    pub(crate) fn takes_changes(&self) -> Result<()> {
        match self.disk() {
            Some(disk) if disk.durability() == Durability::Manual => self.loaded(),
            _ => Ok(()),
        }
    }

    /// Waits until all of a database that was opened from its store is in memory, and others can
    /// have it.
    pub(crate) fn loaded(&self) -> Result<()> {
        let loading = self.inner.loading.lock().clone();
        loading.map_or(Ok(()), |loading| loading.finish(self, None))
    }

    /// How far opening from the store has come: bytes in memory, and bytes of all. `None`: it is
    /// done.
    pub fn loading(&self) -> Option<(u64, u64)> {
        Some(self.inner.loading.lock().as_ref()?.progress())
    }
}
