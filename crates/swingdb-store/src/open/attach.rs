//! Opening a database together with its store.
//!
//! | in memory | in the store | what happens |
//! |---|---|---|
//! | nothing | nothing | a new database; its first commit goes to the store |
//! | a state | nothing | the state goes to the store |
//! | nothing | a state | it is read into memory: what is needed at once, the rest by and by |
//! | a state | an earlier one of it, or the same | memory's is used |
//! | a state | a later one of it | the same, in place of memory's |
//! | a state | one that did not come from it | an error that says what to do |

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use swing::Namespace;
use swing_tier::probe::PROFILE_NAME;
use swing_tier::storage::Storage;
use swing_tier::{Directory, DirectoryOptions, Log, LogOptions, OpenError as LogError};
use swingdb_common::error::{Error, Result, StoreProblem};
use swingdb_common::progress::Progress;

use crate::catalog::history::{History, Relation};
use crate::catalog::link::{Durability, Link};
use crate::catalog::state::Catalog;
use crate::durable::disk::{CheckpointInfo, Disk, DurableInfo};
use crate::durable::load::{StoredCatalog, load};
use crate::durable::loading::Loading;
use crate::errors::log::{absolute, open_error, problem};
use crate::memory::space::Ground;
use crate::store::handle::{Inner, Store};

/// The shortest interval between checkpoints.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Name of the log's lock: in a directory that holds nothing else a store can be made.
const LOCK_NAME: &str = "lock";

/// Which store a database has, and when its changes get there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// The directory, which is made when it is missing. An empty path detaches the database from
    /// the store that it has: it stays in memory alone, and the store as it is.
    pub directory: PathBuf,
    /// When changes get to the store; `None`: as the last time, with each commit at first.
    pub durability: Option<Durability>,
}

impl StoreOptions {
    /// A store in this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), durability: None }
    }

    /// When changes get to the store.
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability: Some(durability), ..self }
    }

    fn checked(&self) -> Result<()> {
        match self.durability {
            Some(Durability::Interval(every)) if every < MIN_INTERVAL => {
                Err(Error::plan(format!("an interval of {every:?}: at least 10 ms are needed")))
            }
            _ => Ok(()),
        }
    }
}

impl Store {
    /// Opens a named database as its one writer; it is created when missing, and stays from its
    /// first commit on.
    ///
    /// A store on a disk that it had when it was last open is opened again.
    pub fn open(namespace: &Namespace, name: &str) -> Result<Self> {
        let store = Self::open_alone(namespace, name)?;
        store.attach_again()?;
        Ok(store)
    }

    /// As [`Store::open`], with the store that `options` say. With `progress` it returns when
    /// everything is in memory, and tells meanwhile how far it is; else at once.
    pub fn open_stored(
        namespace: &Namespace,
        name: &str,
        options: &StoreOptions,
        progress: Option<&dyn Progress>,
    ) -> Result<Self> {
        options.checked()?;
        if options.directory.as_os_str().is_empty() {
            let store = Self::open_alone(namespace, name)?;
            store.detach()?;
            return Ok(store);
        }
        let store = Self::open_alone(namespace, name)?;
        store.attach(options, progress)?;
        Ok(store)
    }

    /// As [`Store::open_stored`], with the log on a storage of the caller's, whose path
    /// `options.directory` is: for tests of what happens when it fails.
    #[doc(hidden)]
    pub fn open_stored_on(
        namespace: &Namespace,
        name: &str,
        options: &StoreOptions,
        (storage, log): (Arc<dyn Storage>, LogOptions),
    ) -> Result<Self> {
        options.checked()?;
        let store = Self::open_alone(namespace, name)?;
        let log = open_or_create(&options.directory, storage, log, || Ok(()))?;
        store.attach_log(options.directory.clone(), log, options.durability, None)?;
        Ok(store)
    }

    /// Opens the store that the database was last opened with, if it has one.
    pub(crate) fn attach_again(&self) -> Result<()> {
        let Some(link) = self.own_link() else { return Ok(()) };
        let options =
            StoreOptions { directory: link.path.clone(), durability: Some(link.durability) };
        self.attach(&options, None).map_err(|error| match error {
            Error::Store { path, problem, message } if problem != StoreProblem::InUse => {
                let message = format!(
                    "{message}; database {:?} was last opened with this store: mend it, or open \
                     the database with an empty path as its store to go on in memory alone",
                    self.name().unwrap_or_default()
                );
                Error::Store { path, problem, message }
            }
            other => other,
        })
    }

