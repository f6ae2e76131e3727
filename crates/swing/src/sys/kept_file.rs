//! A file that this library keeps open, in a program that may close descriptors it did not open.
//!
//! A daemon closes all descriptors there are, and so does many a program before it starts another
//! one. Then the number that this library keeps is closed, or means a file of the program. So a
//! kept file is a number together with what it must mean, its device and inode, and nobody gets at
//! the number but by [`KeptFile::here`], which compares them (0.4 us); for reads, which are looked
//! at afterwards, by [`KeptFile::unchecked`]. A number that means something else is forgotten, and
//! the file opened again by its name, if it has one; otherwise the call fails with `EBADF`, which
//! becomes [`Fault::DescriptorLost`].
//!
//! Two files of this library can be the same inode, and after a loss one can get the number that
//! the other had. So each number has a keeper, by [`KEEPERS`].
//!
//! For a folder, in which names are made and removed, a look is good for [`FOLDER_KNOWN_NS`]: a
//! publish makes a dozen such calls.
//!
//! INV-AREA-18: no call changes or maps a file through a kept number that was not found to be its
//! own in the same call, and no number is closed that is not. Between the look and the call another
//! thread of the program can still exchange the number, for less than a microsecond; see
//! `docs/limits.md`.
//!
//! **Concurrency, signals.** Any thread; [`KeptFile::here`] neither allocates nor locks, so the
//! fault handler may call it. **Fork.** A child has copies of the numbers, and closes its own.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use crate::model::error::{Fault, Result};
use crate::sys::{descriptors, process};

/// No number.
const NONE: RawFd = -1;
/// How long a folder's number is not looked at again.
const FOLDER_KNOWN_NS: u64 = 50_000;
/// How often a number is looked at, while other threads open the same file again.
const MAX_LOOKS: u32 = 4;
/// Numbers whose keeper is noted; of others only the file is compared.
const MOST: usize = 1 << 16;

/// Which kept file has a number.
static KEEPERS: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];
/// The last kept file.
static LAST: AtomicU32 = AtomicU32::new(0);

/// What a kept file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// A folder, as a place for names.
    Folder,
}

impl Access {
    fn flags(self) -> OFlags {
        let how = match self {
            Self::Read => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW,
            Self::Write => OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW,
            // The path of a namespace may be a link; what it leads to is compared.
            Self::Folder => OFlags::PATH | OFlags::DIRECTORY,
        };
        how | OFlags::CLOEXEC
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct KeptFile {
    number: AtomicI32,
    /// Device and inode.
    identity: (u64, u64),
    access: Access,
    /// Its name, if it has one that stays.
    path: OnceLock<CString>,
    /// In [`KEEPERS`].
    keeper: u32,
    /// Of a folder: when the number was looked at last, or new.
    seen_ns: AtomicU64,
}

/// The number, found to be the file's, for one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'a>(BorrowedFd<'a>);

impl<'a> Here<'a> {
    /// A descriptor that is open for one call only.
    pub(crate) fn opened(file: &'a impl AsFd) -> Self {
        Self(file.as_fd())
    }
}

impl AsFd for Here<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0
    }
}

/// Device and inode of an open file.
fn identity_of(file: impl AsFd) -> Result<(u64, u64), Errno> {
    fs::fstat(file).map(|st| (st.st_dev, st.st_ino))
}

fn keeper_of(number: RawFd) -> Option<&'static AtomicU32> {
    KEEPERS.get(usize::try_from(number).ok()?)
}

impl KeptFile {
    /// Keeps an open file.
    pub(crate) fn new(file: impl Into<OwnedFd>, access: Access) -> Result<Self, Errno> {
        let file = file.into();
        let identity = identity_of(&file)?;
        let kept = Self::known(file, identity, access);
        kept.seen_ns.store(process::monotonic_ns(), Ordering::Relaxed);
        Ok(kept)
    }

