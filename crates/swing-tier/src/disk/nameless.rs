//! Files without a name: nothing is left of them, however their process ends (INV-TIER-14).
//!
//! * The kernel makes such a file without a name (`O_TMPFILE`) and frees its space with the last
//!   reference. Some file systems cannot. There the file has a name for the time of two system
//!   calls. A process that is killed between these calls leaves an empty file, which [`sweep`]
//!   removes. The same process would remove the name next, so anybody may do it at any time.
//! * A forked child does not keep the file: its copy of the descriptor is closed before the child
//!   goes on, and the mapping that keeps the inode is not inherited. So the space is free when the
//!   parent dies, also where children of it live on.
//! * A program may close descriptors that it did not open. Bytes are never written to, or read
//!   from, another file that has got the number since ([`KeptFile`]).
//! * Each block has a checksum, which the caller keeps: a block that comes back changed is an
//!   error.
//!
//! ```
//! use swing_tier::NamelessFile;
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path();
//! let file = NamelessFile::create(folder)?;
//! let checksum = file.write(b"rows", 4096)?;
//! assert_eq!(file.read(4096, 4, checksum)?, b"rows");
//! assert!(std::fs::read_dir(folder)?.next().is_none());
//! # Ok::<(), std::io::Error>(())
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::disk::held::Taking;
use crate::io::kept::KeptFile;
use crate::process::{ProcessMark, random_u64};

/// Files whose descriptors are closed in forked children; a child keeps those beyond this number.
const MAX_CLOSED_IN_CHILDREN: usize = 4096;
/// What the names of files begin with that have one for a moment.
const PREFIX: &str = "swingdb-nameless-";
/// Names that are tried.
const MAX_NAMES: usize = 16;

/// Descriptors that a forked child closes; -1 is none.
static DESCRIPTORS: [AtomicI32; MAX_CLOSED_IN_CHILDREN] =
    [const { AtomicI32::new(-1) }; MAX_CLOSED_IN_CHILDREN];

/// See the [module documentation](self).
#[derive(Debug)]
pub struct NamelessFile {
    // Field order is drop order: the number is forgotten before it is closed, and no fork comes in
    // between.
    _entry: Option<Entry>,
    file: KeptFile,
    mark: ProcessMark,
    closing: Option<Taking>,
}

