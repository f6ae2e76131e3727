//! Opening databases and taking snapshots: [`Database`].
//!
//! A [`Database`] is a handle on one database in this process: the one writer of a named database,
//! a snapshot of one (which becomes writable, privately, with its first write), or an unnamed
//! private one. Cloning the handle is cheap; all clones and all [`Connection`](crate::Connection)s
//! made from them see the same database. The memory is let go when the last handle, connection,
//! result and Arrow array that uses it is gone; what is committed in a *named* database stays until
//! it is dropped.
//!
//! ```
//! # let home = tempfile::tempdir_in("/dev/shm").unwrap();
//! # let home = home.path();
//! use swingdb::Database;
//!
//! let taxi = Database::open_in(home, "taxi")?;
//! taxi.connect().query("CREATE TABLE trips AS SELECT 1 AS id, 2.5 AS km")?;
//! taxi.share()?;
//!
//! // Usually another process: takes microseconds, copies nothing, sees the shared state.
//! let snapshot = Database::snapshot_in(home, "taxi")?;
//! let rows = snapshot.connect().query("SELECT km FROM trips")?.collect()?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok::<(), swingdb::Error>(())
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use swing::{Backing, Namespace};
use swingdb_common::error::{Error, Result};
use swingdb_common::progress::Progress;
use swingdb_store::{CheckpointInfo, DurableInfo, MEMORY, ShareInfo, Store, StoreOptions};

/// A handle on one open database; see the [module documentation](self).
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// The namespace's directory; `None`: the default one.
    home: Option<PathBuf>,
    name: Option<String>,
    is_snapshot: bool,
}

/// What a database holds and how much memory it takes; see [`Database::info`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DatabaseInfo {
    /// Its name; `None` for an unnamed database and an unnamed snapshot.
    pub name: Option<String>,
    /// Whether it was taken from another database.
    pub is_snapshot: bool,
    /// The newest epoch published by, or hooked into, this handle.
    pub epoch: Option<u64>,
    /// Number of tables in all schemas.
    pub tables: usize,
    /// Number of live rows in all tables.
    pub rows: u64,
}

/// How [`Database::open_with_options`] opens a database.
#[derive(Clone, Default)]
pub struct OpenOptions {
    home: Option<PathBuf>,
    lasting: bool,
    store: Option<StoreOptions>,
    progress: Option<Arc<dyn Progress>>,
}

impl OpenOptions {
    /// The namespace's directory.
    pub fn home(self, home: impl Into<PathBuf>) -> Self {
        Self { home: Some(home.into()), ..self }
    }

    /// In memory that outlives this process; see [`Database::open_lasting`].
    pub fn lasting(self) -> Self {
        Self { lasting: true, ..self }
    }

    /// With this store. Without one the database has the store that it had when it was last open.
    pub fn store(self, store: StoreOptions) -> Self {
        Self { store: Some(store), ..self }
    }

    /// Tells how much of a store has been read into memory. Opening then waits until it is all;
    /// else it returns when the catalog was read, and the rest comes when it is needed, or in the
    /// background.
    pub fn progress(self, progress: Arc<dyn Progress>) -> Self {
        Self { progress: Some(progress), ..self }
    }
}

impl Database {
    /// Opens the database `name` for writing, creating it when it does not exist.
    ///
    /// The name `:memory:` means a [`private`](Self::private) database, as in SQLite and DuckDB.
    ///
    /// A new database stays from its first commit or share on; one that nothing was put into leaves
    /// nothing behind. A path, or a name such as `shop.db`, is refused for a new one.
    ///
    /// The namespace is `$SWINGDB_HOME`, else `/dev/shm/swingdb-<uid>`. There is one writer: while
    /// another process has it open, this is [`Error::Busy`] naming that process; take a
    /// [`snapshot`](Self::snapshot) instead.
    pub fn open(name: &str) -> Result<Self> {
        Self::open_with(None, name)
    }

