//! The directory that holds areas, and how areas are made, found and owned in it.
//!
//! Each area is a folder under its (encoded) name. Folders whose names begin with a dot are areas
//! without a name, areas in the making, and the remains of removed ones. A folder appears under its
//! final name by a rename, complete and with its owner's lock held, so nobody ever sees a half-made
//! area.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::area::{Area, Start};
use crate::backing::{Backing, BackingChoice};
use crate::info::{Info, Lineage};
use crate::inventory::Inventory;
use crate::mapping::Mapping;
use crate::model::error::{Context, CreateError, Fault, NamespaceError, Result};
use crate::model::name::AreaName;
use crate::model::runs::RunMap;
use crate::model::units::AreaId;
use crate::options::AreaOptions;
use crate::publish::{now_ns, was_published};
use crate::sys::file::{self, Folder};
use crate::sys::file_lock::{self, FileLock};
use crate::sys::process;

/// The environment variable that names the namespace directory.
pub const HOME_VARIABLE: &str = "SWINGDB_HOME";
/// The file whose exclusive lock makes a process the writer.
pub(crate) const OWNER_LOCK: &str = "owner.lock";
/// Prefixes of folders that are not named areas.
pub(crate) const UNNAMED: &str = ".unnamed-";
pub(crate) const MAKING: &str = ".new-";
pub(crate) const REMOVED: &str = ".removed-";
/// How often making a folder is tried while others make, remove or collect the same one.
const MAX_TRIES: u32 = 16;
/// The longest owner file that is read.
const MAX_OWNER_BYTES: u64 = 4096;

/// A directory of areas. Clones are the same directory.
#[derive(Clone, Debug)]
pub struct Namespace {
    folder: Arc<Folder>,
    backing: Backing,
}

/// The held lock of an area's owner. Given up when dropped: nobody is named as the owner any more,
/// and a program that this process is just starting does not hold it on. No child has it.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    lock: FileLock,
    /// The file, by its present name.
    path: PathBuf,
}

/// A new folder, locked.
pub(crate) struct Made {
    pub folder: Folder,
    pub lock: OwnerLock,
}

/// Who owns an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Command line.
    pub command: String,
}

impl Namespace {
    /// `$SWINGDB_HOME`, else `/dev/shm/swingdb-<uid>`.
    pub fn default_path() -> PathBuf {
        match std::env::var_os(HOME_VARIABLE) {
            Some(path) if !path.is_empty() => PathBuf::from(path),
            _ => PathBuf::from(format!("/dev/shm/swingdb-{}", process::user_id())),
        }
    }

    /// Opens the default namespace, making its directory if need be.
    pub fn open_default() -> Result<Self, NamespaceError> {
        Self::open(Self::default_path())
    }