    /// The link of this database, unless it came with the state of another one.
    fn own_link(&self) -> Option<Arc<Link>> {
        let link = self.latest().link.clone()?;
        let area = self.with_writer(|writer, _| Ok(writer.ground.as_ref().map(area_id))).ok()?;
        (area == Some(link.area)).then_some(link)
    }

    fn detach(&self) -> Result<()> {
        if self.own_link().is_none() {
            return Ok(());
        }
        self.relink(None)
    }

    /// Gives the committed state another link.
    fn relink(&self, link: Option<Arc<Link>>) -> Result<()> {
        self.with_writer(|writer, latest| {
            let mut catalog = Catalog::clone(latest);
            catalog.link = link;
            if !writer.is_fresh() {
                catalog.version += 1;
                let ground = writer.ground.clone();
                let ground = ground.ok_or_else(|| Error::internal("a database without an area"))?;
                writer.publish(&ground, &catalog, swing::Publish::Committed)?;
            }
            self.install(Arc::new(catalog));
            Ok(())
        })
    }

    fn attach(&self, options: &StoreOptions, progress: Option<&dyn Progress>) -> Result<()> {
        let path = absolute(&options.directory)?;
        let log = open_log(&path)?;
        self.attach_log(absolute(&path)?, log, options.durability, progress)
    }

    fn attach_log(
        &self,
        path: PathBuf,
        log: Log,
        durability: Option<Durability>,
        progress: Option<&dyn Progress>,
    ) -> Result<()> {
        let name = self.name().unwrap_or_default().to_owned();
        let stored = StoredCatalog::read(&log.lease(), &path)?;
        let link = self.own_link();
        let durability = durability.or(link.as_ref().map(|l| l.durability));
        let durability = durability.unwrap_or_default();
        let is_new = self.is_new();
        if let Some(stored) = &stored {
            stored.check_name(&path, &name)?;
        }
        let mut loading = None;
        let known = link.as_ref().map(|link| &link.history);
        let (history, stored) = match (known, stored) {
            (known, None) => (known.cloned().unwrap_or_else(History::new), None),
            (None, Some(stored)) if is_new => {
                let history = stored.history().branch_at(stored.version());
                let link = self.link(&path, history.clone(), durability)?;
                loading = Some(self.load(&stored, &log, &path, link)?);
                (history, Some(stored))
            }
            (None, Some(_)) => return Err(mismatch(&path, &name, Relation::Unrelated)),
            (Some(known), Some(stored)) => {
                let version = self.latest().version;
                match known.relation(version, stored.history(), stored.version()) {
                    Relation::Same => {
                        stored.note(&self.latest())?;
                        (known.clone(), Some(stored))
                    }
                    Relation::After => (known.clone(), Some(stored)),
                    Relation::Before => {
                        let history = stored.history().branch_at(stored.version());
                        let link = self.link(&path, history.clone(), durability)?;
                        loading = Some(self.load(&stored, &log, &path, link)?);
                        (history, Some(stored))
                    }
                    other => return Err(mismatch(&path, &name, other)),
                }
            }
        };
        let wanted = self.link(&path, history.clone(), durability)?;
        if self.latest().link.as_ref() != Some(&wanted) {
            self.relink(Some(wanted))?;
        }
        let disk = Disk::new((&path, &name), log, stored, history, durability);
        self.start(Arc::new(disk))?;
        if let Some(loading) = loading {
            // From here on what is published waits until everything is in memory.
            *self.inner.loading.lock() = Some(loading.clone());
            match progress {
                Some(_) => self.finish_loading(&loading, progress)?,
                None => self.start_loading(&loading)?,
            }
        }
        Ok(())
    }

    fn link(&self, path: &Path, history: History, durability: Durability) -> Result<Arc<Link>> {
        self.with_writer(|writer, _| {
            let area = writer.ground.as_ref().map(area_id);
            let area = area.ok_or_else(|| Error::internal("a database without an area"))?;
            Ok(Arc::new(Link { area, history, path: path.to_owned(), durability }))
        })
    }

    /// Shows the stored state in place of the present one, in this process.
    fn load(
        &self,
        stored: &StoredCatalog,
        log: &Log,
        path: &Path,
        link: Arc<Link>,
    ) -> Result<Arc<Loading>> {
        let mut txn = self.begin()?;
        let mut loaded = load(stored, &log.lease(), path, &txn.ground)?;
        loaded.catalog.link = Some(link);
        let loading = Loading::new(&loaded);
        txn.writer_mut()?.held = true;
        txn.replace_all(loaded.catalog, loaded.created, loaded.shared)?;
        txn.commit()?;
        Ok(loading)
    }