    /// As [`open`](Self::open), in the namespace directory `home`.
    pub fn open_in(home: &Path, name: &str) -> Result<Self> {
        Self::open_with(Some(home), name)
    }

    /// As [`open`](Self::open), in memory that outlives this process: for programs that end when
    /// they have written.
    ///
    /// Where the file system of the namespace has no room, [`open`](Self::open) goes on in memory
    /// that ends with the last process that uses it. This is [`Error::OutOfMemory`] instead.
    pub fn open_lasting(name: &str) -> Result<Self> {
        Self::open_lasting_with(None, name)
    }

    /// As [`open_lasting`](Self::open_lasting), in the namespace directory `home`.
    pub fn open_lasting_in(home: &Path, name: &str) -> Result<Self> {
        Self::open_lasting_with(Some(home), name)
    }

    /// Opens the database `name` for writing, as `options` say: with a store on a disk, for one.
    ///
    /// ```
    /// # let home = tempfile::tempdir_in("/dev/shm").unwrap();
    /// # let disk = tempfile::tempdir().unwrap();
    /// use swingdb::{Database, OpenOptions, StoreOptions};
    ///
    /// let options = OpenOptions::default()
    ///     .home(home.path())
    ///     .store(StoreOptions::new(disk.path().join("taxi")));
    /// let taxi = Database::open_with_options("taxi", &options)?;
    /// taxi.connect().query("CREATE TABLE trips AS SELECT 1 AS id, 2.5 AS km")?;
    /// taxi.close()?;
    ///
    /// // The machine has been restarted: the memory is gone, the store is there.
    /// swingdb::drop_in(home.path(), "taxi")?;
    /// let taxi = Database::open_with_options("taxi", &options)?;
    /// let rows = taxi.connect().query("SELECT km FROM trips")?.collect()?;
    /// assert_eq!(rows[0].num_rows(), 1);
    /// # Ok::<(), swingdb::Error>(())
    /// ```
    pub fn open_with_options(name: &str, options: &OpenOptions) -> Result<Self> {
        let home = options.home.as_deref();
        let Some(stored) = &options.store else {
            return match options.lasting {
                true => Self::open_lasting_with(home, name),
                false => Self::open_with(home, name),
            };
        };
        if name == MEMORY {
            let message = "a private database has no store; give the database a name";
            return Err(Error::unsupported(message));
        }
        let mut space = namespace(home)?;
        if options.lasting {
            space = space.with_backing(Backing::File);
        }
        let progress = options.progress.as_deref();
        let store = Store::open_stored(&space, name, stored, progress)?;
        Ok(Self::wrap(store, home, Some(name), false))
    }

    /// Brings the store on the disk to the last committed state; returns when it is there.
    ///
    /// An error when the database has no store. Readers, snapshots and other transactions go on.
    pub fn checkpoint(&self) -> Result<CheckpointInfo> {
        self.inner.store.checkpoint()
    }

    /// Writes the last committed state into a directory of its own, which has to be missing or
    /// empty: a copy that [`restore`](Self::restore) reads, and that a database can be opened with.
    /// Of a snapshot too.
    pub fn checkpoint_to(&self, directory: &Path) -> Result<CheckpointInfo> {
        let store = &self.inner.store;
        let name = store.name().or(store.origin_name()).unwrap_or("restored");
        store.copy_to(directory, name)
    }

    /// Reads the state in a store on a disk into memory as the new database `name`, or under the
    /// name that it has there. The store stays as it is, and the database has none.
    ///
    /// [`Error::AlreadyExists`] when there is a database of the name.
    pub fn restore(directory: &Path, name: Option<&str>, options: &OpenOptions) -> Result<Self> {
        let home = options.home.as_deref();
        let mut space = namespace(home)?;
        if options.lasting {
            space = space.with_backing(Backing::File);
        }
        let progress = options.progress.as_deref();
        let store = Store::restore(&space, directory, name, progress)?;
        let name = store.name().map(str::to_owned);
        Ok(Self::wrap(store, home, name.as_deref(), false))
    }