impl NamelessFile {
    /// Makes a file in the folder, on whose file system its bytes lie.
    pub fn create(folder: &Path) -> Result<Self> {
        static REGISTERED: AtomicBool = AtomicBool::new(false);
        if !REGISTERED.swap(true, Ordering::AcqRel) {
            // SAFETY: the function only uses atomics and closes descriptors.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
        let _no_fork = Taking::begin();
        let file = open_nameless(folder)?;
        let entry = Entry::new(file.as_raw_fd());
        let file = KeptFile::not_for_children(file);
        Ok(Self { _entry: entry, file, mark: ProcessMark::current(), closing: None })
    }

    /// Writes a block; the checksum that reads of it have to give.
    pub fn write(&self, block: &[u8], at: u64) -> Result<u64> {
        let mut done = 0;
        while done < block.len() {
            match rustix::io::pwrite(self.here()?, &block[done..], at + done as u64) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(checksum(block, at))
    }

    /// Reads a block of so many bytes as it was written.
    pub fn read(&self, at: u64, len: usize, expected: u64) -> Result<Vec<u8>> {
        let mut block = vec![0; len];
        let mut done = 0;
        while done < len {
            match rustix::io::pread(self.here()?, &mut block[done..], at + done as u64) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match checksum(&block, at) == expected {
            true => Ok(block),
            false => Err(Error::new(ErrorKind::InvalidData, "its bytes are not what was written")),
        }
    }

    /// Frees the space of the pages that lie in a range as a whole. A file system that cannot keeps
    /// it until the file is closed.
    pub fn give_back(&self, range: Range<u64>) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Ok(file) = self.here()
            && range.start < range.end
        {
            // Nothing depends on the space being free.
            let _ = rustix::fs::fallocate(file, flags, range.start, range.end - range.start);
        }
    }

    /// Bytes that the file system has for this user.
    pub fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::fstatvfs(self.here().ok()?).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Whether this process made the file, not one that it was forked from.
    pub fn is_of_this_process(&self) -> bool {
        !self.mark.is_stale()
    }

    fn here(&self) -> Result<BorrowedFd<'_>> {
        if self.mark.is_stale() {
            return Err(Error::other("it belongs to the process that this one was forked from"));
        }
        let lost =
            || Error::other("the program has closed its descriptor, which it had not opened");
        self.file.here(false).ok_or_else(lost)
    }
}

impl Drop for NamelessFile {
    fn drop(&mut self) {
        if !self.mark.is_stale() {
            self.closing = Some(Taking::begin());
        }
    }
}

/// Its place in a file is part of a block's checksum: a block from elsewhere is found.
fn checksum(block: &[u8], at: u64) -> u64 {
    xxh3_64_with_seed(block, at)
}

/// That children close a descriptor.
#[derive(Debug)]
struct Entry {
    slot: &'static AtomicI32,
    mark: ProcessMark,
}

impl Entry {
    fn new(descriptor: RawFd) -> Option<Self> {
        let is_taken = |slot: &&AtomicI32| {
            slot.compare_exchange(-1, descriptor, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let slot = DESCRIPTORS.iter().find(is_taken)?;
        Some(Self { slot, mark: ProcessMark::current() })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // In a child the slot is that of another file by now.
        if !self.mark.is_stale() {
            self.slot.store(-1, Ordering::Release);
        }
    }
}

unsafe extern "C" fn in_child() {
    for slot in &DESCRIPTORS {
        let descriptor = slot.swap(-1, Ordering::AcqRel);
        if descriptor >= 0 {
            // SAFETY: closes the child's copy of a descriptor of this library. Its `KeptFile`
            // closes nothing: the number is not the file's any more.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Opens a new file without a name, to read and write. Children that are forked inherit it.
pub fn open_nameless(folder: &Path) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // What file systems and kernels say that do not know it.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => open_named(folder),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file with a name, which it takes away again.
fn open_named(folder: &Path) -> Result<File> {
    static SWEPT: AtomicBool = AtomicBool::new(false);
    if !SWEPT.swap(true, Ordering::AcqRel) {
        sweep(folder);
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    for _ in 0..MAX_NAMES {
        let path = folder.join(format!("{PREFIX}{:016x}", random_u64()));
        match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                // Somebody who swept the folder may have been quicker.
                let _ = rustix::fs::unlink(&path);
                return Ok(file.into());
            }
            Err(Errno::EXIST | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::new(ErrorKind::AlreadyExists, "no free name for a temporary file"))
}

/// Removes what processes of this user that were killed have left in a folder for temporary files;
/// how many. Only empty regular files of its own naming are touched, and no link is followed.
pub fn sweep(folder: &Path) -> usize {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(opened) = rustix::fs::openat(CWD, folder, flags, Mode::empty()) else { return 0 };
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let user = rustix::process::geteuid().as_raw();
    let removes = |name: &OsStr| {
        let Ok(found) = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return false;
        };
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        let is_left = is_file && found.st_uid == user && found.st_size == 0;
        is_left && rustix::fs::unlinkat(&opened, name, AtFlags::empty()).is_ok()
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter(|name| is_our_name(name) && removes(name)).count()
}

fn is_our_name(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    rest.is_some_and(|rest| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The longest that a file of this process may be (`ulimit -f`): beyond it the kernel ends the
/// process by SIGXFSZ, unless that is ignored.
pub fn longest_file() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills a valid structure, or fails, as in a sandbox: then no limit is known.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    if is_known && limit.rlim_cur != libc::RLIM_INFINITY { limit.rlim_cur } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// How much space the file takes.
    fn taken(file: &NamelessFile) -> u64 {
        rustix::fs::fstat(file.here().unwrap()).unwrap().st_blocks as u64 * 512
    }

    #[test]
    fn a_block_comes_back_or_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = NamelessFile::create(folder.path()).unwrap();
        let (first, second) = ([1; 5000], [2; 300]);
        let checksums = [file.write(&first, 0).unwrap(), file.write(&second, 8192).unwrap()];
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(file.read(0, 5000, checksums[0]).unwrap(), first);
        assert_eq!(file.read(8192, 300, checksums[1]).unwrap(), second);
        assert_eq!(file.read(0, 4999, checksums[0]).unwrap_err().kind(), ErrorKind::InvalidData);
        let beyond = file.read(8192, 301, checksums[1]).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::UnexpectedEof);
        // The same bytes at another place.
        file.write(&second, 16384).unwrap();
        assert_eq!(file.read(16384, 300, checksums[1]).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn space_is_given_back() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = NamelessFile::create(folder.path()).unwrap();
        let kept = file.write(&[1; 4096], 1 << 20).unwrap();
        file.write(&[1; 1 << 20], 0).unwrap();
        let before = taken(&file);
        file.give_back(0..1 << 20);
        assert!(taken(&file) + (1 << 19) < before, "{} of {before}", taken(&file));
        assert_eq!(file.read(1 << 20, 4096, kept).unwrap(), [1; 4096]);
        assert!(file.free_bytes().unwrap() > 0);
    }

    #[test]
    fn a_file_system_without_files_without_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = open_named(folder.path()).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!((found.nlink(), found.mode() & 0o777), (0, 0o600));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        for create in [open_named, open_nameless] {
            let missing = create(&folder.path().join("missing")).unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            std::fs::write(folder.path().join("file"), b"").unwrap();
            let no_folder = create(&folder.path().join("file")).unwrap_err();
            assert_eq!(no_folder.kind(), ErrorKind::NotADirectory);
        }
    }

    #[test]
    fn what_a_killed_process_left_is_swept_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        let left = format!("{PREFIX}0123456789abcdef");
        let others = [
            format!("{PREFIX}0123456789abcdeg"),
            format!("{PREFIX}0123456789abcde"),
            "swingdb-other".to_string(),
        ];
        std::fs::write(of(&left), b"").unwrap();
        others.iter().for_each(|name| std::fs::write(of(name), b"").unwrap());
        std::fs::write(of(&format!("{PREFIX}00000000000000aa")), b"bytes").unwrap();
        std::fs::create_dir(of(&format!("{PREFIX}00000000000000bb"))).unwrap();
        symlink(of("swingdb-other"), of(&format!("{PREFIX}00000000000000cc"))).unwrap();
        assert_eq!(sweep(folder.path()), 1);
        assert!(!of(&left).exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), others.len() + 3);
        assert_eq!(sweep(&of("missing")), 0);
    }

    /// Waits for a child that ends itself with 0 if all is well.
    fn is_good(child: libc::pid_t) -> bool {
        let mut status = 0;
        // SAFETY: waits for a child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }

    #[test]
    fn inv_tier_14_a_forked_child_does_not_keep_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = NamelessFile::create(folder.path()).unwrap();
        let checksum = file.write(b"rows", 0).unwrap();
        let number = file.file.as_raw_fd();
        // SAFETY: the child makes system calls and frees memory of its own thread, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: asks about a number.
            let is_closed = unsafe { libc::fcntl(number, libc::F_GETFD) } == -1;
            let is_refused = file.write(b"more", 0).is_err() && file.read(0, 4, checksum).is_err();
            file.give_back(0..4096);
            // The number is another file's by now, which is left alone.
            let other = File::open("/dev/null").unwrap();
            drop(file);
            // SAFETY: as above.
            let is_open = unsafe { libc::fcntl(other.as_raw_fd(), libc::F_GETFD) } != -1;
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(i32::from(!(is_closed && is_refused && is_open))) };
        }
        assert!(is_good(child));
        assert_eq!(file.read(0, 4, checksum).unwrap(), b"rows");
        let slots = || DESCRIPTORS.iter().any(|slot| slot.load(Ordering::SeqCst) == number);
        assert!(slots());
        drop(file);
        assert!(!slots());
    }
}
