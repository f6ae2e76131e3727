//! The lock that makes a process the one writer of an area, and the owner that listings show.
//!
//! The lock is an exclusive `flock` on the file `owner.lock` in the area's folder. A mapping holds
//! it, not a descriptor ([`crate::sys::file_lock`]). So closing descriptors does not give it up, no
//! forked child has it, and the kernel drops it however the process ends. The file's text names the
//! owner; nothing depends on the text.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use crate::model::error::{Fault, Result};
use crate::namespace::files::OWNER_LOCK;
use crate::sys::file::{self, Folder};
use crate::sys::file_lock::{self, FileLock};
use crate::sys::process;

/// The longest owner file that is read.
const MAX_OWNER_BYTES: u64 = 4096;

/// The held lock of an area's owner. Given up when dropped: nobody is named as the owner any more,
/// and a program that this process is just starting does not hold it on. No child has it.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    lock: FileLock,
    /// The file, by its present name.
    path: PathBuf,
}

/// Who owns an area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Command line.
    pub command: String,
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

    /// The folder has got another name.
    pub(crate) fn renamed(&mut self, folder: &Folder) {
        self.path = folder.join(OWNER_LOCK);
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
    use crate::namespace::handle::Namespace;
    use crate::sys::file_lock::alone_with_forks;

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
        let _alone = alone_with_forks();
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
        let _alone = alone_with_forks();
        let (_home, folder) = unowned();
        crate::lifecycle::fork::handle_forks();
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