    /// How far reading from the store has come: bytes in memory, and bytes of all. `None`: the
    /// database is in memory whole.
    pub fn loading(&self) -> Option<(u64, u64)> {
        self.inner.store.loading()
    }

    /// The store on the disk and how far it is behind; `None`: there is none.
    pub fn durable_info(&self) -> Option<DurableInfo> {
        self.inner.store.durable_info()
    }

    /// An unnamed, empty database that ends with this process.
    pub fn private() -> Result<Self> {
        Self::private_with(None)
    }

    /// As [`private`](Self::private), with its memory in the namespace directory `home`.
    pub fn private_in(home: &Path) -> Result<Self> {
        Self::private_with(Some(home))
    }

    /// Takes an unnamed snapshot of the newest shared state of database `name`.
    ///
    /// Nothing is copied; the snapshot is writable, and its writes are its own.
    pub fn snapshot(name: &str) -> Result<Self> {
        Self::snapshot_with(None, name)
    }

    /// As [`snapshot`](Self::snapshot), in the namespace directory `home`.
    pub fn snapshot_in(home: &Path, name: &str) -> Result<Self> {
        Self::snapshot_with(Some(home), name)
    }

    /// Takes a snapshot of database `proposed` under the name `target`, so that it can be
    /// [shared](Self::share) on, and outlives this process once it has been.
    pub fn get_snapshot(proposed: &str, target: &str) -> Result<Self> {
        Self::get_snapshot_with(None, proposed, target)
    }

    /// As [`get_snapshot`](Self::get_snapshot), in the namespace directory `home`.
    pub fn get_snapshot_in(home: &Path, proposed: &str, target: &str) -> Result<Self> {
        Self::get_snapshot_with(Some(home), proposed, target)
    }

    fn open_with(home: Option<&Path>, name: &str) -> Result<Self> {
        if name == MEMORY {
            return Self::private_with(home);
        }
        Self::wrap(Store::open(&namespace(home)?, name)?, home, Some(name), false).named()
    }

    fn open_lasting_with(home: Option<&Path>, name: &str) -> Result<Self> {
        if name == MEMORY {
            return Self::private_with(home);
        }
        let namespace = namespace(home)?.with_backing(Backing::File);
        Self::wrap(Store::open(&namespace, name)?, home, Some(name), false).named()
    }

    /// Refuses a new database whose name looks like that of a file: its rows would be in memory
    /// alone, and nobody would miss the file before they are gone.
    fn named(self) -> Result<Self> {
        let Some(file) = self.name().filter(|name| is_like_file(name)) else { return Ok(self) };
        if !self.is_new() {
            return Ok(self);
        }
        let stem = Path::new(file).file_stem().and_then(OsStr::to_str).unwrap_or("shop");
        Err(Error::plan(format!(
            "{file:?} looks like a file, and a database is memory that has a name: open it as \
             {stem:?}; to keep it on a disk as well, give it a directory as its store, such as \
             {stem:?} with the store {:?}",
            Path::new(file).with_extension("store")
        )))
    }

    fn private_with(home: Option<&Path>) -> Result<Self> {
        Ok(Self::wrap(Store::create_private(&namespace(home)?)?, home, None, false))
    }

    fn snapshot_with(home: Option<&Path>, name: &str) -> Result<Self> {
        Ok(Self::wrap(Store::hook(&namespace(home)?, name)?, home, None, true))
    }

    fn get_snapshot_with(home: Option<&Path>, proposed: &str, target: &str) -> Result<Self> {
        let store = Store::hook_named(&namespace(home)?, proposed, target)?;
        Ok(Self::wrap(store, home, Some(target), true))
    }

