//! What an area's memory is made of: a file of the namespace's file system, or a sealed memfd.
//!
//! | | tmpfs file | sealed memfd |
//! |---|---|---|
//! | how much | what the mount's `size=` allows | what the machine, or the container, has |
//! | lives | until it is removed, or a reboot | as long as some process has it open |
//! | others open it | by its name in the area's folder | through a process that has it open |
//! | huge pages | mount option `huge=` | `/sys/kernel/mm/transparent_hugepage/shmem_enabled` |
//!
//! A file is better wherever it can be had, because a named area then outlives its processes.
//! Containers often have a `/dev/shm` of 64 MB, where next to nothing can be had. So, unless
//! somebody says otherwise, areas are memfds when the tmpfs of their namespace holds less than an
//! eighth of the memory this process may use ([`MIN_SHARE`]), and files else. Manifests, locks and
//! pins are files in both cases. Areas of both kinds may derive from each other.

use std::path::Path;

use crate::error::{Fault, Result};
use crate::sys::{file, room};
use crate::units::ByteLen;

/// The environment variable that decides for areas whose program does not: `auto`, `file` or
/// `memfd`.
pub const BACKING_VARIABLE: &str = "SWINGDB_BACKING";
/// A tmpfs of less than this part (one over this number) of the memory is too small to be useful.
pub const MIN_SHARE: u64 = 8;

/// What the memory of an area is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// What the namespace, else [`BACKING_VARIABLE`], else the size of the file system says.
    #[default]
    Auto,
    /// A sparse file in the area's folder.
    File,
    /// A sealed memfd: it lives as long as a process has it open.
    Memfd,
}

/// What new areas of a namespace are made of, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackingChoice {
    /// `File` or `Memfd`.
    pub backing: Backing,
    /// Whether the file system is a tmpfs too small to be useful.
    pub too_small: bool,
    /// The reason, as a sentence without a full stop.
    pub why: String,
}

impl BackingChoice {
    fn new(backing: Backing, why: String) -> Self {
        assert_ne!(backing, Backing::Auto, "a choice is a decision");
        Self { backing, too_small: false, why }
    }
}

/// Decides for the namespace directory `path`: the first of `wishes` that is not `Auto`, else the
/// environment, else the size of its file system.
pub(crate) fn choose(path: &Path, wishes: [Backing; 2]) -> Result<BackingChoice> {
    if let Some(wish) = wishes.into_iter().find(|w| *w != Backing::Auto) {
        return Ok(BackingChoice::new(wish, "the program asks for it".into()));
    }
    let variable = std::env::var_os(BACKING_VARIABLE).unwrap_or_default();
    match variable.to_str() {
        Some("" | "auto") => Ok(by_size(path)),
        Some("file") => Ok(BackingChoice::new(Backing::File, said(&variable))),
        Some("memfd") => Ok(BackingChoice::new(Backing::Memfd, said(&variable))),
        _ => {
            let text = format!("{}: it may be auto, file or memfd", said(&variable));
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, text);
            Err(Fault::io("choose the memory of areas in", path, source))
        }
    }
}

fn said(value: &std::ffi::OsStr) -> String {
    format!("{BACKING_VARIABLE} is {value:?}")
}

fn by_size(path: &Path) -> BackingChoice {
    let room = file::room_of(path).filter(|_| file::is_tmpfs(path));
    let (Some(room), Some(memory)) = (room, room::total()) else {
        return BackingChoice::new(Backing::File, "its file system has no limit of its own".into());
    };
    let sizes = format!("its file system holds {} of {memory} of memory", room.size);
    let too_small = is_too_small(room.size, memory);
    let backing = if too_small { Backing::Memfd } else { Backing::File };
    BackingChoice { too_small, ..BackingChoice::new(backing, sizes) }
}

/// The rule for a tmpfs of `size` where `memory` may be used in all. A mount without a limit says
/// that it holds nothing.
fn is_too_small(size: ByteLen, memory: ByteLen) -> bool {
    size.0 > 0 && size.0 < memory.0 / MIN_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_mounts() {
        let gib = ByteLen::gib;
        assert!(is_too_small(ByteLen::mib(64), gib(24)), "a container's");
        assert!(is_too_small(ByteLen::mib(64), gib(1)));
        assert!(!is_too_small(ByteLen::mib(64), ByteLen::mib(512)), "little memory anyway");
        assert!(!is_too_small(gib(12), gib(24)), "the kernel's default: a half");
        assert!(!is_too_small(gib(4), gib(24)));
        assert!(!is_too_small(ByteLen(0), gib(24)), "no limit");
    }

    #[test]
    fn the_first_wish_counts() {
        let here = Path::new("/");
        let choose = |wishes| choose(here, wishes).unwrap().backing;
        assert_eq!(choose([Backing::Memfd, Backing::File]), Backing::Memfd);
        assert_eq!(choose([Backing::Auto, Backing::Memfd]), Backing::Memfd);
        assert_eq!(choose([Backing::File, Backing::Auto]), Backing::File);
    }

    #[test]
    fn a_path_outside_memory_means_files() {
        let choice = by_size(Path::new("/proc"));
        assert_eq!((choice.backing, choice.too_small), (Backing::File, false));
    }
}
