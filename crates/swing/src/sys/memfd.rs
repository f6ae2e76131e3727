//! Memory without a file system: sealed memfds, and opening those that other processes hold.
//!
//! A memfd has no name. A process opens it through a process that has it open,
//! `/proc/<pid>/fd/<n>`. The kernel allows this under the rules of reading another process's
//! memory: the same user, and a process that can be dumped. The open makes a new file description,
//! so a reader gets a descriptor that can only read, whatever its holder's can do.
//!
//! The file behind a path in `/proc` is hostile until it is checked, because process numbers are
//! reused. It must be called after the area (`swing-<id>`), belong to this user, lie on a tmpfs,
//! and be sealed against shrinking, since a mapping beyond the end would be a SIGBUS at the first
//! read. Device and inode are compared with the manifest where the size is. All checks are made on
//! the opened file itself, so it does not matter whether the process is still the intended one:
//! comparing start times would add nothing.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{self, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::model::error::{Fault, Result};
use crate::model::units::AreaId;
use crate::sys::descriptors;

/// `statfs` of a memfd, as of every file of a tmpfs.
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// The longest path of a descriptor in `/proc`.
const MAX_PLACE_BYTES: usize = 64;

/// What `/proc` calls the memory of an area.
fn label(area: AreaId) -> String {
    format!("swing-{area}")
}

/// New memory of an area, empty. It can grow, but never shrink, and no other seal can be set on it
/// by anybody.
pub(crate) fn create(area: AreaId, folder: &Path) -> Result<File> {
    let fault = |e: Errno| match e {
        Errno::NOMEM => super::file::out_of_memory(folder, crate::model::units::ByteLen(4096)),
        e => Fault::io("make memory (memfd_create) for", folder, e),
    };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let make = || match fs::memfd_create(label(area), flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => fs::memfd_create(label(area), flags),
        other => other,
    };
    let fd = descriptors::open(make).map_err(fault)?;
    // Memfds are open to every user at first, as far as `/proc` lets them.
    fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).map_err(fault)?;
    // Not against writing, now or in future: each copied extent is mapped writable anew. Readers
    // cannot write because of how they open it.
    fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::SEAL).map_err(fault)?;
    let file = File::from(fd);
    let seals = fs::fcntl_get_seals(&file).map_err(fault)?;
    assert!(seals.contains(SealFlags::SHRINK), "INV-AREA-14: sealed against shrinking");
    Ok(file)
}

/// Whether an open file is sealed memory; a file in a folder cannot be.
pub(crate) fn is_one(file: impl AsFd) -> bool {
    fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// A descriptor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessFd {
    pub pid: u32,
    pub fd: u32,
}

impl ProcessFd {
    /// Where this process has a file open.
    pub(crate) fn own(file: impl AsFd) -> Self {
        Self { pid: std::process::id(), fd: file.as_fd().as_raw_fd().unsigned_abs() }
    }

    pub(crate) fn path(self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.fd)
    }

    /// Exactly what `path` gives, and nothing else: the text was written by another process.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_PLACE_BYTES {
            return None;
        }
        let (pid, fd) = text.strip_prefix("/proc/")?.split_once("/fd/")?;
        let place = Self { pid: pid.parse().ok()?, fd: fd.parse().ok()? };
        (place.path() == text).then_some(place)
    }

    /// Opens the memory of `area` here; `None` when it is not here, or not as it must be.
    pub(crate) fn open(self, area: AreaId, writable: bool) -> Result<Option<File>> {
        let path = self.path();
        let fault = |e| match e {
            Errno::NOENT | Errno::SRCH => Ok(None),
            e => Err(Fault::io("open the memory held at", Path::new(&path), e)),
        };
        // Asked first: opening something else could have effects of its own.
        match is_called(&path, area) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(e) => return fault(e),
        }
        let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match descriptors::open(|| fs::open(&*path, flags, Mode::empty())) {
            Ok(fd) => File::from(fd),
            Err(e) => return fault(e),
        };
        // And asked again: the descriptor may have been given to something else in between.
        let same = is_called(&ProcessFd::own(&file).path(), area) == Ok(true);
        let on_tmpfs = fs::fstatfs(&file).is_ok_and(|st| st.f_type == TMPFS_MAGIC);
        let user = super::process::user_id();
        let ours = file.metadata().is_ok_and(|m| m.is_file() && m.uid() == user);
        Ok((same && ours && on_tmpfs && is_one(&file)).then_some(file))
    }
}

fn is_called(path: &str, area: AreaId) -> Result<bool, Errno> {
    let text = fs::readlink(path, Vec::new())?;
    let label = label(area);
    let name =
        text.as_bytes().strip_prefix(b"/memfd:").and_then(|t| t.strip_prefix(label.as_bytes()));
    Ok(matches!(name, Some(b"" | b" (deleted)")))
}

