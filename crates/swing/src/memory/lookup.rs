//! Finding and keeping the memory of areas, in files and in memfds.
//!
//! A file is in the area's folder under the name `memory`, and in `parents` of dependent areas by a
//! hard link. For a memfd a symbolic link `memory.held` names an open descriptor,
//! `/proc/<pid>/fd/<n>`, of the area's owner, or of the owner of the dependent area. The link is
//! read, never followed blindly; see [`crate::sys::memfd`]. An area that was migrated
//! ([`crate::write::migrate`]) has both; each manifest names its file by device and inode.
//!
//! **Holders.** The owner, all snapshots, and the owners and readers of derived areas have the
//! memfd open. If the process that the link names is gone, a process that needs the memory looks
//! for another holder. An adopter sets the link to itself. A process that closes a named area in
//! order keeps the memfd open ([`crate::memory::retained`]) as long as it lives. So the rule is
//! simple: such an area lives as long as a process that wrote it or reads it.
//!
//! **Without a holder** the area is lost: opening it is [`Fault::MemoryGone`]. A collector, or the
//! next process that makes an area of that name, removes what is left ([`crate::recovery::lost`]).

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::model::error::{Fault, Result};
use crate::model::manifest::Manifest;
use crate::model::units::AreaId;
use crate::namespace::files::{MEMORY, OWNER_LOCK, held_name};
use crate::namespace::info::Info;
use crate::namespace::owner_lock::read_owner;
use crate::sys::file::{self, FileFacts, Folder};
use crate::sys::kept_file::{Access, KeptFile};
use crate::sys::memfd::{self, ProcessFd};

/// The temporary name of a link.
const NEW_LINK: &str = "t.memory";

/// Opens the memory of `area` by its name in a folder. `identity` is the device and inode that a
/// manifest names: they tell a file from the memfd after it, and holders apart. A file that does
/// not fit is returned all the same when there is no memfd.
pub(crate) fn open(
    folder: &Folder,
    name: &str,
    area: AreaId,
    identity: Option<(u64, u64)>,
    access: Access,
) -> Result<(File, FileFacts)> {
    let with_facts = |file: File| {
        let facts = file::facts(&file, &folder.join(name))?;
        Ok((file, facts))
    };
    let opened = match access {
        Access::Write => folder.open_write(name),
        Access::Read | Access::Folder => folder.open_read(name),
    };
    let opened = opened.and_then(with_facts);
    match &opened {
        Ok((_, facts)) if identity.is_none_or(|id| facts.identity() == id) => return opened,
        Ok(_) | Err(Fault::NotFound) => {}
        Err(_) => return opened,
    }
    match open_held(folder, name, area, identity, access == Access::Write) {
        Err(Fault::NotFound) => opened,
        held => held.and_then(with_facts),
    }
}

/// Device and inode of an open file.
fn identity_of(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|m| (m.dev(), m.ino()))
}

/// Opens a memfd through the process that the link names, else through any that has it open.
fn open_held(
    folder: &Folder,
    name: &str,
    area: AreaId,
    identity: Option<(u64, u64)>,
    writable: bool,
) -> Result<File> {
    let link = folder.read_link(&held_name(name))?;
    // A search finds memory wherever it is held, also that of another area than this folder's.
    if name == MEMORY && Info::read(folder).is_some_and(|info| info.id != area) {
        return Err(Fault::corrupt(folder.path(), "a manifest of another area"));
    }
    let place = ProcessFd::parse(&link);
    let named = place.map_or(Ok(None), |place| place.open(area, writable));
    let fits = |file: &File| identity.is_none_or(|id| identity_of(file) == Some(id));
    if let Ok(Some(file)) = named
        && fits(&file)
    {
        return Ok(file);
    }
    if let Some(file) = memfd::search(area, identity, writable)? {
        return Ok(file);
    }
    // A process that is there but may not be asked is another matter than one that is gone.
    place.map_or(Ok(None), |place| place.open(area, writable))?;
    Err(Fault::MemoryGone { path: folder.join(&held_name(name)) })
}

/// Checks that an opened memory file is the one the manifest means, and long enough: a mapping
/// beyond the end would be a SIGBUS at the first read.
pub(crate) fn check_memory(
    manifest: &Manifest,
    source: usize,
    facts: &FileFacts,
    path: &Path,
) -> Result<()> {
    let entry = &manifest.sources[source];
    if !facts.regular || facts.identity() != (entry.dev, entry.ino) {
        return Err(Fault::corrupt(path, "not the memory file that was published"));
    }
    let needed = manifest
        .runs
        .iter()
        .filter(|r| r.source as usize == source)
        .map(|r| r.file_offset + r.len)
        .max();
    if needed.is_some_and(|n| n > facts.len) {
        return Err(Fault::corrupt(path, format!("{} bytes long, too short", facts.len)));
    }
    Ok(())
}

/// How often an owner's lock is tried that a collector may hold for a moment, a millisecond apart.
const MAX_LOCK_TRIES: u32 = 8;

/// Why a reader does not find an area's memory: nobody has it, or a process that it cannot see.
pub(crate) fn why_gone(folder: &Folder, gone: Fault) -> Fault {
    if !is_owned_out_of_sight(folder) {
        return gone;
    }
    let why = "its owner lives, but is in another pid namespace, or may not be looked at";
    Fault::io("find the memory of", folder.path(), std::io::Error::other(why))
}

/// Whether a process that cannot be seen from here has the owner's lock.
fn is_owned_out_of_sight(folder: &Folder) -> bool {
    let Ok(lock) = folder.open_read(OWNER_LOCK) else { return false };
    (0..MAX_LOCK_TRIES).all(|tries| {
        if tries > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_free = file::try_lock(&lock, false, &folder.join(OWNER_LOCK));
        matches!(is_free, Ok(false)) && read_owner(&lock).is_none()
    })
}

/// Keeps memory that [`open`] has opened. One with a name is opened again by that when the program
/// has closed it.
pub(crate) fn keep(
    folder: &Folder,
    name: &str,
    (file, facts): (File, FileFacts),
    access: Access,
) -> KeptFile {
    // Of a memfd the name leads nowhere, or to the file that was before it.
    KeptFile::known(file, facts.identity(), access).named(&folder.join(name))
}

/// Gives open memory a name in a folder: a hard link for a file, else where it is open.
pub(crate) fn give_name(folder: &Folder, file: impl AsFd, name: &str) -> Result<()> {
    if memfd::is_one(&file) {
        return folder.place_link(&ProcessFd::own(&file).path(), NEW_LINK, &held_name(name));
    }
    folder.link_file(file, name).map(|_| ())
}

/// Takes the name away that [`give_name`] gave to the memory with this identity.
pub(crate) fn drop_name(folder: &Folder, identity: (u64, u64), name: &str) -> Result<()> {
    folder.unlink(&present_name(folder, name, identity))
}

/// The name under which a folder has the memory with this identity, if it has it.
pub(crate) fn present_name(folder: &Folder, name: &str, identity: (u64, u64)) -> String {
    let is_file = folder.identity_of(name) == Some(identity);
    if is_file { name.to_owned() } else { held_name(name) }
}

/// After an adoption: the link names this process, which has just opened the memory itself.
pub(crate) fn take_name(folder: &Folder, file: impl AsFd, name: &str) -> Result<()> {
    if memfd::is_one(&file) { give_name(folder, file, name) } else { Ok(()) }
}
