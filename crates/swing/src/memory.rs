//! Finding and keeping the memory of areas, whatever it is made of.
//!
//! A file is in the area's folder under the name `memory`, and by a hard link in `parents` of the
//! areas that depend on it. For a memfd a symbolic link `memory.held` says where it is open:
//! `/proc/<pid>/fd/<n>` of the area's owner, or of the owner of the area that depends on it. The
//! link is read, never followed blindly; see [`crate::sys::memfd`]. An area that has moved on
//! ([`crate::moving`]) has both; each manifest says by device and inode which one it means.
//!
//! **Who holds it.** The owner, everybody who has a snapshot, and the owners and readers of derived
//! areas have it open. When the process that the link names is gone, whoever wants the memory looks
//! for another holder; an adopter then sets the link to itself. A process that closes a named area
//! in an orderly way keeps it open ([`retain`]) as long as it lives, so that the rule is simple:
//! such an area lives as long as a process that wrote it or reads it.
//!
//! **When nobody holds it** the area is lost: opening it is [`Fault::MemoryGone`], and a collector,
//! or whoever makes an area of that name, removes what is left. That it is lost is concluded from
//! locks, which reach into other containers, not only from what `/proc` shows: no owner's lock, no
//! lease and no pin on any of its manifests, and no lock on the file `holders`.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::area::State;
use crate::inventory::Inventory;
use crate::model::error::{Fault, Result};
use crate::model::manifest::Manifest;
use crate::model::units::AreaId;
use crate::namespace::files::{
    HOLDERS, MEMORY, OWNER_LOCK, PARENTS, held_name, manifest_name, parent_memory_name, pin_name,
};
use crate::namespace::info::Info;
use crate::namespace::lease;
use crate::namespace::owner_lock::read_owner;
use crate::sys::file::{self, FileFacts, Folder};
use crate::sys::kept_file::{self, KeptFile};
use crate::sys::memfd::{self, Place};
use crate::sys::sync::{Mutex, MutexGuard};

/// The temporary name of a link.
const NEW_LINK: &str = "t.memory";

/// How memory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

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
        Access::Read => folder.open_read(name),
        Access::Write => folder.open_write(name),
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
    let place = Place::parse(&link);
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
    let access = match access {
        Access::Read => kept_file::Access::Read,
        Access::Write => kept_file::Access::Write,
    };
    // Of a memfd the name leads nowhere, or to the file that was before it.
    KeptFile::known(file, facts.identity(), access).named(&folder.join(name))
}

