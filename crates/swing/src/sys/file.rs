//! Files and folders through directory descriptors, so that a folder that is renamed while it is
//! used stays the same folder.
//!
//! All descriptors are close-on-exec. Nothing here follows symbolic links inside a namespace except
//! `/proc/self/fd` links, which are how a hard link is made from an open file.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{self, AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::model::error::{Fault, Result};
use crate::model::units::ByteLen;
use crate::sys::descriptors;
use crate::sys::kept_file::{Access, Here, KeptFile, proc_path};
use crate::sys::limits::{self, Limit};
use crate::sys::strict::strict_assert;
use crate::sys::sync::Mutex;

/// Mode of files this crate makes: for the user alone.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Mode of folders this crate makes.
const DIR_MODE: Mode = Mode::RWXU;
/// What memory comes in at least.
const PAGE: u64 = 4096;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: Dir,
    path: PathBuf,
}

#[derive(Debug)]
enum Dir {
    /// For one call.
    Open(OwnedFd),
    /// For longer: where the program has closed it, it is opened again by its path.
    Kept(KeptFile),
}

impl Folder {
    /// Opens an existing folder by its path.
    pub(crate) fn open_path(path: &Path) -> Result<Self> {
        Self::open_with(path, OFlags::empty())
    }

    /// The same of a folder that is no link to one.
    pub(crate) fn open_itself(path: &Path) -> Result<Self> {
        Self::open_with(path, OFlags::NOFOLLOW)
    }

