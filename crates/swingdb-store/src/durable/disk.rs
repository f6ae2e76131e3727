//! The open store of a database: what it holds, and bringing it up to date.
//!
//! One mechanism serves all modes: [`Disk::bring_to`] writes what a state has and the log has not,
//! and switches the log's root payload. With `commit` it runs inside of each commit, after the
//! state's records are in memory and before the state is published there; with `interval` a thread
//! runs it; with `manual` nobody but `CHECKPOINT` does.
//!
//! Order of a durable commit (INV-DB-13): memory for the state's records, then the log, then the
//! publish in memory. Up to the log's commit a crash or an error leaves both at the state before.
//! After it the state is on the disk; a publish that fails is followed by taking the log back.
//! Records that a state replaced are freed with the commit behind it, so that they are there to be
//! taken back to.
//!
//! The statement that writes a state can be interrupted up to the log's commit.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use swing_tier::{Batch, CommitError, Log, MAX_BATCH_RECORDS, RecordId};
use swingdb_common::error::{Result, StoreProblem};

use crate::catalog::history::History;
use crate::catalog::link::Durability;
use crate::catalog::state::Catalog;
use crate::durable::background::Background;
use crate::durable::format::Head;
use crate::durable::ledger::{Known, Ledger};
use crate::durable::load::StoredCatalog;
use crate::durable::write::{Checkpoint, Written, root_of};
use crate::errors::log::{commit_error, problem};

/// How many records that wait are freed by one commit; the next one goes on.
const MAX_FREED_AT_ONCE: usize = MAX_BATCH_RECORDS / 4;

/// What a checkpoint did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckpointInfo {
    /// The version of the state that is on the disk.
    pub version: u64,
    /// Bytes of column data that were written; 0 when the store was up to date.
    pub written_bytes: u64,
    /// How long it took.
    pub duration: Duration,
}

/// How a store stands to the database in memory.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DurableInfo {
    /// The directory.
    pub path: PathBuf,
    /// When changes reach it.
    pub durability: Durability,
    /// The version of the last committed state in memory.
    pub memory_version: u64,
    /// The version of the state on the disk; `None`: nothing was stored yet.
    pub stored_version: Option<u64>,
    /// Bytes of the store's files that are in use, and those of them that are needed.
    pub used_bytes: u64,
    /// Bytes that a record needs.
    pub live_bytes: u64,
    /// How often a file of the store was synced since it was opened.
    pub syncs: u64,
    /// Bytes of column data that are in memory, and bytes of all, while the database is read from
    /// the store; `None`: it is in memory whole.
    pub loading: Option<(u64, u64)>,
    /// Why the last checkpoint, or the reading, in the background failed.
    pub failure: Option<String>,
}

/// What can be taken back: the last commit of the log.
#[derive(Debug)]
struct Undo {
    written: Written,
    dead: Vec<RecordId>,
    head: Option<Head>,
}

#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    known: Mutex<Known>,
    /// The state that the log holds.
    head: Option<Head>,
    /// Records that the state does not use, to be freed with the next commit.
    pending: Vec<RecordId>,
    undo: Option<Undo>,
    /// Nobody knows what the log holds.
    broken: bool,
}

/// A change of the state. A panic meanwhile leaves it half changed: the store takes nothing more.
struct Change<'a> {
    state: MutexGuard<'a, State>,
    /// The thread was unwinding already: what it does meanwhile may well succeed.
    unwinding: bool,
}

impl Deref for Change<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.state.broken |= std::thread::panicking() && !self.unwinding;
    }
}

/// The open store of a database.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    name: String,
    history: History,
    durability: Durability,
    log: Log,
    state: Mutex<State>,
    /// The version of the state that the log holds, for those who do not wait for a checkpoint.
    stored: Mutex<Option<u64>>,
    failure: Mutex<Option<String>>,
    /// The thread of `interval`.
    background: Background,
}

