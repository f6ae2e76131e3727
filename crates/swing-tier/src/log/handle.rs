//! The handle of an open log, and the thread that collects garbage behind it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{CommitError, OpenError, ReadError};
use crate::log::batch::Batch;
use crate::log::collect::CollectReport;
use crate::log::files::lock;
use crate::log::lease::Lease;
use crate::log::options::LogOptions;
use crate::log::root::Root;
use crate::log::shared::Shared;
use crate::log::{queues, recover};
use crate::storage::{Access, Storage};
use crate::units::Epoch;

/// How long the collector waits before it looks again, if nobody wakes it.
const COLLECTOR_PAUSE: Duration = Duration::from_secs(1);
/// How many records are read at a time when all are checked.
const CHECKED_TOGETHER: usize = 256;

/// An open log. One handle at a time may write; see the [module](self) for the words.
///
/// All methods may be called from any thread. Dropping the handle closes the log; leases keep it
/// open until the last is gone.
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    collector: Option<Collector>,
}

/// Sizes of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// The newest committed epoch.
    pub epoch: Epoch,
    /// Records that the newest state, a lease or a checkpoint shows.
    pub records: u64,
    /// Files, without the root.
    pub files: u64,
    /// Bytes of the files that were handed out.
    pub used_bytes: u64,
    /// Bytes that a record or the manifest needs; the difference to `used_bytes` is dead.
    pub live_bytes: u64,
    /// How often a file was synced since the log was opened.
    pub syncs: u64,
}

impl Log {
    /// Makes an empty log in a directory without one, and opens it.
    ///
    /// # Errors
    /// [`OpenError::AlreadyThere`] if there are files of a log.
    pub fn create(storage: Arc<dyn Storage>, options: LogOptions) -> Result<Self, OpenError> {
        let options = options.checked()?;
        recover::create(&storage, &options)?;
        Self::open(storage, options)
    }

    /// Opens a log for reading and writing, at its newest committed state.
    ///
    /// # Errors
    /// [`OpenError::NotALog`], [`OpenError::InUse`] while another handle has it open,
    /// [`OpenError::Damaged`] or [`OpenError::Missing`] if the state is not whole, and others.
    pub fn open(storage: Arc<dyn Storage>, options: LogOptions) -> Result<Self, OpenError> {
        let options = options.checked()?.for_storage(&*storage);
        let background = options.background;
        let shared = Arc::new(recover::open(storage, options, Access::Write)?);
        shared.keep_spare();
        let collector = background.then(|| Collector::start(&shared)).flatten();
        Ok(Log { shared, collector })
    }

    /// Opens a log for reading: also on a read-only file system, and in a directory of another
    /// user. Nothing is written.
    ///
    /// # Errors
    /// As [`Log::open`]; [`OpenError::InUse`] while somebody writes.
    pub fn open_read_only(
        storage: Arc<dyn Storage>,
        options: LogOptions,
    ) -> Result<Self, OpenError> {
        let options = options.checked()?.for_storage(&*storage);
        let shared = Arc::new(recover::open(storage, options, Access::Read)?);
        Ok(Log { shared, collector: None })
    }