    fn open_with(path: &Path, more: OFlags) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
        let dir = descriptors::open(|| fs::open(path, flags, Mode::empty()))
            .map_err(|e| not_found(e, "open", path))?;
        Ok(Self { dir: Dir::Open(dir), path: path.to_owned() })
    }

    /// The same, to be kept for longer than a call.
    pub(crate) fn kept(self) -> Result<Self> {
        let Self { dir, path } = self;
        let dir = match dir {
            Dir::Open(dir) => KeptFile::new(dir, Access::Folder)
                .map_err(|e| Fault::io("keep", &path, e))?
                .named(&path),
            Dir::Kept(dir) => dir,
        };
        Ok(Self { dir: Dir::Kept(dir), path })
    }

    /// The open folder, for one call.
    fn here(&self) -> Result<Here<'_>, Errno> {
        match &self.dir {
            Dir::Open(dir) => Ok(Here::opened(dir)),
            Dir::Kept(dir) => dir.here(),
        }
    }

    /// Opens the folder `name` in this one.
    pub(crate) fn open_folder(&self, name: &str) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = self.path.join(name);
        let dir = descriptors::open(|| fs::openat(self.here()?, name, flags, Mode::empty()))
            .map_err(|e| not_found(e, "open", &path))?;
        Ok(Self { dir: Dir::Open(dir), path })
    }

    pub(crate) fn make_folder(&self, name: &str) -> Result<()> {
        let made = self.here().and_then(|dir| fs::mkdirat(dir, name, DIR_MODE));
        made.map_err(|e| match e {
            // Of an open directory and a plain name this means one thing.
            Errno::NOENT => Fault::Io(Fault::deleted("create a folder in", &self.path)),
            e => self.fault(e, "create", name),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The same folder under the name it has been renamed to.
    pub(crate) fn renamed(self, path: PathBuf) -> Self {
        let dir = match self.dir {
            Dir::Open(dir) => Dir::Open(dir),
            Dir::Kept(dir) => Dir::Kept(dir.renamed(&path)),
        };
        Self { dir, path }
    }

    /// A short path to `name` for calls that take no directory descriptor; valid while this folder
    /// is open.
    pub(crate) fn proc_path(&self, name: &str) -> Result<PathBuf, Errno> {
        Ok(proc_path(self.here()?).join(name))
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn fault(&self, e: Errno, action: &'static str, name: &str) -> Fault {
        let path = self.join(name);
        match e {
            Errno::NOSPC | Errno::DQUOT => out_of_memory(&self.path, ByteLen(4096)),
            e => not_found(e, action, &path),
        }
    }

    pub(crate) fn open_read(&self, name: &str) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = descriptors::open(|| fs::openat(self.here()?, name, flags, Mode::empty()))
            .map_err(|e| self.fault(e, "open", name))?;
        Ok(File::from(fd))
    }

    pub(crate) fn open_write(&self, name: &str) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = descriptors::open(|| fs::openat(self.here()?, name, flags, Mode::empty()))
            .map_err(|e| self.fault(e, "open", name))?;
        Ok(File::from(fd))
    }

    /// Creates a file that must not exist yet, open for reading and writing.
    pub(crate) fn create_new(&self, name: &str) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = descriptors::open(|| fs::openat(self.here()?, name, flags, FILE_MODE))
            .map_err(|e| self.fault(e, "create", name))?;
        Ok(File::from(fd))
    }

    /// A file without a name: it vanishes with its last holder unless [`Folder::link_file`] names
    /// it.
    pub(crate) fn create_nameless(&self) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let fd = descriptors::open(|| fs::openat(self.here()?, ".", flags, FILE_MODE))
            .map_err(|e| self.fault(e, "create a file in", "."))?;
        Ok(File::from(fd))
    }

    /// Gives an open file a (further) name in this folder. An existing file of that name is kept:
    /// `Ok(false)`.
    pub(crate) fn link_file(&self, file: impl AsFd, name: &str) -> Result<bool> {
        let from = proc_path(file);
        let flags = AtFlags::SYMLINK_FOLLOW;
        match self.here().and_then(|dir| fs::linkat(fs::CWD, &from, dir, name, flags)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(self.fault(e, "link", name)),
        }
    }

    /// Gives the file at a path, if it is this one, another name in this folder: `Ok(false)` when
    /// there is none, or another file.
    pub(crate) fn link_from(&self, path: &Path, identity: (u64, u64), name: &str) -> Result<bool> {
        let linked =
            self.here().and_then(|dir| fs::linkat(fs::CWD, path, dir, name, AtFlags::empty()));
        match linked {
            Ok(()) => {}
            Err(Errno::EXIST) if self.identity_of(name) == Some(identity) => return Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
            Err(e) => return Err(self.fault(e, "link", name)),
        }
        if self.identity_of(name) == Some(identity) {
            return Ok(true);
        }
        self.unlink(name)?;
        Ok(false)
    }

    /// Gives a file in this folder another name in it, which nothing has.
    pub(crate) fn link(&self, existing: &str, name: &str) -> Result<()> {
        let link = |dir: Here<'_>| fs::linkat(dir, existing, dir, name, AtFlags::empty());
        let linked = self.here().and_then(link);
        linked.map_err(|e| self.fault(e, "link", name))
    }

    /// Makes `name` a second name of `existing`, both in this folder, replacing what `name` was in
    /// one step.
    pub(crate) fn relink(&self, existing: &str, temporary: &str, name: &str) -> Result<()> {
        let link = |dir: Here<'_>| fs::linkat(dir, existing, dir, temporary, AtFlags::empty());
        match self.here().and_then(link) {
            Err(Errno::EXIST) => {
                // A crash left the temporary name behind.
                self.unlink(temporary)?;
                self.link(existing, temporary)?;
            }
            other => other.map_err(|e| self.fault(e, "link", temporary))?,
        }
        self.rename(temporary, name)
    }

    /// Where a symbolic link in this folder points to, without following it.
    pub(crate) fn read_link(&self, name: &str) -> Result<String> {
        let text = self.here().and_then(|dir| fs::readlinkat(dir, name, Vec::new()));
        let text = text.map_err(|e| self.fault(e, "read the link", name))?;
        // What is not UTF-8 leads nowhere.
        Ok(text.into_string().unwrap_or_default())
    }

    /// Makes `name` a symbolic link, replacing what it was in one step.
    pub(crate) fn place_link(&self, target: &str, temporary: &str, name: &str) -> Result<()> {
        let link = || fs::symlinkat(target, self.here()?, temporary);
        match link() {
            Err(Errno::EXIST) => {
                // A crash left the temporary name behind.
                self.unlink(temporary)?;
                link().map_err(|e| self.fault(e, "link", temporary))?;
            }
            other => other.map_err(|e| self.fault(e, "link", temporary))?,
        }
        self.rename(temporary, name)
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed = self.here().and_then(|dir| fs::renameat(dir, from, dir, to));
        renamed.map_err(|e| self.fault(e, "rename", from))
    }

    /// Renames unless the target exists: `Ok(false)` then.
    pub(crate) fn rename_new(&self, from: &str, to: &str) -> Result<bool> {
        let rename = |dir: Here<'_>| fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE);
        match self.here().and_then(rename) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(false),
            Err(e) => Err(self.fault(e, "rename", from)),
        }
    }

    /// Removes a file; one that is gone already is fine.
    pub(crate) fn unlink(&self, name: &str) -> Result<()> {
        match self.here().and_then(|dir| fs::unlinkat(dir, name, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(self.fault(e, "remove", name)),
        }
    }

    /// Removes an empty folder: `Ok(false)` when something is still in it.
    pub(crate) fn remove_folder(&self, name: &str) -> Result<bool> {
        match self.here().and_then(|dir| fs::unlinkat(dir, name, AtFlags::REMOVEDIR)) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(e) => Err(self.fault(e, "remove", name)),
        }
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.identity_of(name).is_some()
    }

    /// The names in this folder, without `.` and `..`; names that are not UTF-8 are none of ours.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = descriptors::open(|| fs::openat(self.here()?, ".", flags, Mode::empty()))
            .map_err(|e| self.fault(e, "list", "."))?;
        let mut names = Vec::new();
        for entry in fs::Dir::new(fd).map_err(|e| self.fault(e, "list", "."))? {
            let entry = entry.map_err(|e| self.fault(e, "list", "."))?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(names)
    }

    /// Identity of the folder itself: device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        match &self.dir {
            // Nothing has the identity of what cannot be asked.
            Dir::Open(dir) => fs::fstat(dir).map_or((0, 0), |st| (st.st_dev, st.st_ino)),
            Dir::Kept(dir) => dir.identity(),
        }
    }

    /// Whether a folder that somebody has open has the name `name` in this one. No other has its
    /// identity, so it does not matter whether the number that is asked through is this folder's.
    pub(crate) fn has_folder(&self, name: &str, identity: (u64, u64)) -> bool {
        let asked = match &self.dir {
            Dir::Open(dir) => Some(dir.as_fd()),
            Dir::Kept(dir) => dir.unchecked(),
        };
        let found = asked.and_then(|dir| fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok());
        found.is_some_and(|st| (st.st_dev, st.st_ino) == identity)
            || self.identity_of(name) == Some(identity)
    }

    /// Identity of what `name` in this folder is now.
    pub(crate) fn identity_of(&self, name: &str) -> Option<(u64, u64)> {
        let st = fs::statat(self.here().ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((st.st_dev, st.st_ino))
    }
}

