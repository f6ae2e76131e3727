//! What the threads of a heap share: [`Shared`].
//!
//! **Cycle.** The window and the area of a heap are parts of what is shared, and change the rest of
//! it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use swing_tier::ProcessMark;
use swing_tier::storage::{FileRef, Storage};

use crate::core::Core;
use crate::entry::{Changes, Table};
use crate::error::HeapError;
use crate::share::InArea;
use crate::stats::Counters;
use crate::store::Store;
use crate::window::Window;

/// What a heap is besides its objects.
pub(crate) enum Kind {
    Ephemeral,
    Persistent(Mutex<Store>),
    InArea(Box<InArea>),
}

/// What the heap's threads share.
pub(crate) struct Shared {
    pub(crate) core: Mutex<Core>,
    /// Buffers were written, or blocks were emptied.
    pub(crate) changed: Condvar,
    pub(crate) work: Condvar,
    pub(crate) table: Table,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) file: FileRef,
    pub(crate) counters: Counters,
    pub(crate) seed: u64,
    /// Threads that read from the disk at this moment.
    pub(crate) reading: AtomicU64,
    pub(crate) mark: ProcessMark,
    pub(crate) max_wait: Duration,
    pub(crate) dead_fraction: f64,
    /// What a persistent heap keeps beside its blocks.
    pub(crate) store: Option<Mutex<Store>>,
    /// Of a heap in an area.
    pub(crate) area: Option<Box<InArea>>,
    pub(crate) changes: Arc<Changes>,
    /// What plain pointers lead to.
    pub(crate) window: OnceLock<Window>,
    pub(crate) enabling: Mutex<()>,
}

impl Shared {
    pub(crate) fn max_wait(&self) -> Duration {
        self.max_wait
    }

    pub(crate) fn wake_keeper(&self) {
        self.work.notify_one();
    }

    /// The lock. Each holder leaves the tables whole, or panics: then nobody changes them any more
    /// ([`Shared::check_whole`]).
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// INV-OBJ-10: whether no thread has met a broken invariant of the tables, or of the window's.
    /// Asked with the lock held where they are changed, or written down.
    pub(crate) fn check_whole(&self) -> Result<(), HeapError> {
        let pages = self.window.get();
        match self.core.is_poisoned() || pages.is_some_and(Window::is_broken) {
            true => Err(HeapError::Broken),
            false => Ok(()),
        }
    }

    /// Waits a moment for others to let go of objects.
    pub(crate) fn wait_for_users(&self) {
        self.work.notify_one();
        drop(self.changed.wait_timeout(self.lock(), Duration::from_millis(1)));
    }

    pub(crate) fn count_damaged(&self) {
        self.counters.damaged.fetch_add(1, Relaxed);
    }

    pub(crate) fn wait_for_work<'a>(
        &self,
        core: MutexGuard<'a, Core>,
        most: Duration,
    ) -> MutexGuard<'a, Core> {
        let waited = self.work.wait_timeout(core, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