/// Looks through all processes of this user for one that has the memory of `area` open, with this
/// device and inode if they are known.
///
/// Slow (each descriptor of each process is looked at), and needed only when the process that the
/// area's folder names is gone: one that reads the area may still hold it.
/// `None` when no process has it; an error when that could not be found out, for want of
/// descriptors or memory.
pub(crate) fn search(
    area: AreaId,
    identity: Option<(u64, u64)>,
    writable: bool,
) -> Result<Option<File>> {
    let user = super::process::user_id();
    let processes = Path::new("/proc");
    let unread = |e| Fault::io("look for memory in", processes, e);
    for process in std::fs::read_dir(processes).map_err(unread)?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if process.metadata().map_or(true, |m| m.uid() != user) {
            continue;
        }
        let fds = match std::fs::read_dir(process.path().join("fd")) {
            Ok(fds) => fds,
            Err(e) if descriptors::is_want(&e) => return Err(unread(e)),
            // It has ended, or may not be asked.
            Err(_) => continue,
        };
        for fd in fds.flatten() {
            let number = fd.file_name().to_str().and_then(|n| n.parse::<u32>().ok());
            let Some(place) = number.map(|fd| ProcessFd { pid, fd }) else { continue };
            let file = match place.open(area, writable) {
                Ok(Some(file)) => file,
                Err(Fault::Io(failure)) if descriptors::is_want(&failure.source) => {
                    return Err(Fault::Io(failure));
                }
                _ => continue,
            };
            let same = |(dev, ino)| file.metadata().is_ok_and(|m| (m.dev(), m.ino()) == (dev, ino));
            if identity.is_none_or(same) {
                return Ok(Some(file));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/nowhere";

    #[test]
    fn memory_grows_but_never_shrinks_and_takes_no_more_seals() {
        let file = create(AreaId(7), Path::new(PATH)).unwrap();
        file.set_len(1 << 30).unwrap();
        assert!(file.set_len(1 << 20).is_err());
        for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE, SealFlags::GROW] {
            assert_eq!(fs::fcntl_add_seals(&file, seal), Err(Errno::PERM));
        }
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(is_one(&file));
        let plain = tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile()).unwrap();
        assert!(!is_one(&plain));
    }

    /// INV-AREA-4: not even the same process can write through a reader's descriptor.
    #[test]
    fn a_reader_cannot_write() {
        let file = create(AreaId(8), Path::new(PATH)).unwrap();
        file.set_len(4096).unwrap();
        let reader = ProcessFd::own(&file).open(AreaId(8), false).unwrap().unwrap();
        assert!(rustix::io::pwrite(&reader, b"x", 0).is_err());
        for flags in [libc::PROT_WRITE, libc::PROT_READ | libc::PROT_WRITE] {
            let fd = reader.as_raw_fd();
            // SAFETY: asks for a mapping that must be refused; an address of the kernel's choice.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), 4096, flags, libc::MAP_SHARED, fd, 0) };
            assert_eq!(at, libc::MAP_FAILED);
            let e = std::io::Error::last_os_error();
            assert_eq!(e.raw_os_error(), Some(libc::EACCES));
        }
        let writer = ProcessFd::own(&reader).open(AreaId(8), true).unwrap().unwrap();
        assert_eq!(rustix::io::pwrite(&writer, b"x", 0), Ok(1));
    }

    #[test]
    fn only_the_area_that_is_meant_is_opened() {
        let file = create(AreaId(9), Path::new(PATH)).unwrap();
        let place = ProcessFd::own(&file);
        assert!(place.open(AreaId(9), false).unwrap().is_some());
        assert!(place.open(AreaId(10), false).unwrap().is_none());
        let dev_null = File::open("/dev/null").unwrap();
        assert!(ProcessFd::own(&dev_null).open(AreaId(9), false).unwrap().is_none());
        assert!(
            ProcessFd { pid: place.pid, fd: 1 << 20 }.open(AreaId(9), false).unwrap().is_none()
        );
        assert!(ProcessFd { pid: u32::MAX >> 2, fd: 0 }.open(AreaId(9), false).unwrap().is_none());
        // Called alike, but it could shrink under a reader.
        let unsealed = fs::memfd_create(label(AreaId(9)), MemfdFlags::CLOEXEC).unwrap();
        let unsealed = File::from(unsealed);
        assert!(ProcessFd::own(&unsealed).open(AreaId(9), false).unwrap().is_none());
        let longer = fs::memfd_create(label(AreaId(9)) + "0", MemfdFlags::CLOEXEC).unwrap();
        let longer = File::from(longer);
        assert!(ProcessFd::own(&longer).open(AreaId(9), false).unwrap().is_none());
    }

    #[test]
    fn places_are_parsed_exactly() {
        let place = ProcessFd { pid: 12, fd: 3 };
        assert_eq!(ProcessFd::parse(&place.path()), Some(place));
        for text in [
            "",
            "/proc/12/fd/",
            "/proc/12/fd/3/..",
            "/proc/self/fd/3",
            "/proc/+12/fd/3",
            "/proc/012/fd/3",
            "/proc/12/fd/3 ",
            "/etc/passwd",
            "/proc/12/fd/-1",
            "proc/12/fd/3",
        ] {
            assert_eq!(ProcessFd::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_search_finds_the_holder_and_no_impostor() {
        let id = AreaId(super::super::process::random_id());
        let file = create(id, Path::new(PATH)).unwrap();
        let facts = file.metadata().unwrap();
        let identity = (facts.dev(), facts.ino());
        assert!(search(id, Some(identity), false).unwrap().is_some());
        assert!(search(id, Some((identity.0, identity.1 + 1)), false).unwrap().is_none());
        drop(file);
        assert!(search(id, None, false).unwrap().is_none());
    }
}
