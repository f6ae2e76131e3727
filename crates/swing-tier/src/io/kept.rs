//! A file that stays open, in a program that may close descriptors it did not open.
//!
//! INV-TIER-12: a kept file is a number together with what it must mean: device and inode. Nobody
//! gets at the number but by [`KeptFile::here`], which compares them (0.2 us) and lends it for one
//! call. A number that means something else by now is not closed, and the file is opened again by
//! its name. `None`: it has no name any more, or there is another file.
//!
//! The number of an inode without a name is used again once nobody has it open, perhaps for a file
//! of the program. So a mapping, without access, keeps the inode as long as the file is kept.
//!
//! Two kept files can be the same inode, and after a loss one can get the number that the other
//! had. So each number has a keeper, by [`KEEPERS`]: a file closes no number of another one.
//!
//! Between the look and the call another thread of the program can still exchange the number, for
//! less than a microsecond; see `docs/limits.md`.
//!
//! **Concurrency.** Any thread. **Fork.** A child has copies of the numbers, and closes its own.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32};

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::process::ProcessMark;

/// How often a number is looked at, while other threads open the same file again.
const MAX_LOOKS: u32 = 4;
/// Numbers whose keeper is noted; of others only the file is compared.
const MOST: usize = 1 << 16;
/// What a file is opened again with, of the flags that it was opened with.
const KEPT_FLAGS: i32 = libc::O_ACCMODE | libc::O_DIRECT | libc::O_DIRECTORY | libc::O_NOFOLLOW;

/// Which kept file has a number.
static KEEPERS: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];
/// The last kept file.
static LAST: AtomicU32 = AtomicU32::new(0);

/// See the module's documentation.
#[derive(Debug)]
pub struct KeptFile {
    number: AtomicI32,
    /// Device and inode; `None` if they could not be found out: then the file is never here.
    identity: Option<(u64, u64)>,
    flags: i32,
    path: Option<CString>,
    /// In [`KEEPERS`].
    keeper: u32,
    /// Folders have none: they are opened again by name.
    _inode: Option<Mapping>,
}

/// A mapping of a file, without access; with a mark, one that forked children do not have.
#[derive(Debug)]
struct Mapping(usize, Option<ProcessMark>);

/// What is mapped.
const LEN: usize = 4096;

impl Mapping {
    fn new(file: &OwnedFd) -> Option<Self> {
        let (none, flags) = (ProtFlags::empty(), MapFlags::SHARED);
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
        unsafe { rustix::mm::mmap(null_mut(), LEN, none, flags, file, 0) }
            .ok()
            .map(|a| Mapping(a as usize, None))
    }

    /// Takes it from children; `None`, and no mapping, where the kernel does not.
    fn not_for_children(mut self) -> Option<Self> {
        // SAFETY: the mapping is this one's, and nobody uses its bytes.
        unsafe { rustix::mm::madvise(self.0 as *mut _, LEN, Advice::LinuxDontFork) }.ok()?;
        self.1 = Some(ProcessMark::current());
        Some(self)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.1.is_none_or(|mark| !mark.is_stale()) {
            // SAFETY: the mapping was made by `new`, and is unmapped once; a child has its copy,
            // or else a mark that is stale.
            let _ = unsafe { rustix::mm::munmap(self.0 as *mut _, LEN) };
        }
    }
}

fn keeper_of(number: RawFd) -> Option<&'static AtomicU32> {
    KEEPERS.get(usize::try_from(number).ok()?)
}

fn identity_at(number: RawFd) -> Option<(u64, u64)> {
    // SAFETY: only asked about, also when it is closed.
    let borrowed = (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })?;
    identity_of(borrowed)
}

/// Device and inode, and nothing more. Since Linux 6.13 the write after an `fstat`, which asks for
/// times, gets a time of its own, and so the sync after it has one more block to write, the inode's
/// (ext4 without a journal). Without that the times of a file change with the clock's ticks. One
/// file that is asked moves the times of all later changes, of other files, too, ahead of the tick.
fn identity_of(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    match rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::INO) {
        Ok(found) => {
            let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
            Some((device, found.stx_ino))
        }
        // The call is refused, as in a sandbox.
        Err(Errno::NOSYS | Errno::PERM) => {
            rustix::fs::fstat(file).ok().map(|found| (found.st_dev, found.st_ino))
        }
        Err(_) => None,
    }
}

