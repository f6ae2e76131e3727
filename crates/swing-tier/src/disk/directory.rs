//! A directory of the real file system: direct I/O, `fsync`, `flock`.
//!
//! Files get mode 0600 and directories 0700. The lock is a `flock` on a file that holds the owner's
//! process id as text; the kernel drops it however the process ends. A forked child does not have
//! it, and can not write: everything that changes a file is refused there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::arena::Arena;
use crate::disk::held::{HeldLock, Taking};
use crate::error::{Cause, IoError};
use crate::io::file::{DiskFile, LockState};
use crate::io::kept::KeptFile;
use crate::io::{Choice, Engine, Pool, PoolQueue, RingQueue, choose};
use crate::process::{ProcessMark, random_u64};
use crate::profile::DeviceProfile;
use crate::storage::{
    Access, FileRef, IoResult, Locked, MAX_QUEUE_DEPTH, Queue, QueueOptions, Storage,
};

/// How long a lock is tried to be taken: a program that another thread starts has the descriptors
/// of this one for an instant, also that of a lock which was given up meanwhile.
const LET_GO: Duration = Duration::from_millis(100);

/// How a directory is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectoryOptions {
    /// What moves the bytes.
    pub engine: Engine,
    /// Whether the directory is made if it is not there.
    pub create: bool,
}

/// A directory whose files hold a log.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    handle: KeptFile,
    choice: Choice,
    mark: ProcessMark,
    lock: Arc<LockState>,
    pool: Mutex<Option<Arc<Pool>>>,
}

impl Directory {
    /// Opens the directory and decides what moves its bytes.
    ///
    /// ```
    /// use swing_tier::{Directory, DirectoryOptions};
    /// # let temporary = tempfile::tempdir()?;
    /// # let path = temporary.path().join("store");
    /// let options = DirectoryOptions { create: true, ..Default::default() };
    /// let directory = Directory::open(&path, options)?;
    /// println!("{}", directory.choice());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`IoError`] if the directory cannot be made or opened, or if a ring is asked for and the
    /// kernel refuses it.
    pub fn open(path: &Path, options: DirectoryOptions) -> IoResult<Self> {
        let failed = |action| move |e: std::io::Error| IoError::from_os(action, path, e);
        if options.create {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            // The system says "File exists".
            let is_file = path.metadata().is_ok_and(|facts| !facts.is_dir());
            if made.is_err() && is_file {
                return Err(IoError::new("open", path, Cause::Os(libc::ENOTDIR)));
            }
            made.map_err(failed("create"))?;
            // Its name in the parent has to outlive a power cut, too.
            if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
                let _ = File::open(parent).and_then(|parent| parent.sync_all());
            }
        }
        let path = path.canonicalize().map_err(failed("open"))?;
        let handle = File::open(&path).map_err(failed("open"))?;
        if !handle.metadata().map_err(failed("examine"))?.is_dir() {
            return Err(IoError::new("open", &path, Cause::Os(libc::ENOTDIR)));
        }
        let choice = decide(options.engine, &handle, &path)?;
        let mark = ProcessMark::current();
        let handle = KeptFile::new(handle, Some(&path));
        let lock = Arc::new(LockState::default());
        Ok(Directory { path, handle, choice, mark, lock, pool: Mutex::new(None) })
    }

    /// What moves the bytes, and why.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    fn ours(&self, action: &'static str, path: &Path) -> IoResult<()> {
        if self.mark.is_stale() {
            return Err(IoError::new(action, path, Cause::Forked));
        }
        if self.lock.is_lost() {
            return Err(IoError::new(action, path, Cause::Closed));
        }
        Ok(())
    }

    /// The directory's descriptor, for one call.
    fn here(&self, action: &'static str) -> IoResult<BorrowedFd<'_>> {
        let closed = || IoError::new(action, &self.path, Cause::Closed);
        self.handle.here(true).ok_or_else(closed)
    }

    fn disk_file(&self, file: File, path: PathBuf) -> DiskFile {
        DiskFile::new(file, path, self.lock.clone())
    }

    fn flags(&self) -> i32 {
        let direct = if self.choice.direct { libc::O_DIRECT } else { 0 };
        direct | libc::O_NOFOLLOW | libc::O_CLOEXEC
    }

    fn pool(&self) -> Arc<Pool> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        match &*pool {
            Some(there) if !there.mark.is_stale() => there.clone(),
            _ => pool.insert(Pool::new()).clone(),
        }
    }
}

/// `statx` reports an alignment of regular files only: it is asked of one of the directory's, or
/// of one without a name. On a read-only file system without files a ring makes no difference.
fn decide(engine: Engine, handle: &File, path: &Path) -> IoResult<Choice> {
    let probe = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE | libc::O_CLOEXEC)
        .open(path)
        .ok()
        .or_else(|| any_file(path));
    let file = probe.as_ref().unwrap_or(handle);
    choose(engine, file).map_err(|e| IoError::from_os("set up io_uring for", path, e))
}

fn any_file(path: &Path) -> Option<File> {
    let entries = std::fs::read_dir(path).ok()?.flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .find_map(|entry| File::open(entry.path()).ok())
}