fn not_found(e: Errno, action: &'static str, path: &Path) -> Fault {
    match e {
        // Also something that is no folder, or a link, where a folder of ours would be.
        Errno::NOENT | Errno::NOTDIR => Fault::NotFound,
        e => Fault::io(action, path, e),
    }
}

/// Opens a file of this library by its path, to write it.
pub(crate) fn open_named(path: &Path) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = descriptors::open(|| fs::open(path, flags, Mode::empty()))
        .map_err(|e| not_found(e, "open", path))?;
    Ok(File::from(fd))
}

/// A second, read-only open of the same file: the kernel refuses to make mappings of it writable.
pub(crate) fn reopen_read(file: impl AsFd) -> Result<File> {
    let path = proc_path(file);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = descriptors::open(|| fs::open(&path, flags, Mode::empty()))
        .map_err(|e| Fault::io("open", &path, e))?;
    Ok(File::from(fd))
}

/// Facts about an open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileFacts {
    pub dev: u64,
    pub ino: u64,
    pub links: u64,
    pub len: u64,
    pub allocated: u64,
    pub regular: bool,
}

impl FileFacts {
    /// Device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }
}

pub(crate) fn facts(file: impl AsFd, path: &Path) -> Result<FileFacts> {
    let st = fs::fstat(file).map_err(|e| Fault::io("examine", path, e))?;
    Ok(FileFacts {
        dev: st.st_dev,
        ino: st.st_ino,
        links: st.st_nlink as u64,
        len: st.st_size as u64,
        allocated: st.st_blocks as u64 * 512,
        regular: fs::FileType::from_raw_mode(st.st_mode) == fs::FileType::RegularFile,
    })
}

/// Tries a shared (`exclusive == false`) or exclusive lock; `Ok(false)` when somebody else's stands
/// in the way.
pub(crate) fn try_lock(file: impl AsFd, exclusive: bool, path: &Path) -> Result<bool> {
    let file = file.as_fd();
    let operation = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    loop {
        match fs::flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(e) => return Err(Fault::io("lock", path, e)),
        }
    }
}

/// Whether this process may make a file reach so far. Beyond its limit on lengths of files the
/// kernel ends a process by SIGXFSZ, also where it writes into what a file has already.
pub(crate) fn may_reach(end: u64) -> bool {
    limits::limit(Limit::FileLength).is_none_or(|most| end <= most)
}

fn check_reach(end: u64, what: &'static str, path: &Path) -> Result<()> {
    if may_reach(end) {
        return Ok(());
    }
    let text = format!("{end} bytes are more than this process may make (ulimit -f)");
    Err(Fault::io(what, path, std::io::Error::other(text)))
}

pub(crate) fn set_len(file: impl AsFd, len: u64, path: &Path) -> Result<()> {
    check_reach(len, "resize", path)?;
    fs::ftruncate(file, len).map_err(|e| Fault::io("resize", path, e))
}