    /// Keeps an open file whose device and inode are known.
    pub(crate) fn known(file: impl Into<OwnedFd>, identity: (u64, u64), access: Access) -> Self {
        let number = file.into().into_raw_fd();
        // None is 0, which stands for no keeper; after four milliards they begin again.
        let keeper = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        if let Some(noted) = keeper_of(number) {
            noted.store(keeper, Ordering::Release);
        }
        Self {
            number: AtomicI32::new(number),
            identity,
            access,
            path: OnceLock::new(),
            keeper,
            seen_ns: AtomicU64::new(0),
        }
    }

    /// The file has this name from now on, which stays: by that it is opened again. A relative path
    /// is one from where the process is now.
    pub(crate) fn set_path(&self, path: &Path) {
        let absolute = std::path::absolute(path).ok();
        if let Some(path) = absolute.and_then(|p| CString::new(p.as_os_str().as_bytes()).ok()) {
            // It gets its name once.
            let _ = self.path.set(path);
        }
    }

    /// The same with a name.
    #[must_use]
    pub(crate) fn named(self, path: &Path) -> Self {
        self.set_path(path);
        self
    }

    /// The same file under the name that it has been renamed to.
    pub(crate) fn renamed(mut self, path: &Path) -> Self {
        let number = std::mem::replace(self.number.get_mut(), NONE);
        let moved = Self {
            number: AtomicI32::new(number),
            path: OnceLock::new(),
            identity: self.identity,
            access: self.access,
            keeper: self.keeper,
            seen_ns: AtomicU64::new(0),
        };
        moved.named(path)
    }