    /// From here on commits know of the store.
    fn start(&self, disk: Arc<Disk>) -> Result<()> {
        if disk.with_each_commit() && !self.is_new() {
            disk.bring_to(&self.latest(), false)?;
        }
        self.with_writer(|writer, _| {
            writer.disk = Some(disk.clone());
            Ok(())
        })?;
        *self.inner.disk.lock() = Some(disk.clone());
        if let Durability::Interval(every) = disk.durability() {
            let weak: Weak<Inner> = Arc::downgrade(&self.inner);
            let latest = move || weak.upgrade().map(|inner| inner.latest.read().clone());
            disk.start(every, latest)?;
        }
        Ok(())
    }

    /// Writes the last committed state to the store; returns when it is on the disk.
    pub fn checkpoint(&self) -> Result<CheckpointInfo> {
        let Some(disk) = self.disk() else {
            return Err(Error::unsupported(
                "CHECKPOINT: this database has no store on a disk; open it with one \
                 (swingdb.connect(name, store=\"dir\"), swingdb --store dir)",
            ));
        };
        let latest = self.latest();
        if self.is_new() {
            return Ok(CheckpointInfo { version: latest.version, ..CheckpointInfo::default() });
        }
        let info = disk.bring_to(&latest, false)?;
        drop(latest);
        disk.finish()?;
        disk.collect()?;
        Ok(info)
    }

    /// How the store stands; `None`: there is none.
    pub fn durable_info(&self) -> Option<DurableInfo> {
        let disk = self.disk()?;
        let mut info = disk.info(&self.latest());
        let loading = self.inner.loading.lock().clone();
        if let Some(loading) = loading {
            info.loading = Some(loading.progress());
            info.failure = loading.failure().or(info.failure);
        }
        Some(info)
    }
}

impl StoredCatalog {
    /// That the store holds the database of this name.
    fn check_name(&self, path: &Path, name: &str) -> Result<()> {
        if self.name() == name {
            return Ok(());
        }
        let message = format!(
            "it holds database {:?}, not {name:?}; open it by that name, or take a copy of it: \
             swingdb restore {} --as {name}",
            self.name(),
            path.display()
        );
        Err(problem(path, StoreProblem::Mismatch, message))
    }
}

fn area_id(ground: &Arc<Ground>) -> u64 {
    ground.area().id().0
}

/// Room that is kept on the disk for commits that make room: a journal, and records of the catalog.
const SPARE_BYTES: u64 = 6 << 20;

/// Opens the log in a directory; makes one in a directory that is missing or empty.
pub(crate) fn open_log(path: &Path) -> Result<Log> {
    let directory = DirectoryOptions { create: true, ..DirectoryOptions::default() };
    let directory =
        Directory::open(path, directory).map_err(|e| open_error(path, LogError::Io(e)))?;
    let options = LogOptions { spare_bytes: SPARE_BYTES, ..LogOptions::default() };
    let options = options.placed_for(&directory);
    open_or_create(path, Arc::new(directory), options, || no_other_files(path))
}

/// Opens the log on a storage; makes one where there is none, if `may_make` has no objection.
pub(crate) fn open_or_create(
    path: &Path,
    storage: Arc<dyn Storage>,
    options: LogOptions,
    may_make: impl FnOnce() -> Result<()>,
) -> Result<Log> {
    match Log::open(storage.clone(), options.clone()) {
        Err(LogError::NotALog { .. }) => {}
        other => return other.map_err(|e| open_error(path, e)),
    }
    may_make()?;
    Log::create(storage, options).map_err(|e| open_error(path, e))
}

fn no_other_files(path: &Path) -> Result<()> {
    let names = std::fs::read_dir(path).map_err(|e| Error::io(path, e))?;
    for name in names {
        let name = name.map_err(|e| Error::io(path, e))?.file_name();
        // `root.new` is what a process left behind that died while it made the log.
        // A profile is there when the directory was probed.
        let ours = [LOCK_NAME, "root.new", "lost+found", PROFILE_NAME];
        if !ours.iter().any(|known| name == *known) {
            let message = format!(
                "the directory holds other files ({}), and no store; choose an empty one",
                name.display()
            );
            return Err(problem(path, StoreProblem::NotAStore, message));
        }
    }
    Ok(())
}

fn mismatch(path: &Path, name: &str, relation: Relation) -> Error {
    let what = match relation {
        Relation::Diverged => {
            "the database in memory and the one in the store have the same origin, and each has \
             changes that the other does not have"
        }
        _ => "the database in memory does not come from this store",
    };
    let message = format!(
        "{what}; drop the one in memory to take the store's (swingdb drop {name}), or open the one \
         in memory with another, empty directory as its store"
    );
    problem(path, StoreProblem::Mismatch, message)
}