/// Gives the memory of a range of a file back to the system; the range reads as zeros afterwards.
pub(crate) fn punch(file: impl AsFd, offset: u64, len: u64, path: &Path) -> Result<()> {
    punch_quietly(file.as_fd(), offset, len).map_err(|e| Fault::io("give back memory of", path, e))
}

/// As [`punch`]; allocates nothing, for the fault handler.
pub(crate) fn punch_quietly(
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> std::result::Result<(), Errno> {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    strict_assert!(len > 0 && offset.checked_add(len).is_some(), "a range of the file");
    retry(|| fs::fallocate(file, mode, offset, len))
}

/// Allocates a range of a file (in small pages); the way to populate where `MADV_POPULATE_WRITE` is
/// missing. Where it fails some of the range may have got memory. Allocates nothing else.
///
/// Before Linux 6.11 any signal interrupts it, and what it has done is undone: with a timer that
/// rings often the whole range would never be finished, so it goes on in shorter steps.
pub(crate) fn allocate(
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> std::result::Result<(), Errno> {
    in_steps(len, |done, step| fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset + done, step))
}

/// Does what a signal may interrupt: all at once, and after interruptions in shorter steps.
fn in_steps(
    len: u64,
    mut call: impl FnMut(u64, u64) -> std::result::Result<(), Errno>,
) -> std::result::Result<(), Errno> {
    let (mut done, mut step) = (0, len);
    while done < len {
        let next = step.min(len - done);
        match call(done, next) {
            Ok(()) => done += next,
            Err(Errno::INTR) => step = (next / 2).next_multiple_of(PAGE),
            Err(e) => return Err(e),
        }
    }
    strict_assert!(done == len, "all of it is allocated");
    Ok(())
}

/// Repeats a call that a signal interrupted.
fn retry(
    mut call: impl FnMut() -> std::result::Result<(), Errno>,
) -> std::result::Result<(), Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// How long an answer about a device is good: the next one may follow a remount.
const PAGES_KNOWN: Duration = Duration::from_secs(1);
/// The device asked about last, when, and the answer.
static PAGES: Mutex<Option<(u64, Instant, bool)>> = Mutex::new(None);

/// Whether the memory of a file can come in huge pages: so its mount says, or for one that is not
/// on any mount of this process (a memfd), the system. Only how memory is filled depends on it, so
/// an answer may be [`PAGES_KNOWN`] old; asking anew costs more than all else that a new area does.
pub(crate) fn has_huge_pages(file: impl AsFd) -> bool {
    let Ok(st) = fs::fstat(file) else { return false };
    // A child forked while another thread held this lock must not wait for it.
    let known = PAGES.try_lock().and_then(|known| *known);
    if let Some((device, since, answer)) = known
        && device == st.st_dev
        && since.elapsed() < PAGES_KNOWN
    {
        return answer;
    }
    let answer = device_has_huge_pages(st.st_dev);
    if let Some(mut known) = PAGES.try_lock() {
        *known = Some((st.st_dev, Instant::now(), answer));
    }
    answer
}

fn device_has_huge_pages(device: u64) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let device = format!("{}:{}", fs::major(device), fs::minor(device));
    match huge_option(&mounts, &device) {
        Some(option) => option != "never",
        None => {
            let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
            let words = std::fs::read_to_string(path).unwrap_or_default();
            ["[always]", "[within_size]", "[advise]", "[force]"].iter().any(|w| words.contains(w))
        }
    }
}

/// The option `huge` of the mount with this device, in the text of a `mountinfo`; without the
/// option it is `never`.
fn huge_option<'a>(mounts: &'a str, device: &str) -> Option<&'a str> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    let options = line.rsplit(' ').next()?.split(',');
    Some(options.filter_map(|o| o.strip_prefix("huge=")).next().unwrap_or("never"))
}

pub(crate) fn write_all(file: impl AsFd, bytes: &[u8], path: &Path) -> Result<()> {
    write_at(file, bytes, 0, path)
}

pub(crate) fn write_at(file: impl AsFd, bytes: &[u8], offset: u64, path: &Path) -> Result<()> {
    check_reach(offset.saturating_add(bytes.len() as u64), "write", path)?;
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(&file, &bytes[done..], offset + done as u64) {
            Ok(0) => return Err(Fault::io("write", path, Errno::IO)),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::DQUOT | Errno::NOMEM) => {
                return Err(out_of_memory(path, ByteLen(bytes.len() as u64)));
            }
            Err(e) => return Err(Fault::io("write", path, e)),
        }
    }
    Ok(())
}

