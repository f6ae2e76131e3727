//! Locks on files that do not depend on descriptors.
//!
//! The kernel gives a lock up with the last reference to the open file that has it, and a mapping
//! is such a reference. So whoever has locked a file maps its first page, without access, and
//! closes the descriptor: what a program does with descriptors that it did not open does not touch
//! the lock (INV-AREA-19). `munmap`, `exec` or death ends it, and `/proc/locks` names the process
//! as before. It costs 2 us and one mapping, and a descriptor less.
//!
//! Overlay file systems do not do it: a mapping there refers to another open file. So each device
//! is asked once ([`holds_by_mapping`]). Where the answer is no, or no mapping can be had, the lock
//! keeps its descriptor, as a [`KeptFile`]; it is as good as that.
//!
//! **Fork.** A lock of [`AtFork::Inherit`] is held by the child as well, until it ends. One of
//! [`AtFork::Leave`] is not: its mapping is not inherited, and no descriptor of one is left open in
//! a child by this library's handlers ([`hold_off_forks`]). **Concurrency.** Any thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use crate::sys::kept_file::{Access, KeptFile, proc_path};
use crate::sys::sync::{Mutex, MutexGuard};
use crate::sys::{descriptors, process};

/// What is mapped.
const LEN: usize = 4096;
/// Devices that are remembered.
const DEVICES: usize = 16;
/// Where a device's answer is tried: a byte beyond all that anybody locks.
const TRIED_FROM: i64 = 1 << 60;

/// Whether a child of a fork has the lock, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtFork {
    Leave,
    Inherit,
}

/// A held lock; given up when dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    held: Held,
    /// Device and inode of the file.
    identity: (u64, u64),
    at_fork: AtFork,
    /// The process that took it, where its children must not have it.
    process: Option<(u32, u64)>,
}

#[derive(Debug)]
enum Held {
    Mapped(NonNull<u8>),
    Open(KeptFile),
}

// SAFETY: the address is only ever unmapped, once.
unsafe impl Send for FileLock {}
// SAFETY: as above; nothing is read through it.
unsafe impl Sync for FileLock {}

/// Descriptors of locks that a child must not have.
static LEFT: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Nobody takes a lock of [`AtFork::Leave`] as long as the result lives, unless it is he who has
/// the result. Taken after all areas' locks.
#[derive(Debug)]
pub(crate) struct ForksHeldOff(MutexGuard<'static, Vec<RawFd>>);

/// See [`ForksHeldOff`].
pub(crate) fn hold_off_forks() -> ForksHeldOff {
    ForksHeldOff(LEFT.lock())
}

impl ForksHeldOff {
    /// In a child: closes its copies of what stays with the parent.
    pub(crate) fn close_in_child(&mut self) {
        for number in self.0.drain(..) {
            // SAFETY: the child's copy of a number that was this library's at the fork.
            unsafe { libc::close(number) };
        }
    }
}

impl FileLock {
    /// Goes on holding the lock that an open file has, which the caller closes next.
    /// `identity` is its device and inode, if they are known. [`AtFork::Leave`]: the caller holds
    /// forks off from before it opened the file until it has closed it, and says so by `forks`.
    pub(crate) fn keep(
        file: impl AsFd,
        identity: Option<(u64, u64)>,
        forks: Option<&mut ForksHeldOff>,
    ) -> Result<Self, Errno> {
        let file = file.as_fd();
        let ask = || fs::fstat(file).map(|st| (st.st_dev, st.st_ino));
        let identity = identity.map_or_else(ask, Ok)?;
        let at_fork = if forks.is_some() { AtFork::Leave } else { AtFork::Inherit };
        let mapped = match holds_by_mapping(file, identity.0) {
            true => map(file, at_fork).ok(),
            false => None,
        };
        let held = match mapped {
            Some(at) => Held::Mapped(at),
            None => {
                let copy = descriptors::open(|| rustix::io::fcntl_dupfd_cloexec(file, 3))?;
                if let Some(forks) = forks {
                    prune(&mut forks.0);
                    forks.0.push(copy.as_raw_fd());
                }
                Held::Open(KeptFile::known(copy, identity, Access::Read))
            }
        };
        let process = (at_fork == AtFork::Leave).then(this_process);
        Ok(Self { held, identity, at_fork, process })
    }

    /// Device and inode of the locked file.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// `false` in a child that has not got it.
    pub(crate) fn is_here(&self) -> bool {
        self.process.is_none_or(|process| process == this_process())
    }

    #[cfg(test)]
    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.held, Held::Mapped(_))
    }
}