impl Directory {
    /// Makes a file without a name, which is gone when it is closed, however the process ends
    /// (INV-PROBE-1). Its requests are multiples of the device's own alignment.
    pub(crate) fn create_nameless(&self) -> IoResult<Arc<DiskFile>> {
        let name = format!("probe-{}-{:016x}", std::process::id(), random_u64());
        let path = self.path.join(&name);
        let file = self.create_file(&path)?;
        self.remove(&name)?;
        Ok(Arc::new(self.disk_file(file, path).aligned(self.choice.align_bytes)))
    }

    fn create_file(&self, path: &Path) -> IoResult<File> {
        self.ours("create", path)?;
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(self.flags())
            .open(path)
            .map_err(|error| IoError::from_os("create", path, error))
    }
}

impl Directory {
    fn hold(&self, mut lock: HeldLock) -> Locked {
        lock.tell(&self.lock);
        Locked::Held(Box::new(lock))
    }

    /// Takes the lock of that name, if nobody holds it at this moment.
    fn try_lock(&self, name: &str, exclusive: bool) -> IoResult<Locked> {
        let path = self.path.join(name);
        let failed = |e: std::io::Error| IoError::from_os("lock", &path, e);
        let _forks_wait = Taking::begin();
        let opened = OpenOptions::new()
            .read(true)
            .write(exclusive)
            .create(exclusive)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&path);
        let mut file = match opened {
            Ok(file) => file,
            // Nobody has written here since the lock file went, or ever.
            Err(error) if !exclusive && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Locked::Held(Box::new(self.lock.note(true, None))));
            }
            Err(error) => return Err(failed(error)),
        };
        let operation = if exclusive {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match rustix::fs::flock(&file, operation) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Ok(Locked::Busy { pid: text.trim().parse().unwrap_or(0) });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        if exclusive {
            // Only a message for others: a full disk does not matter.
            let _ = file.set_len(0);
            let _ = file.rewind().and_then(|()| write!(file, "{}", std::process::id()));
            let again = || OpenOptions::new().read(true).open(&path).ok();
            return Ok(self.hold(HeldLock::exclusive(file, again)));
        }
        Ok(self.hold(HeldLock::shared(file)))
    }
}

impl Storage for Directory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn foreign_owner(&self) -> IoResult<Option<u32>> {
        let facts = rustix::fs::fstat(self.here("examine")?)
            .map_err(|e| IoError::from_os("examine", &self.path, e))?;
        let us = rustix::process::geteuid().as_raw();
        Ok(Some(facts.st_uid).filter(|&owner| owner != us))
    }

    fn create(&self, name: &str) -> IoResult<FileRef> {
        let path = self.path.join(name);
        let file = self.create_file(&path)?;
        Ok(Arc::new(self.disk_file(file, path)))
    }

    fn open(&self, name: &str, access: Access) -> IoResult<Option<FileRef>> {
        let path = self.path.join(name);
        let write = access == Access::Write;
        if write {
            self.ours("open", &path)?;
        }
        let opened =
            OpenOptions::new().read(true).write(write).custom_flags(self.flags()).open(&path);
        match opened {
            Ok(file) => Ok(Some(Arc::new(self.disk_file(file, path)))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(IoError::from_os("open", &path, error)),
        }
    }

    fn list(&self) -> IoResult<Vec<String>> {
        let failed = |e| IoError::from_os("list", &self.path, e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            // A name that is no text is none of ours.
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        let path = self.path.join(from);
        self.ours("rename", &path)?;
        std::fs::rename(&path, self.path.join(to)).map_err(|e| IoError::from_os("rename", &path, e))
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        let path = self.path.join(name);
        self.ours("remove", &path)?;
        std::fs::remove_file(&path).map_err(|e| IoError::from_os("remove", &path, e))
    }

    fn sync_directory(&self) -> IoResult<()> {
        self.ours("sync", &self.path)?;
        let synced = rustix::fs::fsync(self.here("sync")?);
        synced.map_err(|e| IoError::from_os("sync", &self.path, e))
    }

    fn lock(&self, name: &str, exclusive: bool) -> IoResult<Locked> {
        let start = Instant::now();
        loop {
            match self.try_lock(name, exclusive)? {
                Locked::Busy { .. } if start.elapsed() < LET_GO => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                found => return Ok(found),
            }
        }
    }

    fn profile(&self) -> Option<DeviceProfile> {
        DeviceProfile::find(&self.path)
    }

    fn queue(&self, options: &QueueOptions) -> IoResult<Box<dyn Queue>> {
        let failed = |e| IoError::from_os("make a queue for", &self.path, e);
        if options.depth == 0 || options.depth > MAX_QUEUE_DEPTH {
            return Err(failed(std::io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let arena = Arena::new(&options.buffers).map_err(failed)?;
        if self.choice.engine == Engine::Ring {
            match RingQueue::new(arena.clone(), options.depth) {
                Ok(queue) => return Ok(Box::new(queue)),
                // Later rings may be refused for want of memory or descriptors, or by a filter of
                // system calls that came since; threads are not.
                Err(error) => match error.raw_os_error() {
                    // Busy: the thread has too many rings.
                    Some(libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::EBUSY) => {}
                    Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {}
                    _ => return Err(failed(error)),
                },
            }
        }
        Ok(Box::new(PoolQueue::new(self.pool(), arena, options.depth)))
    }
}
