//! The blocks of a database that was opened from its store, until all of them are in memory:
//! [`Loading`]. What waits for that, and what follows, is in `store/loading.rs`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use swingdb_common::error::{Error, Result};
use swingdb_common::progress::Progress;
use swingdb_common::runtime::cancel::go_on;

use crate::durable::background::Background;
use crate::durable::load::{Loaded, fetch_all};
use crate::memory::fetch::Source;
use crate::memory::space::Blocks;

/// The background leaves the disk to the first queries for so long.
const BACKGROUND_AFTER: Duration = Duration::from_millis(500);
/// How often somebody who waits for the one that finishes it looks whether to go on.
const PATIENCE: Duration = Duration::from_millis(50);

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

    /// Reads the rest in the background, and calls `finish` when everything is in memory.
    pub fn start(
        self: &Arc<Self>,
        finish: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let loading = self.clone();
        self.background.start("swingdb-load", move || loading.run(finish))
    }

    fn run(&self, finish: impl FnOnce() -> Result<()>) {
        if self.background.pause(BACKGROUND_AFTER) {
            return;
        }
        // Only reading takes long: meanwhile the database can be closed.
        let result = self.read_all(1, None).and_then(|()| finish());
        match result {
            Ok(()) | Err(Error::Closed { .. }) => {}
            Err(error) => {
                log::warn!("the database is not in memory whole: {error}");
                *self.failure.lock() = Some(error.to_string());
            }
        }
    }

    /// Bytes in memory, and bytes of all.
    pub fn progress(&self) -> (u64, u64) {
        self.source.progress()
    }

    /// Why the background has given up.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Reads what is missing, on so many threads.
    pub fn read_all(&self, threads: usize, progress: Option<&dyn Progress>) -> Result<()> {
        fetch_all(self.created.iter().filter_map(Weak::upgrade), threads, || {
            if self.background.is_stopped() {
                return Err(Error::Closed { what: "database" });
            }
            self.tell(progress);
            Ok(())
        })
    }

    fn tell(&self, progress: Option<&dyn Progress>) {
        if let Some(progress) = progress {
            let (done, total) = self.progress();
            progress.progress(done, Some(total), "bytes");
        }
    }

    /// Waits until nobody else finishes it, as long as the statement goes on.
    pub fn turn(&self, progress: Option<&dyn Progress>) -> Result<MutexGuard<'_, ()>> {
        loop {
            if let Some(turn) = self.finishing.try_lock_for(PATIENCE) {
                return Ok(turn);
            }
            go_on()?;
            self.tell(progress);
        }
    }

    /// Everything is in memory: the log is not needed any more.
    pub fn close(&self) {
        self.source.close();
    }

    /// Whether nothing is to be read any more.
    pub fn is_stopped(&self) -> bool {
        self.background.is_stopped()
    }

    /// Nothing is read any more.
    pub fn stop(&self) {
        self.source.close();
        self.background.stop();
    }
}