    /// Begins a batch of changes.
    ///
    /// # Errors
    /// [`CommitError::ReadOnly`] if the log was opened for reading.
    pub fn batch(&self) -> Result<Batch<'_>, CommitError> {
        Batch::new(&self.shared)
    }

    /// Holds the newest committed state.
    pub fn lease(&self) -> Lease {
        Lease::newest(&self.shared)
    }

    /// Holds the state of a checkpoint; `None` if there is none of that name.
    pub fn checkpoint(&self, name: &str) -> Option<Lease> {
        Lease::of_checkpoint(&self.shared, name)
    }

    /// The names and epochs of all checkpoints.
    pub fn checkpoints(&self) -> Vec<(String, Epoch)> {
        let live = lock(&self.shared.live);
        live.state.retained.iter().map(|(name, r)| (name.clone(), r.epoch)).collect()
    }

    /// Empties and removes files of which at least [`LogOptions::dead_fraction`] is dead. The
    /// thread in the background does the same.
    ///
    /// # Errors
    /// As a commit. What was collected until then stays collected.
    pub fn collect(&self) -> Result<CollectReport, CommitError> {
        self.shared.collect(self.shared.options.dead_fraction)
    }

    /// Empties every file that has dead bytes, also the one that is appended to: the smallest the
    /// log can be.
    ///
    /// # Errors
    /// As a commit.
    pub fn compact(&self) -> Result<CollectReport, CommitError> {
        self.shared.check_writable()?;
        self.shared.files.seal_current();
        self.shared.renew_manifest(false)?;
        self.shared.collect(0.0001)
    }

    /// Reads every record of the newest state and checks it against its checksum. Returns their
    /// bytes.
    ///
    /// # Errors
    /// The first damage, or failure of the device.
    pub fn verify(&self) -> Result<u64, ReadError> {
        let lease = self.lease();
        let mut bytes = 0;
        for ids in lease.records().chunks(CHECKED_TOGETHER) {
            let records = lease.read_many(ids)?;
            bytes += records.iter().map(|record| record.len() as u64).sum::<u64>();
        }
        Ok(bytes)
    }

    /// Sizes at this moment.
    pub fn stats(&self) -> LogStats {
        let (epoch, records) = {
            let live = lock(&self.shared.live);
            (live.state.epoch, live.state.records.len() as u64)
        };
        let usage = self.shared.files.usage();
        LogStats {
            epoch,
            records,
            files: usage.len() as u64,
            used_bytes: usage.iter().map(|(_, usage)| usage.used).sum(),
            live_bytes: usage.iter().map(|(_, usage)| usage.live).sum(),
            syncs: self.shared.files.syncs(),
        }
    }

    /// The directory's storage.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.shared.storage
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.shared.mark.is_stale() {
            // The parent's thread is not in this process, and its log is not ours to close.
            std::mem::forget(self.collector.take());
            return;
        }
        drop(self.collector.take());
        self.shared.close();
        queues::forget_closed();
    }
}

impl Shared {
    /// Notes in the root how far the journal goes, so that damage at its end is not taken for a
    /// torn write. A failure is nobody's loss: the commits themselves are durable.
    fn close(&self) {
        let committer = &mut *lock(&self.committer);
        let epoch = lock(&self.live).state.epoch;
        let current = committer.journal.is_some() && committer.root.floor != epoch;
        if committer.broken || self.access == Access::Read || !current {
            return;
        }
        let root = Root { floor: epoch, ..committer.root.clone() };
        // Later commits of leases' owners would need a new handle.
        committer.broken = true;
        let _ = self.write_root(&root);
    }
}

/// The thread that collects garbage.
#[derive(Debug)]
struct Collector {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Starts the thread. Without one, garbage waits for [`Log::collect`].
    fn start(shared: &Arc<Shared>) -> Option<Self> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (shared, signal) = (shared.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("swing-tier-gc".to_owned());
        let thread = thread.spawn(move || run_collector(&shared, &signal)).ok()?;
        Some(Collector { stop, thread: Some(thread) })
    }
}

fn run_collector(shared: &Shared, (stop, wake): &(Mutex<bool>, Condvar)) {
    let mut seen = 0;
    loop {
        let stopped = stop.lock().unwrap_or_else(PoisonError::into_inner);
        if *stopped {
            return;
        }
        let waited = wake.wait_timeout(stopped, COLLECTOR_PAUSE);
        let (stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *stopped {
            return;
        }
        drop(stopped);
        let epoch = lock(&shared.live).state.epoch.0;
        if epoch != seen && shared.has_garbage() {
            // A failure (a full disk, damage) is that of whoever meets it by reading or writing;
            // the collector tries again after the next commit.
            let _ = shared.collect(shared.options.dead_fraction);
        }
        seen = lock(&shared.live).state.epoch.0;
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
