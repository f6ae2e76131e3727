//! One file of the real file system.

use std::any::Any;
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::FallocateFlags;

use crate::error::{Cause, IoError};
use crate::io::kept::KeptFile;
use crate::process::ProcessMark;
use crate::storage::{IoResult, StorageFile};
use crate::units::UNIT_BYTES;

/// An open file, with `O_DIRECT` where its directory chose so.
#[derive(Debug)]
pub(crate) struct DiskFile {
    file: KeptFile,
    path: PathBuf,
    /// Requests are multiples of so many bytes.
    align: u64,
    mark: ProcessMark,
    lock: Arc<LockState>,
}

/// What is known of a directory's locks. Without one somebody else may write by now.
#[derive(Debug, Default)]
pub(crate) struct LockState {
    /// One is held also when the program has closed its descriptors. Only then a file whose number
    /// is lost is opened again.
    stays: AtomicBool,
    /// Those that are held: several readers of a process may share one directory.
    held: Mutex<Vec<Noted>>,
}

/// A lock that is held.
#[derive(Debug)]
struct Noted {
    stays: bool,
    /// The descriptor that holds it, if it does not stay without.
    holder: Weak<KeptFile>,
    /// What tells it from others.
    number: u64,
}

/// Registers a held lock with its directory until it is dropped.
#[derive(Debug)]
pub(crate) struct LockNote {
    state: Arc<LockState>,
    number: u64,
    mark: ProcessMark,
}

impl Drop for LockNote {
    fn drop(&mut self) {
        // In a forked child another thread may hold the list for ever.
        if !self.mark.is_stale() {
            self.state.change(|held| held.retain(|noted| noted.number != self.number));
        }
    }
}

impl LockState {
    /// Notes a lock that has been taken.
    pub(crate) fn note(self: &Arc<Self>, stays: bool, holder: Option<&Arc<KeptFile>>) -> LockNote {
        let holder = holder.map(Arc::downgrade).unwrap_or_default();
        let number = self.change(|held| {
            let number = held.last().map_or(0, |last| last.number + 1);
            held.push(Noted { stays, holder, number });
            number
        });
        LockNote { state: self.clone(), number, mark: ProcessMark::current() }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Noted>) -> T) -> T {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut held);
        self.stays.store(held.iter().any(|noted| noted.stays), Ordering::Release);
        changed
    }

    fn stays(&self) -> bool {
        self.stays.load(Ordering::Acquire)
    }

    /// Whether the program has closed the descriptors that held the locks.
    pub(crate) fn is_lost(&self) -> bool {
        if self.stays() {
            return false;
        }
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let holders: Vec<_> = held.iter().filter_map(|noted| noted.holder.upgrade()).collect();
        drop(held);
        !holders.is_empty() && holders.iter().all(|holder| holder.here(false).is_none())
    }
}

impl DiskFile {
    pub(crate) fn new(file: File, path: PathBuf, lock: Arc<LockState>) -> Self {
        let file = KeptFile::new(file, Some(&path));
        DiskFile { file, path, align: UNIT_BYTES, mark: ProcessMark::current(), lock }
    }

    /// A file whose requests need to be multiples of `align` bytes only.
    pub(crate) fn aligned(self, align: u32) -> Self {
        DiskFile { align: u64::from(align), ..self }
    }

    pub(crate) fn align(&self) -> u64 {
        self.align
    }

    /// Whether this process may write up to `end`. Beyond its limit on lengths of files
    /// (`ulimit -f`) the kernel ends a process by SIGXFSZ, also where it writes into what a file
    /// has already.
    pub(crate) fn check_reach(&self, end: u64, action: &'static str) -> IoResult<()> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: fills a valid structure, or fails, as in a sandbox: then no limit is known.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
        if known && limit.rlim_cur != libc::RLIM_INFINITY && end > limit.rlim_cur {
            return Err(IoError::new(action, &self.path, Cause::Os(libc::EFBIG)));
        }
        Ok(())
    }