impl Disk {
    /// A store that holds `stored`, or nothing yet.
    pub fn new(
        (path, name): (&Path, &str),
        log: Log,
        stored: Option<StoredCatalog>,
        history: History,
        durability: Durability,
    ) -> Self {
        let mut state = State::default();
        let version = stored.as_ref().map(|stored| stored.root.version);
        if let Some(stored) = stored {
            let root = stored.ledger.root;
            let (format, version) = (stored.format, stored.root.version);
            state.head = root.map(|root| Head { format, version, root });
            state.ledger = stored.ledger;
            state.known = Mutex::new(stored.known);
        }
        // What a process left behind that died between a commit and the freeing behind it.
        let used = state.ledger.records();
        let all = log.lease().records();
        state.pending = all.into_iter().filter(|record| !used.contains(record)).collect();
        Self {
            path: path.to_owned(),
            name: name.to_owned(),
            history,
            durability,
            log,
            state: Mutex::new(state),
            stored: Mutex::new(version),
            failure: Mutex::new(None),
            background: Background::default(),
        }
    }

    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Whether each commit waits for the disk.
    pub fn with_each_commit(&self) -> bool {
        self.durability == Durability::Commit
    }

    fn change(&self) -> Change<'_> {
        Change { state: self.state.lock(), unwinding: std::thread::panicking() }
    }

    /// Brings the store to the state `catalog`, unless it is there already.
    ///
    /// With `undoable` the caller may [`Disk::take_back`] what was written, or says with
    /// [`Disk::keep`] that it does not.
    pub fn bring_to(&self, catalog: &Catalog, undoable: bool) -> Result<CheckpointInfo> {
        let start = Instant::now();
        let mut state = self.change();
        if state.broken {
            let message = "an earlier commit failed half way; close the database and open it again";
            return Err(problem(&self.path, StoreProblem::Unknown, message));
        }
        if state.head.is_some_and(|head| head.version >= catalog.version) {
            let version = catalog.version;
            return Ok(CheckpointInfo { version, written_bytes: 0, duration: start.elapsed() });
        }
        let written_bytes = self.write(&mut state, catalog, undoable)?;
        *self.failure.lock() = None;
        Ok(CheckpointInfo { version: catalog.version, written_bytes, duration: start.elapsed() })
    }

    fn write(&self, state: &mut State, catalog: &Catalog, undoable: bool) -> Result<u64> {
        let failed = |error| commit_error(&self.path, error);
        let mut batch = self.log.batch().map_err(failed)?;
        let mut written = Written::default();
        let mut checkpoint = Checkpoint {
            batch: &mut batch,
            ledger: &state.ledger,
            known: &state.known,
            written: &mut written,
            path: &self.path,
            notes: true,
            copied: HashMap::new(),
            prepared: HashMap::new(),
        };
        let root = checkpoint.write(catalog, &root_of(catalog, &self.name, &self.history));
        let root = match root {
            Ok(root) => root,
            Err(error) => {
                written.forget();
                return Err(error);
            }
        };
        let head = Head::new(catalog.version, root);
        let dead = state.ledger.apply(&mut written.change);
        match self.commit(batch, state, (!undoable).then_some(&dead), Some(head)) {
            Ok(()) => {}
            Err(error) => {
                written.forget();
                state.ledger.revert(std::mem::take(&mut written.change));
                return Err(error);
            }
        }
        let bytes = written.bytes;
        let before = state.head.replace(head);
        *self.stored.lock() = Some(head.version);
        if undoable {
            state.pending.extend(&dead);
            state.undo = Some(Undo { written, dead, head: before });
        }
        Ok(bytes)
    }

    /// Commits a batch that makes `head` the state, and frees what waits for it.
    fn commit(
        &self,
        mut batch: Batch<'_>,
        state: &mut State,
        dead: Option<&Vec<RecordId>>,
        head: Option<Head>,
    ) -> Result<()> {
        let waiting = state.pending.len().min(MAX_FREED_AT_ONCE);
        let outcome = (|| {
            let freed = state.pending[..waiting].iter().chain(dead.into_iter().flatten());
            freed.copied().try_for_each(|record| batch.free(record))?;
            batch.set_root(&head.map(|head| head.encode()).unwrap_or_default())?;
            batch.commit()
        })();
        match outcome {
            Ok(_) => {
                state.pending.drain(..waiting);
                Ok(())
            }
            Err(error) => {
                state.broken |= matches!(error, CommitError::Unknown(_) | CommitError::Broken);
                Err(commit_error(&self.path, error))
            }
        }
    }

    /// The state of the last [`Disk::bring_to`] was published: it stays.
    pub fn keep(&self) {
        self.change().undo = None;
    }

    /// The state of the last [`Disk::bring_to`] was not published: the log goes back to the one
    /// before. Where that fails, the store takes nothing more until it is opened anew.
    pub fn take_back(&self) -> Result<()> {
        let mut state = self.change();
        let Some(mut undo) = state.undo.take() else { return Ok(()) };
        undo.written.forget();
        let alive = undo.dead.len();
        let rest = state.pending.len().saturating_sub(alive);
        state.pending.truncate(rest);
        state.pending.extend(&undo.written.records);
        state.ledger.revert(undo.written.change);
        state.head = undo.head;
        *self.stored.lock() = undo.head.map(|head| head.version);
        let head = state.head;
        let back = self.log.batch().map_err(|e| commit_error(&self.path, e));
        let back = back.and_then(|batch| self.commit(batch, &mut state, None, head));
        back.map_err(|error| {
            state.broken = true;
            let message = format!(
                "the commit is on the disk, and could neither be finished in memory nor be taken \
                 back on the disk ({error}); close the database and open it again: it then has \
                 the commit"
            );
            problem(&self.path, StoreProblem::Unknown, message)
        })
    }

    /// Frees records that wait for the next commit; for the end.
    pub fn finish(&self) -> Result<()> {
        let mut state = self.change();
        // While a commit is under way, what it replaced has to stay.
        let busy = state.undo.is_some();
        if busy || state.pending.is_empty() || state.broken || state.head.is_none() {
            return Ok(());
        }
        let head = state.head;
        let batch = self.log.batch().map_err(|e| commit_error(&self.path, e))?;
        self.commit(batch, &mut state, None, head)
    }

    /// Gives room of the log back that no state needs.
    pub fn collect(&self) -> Result<()> {
        self.log.collect().map(drop).map_err(|e| commit_error(&self.path, e))
    }

    /// Figures; `catalog` is the last committed state in memory.
    pub fn info(&self, catalog: &Catalog) -> DurableInfo {
        let stats = self.log.stats();
        DurableInfo {
            path: self.path.clone(),
            durability: self.durability,
            memory_version: catalog.version,
            stored_version: *self.stored.lock(),
            used_bytes: stats.used_bytes,
            live_bytes: stats.live_bytes,
            syncs: stats.syncs,
            loading: None,
            failure: self.failure.lock().clone(),
        }
    }

    /// Calls `latest` for the newest state again and again and writes it, until it has none, or
    /// until [`Disk::stop`].
    fn run(&self, every: Duration, latest: impl Fn() -> Option<Arc<Catalog>>) {
        while !self.background.pause(every) {
            let Some(catalog) = latest() else { return };
            if let Err(error) = self.bring_to(&catalog, false) {
                log::warn!("the database is not on the disk: {error}");
                *self.failure.lock() = Some(error.to_string());
            }
        }
    }

    /// Starts the thread of `interval`.
    pub fn start(
        self: &Arc<Self>,
        every: Duration,
        latest: impl Fn() -> Option<Arc<Catalog>> + Send + 'static,
    ) -> Result<()> {
        let disk = self.clone();
        self.background.start("swingdb-store", move || disk.run(every, latest))
    }

    /// Ends the thread of `interval`.
    pub fn stop(&self) {
        self.background.stop();
    }
}
