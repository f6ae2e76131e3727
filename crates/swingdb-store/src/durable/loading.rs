//! A database that was opened from its store, until all of it is in memory.
//!
//! Its own process reads it from the first moment: what a query needs and is not in memory comes
//! from the store then. Nobody else sees it yet: a state is published in memory when all its bytes
//! are there, and that is what [`Loading::finish`] does; the first change or share waits for it. A
//! thread reads the rest in the background.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use swingdb_common::error::{Error, Result};
use swingdb_common::progress::Progress;
use swingdb_common::runtime::threads;

use super::super::catalog::Catalog;
use super::super::handle::{Inner, Store};
use super::super::space::Blocks;
use super::background::Background;
use super::fetch::Source;
use super::load::{Loaded, fetch_all};

/// The background leaves the disk to the first queries for so long.
const BACKGROUND_AFTER: Duration = Duration::from_millis(500);

/// What is not finished of opening a database from its store.
pub(crate) struct Loading {
    /// The state in memory that the store's takes the place of.
    base: Arc<Catalog>,
    /// The store's.
    catalog: Arc<Catalog>,
    created: Vec<Arc<Blocks>>,
    shared: Vec<Arc<Blocks>>,
    source: Arc<Source>,
    /// Held by whoever finishes it.
    finishing: Mutex<()>,
    background: Background,
    failure: Mutex<Option<String>>,
}

impl Loading {
    pub fn new(base: Arc<Catalog>, loaded: Loaded) -> Arc<Self> {
        Arc::new(Self {
            base,
            catalog: Arc::new(loaded.catalog),
            created: loaded.created,
            shared: loaded.shared,
            source: loaded.source,
            finishing: Mutex::default(),
            background: Background::default(),
            failure: Mutex::default(),
        })
    }

    /// The state that is being read.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
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
        fetch_all(&self.created, threads, || {
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

    /// Reads what is missing, and commits the state in memory.
    pub fn finish(&self, store: &Store, progress: Option<&dyn Progress>) -> Result<()> {
        let _one = self.finishing.lock();
        if store.inner.loading.lock().is_none() {
            return Ok(());
        }
        // Somebody waits for it.
        self.read_all(threads::cores(), progress)?;
        let mut txn = store.begin_over(&self.base)?;
        let (created, shared) = (self.created.clone(), self.shared.clone());
        txn.replace_all(Catalog::clone(&self.catalog), created, shared)?;
        txn.commit()?;
        *store.inner.loading.lock() = None;
        self.source.close();
        Ok(())
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
        let result = self.read_all(1, None).and_then(|()| match inner.upgrade() {
            Some(inner) => self.finish(&Store { inner }, None),
            None => Ok(()),
        });
        match result {
            Ok(()) | Err(Error::Closed { .. }) => {}
            Err(error) => {
                log::warn!("the database is not in memory whole: {error}");
                *self.failure.lock() = Some(error.to_string());
            }
        }
    }

    /// Nothing is read any more.
    pub fn stop(&self) {
        self.source.close();
        self.background.stop();
    }
}

impl Store {
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