    /// The descriptor for one call to change the file. A forked child changes nothing of its
    /// parent's files.
    fn ours(&self, action: &'static str) -> IoResult<BorrowedFd<'_>> {
        if self.mark.is_stale() {
            return Err(IoError::new(action, &self.path, Cause::Forked));
        }
        self.here(action)
    }

    /// The descriptor for one call. Nothing is read or changed through a number that means another
    /// file by now.
    pub(crate) fn here(&self, action: &'static str) -> IoResult<BorrowedFd<'_>> {
        let found = self.file.here(self.lock.stays()).filter(|_| !self.lock.is_lost());
        found.ok_or_else(|| IoError::new(action, &self.path, Cause::Closed))
    }
}

impl StorageFile for DiskFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> IoResult<u64> {
        let facts = rustix::fs::fstat(self.here("examine")?);
        facts.map(|f| f.st_size as u64).map_err(|e| IoError::from_os("examine", &self.path, e))
    }

    fn preallocate(&self, offset: u64, len: u64) -> IoResult<()> {
        let file = self.ours("reserve room for")?;
        self.check_reach(offset.saturating_add(len), "reserve room for")
            .map_err(|e| e.at(offset, len))?;
        let failed =
            |e: std::io::Error| IoError::from_os("reserve room for", &self.path, e).at(offset, len);
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len) {
            Ok(()) => Ok(()),
            // File systems without it: a full disk shows at the write instead.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                let end = (offset + len).max(self.len()?);
                rustix::fs::ftruncate(file, end).map_err(|e| failed(e.into()))
            }
            Err(errno) => Err(failed(errno.into())),
        }
    }

    fn discard(&self, offset: u64, len: u64) -> IoResult<bool> {
        let file = self.ours("give back room of")?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(file, flags, offset, len) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
            Err(errno) => {
                let error = IoError::from_os("give back room of", &self.path, errno);
                Err(error.at(offset, len))
            }
        }
    }

    fn truncate(&self, len: u64) -> IoResult<()> {
        let file = self.ours("shorten")?;
        self.check_reach(len, "set the length of")?;
        rustix::fs::ftruncate(file, len)
            .map_err(|e| IoError::from_os("shorten", &self.path, e).at(len, 0))
    }

    fn sync(&self) -> IoResult<()> {
        let synced = rustix::fs::fdatasync(self.ours("sync")?);
        synced.map_err(|e| IoError::from_os("sync", &self.path, e))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.here("use").ok()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    /// A program closes a number, and opens a file of its own there: with a lock that stays the
    /// file is opened again, and without one nothing is done.
    #[test]
    fn the_programs_file_at_a_kept_number_is_left_alone() {
        for stays in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ours");
            let open = |name: &str| File::create_new(folder.path().join(name)).unwrap();
            let lock = Arc::new(LockState::default());
            let _held = lock.note(stays, None);
            let disk = DiskFile::new(open("ours"), path.clone(), lock);
            disk.truncate(100).unwrap();
            let (number, mut theirs) = (disk.file.as_raw_fd(), open("theirs"));
            theirs.write_all(b"theirs").unwrap();
            // SAFETY: replaces a number that this test knows of.
            assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
            let done = [disk.truncate(1), disk.sync(), disk.preallocate(0, 4096)];
            if stays {
                assert!(done.iter().all(Result::is_ok), "{done:?}");
                assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
            } else {
                assert!(done.iter().all(|d| d.as_ref().is_err_and(|e| e.cause == Cause::Closed)));
                assert!(disk.descriptor().is_none() && disk.len().is_err());
                let text = done[0].as_ref().unwrap_err().to_string();
                assert!(text.contains("has closed"), "{text}");
            }
            assert_eq!(theirs.metadata().unwrap().len(), 6);
            drop(disk);
            // SAFETY: asks only, and then closes what this test has put there.
            unsafe {
                assert!(libc::fcntl(number, libc::F_GETFD) >= 0, "it is still open");
                libc::close(number);
            }
        }
    }

    /// A lock that stays without a descriptor is given up, and taken again with one: by then others
    /// may have had it, so what is lost is lost.
    #[test]
    fn a_lock_that_was_given_up_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| File::create_new(folder.path().join(name)).unwrap();
        let lock = Arc::new(LockState::default());
        let ours = DiskFile::new(open("ours"), folder.path().join("ours"), lock.clone());
        drop(lock.note(true, None));
        let holder = Arc::new(KeptFile::new(open("lock"), None));
        let again = lock.note(false, Some(&holder));
        assert!(ours.sync().is_ok() && !lock.is_lost());
        let (theirs, numbers) = (open("theirs"), [&ours.file, &holder].map(|f| f.as_raw_fd()));
        // SAFETY: replaces a number that this test knows of.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), numbers[0]) }, numbers[0]);
        let refused = |done: IoResult<()>| done.is_err_and(|error| error.cause == Cause::Closed);
        assert!(refused(ours.truncate(1)), "the file is not opened again");
        // SAFETY: the same.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), numbers[1]) }, numbers[1]);
        assert!(lock.is_lost());
        // Another reader of this process has one that stays.
        let other = lock.note(true, None);
        assert!(!lock.is_lost() && ours.truncate(1).is_ok());
        drop(again);
        assert!(lock.stays(), "the other one is still held");
        drop(other);
        assert!(!lock.stays());
        assert_eq!(theirs.metadata().unwrap().len(), 0);
        drop((ours, holder));
        // SAFETY: closes what this test has put there; its own file is open elsewhere by now.
        unsafe { libc::close(numbers[1]) };
    }
}
