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
//! Containers often have a `/dev/shm` of 64 MB, where little can be had. So, unless somebody says
//! otherwise, areas are files as long as the tmpfs of their namespace has room, and go on in a
//! memfd when it has not ([`crate::write::migrate`]); an area that begins when there is none is a
//! memfd from its begin. Manifests, locks and pins are files in all cases; [`headroom`] is left for
//! them. Areas of all kinds may derive from each other.

use std::path::Path;

use crate::model::backing::Backing;
use crate::model::error::{Context, Fault, NamespaceError, Result};
use crate::model::units::ByteLen;
use crate::namespace::handle::Namespace;
use crate::sys::file::{self, FreeSpace};
use crate::sys::memory_limits;

/// The environment variable that decides for areas whose program does not: `auto`, `file` or
/// `memfd`.
pub const BACKING_VARIABLE: &str = "SWINGDB_BACKING";
/// A tmpfs of less than this part (one over this number) of the memory counts as small.
pub const MIN_SHARE: u64 = 8;
/// This part of a tmpfs is left for manifests and the like, but no more than [`MAX_HEADROOM`].
const HEADROOM_SHARE: u64 = 16;
const MAX_HEADROOM: ByteLen = ByteLen::mib(64);

/// What new areas of a namespace are made of, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackingChoice {
    /// `File` or `Memfd`.
    pub backing: Backing,
    /// Nobody has chosen: a file is exchanged for a memfd when its file system is full.
    pub automatic: bool,
    /// Whether the file system is a small tmpfs, for the memory there is: what does not fit lives
    /// only as long as some process has it open.
    pub too_small: bool,
    /// The reason, as a sentence without a full stop.
    pub why: String,
}

impl BackingChoice {
    fn new(backing: Backing, why: String) -> Self {
        assert_ne!(backing, Backing::Auto, "a choice is a decision");
        Self { backing, automatic: false, too_small: false, why }
    }
}

impl Namespace {
    /// What new areas are made of when their options leave it open, and why.
    pub fn backing(&self) -> Result<BackingChoice, NamespaceError> {
        let ctx = Context::path(self.path());
        self.choose_backing(Backing::Auto).map_err(|f| NamespaceError::from_fault(f, &ctx))
    }

    pub(crate) fn choose_backing(&self, wish: Backing) -> Result<BackingChoice> {
        choose(self.path(), [wish, self.wished_backing()])
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

/// What a tmpfs of this size keeps free of the memory of areas.
pub(crate) fn headroom(size: ByteLen) -> ByteLen {
    ByteLen(size.0 / HEADROOM_SHARE).min(MAX_HEADROOM)
}

fn by_size(path: &Path) -> BackingChoice {
    let room = file::free_space(path).filter(|room| file::is_tmpfs(path) && room.size.0 > 0);
    let Some(room) = room else {
        return BackingChoice::new(Backing::File, "its file system has no limit of its own".into());
    };
    let memory = memory_limits::total().unwrap_or(room.size);
    let FreeSpace { size, free } = room;
    let why = format!("its file system holds {size} of {memory} of memory, and has {free} free");
    let backing = if has_room(room) { Backing::File } else { Backing::Memfd };
    let too_small = is_small(size, memory);
    BackingChoice { automatic: true, too_small, ..BackingChoice::new(backing, why) }
}

/// Whether it is worth while to begin a file.
fn has_room(room: FreeSpace) -> bool {
    room.free.0 > 2 * headroom(room.size).0
}

/// Whether a tmpfs of `size` is small where `memory` may be used in all.
fn is_small(size: ByteLen, memory: ByteLen) -> bool {
    size.0 < memory.0 / MIN_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_mounts() {
        let (gib, mib) = (ByteLen::gib, ByteLen::mib);
        assert!(is_small(mib(64), gib(24)), "a container's");
        assert!(is_small(mib(64), gib(1)));
        assert!(!is_small(mib(64), mib(512)), "little memory anyway");
        assert!(!is_small(gib(12), gib(24)), "the kernel's default: a half");
        assert!(!is_small(gib(4), gib(24)));
    }

    #[test]
    fn room_is_left_for_manifests() {
        let (gib, mib) = (ByteLen::gib, ByteLen::mib);
        assert_eq!([headroom(mib(64)), headroom(gib(24))], [mib(4), mib(64)]);
        let has_room = |free, size| has_room(FreeSpace { free, size });
        assert!(has_room(mib(64), mib(64)) && has_room(gib(1), gib(24)));
        assert!(!has_room(mib(8), mib(64)) && !has_room(mib(128), gib(24)));
        assert!(!has_room(mib(0), mib(64)));
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
        assert_eq!((choice.backing, choice.automatic), (Backing::File, false));
        assert!(!choice.too_small);
    }
}