/// Forgets numbers that are closed.
fn prune(left: &mut Vec<RawFd>) {
    // SAFETY: only asked about.
    left.retain(|fd| rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(*fd) }).is_ok());
}

/// A child can have its parent's number, in a pid namespace of its own; and no handler of forks has
/// run in one that was made by `clone`.
fn this_process() -> (u32, u64) {
    (std::process::id(), process::fork_generation())
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        match &self.held {
            Held::Mapped(at) => {
                // SAFETY: the mapping made by `map`, in this process or the one it came from.
                let gone = unsafe { mm::munmap(at.as_ptr().cast(), LEN) };
                debug_assert!(gone.is_ok(), "a mapping of its own");
            }
            Held::Open(file) if self.at_fork == AtFork::Leave => {
                let mut left = LEFT.lock();
                if let Ok(here) = file.here() {
                    left.retain(|fd| *fd != here.as_fd().as_raw_fd());
                    // Also for a program that is just being started, which has a copy.
                    let _ = fs::flock(here, fs::FlockOperation::Unlock);
                    let _ = set_byte_lock(here, 0, 0, libc::F_UNLCK);
                }
            }
            // The child has a copy that goes on holding it.
            Held::Open(_) => {}
        }
    }
}

fn map(file: BorrowedFd<'_>, at_fork: AtFork) -> Result<NonNull<u8>, Errno> {
    // SAFETY: a mapping of its own, at an address that the kernel chooses, which nobody accesses.
    unsafe {
        let at = mm::mmap(null_mut(), LEN, ProtFlags::empty(), MapFlags::SHARED, file, 0)?;
        if at_fork == AtFork::Leave
            && let Err(e) = mm::madvise(at, LEN, Advice::LinuxDontFork)
        {
            let _ = mm::munmap(at, LEN);
            return Err(e);
        }
        NonNull::new(at.cast()).ok_or(Errno::NOMEM)
    }
}