/// Gives open memory a name in a folder: a hard link for a file, else where it is open.
pub(crate) fn give_name(folder: &Folder, file: impl AsFd, name: &str) -> Result<()> {
    if memfd::is_one(&file) {
        return folder.place_link(&Place::own(&file).path(), NEW_LINK, &held_name(name));
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

/// The memory files that manifests need: folder, name, area and identity of each.
fn needed<'a>(
    manifests: impl Iterator<Item = &'a Manifest>,
) -> Vec<(bool, String, AreaId, (u64, u64))> {
    let mut out: Vec<(bool, String, AreaId, (u64, u64))> = Vec::new();
    for manifest in manifests {
        let mut used = vec![false; manifest.sources.len()];
        manifest.runs.iter().for_each(|run| used[run.source as usize] = true);
        for (i, entry) in manifest.sources.iter().enumerate().filter(|(i, _)| used[*i]) {
            let name = if i == 0 { MEMORY.to_owned() } else { parent_memory_name(entry.area) };
            let one = (i > 0, name, entry.area, (entry.dev, entry.ino));
            if !out.contains(&one) {
                out.push(one);
            }
        }
    }
    out
}

/// Whether any memory of an area is a memfd, as far as names tell.
pub(crate) fn has_links(folder: &Folder) -> bool {
    folder.exists(&held_name(MEMORY)) || folder.exists(PARENTS)
}

/// Whether an area whose owner's lock is held by the caller has lost memory that its committed
/// state shows, for good.
pub(crate) fn is_lost(folder: &Folder, inventory: &Inventory) -> Result<bool> {
    let parents = folder.open_folder(PARENTS);
    let gone = |(of_parent, name, area, identity): &(bool, String, AreaId, (u64, u64))| {
        let place = match (of_parent, &parents) {
            (false, _) => folder,
            (true, Ok(parents)) => parents,
            (true, Err(_)) => return false,
        };
        let found = open(place, name, *area, Some(*identity), Access::Read);
        matches!(found, Err(Fault::MemoryGone { .. }))
    };
    if !needed(std::iter::once(&inventory.committed)).iter().any(gone) {
        return Ok(false);
    }
    // What `/proc` does not show may be held all the same, in another container.
    match folder.open_write(HOLDERS) {
        Ok(file) if !file::try_lock(&file, true, &folder.join(HOLDERS))? => return Ok(false),
        Ok(_) | Err(Fault::NotFound) => {}
        Err(fault) => return Err(fault),
    }
    for manifest in inventory.live.values() {
        let current = manifest.epoch == inventory.committed.epoch;
        let shared = inventory.shared == Some(manifest.epoch);
        // A state that the area itself came from has a pin in its own folder.
        let pin = pin_name(manifest.id, manifest.epoch);
        let pinned = parents.as_ref().is_ok_and(|parents| parents.exists(&pin));
        let links = 1 + u64::from(current) + u64::from(shared) + u64::from(pinned);
        if lease::is_held(folder, &manifest_name(manifest.epoch), links)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What this process keeps open of an area it has closed.
#[derive(Debug)]
struct Retained {
    area: AreaId,
    /// Its own memory and that of the areas it depends on.
    _memory: Vec<Arc<KeptFile>>,
    /// Locked shared; without a name when the area has been removed. It is a descriptor as the
    /// memory is, which is gone for others when the program has closed both.
    holders: Option<KeptFile>,
}

/// See [`lock_retained`].
pub(crate) struct RetainedLock {
    _guard: MutexGuard<'static, Vec<Retained>>,
}

static RETAINED: Mutex<Vec<Retained>> = Mutex::new(Vec::new());

/// Held over a fork, so that the child finds the list in order.
pub(crate) fn lock_retained() -> RetainedLock {
    RetainedLock { _guard: RETAINED.lock() }
}

/// Keeps the memfds of a closed area open as long as this process lives, or until it is opened
/// again or removed.
pub(crate) fn retain(folder: &Folder, area: AreaId, state: &State) {
    let own = state.memory.as_ref().map(|m| &m.file);
    let sources = state.sources.iter().flatten().map(|s| &s.file);
    let is_memfd = |file: &&Arc<KeptFile>| file.here().is_ok_and(memfd::is_one);
    let memory: Vec<Arc<KeptFile>> =
        own.into_iter().chain(sources).filter(is_memfd).cloned().collect();
    if memory.is_empty() {
        return;
    }
    let holders = folder.open_write(HOLDERS).or_else(|_| folder.create_new(HOLDERS));
    // Without the lock a collector in another container may take the area for lost: only then.
    let locked = |file: &File| file::try_lock(file, false, &folder.join(HOLDERS)).unwrap_or(false);
    let holders = holders.ok().filter(locked);
    let holders = holders.and_then(|file| KeptFile::new(file, kept_file::Access::Write).ok());
    let mut list = RETAINED.lock();
    prune(&mut list);
    list.retain(|r| r.area != area);
    list.push(Retained { area, _memory: memory, holders });
}

/// The area is open again, or gone.
pub(crate) fn release(area: AreaId) {
    RETAINED.lock().retain(|r| r.area != area);
}

/// Lets go of areas that others have removed.
pub(crate) fn release_removed() {
    prune(&mut RETAINED.lock());
}

fn prune(list: &mut MutexGuard<'_, Vec<Retained>>) {
    let facts = |file: &KeptFile| file::facts(file.here().ok()?, Path::new(HOLDERS)).ok();
    let removed = |file: &KeptFile| facts(file).is_some_and(|facts| facts.links == 0);
    list.retain(|r| !r.holders.as_ref().is_some_and(removed));
}