    /// Device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Lends the number for one call. `BADF`: the program has closed it, and the file cannot be
    /// opened again.
    pub(crate) fn here(&self) -> Result<Here<'_>, Errno> {
        for _ in 0..MAX_LOOKS {
            let number = self.number.load(Ordering::Acquire);
            if self.was_seen(number) || self.is_own(number) {
                // SAFETY: an open descriptor, which has just been found to be this file's.
                return Ok(Here(unsafe { BorrowedFd::borrow_raw(number) }));
            }
            self.open_again(number)?;
        }
        Err(Errno::BADF)
    }

    /// As [`KeptFile::here`], for a file without a name that `is_it` knows better than its inode
    /// does.
    pub(crate) fn here_if(
        &self,
        is_it: impl FnOnce(BorrowedFd<'_>) -> bool,
    ) -> Result<Here<'_>, Errno> {
        let number = self.number.load(Ordering::Acquire);
        if number == NONE || !self.is_keeper(number) {
            return Err(Errno::BADF);
        }
        // SAFETY: only asked about, also when it is closed or somebody else's.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        if is_it(file) { Ok(Here(file)) } else { Err(Errno::BADF) }
    }

    /// Whether this is a folder that was looked at a moment ago; otherwise the next look is noted.
    fn was_seen(&self, number: RawFd) -> bool {
        if self.access != Access::Folder || number == NONE {
            return false;
        }
        let now = process::monotonic_ns();
        if now.wrapping_sub(self.seen_ns.load(Ordering::Relaxed)) < FOLDER_KNOWN_NS {
            return true;
        }
        if self.is_own(number) {
            self.seen_ns.store(now, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// As [`KeptFile::here`], for calls that report faults; `path` is for the message.
    pub(crate) fn here_for(&self, path: &Path) -> Result<Here<'_>> {
        self.here().map_err(|e| Fault::io("use", path, e))
    }

    /// The number as it was last, for reads at an offset, which change nothing whatever it means by
    /// now. What was read counts only if [`KeptFile::is_here`] afterwards.
    pub(crate) fn unchecked(&self) -> Option<BorrowedFd<'_>> {
        let number = self.number.load(Ordering::Acquire);
        // SAFETY: only read through, also when it is closed or somebody else's.
        (number != NONE).then(|| unsafe { BorrowedFd::borrow_raw(number) })
    }

    /// Whether the number is still this file's.
    pub(crate) fn is_here(&self) -> bool {
        self.is_own(self.number.load(Ordering::Acquire))
    }

    /// Not even the number is the file's, as far as the caller knows better: it is not closed.
    pub(crate) fn forget(&self) {
        self.number.store(NONE, Ordering::Release);
    }

    /// In a forked child, where a thread that is not there has the file: closes its copy.
    pub(crate) fn close_in_child(&self) {
        let number = self.number.swap(NONE, Ordering::AcqRel);
        if self.is_own(number) {
            // SAFETY: the child's copy, which nobody uses any more.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }

    fn is_own(&self, number: RawFd) -> bool {
        if number == NONE {
            return false;
        }
        // SAFETY: only asked about, also when it is closed.
        self.is_keeper(number)
            && identity_of(unsafe { BorrowedFd::borrow_raw(number) }) == Ok(self.identity)
    }

    /// Whether this file has got the number, as far as this library's own files go.
    fn is_keeper(&self, number: RawFd) -> bool {
        keeper_of(number).is_none_or(|keeper| keeper.load(Ordering::Acquire) == self.keeper)
    }

    /// Opens the file again by its name; `lost` is the number that is not its own any more.
    fn open_again(&self, lost: RawFd) -> Result<(), Errno> {
        let path = self.path.get().ok_or(Errno::BADF)?;
        let open = || fs::open(path.as_c_str(), self.access.flags(), Mode::empty());
        let file = descriptors::open(open).map_err(|e| match e {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => e,
            _ => Errno::BADF,
        })?;
        if identity_of(&file) != Ok(self.identity) {
            descriptors::close(file);
            return Err(Errno::BADF);
        }
        let number = file.as_raw_fd();
        let keeper = keeper_of(number);
        if let Some(keeper) = keeper {
            keeper.store(self.keeper, Ordering::Release);
        }
        let order = Ordering::AcqRel;
        match self.number.compare_exchange(lost, number, order, Ordering::Acquire) {
            Ok(_) => {
                std::mem::forget(file);
                self.leave(lost);
            }
            // Another thread was quicker, and this number is closed.
            Err(_) => {
                keeper.into_iter().for_each(|k| k.store(0, Ordering::Release));
                descriptors::close(file);
            }
        }
        Ok(())
    }
}

impl KeptFile {
    /// A number that the program has taken is not this library's any more.
    fn leave(&self, lost: RawFd) {
        if let Some(keeper) =
            keeper_of(lost).filter(|_| lost != self.number.load(Ordering::Acquire))
        {
            let (order, none) = (Ordering::AcqRel, Ordering::Acquire);
            if keeper.compare_exchange(self.keeper, 0, order, none).is_ok() {
                descriptors::close_own(lost, || ());
            }
        }
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        let number = *self.number.get_mut();
        // INV-AREA-18: what is not our own is not closed.
        if self.is_own(number) {
            if let Some(keeper) = keeper_of(number) {
                keeper.store(0, Ordering::Release);
            }
            // SAFETY: an open descriptor of this file's, which nobody has been lent.
            descriptors::close(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

/// A path for a system call that takes no descriptor, good as long as the file is kept.
pub(crate) fn proc_path(file: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Puts another file at the number of a kept one, as a program does that closes what it did not
    /// open; the file.
    fn exchange(kept: &KeptFile) -> (File, RawFd) {
        let other = tempfile::tempfile().unwrap();
        other.write_all_at(b"the program's", 0).unwrap();
        let number = kept.number.load(Ordering::Relaxed);
        // SAFETY: what the program does.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        (other, number)
    }

    fn identity_at(number: RawFd) -> Result<(u64, u64), Errno> {
        // SAFETY: only asked about.
        identity_of(unsafe { BorrowedFd::borrow_raw(number) })
    }

    #[test]
    fn a_number_that_means_another_file_is_neither_used_nor_closed() {
        let kept = KeptFile::new(tempfile::tempfile().unwrap(), Access::Write).unwrap();
        assert!(kept.is_here() && kept.here().is_ok());
        let (other, number) = exchange(&kept);
        assert!(!kept.is_here());
        assert!(matches!(kept.here(), Err(Errno::BADF)), "it has no name");
        let fault = kept.here_for(Path::new("/x")).unwrap_err();
        assert!(matches!(fault, Fault::DescriptorLost { .. }), "{fault:?}");
        drop(kept);
        assert_eq!(identity_at(number), identity_of(&other), "still open, and the same");
        // SAFETY: the number that this test has put there.
        unsafe { libc::close(number) };
    }

    #[test]
    fn a_file_with_a_name_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let kept = KeptFile::new(file, Access::Write).unwrap().named(&path);
        let (other, number) = exchange(&kept);
        rustix::io::pwrite(kept.here().unwrap(), b"ours", 0).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"ours");
        assert_ne!(kept.number.load(Ordering::Relaxed), number);
        // Under its name there is another file.
        drop(exchange(&kept));
        std::fs::rename(&path, dir.path().join("moved")).unwrap();
        std::fs::write(&path, b"another").unwrap();
        assert!(matches!(kept.here(), Err(Errno::BADF)));
        let kept = kept.renamed(&dir.path().join("moved"));
        assert!(kept.here().is_ok());
        assert_eq!(identity_at(number), identity_of(&other));
    }

    #[test]
    fn a_folder_is_opened_again_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, link) = (dir.path().join("folder"), dir.path().join("link"));
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let kept = KeptFile::new(File::open(&link).unwrap(), Access::Folder).unwrap().named(&link);
        kept.here().unwrap();
        let (_other, number) = exchange(&kept);
        // A look is good for so long.
        std::thread::sleep(std::time::Duration::from_nanos(2 * FOLDER_KNOWN_NS));
        assert_eq!(identity_of(kept.here().unwrap()), Ok(kept.identity()));
        // SAFETY: the number that this test has put there.
        unsafe { libc::close(number) };
    }

    /// Two of the same inode: a number belongs to one of them.
    #[test]
    fn a_number_has_one_keeper() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let keep = |access| {
            let file = File::options().read(true).write(access == Access::Write).open(&path);
            KeptFile::new(file.unwrap(), access).unwrap().named(&path)
        };
        let (reader, writer) = (keep(Access::Read), keep(Access::Write));
        let numbers = [&reader, &writer].map(|kept| kept.number.load(Ordering::Relaxed));
        // SAFETY: what a program does that closes everything: the lower number comes first.
        numbers.iter().for_each(|number| unsafe { assert_eq!(libc::close(*number), 0) });
        let again = writer.here().unwrap().as_fd().as_raw_fd();
        let own = reader.here().unwrap().as_fd().as_raw_fd();
        assert_ne!(own, again);
        assert!(rustix::io::pwrite(reader.here().unwrap(), b"x", 0).is_err(), "for reading");
        assert!(rustix::io::pwrite(writer.here().unwrap(), b"x", 0).is_ok());
        drop(reader);
        assert!(writer.is_here());
    }

    #[test]
    fn many_threads_open_it_again_once() {
        let dir = tempfile::tempdir().unwrap();
        let kept = KeptFile::new(File::open(dir.path()).unwrap(), Access::Folder).unwrap();
        let kept = kept.named(dir.path());
        for _ in 0..100 {
            // SAFETY: what the program does.
            unsafe { libc::close(kept.number.load(Ordering::Relaxed)) };
            kept.seen_ns.store(0, Ordering::Relaxed);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope
                        .spawn(|| assert_eq!(identity_of(kept.here().unwrap()), Ok(kept.identity)));
                }
            });
        }
    }
}