/// Whether a mapping of a file on this device keeps the locks of the open file that was mapped.
fn holds_by_mapping(file: BorrowedFd<'_>, device: u64) -> bool {
    // Twice the device plus the answer, plus two; 0: free.
    static KNOWN: [AtomicU64; DEVICES] = [const { AtomicU64::new(0) }; DEVICES];
    let said = |holds: bool| (device << 1 | u64::from(holds)).wrapping_add(2);
    for known in &KNOWN {
        match known.load(Ordering::Relaxed) {
            0 => break,
            word if word == said(true) => return true,
            word if word == said(false) => return false,
            _ => {}
        }
    }
    // What could not be found out is asked again.
    let Ok(holds) = try_on(file) else { return false };
    let free = |known: &&AtomicU64| {
        known.compare_exchange(0, said(holds), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    let _ = KNOWN.iter().find(free);
    holds
}

/// Locks a byte through another open file, maps that, closes it, and looks whether the lock is
/// there. Nobody else ever asks for that byte.
fn try_on(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    let path = proc_path(file);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = || descriptors::open(|| fs::open(&path, flags, Mode::empty()));
    let (holder, asker): (OwnedFd, OwnedFd) = (open()?, open()?);
    let byte = TRIED_FROM + (process::random_id() >> 8) as i64;
    set_byte_lock(&holder, byte, 1, libc::F_RDLCK)?;
    let at = map(holder.as_fd(), AtFork::Inherit)?;
    drop(holder);
    let held = is_byte_locked(&asker, byte);
    // SAFETY: the mapping just made.
    let _ = unsafe { mm::munmap(at.as_ptr().cast(), LEN) };
    held
}

fn byte_lock(from: i64, len: i64, kind: libc::c_int) -> libc::flock {
    // SAFETY: all-zero bytes are a valid request.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (from, len);
    lock
}

/// Locks or unlocks bytes for an open file; `len` 0: all from there on.
fn set_byte_lock(file: impl AsFd, from: i64, len: i64, kind: libc::c_int) -> Result<(), Errno> {
    let lock = byte_lock(from, len, kind);
    // SAFETY: an open descriptor, and a valid request.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Whether another open file has a lock on a byte.
fn is_byte_locked(file: impl AsFd, byte: i64) -> Result<bool, Errno> {
    let mut lock = byte_lock(byte, 1, libc::F_WRLCK);
    // SAFETY: an open descriptor, and a valid request, which the call changes.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        0 => Ok(i32::from(lock.l_type) != libc::F_UNLCK),
        _ => Err(last_errno()),
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// An exclusive lock on one byte of a file, of this process alone: no child has it, and it does not
/// depend on a descriptor that the program could close.
#[derive(Debug)]
pub struct ByteLock {
    _lock: FileLock,
}

impl ByteLock {
    /// One try, by an open of its own; the file is made if it is not there. `None`: somebody has
    /// the lock.
    pub fn try_take(path: &Path, byte: u32) -> io::Result<Option<Self>> {
        let mut forks = hold_off_forks();
        let file = open_locks(path)?;
        match set_byte_lock(&file, byte.into(), 1, libc::F_WRLCK) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let lock = FileLock::keep(&file, None, Some(&mut forks))?;
        // Before forks go on.
        drop(file);
        Ok(Some(Self { _lock: lock }))
    }

    /// Whether anybody has the lock on a byte.
    pub fn is_taken(path: &Path, byte: u32) -> io::Result<bool> {
        Ok(is_byte_locked(open_locks(path)?, byte.into())?)
    }
}

fn open_locks(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(descriptors::open(|| fs::open(path, flags, mode))?)
}

/// Held by tests that fork, and by those that look when a lock has ended: a child of another test
/// would have it, too.
#[cfg(test)]
pub(crate) fn alone_with_forks() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::sys::file::try_lock;

    fn open(path: &Path) -> File {
        File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }

    fn is_free(path: &Path) -> bool {
        let file = open(path);
        try_lock(&file, true, path).unwrap()
    }

    #[test]
    fn a_lock_outlives_its_descriptor() {
        let _alone = alone_with_forks();
        for home in ["/dev/shm", "/tmp", "."] {
            let Ok(dir) = tempfile::tempdir_in(home) else { continue };
            let path = dir.path().join("file");
            for leave in [false, true] {
                let mut forks = leave.then(hold_off_forks);
                let file = open(&path);
                assert!(try_lock(&file, true, &path).unwrap());
                let number = file.as_raw_fd();
                let lock = FileLock::keep(&file, None, forks.as_mut()).unwrap();
                drop(file);
                drop(forks);
                if lock.is_mapped() {
                    // SAFETY: only asked about.
                    let there = unsafe { libc::fcntl(number, libc::F_GETFD) };
                    println!("{home}: by a mapping, {number} is {there}");
                }
                assert!(!is_free(&path), "{home}: held");
                drop(lock);
                assert!(is_free(&path), "{home}: given up");
            }
        }
    }

    #[test]
    fn on_memory_it_is_by_a_mapping() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = open(&dir.path().join("file"));
        assert!(holds_by_mapping(file.as_fd(), 1 << 40), "not known");
        assert!(holds_by_mapping(file.as_fd(), 1 << 40), "known");
        assert!(FileLock::keep(&file, None, None).unwrap().is_mapped());
    }

    /// A child has what it inherits, and not what it leaves.
    #[test]
    fn a_child_holds_what_it_inherits_alone() {
        let _alone = alone_with_forks();
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        crate::lifecycle::fork::handle_forks();
        for leave in [false, true] {
            let path = dir.path().join(if leave { "left" } else { "inherited" });
            let mut forks = leave.then(hold_off_forks);
            let file = open(&path);
            assert!(try_lock(&file, true, &path).unwrap());
            let lock = FileLock::keep(&file, None, forks.as_mut()).unwrap();
            drop((file, forks));
            // SAFETY: the child does nothing but wait.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
            drop(lock);
            assert_eq!(is_free(&path), leave);
            // SAFETY: the child made above.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, null_mut(), 0);
            }
            assert!(is_free(&path), "it has ended");
        }
    }

    #[test]
    fn a_byte_has_one_owner() {
        let _alone = alone_with_forks();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks");
        let take = |byte| ByteLock::try_take(&path, byte).unwrap();
        let first = take(7).unwrap();
        assert!(take(7).is_none() && ByteLock::is_taken(&path, 7).unwrap());
        assert!(take(8).is_some() && !ByteLock::is_taken(&path, 8).unwrap());
        drop(first);
        assert!(take(7).is_some());
    }
}