/// Fills a buffer from a place of a file; `false`: the file ends before.
pub(crate) fn read_exact(file: impl AsFd, bytes: &mut [u8], offset: u64) -> Result<bool, Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(&file, &mut bytes[done..], offset + done as u64) {
            Ok(0) => return Ok(false),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

/// Reads a whole file of at most `limit` bytes; `Ok(None)` when it is longer.
pub(crate) fn read_all(file: impl AsFd, limit: u64, path: &Path) -> Result<Option<Vec<u8>>> {
    let len = facts(&file, path)?.len;
    if len > limit { Ok(None) } else { read_known(file, len, path).map(Some) }
}

/// Reads a whole file whose length is known.
pub(crate) fn read_known(file: impl AsFd, len: u64, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    match read_exact(file, &mut bytes, 0) {
        Ok(true) => Ok(bytes),
        // Somebody truncated it meanwhile: what is missing will fail the checksum.
        Ok(false) => Ok(Vec::new()),
        Err(e) => Err(Fault::io("read", path, e)),
    }
}

/// The error for a full file system, with what is free on it now.
pub(crate) fn out_of_memory(path: &Path, needed: ByteLen) -> Fault {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let free = free_space(folder).map_or(ByteLen(0), |room| room.free);
    Fault::OutOfMemory { needed, file_system: folder.to_owned(), free }
}

/// How much a file system holds and can still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that can still be written.
    pub free: ByteLen,
    /// Bytes in all.
    pub size: ByteLen,
}

/// The room of the file system that `path` lies on; `None` when it cannot be asked.
pub fn free_space(path: &Path) -> Option<FreeSpace> {
    let st = fs::statfs(path).ok()?;
    let block = u64::try_from(st.f_bsize).ok()?;
    let bytes = |blocks: u64| ByteLen(blocks.saturating_mul(block));
    Some(FreeSpace { free: bytes(st.f_bavail), size: bytes(st.f_blocks) })
}

/// Whether a path lies on a file system in memory.
pub(crate) fn is_tmpfs(path: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    fs::statfs(path).is_ok_and(|st| st.f_type == TMPFS)
}

/// Owner and permission bits of a directory.
pub(crate) fn owner_and_mode(folder: &Folder) -> Result<(u32, u32)> {
    let st =
        folder.here().and_then(fs::fstat).map_err(|e| Fault::io("examine", &folder.path, e))?;
    Ok((st.st_uid, st.st_mode & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timer that rings while more than so much is being done.
    #[test]
    fn what_is_interrupted_goes_on_in_shorter_steps() {
        for (len, most) in [(256 << 20, 3 << 20), (PAGE, PAGE), (5 * PAGE, PAGE), (7, 7)] {
            let (mut steps, mut calls) = (Vec::new(), 0);
            let result = in_steps(len, |done, step| {
                calls += 1;
                if step > most {
                    return Err(Errno::INTR);
                }
                steps.push((done, step));
                Ok(())
            });
            assert!(result.is_ok() && calls <= steps.len() + 8, "{calls} for {}", steps.len());
            let ends = steps.iter().map(|(done, step)| done + step);
            assert!(std::iter::once(0).chain(ends).zip(&steps).all(|(end, next)| end == next.0));
            assert_eq!(steps.iter().map(|(_, step)| step).sum::<u64>(), len);
        }
        assert_eq!(in_steps(8, |_, _| Err(Errno::NOSPC)), Err(Errno::NOSPC));
    }

    #[test]
    fn mounts_say_whether_they_have_huge_pages() {
        let mounts = "22 1 0:21 / /proc rw,nosuid - proc proc rw\n\
                      31 22 0:27 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=8g,huge=advise\n\
                      32 22 0:28 / /mnt/a\\040b rw shared:3 - tmpfs none rw,size=8g\n";
        assert_eq!(huge_option(mounts, "0:27"), Some("advise"));
        assert_eq!(huge_option(mounts, "0:28"), Some("never"));
        assert_eq!(huge_option(mounts, "0:2"), None);
        assert_eq!(huge_option("", "0:27"), None);
    }

    #[test]
    fn what_is_known_of_one_device_is_not_told_of_another() {
        let files = ["/dev/shm", "/tmp", "/proc/self/stat"].map(|path| File::open(path).unwrap());
        for _ in 0..3 {
            for file in &files {
                let device = fs::fstat(file).unwrap().st_dev;
                assert_eq!(has_huge_pages(file), device_has_huge_pages(device));
                assert_eq!(has_huge_pages(file), device_has_huge_pages(device));
            }
        }
    }
}
