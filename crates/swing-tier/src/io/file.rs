//! One file of the real file system.

use std::any::Any;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use crate::error::{Cause, IoError};
use crate::process::ProcessMark;
use crate::storage::{IoResult, StorageFile};
use crate::units::UNIT_BYTES;

/// A file that stays open. The program may close its number, and have another file there.
#[derive(Debug)]
pub(crate) struct KeptFile {
    file: ManuallyDrop<File>,
    identity: Option<(u64, u64)>,
}

impl KeptFile {
    pub(crate) fn new(file: File) -> Self {
        KeptFile { identity: identity_of(&file), file: ManuallyDrop::new(file) }
    }

    /// Whether the number means what was opened.
    pub(crate) fn is_here(&self) -> bool {
        identity_of(&self.file) == self.identity
    }
}

impl Deref for KeptFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

fn identity_of(file: &File) -> Option<(u64, u64)> {
    rustix::fs::fstat(file).ok().map(|st| (st.st_dev, st.st_ino))
}

/// An open file, with `O_DIRECT` where its directory chose so.
#[derive(Debug)]
pub(crate) struct DiskFile {
    file: KeptFile,
    path: PathBuf,
    /// Requests are multiples of so many bytes.
    align: u64,
    mark: ProcessMark,
}

impl DiskFile {
    pub(crate) fn new(file: File, path: PathBuf) -> Self {
        let file = KeptFile::new(file);
        DiskFile { file, path, align: UNIT_BYTES, mark: ProcessMark::current() }
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

    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }

    /// A forked child changes nothing of its parent's files.
    fn ours(&self, action: &'static str) -> IoResult<()> {
        if self.mark.is_stale() {
            return Err(IoError::new(action, &self.path, Cause::Forked));
        }
        self.check_here(action)
    }

    /// Nothing is changed through a number that means another file by now.
    pub(crate) fn check_here(&self, action: &'static str) -> IoResult<()> {
        match self.file.is_here() {
            true => Ok(()),
            false => Err(IoError::new(action, &self.path, Cause::Closed)),
        }
    }
}

impl StorageFile for DiskFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> IoResult<u64> {
        let facts = self.file.metadata();
        facts.map(|f| f.len()).map_err(|e| IoError::from_os("examine", &self.path, e))
    }

    fn preallocate(&self, offset: u64, len: u64) -> IoResult<()> {
        self.ours("reserve room for")?;
        self.check_reach(offset.saturating_add(len), "reserve room for")
            .map_err(|e| e.at(offset, len))?;
        let failed =
            |e: std::io::Error| IoError::from_os("reserve room for", &self.path, e).at(offset, len);
        match rustix::fs::fallocate(&*self.file, FallocateFlags::empty(), offset, len) {
            Ok(()) => Ok(()),
            // File systems without it: a full disk shows at the write instead.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                let end = (offset + len).max(self.len()?);
                self.file.set_len(end).map_err(failed)
            }
            Err(errno) => Err(failed(errno.into())),
        }
    }

    fn truncate(&self, len: u64) -> IoResult<()> {
        self.ours("shorten")?;
        self.check_reach(len, "set the length of")?;
        self.file.set_len(len).map_err(|e| IoError::from_os("shorten", &self.path, e).at(len, 0))
    }

    fn sync(&self) -> IoResult<()> {
        self.ours("sync")?;
        self.file.sync_data().map_err(|e| IoError::from_os("sync", &self.path, e))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
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

    /// A program closes a number, and opens a file of its own there.
    #[test]
    fn the_programs_file_at_a_kept_number_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| File::create_new(folder.path().join(name)).unwrap();
        let disk = DiskFile::new(open("ours"), folder.path().join("ours"));
        disk.truncate(100).unwrap();
        let (number, mut theirs) = (disk.file.as_raw_fd(), open("theirs"));
        theirs.write_all(b"theirs").unwrap();
        // SAFETY: replaces a number that this test knows of.
        assert_eq!(unsafe { libc::dup2(theirs.as_raw_fd(), number) }, number);
        let closed = [disk.truncate(1), disk.sync(), disk.preallocate(0, 4096)];
        assert!(closed.iter().all(|c| c.as_ref().is_err_and(|e| e.cause == Cause::Closed)));
        let text = closed[0].as_ref().unwrap_err().to_string();
        assert!(text.contains("has closed"), "{text}");
        assert_eq!(theirs.metadata().unwrap().len(), 6);
        drop(disk);
        // SAFETY: asks only, and then closes what this test has put there.
        unsafe {
            assert!(libc::fcntl(number, libc::F_GETFD) >= 0, "it is still open");
            libc::close(number);
        }
    }
}
