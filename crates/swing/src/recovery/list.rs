//! Listing the areas of a namespace: sizes, owners, readers, and who came from whom.

use std::collections::HashMap;
use std::fs::File;

use crate::memory::lookup;
use crate::model::error::{Context, Fault, NamespaceError, Result};
use crate::model::manifest::Manifest;
use crate::model::name::AreaName;
use crate::model::units::{AreaId, ByteLen, Epoch};
use crate::namespace::files::{
    COMMITTED, EPHEMERAL, LINKS, MAX_LABEL_BYTES, MEMORY, OWNER_LOCK, REMOVED, SHARED, UNNAMED,
    manifest_epoch,
};
use crate::namespace::handle::Namespace;
use crate::namespace::info::Info;
use crate::namespace::manifest_file::{read_manifest, read_manifest_from};
use crate::namespace::newest;
use crate::namespace::owner_lock::{Owner, noted_memory, read_owner};
use crate::sys::file::{self, Folder};
use crate::sys::kept_file::Access;
use crate::sys::memfd;

/// One area as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AreaInfo {
    /// `None` for an unnamed area.
    pub name: Option<AreaName>,
    /// The area's identity.
    pub id: AreaId,
    /// Memory allocated in the area's own memory file.
    pub own: ByteLen,
    /// What its newest published state shows of other areas' memory.
    pub shared: ByteLen,
    /// Of `own`: what its newest published state does not show (being written, or old versions kept
    /// for readers).
    pub private: ByteLen,
    /// All that its newest published state shows.
    pub mapped: ByteLen,
    /// What its owner calls it besides, if it ends with that ([`crate::Area::end_with_process`]).
    pub label: Option<String>,
    /// The live process that writes it.
    pub owner: Option<Owner>,
    /// The newest epoch that can be hooked.
    pub shared_epoch: Option<Epoch>,
    /// The newest epoch that survives the owner.
    pub committed_epoch: Option<Epoch>,
    /// Processes that hold a lease on one of its states (of this pid namespace), ascending.
    pub readers: Vec<u32>,
    /// Its memory was a memfd and went with the last process that held it.
    pub lost: bool,
    /// When it was created, in nanoseconds since 1970.
    pub created_ns: u64,
    /// When its newest shared state was published, in nanoseconds since 1970.
    pub shared_ns: Option<u64>,
    /// The areas it was derived from or took memory from.
    pub parents: Vec<ParentInfo>,
}

/// An area that another one came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentInfo {
    /// The parent's identity.
    pub id: AreaId,
    /// Its name then; it may be gone or given again since.
    pub name: Option<AreaName>,
    /// The state that was taken.
    pub epoch: Epoch,
}

impl Namespace {
    /// All areas, named ones first, by name.
    pub fn list(&self) -> Result<Vec<AreaInfo>, NamespaceError> {
        let ctx = Context::path(self.path());
        self.list_inner().map_err(|fault| NamespaceError::from_fault(fault, &ctx))
    }

    /// Removed areas of which memory is left, because somebody needs it: those who hold a lease on
    /// a state are its readers; others depend on it as on a parent, and are listed as areas.
    pub fn list_removed(&self) -> Result<Vec<AreaInfo>, NamespaceError> {
        let ctx = Context::path(self.path());
        let folders = self.folder().names();
        let folders = folders.map_err(|fault| NamespaceError::from_fault(fault, &ctx))?;
        let locks = shared_locks();
        let removed = folders.iter().filter(|folder| folder.starts_with(REMOVED));
        let opened = removed.filter_map(|folder| self.folder().open_folder(folder).ok());
        let mut out: Vec<_> = opened.filter_map(|f| describe(&f, None, &locks)).collect();
        out.sort_by_key(|area| area.id);
        Ok(out)
    }

    /// The names of all areas that have one, ascending; also of those that were never published.
    pub fn names(&self) -> Result<Vec<AreaName>, NamespaceError> {
        let ctx = Context::path(self.path());
        let folders = self.folder().names();
        let folders = folders.map_err(|fault| NamespaceError::from_fault(fault, &ctx))?;
        let mut names: Vec<AreaName> =
            folders.iter().filter_map(|folder| AreaName::from_folder(folder)).collect();
        names.sort();
        Ok(names)
    }

    /// What the client left with the newest state that survives the owner, or else that was shared;
    /// `None` when there is no area of the name, or it was never published. Maps nothing.
    pub fn published_payload(&self, name: &AreaName) -> Result<Option<Vec<u8>>, NamespaceError> {
        let ctx = Context::path(self.path());
        let found = self.published_payload_inner(name);
        found.map_err(|fault| NamespaceError::from_fault(fault, &ctx))
    }

    fn published_payload_inner(&self, name: &AreaName) -> Result<Option<Vec<u8>>> {
        let folder = match self.folder().open_folder(&name.folder()) {
            Err(Fault::NotFound) => return Ok(None),
            other => other?,
        };
        for link in [COMMITTED].into_iter().chain(LINKS) {
            match read_manifest(&folder, link) {
                Err(Fault::NotFound) => {}
                other => return other.map(|manifest| Some(manifest.payload)),
            }
        }
        Ok(None)
    }

    fn list_inner(&self) -> Result<Vec<AreaInfo>> {
        let locks = shared_locks();
        let mut out = Vec::new();
        for folder_name in self.folder().names()? {
            let name = AreaName::from_folder(&folder_name);
            if name.is_none() && !folder_name.starts_with(UNNAMED) {
                continue;
            }
            // Areas may come and go while the list is made.
            let Ok(folder) = self.folder().open_folder(&folder_name) else {
                continue;
            };
            if let Some(info) = describe(&folder, name, &locks) {
                out.push(info);
            }
        }
        out.sort_by(|a, b| {
            (a.name.is_none(), &a.name, a.id).cmp(&(b.name.is_none(), &b.name, b.id))
        });
        Ok(out)
    }
}