    /// Opens a namespace directory, making it (mode 0700) if need be. One that belongs to another
    /// user, or that others may write to, is refused: they could exchange files under our feet.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NamespaceError> {
        let path = path.as_ref();
        Self::open_inner(path).map_err(|f| NamespaceError::from_fault(f, &Context::path(path)))
    }

    fn open_inner(path: &Path) -> Result<Self> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| Fault::io("create", path, e))?;
        let refuse = |why: &str| {
            let source = std::io::Error::new(std::io::ErrorKind::PermissionDenied, why);
            Err(Fault::io("use", path, source))
        };
        // Where anybody may make links (`/dev/shm`), somebody else's could lead to any folder of
        // this user's.
        let link = std::fs::symlink_metadata(path).map_err(|e| Fault::io("look at", path, e))?;
        if link.is_symlink() && ![0, process::user_id()].contains(&link.uid()) {
            return refuse("it is a symbolic link of another user; set SWINGDB_HOME");
        }
        let folder = Folder::open_path(path)?.kept()?;
        let (uid, mode) = file::owner_and_mode(&folder)?;
        if uid != process::user_id() {
            return refuse(
                "it belongs to another user; set SWINGDB_HOME to a directory of your own",
            );
        }
        if mode & 0o022 != 0 {
            return refuse("other users may write to it; chmod 700 it");
        }
        Ok(Self { folder: Arc::new(folder), backing: Backing::Auto })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The same directory; areas made or derived through this handle, whose options leave it open,
    /// are made of `backing`.
    #[must_use]
    pub fn with_backing(mut self, backing: Backing) -> Self {
        self.backing = backing;
        self
    }

    /// What new areas are made of when their options leave it open, and why.
    pub fn backing(&self) -> Result<BackingChoice, NamespaceError> {
        let ctx = Context::path(self.path());
        self.choose_backing(Backing::Auto).map_err(|f| NamespaceError::from_fault(f, &ctx))
    }

    pub(crate) fn choose_backing(&self, wish: Backing) -> Result<BackingChoice> {
        crate::backing::choose(self.path(), [wish, self.backing])
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Creates a named area with this process as its writer.
    pub fn create(&self, name: &AreaName, opts: &AreaOptions) -> Result<Area, CreateError> {
        let ctx = Context::named(name, self.path());
        self.create_inner(Some(name), opts).map_err(|f| CreateError::from_fault(f, &ctx))
    }

    /// Creates an area without a name: it dies with its process and cannot be hooked by others.
    pub fn create_unnamed(&self, opts: &AreaOptions) -> Result<Area, CreateError> {
        let ctx = Context::path(self.path());
        self.create_inner(None, opts).map_err(|f| CreateError::from_fault(f, &ctx))
    }

    fn create_inner(&self, name: Option<&AreaName>, opts: &AreaOptions) -> Result<Area> {
        let geometry = opts.geometry()?;
        let backing = self.choose_backing(opts.backing)?;
        let id = AreaId(process::random_id());
        let mapping = Mapping::reserve(self, geometry, opts.base_hint)?;
        mapping.claim_writer();
        let made = self.make_area_folder(name, id, &[])?;
        Ok(Area::start(Start {
            ns: self.clone(),
            folder: made.folder,
            lock: made.lock,
            id,
            name: name.cloned(),
            cow_threshold: opts.cow_threshold,
            backing,
            mapping,
            runs: RunMap::default(),
            sources: vec![None],
            payload: Vec::new(),
        }))
    }

    /// The name of an area's folder.
    pub(crate) fn folder_name(name: Option<&AreaName>, id: AreaId) -> String {
        match name {
            Some(name) => name.folder(),
            None => format!("{UNNAMED}{id}"),
        }
    }

    /// Makes the folder of a new area, complete and locked.
    pub(crate) fn make_area_folder(
        &self,
        name: Option<&AreaName>,
        id: AreaId,
        parents: &[Lineage],
    ) -> Result<Made> {
        self.collect_a_little();
        let target = Self::folder_name(name, id);
        for tries in 0..MAX_TRIES {
            // Another name each time: a collector may still be taking the last one away.
            let making = format!("{MAKING}{id}-{tries}");
            match self.try_make(&making, &target, id, parents) {
                Ok(Some(made)) => return Ok(made),
                Ok(None) => match self.clear_the_way(&target) {
                    // Nobody says that it is the owner: a collector holds the lock for a moment, or
                    // has just taken it away.
                    Err(Fault::Owned { pid: 0, .. } | Fault::NotFound) if tries + 1 < MAX_TRIES => {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    other => other?,
                },
                // A collector took the unfinished folder for a dead one, or is about to.
                Err(Fault::NotFound | Fault::Owned { pid: 0, .. }) => crate::lease::pause(tries),
                Err(fault) => return Err(fault),
            }
        }
        Err(Fault::AlreadyExists)
    }

    fn try_make(
        &self,
        making: &str,
        target: &str,
        id: AreaId,
        parents: &[Lineage],
    ) -> Result<Option<Made>> {
        self.folder.make_folder(making)?;
        let filled = self.fill_and_rename(making, target, id, parents);
        if !matches!(filled, Ok(Some(_))) {
            self.abandon(making);
        }
        filled
    }

    fn fill_and_rename(
        &self,
        making: &str,
        target: &str,
        id: AreaId,
        parents: &[Lineage],
    ) -> Result<Option<Made>> {
        let folder = self.folder.open_folder(making)?;
        folder.create_new(OWNER_LOCK)?;
        let mut lock = OwnerLock::take(&folder)?;
        Info { id, created_ns: now_ns(), parents: parents.to_vec() }.write(&folder)?;
        if !self.folder.rename_new(making, target)? {
            return Ok(None);
        }
        let folder = folder.renamed(self.folder.join(target)).kept()?;
        lock.path = folder.join(OWNER_LOCK);
        Ok(Some(Made { folder, lock }))
    }

    /// Takes away a folder that this process has begun to make. The name is its own, so nobody but
    /// a collector, who wants the same, does anything there; what cannot be taken away now is left
    /// to that.
    fn abandon(&self, making: &str) {
        debug_assert!(making.starts_with(MAKING), "nobody's area");
        if let Ok(folder) = self.folder.open_folder(making) {
            let _ = crate::remove::delete_folder(&self.folder, making, &folder);
        }
    }

    /// Whether a folder that was opened and then locked has its name still. Between the two another
    /// process may have removed it and made a new one: what is done by name would then befall that.
    pub(crate) fn still_named(&self, name: &str, folder: &Folder) -> Result<bool> {
        Ok(self.folder.identity_of(name) == Some(folder.identity()))
    }

    /// Something has the name already: an error, unless it is what a process that died before its
    /// first publish left.
    fn clear_the_way(&self, target: &str) -> Result<()> {
        let folder = match self.folder.open_folder(target) {
            Err(Fault::NotFound) => return Ok(()),
            other => other?,
        };
        let lock = OwnerLock::take(&folder)?;
        if !self.still_named(target, &folder)? {
            return Ok(());
        }
        if was_published(&folder) {
            // Memory that went with its last holder is no reason to refuse the name.
            let lost = || crate::memory::is_lost(&folder, &Inventory::take(&folder, &lock)?);
            if !crate::memory::has_links(&folder) || !lost().unwrap_or(false) {
                return Err(Fault::AlreadyExists);
            }
        }
        crate::remove::dismantle(self, &folder, target, &lock).map(|_| ())
    }
}

impl OwnerLock {
    /// Becomes the owner of a folder, or says who is.
    pub(crate) fn take(folder: &Folder) -> Result<Self> {
        Self::take_as(folder, &process::own_description())
    }

    /// As `take`, for a collector that holds the lock for a moment: without a description, so that
    /// whoever wants to become the owner waits instead of reporting the collector.
    pub(crate) fn take_quietly(folder: &Folder) -> Result<Self> {
        Self::take_as(folder, "")
    }

    fn take_as(folder: &Folder, text: &str) -> Result<Self> {
        let path = folder.join(OWNER_LOCK);
        let mut forks = file_lock::hold_off_forks();
        let file = folder.open_write(OWNER_LOCK)?;
        if !file::try_lock(&file, true, &path)? {
            let owner = read_owner(&file).unwrap_or(Owner { pid: 0, command: "unknown".into() });
            return Err(Fault::Owned { pid: owner.pid, command: owner.command });
        }
        file::set_len(&file, 0, &path)?;
        // On a full file system the lock stands without a description.
        let _ = file::write_all(&file, text.as_bytes(), &path);
        let lock = FileLock::keep(&file, None, Some(&mut forks));
        // Before forks go on.
        drop(file);
        Ok(Self { lock: lock.map_err(|e| Fault::io("lock", &path, e))?, path })
    }

    /// The locked file, if it is where it was.
    fn open(&self) -> Option<File> {
        let file = file::open_named(&self.path).ok()?;
        let facts = file::facts(&file, &self.path).ok()?;
        (facts.identity() == self.lock.identity()).then_some(file)
    }

    /// Notes the descriptor of a memory file without a name, so that listings can tell its size.
    pub(crate) fn note_memory(&self, memory: impl AsFd) {
        let line = format!("memory {}\n", memory.as_fd().as_raw_fd());
        if let Some(file) = self.open()
            && let Ok(facts) = file::facts(&file, &self.path)
        {
            // Listings only: on a full file system the size is not known.
            let _ = file::write_at(&file, line.as_bytes(), facts.len, &self.path);
        }
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // In a child the lock is the parent's. Nobody is the owner any more; then the lock goes.
        if self.lock.is_here()
            && let Some(file) = self.open()
        {
            let _ = file::set_len(&file, 0, &self.path);
        }
    }
}

/// The memory allocated in a file without a name that its live owner noted.
pub(crate) fn noted_memory(file: &File, owner: &Owner) -> Option<u64> {
    let mut bytes = vec![0; MAX_OWNER_BYTES as usize];
    let len = file.read_at(&mut bytes, 0).ok()?;
    let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
    let fd: u32 = text.lines().rev().find_map(|l| l.strip_prefix("memory "))?.parse().ok()?;
    let path = format!("/proc/{}/fd/{fd}", owner.pid);
    let facts = std::fs::metadata(&path).ok()?;
    // The descriptor may mean something else by now; a memory file lies beside its lock.
    let target = std::fs::read_link(&path).unwrap_or_default();
    let ours = facts.dev() == file.metadata().ok()?.dev()
        || target.to_str().is_some_and(|t| t.starts_with("/memfd:swing-"));
    (facts.is_file() && ours).then(|| facts.blocks() * 512)
}

/// Who an owner file names, if that process still lives.
pub(crate) fn read_owner(file: &File) -> Option<Owner> {
    let mut bytes = vec![0; MAX_OWNER_BYTES as usize];
    let len = file.read_at(&mut bytes, 0).ok()?;
    let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
    let (first, rest) = text.split_once('\n')?;
    let (pid, start) = first.split_once(' ')?;
    let (pid, start): (u32, u64) = (pid.parse().ok()?, start.parse().ok()?);
    let alive = process::start_time(pid) == Some(start);
    let command = rest.lines().next().unwrap_or_default().trim_end();
    alive.then(|| Owner { pid, command: command.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder of an area that nobody has, in a namespace of its own.
    fn unowned() -> (tempfile::TempDir, Folder) {
        let home = tempfile::tempdir().unwrap();
        let ns = Namespace::open(home.path()).unwrap();
        ns.folder().make_folder("area").unwrap();
        let folder = ns.folder().open_folder("area").unwrap();
        drop(folder.create_new(OWNER_LOCK).unwrap());
        (home, folder)
    }

    #[test]
    fn whoever_gives_a_lock_up_is_not_named_any_more() {
        let (_home, folder) = unowned();
        let lock = OwnerLock::take(&folder).unwrap();
        let file = folder.open_read(OWNER_LOCK).unwrap();
        assert!(matches!(
            OwnerLock::take(&folder),
            Err(Fault::Owned { pid, .. }) if pid == std::process::id()
        ));
        assert!(read_owner(&file).is_some());
        lock.note_memory(&file);
        drop(lock);
        assert!(read_owner(&file).is_none());
        drop(OwnerLock::take(&folder).unwrap());
        // Under its name there is another file by now, which stays as it is.
        let lock = OwnerLock::take(&folder).unwrap();
        folder.unlink(OWNER_LOCK).unwrap();
        file::write_all(folder.create_new(OWNER_LOCK).unwrap(), b"another", folder.path()).unwrap();
        drop(lock);
        let text = std::fs::read(folder.join(OWNER_LOCK)).unwrap();
        assert_eq!(text, b"another");
    }

    /// Another thread may be opening an area while the process forks, and die with the process.
    #[test]
    fn a_lock_that_no_area_has_yet_does_not_live_on_in_a_child() {
        let (_home, folder) = unowned();
        crate::fork::handle_forks();
        let lock = OwnerLock::take(&folder).unwrap();
        // SAFETY: the child does nothing but wait.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe { libc::pause() };
        }
        assert!(read_owner(&folder.open_read(OWNER_LOCK).unwrap()).is_some());
        assert!(matches!(OwnerLock::take(&folder), Err(Fault::Owned { .. })));
        drop(lock);
        assert!(OwnerLock::take(&folder).is_ok());
        // SAFETY: the child made above.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
}