    fn wrap(store: Store, home: Option<&Path>, name: Option<&str>, is_snapshot: bool) -> Self {
        let (home, name) = (home.map(Path::to_path_buf), name.map(str::to_string));
        Self { inner: Arc::new(Inner { store, home, name, is_snapshot }) }
    }

    /// The name other processes know this database by; `None` when it has none.
    pub fn name(&self) -> Option<&str> {
        self.inner.name.as_deref()
    }

    /// Whether this was taken from another database.
    pub fn is_snapshot(&self) -> bool {
        self.inner.is_snapshot
    }

    /// Whether this is a named database that did not exist before and in which nothing was
    /// committed yet.
    pub fn is_new(&self) -> bool {
        self.inner.store.is_new()
    }

    /// The newest epoch this handle has published, or taken from another database.
    pub fn epoch(&self) -> Option<u64> {
        self.inner.store.epoch()
    }

    /// Makes the last committed state the one that new snapshots of this database see.
    ///
    /// While the database is still read from its store, this waits until all of it is in memory.
    /// [`Connection::share`] can be interrupted meanwhile, and tells how far it is.
    pub fn share(&self) -> Result<ShareInfo> {
        self.inner.store.share()
    }

    /// Moves a snapshot to the newest shared state of its origin; `false` when there is none newer.
    /// When the origin has been dropped and made anew since, that is the new one's.
    ///
    /// An error once the snapshot has been written to. Results and arrays already handed out keep
    /// the state they were read from.
    pub fn refresh(&self) -> Result<bool> {
        self.inner.store.refresh()
    }

    /// Waits until [`Database::refresh`] has something to move to; `false` at the time-out. An
    /// error when there is no database of the name, or no longer one.
    pub fn wait_newer(&self, timeout: Duration) -> Result<bool> {
        self.inner.store.wait_newer(timeout)
    }

    /// What it holds.
    pub fn info(&self) -> DatabaseInfo {
        let catalog = self.inner.store.latest();
        let mut info = DatabaseInfo {
            name: self.inner.name.clone(),
            is_snapshot: self.inner.is_snapshot,
            epoch: self.epoch(),
            tables: 0,
            rows: 0,
        };
        for schema in catalog.schema_names() {
            for table in catalog.table_names(&schema).unwrap_or_default() {
                info.tables += 1;
                if let Ok(Some(table)) = catalog.table(&schema, &table) {
                    info.rows += table.row_count();
                }
            }
        }
        info
    }

    /// Whether a named database stays when no process uses it any more. It does not where its
    /// memory is a memfd, as when the tmpfs has no room for it, and no store on a disk has it too.
    pub fn outlives_processes(&self) -> bool {
        self.inner.store.outlives_processes()
    }

    /// Ends this handle's use of the database. Other connections to it get [`Error::Closed`];
    /// results and arrays already handed out stay valid. A named database stays in memory.
    pub fn close(self) -> Result<()> {
        self.inner.store.clone().close()
    }

    /// The directory of its namespace; `None`: the default one.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.inner.home.as_deref()
    }

    /// The storage below.
    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("name", &self.inner.name)
            .field("is_snapshot", &self.inner.is_snapshot)
            .finish_non_exhaustive()
    }
}

/// The namespace in directory `home`, or the default one.
fn namespace(home: Option<&Path>) -> Result<Namespace> {
    Ok(match home {
        Some(home) => Namespace::open(home)?,
        None => Namespace::open_default()?,
    })
}

/// Whether a name is a path, or ends as the files of other databases do.
fn is_like_file(name: &str) -> bool {
    let ends = ["db", "ddb", "duckdb", "sqlite", "sqlite3"];
    let end = Path::new(name).extension().and_then(OsStr::to_str).unwrap_or_default();
    ["/", "./", "../", "~/"].iter().any(|start| name.starts_with(start))
        || ends.iter().any(|known| end.eq_ignore_ascii_case(known))
}