fn describe(
    folder: &Folder,
    name: Option<AreaName>,
    locks: &HashMap<(u64, u64), Vec<u32>>,
) -> Option<AreaInfo> {
    let info = Info::read(folder)?;
    let lock = folder.open_read(OWNER_LOCK).ok();
    let owner = lock.as_ref().and_then(read_owner);
    let committed = read_manifest(folder, COMMITTED).ok();
    let shared = newest::open_newest(folder)
        .and_then(|file| read_manifest_from(&file, &folder.join(SHARED)))
        .ok()
        .or_else(|| LINKS.into_iter().find_map(|link| read_manifest(folder, link).ok()));
    let newest = committed.as_ref().or(shared.as_ref());
    let identity = newest.and_then(Manifest::own_identity);
    let memory = lookup::open(folder, MEMORY, info.id, identity, Access::Read);
    let lost = matches!(memory, Err(Fault::MemoryGone { .. })) && owner.is_none();
    let allocated = |file: &File| file::facts(file, folder.path()).map_or(0, |f| f.allocated);
    // An area that has moved on has a file besides.
    let former = || folder.open_read(MEMORY).map_or(0, |file| allocated(&file));
    let own = memory
        .map(|(file, facts)| facts.allocated + if memfd::is_one(&file) { former() } else { 0 })
        .ok()
        .or_else(|| noted_memory(lock.as_ref()?, owner.as_ref()?))
        .unwrap_or_else(former);
    let sum = |m: &Manifest, own: bool| -> u64 {
        m.runs.iter().filter(|r| (r.source == 0) == own).map(|r| r.len).sum()
    };
    let (own_shown, foreign) = newest.map_or((0, 0), |m| (sum(m, true), sum(m, false)));
    let parents = info.parents.iter();
    Some(AreaInfo {
        name,
        id: info.id,
        own: ByteLen(own),
        shared: ByteLen(foreign),
        private: ByteLen(own.saturating_sub(own_shown)),
        mapped: ByteLen(own_shown + foreign),
        label: label_of(folder),
        owner,
        shared_epoch: shared.as_ref().map(|m| m.epoch),
        committed_epoch: committed.as_ref().map(|m| m.epoch),
        readers: readers(folder, locks),
        lost,
        created_ns: info.created_ns,
        shared_ns: shared.as_ref().map(|m| m.published_ns),
        parents: parents
            .map(|p| ParentInfo { id: p.id, name: p.name.clone(), epoch: p.epoch })
            .collect(),
    })
}

/// What the owner of an area that ends with it calls it.
fn label_of(folder: &Folder) -> Option<String> {
    let file = folder.open_read(EPHEMERAL).ok()?;
    let bytes = file::read_all(&file, MAX_LABEL_BYTES as u64, &folder.join(EPHEMERAL)).ok()??;
    let label = String::from_utf8(bytes).ok()?;
    (!label.is_empty()).then_some(label)
}

/// The processes that hold a lease on a manifest of a folder.
fn readers(folder: &Folder, locks: &HashMap<(u64, u64), Vec<u32>>) -> Vec<u32> {
    let names = folder.names().unwrap_or_default();
    let mut pids: Vec<u32> = names
        .iter()
        .filter(|n| manifest_epoch(n).is_some())
        .filter_map(|n| folder.identity_of(n))
        .filter_map(|identity| locks.get(&identity))
        .flatten()
        .copied()
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// All shared flocks of the system, by device and inode.
fn shared_locks() -> HashMap<(u64, u64), Vec<u32>> {
    let mut out: HashMap<(u64, u64), Vec<u32>> = HashMap::new();
    for line in std::fs::read_to_string("/proc/locks").unwrap_or_default().lines() {
        if let Some((identity, pid)) = parse_lock(line) {
            out.entry(identity).or_default().push(pid);
        }
    }
    out
}

/// Parses `1: FLOCK  ADVISORY  READ 1234 00:1b:5678 0 EOF`.
fn parse_lock(line: &str) -> Option<((u64, u64), u32)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.get(1) != Some(&"FLOCK") || words.get(3) != Some(&"READ") {
        return None;
    }
    let pid = words.get(4)?.parse().ok()?;
    let mut place = words.get(5)?.split(':');
    let major = u32::from_str_radix(place.next()?, 16).ok()?;
    let minor = u32::from_str_radix(place.next()?, 16).ok()?;
    let ino = place.next()?.parse().ok()?;
    Some(((rustix::fs::makedev(major, minor), ino), pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_lines() {
        let line = "1: FLOCK  ADVISORY  READ 1234 00:1b:5678 0 EOF";
        assert_eq!(parse_lock(line), Some(((rustix::fs::makedev(0, 0x1b), 5678), 1234)));
        assert_eq!(parse_lock("1: FLOCK  ADVISORY  WRITE 1234 00:1b:5678 0 EOF"), None);
        assert_eq!(parse_lock("2: POSIX  ADVISORY  READ 1 00:1b:5678 0 EOF"), None);
        assert_eq!(parse_lock("2: -> FLOCK  ADVISORY  READ 1 00:1b:5678 0 EOF"), None);
        assert_eq!(parse_lock(""), None);
    }
}