impl KeptFile {
    /// Keeps an open file. `path` is its name, if it has one that stays.
    pub fn new(file: impl Into<OwnedFd>, path: Option<&Path>) -> Self {
        let file = file.into();
        let inode = Mapping::new(&file);
        let number = file.into_raw_fd();
        // SAFETY: asks for the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFL) };
        // None is 0, which stands for no keeper.
        let keeper = LAST.fetch_add(1, Relaxed).wrapping_add(1).max(1);
        if let Some(noted) = keeper_of(number) {
            noted.store(keeper, Release);
        }
        KeptFile {
            number: AtomicI32::new(number),
            identity: identity_at(number),
            flags: (flags & KEPT_FLAGS) | libc::O_CLOEXEC,
            path: path.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok()),
            keeper,
            _inode: inode,
        }
    }

    /// Keeps an open file without a name that nothing in a forked child keeps, once its copy of
    /// the number is closed there.
    pub(crate) fn not_for_children(file: impl Into<OwnedFd>) -> Self {
        let mut kept = Self::new(file, None);
        kept._inode = kept._inode.take().and_then(Mapping::not_for_children);
        kept
    }

    fn is_own(&self, number: RawFd) -> bool {
        let kept = keeper_of(number).is_none_or(|keeper| keeper.load(Acquire) == self.keeper);
        kept && self.identity.is_some() && identity_at(number) == self.identity
    }

    /// The number for one call, found to be the file's. With `again`, a file whose number is lost
    /// is opened by its name.
    pub fn here(&self, again: bool) -> Option<BorrowedFd<'_>> {
        for _ in 0..MAX_LOOKS {
            let number = self.number.load(Acquire);
            if self.is_own(number) {
                // SAFETY: an open descriptor, which has just been found to be this file's.
                return Some(unsafe { BorrowedFd::borrow_raw(number) });
            }
            if !again {
                return None;
            }
            self.open_again(number)?;
        }
        None
    }

    /// Opens the file by its name; `lost` is the number that is not its own any more.
    fn open_again(&self, lost: RawFd) -> Option<()> {
        let path = self.path.as_ref()?;
        // SAFETY: a valid string; without `O_CREAT` there is no mode.
        let number = unsafe { libc::open(path.as_ptr(), self.flags) };
        if number < 0 {
            return None;
        }
        // SAFETY: a fresh descriptor that nobody else has.
        let file = unsafe { OwnedFd::from_raw_fd(number) };
        if identity_at(number) != self.identity {
            return None;
        }
        let keeper = keeper_of(number);
        if let Some(keeper) = keeper {
            keeper.store(self.keeper, Release);
        }
        // Another thread may have been quicker: then this one is closed.
        if self.number.compare_exchange(lost, number, AcqRel, Acquire).is_ok() {
            std::mem::forget(file);
        } else if let Some(keeper) = keeper {
            keeper.store(0, Release);
        }
        Some(())
    }
}

impl AsRawFd for KeptFile {
    /// The number as it was last, for messages and tests.
    fn as_raw_fd(&self) -> RawFd {
        self.number.load(Acquire)
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        let number = *self.number.get_mut();
        if self.is_own(number) {
            if let Some(keeper) = keeper_of(number) {
                keeper.store(0, Release);
            }
            // SAFETY: an open descriptor of this file's, which nobody has been lent.
            drop(unsafe { File::from_raw_fd(number) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts another file at the number of a kept one, as a program does that closes what it did not
    /// open.
    fn exchange(kept: &KeptFile) -> (File, RawFd) {
        let (other, number) = (tempfile::tempfile().unwrap(), kept.as_raw_fd());
        // SAFETY: what the program does.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        (other, number)
    }

    /// Ends an exchange: the number was left alone.
    fn end((other, number): (File, RawFd)) {
        assert_eq!(identity_at(number), identity_at(other.as_raw_fd()), "left alone");
        // SAFETY: the number that this test has put there.
        unsafe { libc::close(number) };
    }

    #[test]
    fn the_identity_is_the_one_that_fstat_tells() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let on_disk = File::create_new(folder.path().join("file")).unwrap();
        let itself = File::open(folder.path()).unwrap();
        let in_memory = File::open("/dev/shm").unwrap();
        for file in [on_disk, itself, in_memory, tempfile::tempfile().unwrap()] {
            let found = rustix::fs::fstat(&file).unwrap();
            assert_eq!(identity_at(file.as_raw_fd()), Some((found.st_dev, found.st_ino)));
        }
        assert_eq!(identity_at(-1), None);
        assert_eq!(identity_at(RawFd::MAX), None);
    }

    #[test]
    fn a_lost_file_is_opened_again_by_its_name_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let kept = KeptFile::new(file, Some(&path));
        let first = exchange(&kept);
        assert!(kept.here(false).is_none());
        rustix::io::pwrite(kept.here(true).unwrap(), b"ours", 0).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"ours");
        let second = exchange(&kept);
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        std::fs::write(&path, b"another").unwrap();
        assert!(kept.here(true).is_none(), "its name belongs to another file");
        drop(kept);
        end(first);
        end(second);
        let nameless = KeptFile::new(tempfile::tempfile().unwrap(), None);
        let third = exchange(&nameless);
        assert!(nameless.here(true).is_none());
        drop(nameless);
        end(third);
    }

    /// File systems on disks give the number of an inode to the next file.
    #[test]
    fn no_file_of_the_program_gets_the_inode_of_a_kept_one() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("file");
        let kept = KeptFile::new(File::create_new(&path).unwrap(), Some(&path));
        std::fs::remove_file(&path).unwrap();
        let (_other, number) = exchange(&kept);
        for other in 0..200 {
            let theirs = File::create_new(folder.path().join(other.to_string())).unwrap();
            // SAFETY: puts it at the number.
            assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
            assert!(kept.here(true).is_none());
        }
        // SAFETY: the number that this test has put there.
        unsafe { libc::close(number) };
    }

    /// Two of the same inode: a number belongs to one of them.
    #[test]
    fn a_number_that_another_kept_file_has_got_is_not_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        let old = KeptFile::new(File::open(&path).unwrap(), Some(&path));
        let number = old.as_raw_fd();
        // SAFETY: what the program does.
        let moved = unsafe { libc::dup2(File::open(&path).unwrap().into_raw_fd(), number) };
        // SAFETY: a number that nobody else has.
        let new = KeptFile::new(unsafe { OwnedFd::from_raw_fd(moved) }, Some(&path));
        drop(old);
        assert_eq!(new.here(false).map(|fd| fd.as_raw_fd()), Some(number));
    }
}
